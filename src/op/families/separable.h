// Linear maps of [N,C,S..] that work along every dim behind [N, C] by itself (average pooling,
// resizing): out[o..] = the sum over taps of the product of their weights times x[index of taps..].
// Indices and weights are those of the whole (window.h has the directions); a tap that the part
// does not hold is a MISMATCH, from which rule discovery learns the halo.
#ifndef SHOAL_OP_SEPARABLE_H_
#define SHOAL_OP_SEPARABLE_H_

#include "op/families/window.h"

// What output `o` of `out` sees of `in` elements along direction i: index[t] with weight[t] for
// every tap t. An index outside [0, in) counts for nothing.
typedef void (*shoal_weights_fn_t)(const void *how, int32_t i, int64_t in, int64_t out, int64_t o,
                                   int64_t *index, double *weight);

typedef struct shoal_separable {
  int64_t taps[SHOAL_DIRECTIONS];
  shoal_weights_fn_t weights;
  const void *how;       // passed on to `weights`
  shoal_place_t x, out;  // where the parts lie; of the adjoint: dx and dy
} shoal_separable_t;

// Bytes of the tables for a part `out` (a multiple of 64).
int64_t shoal_separable_bytes(const shoal_shape_t *out, const int64_t taps[SHOAL_DIRECTIONS]);
// to = map of from; both f64 or f32.
SHOAL_MUST_USE shoal_status_t shoal_separable_run(const shoal_call_t *call,
                                                  const shoal_separable_t *map,
                                                  const shoal_tensor_t *from,
                                                  const shoal_tensor_t *to, void *workspace);
// The adjoint: dx = the same products, summed for each element of x.
SHOAL_MUST_USE shoal_status_t shoal_separable_adjoint(const shoal_call_t *call,
                                                      const shoal_separable_t *map,
                                                      const shoal_tensor_t *dy,
                                                      const shoal_tensor_t *dx, void *workspace);
// Two flops for each tap of each element of `out`.
double shoal_separable_flops(const shoal_shape_t *out, const int64_t taps[SHOAL_DIRECTIONS]);

// `shape`, an attribute's position, is given and is [N, C, ..] of `other`.
SHOAL_MUST_USE shoal_status_t shoal_separable_shape(const shoal_call_t *call, int32_t attr,
                                                    const shoal_shape_t *other,
                                                    shoal_shape_t *out_shape);

#endif  // SHOAL_OP_SEPARABLE_H_
