// Writing nodes: the calls that gradients and decompositions make again and again, over shoal_emit.
#ifndef SHOAL_OP_EMIT_H_
#define SHOAL_OP_EMIT_H_

#include "shoal/op.h"

// One output, any inputs and attributes:
//   shoal_emit_one(e, "shoal.pad", REFS(dy), ATTRS(shoal_attr_shape("shape", &shape)))
#define REFS(...)                                                                          \
  (int32_t)(sizeof((shoal_ref_t[]){__VA_ARGS__}) / sizeof(shoal_ref_t)), (shoal_ref_t[]) { \
    __VA_ARGS__                                                                            \
  }
#define ATTRS(...)                                                                            \
  (int32_t)(sizeof((shoal_attr_t[]){__VA_ARGS__}) / sizeof(shoal_attr_t)), (shoal_attr_t[]) { \
    __VA_ARGS__                                                                               \
  }
#define NO_REFS 0, NULL
#define NO_ATTRS 0, NULL

// The head of a gradient: OP_GRADIENT(pick) { in_grads[0] = ...; } is pick_gradient.
#define OP_GRADIENT(name)                                                                          \
  static void name##_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in, \
                              const shoal_ref_t *out, const shoal_ref_t *grads,                    \
                              shoal_ref_t *in_grads)

shoal_ref_t shoal_emit_one(shoal_emitter_t *e, const char *op, int32_t input_count,
                           const shoal_ref_t *inputs, int32_t attr_count,
                           const shoal_attr_t *attrs);
shoal_ref_t shoal_emit_unary(shoal_emitter_t *e, const char *op, shoal_ref_t x);
shoal_ref_t shoal_emit_binary(shoal_emitter_t *e, const char *op, shoal_ref_t a, shoal_ref_t b);
shoal_ref_t shoal_emit_affine(shoal_emitter_t *e, shoal_ref_t x, double scale, double shift);
// A scalar constant, to be broadcast.
shoal_ref_t shoal_emit_scalar(shoal_emitter_t *e, shoal_dtype_t dtype, double value);
// These add nothing when x already is what is asked for.
shoal_ref_t shoal_emit_cast(shoal_emitter_t *e, shoal_ref_t x, shoal_dtype_t dtype);
shoal_ref_t shoal_emit_reshape(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape);
shoal_ref_t shoal_emit_broadcast(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape);
// Adjoint of broadcasting: sums over what `shape` was broadcast along.
shoal_ref_t shoal_emit_sum_to(shoal_emitter_t *e, shoal_ref_t x, const shoal_shape_t *shape);
// `op` is "shoal.reduce_sum" or another reduction; over one axis, or over all dims but the last.
shoal_ref_t shoal_emit_reduce(shoal_emitter_t *e, const char *op, shoal_ref_t x, int32_t axis,
                              bool keep);
shoal_ref_t shoal_emit_sum_leading(shoal_emitter_t *e, shoal_ref_t x);
shoal_ref_t shoal_emit_mean(shoal_emitter_t *e, shoal_ref_t x, int32_t axis, bool keep,
                            int64_t count);
// exp(x - max) along the axis, its max and its sum (dims kept).
shoal_ref_t shoal_emit_exp(shoal_emitter_t *e, shoal_ref_t x, int32_t axis, shoal_ref_t *out_max,
                           shoal_ref_t *out_sum);
shoal_ref_t shoal_emit_where(shoal_emitter_t *e, shoal_ref_t condition, shoal_ref_t a,
                             shoal_ref_t b);
shoal_ref_t shoal_emit_einsum(shoal_emitter_t *e, const char *equation, shoal_ref_t a,
                              shoal_ref_t b);
// x with a dim of size 1 put in at `axis`: undoes a reduction that did not keep it.
shoal_ref_t shoal_emit_unsqueeze(shoal_emitter_t *e, shoal_ref_t x, int32_t axis);

// Fails the emitter when the call speaks of a part: decompositions are written for the whole.
bool shoal_emit_whole(const shoal_call_t *call, shoal_emitter_t *e);

#endif  // SHOAL_OP_EMIT_H_
