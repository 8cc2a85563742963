// The training loop's internal header. One trainer per call and rank.
//
//   train.c      checks the options, and the order of things: model, session, checkpoint, loop
//   model.c      the graphs that are built, and what is added to watch values
//   source.c     batches from data sets
//   loop.c       steps, and the batches they take
//   evaluate.c   runs of the eval graphs, and shoal_evaluate
//   folder.c     checkpoints: what is saved, kept, and gone on from
//   scale.c      loss scales: updates that were skipped
//   log.c        lines
//   record.c     the same numbers as files
//   nan.c        which value was the first that is no number
//
// All ranks do the same in the same order. What can fail on one rank alone - feeding, a hook - ends
// the world, so that no other waits for it; what comes from the session fails on all of them.
#ifndef SHOAL_TRAIN_IMPL_H_
#define SHOAL_TRAIN_IMPL_H_

#include "base/arena.h"
#include "run/checkpoint.h"
#include "shoal/metrics.h"
#include "shoal/train.h"

// A scalar output of a graph.
typedef struct shoal_train_output {
  const char *name;   // of the output
  const char *label;  // as it is logged
  shoal_dtype_t dtype;
  bool watched;  // because the options say so
  bool squared;  // it is the square of what is logged
} shoal_train_output_t;

typedef struct shoal_train_outputs {
  SHOAL_VEC(shoal_train_output_t) list;  // without the loss
  shoal_dtype_t loss;
  bool has_loss;
} shoal_train_outputs_t;

typedef struct shoal_train_nan shoal_train_nan_t;
typedef struct shoal_train_source shoal_train_source_t;

// What a checkpoint says about the run that saved it.
typedef struct shoal_train_past {
  const char *path;  // NULL: there is none
  int64_t step;
  int64_t samples;                    // of an epoch; 0: not known
  const struct shoal_json *settings;  // "name=value" each; NULL: none
  const char *best;                   // the metric that its best was known by; NULL: none
} shoal_train_past_t;

// An optimizer that scales its loss, by the names of its states.
typedef struct shoal_train_scale {
  const char *updates;  // those that were taken
  char step[256], scale[256];
  int64_t before;  // updates that were taken before this run
} shoal_train_scale_t;

typedef struct shoal_trainer {
  const shoal_train_options_t *options;
  shoal_allocator_t allocator;
  shoal_arena_t arena, scratch;
  shoal_world_t *world;
  bool talks;                    // this is rank 0
  shoal_checkpoint_lock_t lock;  // rank 0: of the folder
  shoal_model_t *model, *owned_model;
  shoal_session_t *session;
  int64_t batch, samples, eval_samples;
  int64_t items;     // samples or tokens of a row
  const char *unit;  // "samples" or "tokens"
  double flops;      // of a step, however it is cut; what is recomputed counts once
  bool has_lr;       // there is a state "lr", and no output says it or the rate of a step
  shoal_train_outputs_t train, eval;
  SHOAL_VEC(shoal_train_scale_t) scales;
  SHOAL_VEC(const char *) parameters;  // names of those that can be trained
  shoal_train_past_t past;
  shoal_train_source_t *source;   // NULL: the options feed
  shoal_train_nan_t *nan;         // NULL: values are not looked at
  shoal_metrics_t *metrics_file;  // rank 0; NULL: none
  // What goes on:
  int64_t step, steps, cursor;
  const char *saving;  // the checkpoint that is written beside the steps; NULL: none
  int64_t begin_ns, line_ns, line_items, items_done;
  shoal_session_counters_t first_counters, line_counters, counters;  // at the last lines
  double speed;
  bool trained;  // there are losses
  bool stop;     // a hook said so
  int64_t metric_count;
  shoal_train_metric_t metrics[SHOAL_TRAIN_METRICS];  // of the last line
  shoal_train_report_t report;
} shoal_trainer_t;

// ---- model.c --------------------------------------------------------------------------

// The graph's name for so many rows, in the arena; NULL when memory is short.
const char *shoal_train_graph_name(shoal_trainer_t *t, const char *phase, int64_t rows);
// Makes the model, or takes the ready one; `train` and eval graphs, or only the latter.
SHOAL_MUST_USE shoal_status_t shoal_train_model(shoal_trainer_t *t, bool train);

// ---- source.c -------------------------------------------------------------------------

// Loaders for the options' data sets; nothing where a function feeds.
SHOAL_MUST_USE shoal_status_t shoal_train_source_open(shoal_trainer_t *t);
void shoal_train_source_close(shoal_trainer_t *t);
SHOAL_MUST_USE shoal_status_t shoal_train_source_feed(shoal_trainer_t *t,
                                                      const shoal_train_batch_t *batch);

// ---- loop.c ---------------------------------------------------------------------------

// The batch at a cursor, but for its graph; where what is left of an epoch is left out, the next.
shoal_train_batch_t shoal_train_next(const shoal_trainer_t *t, int64_t cursor);
// An error of this rank alone: tells the others. NULL is allowed.
SHOAL_MUST_USE shoal_status_t shoal_train_alone(shoal_trainer_t *t, shoal_status_t status);
// Calls the hook.
SHOAL_MUST_USE shoal_status_t shoal_train_tell(shoal_trainer_t *t, shoal_train_event_kind_t kind,
                                               const char *path);
// Feeds and runs one batch.
SHOAL_MUST_USE shoal_status_t shoal_train_run(shoal_trainer_t *t, const shoal_train_batch_t *batch);
SHOAL_MUST_USE shoal_status_t shoal_train_fetch(shoal_trainer_t *t, const char *name,
                                                shoal_dtype_t dtype, double *out_value);
SHOAL_MUST_USE shoal_status_t shoal_train_loop(shoal_trainer_t *t);

// ---- evaluate.c -----------------------------------------------------------------------

// Runs over all samples; the metrics are in the report then.
SHOAL_MUST_USE shoal_status_t shoal_train_evaluate(shoal_trainer_t *t);

// ---- folder.c -------------------------------------------------------------------------

// Before any work: sees that rank 0 can save, and finds the checkpoint to go on from.
SHOAL_MUST_USE shoal_status_t shoal_train_prepare(shoal_trainer_t *t);
// Loads it and sets what goes before it; or begins anew.
SHOAL_MUST_USE shoal_status_t shoal_train_resume(shoal_trainer_t *t);
SHOAL_MUST_USE shoal_status_t shoal_train_save(shoal_trainer_t *t);
// Waits for what is written beside the steps.
SHOAL_MUST_USE shoal_status_t shoal_train_save_end(shoal_trainer_t *t);
// A MISMATCH where an update has made a parameter NaN or infinite.
SHOAL_MUST_USE shoal_status_t shoal_train_check_parameters(shoal_trainer_t *t);
// After an evaluation: saves it if it is the best so far.
SHOAL_MUST_USE shoal_status_t shoal_train_save_best(shoal_trainer_t *t);

// ---- scale.c --------------------------------------------------------------------------

// Finds the model's loss scales.
SHOAL_MUST_USE shoal_status_t shoal_train_scales_find(shoal_trainer_t *t);
// Behind loading a checkpoint: updates that it did not count. *Collective*, as all that follow.
SHOAL_MUST_USE shoal_status_t shoal_train_scales_resume(shoal_trainer_t *t);
// Before the first step; behind one whose loss is known: report.skipped; behind the last.
SHOAL_MUST_USE shoal_status_t shoal_train_scales_begin(shoal_trainer_t *t);
SHOAL_MUST_USE shoal_status_t shoal_train_scales_look(shoal_trainer_t *t);
SHOAL_MUST_USE shoal_status_t shoal_train_scales_end(shoal_trainer_t *t);

// ---- log.c ----------------------------------------------------------------------------

// A line, on rank 0, where somebody wants it.
void shoal_train_say(const shoal_trainer_t *t, bool progress, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
// What a step takes, since the line before.
typedef struct shoal_train_use {
  double flops;              // in a second, of all ranks
  double share;              // of options.peak_flops; 0: that is not known
  double hidden;             // share of this rank's communication; negative: there was none
  int64_t planned, touched;  // bytes of this rank's arenas, of all kinds of memory
  int64_t resident;          // bytes that the process has had at most
} shoal_train_use_t;
// The share of communication between two looks at the counters that computing hid; negative: there
// was none.
double shoal_train_hidden(const shoal_session_counters_t *from, const shoal_session_counters_t *to);
void shoal_train_usage(const shoal_trainer_t *t, shoal_train_use_t *out_use);
// Says how far training is. The loss and the metrics of this step are known.
void shoal_train_say_step(shoal_trainer_t *t);
void shoal_train_say_metrics(const shoal_trainer_t *t);  // of the last evaluation
double shoal_train_seconds(const shoal_trainer_t *t);    // since the first step
double shoal_train_left(const shoal_trainer_t *t);       // until the last one; 0: not known

// ---- record.c -------------------------------------------------------------------------

SHOAL_MUST_USE shoal_status_t shoal_train_record_open(shoal_trainer_t *t);
void shoal_train_record_close(shoal_trainer_t *t);
// Writes the numbers of the step that was looked at last; of the last evaluation.
SHOAL_MUST_USE shoal_status_t shoal_train_record_step(shoal_trainer_t *t);
SHOAL_MUST_USE shoal_status_t shoal_train_record_eval(shoal_trainer_t *t);

// ---- nan.c ----------------------------------------------------------------------------

// Adds a tap to the options of the session.
SHOAL_MUST_USE shoal_status_t shoal_train_nan_init(shoal_trainer_t *t,
                                                   shoal_parallelize_options_t *options);
void shoal_train_nan_deinit(shoal_trainer_t *t);
// After each step: an error that names the first bad value, on all ranks. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_train_nan_check(shoal_trainer_t *t, double loss);
// The loss is no number, and nobody has looked at values.
SHOAL_MUST_USE shoal_status_t shoal_train_not_finite(const shoal_trainer_t *t, double loss);

#endif  // SHOAL_TRAIN_IMPL_H_
