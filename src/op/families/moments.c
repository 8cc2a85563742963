// Variance and norms over named dims, for floats; computed in doubles.
//   variance  sum((x - mean)^2) / (count - correction), in two passes
//   norm      p = 2: sqrt(sum x^2); p = 1: sum |x|; p = inf, -inf: max |x|, min |x|; p = 0: how
//             many are not 0; else (sum |x|^p)^(1/p)
#include "op/families/reduced.h"

enum { CORRECTION = 2, COUNT = 3, POWER = 2 };

// acc[result] = RESULT for every element v of x, in row-major order; a is acc[result] so far, m the
// element of `means` beside it.
#define FOLD(walk, x, acc, means, RESULT)                                                   \
  for (bool more = shoal_walk_start(walk); more; more = shoal_walk_next(walk)) {            \
    for (int64_t i = 0; i < (walk)->run; ++i) {                                             \
      const int64_t at = (walk)->offset[1] + i * (walk)->step[1];                           \
      const double a = (acc)[at], m = (means)[at];                                          \
      const double v =                                                                      \
          shoal_dtype_load((x)->dtype, (x)->data, (walk)->offset[0] + i * (walk)->step[0]); \
      (void)m;                                                                              \
      (acc)[at] = (RESULT);                                                                 \
    }                                                                                       \
  }

static void fill(int64_t n, double *values, double value) {
  for (int64_t i = 0; i < n; ++i) values[i] = value;
}

// ---- variance --------------------------------------------------------------------------

static int64_t variance_count(const shoal_call_t *call) {
  return call->attrs[COUNT].i > 0 ? call->attrs[COUNT].i : shoal_reduced_count(call);
}

static double variance_scale(const shoal_call_t *call) {
  const double freedom = (double)variance_count(call) - call->attrs[CORRECTION].f;
  return 1 / (freedom > 0 ? freedom : 0);
}

static void variance_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[COUNT].i = variance_count(call);
}

static shoal_status_t variance_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  REQUIRE(call, call->attrs[COUNT].i >= 0, "count %lld is negative",
          (long long)call->attrs[COUNT].i);
  REQUIRE(call, isfinite(call->attrs[CORRECTION].f), "correction is %g: it must be a number",
          call->attrs[CORRECTION].f);
  return shoal_reduced_infer(call, out_types);
}

static int64_t variance_workspace(const shoal_call_t *call) {
  return 2 * shoal_align64(shoal_shape_count(&call->outputs[0].shape) * 8);
}

OP_KERNEL(variance) {
  const int64_t n = shoal_shape_count(&outputs->shape);
  double *means = workspace, *squares = means + shoal_align64(n * 8) / 8;
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  shoal_walk_t again = walk;
  fill(n, means, 0);
  fill(n, squares, 0);
  FOLD(&walk, inputs, means, means, a + v)
  for (int64_t i = 0; i < n; ++i) means[i] /= (double)variance_count(call);
  FOLD(&again, inputs, squares, means, a + (v - m) * (v - m))
  for (int64_t i = 0; i < n; ++i) {
    shoal_dtype_store(outputs->dtype, outputs->data, i, squares[i] * variance_scale(call));
  }
  return NULL;
}

// x minus its mean
static shoal_ref_t centered(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t x) {
  const shoal_attr_value_t *dims = &call->attrs[SHOAL_REDUCED_DIMS];
  const shoal_ref_t mean = shoal_emit_one(
      e, "shoal.reduce_mean", REFS(x),
      ATTRS(shoal_attr_ints("dims", dims->count, dims->ints), shoal_attr_int("keep", 1),
            shoal_attr_int("count", variance_count(call))));
  return shoal_emit_binary(e, "shoal.sub", x, mean);
}

OP_GRADIENT(variance) {
  (void)out;
  const shoal_ref_t share = shoal_emit_affine(e, grads[0], 2 * variance_scale(call), 0);
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", centered(call, e, in[0]),
                                  shoal_reduced_repeat(call, e, share));
}

static void variance_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                               shoal_ref_t *out) {
  const shoal_ref_t squares = shoal_emit_unary(e, "shoal.square", centered(call, e, in[0]));
  const shoal_ref_t sum = shoal_reduced_emit(call, e, "shoal.reduce_sum", squares,
                                             call->attrs[SHOAL_REDUCED_KEEP].i != 0);
  out[0] = shoal_emit_affine(e, sum, variance_scale(call), 0);
}

// ---- norm ------------------------------------------------------------------------------

static shoal_status_t norm_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  REQUIRE(call, call->attrs[POWER].f == call->attrs[POWER].f, "p is NaN");
  return shoal_reduced_infer(call, out_types);
}

static int64_t norm_workspace(const shoal_call_t *call) {
  return shoal_align64(shoal_shape_count(&call->outputs[0].shape) * 8);
}

static double least(double a, double b) {
  return a < b || a != a ? a : b;
}

static double most(double a, double b) {
  return a > b || a != a ? a : b;
}

OP_KERNEL(norm) {
  const double p = call->attrs[POWER].f;
  const int64_t n = shoal_shape_count(&outputs->shape);
  double *acc = workspace;
  shoal_walk_t walk;
  SHOAL_RETURN_IF_ERROR(shoal_reduced_walk(call, &walk));
  fill(n, acc, p == -INFINITY ? INFINITY : 0);
  if (p == INFINITY) {
    FOLD(&walk, inputs, acc, acc, most(a, fabs(v)))
  } else if (p == -INFINITY) {
    FOLD(&walk, inputs, acc, acc, least(a, fabs(v)))
  } else if (p == 0) {
    FOLD(&walk, inputs, acc, acc, a + (v != 0))
  } else if (p == 1) {
    FOLD(&walk, inputs, acc, acc, a + fabs(v))
  } else if (p == 2) {
    FOLD(&walk, inputs, acc, acc, a + v * v)
  } else {
    FOLD(&walk, inputs, acc, acc, a + pow(fabs(v), p))
  }
  const bool root = p != 0 && p != 1 && p != INFINITY && p != -INFINITY;
  for (int64_t i = 0; i < n; ++i) {
    const double value = !root ? acc[i] : p == 2 ? sqrt(acc[i]) : pow(acc[i], 1 / p);
    shoal_dtype_store(outputs->dtype, outputs->data, i, value);
  }
  return NULL;
}

static shoal_ref_t power(shoal_emitter_t *e, shoal_ref_t x, double exponent) {
  return shoal_emit_one(e, "shoal.power", REFS(x), ATTRS(shoal_attr_real("exponent", exponent)));
}

static shoal_ref_t mul(shoal_emitter_t *e, shoal_ref_t a, shoal_ref_t b) {
  return shoal_emit_binary(e, "shoal.mul", a, b);
}

// `value` where `x` is not 0, else 0.
static shoal_ref_t unless_zero(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t value) {
  const shoal_ref_t zero = shoal_emit_scalar(e, shoal_emit_type(e, x).dtype, 0);
  return shoal_emit_where(e, shoal_emit_binary(e, "shoal.equal", x, zero), zero, value);
}

// The elements of the largest (or smallest) size share the gradient.
static shoal_ref_t extreme_slope(const shoal_call_t *call, shoal_emitter_t *e, shoal_ref_t x,
                                 shoal_ref_t y, shoal_ref_t dy) {
  const shoal_dtype_t dtype = call->inputs[0].dtype;
  const shoal_ref_t hit = shoal_emit_binary(e, "shoal.equal", shoal_emit_unary(e, "shoal.abs", x),
                                            shoal_reduced_repeat(call, e, y));
  const shoal_ref_t ties =
      shoal_reduced_emit(call, e, "shoal.reduce_sum", shoal_emit_cast(e, hit, dtype),
                         call->attrs[SHOAL_REDUCED_KEEP].i != 0);
  const shoal_ref_t share =
      shoal_reduced_repeat(call, e, shoal_emit_binary(e, "shoal.div", dy, ties));
  return shoal_emit_where(e, hit, mul(e, shoal_emit_unary(e, "shoal.sign", x), share),
                          shoal_emit_scalar(e, dtype, 0));
}

// sign(x) |x|^(p-1) / norm^(p-1), and 0 where the norm is 0 (or x, for p < 1).
OP_GRADIENT(norm) {
  const double p = call->attrs[POWER].f;
  const shoal_ref_t x = in[0], y = out[0], dy = grads[0];
  if (p == 0) return;
  if (p == INFINITY || p == -INFINITY) {
    in_grads[0] = extreme_slope(call, e, x, y, dy);
    return;
  }
  if (p == 1) {
    in_grads[0] = mul(e, shoal_emit_unary(e, "shoal.sign", x), shoal_reduced_repeat(call, e, dy));
    return;
  }
  const shoal_ref_t by = p == 2 ? y : power(e, y, p - 1);
  const shoal_ref_t scale =
      shoal_reduced_repeat(call, e, unless_zero(e, y, shoal_emit_binary(e, "shoal.div", dy, by)));
  shoal_ref_t direction = x;
  if (p != 2) {
    const shoal_ref_t size = power(e, shoal_emit_unary(e, "shoal.abs", x), p - 1);
    direction = mul(e, shoal_emit_unary(e, "shoal.sign", x), size);
    if (p < 1) direction = unless_zero(e, x, direction);
  }
  in_grads[0] = mul(e, direction, scale);
}

static void norm_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                           shoal_ref_t *out) {
  const double p = call->attrs[POWER].f;
  const bool keep = call->attrs[SHOAL_REDUCED_KEEP].i != 0;
  const bool extreme = p == INFINITY || p == -INFINITY;
  const bool empty = shoal_shape_count(&call->inputs[0].shape) == 0;
  // The largest size of nothing is 0, as its sum is.
  const char *join = p == INFINITY    ? empty ? "shoal.reduce_sum" : "shoal.reduce_max"
                     : p == -INFINITY ? "shoal.reduce_min"
                                      : "shoal.reduce_sum";
  shoal_ref_t part;
  if (p == 2) {
    part = shoal_emit_unary(e, "shoal.square", in[0]);
  } else if (p == 0) {
    const shoal_dtype_t dtype = call->inputs[0].dtype;
    const shoal_ref_t zero = shoal_emit_scalar(e, dtype, 0);
    part = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.not_equal", in[0], zero), dtype);
  } else {
    part = shoal_emit_unary(e, "shoal.abs", in[0]);
    if (p != 1 && !extreme) part = power(e, part, p);
  }
  const shoal_ref_t joined = shoal_reduced_emit(call, e, join, part, keep);
  if (p == 0 || p == 1 || extreme) {
    out[0] = joined;
  } else {
    out[0] = p == 2 ? shoal_emit_unary(e, "shoal.sqrt", joined) : power(e, joined, 1 / p);
  }
}

// ---- records ---------------------------------------------------------------------------

const shoal_op_t shoal_op_variance = {
    .name = "shoal.variance",
    .doc =
        "Variance of floats over the given dims: the sum of squared distances from the mean, "
        "divided by count - correction (NaN or inf where that is not above 0). The standard "
        "deviation is its square root.",
    .uncut = "the reduced dims: the mean comes first (its decomposition cuts them)",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS,
                   {.name = "correction",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .stated = true,
                    .fallback = {.f = 1},
                    .doc = "1: unbiased, of a sample (as PyTorch's); 0: of all there is"},
                   SHOAL_ATTR_COUNT_OF("how many are averaged; 0: as many as are reduced")),
    .complete = variance_complete,
    .infer = variance_infer,
    .gradient = variance_gradient,
    .decompose = variance_decompose,
    .cost = shoal_reduced_cost,
    .workspace = variance_workspace,
    .kernel = variance_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,7] ; dims=[0,2], correction=0",
                   "f64[3,5,2] ; dims=[-1], keep=1", "bf16[9,1] ; dims=[0]",
                   "f64[4,3] ; dims=[0,1]", "f32[0,3] ; dims=[1]"),
};

const shoal_op_t shoal_op_norm = {
    .name = "shoal.norm",
    .doc =
        "Norm of floats over the given dims: (sum of |x|^p)^(1/p); p = inf and -inf: the largest "
        "and smallest |x|, p = 0: how many are not 0. Its gradient is 0 where the norm is 0; ties "
        "of an extreme share it.",
    .nan = "a norm with p = 0 counts NaN as not 0",
    .uncut =
        "the reduced dims, unless p is 0, 1 or infinite: the root comes last (its decomposition "
        "cuts them)",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_REDUCED_ATTRS, {.name = "p",
                                         .kind = SHOAL_ATTR_REAL,
                                         .optional = true,
                                         .stated = true,
                                         .fallback = {.f = 2},
                                         .doc = "the power; may be inf or -inf"}),
    .infer = norm_infer,
    .gradient = norm_gradient,
    .decompose = norm_decompose,
    .cost = shoal_reduced_cost,
    .workspace = norm_workspace,
    .kernel = norm_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dims=[1]", "f32[3,5,7] ; dims=[0,2], p=inf",
                   "f64[3,5,2] ; dims=[1], keep=1, p=3", "bf16[3,9] ; dims=[-1], p=1",
                   "f64[5,1] ; dims=[0], p=-inf", "f64[3,5] ; dims=[0,1], p=1.5",
                   "f64[7] ; dims=[0], p=0", "f32[3,0] ; dims=[1]"),
};
