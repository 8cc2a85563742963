// Layer norm over the last dim. Rows x[C]; for each row
//   mean = sum(x) / count,  rstd = 1 / sqrt(sum((x - mean)^2) / count + eps),  y = (x - mean) rstd
//   gamma + beta
// and, with h = (x - mean) rstd and g = dy gamma,
//   dx = rstd (g - sum(g) / count - h sum(g h) / count),  dgamma = sum over rows of dy h,  dbeta =
//   of dy.
// mean and rstd have no last dim; for half-size floats they are f32. count is the whole's C.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { NORM_EPS, NORM_COUNT };
enum { GRAD_COUNT };
enum { X, GAMMA, MEAN, RSTD, DY };  // inputs of the gradient

#define EACH EACH_REAL
#define KERNELS "op/families/layer_norm.c"
#include "op/families/each.h"

static int64_t last_dim(const shoal_shape_t *x) {
  return x->rank ? x->dims[x->rank - 1] : 1;
}

static int64_t count_of(const shoal_call_t *call, int32_t attr) {
  return call->attrs[attr].i > 0 ? call->attrs[attr].i : last_dim(&call->inputs[0].shape);
}

static void layer_norm_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[NORM_COUNT].i = count_of(call, NORM_COUNT);
}

static void layer_norm_grad_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[GRAD_COUNT].i = count_of(call, GRAD_COUNT);
}

static shoal_status_t layer_norm_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 3));
  const shoal_type_t *x = &call->inputs[0];
  const int32_t rank = x->shape.rank;
  REQUIRE(call, rank >= 1, "x needs a last dim to norm over");
  const shoal_shape_t row = shoal_shape_part(&x->shape, rank - 1, rank);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 1, &row));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, 2, &row));
  out_types[0] = *x;
  out_types[1] =
      (shoal_type_t){shoal_statistics_dtype(x->dtype), shoal_shape_part(&x->shape, 0, rank - 1)};
  out_types[2] = out_types[1];
  return NULL;
}

static shoal_status_t layer_norm_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  const int32_t rank = in[X].shape.rank;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 2));
  REQUIRE(call, rank >= 1, "x needs a last dim to norm over");
  const shoal_shape_t row = shoal_shape_part(&in[X].shape, rank - 1, rank);
  const shoal_shape_t rows = shoal_shape_part(&in[X].shape, 0, rank - 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, GAMMA, &row));
  for (int32_t i = MEAN; i <= RSTD; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &rows));
    REQUIRE(call, in[i].dtype == shoal_statistics_dtype(in[X].dtype), "%s must be %s",
            call->op->inputs[i], shoal_dtype_name(shoal_statistics_dtype(in[X].dtype)));
  }
  REQUIRE(call, in[DY].dtype == in[X].dtype, "dy must be %s like x", shoal_dtype_name(in[X].dtype));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DY, &in[X].shape));
  out_types[0] = in[X];
  out_types[1] = out_types[2] = (shoal_type_t){in[X].dtype, row};
  return NULL;
}

static shoal_status_t layer_norm_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                        const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, layer_norm_kernel);
  }
  const int64_t rows = shoal_shape_count(&outputs[1].shape), width = last_dim(&inputs->shape);
  const int64_t count = count_of(call, NORM_COUNT);
  (inputs->dtype == SHOAL_F64 ? layer_norm_f64 : layer_norm_f32)(
      rows, width, count, call->attrs[NORM_EPS].f, inputs, outputs);
  return NULL;
}

static shoal_status_t layer_norm_grad_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                             const shoal_tensor_t *outputs, void *workspace) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, layer_norm_grad_kernel);
  }
  const int64_t rows = shoal_shape_count(&inputs[MEAN].shape), width = last_dim(&inputs->shape);
  (inputs->dtype == SHOAL_F64 ? layer_norm_grad_f64 : layer_norm_grad_f32)(
      rows, width, count_of(call, GRAD_COUNT), inputs, outputs);
  return NULL;
}

// ---- gradient --------------------------------------------------------------------------

static shoal_ref_t add_to(shoal_emitter_t *e, shoal_ref_t sum, shoal_ref_t more) {
  return sum == SHOAL_NO_REF ? more : shoal_emit_binary(e, "shoal.add", sum, more);
}

// x - mean and mean's shape with a last dim of 1, in f32 for half-size floats.
static shoal_ref_t centered(shoal_emitter_t *e, shoal_ref_t x, shoal_ref_t mean, int32_t axis) {
  x = shoal_emit_cast(e, x, shoal_emit_type(e, mean).dtype);
  return shoal_emit_binary(e, "shoal.sub", x, shoal_emit_unsqueeze(e, mean, axis));
}

// Gradients may also flow into mean (dx += dmean / count) and rstd (dx -= drstd rstd^3 (x - mean) /
// count).
static void layer_norm_gradient(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                                const shoal_ref_t *out, const shoal_ref_t *grads,
                                shoal_ref_t *in_grads) {
  const shoal_type_t *x = &call->inputs[0];
  const int32_t axis = x->shape.rank - 1;
  const int64_t count = count_of(call, NORM_COUNT);
  if (grads[0] != SHOAL_NO_REF) {
    const shoal_ref_t operands[] = {in[0], in[1], out[1], out[2], grads[0]};
    const shoal_attr_t attr = shoal_attr_int("count", count);
    shoal_emit(e, "shoal.layer_norm_grad", 5, operands, 1, &attr, 3, in_grads);
  }
  if (grads[1] != SHOAL_NO_REF) {
    const shoal_ref_t share = shoal_emit_affine(e, grads[1], 1 / (double)count, 0);
    const shoal_ref_t all =
        shoal_emit_broadcast(e, shoal_emit_unsqueeze(e, share, axis), &x->shape);
    in_grads[0] = add_to(e, in_grads[0], shoal_emit_cast(e, all, x->dtype));
  }
  if (grads[2] != SHOAL_NO_REF) {
    const shoal_ref_t cube =
        shoal_emit_binary(e, "shoal.mul", shoal_emit_unary(e, "shoal.square", out[2]), out[2]);
    const shoal_ref_t slope = shoal_emit_affine(
        e, shoal_emit_binary(e, "shoal.mul", grads[2], cube), -1 / (double)count, 0);
    const shoal_ref_t dx = shoal_emit_binary(e, "shoal.mul", centered(e, in[0], out[1], axis),
                                             shoal_emit_unsqueeze(e, slope, axis));
    in_grads[0] = add_to(e, in_grads[0], shoal_emit_cast(e, dx, x->dtype));
  }
}

// ---- decompositions --------------------------------------------------------------------

static void layer_norm_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                 const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[0];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const shoal_shape_t rows = shoal_shape_part(&type->shape, 0, type->shape.rank - 1);
  const int32_t axis = type->shape.rank - 1;
  const int64_t count = count_of(call, NORM_COUNT);
  const shoal_ref_t x = shoal_emit_cast(e, in[0], wide);
  const shoal_ref_t mean = shoal_emit_mean(e, x, axis, true, count);
  const shoal_ref_t rest = shoal_emit_binary(e, "shoal.sub", x, mean);
  const shoal_ref_t variance =
      shoal_emit_mean(e, shoal_emit_unary(e, "shoal.square", rest), axis, true, count);
  const shoal_ref_t deviation =
      shoal_emit_unary(e, "shoal.sqrt", shoal_emit_affine(e, variance, 1, call->attrs[NORM_EPS].f));
  const shoal_ref_t rstd =
      shoal_emit_binary(e, "shoal.div", shoal_emit_scalar(e, wide, 1), deviation);
  shoal_ref_t y = shoal_emit_binary(e, "shoal.mul", rest, rstd);
  y = shoal_emit_binary(e, "shoal.mul", y, shoal_emit_cast(e, in[1], wide));
  y = shoal_emit_binary(e, "shoal.add", y, shoal_emit_cast(e, in[2], wide));
  outputs[0] = shoal_emit_cast(e, y, type->dtype);
  outputs[1] = shoal_emit_reshape(e, mean, &rows);
  outputs[2] = shoal_emit_reshape(e, rstd, &rows);
}

static void layer_norm_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                      const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[X];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const int32_t axis = type->shape.rank - 1;
  const int64_t count = count_of(call, GRAD_COUNT);
  const shoal_ref_t dy = shoal_emit_cast(e, in[DY], wide);
  const shoal_ref_t rstd = shoal_emit_unsqueeze(e, in[RSTD], axis);
  const shoal_ref_t h = shoal_emit_binary(e, "shoal.mul", centered(e, in[X], in[MEAN], axis), rstd);
  const shoal_ref_t g = shoal_emit_binary(e, "shoal.mul", dy, shoal_emit_cast(e, in[GAMMA], wide));
  const shoal_ref_t mean_g = shoal_emit_mean(e, g, axis, true, count);
  const shoal_ref_t mean_gh =
      shoal_emit_mean(e, shoal_emit_binary(e, "shoal.mul", g, h), axis, true, count);
  shoal_ref_t dx = shoal_emit_binary(e, "shoal.sub", g, mean_g);
  dx = shoal_emit_binary(e, "shoal.sub", dx, shoal_emit_binary(e, "shoal.mul", h, mean_gh));
  dx = shoal_emit_binary(e, "shoal.mul", dx, rstd);
  const shoal_ref_t dgamma = shoal_emit_sum_leading(e, shoal_emit_binary(e, "shoal.mul", dy, h));
  outputs[0] = shoal_emit_cast(e, dx, type->dtype);
  outputs[1] = shoal_emit_cast(e, dgamma, type->dtype);
  outputs[2] = shoal_emit_cast(e, shoal_emit_sum_leading(e, dy), type->dtype);
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
        "(x - mean) rstd gamma + beta over the last dim, with mean and rstd = 1 / sqrt(variance + "
        "eps) of "
        "each row as further results.",
    .uncut = "the last dim of x: a row is normalised as one (its decomposition cuts it)",
    SHOAL_OP_INPUTS("x", "gamma", "beta"),
    SHOAL_OP_OUTPUTS("y", "mean", "rstd"),
    SHOAL_OP_ATTRS({.name = "eps", .kind = SHOAL_ATTR_REAL, .doc = "added to the variance"},
                   SHOAL_ATTR_COUNT_OF("size of the last dim; 0: of x's")),
    SHOAL_OP_OVERWRITES({0, 0}),
    .complete = layer_norm_complete,
    .infer = layer_norm_infer,
    .gradient = layer_norm_gradient,
    .decompose = layer_norm_decompose,
    .cost = norm_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = layer_norm_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[7], f64[7] ; eps=1e-5", "f32[2,3,5], f32[5], f32[5] ; eps=1e-3",
                   "f64[9], f64[9], f64[9] ; eps=0.1", "bf16[3,9], bf16[9], bf16[9] ; eps=1e-5",
                   "f32[0,3], f32[3], f32[3] ; eps=1e-5"),
};

const shoal_op_t shoal_op_layer_norm_grad = {
    .name = "shoal.layer_norm_grad",
    .doc = "Gradients of layer_norm's y with respect to x, gamma and beta.",
    SHOAL_OP_INPUTS("x", "gamma", "mean", "rstd", "dy"),
    SHOAL_OP_OUTPUTS("dx", "dgamma", "dbeta"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_COUNT_OF("size of the last dim; 0: of x's")),
    SHOAL_OP_OVERWRITES({0, X}, {0, DY}),
    .complete = layer_norm_grad_complete,
    .infer = layer_norm_grad_infer,
    .decompose = layer_norm_grad_decompose,
    .cost = norm_grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = layer_norm_grad_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[7], f64[3], f64[3]+, f64[3,7]",
                   "f32[2,3,5], f32[5], f32[2,3], f32[2,3]+, f32[2,3,5]",
                   "f64[5], f64[5], f64[], f64[]+, f64[5]",
                   "bf16[3,9], bf16[9], f32[3], f32[3]+, bf16[3,9]"),
};

#else  // per element type

static void K(layer_norm)(int64_t rows, int64_t width, int64_t count, double eps,
                          const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const R *x = inputs[0].data, *gamma = inputs[1].data, *beta = inputs[2].data;
  R *y = outputs[0].data, *means = outputs[1].data, *rstds = outputs[2].data;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    R sum = 0, squares = 0;
    for (int64_t i = 0; i < width; ++i) sum += x[i];
    const R mean = sum / (R)count;
    for (int64_t i = 0; i < width; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const R rstd = 1 / sqrt(squares / (R)count + (R)eps);
    for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    means[r] = mean;
    rstds[r] = rstd;
  }
}

static void K(layer_norm_grad)(int64_t rows, int64_t width, int64_t count,
                               const shoal_tensor_t *inputs, const shoal_tensor_t *outputs) {
  const R *x = inputs[X].data, *gamma = inputs[GAMMA].data, *dy = inputs[DY].data;
  const R *means = inputs[MEAN].data, *rstds = inputs[RSTD].data;
  R *dx = outputs[0].data, *dgamma = outputs[1].data, *dbeta = outputs[2].data;
  for (int64_t i = 0; i < width; ++i) dgamma[i] = dbeta[i] = 0;
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const R mean = means[r], rstd = rstds[r];
    R sum_g = 0, sum_gh = 0;
    for (int64_t i = 0; i < width; ++i) {
      const R h = (x[i] - mean) * rstd, g = dy[i] * gamma[i];
      sum_g += g;
      sum_gh += g * h;
      dgamma[i] += dy[i] * h;
      dbeta[i] += dy[i];
    }
    const R mean_g = sum_g / (R)count, mean_gh = sum_gh / (R)count;
    for (int64_t i = 0; i < width; ++i) {
      const R h = (x[i] - mean) * rstd;
      dx[i] = rstd * (dy[i] * gamma[i] - mean_g - h * mean_gh);
    }
  }
}

#endif
