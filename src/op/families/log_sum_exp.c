// Logarithm of the sum of exp(x) over named dims. The maximum is subtracted first, so that nothing
// overflows:
//   y = max + log(sum of exp(x - max)),   dx = dy exp(x - y)
// Of nothing, or of -inf only, y is -inf.
#ifndef KERNELS_HERE
#include "op/families/reduced.h"

// x as rows of elements that go into one result each. Sizes and strides: first of dims that stay,
// then of those that are reduced; without any of these there is one of size 1.
typedef struct view {
  int32_t kept, count;  // dims that stay, all dims
  int64_t size[SHOAL_MAX_RANK + 1], stride[SHOAL_MAX_RANK + 1];
  int64_t lines;  // of a row, each along the last of the dims
} view_t;

// Where number `index` of the dims from `first` to before `last` lies.
static int64_t offset(const view_t *v, int32_t first, int32_t last, int64_t index) {
  int64_t at = 0;
  for (int32_t d = last - 1; d >= first; --d) {
    at += index % v->size[d] * v->stride[d];
    index /= v->size[d];
  }
  return at;
}

#define EACH EACH_REAL
#define KERNELS "op/families/log_sum_exp.c"
#include "op/families/each.h"

static shoal_status_t log_sum_exp_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  return shoal_reduced_infer(call, out_types);
}

static void add_dims(view_t *v, const shoal_shape_t *x, const bool *reduced, bool which) {
  int64_t strides[SHOAL_MAX_RANK];
  shoal_strides(x, strides);
  for (int32_t d = 0; d < x->rank; ++d) {
    if (reduced[d] != which) continue;
    v->size[v->count] = x->dims[d];
    v->stride[v->count++] = strides[d];
  }
}

OP_KERNEL(log_sum_exp) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, log_sum_exp_kernel);
  }
  bool reduced[SHOAL_MAX_RANK];
  SHOAL_RETURN_IF_ERROR(shoal_reduced_dims(call, reduced));
  view_t v = {.lines = 1};
  add_dims(&v, &inputs->shape, reduced, false);
  v.kept = v.count;
  add_dims(&v, &inputs->shape, reduced, true);
  if (v.kept == v.count) v.size[v.count++] = 1;
  for (int32_t d = v.kept; d < v.count - 1; ++d) v.lines *= v.size[d];
  const int64_t rows = shoal_shape_count(&outputs->shape);
  (inputs->dtype == SHOAL_F64 ? log_sum_exp_f64 : log_sum_exp_f32)(&v, rows, inputs->data,
                                                                   outputs->data);
  return NULL;
}

// A value of the result's shape with the dims of x, reduced ones of size 1.
static shoal_ref_t kept(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t value) {
  bool reduced[SHOAL_MAX_RANK];
  shoal_status_t status = shoal_reduced_dims(call, reduced);
  if (status) {
    shoal_emit_fail(e, status);
    return SHOAL_NO_REF;
  }
  const shoal_shape_t shape = shoal_reduced_shape(&call->inputs[0].shape, reduced, true);
  return shoal_emit_reshape(e, value, &shape);
}

OP_GRADIENT(log_sum_exp) {
  const shoal_ref_t rest = shoal_emit_binary(e, "shoal.sub", in[0], kept(call, e, out[0]));
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", shoal_emit_unary(e, "shoal.exp", rest),
                                  kept(call, e, grads[0]));
}

static void log_sum_exp_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_dtype_t dtype = call->inputs[0].dtype;
  const shoal_ref_t x = shoal_emit_cast(e, in[0], shoal_statistics_dtype(dtype));
  const shoal_ref_t most = shoal_reduced_emit(call, e, "shoal.reduce_max", x, true);
  // Infinite ones subtract nothing: all of a row may be -inf, and the difference would be NaN.
  const shoal_ref_t max = shoal_emit_where(e, shoal_emit_unary(e, "shoal.is_finite", most), most,
                                           shoal_emit_scalar(e, shoal_emit_type(e, x).dtype, 0));
  const shoal_ref_t p = shoal_emit_unary(e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", x, max));
  const shoal_ref_t sum = shoal_reduced_emit(call, e, "shoal.reduce_sum", p, true);
  const shoal_ref_t lse =
      shoal_emit_binary(e, "shoal.add", shoal_emit_unary(e, "shoal.log", sum), max);
  shoal_type_t type;
  shoal_status_t status = log_sum_exp_infer(call, &type);
  if (status) {
    shoal_emit_fail(e, status);
    return;
  }
  outputs[0] = shoal_emit_cast(e, shoal_emit_reshape(e, lse, &type.shape), dtype);
}

static void log_sum_exp_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

const shoal_op_t shoal_op_log_sum_exp = {
    .name = "shoal.log_sum_exp",
    .doc = "Logarithm of the sum of exp(x) over dims, without overflow.",
    .nan = "of -inf only, and of nothing, it is -inf",
    .uncut = "the reduced dims: the largest element is sought first (its decomposition cuts them)",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS),
    .infer = log_sum_exp_infer,
    .gradient = log_sum_exp_gradient,
    .decompose = log_sum_exp_decompose,
    .cost = log_sum_exp_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = log_sum_exp_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,7] ; dims=[1], keep=1", "f64[3,5] ; dims=[0]",
                   "f64[3,2,5] ; dims=[2,0]", "bf16[3,9] ; dims=[-1]", "f32[2,3] ; dims=[0,1]"),
};

#else  // per element type

static void K(log_sum_exp)(const view_t *v, int64_t rows, const void *in, void *result) {
  const int64_t n = v->size[v->count - 1], stride = v->stride[v->count - 1];
  for (int64_t o = 0; o < rows; ++o) {
    const R *row = (const R *)in + offset(v, 0, v->kept, o);
    R max = -INFINITY, sum = 0;
    for (int64_t l = 0; l < v->lines; ++l) {
      const R *x = row + offset(v, v->kept, v->count - 1, l);
      for (int64_t i = 0; i < n; ++i) {
        if (x[i * stride] > max || IS_NAN(x[i * stride])) max = x[i * stride];
      }
    }
    for (int64_t l = 0; l < v->lines && !isinf(max); ++l) {
      const R *x = row + offset(v, v->kept, v->count - 1, l);
      for (int64_t i = 0; i < n; ++i) sum += exp(x[i * stride] - max);
    }
    ((R *)result)[o] = isinf(max) ? max : max + log(sum);
  }
}

#endif
