// matmul: products of matrices, with leading dims that broadcast like numpy's.
//   a [.., m, k]  b [.., k, n]  out [.., m, n]
// One contraction (product.h), in which a batch dim that one operand is broadcast along belongs to
// the rows or columns of the other.
#include <stdio.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/product.h"

enum { A, B };
enum { TRANSPOSE_A, TRANSPOSE_B };

// The batch dims of an operand: all but its last two.
static shoal_shape_t batch_of(const shoal_shape_t *shape) {
  return shoal_shape_part(shape, 0, shape->rank - 2);
}

static shoal_status_t matmul_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  const shoal_shape_t *a = &call->inputs[0].shape, *b = &call->inputs[1].shape;
  REQUIRE_HINT(call, a->rank >= 2 && b->rank >= 2,
               "a vector is a matrix of one row or column: reshape it",
               "a and b must have at least 2 dims, not %d and %d", a->rank, b->rank);
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const shoal_shape_t batch_a = batch_of(a), batch_b = batch_of(b);
  shoal_shape_t shape;
  if (!shoal_shape_broadcast(&batch_a, &batch_b, &shape)) {
    char text_a[128], text_b[128];
    shoal_shape_format(&batch_a, text_a, sizeof text_a);
    shoal_shape_format(&batch_b, text_b, sizeof text_b);
    return REFUSE_HINT(call, "from the right, sizes must be equal or one of them 1",
                       "the batch dims do not fit: %s of a and %s of b", text_a, text_b);
  }
  const int64_t k = a->dims[a->rank - (ta ? 2 : 1)], other = b->dims[b->rank - (tb ? 1 : 2)];
  if (k != other) {
    const bool turned_b = k == b->dims[b->rank - (tb ? 2 : 1)];
    const bool turned_a = other == a->dims[a->rank - (ta ? 1 : 2)];
    return REFUSE_HINT(call,
                       turned_b   ? "the other way round it fits: switch transpose_b"
                       : turned_a ? "the other way round it fits: switch transpose_a"
                                  : NULL,
                       "the summed sizes differ: dim %d of a has %lld elements, dim %d of b %lld",
                       a->rank - (ta ? 2 : 1), (long long)k, b->rank - (tb ? 1 : 2),
                       (long long)other);
  }
  shape.dims[shape.rank++] = a->dims[a->rank - (ta ? 1 : 2)];
  shape.dims[shape.rank++] = b->dims[b->rank - (tb ? 2 : 1)];
  out_types[0] = (shoal_type_t){call->inputs[0].dtype, shape};
  return NULL;
}

// A batch dim that one operand is broadcast along belongs to the rows or columns of the other.
static shoal_contraction_t matmul_contraction(const shoal_call_t *call) {
  const shoal_shape_t *a = &call->inputs[0].shape, *b = &call->inputs[1].shape;
  const shoal_shape_t *c = &call->outputs[0].shape;
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const int32_t row = a->rank - (ta ? 1 : 2), column = b->rank - (tb ? 2 : 1);
  const int32_t sum_a = a->rank - (ta ? 2 : 1), sum_b = b->rank - (tb ? 1 : 2);
  int64_t sa[SHOAL_MAX_RANK], sb[SHOAL_MAX_RANK], sc[SHOAL_MAX_RANK];
  shoal_strides(a, sa);
  shoal_strides(b, sb);
  shoal_strides(c, sc);
  shoal_contraction_t product = shoal_contraction_empty();
  for (int32_t d = 0; d < c->rank - 2; ++d) {
    const int32_t da = d + a->rank - c->rank, db = d + b->rank - c->rank;
    const bool in_a = da >= 0 && a->dims[da] == c->dims[d];
    const bool in_b = db >= 0 && b->dims[db] == c->dims[d];
    shoal_group_t *group = in_a && in_b ? &product.batch : in_a ? &product.rows : &product.columns;
    shoal_contraction_add(group, c->dims[d], in_a ? sa[da] : 0, in_b ? sb[db] : 0, sc[d]);
  }
  shoal_contraction_add(&product.rows, a->dims[row], sa[row], 0, sc[c->rank - 2]);
  shoal_contraction_add(&product.columns, b->dims[column], 0, sb[column], sc[c->rank - 1]);
  shoal_contraction_add(&product.summed, a->dims[sum_a], sa[sum_a], sb[sum_b], 0);
  return product;
}

static shoal_ref_t emit_matmul(shoal_emitter_t *e, shoal_ref_t a, bool ta, shoal_ref_t b, bool tb) {
  return shoal_emit_one(
      e, "shoal.matmul", REFS(a, b),
      ATTRS(shoal_attr_int("transpose_a", ta), shoal_attr_int("transpose_b", tb)));
}

// Operand `o` without the batch dims that it is broadcast along, and the letters of what is left:
// capitals for batch dims, m, n and k for the last two.
static shoal_ref_t matmul_term(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t ref,
                               int32_t o, char *out_letters) {
  const shoal_shape_t *shape = &call->inputs[o].shape, *out = &call->outputs[0].shape;
  static const char *const ends[2][2] = {{"mk", "km"}, {"kn", "nk"}};
  shoal_shape_t kept = {0};
  for (int32_t d = 0; d < shape->rank - 2; ++d) {
    const int32_t in_out = d + out->rank - shape->rank;
    if (shape->dims[d] != out->dims[in_out]) continue;
    out_letters[kept.rank] = (char)('A' + in_out);
    kept.dims[kept.rank++] = shape->dims[d];
  }
  const bool turned = call->attrs[o == A ? TRANSPOSE_A : TRANSPOSE_B].i;
  memcpy(out_letters + kept.rank, ends[o][turned], 3);
  kept.dims[kept.rank++] = shape->dims[shape->rank - 2];
  kept.dims[kept.rank++] = shape->dims[shape->rank - 1];
  return shoal_emit_reshape(e, ref, &kept);
}

// Where an operand was broadcast its gradient is summed over those dims, as part of the product.
static void matmul_broadcast_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                      const shoal_ref_t *in, shoal_ref_t dy,
                                      shoal_ref_t *in_grads) {
  const int32_t rank = call->outputs[0].shape.rank;
  char terms[2][SHOAL_MAX_RANK + 1], out[SHOAL_MAX_RANK + 1] = "ABCDEF";
  char text[4 * SHOAL_MAX_RANK];
  shoal_ref_t squeezed[2];
  for (int32_t o = A; o <= B; ++o) squeezed[o] = matmul_term(call, e, in[o], o, terms[o]);
  memcpy(out + rank - 2, "mn", 3);
  for (int32_t o = A; o <= B; ++o) {
    snprintf(text, sizeof text, "%s,%s->%s", out, terms[1 - o], terms[o]);
    in_grads[o] = shoal_emit_reshape(e, shoal_emit_einsum(e, text, dy, squeezed[1 - o]),
                                     &call->inputs[o].shape);
  }
}

static void matmul_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            const shoal_ref_t *out, const shoal_ref_t *grads,
                            shoal_ref_t *in_grads) {
  const bool ta = call->attrs[TRANSPOSE_A].i, tb = call->attrs[TRANSPOSE_B].i;
  const shoal_shape_t a = batch_of(&call->inputs[A].shape), b = batch_of(&call->inputs[B].shape);
  (void)out;
  if (!shoal_shape_equal(&a, &b)) {
    matmul_broadcast_gradient(call, e, in, grads[0], in_grads);
    return;
  }
  in_grads[0] =
      ta ? emit_matmul(e, in[1], tb, grads[0], true) : emit_matmul(e, grads[0], false, in[1], !tb);
  in_grads[1] =
      tb ? emit_matmul(e, grads[0], true, in[0], ta) : emit_matmul(e, in[0], !ta, grads[0], false);
}

static void matmul_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_contraction_t c = matmul_contraction(call);
  shoal_contraction_cost(&c, out_cost);
}

static int64_t matmul_workspace(const shoal_call_t *call) {
  const shoal_contraction_t c = matmul_contraction(call);
  return shoal_contraction_workspace(&c, call->outputs[0].dtype) + shoal_kernel_widen_bytes(call);
}

static shoal_status_t matmul_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                    const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, matmul_kernel);
  }
  const shoal_contraction_t c = matmul_contraction(call);
  shoal_contraction_run(&c, inputs, outputs, workspace);
  return NULL;
}

const shoal_op_t shoal_op_matmul = {
    .name = "shoal.matmul",
    .doc =
        "out[.., m, n] = sum over k of a[.., m, k] b[.., k, n], of floats; the leading dims are "
        "broadcast like numpy's. Half-size floats are multiplied and summed in f32. A vector is a "
        "matrix of one row or column: reshape it.",
    SHOAL_OP_INPUTS("a", "b"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS({.name = "transpose_a",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: a is [.., k, m]"},
                   {.name = "transpose_b",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: b is [.., n, k]"}),
    .infer = matmul_infer,
    .gradient = matmul_gradient,
    .cost = matmul_cost,
    .workspace = matmul_workspace,
    .kernel = matmul_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[5,7]", "f32[5,3], f32[5,7] ; transpose_a=1",
                   "f64[2,3,5], f64[2,7,5] ; transpose_b=1",
                   "f64[5,3], f64[7,5] ; transpose_a=1, transpose_b=1",
                   "f32[2,3,4,5], f32[2,3,5,1]", "bf16[3,5], bf16[5,9]", "f64[3,0], f64[0,2]",
                   "f64[2,3,5], f64[5,4]", "f64[3,5], f64[2,1,4,5] ; transpose_b=1",
                   "f64[2,1,5,3], f64[4,5,2] ; transpose_a=1"),
};
