// lse_merge: parts of an attention over cut keys become one. Part i has a value and the logarithm
// of the sum of exponentials that the value was divided by:
//   m = max over i of lse[i],  w[i] = exp(lse[i] - m),  out = sum of w[i] value[i] / sum of w[i],
//   lse = m + log(sum of w[i])
// Parts are added in ascending order, so that whoever merges the same parts gets the same bits. A
// part whose lse is -inf has seen nothing and counts for nothing; where all are, out is 0 and lse
// -inf. Half-size floats are added in f32; lse is f32 for them.
//   value [N, .., D]   lse [N, ..] or [N, .., 1]   ->   out [.., D]   lse [..] or [.., 1]
// Lowering puts it behind the exchange of such parts; a graph may have it, too. Its gradient:
//   p[i] = exp(lse[i] - lse),  dvalue[i] = p[i] dout,
//   dlse[i] = p[i] (sum over D of dout (value[i] - out) + dlse)
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { VALUE, LSE };

// N parts of `rows` rows of d elements.
typedef struct merge {
  int64_t parts, rows, d;
} merge_t;

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/merge.c"
#include "op/families/each.h"

static shoal_status_t lse_merge_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  const shoal_shape_t *value = &in[VALUE].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, VALUE, 1));
  REQUIRE(call, value->rank >= 2, "value needs a dim of parts and one of elements");
  shoal_shape_t rows = shoal_shape_part(value, 0, value->rank - 1);
  if (in[LSE].shape.rank == value->rank) rows.dims[rows.rank++] = 1;
  const shoal_dtype_t wide = shoal_statistics_dtype(in[VALUE].dtype);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, LSE, &rows));
  SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, LSE, wide));
  out_types[0] = (shoal_type_t){in[VALUE].dtype, shoal_shape_part(value, 1, value->rank)};
  out_types[1] = (shoal_type_t){wide, shoal_shape_part(&rows, 1, rows.rank)};
  return NULL;
}

static void lse_merge_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 3 * (double)shoal_shape_count(&call->inputs[VALUE].shape) +
                    12 * (double)shoal_shape_count(&call->inputs[LSE].shape);
}

// A weight for each part.
static int64_t lse_merge_workspace(const shoal_call_t *call) {
  const int64_t element = (int64_t)shoal_dtype_size(call->inputs[LSE].dtype);
  return shoal_align64(call->inputs[LSE].shape.dims[0] * element);
}

// Logarithms as [.., 1].
static shoal_ref_t emit_rows(shoal_emitter_t *e, shoal_ref_t lse, int32_t rank) {
  return shoal_emit_type(e, lse).shape.rank == rank ? lse : shoal_emit_unsqueeze(e, lse, rank - 1);
}

// What has seen nothing gets no gradient, whatever its value is.
OP_GRADIENT(lse_merge) {
  const shoal_dtype_t dtype = call->inputs[VALUE].dtype, wide = shoal_statistics_dtype(dtype);
  const int32_t rank = call->inputs[VALUE].shape.rank;
  const shoal_ref_t lse = emit_rows(e, in[LSE], rank), zero = shoal_emit_scalar(e, wide, 0);
  const shoal_ref_t nothing =
      shoal_emit_binary(e, "shoal.less", lse, shoal_emit_scalar(e, wide, -1e30));
  const shoal_ref_t p = shoal_emit_unary(
      e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", lse, emit_rows(e, out[1], rank - 1)));
  shoal_ref_t slope = SHOAL_NO_REF;  // dlse[i] = p[i] * slope
  if (grads[0] != SHOAL_NO_REF) {
    const shoal_ref_t dout = shoal_emit_cast(e, grads[0], wide);
    const shoal_ref_t apart = shoal_emit_binary(e, "shoal.sub", shoal_emit_cast(e, in[VALUE], wide),
                                                shoal_emit_cast(e, out[0], wide));
    slope = shoal_emit_reduce(e, "shoal.reduce_sum", shoal_emit_binary(e, "shoal.mul", apart, dout),
                              rank - 1, true);
    in_grads[VALUE] = shoal_emit_cast(
        e, shoal_emit_binary(e, "shoal.mul", shoal_emit_where(e, nothing, zero, p), dout), dtype);
  }
  if (grads[1] != SHOAL_NO_REF) {
    const shoal_ref_t more = emit_rows(e, grads[1], rank - 1);
    slope = slope == SHOAL_NO_REF ? more : shoal_emit_binary(e, "shoal.add", slope, more);
  }
  const shoal_ref_t dlse =
      shoal_emit_where(e, nothing, zero, shoal_emit_binary(e, "shoal.mul", p, slope));
  in_grads[LSE] = shoal_emit_reshape(e, dlse, &call->inputs[LSE].shape);
}

OP_KERNEL(lse_merge) {
  typedef void (*merge_fn_t)(const merge_t *m, const shoal_tensor_t *in, const shoal_tensor_t *out,
                             void *weights);
  static const merge_fn_t loops[SHOAL_DTYPE_COUNT] = TABLE_FLOAT(merge);
  const shoal_shape_t *shape = &inputs[VALUE].shape;
  (void)call;
  const merge_t m = {.parts = shape->dims[0],
                     .rows = shoal_shape_product(shape, 1, shape->rank - 1),
                     .d = shape->dims[shape->rank - 1]};
  loops[inputs[VALUE].dtype](&m, inputs, outputs, workspace);
  return NULL;
}

const shoal_op_t shoal_op_lse_merge = {
    .name = "shoal.lse_merge",
    .doc =
        "Parts of an attention, value [N, .., D] with lse [N, ..] or [N, .., 1], merged over N: "
        "out = sum of exp(lse[i]) value[i] / sum of exp(lse[i]), lse = the log-sum-exp of all, "
        "without overflow. A part of lse -inf counts for nothing; where all are, out is 0 and lse "
        "-inf. lse is f32 for half-size floats.",
    SHOAL_OP_INPUTS("value", "lse"),
    SHOAL_OP_OUTPUTS("out", "lse"),
    .infer = lse_merge_infer,
    .gradient = lse_merge_gradient,
    .cost = lse_merge_cost,
    .workspace = lse_merge_workspace,
    .kernel = lse_merge_kernel,
    SHOAL_OP_CASES("f64[3,2,5,4], f64[3,2,5]", "f32[2,7,3], f32[2,7]", "f64[1,3], f64[1]",
                   "bf16[4,5,3], f32[4,5,1]", "f16[2,3,2], f32[2,3]", "f32[2,0,3], f32[2,0]"),
};

#else  // per element type

static void K(merge)(const merge_t *m, const shoal_tensor_t *in, const shoal_tensor_t *out,
                     void *weights) {
  const S *value = in[VALUE].data;
  const R *lse = in[LSE].data;
  S *merged = out[0].data;
  R *joined = out[1].data, *w = weights;
  for (int64_t r = 0; r < m->rows; ++r) {
    R most = -INFINITY, sum = 0;
    for (int64_t p = 0; p < m->parts; ++p) {
      const R x = lse[p * m->rows + r];
      if (x > most || IS_NAN(x)) most = x;
    }
    const bool none = most == -INFINITY;
    for (int64_t p = 0; p < m->parts; ++p) {
      w[p] = none ? 0 : exp(lse[p * m->rows + r] - most);
      sum += w[p];
    }
    joined[r] = none ? most : most + log(sum);
    for (int64_t j = 0; j < m->d; ++j) {
      R total = 0;
      for (int64_t p = 0; p < m->parts; ++p)
        if (w[p] != 0) total += w[p] * LOAD(value[(p * m->rows + r) * m->d + j]);
      merged[r * m->d + j] = STORE(none ? 0 : total / sum);
    }
  }
}

#endif
