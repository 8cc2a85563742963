// Watching: scalars and norms of values, states and gradients beside the loss, on any mesh; the
// first value that is no number is named, the same on every rank, and an update that makes one is
// found though nothing follows. links: all
#include <stdlib.h>

#include "train_support.h"

// ---- watching -------------------------------------------------------------------------

typedef struct watched {
  double norms[4][MOST_STEPS + 1];
  char names[4][96];
  int64_t count;
} watched_t;

static shoal_status_t keep_metrics(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  watched_t *watched = self;
  if (event->kind != SHOAL_TRAIN_LOG) return NULL;
  if (shoal_world_rank(shoal_session_world(event->session)) > 0) return NULL;
  watched->count = event->metric_count;
  for (int64_t i = 0; i < event->metric_count && i < 4; ++i) {
    watched->norms[i][event->step] = event->metrics[i].value;
    snprintf(watched->names[i], sizeof watched->names[i], "%s", event->metrics[i].name);
  }
  return NULL;
}

static const char *const patterns[] = {"fc1/weight", "fc1/relu", "lr", "relu", NULL};
static const char *const some[] = {"fc1/weight", "relu", "lr", NULL};

static watched_t watch_on(int32_t ranks, const char *strategy, const char *mesh) {
  watched_t watched = {0};
  run_t run = make_run((shoal_train_options_t){.steps = 3, .watch = some, .hook = keep_metrics});
  run.options.hook_self = &watched;
  run.options.parallelize.strategy = strategy;
  run.options.parallelize.mesh = mesh;
  run_on(ranks, &run);
  return watched;
}

static void test_watch(void **state) {
  (void)state;
  const watched_t one = watch_on(1, "single", NULL);
  assert_int_equal(one.count, 3);
  // The norm of the initial weight, as the session has it.
  shoal_model_t *model;
  shoal_session_t *session;
  double weight[WIDTH * 7], sum = 0;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 11}, &model));
  build_small(NULL, shoal_model_graph(model, "train"), "train", 6);
  assert_ok(shoal_parallelize(model, NULL, &session));
  assert_ok(shoal_session_get(session, "fc1/weight", weight, sizeof weight));
  for (int i = 0; i < WIDTH * 7; ++i) sum += weight[i] * weight[i];
  shoal_session_free(session);
  shoal_model_free(model);
  bool found = false;
  for (int64_t i = 0; i < 3; ++i) {
    if (strcmp(one.names[i], "lr") == 0) assert_true(fabs(one.norms[i][2] - 0.02) < 1e-8);
    if (strcmp(one.names[i], "fc1/weight") != 0) continue;
    assert_true(fabs(one.norms[i][1] - sqrt(sum)) < 1e-12);
    assert_true(one.norms[i][2] != one.norms[i][1]);
    found = true;
  }
  assert_true(found);
  static const struct {
    int32_t ranks;
    const char *strategy, *mesh;
  } cases[] = {{2, "data", NULL}, {3, "tensor", NULL}, {2, "data", "data=2,micro=3"}};
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; ++c) {
    const watched_t many = watch_on(cases[c].ranks, cases[c].strategy, cases[c].mesh);
    assert_int_equal(many.count, 3);
    for (int64_t i = 0; i < 3; ++i) {
      assert_string_equal(many.names[i], one.names[i]);
      for (int64_t step = 1; step <= 3; ++step) {
        assert_true(fabs(many.norms[i][step] - one.norms[i][step]) < 1e-10);
      }
    }
  }
  run_t wrong = make_run((shoal_train_options_t){.steps = 3, .watch = patterns});
  shoal_status_t status = NULL;
  run_ranks(1, train_rank, &wrong, &status);
  assert_error(NOT_FOUND, "watch 'fc1/relu'", status);
}

// Everything at once, gradients included.
static void test_watch_all(void **state) {
  (void)state;
  static const char *const all[] = {"fc*", "grad/*", NULL};
  for (int32_t ranks = 1; ranks <= 3; ranks += 2) {
    run_t run = make_run((shoal_train_options_t){.steps = 2, .watch = all});
    run.options.parallelize.strategy = ranks > 1 ? "data" : "single";
    run_on(ranks, &run);
    assert_int_equal(run.last, 2);
  }
}

// ---- the first bad value --------------------------------------------------------------

// log of what becomes negative in a later batch: NaN in "bad/log", in all that follows, and in the
// gradients.
static void build_bad(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  (void)self, (void)phase;
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, WIDTH));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  shoal_value_t h = shoal_relu(g, shoal_nn_linear(g, "fc1", x, 7));
  shoal_scope_push(g, "bad");
  h = shoal_add(g, h, shoal_reduce_sum(g, shoal_log(g, x), SHOAL_SHAPE(0, 1)));
  shoal_scope_pop(g);
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.02});
  shoal_output(g, "loss", loss);
}

// A negative number in the third batch, in its last row.
static shoal_status_t feed_bad(void *self, shoal_session_t *session,
                               const shoal_train_batch_t *batch) {
  const bool *input_is_bad = self;
  double x[64 * WIDTH];
  int32_t y[64];
  for (int64_t i = 0; i < batch->rows; ++i) {
    make_sample(batch->phase, batch->cursor + i, x + i * WIDTH, y + i);
    for (int k = 0; k < WIDTH; ++k) x[i * WIDTH + k] = fabs(x[i * WIDTH + k]) + 0.1;
  }
  if (batch->cursor == 12) x[batch->rows * WIDTH - 1] = input_is_bad && *input_is_bad ? NAN : -1;
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, (size_t)batch->rows * WIDTH * sizeof x[0]));
  return shoal_feed(session, "y", y, (size_t)batch->rows * sizeof y[0]);
}

static void expect_named(int32_t ranks, const char *strategy, bool *input_is_bad,
                         const char *expected) {
  run_t run = make_run((shoal_train_options_t){.steps = 6,
                                               .build = build_bad,
                                               .feed = feed_bad,
                                               .feed_self = input_is_bad,
                                               .check_nan = true});
  run.options.parallelize.strategy = strategy;
  shoal_status_t statuses[MOST_RANKS] = {0};
  run_ranks(ranks, train_rank, &run, statuses);
  for (int32_t i = 0; i < ranks; ++i) {
    const bool alike = shoal_status_code(statuses[i]) == SHOAL_MISMATCH;
    if (!alike || !strstr(shoal_status_message(statuses[i]), expected)) {
      fail_msg("rank %d: '%s'", i, shoal_status_message(statuses[i]));
    }
    assert_non_null(strstr(shoal_status_file(statuses[i]), "train_watch_test.c"));
    shoal_status_free(statuses[i]);
  }
}

static void test_first_bad_value(void **state) {
  (void)state;
  bool input = true;
  expect_named(1, "single", NULL, "NaN in 'bad/log' (shoal.log) at step 3, on rank 0");
  expect_named(3, "data", NULL, "NaN in 'bad/log' (shoal.log) at step 3, on rank 2");
  expect_named(2, "data", &input, "NaN in 'x' (an input) at step 3, on rank 1");
  // Without looking at values the loss tells, at the next line.
  run_t run = make_run((shoal_train_options_t){.steps = 6, .build = build_bad, .feed = feed_bad});
  shoal_status_t status = NULL;
  run_ranks(1, train_rank, &run, &status);
  assert_error(MISMATCH, "at step 3", status);
  // So does a norm that is watched: here of the value itself.
  static const char *const bad_log[] = {"bad/log", NULL};
  run_t watched = make_run(
      (shoal_train_options_t){.steps = 6, .build = build_bad, .feed = feed_bad, .watch = bad_log});
  run_ranks(1, train_rank, &watched, &status);
  assert_error(MISMATCH, "watched 'bad/log' is", status);
  // And a good run is not stopped.
  run_t good = make_run((shoal_train_options_t){.steps = 4, .check_nan = true});
  run_on(2, &good);
  assert_int_equal(good.last, 4);
}

// ---- the last update ------------------------------------------------------------------

// The root of nothing: its value is 0, its gradient is not finite.
static void build_spoiled(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  (void)self, (void)phase;
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, WIDTH));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  shoal_value_t h = shoal_nn_linear(g, "fc1", x, 7);
  shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", h, CLASSES), y);
  const shoal_value_t nothing = shoal_affine(g, shoal_sum_squares(g, h), 0, 0);
  loss = shoal_add(g, loss, shoal_sqrt(g, nothing));
  shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.02});
  shoal_output(g, "loss", loss);
}

// No step behind it tells, and no evaluation: the parameters are looked at.
static void test_last_update(void **state) {
  (void)state;
  char folder[32], path[64];
  make_folder(folder);
  static const char *const strategies[] = {"single", "data", "tensor"};
  for (int32_t i = 0; i < 6; ++i) {
    const int32_t ranks = i % 3 + 1;
    run_t run = make_run((shoal_train_options_t){
        .steps = 1, .build = build_spoiled, .folder = i < 3 ? NULL : folder});
    run.options.parallelize.strategy = strategies[i % 3];
    shoal_status_t statuses[3] = {0};
    run_ranks(ranks, train_rank, &run, statuses);
    for (int32_t r = 0; r < ranks; ++r) {
      assert_error(MISMATCH, "the update of step 1 has spoiled the model: ", statuses[r]);
    }
    assert_true(isfinite(run.reports[0].loss));
  }
  snprintf(path, sizeof path, "%s/step-1", folder);
  assert_int_not_equal(access(path, F_OK), 0);
  remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_watch),
      cmocka_unit_test(test_watch_all),
      cmocka_unit_test(test_first_bad_value),
      cmocka_unit_test(test_last_update),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
