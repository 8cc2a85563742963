// Adafactor (Shazeer 2018, as PyTorch has it): second moments of a matrix as the product of a row
// and a column. With step t, k = t^beta2_decay, n elements, weight decay d:
//   adafactor_update         w, g [.., R, C]  rows [.., R]  cols [.., C]
//     rows' = rows + k (mean of g^2 over C - rows),  cols' = cols + k (mean of g^2 over R - cols)
//     v = rows' cols' / max(mean of rows' over R, eps1)
//   adafactor_vector_update  w, g, v of any shape:  v' = v + k (g^2 - v)
//   both: u = g / max(sqrt(v), eps1),  u' = u / max(1, rms(u) / clip),
//         w' = (1 - lr d) w - min(lr, 1 / sqrt(t)) max(eps2, rms(w)) u'
// The root means of squares (rms) are those of the whole tensor, so that updates are cut in phases.
// Steps count from 1; a smaller one is taken for 1. Computed in f64 and rounded once.
#include <float.h>
#include <math.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { W, G };
enum { ROWS = 2, COLS, LR, STEP };
enum { V = 2, VECTOR_LR, VECTOR_STEP };
enum { DECAY_POWER, EPS1, EPS2, CLIP, DECAY };

static shoal_status_t check_settings(const shoal_call_t *call, int32_t lr) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, W, lr));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, G, &call->inputs[W].shape));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, lr));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, lr, 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, lr + 1));
  SHOAL_RETURN_IF_ERROR(shoal_check_integer(call, lr + 1));
  REQUIRE(call, call->attrs[EPS1].f >= 0, "eps1 is %g: it must not be negative",
          call->attrs[EPS1].f);
  REQUIRE(call, call->attrs[CLIP].f > 0, "clip is %g: it must be above 0", call->attrs[CLIP].f);
  return NULL;
}

// The shape without dim `rank - 1 - from_end`.
static shoal_shape_t without(const shoal_shape_t *shape, int32_t from_end) {
  shoal_shape_t left = *shape;
  if (from_end == 1) left.dims[shape->rank - 2] = shape->dims[shape->rank - 1];
  left.rank--;
  return left;
}

static shoal_status_t adafactor_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *w = &call->inputs[W].shape;
  SHOAL_RETURN_IF_ERROR(check_settings(call, LR));
  REQUIRE_HINT(call, w->rank >= 2, "adafactor_vector_update takes others",
               "w must have at least 2 dims, not %d", w->rank);
  const shoal_shape_t rows = without(w, 0), cols = without(w, 1);
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, ROWS, &rows));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, COLS, &cols));
  out_types[0] = call->inputs[W];
  out_types[1] = call->inputs[ROWS];
  out_types[2] = call->inputs[COLS];
  return NULL;
}

static shoal_status_t adafactor_vector_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(check_settings(call, VECTOR_LR));
  SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, V, &call->inputs[W].shape));
  out_types[0] = out_types[1] = call->inputs[W];
  return NULL;
}

// ---- settings ---------------------------------------------------------------------------

// eps1 left 0 is that of the parameter's type, whatever the node is computed in: the distance from
// 1 to the next number.
static void adafactor_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  static const double own[SHOAL_DTYPE_COUNT] = {[SHOAL_F64] = DBL_EPSILON,
                                                [SHOAL_F32] = FLT_EPSILON,
                                                [SHOAL_BF16] = 0x1p-7,
                                                [SHOAL_F16] = 0x1p-10};
  if (attrs[EPS1].f == 0 && call->input_count > 0) attrs[EPS1].f = own[call->inputs[W].dtype];
}

typedef struct settings {
  double k, lr, rate, eps1, eps2, clip, decay;  // rate: min(lr, 1 / sqrt(step))
} settings_t;

// NaN stays NaN.
static double at_least(double x, double least) {
  return x < least ? least : x;
}

static settings_t settings_of(const shoal_call_t *call, const shoal_tensor_t *lr_and_step) {
  const double lr = shoal_dtype_load(lr_and_step[0].dtype, lr_and_step[0].data, 0);
  const int64_t counted = shoal_dtype_load_int(lr_and_step[1].dtype, lr_and_step[1].data, 0);
  const double step = counted < 1 ? 1 : (double)counted;
  return (settings_t){.k = pow(step, call->attrs[DECAY_POWER].f),
                      .lr = lr,
                      .rate = lr > 1 / sqrt(step) ? 1 / sqrt(step) : lr,
                      .eps1 = call->attrs[EPS1].f,
                      .eps2 = call->attrs[EPS2].f,
                      .clip = call->attrs[CLIP].f,
                      .decay = call->attrs[DECAY].f};
}

// ---- kernels ----------------------------------------------------------------------------

static double load(const shoal_tensor_t *tensor, int64_t i) {
  return shoal_dtype_load(tensor->dtype, tensor->data, i);
}

static int64_t at_least_one(int64_t n) {
  return n > 1 ? n : 1;
}

// The last step of both: w' from u.
static void move(const settings_t *s, const shoal_tensor_t *w, const double *u,
                 const shoal_tensor_t *out) {
  const int64_t n = shoal_shape_count(&w->shape);
  double w_squares = 0, u_squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = load(w, i);
    w_squares += x * x;
    u_squares += u[i] * u[i];
  }
  const double count = (double)at_least_one(n);
  const double scale = s->rate * at_least(sqrt(w_squares / count), s->eps2) /
                       at_least(sqrt(u_squares / count) / s->clip, 1);
  for (int64_t i = 0; i < n; ++i) {
    shoal_dtype_store(out->dtype, out->data, i, (1 - s->lr * s->decay) * load(w, i) - scale * u[i]);
  }
}

static int64_t adafactor_workspace(const shoal_call_t *call) {
  return (shoal_shape_count(&call->inputs[W].shape) + shoal_row_length(&call->inputs[W].shape)) *
         (int64_t)sizeof(double);
}

// rows' and cols' of one matrix; v of its elements goes to u.
static void factor(const settings_t *s, const shoal_tensor_t *inputs, const shoal_tensor_t *outputs,
                   int64_t matrix, double *u, double *cols) {
  const shoal_shape_t *shape = &inputs[W].shape;
  const int64_t r = shape->dims[shape->rank - 2], c = shape->dims[shape->rank - 1];
  double mean = 0;
  for (int64_t j = 0; j < c; ++j) cols[j] = 0;
  for (int64_t i = 0; i < r; ++i) {
    double squares = 0;
    for (int64_t j = 0; j < c; ++j) {
      const double g = load(&inputs[G], (matrix * r + i) * c + j);
      squares += g * g;
      cols[j] += g * g;
    }
    const double old = load(&inputs[ROWS], matrix * r + i);
    const double row = old + s->k * (squares / (double)at_least_one(c) - old);
    shoal_dtype_store(outputs[1].dtype, outputs[1].data, matrix * r + i, row);
    for (int64_t j = 0; j < c; ++j) u[i * c + j] = row;
    mean += row / (double)r;
  }
  const double scale = 1 / at_least(mean, s->eps1);
  for (int64_t j = 0; j < c; ++j) {
    const double old = load(&inputs[COLS], matrix * c + j);
    const double col = old + s->k * (cols[j] / (double)at_least_one(r) - old);
    shoal_dtype_store(outputs[2].dtype, outputs[2].data, matrix * c + j, col);
    for (int64_t i = 0; i < r; ++i) u[i * c + j] *= col * scale;
  }
}

// From second moments to directions.
static void divide(const settings_t *s, const shoal_tensor_t *g, double *u) {
  const int64_t n = shoal_shape_count(&g->shape);
  for (int64_t i = 0; i < n; ++i) u[i] = load(g, i) / sqrt(at_least(u[i], s->eps1 * s->eps1));
}

OP_KERNEL(adafactor) {
  const settings_t s = settings_of(call, &inputs[LR]);
  const shoal_shape_t *w = &inputs[W].shape;
  const int64_t size = shoal_shape_product(w, w->rank - 2, w->rank);
  const int64_t matrices = shoal_shape_product(w, 0, w->rank - 2);
  double *u = workspace, *cols = u + shoal_shape_count(w);
  for (int64_t i = 0; i < matrices; ++i) factor(&s, inputs, outputs, i, u + i * size, cols);
  divide(&s, &inputs[G], u);
  move(&s, &inputs[W], u, &outputs[0]);
  return NULL;
}

static int64_t adafactor_vector_workspace(const shoal_call_t *call) {
  return shoal_shape_count(&call->inputs[W].shape) * (int64_t)sizeof(double);
}

OP_KERNEL(adafactor_vector) {
  const settings_t s = settings_of(call, &inputs[VECTOR_LR]);
  const int64_t n = shoal_shape_count(&inputs[W].shape);
  double *u = workspace;
  for (int64_t i = 0; i < n; ++i) {
    const double g = load(&inputs[G], i), old = load(&inputs[V], i);
    u[i] = old + s.k * (g * g - old);
    shoal_dtype_store(outputs[1].dtype, outputs[1].data, i, u[i]);
  }
  divide(&s, &inputs[G], u);
  move(&s, &inputs[W], u, &outputs[0]);
  return NULL;
}

// ---- in phases --------------------------------------------------------------------------

typedef struct scalars {
  shoal_dtype_t wide;
  shoal_ref_t w, g, lr, step, k;
} scalars_t;

static shoal_ref_t emit_at_least(shoal_emitter_t *e, shoal_dtype_t dtype, shoal_ref_t x,
                                 double least) {
  return shoal_emit_binary(e, "shoal.maximum", x, shoal_emit_scalar(e, dtype, least));
}

static scalars_t emit_scalars(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                              int32_t lr) {
  const shoal_dtype_t wide = shoal_statistics_dtype(call->inputs[W].dtype);
  scalars_t s = {.wide = wide,
                 .w = shoal_emit_cast(e, in[W], wide),
                 .g = shoal_emit_cast(e, in[G], wide),
                 .lr = shoal_emit_cast(e, in[lr], wide)};
  s.step = emit_at_least(e, wide, shoal_emit_cast(e, in[lr + 1], wide), 1);
  s.k = shoal_emit_one(e, "shoal.power", REFS(s.step),
                       ATTRS(shoal_attr_real("exponent", call->attrs[DECAY_POWER].f)));
  return s;
}

static shoal_ref_t emit_rms(shoal_emitter_t *e, shoal_ref_t x, int64_t count) {
  const shoal_ref_t squares = shoal_emit_unary(e, "shoal.sum_squares", x);
  return shoal_emit_unary(e, "shoal.sqrt",
                          shoal_emit_affine(e, squares, 1 / (double)at_least_one(count), 0));
}

// w' from second moments.
static shoal_ref_t emit_move(const shoal_call_t *call, shoal_emitter_t *e, const scalars_t *s,
                             shoal_ref_t v) {
  const int64_t count = shoal_shape_count(&call->inputs[W].shape);
  const double eps1 = call->attrs[EPS1].f;
  const shoal_ref_t u = shoal_emit_binary(
      e, "shoal.div", s->g,
      shoal_emit_unary(e, "shoal.sqrt", emit_at_least(e, s->wide, v, eps1 * eps1)));
  const shoal_ref_t slowed = shoal_emit_unary(e, "shoal.rsqrt", s->step);
  const shoal_ref_t rate = shoal_emit_binary(e, "shoal.minimum", s->lr, slowed);
  const shoal_ref_t size = emit_at_least(e, s->wide, emit_rms(e, s->w, count), call->attrs[EPS2].f);
  const shoal_ref_t shrink = emit_at_least(
      e, s->wide, shoal_emit_affine(e, emit_rms(e, u, count), 1 / call->attrs[CLIP].f, 0), 1);
  const shoal_ref_t scale =
      shoal_emit_binary(e, "shoal.div", shoal_emit_binary(e, "shoal.mul", rate, size), shrink);
  const shoal_ref_t kept = shoal_emit_binary(e, "shoal.mul", s->w,
                                             shoal_emit_affine(e, s->lr, -call->attrs[DECAY].f, 1));
  const shoal_ref_t moved =
      shoal_emit_binary(e, "shoal.sub", kept, shoal_emit_binary(e, "shoal.mul", u, scale));
  return shoal_emit_cast(e, moved, call->inputs[W].dtype);
}

static shoal_ref_t emit_lerp(shoal_emitter_t *e, shoal_ref_t old, shoal_ref_t next,
                             const scalars_t *s) {
  return shoal_emit_one(e, "shoal.lerp", REFS(shoal_emit_cast(e, old, s->wide), next, s->k),
                        NO_ATTRS);
}

static void adafactor_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                                shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const scalars_t s = emit_scalars(call, e, in, LR);
  const shoal_shape_t *w = &call->inputs[W].shape;
  const int32_t last = w->rank - 1;
  const int64_t r = w->dims[last - 1], c = w->dims[last];
  const shoal_ref_t squares = shoal_emit_unary(e, "shoal.square", s.g);
  const shoal_ref_t rows =
      emit_lerp(e, in[ROWS], shoal_emit_mean(e, squares, last, false, at_least_one(c)), &s);
  const shoal_ref_t cols =
      emit_lerp(e, in[COLS], shoal_emit_mean(e, squares, last - 1, false, at_least_one(r)), &s);
  const shoal_ref_t mean = shoal_emit_mean(e, rows, last - 1, true, at_least_one(r));
  const shoal_ref_t shares =
      shoal_emit_binary(e, "shoal.div", rows, emit_at_least(e, s.wide, mean, call->attrs[EPS1].f));
  const shoal_ref_t v = shoal_emit_binary(e, "shoal.mul", shoal_emit_unsqueeze(e, shares, last),
                                          shoal_emit_unsqueeze(e, cols, last - 1));
  outputs[0] = emit_move(call, e, &s, v);
  outputs[1] = shoal_emit_cast(e, rows, call->inputs[ROWS].dtype);
  outputs[2] = shoal_emit_cast(e, cols, call->inputs[COLS].dtype);
}

static void adafactor_vector_decompose(const shoal_call_t *call, shoal_emitter_t *e,
                                       const shoal_ref_t *in, shoal_ref_t *outputs) {
  if (!shoal_emit_whole(call, e)) return;
  const scalars_t s = emit_scalars(call, e, in, VECTOR_LR);
  const shoal_ref_t v = emit_lerp(e, in[V], shoal_emit_unary(e, "shoal.square", s.g), &s);
  outputs[0] = emit_move(call, e, &s, v);
  outputs[1] = shoal_emit_cast(e, v, call->inputs[V].dtype);
}

// ---- records ----------------------------------------------------------------------------

static void adafactor_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  out_cost->flops = 20.0 * (double)shoal_shape_count(&call->inputs[W].shape);
}

#define OPTION(attr_name, value, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_REAL, .optional = true, .fallback.f = value, .doc = text }
#define ADAFACTOR_ATTRS                                                                      \
  SHOAL_OP_ATTRS(                                                                            \
      OPTION("beta2_decay", -0.8, "the share of new squares is the step to this power"),     \
      OPTION("eps1", 0, "least root of second moments; 0: the epsilon of w's dtype"),        \
      OPTION("eps2", 1e-3, "steps are as long as the root mean square of w, at least this"), \
      OPTION("clip", 1, "largest root mean square of a direction; above 0"),                 \
      OPTION("weight_decay", 0, "decay of w, by lr times it"))
#define ADAFACTOR_UNCUT \
  "all dims: root means of squares are those of the whole (its decomposition cuts them)"

const shoal_op_t shoal_op_adafactor_update = {
    .name = "shoal.adafactor_update",
    .doc =
        "Adafactor for matrices, w [.., R, C]: second moments are the product of rows [.., R] and "
        "cols [.., C], and steps go by the size of w. Steps count from 1.",
    SHOAL_OP_INPUTS("w", "g", "rows", "cols", "lr", "step"),
    SHOAL_OP_OUTPUTS("w", "rows", "cols"),
    ADAFACTOR_ATTRS,
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {1, 2}, {2, 3}),
    .uncut = ADAFACTOR_UNCUT,
    .complete = adafactor_complete,
    .infer = adafactor_infer,
    .decompose = adafactor_decompose,
    .cost = adafactor_cost,
    .workspace = adafactor_workspace,
    .kernel = adafactor_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3]+, f64[5]+, f32[]+, i64[]<9+ ; weight_decay=0.1",
                   "f32[2,3,4], f32[2,3,4], f32[2,3]+, f32[2,4]+, f64[]+, i64[]<9+",
                   "bf16[5,1], bf16[5,1], bf16[5]+, bf16[1]+, f32[]+, i32[]<9+ ; clip=2, eps2=0.1",
                   "f64[4,2], f64[4,2], f64[4]+, f64[2]+, f64[]+, i64[]<9+ ; beta2_decay=-0.5, "
                   "eps1=0.3"),
};

const shoal_op_t shoal_op_adafactor_vector_update = {
    .name = "shoal.adafactor_vector_update",
    .doc =
        "Adafactor for what is no matrix: second moments v are kept for each element, and steps go "
        "by the size of w. Steps count from 1.",
    SHOAL_OP_INPUTS("w", "g", "v", "lr", "step"),
    SHOAL_OP_OUTPUTS("w", "v"),
    ADAFACTOR_ATTRS,
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {1, 2}),
    .uncut = ADAFACTOR_UNCUT,
    .complete = adafactor_complete,
    .infer = adafactor_vector_infer,
    .decompose = adafactor_vector_decompose,
    .cost = adafactor_cost,
    .workspace = adafactor_vector_workspace,
    .kernel = adafactor_vector_kernel,
    SHOAL_OP_CASES("f64[7], f64[7], f64[7]+, f32[]+, i64[]<9+ ; weight_decay=0.1",
                   "f32[3,5], f32[3,5], f32[3,5]+, f64[]+, i64[]<9+ ; clip=1.5",
                   "bf16[5], bf16[5], bf16[5]+, f32[]+, i32[]<9+",
                   "f64[], f64[], f64[]+, f64[]+, i64[]<9+ ; beta2_decay=-0.5"),
};
