// Likenesses: a small call with the same rule as a large one. Private to rules/.
#ifndef SHOAL_RULES_LIKENESS_H_
#define SHOAL_RULES_LIKENESS_H_

#include "base/arena.h"
#include "shoal/rules.h"

typedef struct likeness {
  bool smaller;       // false: the call is small already, or cannot be made smaller
  shoal_call_t call;  // the small one
  int32_t operand_count;
  const shoal_type_t *real, *small;  // inputs, then outputs
  bool has_sizes, slides;
} likeness_t;

// Looks for a likeness. `force` also where the call is small already (for tests).
SHOAL_MUST_USE shoal_status_t likeness_make(const shoal_call_t *call, bool force,
                                            shoal_arena_t *arena, likeness_t *out_likeness);
// The same way of the real call; false when it cannot be told what it is.
bool likeness_lift(const likeness_t *likeness, const shoal_way_t *way,
                   shoal_way_operand_t *out_operands, int64_t *out_items);

#endif  // SHOAL_RULES_LIKENESS_H_
