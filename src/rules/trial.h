// Trials: executes one call as a whole, once, and then in parts, for every candidate of discovery.
// Private to rules/.
//
//   data.c      values for the whole call
//   boxes.c     what a part has of each operand
//   trial.c     executing a part
//   compare.c   parts against the whole
//   pair.c      outputs that are merged together
#ifndef SHOAL_RULES_TRIAL_H_
#define SHOAL_RULES_TRIAL_H_

#include "base/philox.h"
#include "rules/rules.h"

#define TRIAL_MAX_PARTS 12
#define TRIAL_SETS 4

typedef struct boxes_entry boxes_entry_t;  // boxes.c

typedef struct trial {
  shoal_allocator_t allocator;
  shoal_executor_t executor;
  shoal_arena_t arena;  // the whole operands
  const shoal_op_t *op;
  int32_t input_count, output_count;
  const shoal_attr_value_t *attrs;  // of the whole
  const shoal_type_t *types;  // inputs, then outputs; floats are f64 where the op has a kernel
  shoal_tensor_t
      *sets[TRIAL_SETS];        // likewise: what holds for one draw of values may not for another
  double *largest[TRIAL_SETS];  // by output: the largest finite magnitude
  int32_t set_count, set;       // how many there are; the one in use
  int32_t most_sets;            // no more are drawn
  boxes_entry_t **boxes;        // by operand: those made so far; NULL: none are kept
  int64_t executions, limit;    // parts executed so far; no more than `limit` are
  bool trusted;                 // a native op, which leaves its inputs alone
  const char *note;             // why nothing that is found could be right; NULL: it may be
  shoal_status_t error;         // memory ran short, or the op wrote where it must not: it ends
} trial_t;

// How a way's items are distributed over parts in a trial.
typedef struct deal {
  int64_t parts, unit;
  const int64_t *weights;
  bool alternate;  // item i goes to part i mod parts: any order at all
  int64_t id;      // equal ids: equal deals; 0: of this one nothing is kept
  int64_t salt;    // how unreduced inputs are split at random
} deal_t;

// One part of a way.
typedef struct trial_part {
  shoal_boxes_t *boxes;  // by operand: inputs, then outputs
  shoal_type_t *types;   // likewise, as the op infers them
  shoal_attr_value_t *attrs;
  shoal_tensor_t *tensors;
} trial_part_t;

// Runs the call whole on at most `sets` sets of random data (TRIAL_SETS: all there are). Fails when
// it cannot be executed at all.
SHOAL_MUST_USE shoal_status_t trial_init(const shoal_call_t *call, shoal_executor_t executor,
                                         shoal_allocator_t allocator, int32_t sets,
                                         trial_t *out_trial);
void trial_deinit(trial_t *trial);

// A tensor with guards before and behind its elements; false when memory is short.
bool trial_alloc(shoal_arena_t *arena, const shoal_type_t *type, shoal_tensor_t *out_tensor);
// Gives a tensor other guards, or those it had: what a kernel makes must not depend on them.
void trial_change_guards(const shoal_tensor_t *tensor, bool other);
// Whether all outputs among the operands have their guards still: an error names the op and the
// output.
SHOAL_MUST_USE shoal_status_t trial_guarded(const trial_t *trial, const shoal_tensor_t *tensors);

// Word `index` of a stream of random words, which is read from its beginning: four are made at a
// time, and the last ones kept in `words`.
static inline uint32_t trial_word(uint64_t key, uint64_t step, int64_t index, uint32_t words[4]) {
  if (index % 4 == 0) {
    shoal_philox4x32(
        (uint32_t[4]){(uint32_t)(index / 4), 0, (uint32_t)step, (uint32_t)(step >> 32)},
        (uint32_t[2]){(uint32_t)key, (uint32_t)(key >> 32)}, words);
  }
  return words[index % 4];
}

static inline const shoal_tensor_t *trial_whole(const trial_t *trial, int32_t operand) {
  return &trial->sets[trial->set][operand];
}
// Keeps a lack of memory, forgets every other error. Returns whether all is well.
bool trial_passed(trial_t *trial, shoal_status_t status);
bool trial_allocated(trial_t *trial, const void *memory);

// What part `index` has of operand `operand` if it is as `form` says; the way says how the items
// are cut. NULL: no layout says that.
const shoal_boxes_t *trial_boxes(trial_t *trial, const shoal_way_t *way, int32_t operand,
                                 const shoal_way_operand_t *form, const deal_t *deal, int64_t index,
                                 shoal_arena_t *arena);
// Prepares a part: its boxes, attributes bound to them, the types of its operands. False if the op
// refuses it, or an output that the way cuts comes out in another shape than its part has.
bool trial_prepare(trial_t *trial, const shoal_way_t *way, const deal_t *deal, int64_t index,
                   shoal_arena_t *arena, trial_part_t *out_part);
// Executes a part that was prepared on the set in use; its outputs are in `tensors`. False if that
// fails.
bool trial_execute(trial_t *trial, const shoal_way_t *way, const deal_t *deal, int64_t index,
                   trial_part_t *part);

// Says whether part `index` is what it must be if output `output` is as `form` says. Of a partial
// output that is its shape.
bool trial_part_holds(trial_t *trial, const shoal_way_t *way, int32_t output,
                      const shoal_way_operand_t *form, const deal_t *deal, int64_t index,
                      const trial_part_t *part, shoal_arena_t *arena);
// Says whether the parts, each of which is what it must be, make up the whole output.
bool trial_parts_join(trial_t *trial, const shoal_way_t *way, int32_t output,
                      const shoal_way_operand_t *form, const deal_t *deal,
                      const trial_part_t *parts, shoal_arena_t *arena);
// The output that `output` may be merged with by log-sum-exp: of two outputs, a value and the
// logarithms of what it was divided by, which lack the value's last dim or have 1 there. -1: none.
int32_t trial_partner(const trial_t *trial, int32_t output);
// Says whether the parts of both outputs of a pair merge to the whole of output `output`; its parts
// have the whole's shape.
bool trial_pair_joins(trial_t *trial, int32_t output, const deal_t *deal, const trial_part_t *parts,
                      shoal_arena_t *arena);
// Compares `count` elements of output `output` with what they must be, up to its tolerance.
bool trial_same(const trial_t *trial, int32_t output, const void *made, const void *expected,
                int64_t count);
// The largest finite magnitude among the elements of a float tensor.
double trial_largest(const shoal_tensor_t *tensor);

// Says whether the shapes of the way's parts fit a call of these types (inputs, then outputs).
// Nothing is executed.
SHOAL_MUST_USE shoal_status_t trial_fits(const shoal_call_t *call, const shoal_type_t *types,
                                         const shoal_way_t *way, shoal_allocator_t allocator,
                                         bool *out_fits);

#endif  // SHOAL_RULES_TRIAL_H_
