// Example calls of ops, in a mini-language that is also the reproducer of a failing test:
//   "f64[3,4], i32[5]<4 ; axis=1, shape=[2,3], value=0.5, dtype=f32"
// Inputs: dtype[dims]; "<n" limits integers to [0, n) (default 2), ">m" lets them begin behind m
// instead of at 0 ("i32[5]<4>-4"); "+" asks for positive numbers. Floats with "<1" are
// probabilities, not near 0 or 1.
// Attributes by name; strings are quoted, places have no text: a case is a call on the whole (and
// completed as such).
#ifndef SHOAL_OP_CASE_H_
#define SHOAL_OP_CASE_H_

#include "shoal/op.h"

#define SHOAL_CASE_MAX_INPUTS 24

typedef struct shoal_case {
  const shoal_op_t *op;
  int32_t input_count;
  shoal_type_t inputs[SHOAL_CASE_MAX_INPUTS];
  int64_t first[SHOAL_CASE_MAX_INPUTS], limit[SHOAL_CASE_MAX_INPUTS];  // integers: in between
  bool positive[SHOAL_CASE_MAX_INPUTS];
  shoal_attr_value_t *attrs;
} shoal_case_t;

SHOAL_MUST_USE shoal_status_t shoal_case_parse(const shoal_op_t *op, const char *text,
                                               shoal_arena_t *arena, shoal_case_t *out_case);
// Deterministic test data from (seed, input index): floats in (-1, 1), (0.1, 1.1) or (0.1, 0.9),
// integers from the first one (positive: from 1) to below the limit. One in eight indices is the
// op's spare one.
void shoal_case_fill(const shoal_case_t *test_case, int32_t input, uint64_t seed,
                     shoal_tensor_t tensor);

#endif  // SHOAL_OP_CASE_H_
