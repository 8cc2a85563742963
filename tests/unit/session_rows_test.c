// Rows: which of an input a rank needs, feeding only those, and notes in checkpoints. links: all
#include <math.h>
#include <unistd.h>

#include "run_support.h"
#include "shoal/checkpoint.h"
#include "shoal/session.h"
#include "unit/zoo_sizes.h"

enum { BATCH = 7, IN = 5 };

typedef struct job {
  const shoal_model_t *model;
  const char *strategy, *mesh;
  bool whole;   // feed everything
  bool differ;  // rank 1 feeds other data than it should
  double losses[MOST_RANKS];
  bool needs[MOST_RANKS][BATCH];
} job_t;

static shoal_status_t feed(shoal_session_t *session, const job_t *job, int32_t rank,
                           const bool *needs) {
  double x[BATCH * IN];
  int32_t y[BATCH];
  for (int i = 0; i < BATCH; ++i) {
    const bool good = job->whole || needs[i];
    for (int k = 0; k < IN; ++k) x[i * IN + k] = good ? sin(i * 9 + k) : 1e30 * (rank + 1);
    if (job->differ && rank == 1) x[i * IN] += 1;
    y[i] = good ? i % 3 : -7;
  }
  if (job->whole) {
    SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, sizeof x));
    return shoal_feed(session, "y", y, sizeof y);
  }
  SHOAL_RETURN_IF_ERROR(shoal_feed_rows(session, "x", x, sizeof x));
  return shoal_feed_rows(session, "y", y, sizeof y);
}

static shoal_status_t run(shoal_session_t *session, job_t *job, int32_t rank,
                          shoal_arena_t *arena) {
  int64_t count;
  const shoal_interval_t *rows;
  SHOAL_RETURN_IF_ERROR(shoal_session_rows(session, "train", "x", arena, &count, &rows));
  for (int64_t i = 0; i < count; ++i) {
    EXPECT(rows[i].size > 0 && rows[i].start >= 0 && rows[i].start + rows[i].size <= BATCH &&
               (i == 0 || rows[i].start > rows[i - 1].start + rows[i - 1].size),
           "interval %d is not in order", (int)i);
    for (int64_t k = 0; k < rows[i].size; ++k) job->needs[rank][rows[i].start + k] = true;
  }
  SHOAL_RETURN_IF_ERROR(feed(session, job, rank, job->needs[rank]));
  SHOAL_RETURN_IF_ERROR(shoal_run(session, "train"));
  return shoal_fetch(session, "loss", &job->losses[rank], sizeof(double));
}

static shoal_status_t run_rank(void *self, shoal_world_t *world) {
  job_t *job = self;
  shoal_session_t *session = NULL;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  const shoal_parallelize_options_t options = {
      .world = world, .strategy = job->strategy, .mesh = job->mesh};
  shoal_status_t status = shoal_parallelize(job->model, &options, &session);
  if (!status) status = run(session, job, shoal_world_rank(world), &arena);
  shoal_session_free(session);
  shoal_arena_deinit(&arena);
  return status;
}

static shoal_model_t *make_model(void) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 11}, &model));
  add_mlp(model, &(mlp_sizes_t){.batch = BATCH, .in_features = IN, .hidden = 9, .classes = 3});
  assert_ok(shoal_model_status(model));
  return model;
}

// Rows that a rank does not need hold garbage.
static void test_feed_rows(void **state) {
  (void)state;
  static const struct {
    int32_t ranks;
    const char *strategy, *mesh;
    int least, most;  // rows of a rank
  } cases[] = {{3, "data", NULL, 2, 3},
               {2, "data", "data=2,micro=3", 3, 4},
               {2, "tensor", NULL, 7, 7},
               {4, "tensor", "data=2,tensor=2", 3, 4}};
  shoal_model_t *model = make_model();
  job_t one = {.model = model, .strategy = "single", .whole = true};
  run_ranks_ok(1, run_rank, &one);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    job_t job = {.model = model, .strategy = cases[i].strategy, .mesh = cases[i].mesh};
    run_ranks_ok(cases[i].ranks, run_rank, &job);
    int covered[BATCH] = {0};
    for (int32_t r = 0; r < cases[i].ranks; ++r) {
      int rows = 0;
      for (int k = 0; k < BATCH; ++k) rows += job.needs[r][k];
      for (int k = 0; k < BATCH; ++k) covered[k] += job.needs[r][k];
      assert_true(rows >= cases[i].least && rows <= cases[i].most);
      assert_true(fabs(job.losses[r] - one.losses[0]) < 1e-10);
    }
    for (int k = 0; k < BATCH; ++k) assert_true(covered[k] > 0);
  }
  shoal_model_free(model);
}

// Ranks that need the same rows must be fed the same.
static void test_rows_are_compared(void **state) {
  (void)state;
  shoal_model_t *model = make_model();
  job_t job = {.model = model, .strategy = "tensor", .differ = true};
  shoal_status_t statuses[2] = {0};
  run_ranks(2, run_rank, &job, statuses);
  for (int i = 0; i < 2; ++i) {  // one of them may hear of it from the other
    assert_non_null(statuses[i]);
    assert_non_null(strstr(shoal_status_message(statuses[i]), "different batches: input 'x'"));
    shoal_status_free(statuses[i]);
  }
  shoal_model_free(model);
}

static void test_notes(void **state) {
  (void)state;
  char path[] = "/tmp/shoal_notes_XXXXXX", file[64];
  assert_non_null(mkdtemp(path));
  snprintf(file, sizeof file, "%s/model.safetensors", path);
  shoal_model_t *model = make_model();
  shoal_session_t *session;
  shoal_arena_t arena;
  const char *text;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_parallelize(model, NULL, &session));
  assert_error(INVALID_ARGUMENT, "'a b'", shoal_session_note(session, "a b", "x"));
  assert_error(INVALID_ARGUMENT, "no name", shoal_session_note(session, "", "x"));
  assert_ok(shoal_session_note(session, "mine", "old"));
  assert_ok(shoal_session_note(session, "gone", "here"));
  assert_ok(shoal_session_note(session, "mine", "new \"text\""));
  assert_ok(shoal_session_note(session, "gone", NULL));
  assert_ok(shoal_save(session, path));
  assert_ok(shoal_checkpoint_note(path, "mine", &arena, &text));
  assert_string_equal(text, "new \"text\"");
  assert_ok(shoal_checkpoint_note(file, "seed", &arena, &text));
  assert_string_equal(text, "11");
  assert_ok(shoal_checkpoint_note(path, "gone", &arena, &text));
  assert_null(text);
  assert_error(NOT_FOUND, "nowhere", shoal_checkpoint_note("/nowhere", "mine", &arena, &text));
  shoal_session_free(session);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
  unlink(file);
  rmdir(path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_feed_rows),
      cmocka_unit_test(test_rows_are_compared),
      cmocka_unit_test(test_notes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
