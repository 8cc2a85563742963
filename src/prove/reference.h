// The one-device runs a check compares with: in the model's own dtypes and, where that is not f64
// throughout, promoted to f64 from the same rounded states. Also how large the error of a value may
// be.
#ifndef SHOAL_PROVE_REFERENCE_H_
#define SHOAL_PROVE_REFERENCE_H_

#include "graph/interpret.h"
#include "prove/prove.h"

typedef enum shoal_value_kind {
  SHOAL_KIND_ACTIVATION,
  SHOAL_KIND_GRADIENT,
  SHOAL_KIND_UPDATE,
  SHOAL_KIND_PARAMETER,
  SHOAL_KIND_COUNT
} shoal_value_kind_t;

// A value as the one-device run has it.
typedef struct shoal_expected {
  const char *name;
  shoal_type_t type;
  shoal_value_kind_t kind;
  bool exact;            // integers; and everything in "init"
  double epsilon;        // of the coarsest float it was rounded to on its way; 0: never rounded
  const void *own;       // whole, in its own dtype
  const double *floats;  // floats: what is compared with
  double largest;        // floats: magnitude
  double own_error;      // floats: of the one-device run in its own dtypes; INFINITY: it overflows
  // Of a gradient that the plan has exchanged in another type: the same once it has been rounded to
  // that. Else as above.
  double exchanged_epsilon, exchanged_error;
  double exchanged_scale;  // its copies in that type are as many times as large; 0: they are not
  double shaken;  // floats: how far rounding alone moves it (shoal_reference_shake); 0: not asked
} shoal_expected_t;

typedef struct shoal_reference shoal_reference_t;

// Called for values that a decision depends on (a comparison, relu's gradient ...), and for those
// that are about to overflow, when a run is repeated with the program's decisions. It overwrites
// those of the `count` elements for which the program has a value within `allowed` of this one, if
// it `decides`, or has overflowed (shoal_reference_overflows), and returns whether it changed any.
typedef bool (*shoal_impose_fn_t)(void *self, const shoal_graph_t *graph, int32_t value,
                                  int64_t count, bool decides, double allowed, double *elements);

// Called for values that an op leaves to the program (`claimed` in op.h), whenever they are
// computed in run `run`. Overwrites the `count` elements with the program's and returns true;
// false: the program does not have them all, and comparing the value will tell.
typedef bool (*shoal_take_fn_t)(void *self, int32_t run, const shoal_graph_t *graph, int32_t value,
                                int64_t count, double *elements);

// Reference kernels, and the options' provider for ops without one. Borrows the options.
shoal_executor_t shoal_check_executor(const shoal_check_options_t *options);

// Allocates from `allocator`; keeps model, options and what is compared with it: a program, and the
// plan it came from or NULL.
SHOAL_MUST_USE shoal_status_t shoal_reference_create(
    const shoal_model_t *model, const shoal_check_options_t *options, const shoal_plan_t *plan,
    const shoal_program_t *program, shoal_allocator_t allocator, shoal_reference_t **out_reference);
void shoal_reference_free(shoal_reference_t *reference);
// Feeds what a check of `model`, which is kept, would feed: the reference's own was made from it
// and may read its inputs by other ops, which allow other integers.
void shoal_reference_feed_as(shoal_reference_t *reference, const shoal_model_t *model);
// Says where values come from that the model leaves to the program. NULL, as it is at first: from
// the ops' kernels.
void shoal_reference_take(shoal_reference_t *reference, shoal_take_fn_t take, void *self);
// Runs a graph as number `run` of the schedule.
SHOAL_MUST_USE shoal_status_t shoal_reference_run(shoal_reference_t *reference, const char *graph,
                                                  int32_t run);
// Undoes the last run and repeats it with imposed decisions; counts the values that changed.
SHOAL_MUST_USE shoal_status_t shoal_reference_repeat(shoal_reference_t *reference,
                                                     shoal_impose_fn_t impose, void *self,
                                                     int64_t *out_imposed);
// Finds out how far rounding alone moves the values of the last run that are of narrow types, and
// allows for that.
SHOAL_MUST_USE shoal_status_t shoal_reference_shake(shoal_reference_t *reference);

// The program's value of a state after the last run: the next one starts from it, in both
// interpreters.
SHOAL_MUST_USE shoal_status_t shoal_reference_restart(shoal_reference_t *reference,
                                                      const char *state, const void *data);

// Of the last run: the graph; its values by number; states after it. Borrowed until the next run.
const shoal_graph_t *shoal_reference_graph(const shoal_reference_t *reference);
int32_t shoal_reference_find(const shoal_reference_t *reference, const char *name);  // value, or -1
const shoal_expected_t *shoal_reference_value(const shoal_reference_t *reference, int32_t value);
const shoal_expected_t *shoal_reference_state(const shoal_reference_t *reference, int32_t state);
// Is `got` infinite, and `want`, a number of that type, within `allowed` of becoming so?
bool shoal_reference_overflows(shoal_dtype_t dtype, double got, double want, double allowed);
// The largest difference contract 1 allows, before or after the value is exchanged.
double shoal_reference_allowed(const shoal_reference_t *reference, const shoal_expected_t *expected,
                               bool exchanged);

// ---- feeds (feeds.c) ----------------------------------------------------------------------------

// Deterministic data of an input in run `run`: different everywhere, indices from the whole range
// their consumers allow. `data` has room for the whole.
SHOAL_MUST_USE shoal_status_t shoal_feed_fill(const shoal_check_options_t *options,
                                              const shoal_graph_t *graph, int32_t value,
                                              int32_t run, void *data);
// The graphs a check runs, in order: "init", "train" x steps, every other one once.
SHOAL_MUST_USE shoal_status_t shoal_check_schedule(const shoal_model_t *model, int64_t steps,
                                                   shoal_arena_t *arena,
                                                   const char *const **out_graphs,
                                                   int32_t *out_count);

#endif  // SHOAL_PROVE_REFERENCE_H_
