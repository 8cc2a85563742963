// Element-wise ops of two and more operands, with numpy's broadcasting: arithmetic, comparison,
// choice; and cast. Integers wrap around; bool counts as 0 and 1, and what is not 0 is stored as 1.
// max and min pass NaN on. Element-wise ops of one operand are in unary.c.
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"

#define EACH (EACH_REAL + EACH_HALF + EACH_INT)
#define KERNELS "op/families/elementwise.c"
#include "op/families/each.h"

MAP_KERNEL(add, TABLE_ALL)
MAP_KERNEL(sub, TABLE_ALL)
MAP_KERNEL(mul, TABLE_ALL)
MAP_KERNEL(div, TABLE_FLOAT)
MAP_KERNEL(maximum, TABLE_ALL)
MAP_KERNEL(minimum, TABLE_ALL)
MAP_KERNEL(greater_equal, TABLE_ALL)
MAP_KERNEL(equal, TABLE_ALL)
MAP_KERNEL(where, TABLE_ALL)

// ---- shapes ----------------------------------------------------------------------------

static shoal_status_t binary_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 0, 1));
  out_types[0].dtype = call->inputs[0].dtype;
  return shoal_check_broadcast(call, 0, 2, &out_types[0].shape);
}

static shoal_status_t div_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  return binary_infer(call, out_types);
}

static shoal_status_t compare_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  SHOAL_RETURN_IF_ERROR(binary_infer(call, out_types));
  out_types[0].dtype = SHOAL_BOOL;
  return NULL;
}

static shoal_status_t where_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const shoal_type_t *in = call->inputs;
  REQUIRE_HINT(call, in[0].dtype == SHOAL_BOOL, "compare it with something: shoal_not_equal, ...",
               "condition must be bool, not %s", shoal_dtype_name(in[0].dtype));
  SHOAL_RETURN_IF_ERROR(shoal_check_same_dtype(call, 1, 2));
  shoal_shape_t shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_broadcast(call, 0, 3, &shape));
  out_types[0] = (shoal_type_t){in[1].dtype, shape};
  return NULL;
}

// ---- gradients -------------------------------------------------------------------------

// Gradients of a and b before broadcasting is undone.
static void finish(const shoal_call_t *call, shoal_emitter_t *e, int32_t first, shoal_ref_t da,
                   shoal_ref_t db, shoal_ref_t *in_grads) {
  in_grads[first] = shoal_emit_sum_to(e, da, &call->inputs[first].shape);
  in_grads[first + 1] = shoal_emit_sum_to(e, db, &call->inputs[first + 1].shape);
}

OP_GRADIENT(add) {
  (void)in, (void)out;
  finish(call, e, 0, grads[0], grads[0], in_grads);
}

OP_GRADIENT(sub) {
  (void)in, (void)out;
  finish(call, e, 0, grads[0], shoal_emit_unary(e, "shoal.neg", grads[0]), in_grads);
}

OP_GRADIENT(mul) {
  (void)out;
  finish(call, e, 0, shoal_emit_binary(e, "shoal.mul", grads[0], in[1]),
         shoal_emit_binary(e, "shoal.mul", grads[0], in[0]), in_grads);
}

// d(a/b)/db = -(a/b)/b
OP_GRADIENT(div) {
  const shoal_ref_t da = shoal_emit_binary(e, "shoal.div", grads[0], in[1]);
  const shoal_ref_t db = shoal_emit_binary(e, "shoal.mul", da, out[0]);
  finish(call, e, 0, da, shoal_emit_unary(e, "shoal.neg", db), in_grads);
}

static void choose(const shoal_call_t *call, shoal_emitter_t *e, int32_t first,
                   shoal_ref_t condition, shoal_ref_t dy, shoal_ref_t *in_grads) {
  const shoal_ref_t zero = shoal_emit_scalar(e, call->inputs[first].dtype, 0);
  finish(call, e, first, shoal_emit_where(e, condition, dy, zero),
         shoal_emit_where(e, condition, zero, dy), in_grads);
}

// The smaller (or larger) operand gets no gradient; at ties each gets half.
static void share(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                  const char *loses, shoal_ref_t dy, shoal_ref_t *in_grads) {
  const shoal_ref_t zero = shoal_emit_scalar(e, call->inputs[0].dtype, 0);
  const shoal_ref_t tie = shoal_emit_binary(e, "shoal.equal", in[0], in[1]);
  const shoal_ref_t part = shoal_emit_where(e, tie, shoal_emit_affine(e, dy, 0.5, 0), dy);
  finish(call, e, 0, shoal_emit_where(e, shoal_emit_binary(e, loses, in[0], in[1]), zero, part),
         shoal_emit_where(e, shoal_emit_binary(e, loses, in[1], in[0]), zero, part), in_grads);
}

OP_GRADIENT(maximum) {
  (void)out;
  share(call, e, in, "shoal.less", grads[0], in_grads);
}

OP_GRADIENT(minimum) {
  (void)out;
  share(call, e, in, "shoal.greater", grads[0], in_grads);
}

OP_GRADIENT(where) {
  (void)out;
  choose(call, e, 1, in[0], grads[0], in_grads);
}

// ---- records ---------------------------------------------------------------------------

#define ARITHMETIC_CASES                                                               \
  "f64[3,5], f64[3,5]", "f32[2,3,5], f32[5]", "f64[3,1], f64[7,1,5]", "f64[], f64[4]", \
      "bf16[3,5], bf16[3,1]", "i64[7]<100, i64[7]<9", "i32[3,5]<9, i32[]<9", "f32[0,3], f32[3]"

SHOAL_OP_BINARY(
    add,
    "a + b, broadcast like numpy. a and b have one dtype; integers wrap, and bools are joined "
    "by or.",
    NULL, binary_infer, add_gradient, ARITHMETIC_CASES);
SHOAL_OP_BINARY(
    sub,
    "a - b, broadcast like numpy. a and b have one dtype; integers wrap, and of bools it is xor.",
    NULL, binary_infer, sub_gradient, ARITHMETIC_CASES);
SHOAL_OP_BINARY(
    mul,
    "a * b, broadcast like numpy. a and b have one dtype; integers wrap, and bools are joined "
    "by and.",
    NULL, binary_infer, mul_gradient, ARITHMETIC_CASES);
SHOAL_OP_BINARY(
    div,
    "a / b of floats of one dtype, broadcast like numpy. A b of 0 gives inf, -inf or NaN; "
    "integers are divided by floor_div.",
    NULL, div_infer, div_gradient, "f64[3,5], f64[3,5]+", "f32[2,3,5], f32[5]+",
    "f64[3,1], f64[7,1,5]+", "f16[3,5], f16[]+", "f32[], f32[3,5]+");
SHOAL_OP_BINARY(
    maximum,
    "The larger of a and b, broadcast like numpy; NaN if one is. Where they are equal each gets "
    "half of the gradient.",
    NULL, binary_infer, maximum_gradient, ARITHMETIC_CASES);
SHOAL_OP_BINARY(
    minimum,
    "The smaller of a and b, broadcast like numpy; NaN if one is. Where they are equal each "
    "gets half of the gradient.",
    NULL, binary_infer, minimum_gradient, ARITHMETIC_CASES);
SHOAL_OP_BINARY(greater_equal, "a >= b as bool, broadcast like numpy.", "false where a or b is NaN",
                compare_infer, shoal_gradient_none, ARITHMETIC_CASES);
SHOAL_OP_BINARY(equal, "a == b as bool, broadcast like numpy.", "false where a or b is NaN",
                compare_infer, shoal_gradient_none, "f64[3,5], f64[3,5]", "f32[3,1], f32[5]",
                "i32[3,5]<3, i32[3,5]<3", "u8[7]<4, u8[]<4", "bool[3,5], bool[5]",
                "i64[0], i64[1]");

const shoal_op_t shoal_op_where = {
    .name = "shoal.where",
    .doc =
        "a where condition, a bool, is true, b elsewhere; broadcast like numpy. Only the side that "
        "is chosen gets a gradient.",
    .nan = "what the side that is not chosen holds does not matter",
    SHOAL_OP_INPUTS("condition", "a", "b"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_OVERWRITES({0, 0}, {0, 1}, {0, 2}),
    .infer = where_infer,
    .gradient = where_gradient,
    .kernel = where_kernel,
    SHOAL_OP_CASES("bool[3,5], f64[3,5], f64[3,5]", "bool[3,5], f32[2,3,5], f32[]",
                   "bool[5], f64[3,1], f64[5]", "bool[3,5], i32[3,5]<9, i32[5]<9",
                   "bool[], bf16[7], bf16[7]"),
};

// ---- cast ------------------------------------------------------------------------------

enum { CAST_DTYPE, CAST_SCALE };

static shoal_status_t cast_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  const double scale = call->attrs[CAST_SCALE].f;
  const shoal_dtype_t to = (shoal_dtype_t)call->attrs[CAST_DTYPE].i;
  REQUIRE_HINT(call, isfinite(scale), "leave it out for 1", "scale is %g: it must be finite",
               scale);
  REQUIRE_HINT(call, scale == 1 || shoal_dtype_is_real(to),
               "leave it out, and scale the floats before the cast (shoal_affine)",
               "scale is %g, and the result is %s: only a result of floats is scaled", scale,
               shoal_dtype_name(to));
  out_types[0] = (shoal_type_t){to, call->inputs[0].shape};
  return NULL;
}

OP_GRADIENT(cast) {
  (void)in, (void)out;
  const shoal_dtype_t from = call->inputs[0].dtype;
  const double scale = call->attrs[CAST_SCALE].f;
  if (!shoal_dtype_is_float(from)) return;
  in_grads[0] =
      scale == 1
          ? shoal_emit_cast(e, grads[0], from)
          : shoal_emit_one(e, "shoal.cast", REFS(grads[0]),
                           ATTRS(shoal_attr_dtype("dtype", from), shoal_attr_real("scale", scale)));
}

static shoal_status_t cast_kernel(const shoal_call_t *call, const shoal_tensor_t *inputs,
                                  const shoal_tensor_t *outputs, void *workspace) {
  (void)workspace;
  const shoal_dtype_t from = inputs->dtype, to = outputs->dtype;
  const double scale = call->attrs[CAST_SCALE].f;
  const int64_t count = shoal_shape_count(&inputs->shape);
  const void *x = inputs->data;
  void *y = outputs->data;
  if (scale != 1) {
    for (int64_t i = 0; i < count; ++i)
      shoal_dtype_store(to, y, i, scale * shoal_dtype_load(from, x, i));
  } else if (from == to) {
    if (count && y != x) memcpy(y, x, (size_t)count * shoal_dtype_size(from));
  } else if (shoal_dtype_is_real(from) || shoal_dtype_is_real(to)) {
    for (int64_t i = 0; i < count; ++i) shoal_dtype_store(to, y, i, shoal_dtype_load(from, x, i));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store_int(to, y, i, shoal_dtype_load_int(from, x, i));
    }
  }
  return NULL;
}

const shoal_op_t shoal_op_cast = {
    .name = "shoal.cast",
    .doc =
        "x as another dtype. Floats round to nearest even; to integers they are truncated and kept "
        "within the type's range, NaN is 0; integers wrap; to bool, what is not 0 is 1. i8, "
        "f8_e4m3 and f8_e5m2 are for storage, and other ops want them cast first: beyond 448, "
        "f8_e4m3 is NaN; beyond 57344, f8_e5m2 is infinite.",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(
        {.name = "dtype", .kind = SHOAL_ATTR_DTYPE, .doc = "dtype of the result"},
        {.name = "scale",
         .kind = SHOAL_ATTR_REAL,
         .optional = true,
         .fallback = {.f = 1},
         .doc = "where the result is floats: x is multiplied by it before it is rounded"}),
    SHOAL_OP_OVERWRITES({0, 0}),
    .any_dtype = true,
    .infer = cast_infer,
    .gradient = cast_gradient,
    .kernel = cast_kernel,
    SHOAL_OP_CASES("f64[3,5] ; dtype=f32", "f32[7] ; dtype=f64", "f32[3,5] ; dtype=bf16",
                   "i32[3,5]<9 ; dtype=f32", "f32[5] ; dtype=i64", "bf16[3] ; dtype=f16",
                   "i64[5]<300 ; dtype=u8", "f32[0,2] ; dtype=f64", "f32[3,5] ; dtype=f8_e4m3",
                   "f8_e5m2[7] ; dtype=bf16", "f8_e4m3[3,2] ; dtype=f8_e5m2",
                   "i64[5]<300 ; dtype=i8", "i8[3,2]<90 ; dtype=f32",
                   "f32[3,5] ; dtype=f16, scale=16", "f16[7] ; dtype=f32, scale=0.0625"),
};

#else  // per element type

static inline R K(larger)(R x, R y) {
  return x > y || IS_NAN(x) ? x : y;
}

static inline R K(smaller)(R x, R y) {
  return x < y || IS_NAN(x) ? x : y;
}

// One loop per common pattern of steps, so that the compiler can vectorise it.
#define PAIR_LOOP(name, O, RESULT)                                                      \
  static void K(name)(int64_t n, const void *const *in, const int64_t *step, void *out, \
                      const double *params) {                                           \
    const S *a = in[0], *b = in[1];                                                     \
    O *o = out;                                                                         \
    (void)params;                                                                       \
    if (step[0] == 1 && step[1] == 1) {                                                 \
      EACH_BY_ITSELF                                                                    \
      for (int64_t i = 0; i < n; ++i) {                                                 \
        const R x = LOAD(a[i]), y = LOAD(b[i]);                                         \
        o[i] = RESULT;                                                                  \
      }                                                                                 \
    } else if (step[0] == 1 && step[1] == 0) {                                          \
      const R y = LOAD(b[0]);                                                           \
      EACH_BY_ITSELF                                                                    \
      for (int64_t i = 0; i < n; ++i) {                                                 \
        const R x = LOAD(a[i]);                                                         \
        o[i] = RESULT;                                                                  \
      }                                                                                 \
    } else if (step[0] == 0 && step[1] == 1) {                                          \
      const R x = LOAD(a[0]);                                                           \
      EACH_BY_ITSELF                                                                    \
      for (int64_t i = 0; i < n; ++i) {                                                 \
        const R y = LOAD(b[i]);                                                         \
        o[i] = RESULT;                                                                  \
      }                                                                                 \
    } else {                                                                            \
      EACH_BY_ITSELF                                                                    \
      for (int64_t i = 0; i < n; ++i) {                                                 \
        const R x = LOAD(a[i * step[0]]), y = LOAD(b[i * step[1]]);                     \
        o[i] = RESULT;                                                                  \
      }                                                                                 \
    }                                                                                   \
  }

PAIR_LOOP(add, S, STORE((R)((W)x + (W)y)))
PAIR_LOOP(sub, S, STORE((R)((W)x - (W)y)))
PAIR_LOOP(mul, S, STORE((R)((W)x *(W)y)))
PAIR_LOOP(maximum, S, STORE(K(larger)(x, y)))
PAIR_LOOP(minimum, S, STORE(K(smaller)(x, y)))
PAIR_LOOP(greater_equal, uint8_t, x >= y)
PAIR_LOOP(equal, uint8_t, x == y)

static void K(where)(int64_t n, const void *const *in, const int64_t *step, void *out,
                     const double *params) {
  const uint8_t *c = in[0];
  const S *a = in[1], *b = in[2];
  S *o = out;
  (void)params;
  EACH_BY_ITSELF
  for (int64_t i = 0; i < n; ++i) o[i] = c[i * step[0]] ? a[i * step[1]] : b[i * step[2]];
}

#if FLOATING
PAIR_LOOP(div, S, STORE(x / y))
#endif

#endif
