// Layer norm over the last dims, one of them by default. Rows x[C]; for each row
//   mean = sum(x) / count,  rstd = 1 / sqrt(sum((x - mean)^2) / count + eps),  y = (x - mean) rstd
//   gamma + beta
// and, with h = (x - mean) rstd and g = dy gamma,
//   dx = rstd (g - sum(g) / count - h sum(g h) / count),  dgamma = sum over rows of dy h,  dbeta =
//   of dy.
// gamma and beta have the dims of a row; either may be left out. mean and rstd have the dims before
// them; for half-size floats they are f32. count is the whole's C.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { NORM_EPS, NORM_COUNT, NORM_WITH, NORM_DIMS };
enum { GRAD_COUNT, GRAD_BETA };
enum { X, GAMMA, BETA };
enum { MEAN = 1, RSTD, DY, GRAD_GAMMA };  // inputs of the gradient behind x

#define EACH EACH_REAL
#define KERNELS "op/families/layer_norm.c"
#include "op/families/each.h"

// The first of the dims that are normed over; negative if there are too few.
static int32_t first_dim(const shoal_call_t *call) {
  return call->inputs[X].shape.rank - (int32_t)call->attrs[NORM_DIMS].i;
}

static int32_t grad_first_dim(const shoal_call_t *call) {
  return call->inputs[MEAN].shape.rank;
}

// Elements of a row, if there are so many dims.
static int64_t width_of(const shoal_call_t *call, int32_t first) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  return first >= 0 && first <= x->rank ? shoal_shape_product(x, first, x->rank) : 1;
}

static void layer_norm_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  if (attrs[NORM_COUNT].i <= 0) attrs[NORM_COUNT].i = width_of(call, first_dim(call));
}

static void layer_norm_grad_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  if (attrs[GRAD_COUNT].i <= 0) attrs[GRAD_COUNT].i = width_of(call, grad_first_dim(call));
}

// gamma or beta, where it is given: a row of x.
static shoal_status_t check_row(const shoal_call_t *call, int32_t name, int32_t first) {
  const shoal_type_t *x = &call->inputs[X];
  const int32_t at = GIVEN(call, name);
  if (at < 0) return NULL;
  const shoal_shape_t row = shoal_shape_part(&x->shape, first, x->shape.rank);
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, at));
  return shoal_check_shape(call, at, &row);
}

static shoal_type_t stat_type(const shoal_type_t *x, int32_t first) {
  return (shoal_type_t){shoal_statistics_dtype(x->dtype), shoal_shape_part(&x->shape, 0, first)};
}

static shoal_status_t layer_norm_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[X];
  const int64_t dims = call->attrs[NORM_DIMS].i;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  REQUIRE(call, dims >= 1 && dims <= x->shape.rank,
          "x has %d dims, of which the last %lld cannot be normed over", x->shape.rank,
          (long long)dims);
  const int32_t first = first_dim(call);
  SHOAL_RETURN_IF_ERROR(check_row(call, GAMMA, first));
  SHOAL_RETURN_IF_ERROR(check_row(call, BETA, first));
  out_types[0] = *x;
  out_types[1] = out_types[2] = stat_type(x, first);
  return NULL;
}

// dx, and what there is of dgamma and dbeta: with beta alone, dgamma is made too.
static int32_t layer_norm_grad_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  if (attrs[GRAD_BETA].i) return 3;
  return shoal_op_given(op, attrs, GRAD_GAMMA) < 0 ? 1 : 2;
}

static shoal_status_t layer_norm_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  const int32_t first = grad_first_dim(call), rank = in[X].shape.rank;
  const int64_t beta = call->attrs[GRAD_BETA].i;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  REQUIRE(call, beta == 0 || beta == 1, "beta is 0 or 1, not %lld", (long long)beta);
  REQUIRE(call, first < rank, "mean has %d dims: it must have fewer than x, which has %d", first,
          rank);
  const shoal_type_t stat = stat_type(&in[X], first);
  for (int32_t i = MEAN; i <= RSTD; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &stat.shape));
    SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, i, stat.dtype));
  }
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, DY));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DY, &in[X].shape));
  SHOAL_RETURN_IF_ERROR(check_row(call, GRAD_GAMMA, first));
  out_types[0] = in[X];
  for (int32_t i = 1; i < call->output_count; ++i) {
    out_types[i] = (shoal_type_t){in[X].dtype, shoal_shape_part(&in[X].shape, first, rank)};
  }
  return NULL;
}

#define KERNEL(name, first)                                                         \
  OP_KERNEL(name) {                                                                 \
    if (shoal_kernel_is_half(call)) {                                               \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel); \
    }                                                                               \
    const int64_t rows = shoal_shape_product(&inputs[X].shape, 0, first(call));     \
    (inputs->dtype == SHOAL_F64 ? name##_f64 : name##_f32)(                         \
        call, rows, width_of(call, first(call)), inputs, outputs);                  \
    return NULL;                                                                    \
  }

KERNEL(layer_norm, first_dim)
KERNEL(layer_norm_grad, grad_first_dim)

// ---- in simpler ops --------------------------------------------------------------------

#define BINARY(op, a, b) shoal_emit_binary(e, "shoal." op, (a), (b))

// Statistics as they are multiplied with x: with dims of size 1 for those of a row.
static shoal_ref_t kept(shoal_emitter_t *e, const shoal_shape_t *x, shoal_ref_t statistic) {
  shoal_shape_t shape = shoal_emit_type(e, statistic).shape;
  for (; shape.rank < x->rank; ++shape.rank) shape.dims[shape.rank] = 1;
  return shoal_emit_reshape(e, statistic, &shape);
}

// The mean over a row, kept as dims of size 1.
static shoal_ref_t mean_of(shoal_emitter_t *e, shoal_ref_t x, int32_t first, int64_t count) {
  const int32_t rank = shoal_emit_type(e, x).shape.rank;
  int64_t dims[SHOAL_MAX_RANK] = {0};
  for (int32_t d = first; d < rank; ++d) dims[d - first] = d;
  return shoal_emit_one(e, "shoal.reduce_mean", REFS(x),
                        ATTRS(shoal_attr_ints("dims", rank - first, dims),
                              shoal_attr_int("keep", 1), shoal_attr_int("count", count)));
}

// x - mean, in f32 for half-size floats.
static shoal_ref_t centered(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t mean) {
  x = shoal_emit_cast(e, x, shoal_emit_type(e, mean).dtype);
  const shoal_shape_t shape = shoal_emit_type(e, x).shape;
  return BINARY("sub", x, kept(e, &shape, mean));
}

static shoal_ref_t add_to(shoal_emitter_t *e, shoal_ref_t sum, shoal_ref_t more) {
  return sum == SHOAL_NO_REF ? more : BINARY("add", sum, more);
}

// Gradients may also flow into mean (dx += dmean / count) and rstd (dx -= drstd rstd^3 (x - mean) /
// count).
OP_GRADIENT(layer_norm) {
  const shoal_type_t *x = &call->inputs[X];
  const int64_t count = call->attrs[NORM_COUNT].i;
  const int32_t gamma = GIVEN(call, GAMMA), beta = GIVEN(call, BETA);
  shoal_ref_t all[3] = {SHOAL_NO_REF, SHOAL_NO_REF, SHOAL_NO_REF};
  if (grads[0] != SHOAL_NO_REF) {
    const shoal_ref_t operands[] = {in[X], out[1], out[2], grads[0],
                                    gamma < 0 ? SHOAL_NO_REF : in[gamma]};
    const shoal_attr_t attrs[] = {shoal_attr_int("count", count),
                                  shoal_attr_int("beta", beta >= 0)};
    const int32_t made = beta >= 0 ? 3 : gamma >= 0 ? 2 : 1;
    shoal_emit(e, "shoal.layer_norm_grad", 5, operands, 2, attrs, made, all);
  }
  if (grads[1] != SHOAL_NO_REF) {
    const shoal_ref_t share = shoal_emit_affine(e, grads[1], 1 / (double)count, 0);
    const shoal_ref_t spread = shoal_emit_broadcast(e, kept(e, &x->shape, share), &x->shape);
    all[0] = add_to(e, all[0], shoal_emit_cast(e, spread, x->dtype));
  }
  if (grads[2] != SHOAL_NO_REF) {
    const shoal_ref_t cube = BINARY("mul", shoal_emit_unary(e, "shoal.square", out[2]), out[2]);
    const shoal_ref_t slope =
        shoal_emit_affine(e, BINARY("mul", grads[2], cube), -1 / (double)count, 0);
    const shoal_ref_t dx = BINARY("mul", centered(e, in[X], out[1]), kept(e, &x->shape, slope));
    all[0] = add_to(e, all[0], shoal_emit_cast(e, dx, x->dtype));
  }
  in_grads[X] = all[0];
  if (gamma >= 0) in_grads[gamma] = all[1];
  if (beta >= 0) in_grads[beta] = all[2];
}

static void layer_norm_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                 const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[X];
  const int32_t first = first_dim(call), gamma = GIVEN(call, GAMMA), beta = GIVEN(call, BETA);
  const int64_t count = call->attrs[NORM_COUNT].i;
  const shoal_type_t stat = stat_type(type, first);
  const shoal_ref_t x = shoal_emit_cast(e, in[X], stat.dtype);
  const shoal_ref_t mean = mean_of(e, x, first, count);
  const shoal_ref_t rest = BINARY("sub", x, mean);
  const shoal_ref_t variance = mean_of(e, shoal_emit_unary(e, "shoal.square", rest), first, count);
  const shoal_ref_t deviation =
      shoal_emit_unary(e, "shoal.sqrt", shoal_emit_affine(e, variance, 1, call->attrs[NORM_EPS].f));
  const shoal_ref_t rstd = BINARY("div", shoal_emit_scalar(e, stat.dtype, 1), deviation);
  shoal_ref_t y = BINARY("mul", rest, rstd);
  if (gamma >= 0) y = BINARY("mul", y, shoal_emit_cast(e, in[gamma], stat.dtype));
  if (beta >= 0) y = BINARY("add", y, shoal_emit_cast(e, in[beta], stat.dtype));
  outputs[0] = shoal_emit_cast(e, y, type->dtype);
  outputs[1] = shoal_emit_reshape(e, mean, &stat.shape);
  outputs[2] = shoal_emit_reshape(e, rstd, &stat.shape);
}

static void layer_norm_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                      const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[X];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const int32_t first = grad_first_dim(call), gamma = GIVEN(call, GRAD_GAMMA);
  const int64_t count = call->attrs[GRAD_COUNT].i;
  const shoal_shape_t row = shoal_shape_part(&type->shape, first, type->shape.rank);
  const shoal_ref_t dy = shoal_emit_cast(e, in[DY], wide);
  const shoal_ref_t rstd = kept(e, &type->shape, in[RSTD]);
  const shoal_ref_t h = BINARY("mul", centered(e, in[X], in[MEAN]), rstd);
  shoal_ref_t g = dy;
  if (gamma >= 0) g = BINARY("mul", dy, shoal_emit_cast(e, in[gamma], wide));
  const shoal_ref_t mean_g = mean_of(e, g, first, count);
  const shoal_ref_t mean_gh = mean_of(e, BINARY("mul", g, h), first, count);
  shoal_ref_t dx = BINARY("sub", g, mean_g);
  dx = BINARY("sub", dx, BINARY("mul", h, mean_gh));
  outputs[0] = shoal_emit_cast(e, BINARY("mul", dx, rstd), type->dtype);
  if (call->output_count > 1) {
    outputs[1] = shoal_emit_cast(e, shoal_emit_sum_to(e, BINARY("mul", dy, h), &row), type->dtype);
  }
  if (call->output_count > 2) {
    outputs[2] = shoal_emit_cast(e, shoal_emit_sum_to(e, dy, &row), type->dtype);
  }
}

static void norm_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 8.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

static void norm_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[0].shape);
}

const shoal_op_t shoal_op_layer_norm = {
    .name = "shoal.layer_norm",
    .doc =
        "(x - mean) rstd gamma + beta over the last dims, with mean and rstd = 1 / sqrt(variance + "
        "eps) of each row as further results. gamma and beta have the dims of a row; without them: "
        "(x - mean) rstd.",
    .uncut = "the last dims of x: a row is normalised as one (its decomposition cuts it)",
    SHOAL_OP_INPUTS("x", "gamma", "beta"),
    SHOAL_OP_OUTPUTS("y", "mean", "rstd"),
    .optional = 2,
    SHOAL_OP_ATTRS({.name = "eps",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback = {.f = 1e-5},
                    .doc = "added to the variance"},
                   SHOAL_ATTR_COUNT_OF("elements of a row; 0: of x's"), SHOAL_ATTR_WITH,
                   {.name = "dims",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .fallback = {.i = 1},
                    .doc = "so many of the last dims are a row"}),
    SHOAL_OP_OVERWRITES({0, X}),
    .complete = layer_norm_complete,
    .infer = layer_norm_infer,
    .gradient = layer_norm_gradient,
    .decompose = layer_norm_decompose,
    .cost = norm_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = layer_norm_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[7], f64[7] ; with=\"gamma,beta\"",
                   "f32[2,3,5], f32[5], f32[5] ; eps=1e-3, with=\"gamma,beta\"",
                   "f64[9], f64[9] ; eps=0.1, with=\"gamma\"", "f64[5,3], f64[3] ; with=\"beta\"",
                   "bf16[3,9], bf16[9], bf16[9] ; with=\"gamma,beta\"", "f32[0,3] ; eps=0.1",
                   "f64[3,2,5], f64[2,5], f64[2,5] ; dims=2, with=\"gamma,beta\""),
};

const shoal_op_t shoal_op_layer_norm_grad = {
    .name = "shoal.layer_norm_grad",
    .doc = "Gradients of layer_norm's y with respect to x and, where asked for, gamma and beta.",
    .uncut = "the last dims of x: a row is normalised as one (its decomposition cuts it)",
    SHOAL_OP_INPUTS("x", "mean", "rstd", "dy", "gamma"),
    SHOAL_OP_OUTPUTS("dx", "dgamma", "dbeta"),
    .optional = 1,
    .output_number = layer_norm_grad_outputs,
    SHOAL_OP_ATTRS(SHOAL_ATTR_COUNT_OF("elements of a row; 0: of x's"),
                   {.name = "beta",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .optional = true,
                    .doc = "1: the gradient of beta is wanted as well"},
                   SHOAL_ATTR_WITH),
    SHOAL_OP_OVERWRITES({0, X}, {0, DY}),
    .complete = layer_norm_grad_complete,
    .infer = layer_norm_grad_infer,
    .decompose = layer_norm_grad_decompose,
    .cost = norm_grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = layer_norm_grad_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[3], f64[3]+, f64[3,7], f64[7] ; beta=1, with=\"gamma\"",
                   "f32[2,3,5], f32[2,3], f32[2,3]+, f32[2,3,5], f32[5] ; with=\"gamma\"",
                   "f64[5], f64[], f64[]+, f64[5] ; beta=1", "f64[5,3], f64[5], f64[5]+, f64[5,3]",
                   "bf16[3,9], f32[3], f32[3]+, bf16[3,9], bf16[9] ; beta=1, with=\"gamma\"",
                   "f64[3,2,5], f64[3], f64[3]+, f64[3,2,5], f64[2,5] ; beta=1, with=\"gamma\""),
};

#else  // per element type

static void K(layer_norm)(const shoal_call_t *call, int64_t rows, int64_t width,
                          const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const R count = (R)call->attrs[NORM_COUNT].i, eps = (R)call->attrs[NORM_EPS].f;
  const int32_t gamma_at = GIVEN(call, GAMMA), beta_at = GIVEN(call, BETA);
  const R *x = inputs[X].data, *gamma = gamma_at < 0 ? NULL : inputs[gamma_at].data;
  const R *beta = beta_at < 0 ? NULL : inputs[beta_at].data;
  R *y = outputs[0].data, *means = outputs[1].data, *rstds = outputs[2].data;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    R sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const R mean = sum / count;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const R rstd = 1 / sqrt(squares / count + eps);
    for (int64_t i = 0; i < width; ++i) {
      y[i] = (x[i] - mean) * rstd * (gamma ? gamma[i] : 1) + (beta ? beta[i] : 0);
    }
    means[r] = mean;
    rstds[r] = rstd;
  }
}

static void K(layer_norm_grad)(const shoal_call_t *call, int64_t rows, int64_t width,
                               const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const R count = (R)call->attrs[GRAD_COUNT].i;
  const int32_t gamma_at = GIVEN(call, GRAD_GAMMA);
  const R *x = inputs[X].data, *dy = inputs[DY].data;
  const R *gamma = gamma_at < 0 ? NULL : inputs[gamma_at].data;
  const R *means = inputs[MEAN].data, *rstds = inputs[RSTD].data;
  R *dx = outputs[0].data, *dgamma = call->output_count > 1 ? outputs[1].data : NULL;
  R *dbeta = call->output_count > 2 ? outputs[2].data : NULL;
  for (int64_t i = 0; dgamma && i < width; ++i) dgamma[i] = 0;
  for (int64_t i = 0; dbeta && i < width; ++i) dbeta[i] = 0;
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const R mean = means[r], rstd = rstds[r];
    R sum_g = 0, sum_gh = 0;
    for (int64_t i = 0; i < width; ++i) {
      const R h = (x[i] - mean) * rstd, g = dy[i] * (gamma ? gamma[i] : 1);
      sum_g += g;
      sum_gh += g * h;
      if (dgamma) dgamma[i] += dy[i] * h;
      if (dbeta) dbeta[i] += dy[i];
    }
    const R mean_g = sum_g / count, mean_gh = sum_gh / count;
    for (int64_t i = 0; i < width; ++i) {
      const R h = (x[i] - mean) * rstd;
      dx[i] = rstd * (dy[i] * (gamma ? gamma[i] : 1) - mean_g - h * mean_gh);
    }
  }
}

#endif
