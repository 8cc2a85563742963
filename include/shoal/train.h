// Shoal, train: the training loop as one call - batches, steps, evaluation, checkpoints, logs,
// signals - for models of your own and for those of the zoo.
//
// shoal_train builds the model, parallelizes it, loads a checkpoint if it is told to resume, and
// runs steps until the number asked for is reached, a hook or a signal stops it, or an error
// occurs. A program that needs another loop writes its own with session.h, data.h and metrics.h.
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

// Builds one graph of a model, for batches of `rows` rows, into an empty graph. In the phase
// "train" it updates parameters and has a float scalar output "loss"; in the phase "eval" it
// updates nothing and has the output "loss" and, as scalars, any further metrics. It is called once
// for each graph: "train" and "eval" for full batches, "train.R" and "eval.R" for a short batch of
// R rows at the end of an epoch. Like every graph builder it reports errors through the model.
//
// An eval graph with the output "logits" [rows, classes], the input "y" [rows] and no output
// "accuracy" gets one: the share of rows whose largest logit is the label's, among the rows that
// have a label (not -100).
typedef void (*shoal_build_fn_t)(void *self, shoal_graph_t *graph, const char *phase, int64_t rows);

// The batch that a feed function must feed: samples number cursor to cursor + rows - 1 of the
// training or the evaluation data, as `phase` says. Training goes on counting from epoch to epoch;
// every evaluation counts from 0. The feed function decides which sample has which number. It
// should do so from the seed alone: then a run that was stopped sees the same samples when it is
// resumed, on any number of ranks.
typedef struct shoal_train_batch {
  const char *phase;  // "train" or "eval"
  const char *graph;  // the graph that will run: "train", "eval", "train.R" or "eval.R"
  int64_t cursor, rows;
  int64_t epoch;  // of its first row
} shoal_train_batch_t;
// Feeds every input of the graph, on every rank: the whole batch, the same on all ranks
// (shoal_feed), or only what this rank needs (shoal_feed_part, shoal_feed_rows). An error ends
// training.
typedef shoal_status_t (*shoal_train_feed_fn_t)(void *self, shoal_session_t *session,
                                                const shoal_train_batch_t *batch);

// A number by name: an output of the eval graph, averaged over the samples, or a watched value.
#define SHOAL_TRAIN_METRICS 64  // the most that a run can have
typedef struct shoal_train_metric {
  char name[96];
  double value;
} shoal_train_metric_t;

typedef enum shoal_train_event_kind {
  SHOAL_TRAIN_READY,   // the session was created; no step has run
  SHOAL_TRAIN_BEFORE,  // the batch of a step was fed; the step has not run
  SHOAL_TRAIN_STEP,    // a step was started; it may still be running
  SHOAL_TRAIN_LOG,     // the loss of this step is known: every log_every steps
  SHOAL_TRAIN_EVAL,    // an evaluation was finished
  SHOAL_TRAIN_SAVE,    // a checkpoint was written
  SHOAL_TRAIN_END      // training is over; the session still exists
} shoal_train_event_kind_t;

// What a hook is told; borrowed for the call. Times are in seconds since this run's first step.
typedef struct shoal_train_event {
  shoal_train_event_kind_t kind;
  shoal_session_t *session;
  const shoal_model_t *model;
  int64_t step, steps;    // this step, counted from 1 over all runs of the model; the last step
  int64_t cursor, epoch;  // number of the next batch's first sample, and its epoch
  double loss;            // of the last step that was logged; LOG: of this step
  // LOG: the scalar outputs of the train graph beside the loss, the watched values, and "rate", the
  // learning rate. EVAL: the metrics of the evaluation.
  int64_t metric_count;
  const shoal_train_metric_t *metrics;
  const char *path;      // SAVE: the checkpoint's folder
  double seconds, left;  // since the first step; until the last one, at the present speed
  double speed;          // LOG: samples or tokens per second since the last LOG
  const char *unit;      // "samples" or "tokens" (a train graph with an input "ids")
} shoal_train_event_t;
// Called on every rank, with the same events in the same order. It may use the session; a
// collective call must then be made on all ranks. Setting *stop, on all ranks alike, ends training
// after this step as if `steps` were reached. An error ends training at once, on all ranks.
typedef shoal_status_t (*shoal_train_hook_fn_t)(void *self, const shoal_train_event_t *event,
                                                bool *stop);
// Called on rank 0 with a line for people, without a newline. A `progress` line may be overwritten
// by the next one, as on a terminal.
typedef void (*shoal_train_log_fn_t)(void *self, bool progress, const char *line);

// What to train, on what, for how long. Required: `build` and `batch`, or `model`; `data` or
// `feed`; `steps` or `epochs`. Zero in every other field is the default. Strings and pointers are
// borrowed until shoal_train returns. All ranks must give the same options.
typedef struct shoal_train_options {
  shoal_allocator_t allocator;  // zero: the system's

  // The model: built by `build`, or a finished one, which has the graphs "train", "eval" and, for
  // short batches, "train.R" and "eval.R". Watching values adds outputs to a finished model;
  // nothing else changes it.
  shoal_build_fn_t build;
  void *build_self;
  shoal_model_t *model;
  shoal_registry_t *registry;  // with `build`: the ops; NULL: native ones
  bool mixed;                  // with `build`: parameters in f32 (shoal_model_options_t)
  uint64_t seed;               // of initial values, dropout and the order of the data
  int64_t batch;               // rows of a step, over all ranks; `model` has its own: not read
  shoal_parallelize_options_t parallelize;  // world, strategy, mesh, plan ...

  // The data: data sets whose columns have the names of the graphs' inputs, of which each rank
  // reads only the rows that it needs; or a feed function.
  shoal_dataset_t *data;       // shuffled by seed and epoch
  shoal_dataset_t *eval_data;  // read in order and not augmented
  bool in_order;               // `data` is not shuffled
  bool eval_next;              // without eval_data: evaluates on the next training batch
  shoal_train_feed_fn_t feed;
  void *feed_self;
  int64_t samples;  // of an epoch; 0: all of `data`, or with `feed` one endless epoch
  // How many samples an evaluation uses, from the first on; 0: all of `eval_data`. Where there are
  // none, nothing is evaluated and no eval graph is built.
  int64_t eval_samples;
  // What happens where fewer samples than a batch are left of an epoch. SHOAL_LAST_SHORT builds a
  // graph for the short batch. Evaluation always ends with a short batch.
  shoal_last_batch_t last_batch;

  // How long to train: steps, counted over all runs of the model (negative: no step at all), or
  // epochs; whichever ends first where both are given.
  int64_t steps, epochs;
  int64_t eval_every;  // steps between evaluations; 0: only at the end
  // Sets the state "lr", the learning rate; 0 leaves it as the model or the checkpoint has it.
  double lr;

  // Checkpoints are written to "FOLDER/step-N", every save_every steps (0: not in between), at the
  // end and after a signal. NULL: none are written. All ranks must see the folder.
  const char *folder;
  int64_t save_every;
  bool save_async;  // checkpoints are written while the next steps run (shoal_save_with)
  int64_t keep;     // how many of the newest checkpoints are kept; 0: all
  const char
      *best;       // the metric of the best evaluation: its checkpoint stays as "FOLDER/best". The
                   // smallest is best; "+accuracy": the largest
  bool resume;     // continues from the newest checkpoint in the folder, if there is one
  bool overwrite;  // removes the checkpoints of an earlier run when this one begins
  // Weights to start from: a checkpoint's folder or file, loaded by shoal_load_with with these
  // options. NULL: initial values. Not read where `resume` finds a checkpoint. shoal_evaluate uses
  // load_options.averages and .report only.
  const char *load;
  shoal_load_options_t load_options;
  // Other settings of the run to keep in its checkpoints, as "name=value", ended by NULL. A run
  // that resumes logs those that differ.
  const char *const *settings;

  // Logging.
  int64_t log_every;  // steps between lines, and between LOG events; 0: 20
  shoal_train_log_fn_t log;
  void *log_self;
  const char *metrics;      // file for the same numbers as lines of JSON (metrics.h), which `shoal
                            // plot` draws; a run that resumes appends to it
  const char *tensorboard;  // folder for TensorBoard's event files
  // Names or patterns ('*') of values and states to log beside the loss, ended by NULL: scalars as
  // they are, others by their L2 norm. One that becomes NaN or infinite ends training, as a loss
  // does.
  const char *const *watch;
  // Examines every value of every step and stops at the first NaN or infinity with an error that
  // names it. Several times slower.
  bool check_nan;
  double peak_flops;  // FLOPs per second of all devices together: lines then show the share used

  shoal_train_hook_fn_t hook;
  void *hook_self;
  bool no_signals;  // leaves SIGTERM and SIGINT alone; otherwise they make training save and stop
} shoal_train_options_t;

typedef struct shoal_train_report {
  int64_t start, step;      // steps done before this run, and after it
  double first_loss, loss;  // of this run's first and last step; 0 where it made none
  int64_t metric_count;     // of the last evaluation
  shoal_train_metric_t metrics[SHOAL_TRAIN_METRICS];
  int64_t best_step;  // step of the best evaluation; 0: none
  double best;        // its value of options.best
  int64_t skipped;    // updates that the loss scale skipped because gradients were not finite
  bool stopped;       // a hook ended training
  double seconds;     // of the steps
  shoal_memory_report_t memory;  // of this rank
  // Seconds that this rank communicated since its first step, and of these where it computed
  // nothing meanwhile; see shoal_session_counters.
  double communication, exposed;
} shoal_train_report_t;

// Trains until the end; `out_report` may be NULL, and is also filled where training fails.
// *Collective*, blocking; an error on one rank is an error on all. INVALID_ARGUMENT: the options do
// not fit together, or the folder holds another run; ABORTED: a signal stopped it, and the message
// says what was saved; MISMATCH: a loss, or a parameter that would be saved, became NaN or
// infinite, and nothing was saved after that; else the errors of shoal_parallelize, the data and
// the callbacks.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_train(const shoal_train_options_t *options,
                                                    shoal_train_report_t *out_report);
// How many steps a run with these options makes from the start, to set lr_schedule.steps by;
// INT64_MAX: it does not end. *Not collective*.
SHOAL_API int64_t shoal_train_steps(const shoal_train_options_t *options);
// The inputs of a graph as columns for shoal_dataset_open, in the arena: names, types, shapes of
// one row, and for integers that are classes or ids, how many there are. *Not collective*.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_train_columns(const shoal_graph_t *graph,
                                                            shoal_arena_t *arena,
                                                            int32_t *out_count,
                                                            const shoal_column_t **out_columns);
// Evaluates a checkpoint: builds the eval graphs only, loads their states from `path` (NULL: the
// newest checkpoint in options.folder), cast to the model's types, and runs over the evaluation
// data. The metrics are in the report, also after a MISMATCH, which is a loss that is NaN or
// infinite. *Collective*, blocking.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_evaluate(const shoal_train_options_t *options,
                                                       const char *path,
                                                       shoal_train_report_t *out_report);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_TRAIN_H_
