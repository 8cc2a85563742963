// Trials: executes one call as a whole, once, and then in parts, for every candidate of discovery.
// Private to rules/.
#ifndef SHOAL_RULES_TRIAL_H_
#define SHOAL_RULES_TRIAL_H_

#include "rules/rules.h"

#define TRIAL_MAX_PARTS 12
#define TRIAL_SETS 2

typedef struct trial {
  shoal_allocator_t allocator;
  shoal_executor_t executor;
  shoal_arena_t arena;  // the whole operands
  const shoal_op_t *op;
  int32_t input_count, output_count;
  const shoal_attr_value_t *attrs;  // of the whole
  const shoal_type_t *types;  // inputs, then outputs; floats are f64 where the op has a kernel
  shoal_tensor_t
      *sets[TRIAL_SETS];  // likewise: what holds for one draw of values may not for another
  int32_t set_count;
  const shoal_tensor_t *whole;  // the set in use
  int64_t executions, limit;    // parts executed so far; no more than `limit` are
  shoal_status_t error;         // memory ran short: discovery ends
} trial_t;

// How a way's items are distributed over parts in a trial.
typedef struct deal {
  int64_t parts, unit;
  const int64_t *weights;
  bool alternate;  // item i goes to part i mod parts: any order at all
} deal_t;

// Local results of all parts of one trial.
typedef struct trial_parts {
  shoal_tensor_t *outputs[TRIAL_MAX_PARTS];
} trial_parts_t;

// Runs the call whole on random data. Fails when it cannot be executed at all.
SHOAL_MUST_USE shoal_status_t trial_init(const shoal_call_t *call, shoal_executor_t executor,
                                         shoal_allocator_t allocator, trial_t *out_trial);
void trial_deinit(trial_t *trial);

// Executes every part of the way; attributes are bound to what the way says of the outputs. False
// if one cannot be executed, or an output that the way cuts comes out in another shape than its
// part has.
bool trial_run(trial_t *trial, const shoal_way_t *way, const deal_t *deal, shoal_arena_t *arena,
               trial_parts_t *out_parts);
// Says whether the parts combine to the whole of output `output` if that output is cut, partial or
// whole as `form` says.
bool trial_holds(trial_t *trial, const shoal_way_t *way, int32_t output,
                 const shoal_way_operand_t *form, const deal_t *deal, const trial_parts_t *parts,
                 shoal_arena_t *arena);

// The output that `output` may be merged with by log-sum-exp: of two outputs, a value and the
// logarithms of what it was divided by, which lack the value's last dim or have 1 there. -1: none.
int32_t trial_partner(const trial_t *trial, int32_t output);

// Says whether the shapes of the way's parts fit a call of these types (inputs, then outputs).
// Nothing is executed.
SHOAL_MUST_USE shoal_status_t trial_fits(const shoal_call_t *call, const shoal_type_t *types,
                                         const shoal_way_t *way, shoal_allocator_t allocator,
                                         bool *out_fits);

#endif  // SHOAL_RULES_TRIAL_H_
