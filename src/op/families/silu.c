// The activations of transformers, for floats: silu, x / (1 + e^-x), also called swish; and gelu in
// its exact form, x times the share of a normal distribution below x, 0.5 x (1 + erf(x / sqrt(2))).
// (unary.c has the tanh form of gelu.) Each has its gradient as an op: dy times the slope at x.
#ifndef KERNELS_HERE
#include "op/families/pointwise.h"

#define EACH (EACH_REAL + EACH_HALF)
#define KERNELS "op/families/silu.c"
#include "op/families/each.h"

MAP_KERNEL(silu, TABLE_FLOAT)
MAP_KERNEL(silu_grad, TABLE_FLOAT)
MAP_KERNEL(gelu_erf, TABLE_FLOAT)
MAP_KERNEL(gelu_erf_grad, TABLE_FLOAT)

OP_GRADIENT(silu) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_binary(e, "shoal.silu_grad", in[0], grads[0]);
}

OP_GRADIENT(gelu_erf) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_binary(e, "shoal.gelu_erf_grad", in[0], grads[0]);
}

#define VALUE(op_name, text)                                                            \
  const shoal_op_t shoal_op_##op_name = {                                               \
      .name = "shoal." #op_name,                                                        \
      .doc = text,                                                                      \
      .nan = "NaN where x is -inf",                                                     \
      SHOAL_OP_INPUTS("x"),                                                             \
      SHOAL_OP_OUTPUTS("out"),                                                          \
      SHOAL_OP_OVERWRITES({0, 0}),                                                      \
      .infer = shoal_infer_same_floats,                                                 \
      .gradient = op_name##_gradient,                                                   \
      .cost = shoal_cost_libm,                                                          \
      .kernel = op_name##_kernel,                                                       \
      SHOAL_OP_CASES("f64[3,5]", "f32[7,1]", "bf16[9]", "f16[5]", "f64[]", "f32[0,3]"), \
  }
#define GRAD(op_name, text)                                                          \
  const shoal_op_t shoal_op_##op_name = {                                            \
      .name = "shoal." #op_name,                                                     \
      .doc = text,                                                                   \
      .nan = "NaN where x is infinite",                                              \
      SHOAL_OP_INPUTS("x", "dy"),                                                    \
      SHOAL_OP_OUTPUTS("dx"),                                                        \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),                                           \
      .infer = shoal_infer_same_floats,                                              \
      .cost = shoal_cost_libm,                                                       \
      .kernel = op_name##_kernel,                                                    \
      SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1]", "bf16[9], bf16[9]", \
                     "f32[0,3], f32[0,3]"),                                          \
  }

VALUE(silu, "x / (1 + e^-x): silu, also called swish.");
VALUE(gelu_erf, "0.5 x (1 + erf(x / sqrt(2))): the exact form of gelu.");
GRAD(silu_grad, "Gradient of silu: dy times its derivative at x.");
GRAD(gelu_erf_grad, "Gradient of gelu_erf: dy times its derivative at x.");

#else  // per element type

static inline R K(silu_slope)(R x) {
  const R s = 1 / (1 + exp(-x));
  return s * (1 + x * (1 - s));
}

static inline R K(normal_below)(R x) {
  return (R)0.5 * (1 + erf(x * (R)0.70710678118654752440));
}

MAP_LOOP(silu, x / (1 + exp(-x)))
MAP_LOOP(gelu_erf, x *K(normal_below)(x))
MAP_GRAD_LOOP(silu_grad, dy *K(silu_slope)(x))
MAP_GRAD_LOOP(gelu_erf_grad,
              dy *(K(normal_below)(x) + x * (R)0.39894228040143267794 * exp((R)-0.5 * x * x)))

#endif
