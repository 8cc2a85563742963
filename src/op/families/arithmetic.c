// Arithmetic of two and three operands beyond + - * /: division rounded down and its remainder,
// powers, the angle of a point, mixing, log(e^a + e^b). Operands broadcast like numpy.
#include "op/families/pointwise.h"

// ---- division rounded down -------------------------------------------------------------

// What fmod leaves has the sign of x; the remainder has that of y.
static double real_remainder(double x, double y) {
  const double rest = fmod(x, y);
  return rest != 0 && (y < 0) != (rest < 0) ? rest + y : rest;
}

// (x - remainder) / y is whole but for rounding. Where nothing is left it is a zero with the sign
// of x / y.
static double real_floor_div(double x, double y) {
  if (y == 0) return x / y;
  const double rest = fmod(x, y);
  double quotient = (x - rest) / y;
  if (rest != 0 && (y < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return copysign(0.0, x / y);
  const double whole = floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}

// y is not 0. x / -1 may not fit: it wraps.
static int64_t int_floor_div(int64_t x, int64_t y) {
  if (y == -1) return (int64_t)(0 - (uint64_t)x);
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}

static int64_t int_remainder(int64_t x, int64_t y) {
  if (y == -1) return 0;
  const int64_t rest = x % y;
  return rest != 0 && (rest < 0) != (y < 0) ? rest + y : rest;
}

REALS_2(floor_div, real_floor_div(x, y))
INTS_2(floor_div, int_floor_div(x, y))
REALS_2(remainder, real_remainder(x, y))
INTS_2(remainder, int_remainder(x, y))

// A part that has none of an empty result's rows still holds a divisor: only what is divided by is
// looked at.
static shoal_status_t check_divisors(const shoal_call_t *call, const shoal_tensor_t *b,
                                     const shoal_tensor_t *out) {
  if (shoal_dtype_is_float(b->dtype) || shoal_shape_count(&out->shape) == 0) return NULL;
  for (int64_t i = 0; i < shoal_shape_count(&b->shape); ++i) {
    REQUIRE_HINT(call, shoal_dtype_load_int(b->dtype, b->data, i) != 0,
                 "replace zeros before (shoal_where), or divide floats",
                 "element %lld of b is 0, and integers can't be divided by it", (long long)i);
  }
  return NULL;
}

OP_KERNEL(floor_div) {
  (void)workspace;
  SHOAL_RETURN_IF_ERROR(check_divisors(call, &inputs[1], outputs));
  return shoal_map_blocks(call, inputs, outputs, floor_div_reals, floor_div_ints);
}

OP_KERNEL(remainder) {
  (void)workspace;
  SHOAL_RETURN_IF_ERROR(check_divisors(call, &inputs[1], outputs));
  return shoal_map_blocks(call, inputs, outputs, remainder_reals, remainder_ints);
}

// ---- the others ------------------------------------------------------------------------

// The nearer end is the one that is added to: t = 0 and t = 1 give a and b to the bit.
static double mixed(double a, double b, double t) {
  return fabs(t) < 0.5 ? a + t * (b - a) : b - (b - a) * (1 - t);
}

// Roots are those of sqrt: that of -inf is NaN, that of -0 is -0.
static double raised(double x, double exponent) {
  if (exponent == 0.5) return sqrt(x);
  return exponent == -0.5 ? 1 / sqrt(x) : pow(x, exponent);
}

static double log_add_exp(double a, double b) {
  if (a == b) return a + 0.69314718055994530942;  // also of two infinities
  return (a > b ? a : b) + log1p(exp(-fabs(a - b)));
}

REALS_2(pow, pow(x, y))
REALS_1(power, raised(x, p[0]))
REALS_2(atan2, atan2(x, y))
REALS_3(lerp, mixed(x, y, z))
REALS_2(logaddexp, log_add_exp(x, y))
BLOCK_KERNEL(pow, pow_reals, NULL)
BLOCK_KERNEL(power, power_reals, NULL)
BLOCK_KERNEL(atan2, atan2_reals, NULL)
BLOCK_KERNEL(lerp, lerp_reals, NULL)
BLOCK_KERNEL(logaddexp, logaddexp_reals, NULL)

// ---- gradients -------------------------------------------------------------------------

static void give(const shoal_call_t *call, shoal_emitter_t *e, int32_t input, shoal_ref_t gradient,
                 shoal_ref_t *in_grads) {
  in_grads[input] = shoal_emit_sum_to(e, gradient, &call->inputs[input].shape);
}

// The quotient is constant between its jumps: a - floor(a / b) b moves with a, and -floor(a / b)
// times with b.
OP_GRADIENT(remainder) {
  (void)out;
  const shoal_ref_t whole = shoal_emit_binary(e, "shoal.floor_div", in[0], in[1]);
  give(call, e, 0, grads[0], in_grads);
  give(call, e, 1, shoal_emit_unary(e, "shoal.neg", shoal_emit_mul(e, grads[0], whole)), in_grads);
}

// d/da = b a^(b-1), 0 where b = 0 (also at a = 0). d/db = y log a, 0 where a = 0 and b >= 0: there
// y does not move, and log a is -inf.
OP_GRADIENT(pow) {
  const shoal_ref_t a = in[0], b = in[1];
  const shoal_ref_t zero = shoal_emit_scalar(e, call->inputs[0].dtype, 0);
  const shoal_ref_t below = shoal_emit_binary(e, "shoal.pow", a, shoal_emit_affine(e, b, 1, -1));
  const shoal_ref_t by_a = shoal_emit_mul(e, grads[0], shoal_emit_mul(e, b, below));
  give(call, e, 0, shoal_emit_where(e, shoal_emit_binary(e, "shoal.equal", b, zero), zero, by_a),
       in_grads);
  const shoal_ref_t by_b =
      shoal_emit_mul(e, grads[0], shoal_emit_mul(e, out[0], shoal_emit_unary(e, "shoal.log", a)));
  const shoal_ref_t stays =
      shoal_emit_binary(e, "shoal.logical_and", shoal_emit_binary(e, "shoal.equal", a, zero),
                        shoal_emit_binary(e, "shoal.greater_equal", b, zero));
  give(call, e, 1, shoal_emit_where(e, stays, zero, by_b), in_grads);
}

OP_GRADIENT(power) {
  (void)out;
  const double exponent = call->attrs[0].f;
  if (exponent == 0) return;
  const shoal_ref_t below = shoal_emit_one(e, "shoal.power", REFS(in[0]),
                                           ATTRS(shoal_attr_real("exponent", exponent - 1)));
  in_grads[0] = shoal_emit_mul(e, grads[0], shoal_emit_affine(e, below, exponent, 0));
}

// By a: b / (a^2 + b^2); by b: -a / (a^2 + b^2); 0 where a = b = 0.
OP_GRADIENT(atan2) {
  (void)out;
  const shoal_ref_t square =
      shoal_emit_binary(e, "shoal.add", shoal_emit_unary(e, "shoal.square", in[0]),
                        shoal_emit_unary(e, "shoal.square", in[1]));
  const shoal_ref_t zero = shoal_emit_scalar(e, call->inputs[0].dtype, 0);
  const shoal_ref_t share =
      shoal_emit_where(e, shoal_emit_binary(e, "shoal.equal", square, zero), zero,
                       shoal_emit_binary(e, "shoal.div", grads[0], square));
  give(call, e, 0, shoal_emit_mul(e, share, in[1]), in_grads);
  give(call, e, 1, shoal_emit_unary(e, "shoal.neg", shoal_emit_mul(e, share, in[0])), in_grads);
}

OP_GRADIENT(lerp) {
  (void)out;
  const shoal_ref_t dy = grads[0], t = in[2];
  give(call, e, 0, shoal_emit_mul(e, dy, shoal_emit_affine(e, t, -1, 1)), in_grads);
  give(call, e, 1, shoal_emit_mul(e, dy, t), in_grads);
  give(call, e, 2, shoal_emit_mul(e, dy, shoal_emit_binary(e, "shoal.sub", in[1], in[0])),
       in_grads);
}

// e^a / (e^a + e^b) = sigmoid(a - b)
OP_GRADIENT(logaddexp) {
  (void)out;
  for (int32_t i = 0; i < 2; ++i) {
    const shoal_ref_t apart = shoal_emit_binary(e, "shoal.sub", in[i], in[1 - i]);
    give(call, e, i, shoal_emit_mul(e, grads[0], shoal_emit_unary(e, "shoal.sigmoid", apart)),
         in_grads);
  }
}

// ---- records ---------------------------------------------------------------------------

#define ARITHMETIC(op_name, text, infer_fn, gradient_fn, ...) \
  const shoal_op_t shoal_op_##op_name = {                     \
      .name = "shoal." #op_name,                              \
      .doc = text,                                            \
      SHOAL_OP_OUTPUTS("out"),                                \
      .infer = infer_fn,                                      \
      .gradient = gradient_fn,                                \
      .cost = shoal_cost_libm,                                \
      .kernel = op_name##_kernel,                             \
      __VA_ARGS__,                                            \
  }
#define TWO SHOAL_OP_INPUTS("a", "b"), SHOAL_OP_OVERWRITES({0, 0}, {0, 1})
#define FLOAT_PAIRS                                                                       \
  TWO, SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[2,3,5], f32[5]", "f64[3,1], f64[7,1,5]", \
                      "bf16[3,5], bf16[3,1]", "f64[], f64[4]", "f32[0,3], f32[3]")
#define POSITIVE_PAIRS                                                                          \
  TWO, SHOAL_OP_CASES("f64[3,5]+, f64[3,5]+", "f32[2,3,5]+, f32[5]+", "f64[3,1]+, f64[7,1,5]+", \
                      "bf16[3,5]+, bf16[3,1]+", "f64[]+, f64[4]", "f32[0,3]+, f32[3]")
#define DIVISIONS                                                                                \
  TWO, SHOAL_OP_CASES("f64[3,5], f64[3,5]+", "f32[2,3,5], f32[5]+", "f64[3,1], f64[7,1,5]+",     \
                      "bf16[3,5], bf16[3,1]+", "i64[7]<100, i64[7]<9+", "i32[3,5]<20, i32[]<9+", \
                      "f32[0,3], f32[3]+")

ARITHMETIC(floor_div,
           "a / b rounded down, broadcast like numpy. An integer b must not be 0; a float 0 gives "
           "inf or NaN. Gradients are 0.",
           shoal_infer_broadcast_numbers, shoal_gradient_none, DIVISIONS, .jumps = true,
           .nan = "a / 0 is inf, -inf or NaN; an infinite b divides to 0 or -1");
ARITHMETIC(
    remainder,
    "What is left of a when it is divided by b and rounded down: 0 or of b's sign, broadcast "
    "like numpy. An integer b must not be 0; a float 0 gives NaN.",
    shoal_infer_broadcast_numbers, remainder_gradient, DIVISIONS, .jumps = true,
    .nan = "NaN where b is 0; a or b where b is infinite");
ARITHMETIC(pow,
           "a to the power of b for floats, broadcast like numpy. A negative a gives NaN unless b "
           "is whole; NaN to the power of 0 and 1 to the power of NaN are 1.",
           shoal_infer_broadcast_floats, pow_gradient, POSITIVE_PAIRS,
           .nan = "as C's pow: NaN to the power of 0 and 1 to the power of NaN are 1");
ARITHMETIC(power, "x to the power of a number that is known when the graph is built.",
           shoal_infer_broadcast_floats, power_gradient, SHOAL_OP_INPUTS("x"),
           SHOAL_OP_OVERWRITES({0, 0}),
           SHOAL_OP_ATTRS({.name = "exponent", .kind = SHOAL_ATTR_REAL, .doc = "the power"}),
           SHOAL_OP_CASES("f64[3,5] ; exponent=3", "f32[7,1]+ ; exponent=-0.5",
                          "bf16[9]+ ; exponent=1.5", "f64[5] ; exponent=0",
                          "f64[0,3] ; exponent=2"),
           .nan = "as C's pow: NaN to the power of 0 is 1; 0.5 and -0.5 are roots: -inf gives NaN");
ARITHMETIC(atan2,
           "The angle of the point (b, a), in (-pi, pi]: the arc tangent of a / b in the right "
           "quadrant. Floats, broadcast like numpy.",
           shoal_infer_broadcast_floats, atan2_gradient, POSITIVE_PAIRS,
           .nan = "infinities have angles");
ARITHMETIC(lerp, "a + t (b - a) for floats, broadcast like numpy: a where t = 0, b where t = 1.",
           shoal_infer_broadcast_floats, lerp_gradient, SHOAL_OP_INPUTS("a", "b", "t"),
           SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}),
           SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5]", "f32[2,3,5], f32[2,3,5], f32[]",
                          "f64[3,1], f64[5], f64[2,1,1]", "bf16[7], bf16[7], bf16[7]",
                          "f64[0], f64[0], f64[]"));
ARITHMETIC(logaddexp, "log(e^a + e^b) for floats, without overflow, broadcast like numpy.",
           shoal_infer_broadcast_floats, logaddexp_gradient, FLOAT_PAIRS,
           .nan = "-inf adds nothing: log(e^a + 0) = a");
