// What reductions over named dims share. Their attributes 0 and 1 are `dims` and `keep`.
#ifndef SHOAL_OP_REDUCED_H_
#define SHOAL_OP_REDUCED_H_

#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { SHOAL_REDUCED_DIMS, SHOAL_REDUCED_KEEP };

#define SHOAL_REDUCED_ATTRS                                                 \
  {.name = "dims",                                                          \
   .kind = SHOAL_ATTR_INTS,                                                 \
   .doc = "dims to reduce, each once; -1 is the last, [] reduces nothing"}, \
  {                                                                         \
    .name = "keep", .kind = SHOAL_ATTR_INT, .optional = true,               \
    .doc = "1: reduced dims stay, with size 1"                              \
  }

// Which dims of x are reduced? Names a wrong or doubled one.
SHOAL_MUST_USE shoal_status_t shoal_reduced_dims(const shoal_call_t *call,
                                                 bool out_reduced[SHOAL_MAX_RANK]);
// The result's shape with reduced dims as 1, or without them.
shoal_shape_t shoal_reduced_shape(const shoal_shape_t *x, const bool *reduced, bool keep);
// The result of input 0, with its dtype.
SHOAL_MUST_USE shoal_status_t shoal_reduced_infer(const shoal_call_t *call,
                                                  shoal_type_t *out_types);
// How many elements of input 0 go into one of the result; dims that do not exist are skipped.
int64_t shoal_reduced_count(const shoal_call_t *call);
// A walk over x (operand 0) and, along with it, over the result (operand 1) that each element goes
// into.
SHOAL_MUST_USE shoal_status_t shoal_reduced_walk(const shoal_call_t *call, shoal_walk_t *out_walk);
// A value of the result's shape, repeated to x's.
shoal_ref_t shoal_reduced_repeat(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t value);
// Another reduction `op` of `x` over the call's dims, kept if asked for.
shoal_ref_t shoal_reduced_emit(const shoal_call_t *call, shoal_emitter_t *e, const char *op,
                               shoal_ref_t x, bool keep);
// One flop for each element of input 0.
void shoal_reduced_cost(const shoal_call_t *call, shoal_cost_t *out_cost);

#endif  // SHOAL_OP_REDUCED_H_
