// Shoal, prove: checks that a model computes on N ranks what it computes on one device.
//
// shoal_check does for a model of your own what `shoal check` does. It plans the model, runs it on
// N ranks, copies every value that a rank stores (gradients and updates included), and compares
// each part with that slice of a run on one device. Equal means:
//   f64   to 1e-10 of the value's size (at least 1e-3 of the largest of its kind: activations,
//         gradients, updates, parameters)
//   else  the error against a one-device run in f64 is at most 4 times the larger of the one-device
//         run's own error and 2 eps of the value's size; so too for gradients that the plan has
//         exchanged in a narrower type, which the one-device run rounds to it, and what comes of
//         them. Beyond that, the run's own error is the largest of eight more runs in which every
//         value is moved up or down by half of eps: where large terms cancel, a single run may
//         happen to have no error at all. Within that of the type's largest number it may be
//         infinite
// Integers are equal. Where each rank clips its own gradients before they are summed (clip_before
// in optimize.h), one device cannot know the summands: they are taken from the ranks, must be what
// each rank had and add up to what one device has, and all that follows from them is compared. Give
// AdamW a larger eps in a model that is checked (`shoal check` takes 1e-3 in f64 and 1 in narrower
// types): at 1e-8 a gradient that is zero but for rounding becomes an update of noise.
#ifndef SHOAL_PROVE_H_
#define SHOAL_PROVE_H_

#include "shoal/session.h"

#ifdef __cplusplus
extern "C" {
#endif

// How an input is fed. Those not named: floats in (-1, 1); indices from the whole range that their
// consumers allow (shoal_op_t's index_count), in every run the first, the last and indices spread
// over all between; other integers 0 and 1.
typedef struct shoal_check_feed {
  const char *name;
  int64_t limit;     // integers are below it; 0: found from the graph
  double low, high;  // floats; 0, 0: (-1, 1). Integers, if no limit is given: low to high - 1
  double multiple;   // floats are multiples of it, so that zeros and ties occur; 0: any
  const void
      *data;    // the whole batch in the input's type, fed in every run; NULL: random, as above
  size_t size;  // bytes of it
} shoal_check_feed_t;

// Where a check reports to; `line` has no line break.
typedef void (*shoal_check_line_fn_t)(void *self, const char *line);

typedef struct shoal_check_how {
  int32_t ranks;  // 0: 2
  int64_t steps;  // runs of "train"; 0: 2. Every other graph runs once, after it
  uint64_t seed;  // of random feeds
  int64_t feed_count;
  const shoal_check_feed_t *feeds;  // for inputs of any graph
  int64_t timeout_ms;               // without progress; 0: 60000
  bool processes;  // ranks are processes forked from this one, which must have no other threads;
                   // else threads of it
  bool direct;     // all ranks load one program; else they call shoal_parallelize
  shoal_check_line_fn_t line;  // may be NULL: gets the text of the program, line by line
  void *line_self;
} shoal_check_how_t;

// How far a check got; where it failed, if it did.
typedef enum shoal_check_step {
  SHOAL_CHECK_PLANNING,
  SHOAL_CHECK_TEXTS,
  SHOAL_CHECK_STATIC,
  SHOAL_CHECK_RUNNING,
  SHOAL_CHECK_VALUES,
  SHOAL_CHECK_MEMORY
} shoal_check_step_t;

typedef struct shoal_check_report {
  bool refused;  // planning said no (UNSUPPORTED, INVALID_ARGUMENT, NOT_FOUND): not a failure
  shoal_check_step_t step;
  double excess;  // of a value that differs, is finite and of a rounded type: its error in units of
                  // what is allowed. 0: whatever failed, that is not it
  int64_t values;  // compared: one per value, layout and run
  int64_t parts;   // of them, one per rank and micro-batch
  // Values whose decisions (top-k, argmax, ties) were imposed on the one-device runs.
  int64_t decisions;
  double worst;  // largest error, in units of what is allowed
  char worst_value[128];
  int64_t arena_bytes;  // planned, on the rank that has most
  bool rebuilt_plan;    // the plan's text was resolved for another model, rules or world, and was
                        // completed anew from its intent: shoal_parallelize would do the same
} shoal_check_report_t;

// Checks a model that shoal_parallelize would take, with the options it would take: strategy, mesh,
// plan, cluster, strategies, layouts, opaque, provider (which several ranks then call at once, with
// f64 too). `tap` and `dry_run` must be zero. It makes ranks of its own, unless `world` is given:
// then the check runs on that world's ranks and is *Collective*, `ranks` is the world's size, rank
// 0 compares the values, and the report is there. All-zero options, or NULL, are the defaults.
// `out_report` may be NULL. OK: all values agree, what is planned of memory is used, and steady
// state allocates nothing. MISMATCH names the first value that differs in program order: graph,
// run, layout, rank, micro-batch, index, got, expected. Errors of planning are returned as they
// are, and the report says `refused`. Blocks until all ranks are done. *Not collective*, but for a
// given world.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_check(const shoal_model_t *model,
                                                    const shoal_parallelize_options_t *options,
                                                    const shoal_check_how_t *how,
                                                    shoal_check_report_t *out_report);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_PROVE_H_
