// What the fused cross-entropy (loss.c), its decompositions (loss_parts.c) and the weights of
// labels (label.c) share.
#ifndef SHOAL_OP_LOSS_H_
#define SHOAL_OP_LOSS_H_

#include "op/families/family.h"

enum { LOSS_PLACE, LOSS_COUNT, LOSS_IGNORE, LOSS_SMOOTHING };  // attributes
enum { LOSS_LOGITS, LOSS_LABELS, LOSS_WEIGHTS, LOSS_TOTAL };   // inputs
enum { LOSS_DLOSS = 2, LOSS_GRAD_WEIGHTS, LOSS_GRAD_TOTAL };   // of the gradient

// What the sum over rows is divided by where no total is given.
int64_t shoal_loss_count(const shoal_call_t *call);

// Where in the part, along its dim, the label of row i lies: -1 if elsewhere in the whole, or if
// the row is ignored. A label outside the whole is refused.
SHOAL_MUST_USE shoal_status_t shoal_loss_label(const shoal_call_t *call, int32_t input,
                                               const shoal_tensor_t *labels, int64_t i,
                                               int64_t ignore, const shoal_place_t *place,
                                               int32_t dim, int64_t *out_local, bool *out_ignored);

void shoal_cross_entropy_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, const shoal_ref_t *out,
                                  const shoal_ref_t *grads, shoal_ref_t *in_grads);
void shoal_cross_entropy_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                   const shoal_ref_t *in, shoal_ref_t *outputs);
void shoal_cross_entropy_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                        const shoal_ref_t *in, shoal_ref_t *outputs);

#endif  // SHOAL_OP_LOSS_H_
