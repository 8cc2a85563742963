// What the tests of the training loop share: a small classifier, made-up samples, ranks as threads.
#ifndef SHOAL_TESTS_TRAIN_SUPPORT_H_
#define SHOAL_TESTS_TRAIN_SUPPORT_H_

#include <math.h>
#include <unistd.h>

#include "run_support.h"
#include "shoal/checkpoint.h"
#include "shoal/nn.h"
#include "shoal/ops.h"
#include "shoal/train.h"

enum { WIDTH = 5, CLASSES = 3, SAMPLES = 23, MOST_STEPS = 40 };

// ---- the model ------------------------------------------------------------------------

static inline void build_small(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
  (void)self;
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(rows, WIDTH));
  shoal_value_t y = shoal_input(g, "y", SHOAL_I32, SHOAL_SHAPE(rows));
  x = shoal_relu(g, shoal_nn_linear(g, "fc1", x, 7));
  if (strcmp(phase, "train") == 0) x = shoal_nn_dropout(g, "drop", x, 0.25);
  const shoal_value_t logits = shoal_nn_linear(g, "fc2", x, CLASSES);
  const shoal_value_t loss = shoal_nn_cross_entropy(g, logits, y);
  if (strcmp(phase, "train") == 0) {
    shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 0.02, .eps = 1e-3});
  } else {
    shoal_output(g, "first", shoal_reduce_mean(g, shoal_cast(g, y, SHOAL_F64), SHOAL_SHAPE(0)));
  }
  shoal_output(g, "loss", loss);
}

// ---- the data -------------------------------------------------------------------------

// Sample n is a function of n alone, and no two are alike; evaluation has others.
static inline void make_sample(const char *phase, int64_t n, double *x, int32_t *y) {
  const int64_t at = strcmp(phase, "eval") == 0 ? n + 1000 : n % SAMPLES;
  for (int i = 0; i < WIDTH; ++i) x[i] = sin((double)(at * 31 + i * 7 + 1));
  *y = (int32_t)(at % CLASSES);
}

static inline shoal_status_t feed_samples(void *self, shoal_session_t *session,
                                          const shoal_train_batch_t *batch) {
  (void)self;
  double x[64 * WIDTH];
  int32_t y[64];
  for (int64_t i = 0; i < batch->rows; ++i) {
    make_sample(batch->phase, batch->cursor + i, x + i * WIDTH, y + i);
  }
  SHOAL_RETURN_IF_ERROR(shoal_feed(session, "x", x, (size_t)batch->rows * WIDTH * sizeof x[0]));
  return shoal_feed(session, "y", y, (size_t)batch->rows * sizeof y[0]);
}

// ---- a run ----------------------------------------------------------------------------

typedef struct run {
  shoal_train_options_t options;
  // Filled by all ranks alike; rank 0's counts.
  double losses[MOST_STEPS + 1];
  int64_t rows[MOST_STEPS + 1], cursors[MOST_STEPS + 1];
  int64_t last;
  char log[4096];
  shoal_train_report_t reports[MOST_RANKS];
} run_t;

static inline void keep_line(void *self, bool progress, const char *line) {
  run_t *run = self;
  const size_t used = strlen(run->log);
  if (!progress) snprintf(run->log + used, sizeof run->log - used, "%s\n", line);
}

// The loss of every step: log_every is 1.
static inline shoal_status_t keep_loss(void *self, const shoal_train_event_t *event, bool *stop) {
  (void)stop;
  run_t *run = self;
  if (event->kind != SHOAL_TRAIN_LOG || event->step > MOST_STEPS) return NULL;
  if (shoal_world_rank(shoal_session_world(event->session)) > 0) return NULL;
  run->losses[event->step] = event->loss;
  run->cursors[event->step] = event->cursor;
  run->last = event->step;
  return NULL;
}

static inline shoal_status_t train_rank(void *self, shoal_world_t *world) {
  run_t *run = self;
  shoal_train_options_t options = run->options;
  options.parallelize.world = world;
  return shoal_train(&options, &run->reports[shoal_world_rank(world)]);
}

// A run of the small model; options that are given stay.
static inline run_t make_run(shoal_train_options_t options) {
  run_t run = {.options = options};
  if (!options.build) run.options.build = build_small;
  if (!options.feed) run.options.feed = feed_samples;
  if (!options.batch) run.options.batch = 6;
  if (!options.seed) run.options.seed = 11;
  run.options.log_every = 1;
  return run;
}

static inline void run_on(int32_t ranks, run_t *run) {
  run->options.log = keep_line;
  run->options.log_self = run;
  if (!run->options.hook) {
    run->options.hook = keep_loss;
    run->options.hook_self = run;
  }
  run_ranks_ok(ranks, train_rank, run);
}

static inline void make_folder(char path[32]) {
  snprintf(path, 32, "/tmp/shoal_train_XXXXXX");
  assert_non_null(mkdtemp(path));
}

static inline void remove_folder(const char *path) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", path);
  assert_int_equal(system(command), 0);
}

#endif  // SHOAL_TESTS_TRAIN_SUPPORT_H_
