// Losses element by element, not reduced: how far x is from its target, for floats of one shape
// (means and sums over them: src/nn/distance.c). Gradients flow to both and are written in simpler
// ops, so that only the one that is asked for is computed.
//   mse              (x - t)^2
//   l1               |x - t|
//   huber            d^2 / 2 where d = |x - t| <= delta, else delta (d - delta / 2)
//   smooth_l1        d^2 / (2 beta) where d < beta, else d - beta / 2
//   bce              -t log x - (1 - t) log(1 - x), logarithms not below -100
//   bce_with_logits  the same of 1 / (1 + e^-x), without overflow
//   kl_div           t (log t - x), where x is the logarithm of a probability
//   poisson_nll      e^x - t x (or x - t log(x + eps)), plus Stirling's log t! where t > 1
#include "op/families/pointwise.h"

#define TWO_PI 6.28318530717958647693

static double huber(double d, double delta) {
  return d <= delta ? 0.5 * d * d : delta * (d - 0.5 * delta);
}

static double smooth_l1(double d, double beta) {
  return d < beta ? 0.5 * d * d / beta : d - 0.5 * beta;
}

static double clipped(double logarithm) {
  return logarithm < -100 ? -100 : logarithm;
}

static double kl_div(double x, double t, bool log_target) {
  if (log_target) return exp(t) * (t - x);
  return (t == 0 ? 0 : t * log(t)) - t * x;
}

static double poisson_nll(double x, double t, const double *p) {
  const double loss = p[0] != 0 ? exp(x) - t * x : x - t * log(x + p[2]);
  return p[1] != 0 && t > 1 ? loss + t * log(t) - t + 0.5 * log(TWO_PI * t) : loss;
}

REALS_2(mse, (x - y) * (x - y))
REALS_2(l1, fabs(x - y))
REALS_2(huber, huber(fabs(x - y), p[0]))
REALS_2(smooth_l1, smooth_l1(fabs(x - y), p[0]))
REALS_2(bce, (y - 1) * clipped(log1p(-x)) - y * clipped(log(x)))
REALS_2(bce_with_logits, (x > 0 ? x : 0) - x * y + log1p(exp(-fabs(x))))
REALS_2(kl_div, kl_div(x, y, p[0] != 0))
REALS_2(poisson_nll, poisson_nll(x, y, p))

// ---- gradients -------------------------------------------------------------------------

#define OF(name, value) shoal_emit_unary(e, "shoal." name, (value))
#define ADD(a, b) shoal_emit_binary(e, "shoal.add", (a), (b))
#define SUB(a, b) shoal_emit_binary(e, "shoal.sub", (a), (b))
#define MUL(a, b) shoal_emit_mul(e, (a), (b))
#define AFFINE(value, scale, shift) shoal_emit_affine(e, (value), (scale), (shift))

static shoal_ref_t clamp(shoal_emitter_t *e, shoal_ref_t x, double min, double max) {
  return shoal_emit_one(e, "shoal.clamp", REFS(x),
                        ATTRS(shoal_attr_real("min", min), shoal_attr_real("max", max)));
}

// A loss of x - t: its slope goes to x, and negated to the target.
#define DIFFERENCE_GRADIENT(name, slope)     \
  OP_GRADIENT(name) {                        \
    const shoal_ref_t d = SUB(in[0], in[1]); \
    (void)call, (void)out;                   \
    in_grads[0] = MUL(grads[0], (slope));    \
    in_grads[1] = OF("neg", in_grads[0]);    \
  }

static shoal_ref_t smooth_slope(shoal_emitter_t *e, shoal_ref_t d, double beta) {
  return beta == 0 ? OF("sign", d) : clamp(e, AFFINE(d, 1 / beta, 0), -1, 1);
}

DIFFERENCE_GRADIENT(mse, AFFINE(d, 2, 0))
DIFFERENCE_GRADIENT(l1, OF("sign", d))
DIFFERENCE_GRADIENT(huber, clamp(e, d, -call->attrs[0].f, call->attrs[0].f))
DIFFERENCE_GRADIENT(smooth_l1, smooth_slope(e, d, call->attrs[0].f))

// By x: (x - t) / (x (1 - x)), the divisor at least 1e-12. By t: log(1 - x) - log x.
OP_GRADIENT(bce) {
  (void)call, (void)out;
  const shoal_ref_t x = in[0];
  const shoal_ref_t spread = clamp(e, MUL(x, AFFINE(x, -1, 1)), 1e-12, INFINITY);
  in_grads[0] = MUL(grads[0], shoal_emit_binary(e, "shoal.div", SUB(x, in[1]), spread));
  in_grads[1] = MUL(grads[0], SUB(OF("log1p", OF("neg", x)), OF("log", x)));
}

OP_GRADIENT(bce_with_logits) {
  (void)call, (void)out;
  in_grads[0] = MUL(grads[0], SUB(OF("sigmoid", in[0]), in[1]));
  in_grads[1] = OF("neg", MUL(grads[0], in[0]));
}

OP_GRADIENT(kl_div) {
  (void)out;
  const shoal_ref_t x = in[0], t = in[1];
  if (call->attrs[0].i) {
    const shoal_ref_t weight = MUL(grads[0], OF("exp", t));
    in_grads[0] = OF("neg", weight);
    in_grads[1] = MUL(weight, AFFINE(SUB(t, x), 1, 1));
  } else {
    in_grads[0] = OF("neg", MUL(grads[0], t));
    in_grads[1] = MUL(grads[0], AFFINE(SUB(OF("log", t), x), 1, 1));
  }
}

enum { LOG_INPUT, FULL, EPS };

OP_GRADIENT(poisson_nll) {
  (void)out;
  const shoal_ref_t x = in[0], t = in[1];
  shoal_ref_t by_x, by_t;
  if (call->attrs[LOG_INPUT].i) {
    by_x = SUB(OF("exp", x), t);
    by_t = OF("neg", x);
  } else {
    const shoal_ref_t shifted = AFFINE(x, 1, call->attrs[EPS].f);
    by_x = AFFINE(shoal_emit_binary(e, "shoal.div", t, shifted), -1, 1);
    by_t = OF("neg", OF("log", shifted));
  }
  if (call->attrs[FULL].i) {  // Stirling: log t + 1 / (2 t)
    const shoal_dtype_t dtype = call->inputs[0].dtype;
    const shoal_ref_t above =
        shoal_emit_binary(e, "shoal.greater", t, shoal_emit_scalar(e, dtype, 1));
    const shoal_ref_t slope = ADD(OF("log", t), AFFINE(OF("reciprocal", t), 0.5, 0));
    by_t = ADD(by_t, shoal_emit_where(e, above, slope, shoal_emit_scalar(e, dtype, 0)));
  }
  in_grads[0] = MUL(grads[0], by_x);
  in_grads[1] = MUL(grads[0], by_t);
}

// ---- records ---------------------------------------------------------------------------

static shoal_status_t positive_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE(call, call->attrs[0].f > 0, "%s is %g: it must be above 0", call->op->attrs[0].name,
          call->attrs[0].f);
  return shoal_infer_same_floats(call, out_types);
}

static shoal_status_t smooth_l1_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  REQUIRE(call, call->attrs[0].f >= 0, "beta is %g: it must not be below 0", call->attrs[0].f);
  return shoal_infer_same_floats(call, out_types);
}

#define LOSS(op_name, text, infer_fn, ...)     \
  BLOCK_KERNEL(op_name, op_name##_reals, NULL) \
  const shoal_op_t shoal_op_##op_name = {      \
      .name = "shoal." #op_name,               \
      .doc = text,                             \
      SHOAL_OP_INPUTS("x", "target"),          \
      SHOAL_OP_OUTPUTS("loss"),                \
      SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),     \
      .infer = infer_fn,                       \
      .gradient = op_name##_gradient,          \
      .cost = shoal_cost_libm,                 \
      .kernel = op_name##_kernel,              \
      __VA_ARGS__,                             \
  }
#define REAL_PARAM(param, value, text)                                                  \
  {                                                                                     \
    .name = param, .kind = SHOAL_ATTR_REAL, .optional = true, .fallback = {.f = value}, \
    .doc = text                                                                         \
  }
#define FLAG(param, value, text)                                                       \
  {                                                                                    \
    .name = param, .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, \
    .stated = (value) != 0, .fallback = {.i = value}, .doc = text                      \
  }
#define PAIRS "bf16[9], bf16[9]", "f64[], f64[]", "f32[0,3], f32[0,3]"

LOSS(mse, "(x - target)^2, element by element.", shoal_infer_same_floats,
     SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1]", PAIRS));
LOSS(l1, "|x - target|, element by element. Its gradient is 0 where they are equal.",
     shoal_infer_same_floats, SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1]", PAIRS));
LOSS(huber,
     "Half the square of d = |x - target| where d <= delta, else delta (d - delta / 2): element by "
     "element.",
     positive_infer, SHOAL_OP_ATTRS(REAL_PARAM("delta", 1, "where the square ends; above 0")),
     SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1] ; delta=0.43", PAIRS));
LOSS(smooth_l1,
     "d^2 / (2 beta) where d = |x - target| < beta, else d - beta / 2: element by element. l1 if "
     "beta is 0.",
     smooth_l1_infer, SHOAL_OP_ATTRS(REAL_PARAM("beta", 1, "where the square ends")),
     SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1] ; beta=0.43",
                    "f64[5], f64[5] ; beta=0", PAIRS));
LOSS(bce,
     "-target log(x) - (1 - target) log(1 - x) of probabilities x, element by element. Logarithms "
     "are not below -100. NaN where x is outside [0, 1].",
     shoal_infer_same_floats, .nan = "logarithms of 0 count as -100",
     SHOAL_OP_CASES("f64[3,5]<1, f64[3,5]<1", "f32[7,1]<1, f32[7,1]", "bf16[9]<1, bf16[9]<1",
                    "f64[]<1, f64[]", "f32[0,3], f32[0,3]"));
LOSS(bce_with_logits,
     "bce of 1 / (1 + e^-x), element by element, without overflow: max(x, 0) - x target + log(1 + "
     "e^-|x|).",
     shoal_infer_same_floats, SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[7,1], f32[7,1]", PAIRS));
LOSS(kl_div,
     "target (log(target) - x), element by element: x is the logarithm of a probability, and so is "
     "the target if log_target is 1. A target of 0 gives 0.",
     shoal_infer_same_floats,
     SHOAL_OP_ATTRS(FLAG("log_target", 0, "1: the target is a logarithm too")),
     .nan = "0 log 0 counts as 0",
     SHOAL_OP_CASES("f64[3,5], f64[3,5]+", "f32[7,1], f32[7,1] ; log_target=1", "bf16[9], bf16[9]+",
                    "f64[], f64[] ; log_target=1", "f32[0,3], f32[0,3]"));
LOSS(poisson_nll,
     "e^x - target x, element by element, or x - target log(x + eps) if log_input is 0; with full, "
     "Stirling's approximation of log(target!) is added where target > 1.",
     shoal_infer_same_floats,
     SHOAL_OP_ATTRS(FLAG("log_input", 1, "1: x is the logarithm of the rate; 0: the rate"),
                    FLAG("full", 0, "1: with Stirling's term"),
                    REAL_PARAM("eps", 1e-8, "keeps the logarithm of a rate of 0 finite")),
     .jumps = true,
     SHOAL_OP_CASES("f64[3,5], f64[3,5]+", "f32[7,1]+, f32[7,1]+ ; log_input=0, eps=0.01",
                    "f64[4,3], f64[4,3]+ ; full=1", "bf16[9], bf16[9]+",
                    "f64[]+, f64[]+ ; log_input=0", "f32[0,3], f32[0,3]"));
