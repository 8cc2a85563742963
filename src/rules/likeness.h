// Likenesses: a small call with the same rule as a large one. Private to rules/.
#ifndef SHOAL_RULES_LIKENESS_H_
#define SHOAL_RULES_LIKENESS_H_

#include "base/arena.h"
#include "shoal/rules.h"

// A reshape's sizes as products of atoms (regroup.c).
#define REGROUP_MAX 8
typedef struct regroup {
  int32_t count;  // 0: it is none
  int64_t real[REGROUP_MAX], small[REGROUP_MAX];
  uint32_t crossed_in, crossed_out;  // bit per dim: stands for dims that were merged
} regroup_t;

// Small shapes with the same atoms; false where there are too many.
bool regroup_make(const shoal_shape_t *in, const shoal_shape_t *out, regroup_t *regroup,
                  shoal_shape_t *small_in, shoal_shape_t *small_out);
int64_t regroup_lift(const regroup_t *regroup, int64_t small);  // 0: is no product of atoms

typedef struct likeness {
  bool smaller;       // false: the call is small already, or cannot be made smaller
  shoal_call_t call;  // the small one
  int32_t operand_count;
  const shoal_type_t *real, *small;  // inputs, then outputs
  bool slides;
  regroup_t regroup;
} likeness_t;

// Looks for a likeness. `force` also where the call is small already (for tests). `larger` makes
// what windows slide over larger than without: what holds for both holds for all sizes.
SHOAL_MUST_USE shoal_status_t likeness_make(const shoal_call_t *call, bool force, bool larger,
                                            shoal_arena_t *arena, likeness_t *out_likeness);

typedef enum likeness_lifted {
  LIKENESS_LIFTED,
  LIKENESS_DROPPED,
  LIKENESS_UNCLEAR
} likeness_lifted_t;
// The same way of the real call. Dropped: a way of the likeness only. Unclear: nothing can be told.
likeness_lifted_t likeness_lift(const likeness_t *likeness, const shoal_way_t *way,
                                shoal_way_operand_t *out_operands, int64_t *out_items);

#endif  // SHOAL_RULES_LIKENESS_H_
