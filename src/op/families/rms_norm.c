// RMS norm over the last dim. Rows x[C]; for each row
//   rstd = 1 / sqrt(sum(x^2) / count + eps),  y = x rstd gamma
// and, with h = x rstd and g = dy gamma,
//   dx = rstd (g - h sum(g h) / count),  dgamma = sum over rows of dy h.
// gamma[C] may be left out, which is a gamma of ones; the gradient then has no dgamma. rstd has no
// last dim; for half-size floats it is f32. count is the whole's C.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { NORM_EPS, NORM_COUNT };
enum { GRAD_COUNT };
enum { X, GAMMA };
enum { GRAD_X, GRAD_RSTD, GRAD_DY, GRAD_GAMMA };  // inputs of the gradient

static int64_t last_dim(const shoal_shape_t *x) {
  return x->rank ? x->dims[x->rank - 1] : 1;
}

static int64_t count_of(const shoal_call_t *call, int32_t attr) {
  return call->attrs[attr].i > 0 ? call->attrs[attr].i : last_dim(&call->inputs[X].shape);
}

#define EACH EACH_REAL
#define KERNELS "op/families/rms_norm.c"
#include "op/families/each.h"

static void rms_norm_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[NORM_COUNT].i = count_of(call, NORM_COUNT);
}

static void rms_norm_grad_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  attrs[GRAD_COUNT].i = count_of(call, GRAD_COUNT);
}

// gamma, if it is given, is one row of x.
static shoal_status_t check_gamma(const shoal_call_t *call, int32_t name) {
  const shoal_type_t *x = &call->inputs[X];
  const int32_t gamma = GIVEN(call, name), rank = x->shape.rank;
  REQUIRE(call, rank >= 1, "x needs a last dim to norm over, and has no dims");
  if (gamma < 0) return NULL;
  const shoal_shape_t row = shoal_shape_part(&x->shape, rank - 1, rank);
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 0, gamma));
  return shoal_check_shape(call, gamma, &row);
}

static shoal_status_t rms_norm_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *x = &call->inputs[X];
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  SHOAL_RETURN_IF_ERROR(check_gamma(call, GAMMA));
  out_types[0] = *x;
  out_types[1] = (shoal_type_t){shoal_statistics_dtype(x->dtype),
                                shoal_shape_part(&x->shape, 0, x->shape.rank - 1)};
  return NULL;
}

static int32_t rms_norm_grad_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  return shoal_op_given(op, attrs, GRAD_GAMMA) < 0 ? 1 : 2;
}

static shoal_status_t rms_norm_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  const shoal_dtype_t wide = shoal_statistics_dtype(in[X].dtype);
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  SHOAL_RETURN_IF_ERROR(check_gamma(call, GRAD_GAMMA));
  const shoal_shape_t rows = shoal_shape_part(&in[X].shape, 0, in[X].shape.rank - 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, GRAD_RSTD, &rows));
  SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, GRAD_RSTD, wide));
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, GRAD_DY));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, GRAD_DY, &in[X].shape));
  out_types[0] = in[X];
  if (call->output_count > 1) out_types[1] = in[GRAD_GAMMA];
  return NULL;
}

OP_KERNEL(rms_norm) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, rms_norm_kernel);
  }
  (inputs->dtype == SHOAL_F64 ? rms_norm_f64 : rms_norm_f32)(call, inputs, outputs);
  return NULL;
}

OP_KERNEL(rms_norm_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, rms_norm_grad_kernel);
  }
  (inputs->dtype == SHOAL_F64 ? rms_norm_grad_f64 : rms_norm_grad_f32)(call, inputs, outputs);
  return NULL;
}

// A gradient may also flow into rstd: dx -= drstd rstd^3 x / count.
OP_GRADIENT(rms_norm) {
  const shoal_type_t *x = &call->inputs[X];
  const int32_t axis = x->shape.rank - 1, gamma = GIVEN(call, GAMMA);
  const int64_t count = count_of(call, NORM_COUNT);
  if (grads[0] != SHOAL_NO_REF) {
    const shoal_ref_t operands[] = {in[X], out[1], grads[0], gamma < 0 ? SHOAL_NO_REF : in[gamma]};
    const shoal_attr_t attr = shoal_attr_int("count", count);
    shoal_emit(e, "shoal.rms_norm_grad", 4, operands, 1, &attr, gamma < 0 ? 1 : 2, in_grads);
  }
  if (grads[1] != SHOAL_NO_REF) {
    const shoal_ref_t cube =
        shoal_emit_binary(e, "shoal.mul", shoal_emit_unary(e, "shoal.square", out[1]), out[1]);
    const shoal_ref_t slope = shoal_emit_affine(
        e, shoal_emit_binary(e, "shoal.mul", grads[1], cube), -1 / (double)count, 0);
    const shoal_ref_t wide = shoal_emit_cast(e, in[X], shoal_statistics_dtype(x->dtype));
    const shoal_ref_t dx = shoal_emit_cast(
        e, shoal_emit_binary(e, "shoal.mul", wide, shoal_emit_unsqueeze(e, slope, axis)), x->dtype);
    in_grads[0] =
        in_grads[0] == SHOAL_NO_REF ? dx : shoal_emit_binary(e, "shoal.add", in_grads[0], dx);
  }
}

static void rms_norm_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                               shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[X];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const int32_t axis = type->shape.rank - 1, gamma = GIVEN(call, GAMMA);
  const shoal_shape_t rows = shoal_shape_part(&type->shape, 0, axis);
  const shoal_ref_t x = shoal_emit_cast(e, in[X], wide);
  const shoal_ref_t square = shoal_emit_mean(e, shoal_emit_unary(e, "shoal.square", x), axis, true,
                                             count_of(call, NORM_COUNT));
  const shoal_ref_t root =
      shoal_emit_unary(e, "shoal.sqrt", shoal_emit_affine(e, square, 1, call->attrs[NORM_EPS].f));
  const shoal_ref_t rstd = shoal_emit_binary(e, "shoal.div", shoal_emit_scalar(e, wide, 1), root);
  shoal_ref_t y = shoal_emit_binary(e, "shoal.mul", x, rstd);
  if (gamma >= 0) y = shoal_emit_binary(e, "shoal.mul", y, shoal_emit_cast(e, in[gamma], wide));
  outputs[0] = shoal_emit_cast(e, y, type->dtype);
  outputs[1] = shoal_emit_reshape(e, rstd, &rows);
}

static void rms_norm_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                    const shoal_ref_t *in, shoal_ref_t *outputs) {
  const shoal_type_t *type = &call->inputs[X];
  const shoal_dtype_t wide = shoal_statistics_dtype(type->dtype);
  const int32_t axis = type->shape.rank - 1, gamma = GIVEN(call, GRAD_GAMMA);
  const shoal_ref_t dy = shoal_emit_cast(e, in[GRAD_DY], wide);
  const shoal_ref_t rstd = shoal_emit_unsqueeze(e, in[GRAD_RSTD], axis);
  const shoal_ref_t h = shoal_emit_binary(e, "shoal.mul", shoal_emit_cast(e, in[X], wide), rstd);
  shoal_ref_t g = dy;
  if (gamma >= 0) g = shoal_emit_binary(e, "shoal.mul", g, shoal_emit_cast(e, in[gamma], wide));
  const shoal_ref_t mean = shoal_emit_mean(e, shoal_emit_binary(e, "shoal.mul", g, h), axis, true,
                                           count_of(call, GRAD_COUNT));
  const shoal_ref_t rest =
      shoal_emit_binary(e, "shoal.sub", g, shoal_emit_binary(e, "shoal.mul", h, mean));
  outputs[0] = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.mul", rest, rstd), type->dtype);
  if (gamma >= 0) {
    const shoal_ref_t dgamma = shoal_emit_sum_leading(e, shoal_emit_binary(e, "shoal.mul", dy, h));
    outputs[1] = shoal_emit_cast(e, dgamma, type->dtype);
  }
}

static void norm_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 4.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

static void norm_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 10.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

const shoal_op_t shoal_op_rms_norm = {
    .name = "shoal.rms_norm",
    .doc =
        "x rstd gamma over the last dim, with rstd = 1 / sqrt(mean of x^2 + eps) of each row as a "
        "further result. Without gamma: x rstd.",
    .uncut = "the last dim of x: a row is normalised as one (its decomposition cuts it)",
    SHOAL_OP_INPUTS("x", "gamma"),
    SHOAL_OP_OUTPUTS("y", "rstd"),
    .optional = 1,
    SHOAL_OP_ATTRS({.name = "eps",
                    .kind = SHOAL_ATTR_REAL,
                    .optional = true,
                    .fallback = {.f = 1e-5},
                    .doc = "added to the mean of squares"},
                   SHOAL_ATTR_COUNT_OF("size of the last dim; 0: of x's"), SHOAL_ATTR_WITH),
    SHOAL_OP_OVERWRITES({0, X}),
    .complete = rms_norm_complete,
    .infer = rms_norm_infer,
    .gradient = rms_norm_gradient,
    .decompose = rms_norm_decompose,
    .cost = norm_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = rms_norm_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[7] ; with=\"gamma\"", "f32[2,3,5] ; eps=1e-3",
                   "f64[9], f64[9] ; eps=0.1, with=\"gamma\"",
                   "bf16[3,9], bf16[9] ; with=\"gamma\"", "f64[5,1] ; eps=0.1",
                   "f32[0,3], f32[3] ; with=\"gamma\""),
};

const shoal_op_t shoal_op_rms_norm_grad = {
    .name = "shoal.rms_norm_grad",
    .doc = "Gradients of rms_norm's y with respect to x and, where it is given, gamma.",
    .uncut = "the last dim of x: a row is normalised as one (its decomposition cuts it)",
    SHOAL_OP_INPUTS("x", "rstd", "dy", "gamma"),
    SHOAL_OP_OUTPUTS("dx", "dgamma"),
    .optional = 1,
    .output_number = rms_norm_grad_outputs,
    SHOAL_OP_ATTRS(SHOAL_ATTR_COUNT_OF("size of the last dim; 0: of x's"), SHOAL_ATTR_WITH),
    SHOAL_OP_OVERWRITES({0, GRAD_X}, {0, GRAD_DY}),
    .complete = rms_norm_grad_complete,
    .infer = rms_norm_grad_infer,
    .decompose = rms_norm_grad_decompose,
    .cost = norm_grad_cost,
    .workspace = shoal_kernel_widen_bytes,
    .kernel = rms_norm_grad_kernel,
    SHOAL_OP_CASES("f64[3,7], f64[3]+, f64[3,7], f64[7] ; with=\"gamma\"",
                   "f32[2,3,5], f32[2,3]+, f32[2,3,5]", "f64[5], f64[]+, f64[5]",
                   "bf16[3,9], f32[3]+, bf16[3,9], bf16[9] ; with=\"gamma\"",
                   "f32[0,3], f32[0]+, f32[0,3], f32[3] ; with=\"gamma\""),
};

#else  // per element type

static void K(rms_norm)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                        const shoal_tensor_t *outputs) {
  const int64_t rows = shoal_shape_count(&outputs[1].shape), width = last_dim(&inputs[X].shape);
  const R count = (R)count_of(call, NORM_COUNT), eps = (R)call->attrs[NORM_EPS].f;
  const int32_t given = GIVEN(call, GAMMA);
  const R *x = inputs[X].data, *gamma = given < 0 ? NULL : inputs[given].data;
  R *y = outputs[0].data, *rstds = outputs[1].data;
  for (int64_t r = 0; r < rows; ++r, x += width, y += width) {
    R squares = 0;
    for (int64_t i = 0; i < width; ++i) squares += x[i] * x[i];
    const R rstd = 1 / sqrt(squares / count + eps);
    for (int64_t i = 0; i < width; ++i) y[i] = gamma ? x[i] * rstd * gamma[i] : x[i] * rstd;
    rstds[r] = rstd;
  }
}

static void K(rms_norm_grad)(const shoal_call_t *call, const shoal_tensor_t *inputs,
                             const shoal_tensor_t *outputs) {
  const int64_t rows = shoal_shape_count(&inputs[GRAD_RSTD].shape);
  const int64_t width = last_dim(&inputs[X].shape);
  const R count = (R)count_of(call, GRAD_COUNT);
  const int32_t given = GIVEN(call, GRAD_GAMMA);
  const R *x = inputs[GRAD_X].data, *rstds = inputs[GRAD_RSTD].data, *dy = inputs[GRAD_DY].data;
  const R *gamma = given < 0 ? NULL : inputs[given].data;
  R *dx = outputs[0].data, *dgamma = given < 0 ? NULL : outputs[1].data;
  for (int64_t i = 0; dgamma && i < width; ++i) dgamma[i] = 0;
  for (int64_t r = 0; r < rows; ++r, x += width, dy += width, dx += width) {
    const R rstd = rstds[r];
    R sum = 0;
    for (int64_t i = 0; i < width; ++i) {
      const R h = x[i] * rstd;
      sum += (gamma ? dy[i] * gamma[i] : dy[i]) * h;
      if (dgamma) dgamma[i] += dy[i] * h;
    }
    const R mean = sum / count;
    for (int64_t i = 0; i < width; ++i) {
      dx[i] = rstd * ((gamma ? dy[i] * gamma[i] : dy[i]) - x[i] * rstd * mean);
    }
  }
}

#endif
