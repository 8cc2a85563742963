// What the checks of ops share: the call that is checked, its data, and how a failure is told.
// Private to explore/.
//
//   check_ops.c       which calls of which ops; a line per op
//   check_subject.c   a call's data, running it, failures
//   check_values.c    the same bits over garbage; outputs written over inputs
//   check_dtypes.c    every dtype that the op takes, against f64
//   check_nan.c       NaN and infinities in single elements
//   check_model.c     the call as a graph, with gradients
//   check_gradient.c  gradients against finite differences
//   check_decompose.c decompositions against the op itself
//   check_sizes.c     sizes 0, 1 and a prime
//   check_reasons.c   ops without gradients, and why
#ifndef SHOAL_EXPLORE_CHECK_OPS_H_
#define SHOAL_EXPLORE_CHECK_OPS_H_

#include "base/arena.h"
#include "base/status.h"
#include "op/case.h"
#include "rules/rules.h"
#include "shoal/explore.h"

// An op without a gradient that was compared.
typedef struct skipped {
  const shoal_op_t *op;
  bool floats;
} skipped_t;

typedef struct checker {
  const shoal_check_ops_options_t *options;
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  const shoal_op_t *op;
  shoal_check_ops_counts_t counts;  // of the op
  int64_t failed;                   // checks of the op
  bool floats;                      // it makes floats of floats
  shoal_arena_t arena;              // of one call
  shoal_arena_t kept;               // of all
  SHOAL_VEC(skipped_t) skipped;
  SHOAL_VEC(const shoal_op_t *) parts;  // of gradients, without one of their own
} checker_t;

// One call: an example of the op, or one like it with other sizes.
typedef struct subject {
  shoal_case_t data;  // types and attributes of the call, and which numbers its inputs take
  shoal_call_t call;  // the same with the types of its outputs
  uint64_t seed;      // of the data
  bool example;
} subject_t;

enum { CHECK_MOST_RUNS = 64 };

// ---- check_subject.c -----------------------------------------------------------------------

void check_say(const checker_t *c, const char *line);  // NULL (memory ran short): says nothing
// Counts a failure and says it, unless there were many: the call (NULL: all of
// the op's), and what is wrong with it.
SHOAL_MUST_USE shoal_status_t check_failed(checker_t *c, const shoal_call_t *call,
                                           const char *what);
// A status of the op's own: a failure if it is one. An error is returned only if memory ran short.
SHOAL_MUST_USE shoal_status_t check_refused(checker_t *c, const shoal_call_t *call,
                                            const char *doing, shoal_status_t status);

// `call` with data like those of `example`. The call's arrays are borrowed. Its outputs are
// inferred.
SHOAL_MUST_USE shoal_status_t subject_make(checker_t *c, const shoal_case_t *example,
                                           const shoal_call_t *call, uint64_t seed,
                                           subject_t *out_subject);
SHOAL_MUST_USE shoal_status_t check_tensor(checker_t *c, const shoal_type_t *type, int garbage,
                                           shoal_tensor_t *out_tensor);
SHOAL_MUST_USE shoal_status_t check_copy(checker_t *c, const shoal_tensor_t *from,
                                         shoal_tensor_t *out_tensor);
// Data of all inputs, in the dtypes of the call; *out_inputs lies in the arena.
SHOAL_MUST_USE shoal_status_t subject_inputs(checker_t *c, const subject_t *s,
                                             shoal_tensor_t **out_inputs);
// Runs the kernel over outputs and workspace that hold `garbage`. INVALID_ARGUMENT if it writes
// behind them.
SHOAL_MUST_USE shoal_status_t check_run(checker_t *c, const shoal_call_t *call,
                                        const shoal_tensor_t *inputs, int garbage,
                                        shoal_tensor_t **out_outputs);
// Runs the kernel on outputs that are there already.
SHOAL_MUST_USE shoal_status_t check_run_on(checker_t *c, const shoal_call_t *call,
                                           const shoal_tensor_t *inputs,
                                           const shoal_tensor_t *outputs, int garbage);
static inline double check_at(const shoal_tensor_t *tensor, int64_t element) {
  return shoal_dtype_load(tensor->dtype, tensor->data, element);
}
// The first element, in bits; -1: they are equal.
int64_t check_differs(const shoal_tensor_t *a, const shoal_tensor_t *b);

// ---- checks. Errors are those of the checker; what is wrong with the op is counted -----------

SHOAL_MUST_USE shoal_status_t check_values(checker_t *c, const subject_t *s);
SHOAL_MUST_USE shoal_status_t check_dtypes(checker_t *c, const subject_t *s);
SHOAL_MUST_USE shoal_status_t check_nan(checker_t *c, const subject_t *s);
SHOAL_MUST_USE shoal_status_t check_gradient(checker_t *c, const subject_t *s);
SHOAL_MUST_USE shoal_status_t check_decomposition(checker_t *c, const subject_t *s);
SHOAL_MUST_USE shoal_status_t check_ways(checker_t *c, const subject_t *s);
// Dtypes, NaN, gradients, decompositions.
SHOAL_MUST_USE shoal_status_t check_all(checker_t *c, const subject_t *s);
// The example with each of its sizes 0, 1 and a prime.
SHOAL_MUST_USE shoal_status_t check_sizes(checker_t *c, const shoal_case_t *example,
                                          const subject_t *s);

// ---- check_reasons.c -----------------------------------------------------------------------

bool check_is_part(const checker_t *c, const shoal_op_t *op);  // of a gradient that was checked
// Notes which ops without a gradient occur in this gradient, or in a part's decomposition.
SHOAL_MUST_USE shoal_status_t check_note_parts(checker_t *c, const shoal_model_t *model);
SHOAL_MUST_USE shoal_status_t check_note_skipped(checker_t *c);  // behind the checks of an op
SHOAL_MUST_USE shoal_status_t check_tell_skipped(checker_t *c);  // a line for each reason

// ---- check_model.c: graph "f" with inputs a0.., node "node", outputs out0.. and "loss" -------

typedef struct check_model {
  shoal_model_t *model;
  int32_t *inputs;      // values
  int32_t float_count;  // how many of them are floats
  int32_t outputs;      // of the node, how many are floats
  int32_t loss;         // -1: no float output, or none of those asked for
} check_model_t;

// The loss is a projection of output `which`; -1: of all outputs of one dtype.
SHOAL_MUST_USE shoal_status_t check_model_make(checker_t *c, const subject_t *s, int32_t which,
                                               check_model_t *out_model);
void check_model_free(check_model_t *m);
// Gradients by all float inputs; values in order of those. UNSUPPORTED if there is none.
SHOAL_MUST_USE shoal_status_t check_model_gradients(const check_model_t *m, shoal_model_t *model,
                                                    shoal_arena_t *arena, int32_t **out_values);
// Feeds all inputs of the graph.
SHOAL_MUST_USE shoal_status_t check_model_feed(checker_t *c, const subject_t *s,
                                               const shoal_model_t *model,
                                               shoal_interpreter_t *interpreter);

#endif  // SHOAL_EXPLORE_CHECK_OPS_H_
