// Batch norm and group norm of x [N, C, S..]. A statistic is over many elements of x: in batch norm
// over all of a channel, mean and variance [C]; in group norm over the C / G channels of a group in
// one row, mean and variance [N, G].
//   mean = sum(x) / count,  variance = sum((x - mean)^2) / count,  h = (x - mean) / sqrt(variance +
//   eps),  y = h gamma + beta
// and, with g = dy gamma,
//   dx = (g - sum(g) / count - h sum(g h) / count) / sqrt(variance + eps),  dgamma = sum of dy h
//   and dbeta = sum of dy over all of a channel
// gamma and beta [C] may be left out, beta also alone. Statistics of half-size floats are f32.
// count is how many elements of the whole a statistic is over: its elements may be cut in phases.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { EPS, COUNT, WITH, GROUPS };         // attributes
enum { GRAD_EPS, GRAD_COUNT, GRAD_BETA };  // of the gradients
enum { X, GAMMA, BETA };
enum { MEAN = 1, VARIANCE, DY, GRAD_GAMMA };  // inputs of the gradients behind x

// x as [n, c, s], and which elements a statistic is over. groups: 0 in batch norm.
typedef struct view {
  int64_t n, c, s, groups;
} view_t;

// The two norms differ in their statistics alone, and share all functions.
static bool is_batch(const shoal_call_t *call) {
  return strncmp(call->op->name, "shoal.batch", 11) == 0;
}

static int64_t stat_count(const view_t *v) {
  return v->groups ? v->n * v->groups : v->c;
}

// The rows and channels of statistic k.
static void range_of(const view_t *v, int64_t k, int64_t n[2], int64_t c[2]) {
  const int64_t width = v->groups ? v->c / v->groups : 1;
  n[0] = v->groups ? k / v->groups : 0;
  n[1] = v->groups ? n[0] + 1 : v->n;
  c[0] = (v->groups ? k % v->groups : k) * width;
  c[1] = c[0] + width;
}

#define EACH EACH_REAL
#define KERNELS "op/families/channel_norm.c"
#include "op/families/each.h"

static view_t view_of(const shoal_call_t *call, int64_t groups) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  return (view_t){x->dims[0], x->dims[1], shoal_shape_product(x, 2, x->rank),
                  is_batch(call) ? 0 : groups};
}

// Of the whole: how many elements a statistic is over.
static int64_t elements(const view_t *v) {
  return v->groups ? v->c / v->groups * v->s : v->n * v->s;
}

static int64_t group_count(const shoal_call_t *call) {
  return is_batch(call) ? 0 : call->attrs[GROUPS].i;
}

static void norm_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  if (attrs[COUNT].i > 0 || call->inputs[X].shape.rank < 2) return;
  if (!is_batch(call) && attrs[GROUPS].i < 1) return;
  const view_t v = view_of(call, group_count(call));
  attrs[COUNT].i = elements(&v);
}

static int64_t grad_groups(const shoal_call_t *call) {
  const shoal_shape_t *mean = &call->inputs[MEAN].shape;
  return is_batch(call) || mean->rank != 2 ? 0 : mean->dims[1];
}

static void norm_grad_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  if (attrs[GRAD_COUNT].i > 0 || call->inputs[X].shape.rank < 2) return;
  const view_t v = view_of(call, grad_groups(call));
  attrs[GRAD_COUNT].i = elements(&v);
}

static shoal_status_t check_x(const shoal_call_t *call, int64_t groups) {
  const shoal_shape_t *x = &call->inputs[X].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, X, 1));
  REQUIRE_HINT(call, x->rank >= 2, "one example needs N = 1: reshape",
               "x must be [N, C, ..]: at least 2 dims, not %d", x->rank);
  if (is_batch(call)) return NULL;
  REQUIRE(call, groups > 0 ? x->dims[1] % groups == 0 : groups == 0 && x->dims[1] == 0,
          "%lld channels are no multiple of %lld groups", (long long)x->dims[1], (long long)groups);
  return NULL;
}

// gamma or beta, where it is given.
static shoal_status_t check_row(const shoal_call_t *call, int32_t name) {
  const shoal_type_t *x = &call->inputs[X];
  const int32_t at = GIVEN(call, name);
  const shoal_shape_t row = SHOAL_SHAPE(x->shape.dims[1]);
  if (at < 0) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, at));
  return shoal_check_shape(call, at, &row);
}

static shoal_type_t stat_type(const shoal_call_t *call, int64_t groups) {
  const shoal_type_t *x = &call->inputs[X];
  return (shoal_type_t){
      shoal_statistics_dtype(x->dtype),
      is_batch(call) ? SHOAL_SHAPE(x->shape.dims[1]) : SHOAL_SHAPE(x->shape.dims[0], groups)};
}

static shoal_status_t norm_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_x(call, group_count(call)));
  SHOAL_RETURN_IF_ERROR(check_row(call, GAMMA));
  SHOAL_RETURN_IF_ERROR(check_row(call, BETA));
  out_types[0] = call->inputs[X];
  out_types[1] = out_types[2] = stat_type(call, group_count(call));
  return NULL;
}

// dx, and what there is of dgamma and dbeta: with beta alone, dgamma is made too.
static int32_t norm_grad_outputs(const shoal_op_t *op, const shoal_attr_value_t *attrs) {
  if (attrs[GRAD_BETA].i) return 3;
  return shoal_op_given(op, attrs, GRAD_GAMMA) < 0 ? 1 : 2;
}

static shoal_status_t norm_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  SHOAL_RETURN_IF_ERROR(check_x(call, grad_groups(call)));
  const shoal_type_t stat = stat_type(call, grad_groups(call));
  for (int32_t i = MEAN; i <= VARIANCE; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, &stat.shape));
    SHOAL_RETURN_IF_ERROR(shoal_check_dtype(call, i, stat.dtype));
  }
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, X, DY));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, DY, &in[X].shape));
  SHOAL_RETURN_IF_ERROR(check_row(call, GRAD_GAMMA));
  out_types[0] = in[X];
  for (int32_t i = 1; i < call->output_count; ++i) {
    out_types[i] = (shoal_type_t){in[X].dtype, SHOAL_SHAPE(in[X].shape.dims[1])};
  }
  return NULL;
}

#define KERNEL(name, groups)                                                           \
  OP_KERNEL(name) {                                                                    \
    if (shoal_kernel_is_half(call)) {                                                  \
      return shoal_kernel_widened(call, inputs, outputs, workspace, name##_kernel);    \
    }                                                                                  \
    const view_t v = view_of(call, groups);                                            \
    (inputs->dtype == SHOAL_F64 ? name##_f64 : name##_f32)(call, &v, inputs, outputs); \
    return NULL;                                                                       \
  }

KERNEL(norm, group_count(call))
KERNEL(norm_grad, grad_groups(call))

// ---- in simpler ops --------------------------------------------------------------------

#define BINARY(op, a, b) shoal_emit_binary(e, "shoal." op, (a), (b))

// How a call's operands are seen: x and its like as `shape`, whose dims `dims` a statistic is over,
// statistics as `kept`, gamma and beta as `row`, which broadcasts to x.
typedef struct forms {
  shoal_shape_t x, shape, kept, row;
  int64_t dims[SHOAL_MAX_RANK], count;
  int32_t dim_count;
  shoal_dtype_t dtype, wide;
  double eps;
} forms_t;

static forms_t forms_of(const shoal_call_t *call, int64_t groups, int64_t count, double eps) {
  forms_t f = {.x = call->inputs[X].shape, .count = count, .eps = eps};
  f.dtype = call->inputs[X].dtype;
  f.wide = shoal_statistics_dtype(f.dtype);
  f.row.rank = f.x.rank - 1;
  for (int32_t d = 0; d < f.row.rank; ++d) f.row.dims[d] = d ? 1 : f.x.dims[1];
  f.shape = f.kept = f.x;
  if (is_batch(call)) {
    for (int32_t d = 0; d < f.x.rank; ++d) {
      if (d == 1) continue;
      f.dims[f.dim_count++] = d;
      f.kept.dims[d] = 1;
    }
    return f;
  }
  const int64_t inner = groups ? shoal_shape_product(&f.x, 1, f.x.rank) / groups : 0;
  f.shape = SHOAL_SHAPE(f.x.dims[0], groups, inner);
  f.kept = SHOAL_SHAPE(f.x.dims[0], groups, 1);
  f.dims[f.dim_count++] = 2;
  return f;
}

// x or its like, in the precision of statistics.
static shoal_ref_t seen(shoal_emitter_t *e, const forms_t *f, shoal_ref_t x) {
  return shoal_emit_reshape(e, shoal_emit_cast(e, x, f->wide), &f->shape);
}

static shoal_ref_t mean_of(shoal_emitter_t *e, const forms_t *f, shoal_ref_t x) {
  return shoal_emit_one(e, "shoal.reduce_mean", REFS(x),
                        ATTRS(shoal_attr_ints("dims", f->dim_count, f->dims),
                              shoal_attr_int("keep", 1), shoal_attr_int("count", f->count)));
}

// gamma or beta, to be multiplied with or added to x as it is.
static shoal_ref_t row_of(shoal_emitter_t *e, const forms_t *f, shoal_ref_t row) {
  return shoal_emit_reshape(e, shoal_emit_cast(e, row, f->wide), &f->row);
}

static shoal_ref_t rstd_of(shoal_emitter_t *e, const forms_t *f, shoal_ref_t variance) {
  return shoal_emit_unary(e, "shoal.rsqrt", shoal_emit_affine(e, variance, 1, f->eps));
}

static void norm_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                           shoal_ref_t *outputs) {
  const int64_t groups = group_count(call);
  const forms_t f = forms_of(call, groups, call->attrs[COUNT].i, call->attrs[EPS].f);
  const int32_t gamma = GIVEN(call, GAMMA), beta = GIVEN(call, BETA);
  const shoal_shape_t stat = stat_type(call, groups).shape;
  const shoal_ref_t x = seen(e, &f, in[X]), mean = mean_of(e, &f, x);
  const shoal_ref_t rest = BINARY("sub", x, mean);
  const shoal_ref_t variance = mean_of(e, &f, shoal_emit_unary(e, "shoal.square", rest));
  shoal_ref_t y = shoal_emit_reshape(e, BINARY("mul", rest, rstd_of(e, &f, variance)), &f.x);
  if (gamma >= 0) y = BINARY("mul", y, row_of(e, &f, in[gamma]));
  if (beta >= 0) y = BINARY("add", y, row_of(e, &f, in[beta]));
  outputs[0] = shoal_emit_cast(e, y, f.dtype);
  outputs[1] = shoal_emit_reshape(e, mean, &stat);
  outputs[2] = shoal_emit_reshape(e, variance, &stat);
}

// Sums over all but the channels.
static shoal_ref_t sum_channels(shoal_emitter_t *e, const forms_t *f, shoal_ref_t x) {
  int64_t dims[SHOAL_MAX_RANK] = {0, 2, 3, 4, 5, 6, 7};
  const shoal_ref_t sum = shoal_emit_one(e, "shoal.reduce_sum", REFS(x),
                                         ATTRS(shoal_attr_ints("dims", f->x.rank - 1, dims)));
  return shoal_emit_cast(e, sum, f->dtype);
}

static void norm_grad_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                                shoal_ref_t *outputs) {
  const forms_t f =
      forms_of(call, grad_groups(call), call->attrs[GRAD_COUNT].i, call->attrs[GRAD_EPS].f);
  const int32_t gamma = GIVEN(call, GRAD_GAMMA);
  const shoal_ref_t mean = shoal_emit_reshape(e, in[MEAN], &f.kept);
  const shoal_ref_t rstd = rstd_of(e, &f, shoal_emit_reshape(e, in[VARIANCE], &f.kept));
  const shoal_ref_t h = BINARY("mul", BINARY("sub", seen(e, &f, in[X]), mean), rstd);
  const shoal_ref_t dy = shoal_emit_cast(e, in[DY], f.wide);
  shoal_ref_t g = dy;
  if (gamma >= 0) g = BINARY("mul", dy, row_of(e, &f, in[gamma]));
  g = seen(e, &f, g);
  const shoal_ref_t slope = BINARY("mul", h, mean_of(e, &f, BINARY("mul", g, h)));
  const shoal_ref_t rest = BINARY("sub", BINARY("sub", g, mean_of(e, &f, g)), slope);
  const shoal_ref_t dx = shoal_emit_reshape(e, BINARY("mul", rest, rstd), &f.x);
  outputs[0] = shoal_emit_cast(e, dx, f.dtype);
  if (call->output_count > 1) {
    const shoal_ref_t back = shoal_emit_reshape(e, h, &f.x);
    outputs[1] = sum_channels(e, &f, BINARY("mul", dy, back));
  }
  if (call->output_count > 2) outputs[2] = sum_channels(e, &f, dy);
}

// Gradients may also flow into mean (dx += dmean / count) and variance (dx += dvariance 2 (x -
// mean) / count).
OP_GRADIENT(norm) {
  const int32_t gamma = GIVEN(call, GAMMA), beta = GIVEN(call, BETA);
  const forms_t f = forms_of(call, group_count(call), call->attrs[COUNT].i, call->attrs[EPS].f);
  shoal_ref_t all[3] = {SHOAL_NO_REF, SHOAL_NO_REF, SHOAL_NO_REF};
  if (grads[0] != SHOAL_NO_REF) {
    const shoal_ref_t operands[] = {in[X], out[1], out[2], grads[0],
                                    gamma < 0 ? SHOAL_NO_REF : in[gamma]};
    const shoal_attr_t attrs[] = {shoal_attr_real("eps", f.eps), shoal_attr_int("count", f.count),
                                  shoal_attr_int("beta", beta >= 0)};
    shoal_emit(e, is_batch(call) ? "shoal.batch_norm_grad" : "shoal.group_norm_grad", 5, operands,
               3, attrs,
               beta >= 0    ? 3
               : gamma >= 0 ? 2
                            : 1,
               all);
  }
  const double share = 1 / (double)f.count;
  for (int32_t i = 1; i <= 2; ++i) {
    if (grads[i] == SHOAL_NO_REF) continue;
    shoal_ref_t more = shoal_emit_affine(e, shoal_emit_reshape(e, grads[i], &f.kept), i * share, 0);
    if (i == 1) {
      more = shoal_emit_broadcast(e, more, &f.shape);
    } else {
      const shoal_ref_t mean = shoal_emit_reshape(e, out[1], &f.kept);
      more = BINARY("mul", BINARY("sub", seen(e, &f, in[X]), mean), more);
    }
    more = shoal_emit_cast(e, shoal_emit_reshape(e, more, &f.x), f.dtype);
    all[0] = all[0] == SHOAL_NO_REF ? more : BINARY("add", all[0], more);
  }
  in_grads[X] = all[0];
  if (gamma >= 0) in_grads[gamma] = all[1];
  if (beta >= 0) in_grads[beta] = all[2];
}

// ---- records ---------------------------------------------------------------------------

static void norm_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 8.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

static void norm_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 14.0 * (double)shoal_shape_count(&call->inputs[X].shape);
}

#define EPS_ATTR                                                                       \
  {                                                                                    \
    .name = "eps", .kind = SHOAL_ATTR_REAL, .optional = true, .fallback = {.f = 1e-5}, \
    .doc = "added to the variance"                                                     \
  }
#define COUNT_ATTR SHOAL_ATTR_COUNT_OF("elements of a statistic; 0: as many as there are")
#define NORM_RECORD(...)                                                                     \
  SHOAL_OP_INPUTS("x", "gamma", "beta"), SHOAL_OP_OUTPUTS("y", "mean", "variance"),          \
      .optional = 2, SHOAL_OP_ATTRS(__VA_ARGS__), SHOAL_OP_OVERWRITES({0, X}),               \
      .complete = norm_complete, .infer = norm_infer, .gradient = norm_gradient,             \
      .decompose = norm_decompose, .cost = norm_cost, .workspace = shoal_kernel_widen_bytes, \
      .kernel = norm_kernel
#define GRAD_RECORD                                                                       \
  SHOAL_OP_INPUTS("x", "mean", "variance", "dy", "gamma"),                                \
      SHOAL_OP_OUTPUTS("dx", "dgamma", "dbeta"),                                          \
      .optional = 1, .output_number = norm_grad_outputs,                                  \
      SHOAL_OP_ATTRS(EPS_ATTR, COUNT_ATTR,                                                \
                     {.name = "beta",                                                     \
                      .kind = SHOAL_ATTR_INT,                                             \
                      .role = SHOAL_ROLE_COUNT,                                           \
                      .optional = true,                                                   \
                      .doc = "1: the gradient of beta is wanted as well"},                \
                     SHOAL_ATTR_WITH),                                                    \
      SHOAL_OP_OVERWRITES({0, X}, {0, DY}), .complete = norm_grad_complete,               \
      .infer = norm_grad_infer, .decompose = norm_grad_decompose, .cost = norm_grad_cost, \
      .workspace = shoal_kernel_widen_bytes, .kernel = norm_grad_kernel

#define GROUP_UNCUT                                                                           \
  "dims behind the channels, and the channels of a group: a group is normalised as one (its " \
  "decomposition cuts)"

const shoal_op_t shoal_op_batch_norm = {
    .name = "shoal.batch_norm",
    .doc =
        "(x - mean) / sqrt(variance + eps) gamma + beta of x [N, C, ..], with mean and variance of "
        "each channel over all else as further results; the variance is divided by count.",
    .uncut = "dims of x but the channels: a channel is normalised as one (its decomposition cuts)",
    NORM_RECORD(EPS_ATTR, COUNT_ATTR, SHOAL_ATTR_WITH),
    SHOAL_OP_CASES("f64[3,2,5], f64[2], f64[2] ; with=\"gamma,beta\"", "f32[3,2,2,3] ; eps=1e-3",
                   "f64[5,3], f64[3] ; eps=0.1, with=\"gamma\"",
                   "bf16[5,3,2], bf16[3], bf16[3] ; with=\"gamma,beta\"",
                   "f64[4,1,3], f64[1] ; with=\"beta\"", "f32[0,3,2] ; count=1"),
};

const shoal_op_t shoal_op_batch_norm_grad = {
    .name = "shoal.batch_norm_grad",
    .doc = "Gradients of batch_norm's y with respect to x and, where asked for, gamma and beta.",
    .uncut = "dims of x but the channels: a channel is normalised as one (its decomposition cuts)",
    GRAD_RECORD,
    SHOAL_OP_CASES("f64[3,2,5], f64[2], f64[2]+, f64[3,2,5], f64[2] ; beta=1, with=\"gamma\"",
                   "f32[3,2,2,3], f32[2], f32[2]+, f32[3,2,2,3]",
                   "f64[5,3], f64[3], f64[3]+, f64[5,3] ; beta=1",
                   "bf16[5,3,2], f32[3], f32[3]+, bf16[5,3,2], bf16[3] ; with=\"gamma\""),
};

const shoal_op_t shoal_op_group_norm = {
    .name = "shoal.group_norm",
    .doc =
        "(x - mean) / sqrt(variance + eps) gamma + beta of x [N, C, ..], with mean and variance "
        "[N, groups] over the channels of a group and all dims behind them. One group for each "
        "channel is instance norm.",
    .uncut = GROUP_UNCUT,
    NORM_RECORD(EPS_ATTR, COUNT_ATTR, SHOAL_ATTR_WITH,
                {.name = "groups",
                 .kind = SHOAL_ATTR_INT,
                 .role = SHOAL_ROLE_SIZE,
                 .operand = SHOAL_OUTPUT(1),
                 .dim = 1,
                 .doc = "of channels, each with statistics of its own"}),
    SHOAL_OP_CASES("f64[3,4,5], f64[4], f64[4] ; groups=2, with=\"gamma,beta\"",
                   "f32[3,2,2,3] ; groups=2, eps=1e-3",
                   "f64[5,3,2], f64[3] ; groups=1, eps=0.1, with=\"gamma\"",
                   "bf16[2,6,3], bf16[6], bf16[6] ; groups=3, with=\"gamma,beta\"",
                   "f64[1,6,3], f64[6] ; groups=3, with=\"beta\"", "f32[0,4,2] ; groups=2"),
};

const shoal_op_t shoal_op_group_norm_grad = {
    .name = "shoal.group_norm_grad",
    .doc = "Gradients of group_norm's y with respect to x and, where asked for, gamma and beta.",
    .uncut = GROUP_UNCUT,
    GRAD_RECORD,
    SHOAL_OP_CASES("f64[3,4,5], f64[3,2], f64[3,2]+, f64[3,4,5], f64[4] ; beta=1, with=\"gamma\"",
                   "f32[3,2,2,3], f32[3,2], f32[3,2]+, f32[3,2,2,3]",
                   "f64[5,3,2], f64[5,1], f64[5,1]+, f64[5,3,2] ; beta=1",
                   "bf16[2,6,3], f32[2,3], f32[2,3]+, bf16[2,6,3], bf16[6] ; with=\"gamma\""),
};

#else  // per element type

// Runs `body` for each element of statistic k: i is its index, ch its channel.
#define EACH_ELEMENT(v, k, body)                                 \
  do {                                                           \
    int64_t rows_[2], channels_[2];                              \
    range_of((v), (k), rows_, channels_);                        \
    for (int64_t n_ = rows_[0]; n_ < rows_[1]; ++n_) {           \
      for (int64_t ch = channels_[0]; ch < channels_[1]; ++ch) { \
        const int64_t at_ = (n_ * (v)->c + ch) * (v)->s;         \
        for (int64_t i = at_; i < at_ + (v)->s; ++i) {           \
          body;                                                  \
        }                                                        \
      }                                                          \
    }                                                            \
  } while (0)

static void K(norm)(const shoal_call_t *call, const view_t *v, const shoal_tensor_t *inputs,
                    const shoal_tensor_t *outputs) {
  const int32_t gamma_at = GIVEN(call, GAMMA), beta_at = GIVEN(call, BETA);
  const R *x = inputs[X].data, *gamma = gamma_at < 0 ? NULL : inputs[gamma_at].data;
  const R *beta = beta_at < 0 ? NULL : inputs[beta_at].data;
  const R count = (R)call->attrs[COUNT].i, eps = (R)call->attrs[EPS].f;
  R *y = outputs[0].data, *means = outputs[1].data, *variances = outputs[2].data;
  for (int64_t k = 0; k < stat_count(v); ++k) {
    R sum = 0, squares = 0;
    EACH_ELEMENT(v, k, sum += x[i]);
    const R mean = sum / count;
    EACH_ELEMENT(v, k, squares += (x[i] - mean) * (x[i] - mean));
    const R variance = squares / count, rstd = 1 / sqrt(variance + eps);
    EACH_ELEMENT(v, k,
                 y[i] = (x[i] - mean) * rstd * (gamma ? gamma[ch] : 1) + (beta ? beta[ch] : 0));
    means[k] = mean;
    variances[k] = variance;
  }
}

static void K(norm_grad)(const shoal_call_t *call, const view_t *v, const shoal_tensor_t *inputs,
                         const shoal_tensor_t *outputs) {
  const int32_t gamma_at = GIVEN(call, GRAD_GAMMA);
  const R *x = inputs[X].data, *dy = inputs[DY].data, *means = inputs[MEAN].data;
  const R *variances = inputs[VARIANCE].data, *gamma = gamma_at < 0 ? NULL : inputs[gamma_at].data;
  const R count = (R)call->attrs[GRAD_COUNT].i, eps = (R)call->attrs[GRAD_EPS].f;
  R *dx = outputs[0].data, *dgamma = call->output_count > 1 ? outputs[1].data : NULL;
  R *dbeta = call->output_count > 2 ? outputs[2].data : NULL;
  for (int64_t c = 0; c < v->c; ++c) {
    if (dgamma) dgamma[c] = 0;
    if (dbeta) dbeta[c] = 0;
  }
  for (int64_t k = 0; k < stat_count(v); ++k) {
    const R mean = means[k], rstd = 1 / sqrt(variances[k] + eps);
    R sum_g = 0, sum_gh = 0;
    EACH_ELEMENT(v, k, {
      const R h = (x[i] - mean) * rstd;
      const R g = dy[i] * (gamma ? gamma[ch] : 1);
      sum_g += g;
      sum_gh += g * h;
      if (dgamma) dgamma[ch] += dy[i] * h;
      if (dbeta) dbeta[ch] += dy[i];
    });
    const R mean_g = sum_g / count, mean_gh = sum_gh / count;
    EACH_ELEMENT(v, k, {
      const R g = dy[i] * (gamma ? gamma[ch] : 1);
      dx[i] = rstd * (g - mean_g - (x[i] - mean) * rstd * mean_gh);
    });
  }
}

#undef EACH_ELEMENT
#endif
