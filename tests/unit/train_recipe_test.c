// Recipes in the training loop. A run with a schedule, averages, mixed precision and dropout that
// is stopped and gone on with is the run that was not, on any mesh. Updates that a loss scale skips
// are counted. What a checkpoint lacks because its run had another recipe begins as if it had been
// there. links: all
#include <stdatomic.h>

#include "shoal/optimize.h"
#include "train_support.h"

enum { STEPS = 7, STOP = 3 };

typedef struct made {
  shoal_dtype_t dtype;
  shoal_lr_schedule_t schedule;
  shoal_training_t training;
} made_t;

static void build_recipe(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  const made_t *made = self;
  const bool trains = strcmp(phase, "train") == 0;
  if (!trains && made->training.average != 0) shoal_use_averages(g);
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, WIDTH));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  if (made->dtype != SHOAL_F64) x = shoal_cast(g, x, made->dtype);
  x = shoal_relu(g, shoal_nn_linear(g, "fc1", x, 7));
  if (trains) x = shoal_nn_dropout(g, "drop", x, 0.25);
  const shoal_value_t loss = shoal_nn_cross_entropy(g, shoal_nn_linear(g, "fc2", x, CLASSES), y);
  const shoal_recipe_t recipe = {
      .lr = 0.02, .eps = 1e-3, .lr_schedule = made->schedule, .training = made->training};
  if (trains) shoal_optimize(g, loss, &recipe);
  shoal_output(g, "loss", loss);
}

static run_t recipe_run(made_t *made, shoal_train_options_t options) {
  options.build = build_recipe;
  options.build_self = made;
  options.mixed = made->dtype != SHOAL_F64;
  return make_run(options);
}

// ---- stopping and going on ------------------------------------------------------------

static void expect_run(const run_t *whole, const run_t *run, int64_t from, int64_t to,
                       double tolerance) {
  for (int64_t step = from; step <= to; ++step) {
    if (!(fabs(whole->losses[step] - run->losses[step]) <= tolerance)) {
      fail_msg("step %lld: %.17g, not %.17g", (long long)step, run->losses[step],
               whole->losses[step]);
    }
  }
  if (to < STEPS) return;
  const double a = whole->reports[0].metrics[0].value, b = run->reports[0].metrics[0].value;
  if (!(fabs(a - b) <= tolerance)) fail_msg("evaluated: %.17g, not %.17g", b, a);
}

static void stop_and_resume(made_t *made, int32_t ranks, const char *strategy, const run_t *whole,
                            double tolerance) {
  char folder[32];
  make_folder(folder);
  const shoal_train_options_t options = {.steps = STOP,
                                         .samples = SAMPLES,
                                         .last_batch = SHOAL_LAST_DROPPED,
                                         .eval_samples = 8,
                                         .folder = folder};
  run_t before = recipe_run(made, options);
  before.options.parallelize.strategy = "data";
  run_on(2, &before);
  expect_run(whole, &before, 1, STOP, 0);
  run_t after = recipe_run(made, options);
  after.options.steps = STEPS;
  after.options.resume = true;
  after.options.parallelize.strategy = strategy;
  run_on(ranks, &after);
  assert_int_equal(after.reports[0].start, STOP);
  assert_int_equal(after.cursors[STEPS], whole->cursors[STEPS]);
  expect_run(whole, &after, STOP + 1, STEPS, tolerance);
  remove_folder(folder);
}

static void test_resume(void **state) {
  (void)state;
  const shoal_lr_schedule_t cosine = {.kind = "cosine", .warmup = 2, .steps = STEPS};
  const shoal_training_t average = {.average = 0.75, .clip_norm = 0.5};
  made_t cases[] = {
      {.dtype = SHOAL_F64, .schedule = cosine, .training = average},
      {.dtype = SHOAL_F64, .training = {.average = 0.5, .loss_scale = 64, .scale_interval = 2}},
      {.dtype = SHOAL_BF16, .schedule = cosine},
      {.dtype = SHOAL_F16,
       .training = {.average = 0.5, .loss_scale = 1e38, .scale_backoff = 1e-19}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const double tolerance = cases[i].dtype == SHOAL_F64 ? 1e-10 : 0.02;
    run_t whole = recipe_run(&cases[i], (shoal_train_options_t){.steps = STEPS,
                                                                .samples = SAMPLES,
                                                                .last_batch = SHOAL_LAST_DROPPED,
                                                                .eval_samples = 8});
    whole.options.parallelize.strategy = "data";
    run_on(2, &whole);
    assert_int_equal(whole.cursors[STEPS], 2 * SAMPLES + 6);  // 5 of each epoch fill no batch
    stop_and_resume(&cases[i], 2, "data", &whole, 0);
    stop_and_resume(&cases[i], 3, "tensor", &whole, tolerance);
  }
}

// ---- loss scales ----------------------------------------------------------------------

static void test_skipped(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  // 1e38 and 1e19 overflow, 1 does not.
  made_t made = {.dtype = SHOAL_F16, .training = {.loss_scale = 1e38, .scale_backoff = 1e-19}};
  const shoal_train_options_t options = {.steps = 1, .folder = folder};
  run_t none = recipe_run(&made, options);
  run_on(2, &none);
  assert_int_equal(none.reports[0].skipped, 1);
  assert_non_null(strstr(none.log, "warning: all 1 updates were skipped"));
  assert_non_null(strstr(none.log, "come down to 1e+19"));
  run_t some = recipe_run(&made, options);
  some.options.steps = 4;
  some.options.resume = true;
  run_on(1, &some);
  assert_int_equal(some.reports[0].skipped, 1);
  assert_null(strstr(some.log, "warning"));
  remove_folder(folder);
}

// A scale that is a power of two changes no bit, so a run that gets one on its way is the run
// without: its moments have seen as many updates.
static void test_scale_on_the_way(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  made_t plain = {.dtype = SHOAL_F64}, scaled = {.dtype = SHOAL_F64, .training.loss_scale = 8};
  run_t whole = recipe_run(&plain, (shoal_train_options_t){.steps = STEPS});
  run_on(1, &whole);
  run_t before = recipe_run(&plain, (shoal_train_options_t){.steps = STOP, .folder = folder});
  run_on(2, &before);
  run_t after = recipe_run(
      &scaled, (shoal_train_options_t){.steps = STEPS, .folder = folder, .resume = true});
  run_on(1, &after);
  assert_non_null(strstr(after.log, "updates counts on from 3"));
  for (int64_t step = STOP + 1; step <= STEPS; ++step) {
    assert_true(fabs(after.losses[step] - whole.losses[step]) < 1e-12);
  }
  remove_folder(folder);
}

// ---- averages -------------------------------------------------------------------------

static shoal_status_t compare_averages(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  atomic_bool *compared = self;  // ranks are threads
  double now[WIDTH * 7], average[WIDTH * 7], most = 0;
  if (event->kind != SHOAL_TRAIN_END) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_session_get(event->session, "fc1/weight", now, sizeof now));
  SHOAL_RETURN_IF_ERROR(
      shoal_session_get(event->session, "fc1/weight#average", average, sizeof average));
  for (int i = 0; i < WIDTH * 7; ++i) {
    EXPECT(fabs(average[i] - now[i]) < 0.05, "element %d: %g, not near %g", i, average[i], now[i]);
    most = fmax(most, fabs(now[i]));
  }
  EXPECT(most > 0.2, "weights of %g tell nothing", most);
  atomic_store(compared, true);
  return NULL;
}

// An average that begins on the way begins as the parameter.
static void test_average_on_the_way(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  atomic_bool compared = false;
  made_t plain = {.dtype = SHOAL_F64}, kept = {.dtype = SHOAL_F64, .training.average = 0.999};
  run_t before = recipe_run(&plain, (shoal_train_options_t){.steps = STOP, .folder = folder});
  run_on(1, &before);
  run_t after = recipe_run(
      &kept, (shoal_train_options_t){
                 .steps = STOP + 1, .folder = folder, .resume = true, .hook = compare_averages});
  after.options.hook_self = &compared;
  run_on(2, &after);
  assert_true(compared);
  assert_non_null(strstr(after.log, "fc1/weight#average"));
  remove_folder(folder);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resume),
      cmocka_unit_test(test_skipped),
      cmocka_unit_test(test_scale_on_the_way),
      cmocka_unit_test(test_average_on_the_way),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
