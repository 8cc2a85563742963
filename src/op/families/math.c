// Functions of one operand: absolute value, sign, roots, logarithms, exponentials, angles, erf,
// rounding, and tests for NaN and infinities. Floats; abs and sign take integers too. NaN stays NaN
// but for the tests and sign, which say so.
#include "op/families/pointwise.h"

#define LOG_2 0.69314718055994530942
#define TWO_BY_ROOT_PI 1.12837916709551257390

// Not isnan and its like: they are no macros of doubles under every compiler flag.
static bool is_nan(double x) {
  return x != x;
}
static bool is_inf(double x) {
  return x == INFINITY || x == -INFINITY;
}

// Half to even, whatever the rounding mode is set to.
static double rounded(double x) {
  const double low = floor(x), rest = x - low;
  if (!(rest > 0)) return x;  // whole, infinite or NaN; keeps -0
  const bool up = rest > 0.5 || (rest == 0.5 && fmod(low, 2) != 0);
  return copysign(up ? low + 1 : low, x);
}

REALS_1(abs, fabs(x))
INTS_1(abs, x < 0 ? (int64_t)(0 - (uint64_t)x) : x)
REALS_1(sign, (x > 0) - (x < 0))
INTS_1(sign, (x > 0) - (x < 0))
REALS_1(reciprocal, 1 / x)
REALS_1(rsqrt, 1 / sqrt(x))
REALS_1(log1p, log1p(x))
REALS_1(expm1, expm1(x))
REALS_1(exp2, exp2(x))
REALS_1(log2, log2(x))
REALS_1(sin, sin(x))
REALS_1(cos, cos(x))
REALS_1(tan, tan(x))
REALS_1(asin, asin(x))
REALS_1(acos, acos(x))
REALS_1(atan, atan(x))
REALS_1(sinh, sinh(x))
REALS_1(cosh, cosh(x))
REALS_1(erf, erf(x))
REALS_1(floor, floor(x))
REALS_1(ceil, ceil(x))
REALS_1(round, rounded(x))
REALS_1(trunc, trunc(x))
REALS_1(is_nan, is_nan(x))
REALS_1(is_inf, is_inf(x))
REALS_1(is_finite, !is_nan(x) && !is_inf(x))

// ---- types -----------------------------------------------------------------------------

static shoal_status_t test_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_infer_broadcast_floats(call, out_types));
  out_types[0].dtype = SHOAL_BOOL;
  return NULL;
}

// ---- gradients -------------------------------------------------------------------------

// The slope from x and y; the gradient is dy times it.
#define SLOPE(name, result)                              \
  OP_GRADIENT(name) {                                    \
    const shoal_ref_t x = in[0], y = out[0];             \
    (void)call, (void)x, (void)y;                        \
    in_grads[0] = shoal_emit_mul(e, grads[0], (result)); \
  }
#define OF(name, value) shoal_emit_unary(e, "shoal." name, (value))
#define AFFINE(value, scale, shift) shoal_emit_affine(e, (value), (scale), (shift))

SLOPE(abs, OF("sign", x))
SLOPE(reciprocal, OF("neg", OF("square", y)))
SLOPE(rsqrt, AFFINE(shoal_emit_mul(e, y, OF("square", y)), -0.5, 0))
SLOPE(log1p, OF("reciprocal", AFFINE(x, 1, 1)))
SLOPE(expm1, AFFINE(y, 1, 1))
SLOPE(exp2, AFFINE(y, LOG_2, 0))
SLOPE(log2, AFFINE(OF("reciprocal", x), 1 / LOG_2, 0))
SLOPE(sin, OF("cos", x))
SLOPE(cos, OF("neg", OF("sin", x)))
SLOPE(tan, AFFINE(OF("square", y), 1, 1))
SLOPE(asin, OF("rsqrt", AFFINE(OF("square", x), -1, 1)))
SLOPE(acos, OF("neg", OF("rsqrt", AFFINE(OF("square", x), -1, 1))))
SLOPE(atan, OF("reciprocal", AFFINE(OF("square", x), 1, 1)))
SLOPE(sinh, OF("cosh", x))
SLOPE(cosh, OF("sinh", x))
SLOPE(erf, AFFINE(OF("exp", OF("neg", OF("square", x))), TWO_BY_ROOT_PI, 0))

// ---- records ---------------------------------------------------------------------------

#define MATH(op_name, ints, text, infer_fn, gradient_fn, cost_fn, ...) \
  BLOCK_KERNEL(op_name, op_name##_reals, ints)                         \
  const shoal_op_t shoal_op_##op_name = {                              \
      .name = "shoal." #op_name,                                       \
      .doc = text,                                                     \
      SHOAL_OP_INPUTS("x"),                                            \
      SHOAL_OP_OUTPUTS("out"),                                         \
      SHOAL_OP_OVERWRITES({0, 0}),                                     \
      .infer = infer_fn,                                               \
      .gradient = gradient_fn,                                         \
      .cost = cost_fn,                                                 \
      .kernel = op_name##_kernel,                                      \
      __VA_ARGS__,                                                     \
  }
#define ANY_LIST "f64[3,5]", "f32[7,1]", "bf16[9]", "f64[]", "f32[0,3]"
#define ANY_CASES SHOAL_OP_CASES(ANY_LIST)
#define POSITIVE_CASES SHOAL_OP_CASES("f64[3,5]+", "f32[7,1]+", "bf16[9]+", "f64[]+", "f32[0,3]")
#define NUMBER_CASES SHOAL_OP_CASES(ANY_LIST, "i64[3,5]<9", "i32[7]<9", "u8[5]<200")

#define SMOOTH(op_name, text, ...)                                                             \
  MATH(op_name, NULL, text, shoal_infer_broadcast_floats, op_name##_gradient, shoal_cost_libm, \
       __VA_ARGS__)
#define STEPS(op_name, text)                                                                    \
  MATH(op_name, NULL, text, shoal_infer_broadcast_floats, shoal_gradient_none, NULL, ANY_CASES, \
       .jumps = true)
#define TEST(op_name, text)                                                   \
  MATH(op_name, NULL, text, test_infer, shoal_gradient_none, NULL, ANY_CASES, \
       .nan = "it tests for them")

MATH(abs, abs_ints,
     "|x|, of floats and integers; the least integer wraps to itself. Its gradient at 0 is 0.",
     shoal_infer_broadcast_numbers, abs_gradient, NULL, NUMBER_CASES);
MATH(sign, sign_ints,
     "-1, 0 or 1 as x is below, at or above 0, of floats and integers; 0 where x is NaN.",
     shoal_infer_broadcast_numbers, shoal_gradient_none, NULL, NUMBER_CASES, .jumps = true,
     .nan = "the sign of NaN is 0, that of an infinity is 1 or -1");
SMOOTH(reciprocal, "1 / x: inf or -inf of 0.", POSITIVE_CASES, .nan = "1 / inf is 0");
SMOOTH(rsqrt, "1 / sqrt(x): inf of 0, NaN below it.", POSITIVE_CASES,
       .nan = "0 where x is inf, NaN where it is -inf");
SMOOTH(log1p, "log(1 + x), exact for small x: -inf at -1, NaN below it.", POSITIVE_CASES);
SMOOTH(expm1, "e^x - 1, exact for small x.", ANY_CASES, .nan = "-1 where x is -inf");
SMOOTH(exp2, "2 to the power of x.", ANY_CASES, .nan = "0 where x is -inf");
SMOOTH(log2, "Logarithm of x to the base 2: -inf of 0, NaN below it.", POSITIVE_CASES);
SMOOTH(sin, "Sine of x.", ANY_CASES, .nan = "NaN where x is infinite");
SMOOTH(cos, "Cosine of x.", ANY_CASES, .nan = "NaN where x is infinite");
SMOOTH(tan, "Tangent of x.", ANY_CASES, .nan = "NaN where x is infinite");
SMOOTH(asin, "Arc sine of x, in [-pi/2, pi/2]; NaN outside [-1, 1].", ANY_CASES);
SMOOTH(acos, "Arc cosine of x, in [0, pi]; NaN outside [-1, 1].", ANY_CASES);
SMOOTH(atan, "Arc tangent of x, in [-pi/2, pi/2].", ANY_CASES,
       .nan = "pi/2 or -pi/2 where x is infinite");
SMOOTH(sinh, "Hyperbolic sine of x.", ANY_CASES);
SMOOTH(cosh, "Hyperbolic cosine of x.", ANY_CASES);
SMOOTH(erf, "The error function of x: 2 / sqrt(pi) times the integral of e^(-t^2) from 0 to x.",
       ANY_CASES, .nan = "1 or -1 where x is infinite");
STEPS(floor, "x rounded down. Its gradient is 0.");
STEPS(ceil, "x rounded up. Its gradient is 0.");
STEPS(round, "x rounded to the nearest whole number, half to even. Its gradient is 0.");
STEPS(trunc, "x rounded towards 0. Its gradient is 0.");
TEST(is_nan, "Whether x is NaN, as bool.");
TEST(is_inf, "Whether x is infinite, of either sign, as bool.");
TEST(is_finite, "Whether x is neither NaN nor infinite, as bool.");
