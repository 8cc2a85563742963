// Shoal, train: the training loop as one call - batches, steps, evaluation, checkpoints, logs,
// signals - for models of your own and for those of the zoo.
//
// shoal_train makes the model, parallelizes it, goes on from a checkpoint if it is told to, and
// runs steps until it has run as many as asked for, a hook or a signal stops it, or something goes
// wrong. Who needs another loop writes it with session.h: everything here could be.
//
//   static void build(void *self, shoal_graph_t *g, const char *phase, int64_t rows) {
//     shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(rows, 784));
//     ...
//     if (strcmp(phase, "train") == 0) shoal_minimize(g, loss, &(shoal_adamw_t){.lr = 1e-3});
//     shoal_output(g, "loss", loss);
//   }
//   ...
//   status = shoal_train(&(shoal_train_options_t){.build = build, .batch = 64, .feed = feed,
//                                                 .samples = 60000, .epochs = 3, .folder = "out"},
//                        NULL);
#ifndef SHOAL_TRAIN_H_
#define SHOAL_TRAIN_H_

#include "shoal/data.h"
#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// Writes one graph of a model for batches of `rows` rows: phase "train", which updates parameters
// and puts out a float scalar "loss", or "eval", which does not and puts out "loss" and further
// metrics. The graph is empty and has its name: "train" and "eval" for whole batches, "train.R" and
// "eval.R" for a short one of R rows at the end of an epoch. If a graph that evaluates held-out
// data puts out "logits" [rows, classes] for an input "y" [rows], and no "accuracy", it gets that
// output: the share of rows whose largest logit is the label's, of those with a label (not -100).
typedef void (*shoal_build_fn_t)(void *self, shoal_graph_t *graph, const char *phase, int64_t rows);

// A batch to be fed: samples [cursor, cursor + rows) of the part of the data that `phase` says,
// "train" or "eval". Training counts on from epoch to epoch, every evaluation from 0. Which sample
// has which number is the feeder's to say, from the seed alone: then a run that was stopped sees
// the same samples when it goes on, on any number of ranks.
typedef struct shoal_train_batch {
  const char *phase, *graph;  // the graph that will run: "train", "eval", "train.R", "eval.R"
  int64_t cursor, rows;
  int64_t epoch;  // of its first row
} shoal_train_batch_t;
// Feeds every input of the graph: whole batches, the same on all ranks (shoal_feed), or what each
// rank needs (shoal_feed_part, shoal_feed_rows).
typedef shoal_status_t (*shoal_train_feed_fn_t)(void *self, shoal_session_t *session,
                                                const shoal_train_batch_t *batch);

// A number by name: an output of the eval graph, averaged over the samples, or a value watched.
#define SHOAL_TRAIN_METRICS 64  // at most so many
typedef struct shoal_train_metric {
  char name[96];
  double value;
} shoal_train_metric_t;

typedef enum shoal_train_event_kind {
  SHOAL_TRAIN_READY,   // the session is made and nothing has run
  SHOAL_TRAIN_BEFORE,  // the batch of a step is fed, the step not yet run
  SHOAL_TRAIN_STEP,    // a step was enqueued
  SHOAL_TRAIN_LOG,     // the loss of this step is known, as every log_every steps
  SHOAL_TRAIN_EVAL,    // an evaluation is done
  SHOAL_TRAIN_SAVE,    // a checkpoint was written
  SHOAL_TRAIN_END      // all is done and the session still there
} shoal_train_event_kind_t;

// What a hook hears. Times count from the first step of this run.
typedef struct shoal_train_event {
  shoal_train_event_kind_t kind;
  shoal_session_t *session;
  const shoal_model_t *model;
  int64_t step, steps;                  // this one, since the model was new; the last one asked for
  int64_t cursor, epoch;                // samples that were used before the next batch; its epoch
  double loss;                          // of the last step whose loss was asked for; LOG: of this
  int64_t metric_count;                 // LOG: scalar outputs of the train graph beside the loss
  const shoal_train_metric_t *metrics;  // and what is watched; EVAL: of the evaluation
  const char *path;                     // SAVE: of the checkpoint
  double seconds, left;  // since the first step; until the last one, by the last rate
  double rate;           // LOG: samples or tokens in a second, since the line before
  const char *unit;      // "samples" or "tokens" (a train graph with an input "ids")
} shoal_train_event_t;
// Called on every rank, in the same order. It may use the session; collective calls are made by all
// ranks. *stop ends training behind this step, as if `steps` were reached: all ranks must say the
// same. An error ends it at once, on all ranks.
typedef shoal_status_t (*shoal_train_hook_fn_t)(void *self, const shoal_train_event_t *event,
                                                bool *stop);
// A line for people, without its end; on rank 0 only. `progress`: it may take the place of the one
// before, as on a terminal.
typedef void (*shoal_train_log_fn_t)(void *self, bool progress, const char *line);

// All zero is the default; a build function or a model, and batches, there must be. Texts and what
// pointers point to are borrowed until shoal_train returns. Every rank gives the same.
typedef struct shoal_train_options {
  shoal_allocator_t allocator;  // zero: the system's

  // The model: what `build` writes, or a ready one, whose graphs "train", "eval" and, for short
  // batches, "train.R" and "eval.R" are used. It is changed only where something is watched.
  shoal_build_fn_t build;
  void *build_self;
  shoal_model_t *model;
  shoal_registry_t *registry;               // of ops, for a model that is built; NULL: native ones
  bool mixed;                               // parameters in f32 (shoal_model_options_t)
  uint64_t seed;                            // of initial values, dropout and the order of the data
  int64_t batch;                            // rows of a step. A ready model: what its inputs have
  shoal_parallelize_options_t parallelize;  // world, strategy, mesh, plan ...

  // Data: data sets, whose columns are called as the inputs of the graphs, and of which each rank
  // reads only the rows that it needs; or a function that feeds.
  shoal_dataset_t *data;       // shuffled by seed and epoch
  shoal_dataset_t *eval_data;  // in order, as it is stored
  bool in_order;               // `data` is not shuffled
  bool eval_next;              // without eval_data: evaluates on the batch that would come next
  shoal_train_feed_fn_t feed;
  void *feed_self;
  int64_t samples;  // of an epoch; 0: those of `data`, or one epoch without end
  // Of an evaluation: the first so many; 0: those of `eval_data`. Without any, `build` writes no
  // graph for it.
  int64_t eval_samples;
  // Where fewer samples than a batch are left of an epoch, the next one begins in the same batch;
  // or a graph for a short batch runs; or they are left out. Evaluation always ends in a short one.
  bool short_last, drop_last;

  // How long: steps since the model was new (negative: none), or epochs; the smaller where both are
  // given.
  int64_t steps, epochs;
  int64_t eval_every;  // steps between evaluations; 0: only at the end
  // The learning rate, the state "lr": 0 leaves the model's or the checkpoint's.
  double lr;

  // Checkpoints "FOLDER/step-N", by rank 0's reckoning; NULL: none. Saved every save_every steps
  // (0: only at the end), at the end and after a signal.
  const char *folder;
  int64_t save_every;
  int64_t keep;  // so many of the newest stay; 0: all
  const char
      *best;       // the metric of the best evaluation: its checkpoint stays as "FOLDER/best". The
                   // smallest is best; "+accuracy": the largest
  bool resume;     // go on from the newest in the folder; from the start if there is none
  bool overwrite;  // remove those of an earlier run when this one begins
  // Weights to begin with: a checkpoint's folder or file, read as shoal_load_with does with these
  // options. NULL: initial values. A run that goes on from a checkpoint of its own has its weights.
  const char *load;
  shoal_load_options_t load_options;
  // What else the run is made with, as "name=value", NULL-terminated: kept in checkpoints. On
  // resume, those that differ are said.
  const char *const *settings;

  // What it says.
  int64_t log_every;  // steps between lines; 0: 20
  shoal_train_log_fn_t log;
  void *log_self;
  const char *metrics;      // file for the same numbers, a line of JSON each (metrics.h), which
                            // `shoal plot` draws; a run that goes on adds to it
  const char *tensorboard;  // folder for TensorBoard's event files
  // Names or patterns ('*') of values and states: scalars are logged beside the loss as they are,
  // others by their norm, the root of the sum of squares. NULL-terminated. One that is no number
  // ends training, as the loss does.
  const char *const *watch;
  // Look at every value of every step, and stop at the first that is not a number: the error names
  // it. Several times slower.
  bool check_nan;
  double peak_flops;  // of all ranks' devices in a second: lines say which share of it is used

  shoal_train_hook_fn_t hook;
  void *hook_self;
  bool no_signals;  // SIGTERM and SIGINT end the process; else training saves and stops
} shoal_train_options_t;

typedef struct shoal_train_report {
  int64_t start, step;      // steps that were done before, and now
  double first_loss, loss;  // of the first and the last step of this run; 0 without steps
  int64_t metric_count;     // of the last evaluation
  shoal_train_metric_t metrics[SHOAL_TRAIN_METRICS];
  int64_t best_step;  // 0: none
  double best;
  bool stopped;                  // by a hook
  double seconds;                // of the steps
  shoal_memory_report_t memory;  // of this rank
} shoal_train_report_t;

// Trains; `out_report` may be NULL, and is filled as far as training got. A signal is an ABORTED
// that says what was saved. A loss that is no number, of a step or of an evaluation, is a MISMATCH,
// and nothing is saved then. *Collective*, blocking; an error on one rank is an error on all.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_train(const shoal_train_options_t *options,
                                                    shoal_train_report_t *out_report);
// How many steps a run of these options takes from the start: to make a schedule of. INT64_MAX:
// without end. Not collective.
SHOAL_API int64_t shoal_train_steps(const shoal_train_options_t *options);
// What the inputs of a graph ask of a data set, in the arena: names, types, shapes without the rows
// of a batch, and of integers how many they may be. For shoal_dataset_open. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_train_columns(const shoal_graph_t *graph,
                                                            shoal_arena_t *arena,
                                                            int32_t *out_count,
                                                            const shoal_column_t **out_columns);
// Evaluates: makes the eval graphs only, sets their states from the checkpoint at `path` (NULL: the
// folder's newest), cast to the model's types, and runs over all eval_samples. A loss that is no
// number is a MISMATCH; the report has it. *Collective*, blocking.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_evaluate(const shoal_train_options_t *options,
                                                       const char *path,
                                                       shoal_train_report_t *out_report);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_TRAIN_H_
