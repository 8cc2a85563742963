// Muon (Jordan 2024, as PyTorch has it): momentum, then the direction is made orthogonal. For each
// matrix of w [.., R, C], with weight decay d:
//   m' = momentum m + (1 - momentum) g,  u = m', or with nesterov: (1 - momentum) g + momentum m'
//   X = u / max(|u|, eps), then `steps` times (Newton and Schulz):
//     G = X X' (of the shorter side),  X <- a X + (b G + c G^2) X
//   w' = (1 - lr d) w - lr scale X
// The singular values of X come near 1; they need not reach it. PyTorch makes X in bf16; here it is
// made in the parameter's own precision (f32 for half-size floats).
// `adjust` says how scale depends on the fan-out A and the fan-in B of the matrix: its rows and its
// columns, or the other way round where `transposed` is 1 (w is [in, out]).
#include <math.h>

#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/product.h"

enum { W, G, M, LR };
enum { MOMENTUM, DECAY, NESTEROV, STEPS, EPS, CO_A, CO_B, CO_C, ADJUST, TRANSPOSED };

typedef enum adjust { ORIGINAL, MATCH_RMS_ADAMW, SPECTRAL_UNCLAMPED, NONE, ADJUSTS } adjust_t;
static const char *const ADJUST_NAMES[ADJUSTS] = {"original", "match_rms_adamw",
                                                  "spectral_unclamped", "none"};

static shoal_status_t read_scale(const shoal_call_t *call, double *out_scale) {
  const shoal_shape_t *w = &call->inputs[W].shape;
  const bool turned = call->attrs[TRANSPOSED].i;
  const double rows = (double)w->dims[w->rank - 2], columns = (double)w->dims[w->rank - 1];
  const double out = turned ? columns : rows, in = turned ? rows : columns;
  int32_t adjust;
  *out_scale = 1;
  SHOAL_RETURN_IF_ERROR(shoal_check_choice(call, ADJUST, ADJUST_NAMES, ADJUSTS, &adjust));
  if (out == 0 || in == 0) return NULL;
  if (adjust == ORIGINAL) *out_scale = sqrt(out > in ? out / in : 1);
  if (adjust == MATCH_RMS_ADAMW) *out_scale = 0.2 * sqrt(out > in ? out : in);
  if (adjust == SPECTRAL_UNCLAMPED) *out_scale = sqrt(out / in);
  return NULL;
}

static shoal_status_t muon_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_shape_t *w = &call->inputs[W].shape;
  double scale;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, W, 3));
  for (int32_t i = G; i <= M; ++i) SHOAL_RETURN_IF_ERROR(shoal_check_shape(call, i, w));
  SHOAL_RETURN_IF_ERROR(shoal_check_scalar(call, LR));
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, LR, 1));
  REQUIRE_HINT(call, w->rank >= 2, "update vectors by AdamW, as shoal_minimize_muon does",
               "w must have at least 2 dims, not %d", w->rank);
  REQUIRE(call, call->attrs[STEPS].i >= 0 && call->attrs[STEPS].i < 100,
          "steps is %lld: it must be in [0, 100)", (long long)call->attrs[STEPS].i);
  REQUIRE(call, call->attrs[EPS].f > 0, "eps is %g: it must be above 0", call->attrs[EPS].f);
  SHOAL_RETURN_IF_ERROR(read_scale(call, &scale));
  out_types[0] = out_types[1] = call->inputs[W];
  return NULL;
}

// ---- kernel -----------------------------------------------------------------------------

// One matrix: X and the next X, the matrix G of the shorter side and its polynomial, each dense.
typedef struct turn {
  shoal_dtype_t dtype;
  int64_t rows, columns, side;
  char *x, *next, *gram, *square;
  void *workspace;  // of products
  shoal_product_t gram_of, square_of, next_of;
} turn_t;

static shoal_product_t dense(int64_t m, int64_t n, int64_t k) {
  return (shoal_product_t){.m = m, .n = n, .k = k, .a = {k, 1}, .b = {n, 1}, .c = {n, 1}};
}

static turn_t turn_of(const shoal_call_t *call) {
  const shoal_shape_t *w = &call->inputs[W].shape;
  const int64_t r = w->dims[w->rank - 2], c = w->dims[w->rank - 1];
  turn_t t = {.dtype = shoal_statistics_dtype(call->inputs[W].dtype),
              .rows = r,
              .columns = c,
              .side = r <= c ? r : c};
  t.gram_of = dense(t.side, t.side, r <= c ? c : r);
  if (r <= c) {  // X X'
    t.gram_of.b[0] = 1, t.gram_of.b[1] = c;
  } else {  // X' X
    t.gram_of.a[0] = 1, t.gram_of.a[1] = c;
  }
  t.square_of = dense(t.side, t.side, t.side);
  t.next_of = dense(r, c, t.side);
  return t;
}

static int64_t largest_workspace(const turn_t *t) {
  const shoal_product_t *products[] = {&t->gram_of, &t->square_of, &t->next_of};
  int64_t most = 0;
  for (int32_t i = 0; i < 3; ++i) {
    const int64_t bytes = shoal_product_workspace(products[i], t->dtype);
    if (bytes > most) most = bytes;
  }
  return most;
}

static int64_t muon_workspace(const shoal_call_t *call) {
  const turn_t t = turn_of(call);
  const int64_t element = (int64_t)shoal_dtype_size(t.dtype);
  return 2 * shoal_align64(t.rows * t.columns * element) +
         2 * shoal_align64(t.side * t.side * element) + shoal_align64(largest_workspace(&t)) +
         shoal_kernel_widen_bytes(call);
}

static void turn_place(turn_t *t, void *workspace) {
  const int64_t element = (int64_t)shoal_dtype_size(t->dtype);
  char *at = workspace;
  t->x = at, at += shoal_align64(t->rows * t->columns * element);
  t->next = at, at += shoal_align64(t->rows * t->columns * element);
  t->gram = at, at += shoal_align64(t->side * t->side * element);
  t->square = at, at += shoal_align64(t->side * t->side * element);
  t->workspace = at;
}

// to = p from + q also, n elements; also may be NULL.
static void mix(shoal_dtype_t dtype, int64_t n, double p, const char *from, double q,
                const char *also, char *to) {
  for (int64_t i = 0; i < n; ++i) {
    const double value = p * shoal_dtype_load(dtype, from, i);
    shoal_dtype_store(dtype, to, i, also ? value + q * shoal_dtype_load(dtype, also, i) : value);
  }
}

static void turn_step(turn_t *t, const shoal_attr_value_t *attrs) {
  const int64_t n = t->rows * t->columns, square = t->side * t->side;
  const size_t bytes = (size_t)square * shoal_dtype_size(t->dtype);
  memset(t->gram, 0, bytes);
  memset(t->square, 0, bytes);
  shoal_product_run(&t->gram_of, t->dtype, t->x, t->x, t->gram, t->workspace);
  shoal_product_run(&t->square_of, t->dtype, t->gram, t->gram, t->square, t->workspace);
  mix(t->dtype, square, attrs[CO_B].f, t->gram, attrs[CO_C].f, t->square, t->gram);
  mix(t->dtype, n, attrs[CO_A].f, t->x, 0, NULL, t->next);
  const bool left = t->rows <= t->columns;
  shoal_product_run(&t->next_of, t->dtype, left ? t->gram : t->x, left ? t->x : t->gram, t->next,
                    t->workspace);
  char *old = t->x;
  t->x = t->next;
  t->next = old;
}

// NaN stays NaN.
static double at_least(double x, double least) {
  return x < least ? least : x;
}

OP_KERNEL(muon) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, muon_kernel);
  }
  turn_t t = turn_of(call);
  turn_place(&t, workspace);
  double scale;
  SHOAL_RETURN_IF_ERROR(read_scale(call, &scale));
  const shoal_attr_value_t *attrs = call->attrs;
  const double lr = shoal_dtype_load(inputs[LR].dtype, inputs[LR].data, 0);
  const double keep = attrs[MOMENTUM].f;
  const int64_t n = t.rows * t.columns, count = shoal_shape_count(&inputs[W].shape);
  for (int64_t first = 0; first < count; first += n) {
    double squares = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double g = shoal_dtype_load(t.dtype, inputs[G].data, first + i);
      const double m = keep * shoal_dtype_load(t.dtype, inputs[M].data, first + i) + (1 - keep) * g;
      const double u = attrs[NESTEROV].i ? (1 - keep) * g + keep * m : m;
      shoal_dtype_store(t.dtype, outputs[1].data, first + i, m);
      shoal_dtype_store(t.dtype, t.x, i, u);
      squares += u * u;
    }
    mix(t.dtype, n, 1 / at_least(sqrt(squares), attrs[EPS].f), t.x, 0, NULL, t.x);
    for (int64_t step = 0; step < attrs[STEPS].i; ++step) turn_step(&t, attrs);
    for (int64_t i = 0; i < n; ++i) {
      const double w = shoal_dtype_load(t.dtype, inputs[W].data, first + i);
      const double x = shoal_dtype_load(t.dtype, t.x, i);
      shoal_dtype_store(t.dtype, outputs[0].data, first + i,
                        (1 - lr * attrs[DECAY].f) * w - lr * scale * x);
    }
  }
  return NULL;
}

// ---- in phases --------------------------------------------------------------------------

// p a + q b
static shoal_ref_t emit_mix(shoal_emitter_t *e, double p, shoal_ref_t a, double q, shoal_ref_t b) {
  return shoal_emit_binary(e, "shoal.add", shoal_emit_affine(e, a, p, 0),
                           shoal_emit_affine(e, b, q, 0));
}

static shoal_ref_t emit_product(shoal_emitter_t *e, shoal_ref_t a, bool ta, shoal_ref_t b,
                                bool tb) {
  return shoal_emit_one(
      e, "shoal.matmul", REFS(a, b),
      ATTRS(shoal_attr_int("transpose_a", ta), shoal_attr_int("transpose_b", tb)));
}

static void muon_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                           shoal_ref_t *outputs) {
  double scale;
  if (!shoal_emit_whole(call, e)) return;
  shoal_status_t status = read_scale(call, &scale);
  if (status) {
    shoal_emit_fail(e, status);
    return;
  }
  const shoal_attr_value_t *attrs = call->attrs;
  const shoal_dtype_t dtype = call->inputs[W].dtype, wide = shoal_statistics_dtype(dtype);
  const shoal_shape_t *shape = &call->inputs[W].shape;
  const bool left = shape->dims[shape->rank - 2] <= shape->dims[shape->rank - 1];
  const double keep = attrs[MOMENTUM].f;
  shoal_ref_t wide_in[LR + 1];
  for (int32_t i = W; i <= LR; ++i) wide_in[i] = shoal_emit_cast(e, in[i], wide);
  const shoal_ref_t m = emit_mix(e, keep, wide_in[M], 1 - keep, wide_in[G]);
  const shoal_ref_t u = attrs[NESTEROV].i ? emit_mix(e, 1 - keep, wide_in[G], keep, m) : m;
  const int64_t dims[] = {shape->rank - 2, shape->rank - 1};
  const shoal_ref_t squares =
      shoal_emit_one(e, "shoal.reduce_sum", REFS(shoal_emit_unary(e, "shoal.square", u)),
                     ATTRS(shoal_attr_ints("dims", 2, dims), shoal_attr_int("keep", 1)));
  const shoal_ref_t norm =
      shoal_emit_binary(e, "shoal.maximum", shoal_emit_unary(e, "shoal.sqrt", squares),
                        shoal_emit_scalar(e, wide, attrs[EPS].f));
  shoal_ref_t x = shoal_emit_binary(e, "shoal.div", u, norm);
  for (int64_t step = 0; step < attrs[STEPS].i; ++step) {
    const shoal_ref_t gram = emit_product(e, x, !left, x, left);
    const shoal_ref_t bent =
        emit_mix(e, attrs[CO_B].f, gram, attrs[CO_C].f, emit_product(e, gram, false, gram, false));
    const shoal_ref_t turned = emit_product(e, left ? bent : x, false, left ? x : bent, false);
    x = shoal_emit_binary(e, "shoal.add", shoal_emit_affine(e, x, attrs[CO_A].f, 0), turned);
  }
  const shoal_ref_t kept = shoal_emit_binary(e, "shoal.mul", wide_in[W],
                                             shoal_emit_affine(e, wide_in[LR], -attrs[DECAY].f, 1));
  const shoal_ref_t change =
      shoal_emit_binary(e, "shoal.mul", x, shoal_emit_affine(e, wide_in[LR], scale, 0));
  outputs[0] = shoal_emit_cast(e, shoal_emit_binary(e, "shoal.sub", kept, change), dtype);
  outputs[1] = shoal_emit_cast(e, m, dtype);
}

// ---- record -----------------------------------------------------------------------------

static void muon_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const turn_t t = turn_of(call);
  const double n = (double)shoal_shape_count(&call->inputs[W].shape), side = (double)t.side;
  const double matrices = n == 0 ? 0 : n / ((double)t.rows * (double)t.columns);
  out_cost->flops =
      10 * n + (double)call->attrs[STEPS].i * (4 * n * side + 2 * matrices * side * side * side);
}

#define OPTION(attr_name, value, text) \
  { .name = attr_name, .kind = SHOAL_ATTR_REAL, .optional = true, .fallback.f = value, .doc = text }

const shoal_op_t shoal_op_muon_update = {
    .name = "shoal.muon_update",
    .doc =
        "Muon: w moves along its momentum, made orthogonal by `steps` rounds of Newton and Schulz "
        "in the parameter's own precision. Leading dims of w hold matrices of their own.",
    SHOAL_OP_INPUTS("w", "g", "m", "lr"),
    SHOAL_OP_OUTPUTS("w", "m"),
    SHOAL_OP_ATTRS(OPTION("momentum", 0.95, "what is kept of m"),
                   OPTION("weight_decay", 0.1, "decay of w, by lr times it"),
                   {.name = "nesterov",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .fallback.i = 1,
                    .doc = "1: the direction is where the momentum leads"},
                   {.name = "steps",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_COUNT,
                    .optional = true,
                    .fallback.i = 5,
                    .doc = "rounds that make the direction orthogonal"},
                   OPTION("eps", 1e-7, "least norm that directions are divided by"),
                   OPTION("a", 3.4445, "coefficient of X"), OPTION("b", -4.775, "of X X' X"),
                   OPTION("c", 2.0315, "of X X' X X' X"),
                   {.name = "adjust",
                    .kind = SHOAL_ATTR_STRING,
                    .optional = true,
                    .fallback.s = "original",
                    .doc = "steps by fan-out A and fan-in B: \"original\" sqrt(max(1, A / B)), "
                           "\"match_rms_adamw\" 0.2 sqrt(max(A, B)), \"spectral_unclamped\" sqrt(A "
                           "/ B), \"none\" 1"},
                   {.name = "transposed",
                    .kind = SHOAL_ATTR_INT,
                    .optional = true,
                    .doc = "1: w is [in, out], so that columns are the fan-out"}),
    // Each matrix is read before any of it is written, but for its parameter.
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}, {1, 1}, {1, 2}),
    .uncut =
        "the last two dims: a direction is orthogonal as a whole (its decomposition cuts them)",
    .infer = muon_infer,
    .decompose = muon_decompose,
    .cost = muon_cost,
    .workspace = muon_workspace,
    .kernel = muon_kernel,
    SHOAL_OP_CASES("f64[3,5], f64[3,5], f64[3,5], f32[]+",
                   "f32[2,4,3], f32[2,4,3], f32[2,4,3], f32[]+ ; steps=2, nesterov=0",
                   "bf16[5,2], bf16[5,2], bf16[5,2], f32[]+ ; steps=1, adjust=\"none\"",
                   "f64[4,1], f64[4,1], f64[4,1], f64[]+ ; adjust=\"match_rms_adamw\", "
                   "transposed=1, weight_decay=0",
                   "f32[0,3], f32[0,3], f32[0,3], f32[]+"),
};
