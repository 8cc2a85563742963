// Softmax and log-softmax along one axis, with their gradients. x is seen as [outer, n, inner];
// along n
//   softmax      y = exp(x) / sum(exp(x))     dx = y (dy - sum(y dy))
//   log_softmax  y = x - log(sum(exp(x)))     dx = dy - exp(y) sum(dy)
// The maximum is subtracted first, so that nothing overflows. Where x is -inf, y is 0 and -inf;
// where all of a row is -inf, y is NaN.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

#define EACH EACH_REAL
#define KERNELS "op/families/softmax.c"
#include "op/families/each.h"

enum { AXIS };
enum { Y, DY };  // inputs of the gradients

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
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, Y, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DY, &call->inputs[Y].shape));
  return softmax_infer(call, out_types);
}

#define KERNEL(name)                                                                \
  OP_KERNEL(name) {                                                                 \
    if (shoal_kernel_is_half(call)) {                                               \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel); \
    }                                                                               \
    const shoal_shape_t *x = &inputs->shape;                                        \
    const int32_t axis = axis_of(call);                                             \
    const int64_t outer = shoal_shape_product(x, 0, axis), n = x->dims[axis];       \
    const int64_t inner = shoal_shape_product(x, axis + 1, x->rank);                \
    (inputs->dtype == SHOAL_F64 ? name##_f64 : name##_f32)(outer, n, inner, inputs, \
                                                           outputs->data);          \
    return NULL;                                                                    \
  }

KERNEL(softmax)
KERNEL(softmax_grad)
KERNEL(log_softmax)
KERNEL(log_softmax_grad)

// ---- gradients and decompositions ------------------------------------------------------

#define GRADIENT(name)                                                                \
  OP_GRADIENT(name) {                                                                 \
    (void)in;                                                                         \
    in_grads[0] = shoal_emit_one(e, "shoal." #name "_grad", REFS(out[0], grads[0]),   \
                                 ATTRS(shoal_attr_int("axis", call->attrs[AXIS].i))); \
  }

GRADIENT(softmax)
GRADIENT(log_softmax)

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

// dx = y (dy - sum(y dy))
static void softmax_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                   const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_ref_t y = widened(call, e, in[Y]), dy = widened(call, e, in[DY]);
  const shoal_ref_t sum = shoal_emit_reduce(
      e, "shoal.reduce_sum", shoal_emit_binary(e, "shoal.mul", y, dy), axis_of(call), true);
  const shoal_ref_t rest = shoal_emit_binary(e, "shoal.sub", dy, sum);
  outputs[0] =
      shoal_emit_cast(e, shoal_emit_binary(e, "shoal.mul", y, rest), call->inputs[Y].dtype);
}

static void log_softmax_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                  const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_ref_t x = widened(call, e, in[0]);
  shoal_ref_t max, sum;
  shoal_emit_exp(e, x, axis_of(call), &max, &sum);
  const shoal_ref_t rest = shoal_emit_binary(e, "shoal.sub", x, max);
  const shoal_ref_t y =
      shoal_emit_binary(e, "shoal.sub", rest, shoal_emit_unary(e, "shoal.log", sum));
  outputs[0] = shoal_emit_cast(e, y, call->inputs[0].dtype);
}

// dx = dy - exp(y) sum(dy)
static void log_softmax_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                       const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_ref_t p = shoal_emit_unary(e, "shoal.exp", widened(call, e, in[Y]));
  const shoal_ref_t dy = widened(call, e, in[DY]);
  const shoal_ref_t sum = shoal_emit_reduce(e, "shoal.reduce_sum", dy, axis_of(call), true);
  const shoal_ref_t dx =
      shoal_emit_binary(e, "shoal.sub", dy, shoal_emit_binary(e, "shoal.mul", p, sum));
  outputs[0] = shoal_emit_cast(e, dx, call->inputs[Y].dtype);
}

static void exp_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

static void grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 4.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

#define UNCUT "the axis: a row is normalised as one (its decomposition cuts it)"

// What softmax and log_softmax share, and their gradients.
#define ROWS .uncut = UNCUT, SHOAL_OP_ATTRS(SHOAL_ATTR_AXIS), .workspace = shoal_kernel_widen_bytes
#define FORWARD                                                                     \
  ROWS, SHOAL_OP_INPUTS("x"), SHOAL_OP_OUTPUTS("out"), SHOAL_OP_OVERWRITES({0, 0}), \
      .infer = softmax_infer, .cost = exp_cost
#define BACKWARD                                                                                  \
  ROWS, SHOAL_OP_INPUTS("y", "dy"), SHOAL_OP_OUTPUTS("dx"), SHOAL_OP_OVERWRITES({0, Y}, {0, DY}), \
      .infer = softmax_grad_infer

const shoal_op_t shoal_op_softmax = {
    .name = "shoal.softmax",
    .doc = "exp(x) / sum of exp(x) along axis.",
    FORWARD,
    .gradient = softmax_gradient,
    .decompose = softmax_decompose,
    .kernel = softmax_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,7] ; axis=1", "f64[3,5] ; axis=0",
                   "bf16[3,9] ; axis=-1", "f32[0,3] ; axis=1"),
};

const shoal_op_t shoal_op_softmax_grad = {
    .name = "shoal.softmax_grad",
    .doc = "Gradient of softmax from its result y: y (dy - sum of y dy along axis).",
    BACKWARD,
    .decompose = softmax_grad_decompose,
    .cost = grad_cost,
    .kernel = softmax_grad_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; axis=1", "f32[3,5,7], f32[3,5,7] ; axis=1",
                   "bf16[3,9], bf16[3,9] ; axis=-1"),
};

const shoal_op_t shoal_op_log_softmax = {
    .name = "shoal.log_softmax",
    .doc = "x - log-sum-exp of x along axis: the logarithm of softmax, without overflow.",
    .nan = "a row of -inf only gives NaN",
    FORWARD,
    .gradient = log_softmax_gradient,
    .decompose = log_softmax_decompose,
    .kernel = log_softmax_kernel,
    SHOAL_OP_CASES("f64[3,5] ; axis=1", "f32[3,5,7] ; axis=1", "bf16[3,9] ; axis=-1",
                   "f64[5,1] ; axis=0", "f32[0,3] ; axis=1"),
};

const shoal_op_t shoal_op_log_softmax_grad = {
    .name = "shoal.log_softmax_grad",
    .doc = "Gradient of log_softmax from its result y: dy - exp(y) times the sum of dy along axis.",
    BACKWARD,
    .decompose = log_softmax_grad_decompose,
    .cost = exp_cost,
    .kernel = log_softmax_grad_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; axis=1", "f32[3,5,7], f32[3,5,7] ; axis=1",
                   "bf16[3,9], bf16[3,9] ; axis=-1", "f64[5,1], f64[5,1] ; axis=0",
                   "f32[0,3], f32[0,3] ; axis=1"),
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

static void K(softmax)(int64_t outer, int64_t n, int64_t inner, const shoal_tensor_t *inputs,
                       void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *x = (const R *)inputs[0].data + at;
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

static void K(softmax_grad)(int64_t outer, int64_t n, int64_t inner, const shoal_tensor_t *inputs,
                            void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *y = (const R *)inputs[0].data + at, *dy = (const R *)inputs[1].data + at;
    R *dx = (R *)result + at;
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += y[i * inner] * dy[i * inner];
    for (int64_t i = 0; i < n; ++i) dx[i * inner] = y[i * inner] * (dy[i * inner] - sum);
  }
}

static void K(log_softmax)(int64_t outer, int64_t n, int64_t inner, const shoal_tensor_t *inputs,
                           void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *x = (const R *)inputs[0].data + at;
    R *y = (R *)result + at;
    const R max = K(max_of)(x, n, inner);
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += exp(x[i * inner] - max);
    const R rest = log(sum);
    for (int64_t i = 0; i < n; ++i) y[i * inner] = x[i * inner] - max - rest;
  }
}

static void K(log_softmax_grad)(int64_t outer, int64_t n, int64_t inner,
                                const shoal_tensor_t *inputs, void *result) {
  for (int64_t o = 0; o < outer * inner; ++o) {
    const int64_t at = o / inner * n * inner + o % inner;
    const R *y = (const R *)inputs[0].data + at, *dy = (const R *)inputs[1].data + at;
    R *dx = (R *)result + at;
    R sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += dy[i * inner];
    for (int64_t i = 0; i < n; ++i) dx[i * inner] = dy[i * inner] - exp(y[i * inner]) * sum;
  }
}

#endif
