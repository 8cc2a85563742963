// What the fused attention (attention.c) and its decompositions (attention_parts.c) share.
#ifndef SHOAL_OP_ATTENTION_H_
#define SHOAL_OP_ATTENTION_H_

#include "op/families/family.h"

enum { ATTENTION_Q, ATTENTION_K, ATTENTION_V };                       // inputs of both
enum { ATTENTION_OUT = 3, ATTENTION_LSE, ATTENTION_DOUT };            // of the gradient
enum { ATTENTION_OPTIONAL = 3, ATTENTION_GRAD_OPTIONAL = 6 };         // the first optional one
enum { ATTENTION_BIAS, ATTENTION_MASK, ATTENTION_STEP };              // from there on
enum { CAUSAL, SCALE, PLACE_Q, PLACE_K, WINDOW, GROUPS, DROP, KEY };  // attributes

double shoal_attention_scale(const shoal_call_t *call);
// The first optional input among the record's names.
static inline int32_t shoal_attention_optional(const shoal_call_t *call) {
  return call->op->input_count - 3;
}
// Number of the optional input among those given; -1: left out.
static inline int32_t shoal_attention_given(const shoal_call_t *call, int32_t optional) {
  return GIVEN(call, shoal_attention_optional(call) + optional);
}

void shoal_attention_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                              const shoal_ref_t *out, const shoal_ref_t *grads,
                              shoal_ref_t *in_grads);
void shoal_attention_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                               shoal_ref_t *outputs);
void shoal_attention_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                    const shoal_ref_t *in, shoal_ref_t *outputs);

#endif  // SHOAL_OP_ATTENTION_H_
