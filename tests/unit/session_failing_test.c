// Failure on purpose: the Nth allocation of one rank of two fails. The session's life must end in
// the same status on both ranks, or in success where the allocation was not needed, without a leak
// and without a hang. links: all
#include <math.h>

#include "base/failing.h"
#include "run_support.h"
#include "shoal/session.h"
#include "unit/zoo_sizes.h"

enum { BATCH = 4, IN = 3 };

typedef struct job {
  const shoal_model_t *model;
  const char *strategy, *mesh;
  bool opaque;
  shoal_failing_t failing[2];
  char path[64];
} job_t;

static shoal_status_t live(shoal_session_t *session, const char *path, bool async) {
  double x[BATCH * IN], loss, weight[64];
  int32_t y[BATCH];
  for (int i = 0; i < BATCH * IN; ++i) x[i] = sin((double)i);
  for (int i = 0; i < BATCH; ++i) y[i] = i % 2;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
  for (int step = 0; step < 3; ++step) {
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "loss", &loss, sizeof loss));
  }
  const shoal_program_state_t *state = &shoal_session_program(session)->states[0];
  const size_t bytes =
      (size_t)shoal_shape_count(&state->type.shape) * shoal_dtype_size(state->type.dtype);
  SHOAL_RETURN_IF_ERROR(shoal_session_get(session, state->name, weight, bytes));
  SHOAL_RETURN_IF_ERROR(shoal_session_set(session, state->name, weight, bytes));
  SHOAL_RETURN_IF_ERROR(
      shoal_save_with(session, path, &(shoal_save_options_t){.training = true, .async = async}));
  return shoal_load(session, path);
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_session_t *session;
  SHOAL_RETURN_IF_ERROR(shoal_parallelize(
      job->model,
      &(shoal_parallelize_options_t){
          .allocator = shoal_allocator_failing(&job->failing[shoal_world_rank(world)]),
          .world = world,
          .strategy = job->strategy,
          .mesh = job->mesh,
          .opaque = job->opaque,
      },
      &session));
  shoal_status_t status = live(session, job->path, job->opaque);
  shoal_session_free(session);
  return status;
}

// Returns the code both ranks ended with.
static shoal_code_t live_once(job_t *job, int rank, int64_t fail_at) {
  for (int r = 0; r < 2; ++r) {
    job->failing[r] = (shoal_failing_t){0};
    job->failing[r].fail_at = r == rank ? fail_at : 0;
  }
  shoal_status_t statuses[MOST_RANKS];
  run_ranks(2, rank_body, job, statuses);
  const shoal_code_t code = shoal_status_code(statuses[0]);
  if (code != shoal_status_code(statuses[1])) {
    fail_msg("allocation %lld of rank %d: %s '%s', %s '%s'", (long long)fail_at, rank,
             shoal_code_name(code), shoal_status_message(statuses[0]),
             shoal_code_name(shoal_status_code(statuses[1])), shoal_status_message(statuses[1]));
  }
  // What broke is named: out of memory, told as itself or quoted.
  for (int r = 0; r < 2; ++r) {
    if (statuses[r] && !strstr(shoal_status_message(statuses[r]), "memory")) {
      fail_msg("allocation %lld of rank %d: %s", (long long)fail_at, rank,
               shoal_status_message(statuses[r]));
    }
    shoal_status_free(statuses[r]);
    if (atomic_load(&job->failing[r].live_blocks) != 0) {
      fail_msg("allocation %lld of rank %d: rank %d leaks %lld blocks", (long long)fail_at, rank, r,
               (long long)job->failing[r].live_blocks);
    }
  }
  return code;
}

static void test_nth_allocation(void **state) {
  (void)state;
  static const struct {
    const char *strategy, *mesh;
    bool opaque;
  } cases[] = {{"data", "data=2,micro=2", false}, {"tensor", NULL, true}};
  shoal_model_t *model;
  assert_ok(shoal_model_create(NULL, &model));
  add_mlp(
      model,
      &(mlp_sizes_t){
          .batch = BATCH, .in_features = IN, .hidden = 4, .classes = 2, .layers = 1, .sgd = true});
  assert_ok(shoal_model_status(model));
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    job_t job = {.model = model,
                 .strategy = cases[i].strategy,
                 .mesh = cases[i].mesh,
                 .opaque = cases[i].opaque,
                 .path = "/tmp/shoal_failing_XXXXXX"};
    assert_non_null(mkdtemp(job.path));
    assert_int_equal(live_once(&job, 0, 0), SHOAL_OK);
    const int64_t total = job.failing[0].calls;
    // All of them take long: every one in the session's own life, a sample of planning's.
    const char *every = getenv("SHOAL_EVERY_ALLOCATION");
    const int64_t stride = every ? 1 : 37;
    int64_t failed = 0;
    for (int64_t n = 1; n <= total; n += n + 400 < total ? stride : every ? 1 : 3) {
      failed += live_once(&job, (int)(n / stride % 2), n) != SHOAL_OK;
    }
    print_message("%s: %lld allocations, %lld failures\n", job.strategy, (long long)total,
                  (long long)failed);
    assert_true(failed > 50);
    assert_int_equal(live_once(&job, 0, total + 1), SHOAL_OK);
    char command[128];
    snprintf(command, sizeof command, "rm -rf %s", job.path);
    assert_int_equal(system(command), 0);
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_nth_allocation)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
