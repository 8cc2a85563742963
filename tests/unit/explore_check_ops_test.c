// `shoal check ops` on decoys: ops of a user whose records say what is not so, each in one way.
// Each must fail, and for that reason; the honest one must not. (Native ops: tests/check_ops.sh.)
#include <math.h>

#include "base/dtype.h"
#include "op/families/emit.h"
#include "op/families/family.h"
#include "shoal/explore.h"
#include "unit.h"

// ---- shapes, kernels ---------------------------------------------------------------------------

static shoal_status_t same_infer(const shoal_call_t *call, shoal_type_t *out) {
  if (!shoal_dtype_is_float(call->inputs[0].dtype)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "x must have floats");
  }
  for (int32_t i = 1; i < call->input_count; ++i) {
    if (call->inputs[i].dtype != call->inputs[0].dtype ||
        !shoal_shape_equal(&call->inputs[i].shape, &call->inputs[0].shape)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "operands must have one type");
    }
  }
  out[0] = call->inputs[0];
  return NULL;
}

static shoal_status_t f64_infer(const shoal_call_t *call, shoal_type_t *out) {
  if (call->inputs[0].dtype != SHOAL_F64) return SHOAL_ERROR(INVALID_ARGUMENT, "x must be f64");
  return same_infer(call, out);
}

// A size of 0 is refused without a word.
static shoal_status_t mute_infer(const shoal_call_t *call, shoal_type_t *out) {
  if (shoal_shape_count(&call->inputs[0].shape) == 0) return SHOAL_ERROR(IO, "oops");
  return same_infer(call, out);
}

static shoal_status_t fold_infer(const shoal_call_t *call, shoal_type_t *out) {
  SHOAL_RETURN_IF_ERROR(f64_infer(call, out));
  if (out[0].shape.rank < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "x has no dim");
  --out[0].shape.rank;
  return NULL;
}

static double load(const shoal_tensor_t *t, int64_t i) {
  return shoal_dtype_load(t->dtype, t->data, i);
}

static void store(const shoal_tensor_t *t, int64_t i, double value) {
  shoal_dtype_store(t->dtype, t->data, i, value);
}

#define KERNEL(name)                                                             \
  static shoal_status_t name(const shoal_call_t *call, const shoal_tensor_t *in, \
                             const shoal_tensor_t *out, void *workspace)

// out[i] = f(x, y) of the elements of one or two inputs; n: how many there are.
#define MAP(name, value)                                                                     \
  KERNEL(name) {                                                                             \
    (void)call, (void)workspace;                                                             \
    const int64_t n = shoal_shape_count(&out->shape);                                        \
    for (int64_t i = 0; i < n; ++i) {                                                        \
      const double x = load(in, i), y = call->input_count > 1 ? load(&in[1], i) : (double)n; \
      (void)x, (void)y;                                                                      \
      store(out, i, (value));                                                                \
    }                                                                                        \
    return NULL;                                                                             \
  }

MAP(square_kernel, x *x)
MAP(product_kernel, x *y)
MAP(scaled_kernel, call->attrs[0].f *x)
MAP(infinite_kernel, x + (double)INFINITY)
MAP(narrow_kernel, in->dtype == SHOAL_F32 ? x * x * 1.001 : x * x)
MAP(swallowing_kernel, isnan(x) ? 0 : x *x)
MAP(reversed_kernel, load(in, n - 1 - i))
MAP(garbage_kernel, i == 2 ? load(out, i) : x)

// The second half is not used, and is multiplied by 0.
MAP(touching_kernel, 2 * i < n ? x + 0 * load(in, n - 1 - i) : 0)

// In place, the first element is lost; in the other, the last one of many.
KERNEL(hasty_kernel) {
  if (shoal_shape_count(&in->shape) > 0) store(out, 0, 7);
  return square_kernel(call, in, out, workspace);
}
KERNEL(blocked_kernel) {
  const int64_t n = shoal_shape_count(&in->shape);
  if (n >= 100) store(out, n - 1, 7);
  return square_kernel(call, in, out, workspace);
}

KERNEL(refusing_kernel) {
  if (in->dtype == SHOAL_BF16) return SHOAL_ERROR(UNSUPPORTED, "no loop for bf16");
  return square_kernel(call, in, out, workspace);
}

KERNEL(spilling_kernel) {
  store(out, shoal_shape_count(&out->shape), 1);
  return square_kernel(call, in, out, workspace);
}

KERNEL(changing_kernel) {
  SHOAL_RETURN_IF_ERROR(square_kernel(call, in, out, workspace));
  if (shoal_shape_count(&in->shape) > 0) store(in, 0, 5);
  return NULL;
}

// Sums of rows; of rows without elements it writes nothing.
KERNEL(forgetting_kernel) {
  (void)call, (void)workspace;
  const int64_t length = in->shape.dims[in->shape.rank - 1];
  for (int64_t r = 0; length > 0 && r < shoal_shape_count(&out->shape); ++r) {
    double sum = 0;
    for (int64_t i = 0; i < length; ++i) sum += load(in, r * length + i);
    store(out, r, sum);
  }
  return NULL;
}

// ---- gradients, decompositions -----------------------------------------------------------------

#define GRADIENT(name)                                                                  \
  static void name(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in, \
                   const shoal_ref_t *out, const shoal_ref_t *grads, shoal_ref_t *in_grads)

GRADIENT(square_gradient) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_affine(e, shoal_emit_binary(e, "shoal.mul", grads[0], in[0]), 2, 0);
}

GRADIENT(wrong_gradient) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", grads[0], in[0]);
}

GRADIENT(near_gradient) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_affine(e, shoal_emit_binary(e, "shoal.mul", grads[0], in[0]), 2.0001, 0);
}

GRADIENT(half_gradient) {
  (void)call, (void)out;
  in_grads[0] = shoal_emit_binary(e, "shoal.mul", grads[0], in[1]);
}

// The option is forgotten.
GRADIENT(plain_gradient) {
  (void)call, (void)out, (void)in, (void)e;
  in_grads[0] = grads[0];
}

GRADIENT(failing_gradient) {
  (void)call, (void)out, (void)in, (void)grads, (void)in_grads;
  shoal_emit_fail(e, SHOAL_ERROR(UNSUPPORTED, "not today"));
}

static void square_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                             shoal_ref_t *out) {
  (void)call;
  out[0] = shoal_emit_unary(e, "shoal.square", in[0]);
}

static void wrong_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            shoal_ref_t *out) {
  (void)call;
  out[0] = shoal_emit_unary(e, "shoal.abs", in[0]);
}

// The right numbers; but no gradient flows through trunc, which takes nothing off: half is lost.
static void still_decompose(const shoal_call_t *call, shoal_emitter_t *e, const shoal_ref_t *in,
                            shoal_ref_t *out) {
  (void)call;
  const shoal_ref_t large = shoal_emit_affine(e, in[0], 0x1p52, 0);
  const shoal_ref_t still =
      shoal_emit_affine(e, shoal_emit_unary(e, "shoal.trunc", large), 0x1p-52, 0);
  out[0] = shoal_emit_binary(e, "shoal.mul", in[0], still);
}

// ---- running -----------------------------------------------------------------------------------

typedef struct heard {
  char text[20000];
  int64_t lines;
} heard_t;

static void hear(void *self, const char *line) {
  heard_t *heard = self;
  const size_t length = strlen(heard->text);
  snprintf(heard->text + length, sizeof heard->text - length, "%s\n", line);
  ++heard->lines;
}

// What the check says of the op; its report.
static shoal_check_ops_report_t check(const shoal_op_t *op, heard_t *heard, bool *out_failed) {
  shoal_registry_t *registry;
  shoal_check_ops_report_t report;
  *heard = (heard_t){.lines = 0};
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_op_register(registry, op));
  const shoal_check_ops_options_t options = {
      .op = op->name, .shapes = 8, .seed = 1, .line = hear, .line_self = heard};
  shoal_status_t status = shoal_check_ops(registry, &options, &report);
  *out_failed = shoal_status_code(status) == SHOAL_MISMATCH;
  if (!*out_failed) assert_ok(status);
  shoal_status_free(status);
  shoal_registry_release(registry);
  return report;
}

// A square with everything in order; decoys change one thing.
#define SQUARE                                                                        \
  .name = "user.decoy", .doc = "x^2.", SHOAL_OP_INPUTS("x"), SHOAL_OP_OUTPUTS("out"), \
  .infer = same_infer, .gradient = square_gradient, .kernel = square_kernel,          \
  SHOAL_OP_CASES("f64[3,5]", "f32[2,3]")
#define PRODUCT                                                                            \
  .name = "user.decoy", .doc = "x y.", SHOAL_OP_INPUTS("x", "y"), SHOAL_OP_OUTPUTS("out"), \
  .infer = same_infer, .gradient = half_gradient, .kernel = product_kernel,                \
  SHOAL_OP_CASES("f64[3,5], f64[3,5]", "f32[4], f32[4]")

static void honest_op_passes(void **state) {
  (void)state;
  static heard_t heard;
  bool failed;
  const shoal_op_t op = {SQUARE, SHOAL_OP_OVERWRITES({0, 0}), .decompose = square_decompose};
  const shoal_check_ops_report_t report = check(&op, &heard, &failed);
  if (failed) fail_msg("%s", heard.text);
  const shoal_check_ops_counts_t *n = &report.counts;
  assert_true(report.ops == 1 && report.failed == 0 && n->random == 8);
  assert_true(n->gradients > 0 && n->decompositions > 0 && n->dtypes > 0 && n->empty > 0);
  assert_true(n->nan > 0 && n->in_place > 0 && n->ways > 0 && n->repeats > 0);
  assert_int_equal(heard.lines, 1);
}

typedef struct decoy {
  const char *what, *says;  // says: part of the line that must be there
  shoal_op_t op;
} decoy_t;

static const shoal_attr_schema_t scale[] = {{.name = "scale",
                                             .kind = SHOAL_ATTR_REAL,
                                             .optional = true,
                                             .fallback = {.f = 1},
                                             .doc = "factor"}};
static const shoal_overwrite_t over_x[] = {{0, 0}};
static const char *const scaled_cases[] = {"f64[3,5]", "f32[2,3]", "f64[3] ; scale=3", NULL};
static const char *const f64_cases[] = {"f64[3,5]", "f64[4,2]", NULL};

static void decoys_are_caught(void **state) {
  (void)state;
  decoy_t decoys[] = {
      {"wrong gradient", "gradient by input 0", {SQUARE}},
      {"a gradient by one input of two", "gradient by input 1", {PRODUCT}},
      {"no gradient flows", "gradient by input 0", {SQUARE}},
      {"a gradient that forgets an option", "gradient by input 0", {SQUARE}},
      {"a gradient that cannot be written", "not today", {SQUARE}},
      {"a gradient that is never compared", "never compared", {SQUARE}},
      {"wrong decomposition", "of its decomposition", {SQUARE}},
      {"another function in f32", "in f64", {SQUARE}},
      {"a dtype without a kernel", "no loop for bf16", {SQUARE}},
      {"moves elements, f64 only", "does not take every dtype", {SQUARE}},
      {"a size of 0 refused without reason", "no clear refusal", {SQUARE}},
      {"nothing written for empty rows", "depends on what was in the outputs", {SQUARE}},
      {"NaN swallowed", "it depends on it and is not NaN", {SQUARE}},
      {"reads what it has overwritten", "in place (output 0 over input 0)", {SQUARE}},
      {"reads its output", "depends on what was in the outputs", {SQUARE}},
      {"changes its input", "it changes input 0", {SQUARE}},
      {"writes behind its output", "behind the end of", {SQUARE}},
      {"a gradient that is nearly right", "gradient by input 0", {SQUARE}},
      {"a decomposition with another gradient", "a gradient[", {SQUARE}},
      {"multiplies what it does not use by 0", "nothing depends on that element", {SQUARE}},
      {"overwrites its first element", "in place (output 0 over input 0)", {SQUARE}},
      {"overwrites one of many", "in place (output 0 over input 0)", {SQUARE}},
  };
  enum { COUNT = sizeof decoys / sizeof *decoys };
  decoys[0].op.gradient = wrong_gradient;
  decoys[2].op.gradient = shoal_gradient_none;
  decoys[3].op.gradient = plain_gradient;
  decoys[3].op.kernel = scaled_kernel;
  decoys[3].op.attrs = scale;
  decoys[3].op.attr_count = 1;
  decoys[3].op.cases = scaled_cases;
  decoys[4].op.gradient = failing_gradient;
  decoys[5].op.kernel = infinite_kernel;
  decoys[6].op.decompose = wrong_decompose;
  decoys[7].op.kernel = narrow_kernel;
  decoys[8].op.kernel = refusing_kernel;
  decoys[9].op.any_dtype = true;
  decoys[9].op.infer = f64_infer;
  decoys[9].op.cases = f64_cases;
  decoys[10].op.infer = mute_infer;
  decoys[11].op.kernel = forgetting_kernel;
  decoys[11].op.infer = fold_infer;
  decoys[11].op.gradient = NULL;
  decoys[11].op.cases = f64_cases;
  decoys[12].op.kernel = swallowing_kernel;
  decoys[13].op.kernel = reversed_kernel;
  decoys[13].op.gradient = NULL;
  decoys[13].op.overwrites = over_x;
  decoys[13].op.overwrite_count = 1;
  decoys[14].op.kernel = garbage_kernel;
  decoys[14].op.gradient = NULL;
  decoys[15].op.kernel = changing_kernel;
  decoys[15].op.gradient = NULL;
  decoys[16].op.kernel = spilling_kernel;
  decoys[16].op.gradient = NULL;
  decoys[17].op.gradient = near_gradient;
  decoys[18].op.decompose = still_decompose;
  decoys[19].op.kernel = touching_kernel;
  for (int i = 20; i < 22; ++i) {
    decoys[i].op.kernel = i == 20 ? hasty_kernel : blocked_kernel;
    decoys[i].op.overwrites = over_x;
    decoys[i].op.overwrite_count = 1;
  }
  for (size_t i = 0; i < COUNT; ++i) {
    static heard_t heard;
    bool failed;
    const shoal_check_ops_report_t report = check(&decoys[i].op, &heard, &failed);
    if (!failed || report.failed != 1) fail_msg("%s: passed", decoys[i].what);
    if (!strstr(heard.text, decoys[i].says)) fail_msg("%s: %s", decoys[i].what, heard.text);
    assert_non_null(strstr(heard.text, "again: shoal check ops user.decoy --seed 1 --shapes 8"));
  }
}

// An op that cannot be checked is not counted, and says why.
static void nothing_to_check(void **state) {
  (void)state;
  static heard_t heard;
  bool failed;
  shoal_op_t op = {SQUARE};
  op.cases = NULL;
  op.gradient = NULL;
  assert_int_equal(check(&op, &heard, &failed).ops, 0);
  assert_non_null(strstr(heard.text, "not checked: it has no example calls"));
  op.gradient = square_gradient;
  check(&op, &heard, &failed);
  if (!failed) fail_msg("an op with a gradient and no examples passed");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(honest_op_passes),
      cmocka_unit_test(decoys_are_caught),
      cmocka_unit_test(nothing_to_check),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
