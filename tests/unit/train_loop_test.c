// The training loop: a run that is stopped at any step and gone on with is the run that was not,
// on any mesh; epochs and short batches; evaluation; hooks; what is said. links: all
#include "train_support.h"

enum { STEPS = 9 };

// ---- stopping and going on ------------------------------------------------------------

typedef struct leg {
  int32_t ranks;
  const char *strategy, *mesh;
} leg_t;

static void expect_losses(const run_t *a, const run_t *b, int64_t from, int64_t to,
                          double tolerance) {
  for (int64_t step = from; step <= to; ++step) {
    const double difference = fabs(a->losses[step] - b->losses[step]);
    if (!(difference <= tolerance)) {
      fail_msg("step %lld: %.17g, not %.17g", (long long)step, b->losses[step], a->losses[step]);
    }
  }
}

static void stop_and_resume(leg_t first, leg_t second, int64_t stop, const run_t *whole,
                            double tolerance) {
  char folder[32];
  make_folder(folder);
  run_t before = make_run((shoal_train_options_t){
      .steps = stop, .samples = SAMPLES, .last_batch = SHOAL_LAST_SHORT, .folder = folder});
  before.options.parallelize.strategy = first.strategy;
  before.options.parallelize.mesh = first.mesh;
  run_on(first.ranks, &before);
  run_t after = make_run((shoal_train_options_t){.steps = STEPS,
                                                 .samples = SAMPLES,
                                                 .last_batch = SHOAL_LAST_SHORT,
                                                 .folder = folder,
                                                 .resume = true});
  after.options.parallelize.strategy = second.strategy;
  after.options.parallelize.mesh = second.mesh;
  run_on(second.ranks, &after);
  assert_non_null(strstr(after.log, "resumed from"));
  assert_int_equal(after.reports[0].start, stop);
  assert_int_equal(after.cursors[STEPS], whole->cursors[STEPS]);
  expect_losses(whole, &before, 1, stop, tolerance);
  expect_losses(whole, &after, stop + 1, STEPS, tolerance);
  remove_folder(folder);
}

static void test_resume(void **state) {
  (void)state;
  const leg_t one = {1, "single", NULL}, data = {2, "data", NULL};
  const leg_t tensor = {3, "tensor", NULL}, both = {4, "tensor", "data=2,tensor=2"};
  run_t whole = make_run(
      (shoal_train_options_t){.steps = STEPS, .samples = SAMPLES, .last_batch = SHOAL_LAST_SHORT});
  whole.options.parallelize.strategy = "data";
  run_on(2, &whole);
  assert_true(whole.losses[1] > 0.5 && whole.losses[STEPS] < whole.losses[1]);
  for (int64_t stop = 1; stop < STEPS; ++stop) stop_and_resume(data, data, stop, &whole, 0);
  stop_and_resume(data, one, 3, &whole, 1e-10);
  stop_and_resume(tensor, data, 4, &whole, 1e-10);
  stop_and_resume(one, both, 6, &whole, 1e-10);
}

// Another batch size on the way: the samples follow each other all the same, and what changed is
// said.
static void test_changed_options(void **state) {
  (void)state;
  char folder[32];
  make_folder(folder);
  static const char *const old_settings[] = {"batch=6", "clip=1", "gone=1", NULL};
  static const char *const new_settings[] = {"batch=4", "clip=1", "new=2", NULL};
  run_t before = make_run((shoal_train_options_t){
      .steps = 3, .samples = SAMPLES, .last_batch = SHOAL_LAST_SHORT, .folder = folder});
  before.options.settings = old_settings;
  run_on(1, &before);
  run_t after = make_run((shoal_train_options_t){.steps = 7,
                                                 .batch = 4,
                                                 .samples = SAMPLES,
                                                 .last_batch = SHOAL_LAST_SHORT,
                                                 .lr = 0.5,
                                                 .folder = folder,
                                                 .resume = true});
  after.options.settings = new_settings;
  run_on(2, &after);
  const int64_t cursors[] = {18, 22, 23, 27, 31};  // 5 were left of the epoch: 4 and 1
  for (int64_t i = 1; i < 5; ++i) assert_int_equal(after.cursors[3 + i], cursors[i]);
  assert_non_null(strstr(after.log, "batch 4; the checkpoint's was 6\n"));
  assert_non_null(strstr(after.log, "learning rate 0.5; the checkpoint's was 0.02\n"));
  assert_null(strstr(after.log, "clip"));
  assert_null(strstr(after.log, "gone"));
  assert_null(strstr(after.log, "new"));
  assert_null(strstr(after.log, "warning"));
  after.options.steps = 8;
  after.options.samples = SAMPLES + 2;  // another order of all of them
  run_on(1, &after);
  assert_non_null(strstr(after.log, "warning: 25 samples; the checkpoint's run had 23"));
  remove_folder(folder);
}

// ---- epochs ---------------------------------------------------------------------------

static void test_epochs(void **state) {
  (void)state;
  // 23 samples in batches of 6
  run_t filled = make_run((shoal_train_options_t){.epochs = 2, .samples = SAMPLES});
  run_on(1, &filled);
  assert_int_equal(filled.last, 8);
  assert_int_equal(filled.cursors[8], 48);
  run_t shorter = make_run(
      (shoal_train_options_t){.epochs = 2, .samples = SAMPLES, .last_batch = SHOAL_LAST_SHORT});
  run_on(3, &shorter);
  assert_int_equal(shorter.last, 8);
  assert_int_equal(shorter.cursors[4], 23);
  assert_int_equal(shorter.cursors[8], 46);
  run_t dropped = make_run(
      (shoal_train_options_t){.epochs = 2, .samples = SAMPLES, .last_batch = SHOAL_LAST_DROPPED});
  run_on(2, &dropped);
  assert_int_equal(dropped.last, 6);
  assert_int_equal(dropped.cursors[3], 23);  // what is left of the epoch is passed over
  assert_int_equal(dropped.cursors[6], 46);
  run_t both = make_run((shoal_train_options_t){.epochs = 2, .steps = 5, .samples = SAMPLES});
  run_on(1, &both);
  assert_int_equal(both.last, 5);
  run_t none = make_run((shoal_train_options_t){.steps = -1, .eval_samples = 6});
  run_on(1, &none);
  assert_int_equal(none.last, 0);
  assert_int_equal(none.reports[0].metric_count, 2);
}

// ---- evaluation -----------------------------------------------------------------------

// The mean over all samples, whatever the batches: 15 are 6, 6 and 3.
static void test_evaluation(void **state) {
  (void)state;
  run_t batches = make_run((shoal_train_options_t){.steps = -1, .eval_samples = 15});
  run_on(2, &batches);
  run_t once = make_run((shoal_train_options_t){.steps = -1, .batch = 15, .eval_samples = 15});
  run_on(1, &once);
  const shoal_train_report_t *a = &batches.reports[0], *b = &once.reports[0];
  assert_int_equal(a->metric_count, 2);
  assert_string_equal(a->metrics[0].name, "loss");
  assert_string_equal(a->metrics[1].name, "first");
  double labels = 0;
  for (int64_t i = 0; i < 15; ++i) {
    double x[WIDTH];
    int32_t y;
    make_sample("eval", i, x, &y);
    labels += y;
  }
  assert_true(fabs(a->metrics[1].value - labels / 15) < 1e-12);
  assert_true(fabs(a->metrics[0].value - b->metrics[0].value) < 1e-12);
  assert_true(fabs(batches.reports[1].metrics[0].value - a->metrics[0].value) < 1e-15);
}

// ---- hooks ----------------------------------------------------------------------------

typedef struct counts {
  int events[SHOAL_TRAIN_END + 1];
  int64_t stop_at;
} counts_t;

static shoal_status_t count_events(void *self, const shoal_train_event_t *event, bool *stop) {
  counts_t *counts = self;
  if (shoal_world_rank(shoal_session_world(event->session)) == 0) ++counts->events[event->kind];
  if (event->kind == SHOAL_TRAIN_STEP && event->step == counts->stop_at) *stop = true;
  return NULL;
}

static void test_hooks(void **state) {
  (void)state;
  counts_t counts = {.stop_at = 5};
  run_t run = make_run((shoal_train_options_t){
      .steps = 100, .eval_samples = 6, .eval_every = 2, .hook = count_events});
  run.options.hook_self = &counts;
  run_on(2, &run);
  assert_int_equal(counts.events[SHOAL_TRAIN_READY], 1);
  assert_int_equal(counts.events[SHOAL_TRAIN_BEFORE], 5);
  assert_int_equal(counts.events[SHOAL_TRAIN_STEP], 5);
  assert_int_equal(counts.events[SHOAL_TRAIN_EVAL], 3);  // 2, 4 and the end
  assert_int_equal(counts.events[SHOAL_TRAIN_SAVE], 0);
  assert_int_equal(counts.events[SHOAL_TRAIN_END], 1);
  assert_true(run.reports[1].stopped);
  assert_int_equal(run.reports[1].step, 5);
}

// ---- errors ---------------------------------------------------------------------------

static shoal_status_t fail_on_one(void *self, shoal_session_t *session,
                                  const shoal_train_batch_t *batch) {
  if (batch->cursor == 12 && shoal_world_rank(shoal_session_world(session)) == 1) {
    return SHOAL_ERROR(IO, "the disk is gone");
  }
  return feed_samples(self, session, batch);
}

static void test_errors(void **state) {
  (void)state;
  run_t run = make_run((shoal_train_options_t){.steps = 50, .feed = fail_on_one});
  run.options.log_every = 100;
  run.options.log = keep_line;
  run.options.log_self = &run;
  shoal_status_t statuses[3] = {0};
  run_ranks(3, train_rank, &run, statuses);
  for (int i = 0; i < 3; ++i) {
    assert_non_null(statuses[i]);
    assert_non_null(strstr(shoal_status_message(statuses[i]), "the disk is gone"));
    shoal_status_free(statuses[i]);
  }
  shoal_train_options_t bad = {.build = build_small, .feed = feed_samples, .batch = 4};
  assert_error(INVALID_ARGUMENT, "training has no end", shoal_train(&bad, NULL));
  bad.epochs = 1;
  assert_error(INVALID_ARGUMENT, "without end", shoal_train(&bad, NULL));
  assert_error(INVALID_ARGUMENT, "no model to train", shoal_train(NULL, NULL));
  assert_error(INVALID_ARGUMENT, "no model to train", shoal_evaluate(NULL, NULL, NULL));
  bad = (shoal_train_options_t){.build = build_small, .feed = feed_samples, .steps = 1};
  assert_error(INVALID_ARGUMENT, "at least one row", shoal_train(&bad, NULL));
  bad.batch = 4;
  bad.resume = true;
  assert_error(INVALID_ARGUMENT, "resume needs a folder", shoal_train(&bad, NULL));
  bad.resume = false;
  bad.folder = "/dev/null/x";
  assert_error(IO, "/dev/null", shoal_train(&bad, NULL));
  bad.folder = NULL;
  bad.feed = NULL;
  assert_error(INVALID_ARGUMENT, "no data", shoal_train(&bad, NULL));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_resume), cmocka_unit_test(test_changed_options),
      cmocka_unit_test(test_epochs), cmocka_unit_test(test_evaluation),
      cmocka_unit_test(test_hooks),  cmocka_unit_test(test_errors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
