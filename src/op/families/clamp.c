// clamp: x kept within [min, max], for floats and integers; hardtanh and relu6 are clamps. NaN is
// kept. Where min > max the result is max. The gradient passes where min < x < max.
#include "op/families/pointwise.h"

enum { MIN, MAX };

REALS_1(clamp, x<p[MIN] ? (p[MIN] > p[MAX] ? p[MAX] : p[MIN]) : x> p[MAX] ? p[MAX] : x)
REALS_2(clamp_grad, x > p[MIN] && x < p[MAX] ? y : 0)

// Bounds of integers as such: whole, and within 64 bits.
static int64_t bound_of(double value) {
  if (value <= -0x1p63) return INT64_MIN;
  return value >= 0x1p63 ? INT64_MAX : (int64_t)value;
}

static void clamp_ints(int64_t n, const int64_t *const *in, int64_t *out, const double *p) {
  const int64_t min = bound_of(p[MIN]), max = bound_of(p[MAX]);
  for (int64_t i = 0; i < n; ++i) {
    const int64_t x = in[0][i] < min ? min : in[0][i];
    out[i] = x > max ? max : x;
  }
}

// The number of x's type that is nearest to a bound.
static double nearest(shoal_dtype_t dtype, double bound) {
  double element;
  shoal_dtype_store(dtype, &element, 0, bound);
  return shoal_dtype_load(dtype, &element, 0);
}

// Bounds of floats are numbers of x's dtype, so that an x at the bound is not beyond it.
static shoal_status_t run(const shoal_call_t *call, const shoal_tensor_t *inputs,
                          const shoal_tensor_t *outputs, shoal_reals_fn_t reals,
                          shoal_ints_fn_t ints) {
  shoal_attr_value_t attrs[2] = {call->attrs[MIN], call->attrs[MAX]};
  for (int32_t i = 0; i < 2 && shoal_dtype_is_float(inputs->dtype); ++i) {
    attrs[i].f = nearest(inputs->dtype, attrs[i].f);
  }
  shoal_call_t rounded = *call;
  rounded.attrs = attrs;
  return shoal_map_blocks(&rounded, inputs, outputs, reals, ints);
}

OP_KERNEL(clamp) {
  (void)workspace;
  return run(call, inputs, outputs, clamp_reals, clamp_ints);
}

OP_KERNEL(clamp_grad) {
  (void)workspace;
  return run(call, inputs, outputs, clamp_grad_reals, NULL);
}

// A bound of integers that no number of their type keeps would be stored as another number.
static shoal_status_t check_reach(const shoal_call_t *call) {
  const shoal_dtype_t dtype = call->inputs[0].dtype;
  if (!shoal_is_integer(dtype)) return NULL;
  for (int32_t i = 0; i < 2; ++i) {
    const double bound = call->attrs[i].f, held = nearest(dtype, bound);
    REQUIRE_HINT(call, i == MIN ? bound <= held : bound >= held, "cast x first (shoal_cast)",
                 "%s is %g, and %s holds no number that is not %s it", call->op->attrs[i].name,
                 bound, shoal_dtype_name(dtype), i == MIN ? "below" : "above");
  }
  return NULL;
}

static shoal_status_t check_bounds(const shoal_call_t *call) {
  const bool floats = shoal_dtype_is_float(call->inputs[0].dtype);
  for (int32_t i = 0; i < 2; ++i) {
    const double value = call->attrs[i].f;
    REQUIRE(call, value == value, "%s is NaN", call->op->attrs[i].name);
    REQUIRE_HINT(call, floats || value == floor(value), "give a whole number, or cast x first",
                 "%s is %g, and x has integers", call->op->attrs[i].name, value);
  }
  return check_reach(call);
}

static shoal_status_t clamp_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_bounds(call));
  return shoal_infer_broadcast_numbers(call, out_types);
}

static shoal_status_t clamp_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_bounds(call));
  return shoal_infer_same_floats(call, out_types);
}

OP_GRADIENT(clamp) {
  (void)out;
  in_grads[0] = shoal_emit_alike(e, "shoal.clamp_grad", REFS(in[0], grads[0]), call);
}

#define BOUNDS                                                                         \
  SHOAL_OP_ATTRS({.name = "min",                                                       \
                  .kind = SHOAL_ATTR_REAL,                                             \
                  .optional = true,                                                    \
                  .stated = true,                                                      \
                  .fallback = {.f = -INFINITY},                                        \
                  .doc = "least result, a whole number for integers; -inf: no bound"}, \
                 {.name = "max",                                                       \
                  .kind = SHOAL_ATTR_REAL,                                             \
                  .optional = true,                                                    \
                  .stated = true,                                                      \
                  .fallback = {.f = INFINITY},                                         \
                  .doc = "largest result, a whole number for integers; inf: no bound"})

const shoal_op_t shoal_op_clamp = {
    .name = "shoal.clamp",
    .doc =
        "x kept within [min, max], of floats and integers: min where x is below, max where x is "
        "above (and everywhere if min > max). NaN stays NaN. The gradient passes where min < x < "
        "max, and is 0 at the bounds, as PyTorch has it for hardtanh (its clamp passes it there).",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    BOUNDS,
    SHOAL_OP_OVERWRITES({0, 0}),
    .infer = clamp_infer,
    .gradient = clamp_gradient,
    .nan = "NaN is kept; inf becomes max, -inf min",
    .kernel = clamp_kernel,
    SHOAL_OP_CASES("f64[3,5] ; min=-0.37, max=0.41", "f32[7,1] ; max=0.3", "bf16[9] ; min=-0.25",
                   "i64[3,5]<9 ; min=2, max=5", "u8[7]<200 ; max=100", "f64[0,3] ; min=0"),
};

const shoal_op_t shoal_op_clamp_grad = {
    .name = "shoal.clamp_grad",
    .doc = "Gradient of clamp: dy where min < x < max, else 0.",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    BOUNDS,
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}),
    .infer = clamp_grad_infer,
    .jumps = true,
    .nan = "0 where x is NaN",
    .kernel = clamp_grad_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5] ; min=-0.37, max=0.41", "f32[7,1], f32[7,1] ; max=0.3",
                   "bf16[9], bf16[9] ; min=-0.25", "f64[0,3], f64[0,3] ; min=0"),
};
