// LAMB (You 2020): Adam's direction, made as long as the parameter it changes. With decay d:
//   lamb_direction  m' = b1 m + (1 - b1) g,  v' = b2 v + (1 - b2) g^2,
//                   r = m' / (1 - b1^step) / (sqrt(v' / (1 - b2^step)) + eps) + d w
//   lamb_update     w' = w - lr |w| / |r| r; the ratio is 1 where one of the norms is 0
// The direction goes element by element. The norms are those of the whole tensor, so that the
// update is cut in phases: directions, sums of squares, steps. Steps count from 1; a smaller one is
// taken for 1. All of it is computed in f64 and rounded once.
#include <math.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { W, G, M, V, DIRECTION_STEP };
enum { LR = 4, STEP };
enum { BETA1, BETA2, EPS, DECAY };

static shoal_status_t check_moments(const shoal_call_t *call, int32_t step) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, W, 4));
  for (int32_t i = G; i <= V; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &call->inputs[W].shape));
  }
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, step));
  return shoal_check_integer(call, step);
}

static shoal_status_t lamb_direction_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = out_types[1] = out_types[2] = call->inputs[W];
  return check_moments(call, DIRECTION_STEP);
}

static shoal_status_t lamb_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = out_types[1] = out_types[2] = call->inputs[W];
  SHOAL_RETURN_IF_ERROR(check_moments(call, STEP));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, LR));
  return shoal_check_floats(call, LR, 1);
}

// ---- kernels ----------------------------------------------------------------------------

typedef struct settings {
  double b1, b2, fix1, fix2, eps, decay;
} settings_t;

static settings_t settings_of(const shoal_call_t *call, const shoal_tensor_t *step) {
  const int64_t counted = shoal_dtype_load_int(step->dtype, step->data, 0);
  const double steps = counted < 1 ? 1 : (double)counted;
  const double b1 = call->attrs[BETA1].f, b2 = call->attrs[BETA2].f;
  return (settings_t){.b1 = b1,
                      .b2 = b2,
                      .fix1 = 1 / (1 - pow(b1, steps)),
                      .fix2 = 1 / (1 - pow(b2, steps)),
                      .eps = call->attrs[EPS].f,
                      .decay = call->attrs[DECAY].f};
}

// The direction of element i; its moments are written, over what was there if need be.
static double direction(const settings_t *s, const shoal_tensor_t *inputs, int64_t i,
                        const shoal_tensor_t *m, const shoal_tensor_t *v, double *out_w) {
  const shoal_dtype_t dtype = inputs[W].dtype;
  const double w = shoal_dtype_load(dtype, inputs[W].data, i);
  const double g = shoal_dtype_load(dtype, inputs[G].data, i);
  const double first = s->b1 * shoal_dtype_load(dtype, inputs[M].data, i) + (1 - s->b1) * g;
  const double second = s->b2 * shoal_dtype_load(dtype, inputs[V].data, i) + (1 - s->b2) * g * g;
  shoal_dtype_store(dtype, m->data, i, first);
  shoal_dtype_store(dtype, v->data, i, second);
  *out_w = w;
  return first * s->fix1 / (sqrt(second * s->fix2) + s->eps) + s->decay * w;
}

OP_KERNEL(lamb_direction) {
  (void)workspace;
  const settings_t s = settings_of(call, &inputs[DIRECTION_STEP]);
  const int64_t n = shoal_shape_count(&inputs[W].shape);
  for (int64_t i = 0; i < n; ++i) {
    double w;
    const double r = direction(&s, inputs, i, &outputs[1], &outputs[2], &w);
    shoal_dtype_store(outputs->dtype, outputs->data, i, r);
  }
  return NULL;
}

static int64_t lamb_workspace(const shoal_call_t *call) {
  return shoal_shape_count(&call->inputs[W].shape) * (int64_t)sizeof(double);
}

OP_KERNEL(lamb) {
  const settings_t s = settings_of(call, &inputs[STEP]);
  const int64_t n = shoal_shape_count(&inputs[W].shape);
  double *r = workspace, w_squares = 0, r_squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    double w;
    r[i] = direction(&s, inputs, i, &outputs[1], &outputs[2], &w);
    w_squares += w * w;
    r_squares += r[i] * r[i];
  }
  const double lr = shoal_dtype_load(inputs[LR].dtype, inputs[LR].data, 0);
  const double rate = lr * (w_squares > 0 && r_squares > 0 ? sqrt(w_squares / r_squares) : 1);
  for (int64_t i = 0; i < n; ++i) {
    const double w = shoal_dtype_load(inputs[W].dtype, inputs[W].data, i);
    shoal_dtype_store(outputs->dtype, outputs->data, i, w - rate * r[i]);
  }
  return NULL;
}

// ---- in phases --------------------------------------------------------------------------

static void lamb_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                           shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const shoal_dtype_t dtype = call->inputs[W].dtype, wide = shoal_statistics_dtype(dtype);
  shoal_ref_t x[4], part[3];
  for (int32_t i = W; i <= V; ++i) x[i] = shoal_emit_cast(e, in[i], wide);
  shoal_emit(e, "shoal.lamb_direction", REFS(x[W], x[G], x[M], x[V], in[STEP]),
             ATTRS(shoal_attr_real("beta1", call->attrs[BETA1].f),
                   shoal_attr_real("beta2", call->attrs[BETA2].f),
                   shoal_attr_real("eps", call->attrs[EPS].f),
                   shoal_attr_real("weight_decay", call->attrs[DECAY].f)),
             3, part);
  const shoal_ref_t zero = shoal_emit_scalar(e, wide, 0), one = shoal_emit_scalar(e, wide, 1);
  const shoal_ref_t of_w = shoal_emit_unary(e, "shoal.sum_squares", x[W]);
  const shoal_ref_t of_r = shoal_emit_unary(e, "shoal.sum_squares", part[0]);
  const shoal_ref_t both =
      shoal_emit_binary(e, "shoal.logical_and", shoal_emit_binary(e, "shoal.greater", of_w, zero),
                        shoal_emit_binary(e, "shoal.greater", of_r, zero));
  const shoal_ref_t root =
      shoal_emit_unary(e, "shoal.sqrt", shoal_emit_binary(e, "shoal.div", of_w, of_r));
  const shoal_ref_t rate = shoal_emit_binary(e, "shoal.mul", shoal_emit_cast(e, in[LR], wide),
                                             shoal_emit_where(e, both, root, one));
  const shoal_ref_t change = shoal_emit_binary(e, "shoal.mul", part[0], rate);
  outputs[0] = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.sub", x[W], change), dtype);
  outputs[1] = shoal_emit_cast(e, part[1], dtype);
  outputs[2] = shoal_emit_cast(e, part[2], dtype);
}

// ---- records ----------------------------------------------------------------------------

static void lamb_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 20.0 * (double)shoal_shape_count(&call->inputs[W].shape);
}

#define REAL(attr_name, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_REAL, .doc = text }
#define LAMB_ATTRS                                                                       \
  SHOAL_OP_ATTRS(REAL("beta1", "what is kept of m"), REAL("beta2", "what is kept of v"), \
                 REAL("eps", "added to the root of v"),                                  \
                 REAL("weight_decay", "how much of w is added to the direction"))

const shoal_op_t shoal_op_lamb_direction = {
    .name = "shoal.lamb_direction",
    .doc =
        "The direction of LAMB, element by element, and the next moments: Adam's step with bias "
        "correction plus weight_decay w. Steps count from 1.",
    SHOAL_OP_INPUTS("w", "g", "m", "v", "step"),
    SHOAL_OP_OUTPUTS("r", "m", "v"),
    LAMB_ATTRS,
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 0}, {1, 1}, {1, 2}, {1, 3}, {2, 0},
                        {2, 1}, {2, 2}, {2, 3}),
    .infer = lamb_direction_infer,
    .cost = lamb_cost,
    .kernel = lamb_direction_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5], f64[3,5]+, i64[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1",
                   "f32[7], f32[7], f32[7], f32[7]+, i64[]<9+ ; "
                   "beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0",
                   "bf16[5,1], bf16[5,1], bf16[5,1], bf16[5,1]+, i32[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1",
                   "f64[0,3], f64[0,3], f64[0,3], f64[0,3]+, i64[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0"),
};

const shoal_op_t shoal_op_lamb_update = {
    .name = "shoal.lamb_update",
    .doc =
        "LAMB: w' = w - lr |w| / |r| r with the direction r of lamb_direction and norms over all "
        "of w; the ratio is 1 where one of the norms is 0. Steps count from 1; m and v are 0 at "
        "first.",
    SHOAL_OP_INPUTS("w", "g", "m", "v", "lr", "step"),
    SHOAL_OP_OUTPUTS("w", "m", "v"),
    LAMB_ATTRS,
    // The parameter is read again when its norm is known, so that no moment may lie there.
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {0, 3}, {1, 1}, {1, 2}, {1, 3}, {2, 1}, {2, 2},
                        {2, 3}),
    .nan =
        "where a norm is NaN the ratio is 1: elements whose own w, g, m and v are numbers stay so",
    .uncut = "all dims: both norms are those of the whole (its decomposition cuts them)",
    .infer = lamb_infer,
    .decompose = lamb_decompose,
    .cost = lamb_cost,
    .workspace = lamb_workspace,
    .kernel = lamb_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5], f64[3,5]+, f32[]+, i64[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1",
                   "f32[7], f32[7], f32[7], f32[7]+, f32[]+, i64[]<9+ ; "
                   "beta1=0.8, beta2=0.95, eps=1e-6, weight_decay=0",
                   "bf16[5,1], bf16[5,1], bf16[5,1], bf16[5,1]+, f32[]+, i32[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0.1",
                   "f64[0,3], f64[0,3], f64[0,3], f64[0,3]+, f64[]+, i64[]<9+ ; "
                   "beta1=0.9, beta2=0.999, eps=1e-3, weight_decay=0"),
};
