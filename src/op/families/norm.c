// Softmax and log-sum-exp along one axis. x is seen as [outer, n, inner]. Both subtract the maximum
// first. log_sum_exp of nothing, or of -inf only, is -inf.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

#define EACH EACH_REAL
#define KERNELS "op/families/norm.c"
#include "op/families/each.h"

enum { AXIS, KEEP };

static int32_t axis_of(const shoal_call_t *call) {
  return shoal_normal_axis(call->attrs[AXIS].i, call->inputs[0].shape.rank);
}

static shoal_status_t softmax_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  int32_t axis;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  out_types[0] = call->inputs[0];
  return shoal_check_axis(call, call->attrs[AXIS].i, call->inputs[0].shape.rank, &axis);
}

static shoal_status_t softmax_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &call->inputs[0].shape));
  return softmax_infer(call, out_types);
}

static shoal_status_t log_sum_exp_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(softmax_infer(call, out_types));
  const int32_t axis = axis_of(call);
  shoal_shape_t *shape = &out_types[0].shape;
  if (call->attrs[KEEP].i) {
    shape->dims[axis] = 1;
  } else {
    --shape->rank;
    for (int32_t d = axis; d < shape->rank; ++d) shape->dims[d] = shape->dims[d + 1];
  }
  return NULL;
}

#define KERNEL(name, ...)                                                                     \
  static shoal_status_t name##_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs, \
                                      const shoal_tensor_t *outputs, void *workspace) {       \
    if (shoal_kernel_is_half(call)) {                                                         \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel);           \
    }                                                                                         \
    const shoal_shape_t *x = &inputs->shape;                                                  \
    const int32_t axis = axis_of(call);                                                       \
    const int64_t outer = shoal_shape_product(x, 0, axis), n = x->dims[axis];                 \
    const int64_t inner = shoal_shape_product(x, axis + 1, x->rank);                          \
    if (inputs->dtype == SHOAL_F64) {                                                         \
      name##_f64(outer, n, inner, __VA_ARGS__, outputs->data);                                \
    } else {                                                                                  \
      name##_f32(outer, n, inner, __VA_ARGS__, outputs->data);                                \
    }                                                                                         \
    return NULL;                                                                              \
  }

KERNEL(softmax, inputs[0].data)
KERNEL(softmax_grad, inputs[0].data, inputs[1].data)
KERNEL(log_sum_exp, inputs[0].data)

// ---- gradients and decompositions ------------------------------------------------------

static void softmax_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             const shoal_ref_t *out, const shoal_ref_t *grads,
                             shoal_ref_t *in_grads) {
  (void)in;
  in_grads[0] = shoal_emit_one(e, "shoal.softmax_grad", REFS(out[0], grads[0]),
                               ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i)));
}

// dx = dy exp(x - y)
static void log_sum_exp_gradient(const shoal_call_t *call, shoal_emitter_t *e,
                                 const shoal_ref_t *in, const shoal_ref_t *out,
                                 const shoal_ref_t *grads, shoal_ref_t *in_grads) {
  shoal_ref_t y = out[0], dy = grads[0];
  if (!call->attrs[KEEP].i) {
    y = shoal_emit_unsqueeze(e, y, axis_of(call));
    dy = shoal_emit_unsqueeze(e, dy, axis_of(call));
  }
  const shoal_ref_t p =
      shoal_emit_unary(e, "shoal.exp", shoal_emit_binary(e, "shoal.sub", in[0], y));
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", p, dy);
}

// x in the precision of statistics.
static shoal_ref_t widened(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t x) {
  return shoal_emit_cast(e, x, shoal_statistics_dtype(call->inputs[0].dtype));
}

static void softmax_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                              shoal_ref_t *outputs) {
  shoal_ref_t max, sum;
  const shoal_ref_t p = shoal_emit_exp(e, widened(call, e, in[0]), axis_of(call), &max, &sum);
  outputs[0] = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.div", p, sum), call->inputs[0].dtype);
}

static void log_sum_exp_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, shoal_ref_t *outputs) {
  shoal_ref_t max, sum;
  shoal_emit_exp(e, widened(call, e, in[0]), axis_of(call), &max, &sum);
  const shoal_ref_t lse =
      shoal_emit_binary(e, "shoal.add", shoal_emit_unary(e, "shoal.log", sum), max);
  shoal_type_t type;
  shoal_status_t status = log_sum_exp_infer(call, &type);
  if (status) {
    shoal_emit_fail(e, status);
    return;
  }
  outputs[0] = shoal_emit_cast(e, shoal_emit_reshape(e, lse, &type.shape), type.dtype);
}

// dx = y (dy - sum(y dy))
static void softmax_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                   const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_dtype_t dtype = call->inputs[0].dtype, wide = shoal_statistics_dtype(dtype);
  const shoal_ref_t y = shoal_emit_cast(e, in[0], wide), dy = shoal_emit_cast(e, in[1], wide);
  const shoal_ref_t sum = shoal_emit_reduce(
      e, "shoal.reduce_sum", shoal_emit_binary(e, "shoal.mul", y, dy), axis_of(call), true);
  const shoal_ref_t rest = shoal_emit_binary(e, "shoal.sub", dy, sum);
  outputs[0] = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.mul", y, rest), dtype);
}

static void exp_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

static void grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 4.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

#define AXIS_ATTR \
  { .name = "axis", .kind = SHOAL_ATTR_INT, .doc = "dim; -1 is the last" }

const shoal_op_t shoal_op_softmax = {
    .name = "shoal.softmax",
    .doc = "exp(x) / sum of exp(x) along axis.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(AXIS_ATTR),
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = softmax_infer,
    .gradient = softmax_gradient,
    .decompose = softmax_decompose,
    .cost = exp_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = softmax_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,7] ; axis=1", "f64[3,5] ; axis=0",
                   "bf16[3,9] ; axis=-1", "f32[0,3] ; axis=1"),
};

const shoal_op_t shoal_op_softmax_grad = {
    .name = "shoal.softmax_grad",
    .doc = "Gradient of softmax from its result y: y (dy - sum of y dy along axis).",
    SHOAL_OP_INPUTS("y", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(AXIS_ATTR),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = softmax_grad_infer,
    .decompose = softmax_grad_decompose,
    .cost = grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = softmax_grad_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; axis=1", "f32[3,5,7], f32[3,5,7] ; axis=1",
                   "bf16[3,9], bf16[3,9] ; axis=-1"),
};

const shoal_op_t shoal_op_log_sum_exp = {
    .name = "shoal.log_sum_exp",
    .doc = "Logarithm of the sum of exp(x) along axis.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(AXIS_ATTR, {.name = "keep",
                               .kind = SHOAL_ATTR_INT,
                               .optional = true,
                               .doc = "1: keep the dim, with size 1"}),
    .infer = log_sum_exp_infer,
    .gradient = log_sum_exp_gradient,
    .decompose = log_sum_exp_decompose,
    .cost = exp_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = log_sum_exp_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,7] ; axis=1, keep=1", "f64[3,5] ; axis=0",
                   "bf16[3,9] ; axis=-1"),
};

#else  // per element type

// Maximum of n elements that lie `inner` apart; -inf for none.
static R K(max_of)(const R *x, int64_t n, int64_t inner) {
  R max = -INFINITY;
  for (int64_t i = 0; i < n; ++i) {
    if (x[i * inner] > max || IS_NAN(x[i * inner])) max = x[i * inner];
  }
  return max;
}

static void K(softmax)(int64_t outer, int64_t n, int64_t inner, const void *in, void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *x = (const R *)in + at;
    R *y = (R *)result + at;
    const R max = K(max_of)(x, n, inner);
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      y[i * inner] = exp(x[i * inner] - max);
      sum += y[i * inner];
    }
    for (int64_t i = 0; i < n; ++i) y[i * inner] /= sum;
  }
}

static void K(softmax_grad)(int64_t outer, int64_t n, int64_t inner, const void *y_in,
                            const void *dy_in, void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *y = (const R *)y_in + at, *dy = (const R *)dy_in + at;
    R *dx = (R *)result + at;
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += y[i * inner] * dy[i * inner];
    for (int64_t i = 0; i < n; ++i) dx[i * inner] = y[i * inner] * (dy[i * inner] - sum);
  }
}

static void K(log_sum_exp)(int64_t outer, int64_t n, int64_t inner, const void *in, void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const R *x = (const R *)in + o / inner * n * inner + o % inner;
    const R max = K(max_of)(x, n, inner);
    R sum = 0;
    for (int64_t i = 0; i < n && !isinf(max); ++i) sum += exp(x[i * inner] - max);
    ((R *)result)[o] = isinf(max) ? max : max + log(sum);
  }
}

#endif
