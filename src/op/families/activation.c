// Activations of one operand, for floats, each with its gradient as an op (dy times the slope at
// x). Those of transformers, relu and gelu have typed loops of their own (silu.c, unary.c).
#include "op/families/pointwise.h"

#define SELU_ALPHA 1.67326324235437728482
#define SELU_SCALE 1.05070098735548049342

// The exponential is of -|x|: it cannot overflow.
static double logistic(double x) {
  const double t = exp(-fabs(x));
  return (x < 0 ? t : 1) / (1 + t);
}

// log(1 + e^x)
static double soft_ramp(double x) {
  return (x > 0 ? x : 0) + log1p(exp(-fabs(x)));
}

static double mish_slope(double x) {
  const double t = tanh(soft_ramp(x));
  return t + x * logistic(x) * (1 - t * t);
}

// name_kernel and name_grad_kernel from value and slope at x; p[0], p[1] are the attributes.
#define CURVE(name, VALUE, SLOPE)        \
  REALS_1(name, VALUE)                   \
  REALS_2(name##_grad, y *(SLOPE))       \
  BLOCK_KERNEL(name, name##_reals, NULL) \
  BLOCK_KERNEL(name##_grad, name##_grad_reals, NULL)

CURVE(elu, x > 0 ? x : p[0] * expm1(x), x > 0 ? 1 : p[0] * exp(x))
CURVE(celu, x > 0 ? x : p[0] * expm1(x / p[0]), x > 0 ? 1 : exp(x / p[0]))
CURVE(selu, SELU_SCALE *(x > 0 ? x : SELU_ALPHA * expm1(x)),
      SELU_SCALE *(x > 0 ? 1 : SELU_ALPHA * exp(x)))
CURVE(leaky_relu, x > 0 ? x : p[0] * x, x > 0 ? 1 : p[0])
CURVE(softplus, p[0] * x > p[1] ? x : soft_ramp(p[0] * x) / p[0],
      p[0] * x > p[1] ? 1 : logistic(p[0] * x))
CURVE(log_sigmoid, (x < 0 ? x : 0) - log1p(exp(-fabs(x))), logistic(-x))
CURVE(mish, x *tanh(soft_ramp(x)), mish_slope(x))
CURVE(hard_sigmoid, x <= -3 ? 0 : x >= 3 ? 1 : x / 6 + 0.5, x > -3 && x < 3 ? 1.0 / 6 : 0)
CURVE(hard_swish, x *(x <= -3 ? 0 : x >= 3 ? 6 : x + 3) / 6, x <= -3 ? 0 : x < 3 ? x / 3 + 0.5 : 1)
CURVE(softsign, x / (1 + fabs(x)), 1 / ((1 + fabs(x)) * (1 + fabs(x))))

// ---- types and gradients ---------------------------------------------------------------

// The first attribute divides.
static shoal_status_t divided_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE(call, call->attrs[0].f > 0, "%s is %g: it must be above 0", call->op->attrs[0].name,
          call->attrs[0].f);
  return shoal_infer_same_floats(call, out_types);
}

#define ALIKE_GRADIENT(name)                                                                \
  OP_GRADIENT(name) {                                                                       \
    (void)out;                                                                              \
    in_grads[0] = shoal_emit_alike(e, "shoal." #name "_grad", REFS(in[0], grads[0]), call); \
  }

// ---- records ---------------------------------------------------------------------------

// The op and its gradient. `does_jump`: the slope has a step. What follows are the attributes (or
// NO_PARAMS), and the attributes' text in a case.
#define ACTIVATION(op_name, text, nan_text, does_jump, infer_fn, attrs_of_it, given)       \
  ALIKE_GRADIENT(op_name)                                                                  \
  const shoal_op_t shoal_op_##op_name = {                                                  \
      .name = "shoal." #op_name,                                                           \
      .doc = text,                                                                         \
      .nan = nan_text,                                                                     \
      SHOAL_OP_INPUTS("x"),                                                                \
      SHOAL_OP_OUTPUTS("out"),                                                             \
      attrs_of_it,                                                                         \
      SHOAL_OP_OVERWRITES({0, 0}),                                                         \
      .infer = infer_fn,                                                                   \
      .gradient = op_name##_gradient,                                                      \
      .cost = shoal_cost_libm,                                                             \
      .kernel = op_name##_kernel,                                                          \
      SHOAL_OP_CASES("f64[3,5]", "f32[7,1]" given, "bf16[9]", "f64[]" given, "f32[0,3]"),  \
  };                                                                                       \
  const shoal_op_t shoal_op_##op_name##_grad = {                                           \
      .name = "shoal." #op_name "_grad",                                                   \
      .doc = "Gradient of " #op_name ": dy times its derivative at x.",                    \
      .nan = "the derivative may be 0 or 1 where x is infinite",                           \
      .jumps = does_jump,                                                                  \
      SHOAL_OP_INPUTS("x", "dy"),                                                          \
      SHOAL_OP_OUTPUTS("dx"),                                                              \
      attrs_of_it,                                                                         \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),                                                 \
      .infer = infer_fn,                                                                   \
      .cost = shoal_cost_libm,                                                             \
      .kernel = op_name##_grad_kernel,                                                     \
      SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1]" given, "bf16[9], bf16[9]", \
                     "f32[0,3], f32[0,3]"),                                                \
  }
#define NO_PARAMS .attr_count = 0
#define PARAM(param, value, text)                                                       \
  {                                                                                     \
    .name = param, .kind = SHOAL_ATTR_REAL, .optional = true, .fallback = {.f = value}, \
    .doc = text                                                                         \
  }

ACTIVATION(elu, "x where x > 0, else alpha (e^x - 1).", "-alpha where x is -inf", true,
           shoal_infer_same_floats,
           SHOAL_OP_ATTRS(PARAM("alpha", 1, "it tends to -alpha towards -inf")), " ; alpha=0.7");
ACTIVATION(celu, "x where x > 0, else alpha (e^(x / alpha) - 1).", "-alpha where x is -inf", false,
           divided_infer,
           SHOAL_OP_ATTRS(PARAM("alpha", 1, "it tends to -alpha towards -inf; above 0")),
           " ; alpha=0.7");
ACTIVATION(selu,
           "1.0507 times x where x > 0, else 1.0507 times 1.6733 (e^x - 1): keeps mean 0 and "
           "variance 1.",
           "-1.7581 where x is -inf", true, shoal_infer_same_floats, NO_PARAMS, "");
ACTIVATION(leaky_relu, "x where x > 0, else slope times x.", NULL, true, shoal_infer_same_floats,
           SHOAL_OP_ATTRS(PARAM("slope", 0.01, "factor of what is below 0")), " ; slope=0.2");
ACTIVATION(softplus, "log(1 + e^(beta x)) / beta, and x itself where beta x > threshold.",
           "0 where x is -inf", false, divided_infer,
           SHOAL_OP_ATTRS(PARAM("beta", 1, "how sharp the bend is; above 0"),
                          PARAM("threshold", 20, "where beta x is above it the result is x")),
           " ; beta=2.5, threshold=0.9");
ACTIVATION(log_sigmoid, "log(1 / (1 + e^-x)), without overflow.", "0 where x is inf", false,
           shoal_infer_same_floats, NO_PARAMS, "");
ACTIVATION(mish, "x tanh(log(1 + e^x)).", "NaN where x is -inf", false, shoal_infer_same_floats,
           NO_PARAMS, "");
ACTIVATION(hard_sigmoid, "x / 6 + 1/2, kept within [0, 1].", "0 or 1 where x is infinite", true,
           shoal_infer_same_floats, NO_PARAMS, "");
ACTIVATION(hard_swish, "x times hard_sigmoid(x): 0 below -3, x above 3.", "NaN where x is -inf",
           true, shoal_infer_same_floats, NO_PARAMS, "");
ACTIVATION(softsign, "x / (1 + |x|).", "NaN where x is infinite", false, shoal_infer_same_floats,
           NO_PARAMS, "");
