// A training session of two ranks with the Nth message lost or delayed, for every N of both: a loss
// ends in a named error on both ranks, a delay in the losses and weights of an undisturbed run, bit
// by bit. From making the session to its last fetch. links: all
#include <math.h>

#include "comm/backends/throttle/throttle.h"
#include "comm_throttled.h"
#include "run_support.h"
#include "shoal/session.h"
#include "unit/zoo_sizes.h"

enum { RANKS = 2, BATCH = 6, IN = 5, HIDDEN = 7, STEPS = 2, WEIGHTS = IN * HIDDEN };

typedef struct result {
  double losses[STEPS], weights[WEIGHTS];
} result_t;

typedef struct job {
  const shoal_model_t *model;
  const char *strategy;
  bool loses;
  result_t results[RANKS];
  int64_t sent[RANKS];
} job_t;

static shoal_model_t *make_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 11}, &model));
  add_mlp(model, &(mlp_sizes_t){.batch = BATCH,
                                .in_features = IN,
                                .hidden = HIDDEN,
                                .classes = 3,
                                .layers = 2,
                                .lr = 0.05});
  assert_ok(shoal_model_status(model));
  return model;
}

static const char *weight_name(const shoal_program_t *program) {
  for (int64_t i = 0; i < program->state_count; ++i) {
    const shoal_type_t *type = &program->states[i].type;
    if (type->shape.rank == 2 && type->shape.dims[0] == IN) return program->states[i].name;
  }
  return "";
}

static shoal_status_t train(shoal_session_t *session, result_t *result) {
  for (int step = 0; step < STEPS; ++step) {
    double x[BATCH * IN];
    int32_t y[BATCH];
    for (int i = 0; i < BATCH * IN; ++i) x[i] = sin((double)(i * 3 + step * 17));
    for (int i = 0; i < BATCH; ++i) y[i] = (i + step) % 3;
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "y", y, sizeof y));
    SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
    SHOAL_RETURN_IF_ERROR(shoal_fetch(session, "loss", &result->losses[step], sizeof(double)));
  }
  return shoal_session_get(session, weight_name(shoal_session_program(session)), result->weights,
                           sizeof result->weights);
}

// A report says itself once, however many layers it passes.
static bool is_said_once(const char *message, const char *part) {
  const char *first = strstr(message, part);
  return !first || !strstr(first + 1, part);
}

static bool is_named(shoal_status_t status) {
  const char *message = shoal_status_message(status);
  if (!is_said_once(message, "no progress in") || !is_said_once(message, " expects ")) return false;
  const shoal_code_t code = shoal_status_code(status);
  return (code == SHOAL_DEADLINE && strstr(message, " waits to ") && strstr(message, " rank ")) ||
         (code == SHOAL_MISMATCH && strstr(message, " expects ") && strstr(message, " from rank "));
}

static shoal_status_t rank_body(void *self, shoal_world_t *world) {
  job_t *job = self;
  const int32_t me = shoal_world_rank(world);
  shoal_session_t *session = NULL;
  shoal_status_t status = shoal_parallelize(
      job->model, &(shoal_parallelize_options_t){.world = world, .strategy = job->strategy},
      &session);
  if (!status) status = train(session, &job->results[me]);
  job->sent[me] = shoal_throttle_sent(world);
  // A rank that needed nothing from the lost message hears of it in its next call.
  if (!status && job->loses) status = shoal_world_agree(world, NULL);
  if (!status) shoal_session_free(session);
  if (!job->loses || !status) {
    EXPECT(!job->loses, "rank %d: a message was lost, and nobody noticed", me);
    return status;
  }
  shoal_session_free(session);
  if (!is_named(status)) return shoal_status_annotate(status, "not an error of the expected kind");
  shoal_status_free(status);
  return NULL;
}

static void run_with(job_t *job, const char *fault, int64_t message, int32_t rank) {
  char settings[64];
  shoal_status_t statuses[MOST_RANKS];
  snprintf(settings, sizeof settings, fault, (long long)message, rank);
  throttle(NULL, settings);
  print_message("%s\r", settings);  // the last one is the reproducer
  run_ranks_within(job->loses ? 100 : 60000, RANKS, rank_body, job, statuses);
  unthrottle();
  for (int32_t r = 0; r < RANKS; ++r) assert_ok(statuses[r]);
}

static void test_strategy(const char *strategy) {
  // Planning is what takes the time, with sanitizers: there every third message has to do.
  const char *sanitize = getenv("SHOAL_SANITIZE");
  const int64_t stride = sanitize && sanitize[0] ? 3 : 1;
  shoal_model_t *model = make_model();
  job_t plain = {.model = model, .strategy = strategy};
  run_with(&plain, "delay=%lld@%d:1us", 1000000, 0);
  print_message("%s: %lld and %lld messages\n", strategy, (long long)plain.sent[0],
                (long long)plain.sent[1]);
  for (int32_t r = 0; r < RANKS; ++r) {
    assert_true(plain.sent[r] >= 10);
    for (int64_t n = 1; n <= plain.sent[r]; n += stride) {
      job_t lost = {.model = model, .strategy = strategy, .loses = true};
      run_with(&lost, "lose=%lld@%d", n, r);
      job_t late = {.model = model, .strategy = strategy};
      run_with(&late, "delay=%lld@%d:10ms", n, r);
      assert_memory_equal(late.results, plain.results, sizeof plain.results);
      assert_memory_equal(late.sent, plain.sent, sizeof plain.sent);
    }
  }
  shoal_model_free(model);
}

static void test_data(void **state) {
  (void)state;
  test_strategy("data");
}

static void test_tensor(void **state) {
  (void)state;
  test_strategy("tensor");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_data),
      cmocka_unit_test(test_tensor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
