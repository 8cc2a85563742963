// Every case of every native op: there are enough of them, infer and kernel agree, results depend
// on the inputs only (not on what outputs and workspace held), all float dtypes compute what f64
// computes, and an output that is written over an input, as the record allows, has the same bits.
#include "op/indices.h"
#include "op_support.h"

typedef void (*check_fn_t)(bench_t *b, const shoal_case_t *c, const char *text);

static void for_each_case(check_fn_t check) {
  bench_t b;
  bench_init(&b);
  for (int64_t i = 0; i < shoal_registry_count(b.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(b.registry, i);
    for (int32_t k = 0; op->cases && op->cases[k]; ++k) {
      shoal_arena_t keep = b.arena;
      shoal_arena_init(shoal_allocator_system(), &b.arena);
      shoal_case_t c;
      assert_ok(shoal_case_parse(op, op->cases[k], &b.arena, &c));
      check(&b, &c, op->cases[k]);
      shoal_arena_deinit(&b.arena);
      b.arena = keep;
    }
  }
  bench_deinit(&b);
}

// Inputs of a case, with floats in `dtype` unless it is SHOAL_DTYPE_COUNT; values as rounded to the
// case's own.
static void fill_inputs(bench_t *b, const shoal_case_t *c, shoal_dtype_t dtype,
                        shoal_tensor_t *out_inputs) {
  for (int32_t i = 0; i < c->input_count; ++i) {
    const shoal_type_t *type = &c->inputs[i];
    shoal_tensor_t own = new_tensor(b, type->dtype, type->shape, 0);
    shoal_case_fill(c, i, 11, own);
    out_inputs[i] = own;
    if (!shoal_dtype_is_float(type->dtype) || dtype == SHOAL_DTYPE_COUNT) continue;
    out_inputs[i] = new_tensor(b, dtype, type->shape, 0);
    for (int64_t k = 0; k < shoal_shape_count(&type->shape); ++k) {
      shoal_dtype_store(dtype, out_inputs[i].data, k, at(&own, k));
    }
  }
}

static void depends_on_inputs_only(bench_t *b, const shoal_case_t *c, const char *text) {
  shoal_tensor_t in[MAX_OPERANDS], first[MAX_OPERANDS], second[MAX_OPERANDS];
  fill_inputs(b, c, SHOAL_DTYPE_COUNT, in);
  assert_ok(run_bound(b, c->op, c->attrs, c->input_count, in, 0x00, first));
  assert_ok(run_bound(b, c->op, c->attrs, c->input_count, in, 0xff, second));
  for (int32_t i = 0; i < shoal_op_outputs(c->op, c->attrs); ++i) {
    const int64_t bytes = bytes_of(first[i].dtype, &first[i].shape);
    if (bytes && memcmp(first[i].data, second[i].data, (size_t)bytes) != 0) {
      fail_msg("%s '%s': output %d depends on what was there", c->op->name, text, i);
    }
  }
}

static void cases_run(void **state) {
  (void)state;
  for_each_case(depends_on_inputs_only);
}

// ---- overwriting ------------------------------------------------------------------------

// Which input each output is written over; -1: none.
typedef struct lying {
  int32_t over[MAX_OPERANDS];
} lying_t;

static int64_t largest(int64_t a, int64_t b) {
  return a > b ? a : b;
}

// Runs the call with outputs where `lying` puts them, and compares with what they should be.
static void run_lying(bench_t *b, const shoal_call_t *call, const shoal_tensor_t *inputs,
                      const shoal_tensor_t *expected, const lying_t *lying, const char *text) {
  shoal_tensor_t in[MAX_OPERANDS], out[MAX_OPERANDS];
  for (int32_t i = 0; i < call->input_count; ++i) {
    int64_t own = bytes_of(inputs[i].dtype, &inputs[i].shape), bytes = own;
    for (int32_t o = 0; o < call->output_count; ++o) {
      if (lying->over[o] != i) continue;
      bytes = largest(bytes, bytes_of(expected[o].dtype, &expected[o].shape));
    }
    in[i] = inputs[i];
    in[i].data = guarded(b, bytes, 0);
    if (own) memcpy(in[i].data, inputs[i].data, (size_t)own);
  }
  for (int32_t o = 0; o < call->output_count; ++o) {
    out[o] = expected[o];
    out[o].data = lying->over[o] >= 0 ? in[lying->over[o]].data
                                      : guarded(b, bytes_of(out[o].dtype, &out[o].shape), 0xff);
  }
  void *workspace = guarded(b, call->op->workspace ? call->op->workspace(call) : 0, 0xff);
  assert_ok(call->op->kernel(call, in, out, workspace));
  for (int32_t o = 0; o < call->output_count; ++o) {
    const int64_t bytes = bytes_of(out[o].dtype, &out[o].shape);
    if (bytes && memcmp(out[o].data, expected[o].data, (size_t)bytes) != 0) {
      fail_msg("%s '%s': output %d differs (output 0 over input %d, 1 over %d)", call->op->name,
               text, o, lying->over[0], call->output_count > 1 ? lying->over[1] : -1);
    }
  }
}

// All ways to write outputs from `output` on over inputs that are free.
static int64_t run_all_lying(bench_t *b, const shoal_call_t *call, const shoal_tensor_t *inputs,
                             const shoal_tensor_t *expected, lying_t *lying, int32_t output,
                             const char *text) {
  if (output == call->output_count) {
    run_lying(b, call, inputs, expected, lying, text);
    return 1;
  }
  int64_t count = 0;
  for (int32_t i = -1; i < call->input_count; ++i) {
    bool free = i < 0 || shoal_op_overwrites(call, output, i);
    for (int32_t o = 0; o < output; ++o) free &= i < 0 || lying->over[o] != i;
    if (!free) continue;
    lying->over[output] = i;
    count += run_all_lying(b, call, inputs, expected, lying, output + 1, text);
  }
  return count;
}

// The case as it is, and with its first dims `longer`, so that loops are vectorised, where the op
// takes that.
static int64_t overwrites_when(bench_t *b, const shoal_case_t *c, const char *text,
                               int64_t longer) {
  shoal_case_t grown = *c;
  shoal_type_t types[MAX_OPERANDS], made[MAX_OPERANDS];
  shoal_tensor_t in[MAX_OPERANDS], out[MAX_OPERANDS];
  lying_t lying;
  for (int32_t i = 0; i < c->input_count; ++i) {
    types[i] = c->inputs[i];
    if (types[i].shape.rank > 0 && types[i].shape.dims[0] > 1) types[i].shape.dims[0] *= longer;
    grown.inputs[i] = types[i];
  }
  shoal_call_t call = {c->op, c->input_count, shoal_op_outputs(c->op, c->attrs),
                       types, NULL,           c->attrs};
  shoal_status_t status = shoal_op_infer(&call, made);
  const bool fits = !status;
  shoal_status_free(status);
  if (!fits) return 0;
  call.outputs = made;
  fill_inputs(b, &grown, SHOAL_DTYPE_COUNT, in);
  assert_ok(run_bound(b, c->op, c->attrs, c->input_count, in, 0, out));
  return run_all_lying(b, &call, in, out, &lying, 0, text) - 1;
}

static int64_t overwritten;

static void overwrites_well(bench_t *b, const shoal_case_t *c, const char *text) {
  overwritten += overwrites_when(b, c, text, 1) + overwrites_when(b, c, text, 100);
}

static void outputs_overwrite_inputs(void **state) {
  (void)state;
  for_each_case(overwrites_well);
  assert_true(overwritten > 500);
}

// The dtype of an attribute decides the output's, not the inputs'.
static bool has_dtype(const shoal_op_t *op) {
  for (int32_t i = 0; i < op->attr_count; ++i) {
    if (op->attrs[i].kind == SHOAL_ATTR_DTYPE) return true;
  }
  return false;
}

static void agrees_with_f64(bench_t *b, const shoal_case_t *c, const char *text) {
  double eps = 0;
  for (int32_t i = 0; i < c->input_count; ++i) {
    eps = fmax(eps, shoal_dtype_epsilon(c->inputs[i].dtype));
  }
  if (eps <= shoal_dtype_epsilon(SHOAL_F64) || has_dtype(c->op)) return;
  shoal_tensor_t in[MAX_OPERANDS], own[MAX_OPERANDS], wide[MAX_OPERANDS];
  fill_inputs(b, c, SHOAL_DTYPE_COUNT, in);
  assert_ok(run_bound(b, c->op, c->attrs, c->input_count, in, 0, own));
  fill_inputs(b, c, SHOAL_F64, in);
  assert_ok(run_bound(b, c->op, c->attrs, c->input_count, in, 0, wide));
  for (int32_t i = 0; i < shoal_op_outputs(c->op, c->attrs); ++i) {
    assert_true(shoal_shape_equal(&own[i].shape, &wide[i].shape));
    const int64_t count = shoal_shape_count(&own[i].shape);
    double scale = 1;
    for (int64_t k = 0; k < count; ++k) {
      if (isfinite(at(&wide[i], k))) scale = fmax(scale, fabs(at(&wide[i], k)));
    }
    for (int64_t k = 0; k < count; ++k) {
      const double x = at(&own[i], k), y = at(&wide[i], k);
      if (x == y || fabs(x - y) <= 4 * eps * scale) continue;
      fail_msg("%s '%s': output %d[%lld] is %g, in f64 %g", c->op->name, text, i, (long long)k, x,
               y);
    }
  }
}

static void dtypes_agree(void **state) {
  (void)state;
  for_each_case(agrees_with_f64);
}

// Whether a kernel takes `index` in every element of an integer input.
static bool takes(bench_t *b, const shoal_case_t *c, int32_t input, int64_t index) {
  shoal_tensor_t in[MAX_OPERANDS], out[MAX_OPERANDS];
  fill_inputs(b, c, SHOAL_DTYPE_COUNT, in);
  for (int64_t k = 0; k < shoal_shape_count(&in[input].shape); ++k) {
    shoal_dtype_store_int(in[input].dtype, in[input].data, k, index);
  }
  shoal_status_t status = run_bound(b, c->op, c->attrs, c->input_count, in, 0, out);
  const bool taken = !status;
  shoal_status_free(status);
  return taken;
}

// An op that refuses an integer says in its record which ones it takes: test data relies on it.
static void says_its_indices(bench_t *b, const shoal_case_t *c, const char *text) {
  const shoal_call_t call = {c->op,     c->input_count, shoal_op_outputs(c->op, c->attrs),
                             c->inputs, NULL,           c->attrs};
  for (int32_t i = 0; i < c->input_count; ++i) {
    const shoal_dtype_t dtype = c->inputs[i].dtype;
    if (shoal_dtype_is_float(dtype) || dtype == SHOAL_BOOL) continue;
    if (shoal_shape_count(&c->inputs[i].shape) == 0) continue;
    const int64_t count = shoal_indices(&call, i);
    int64_t spare;
    if (count == 0 && !takes(b, c, i, 200)) {
      fail_msg("%s '%s': input %d holds indices, but index_count does not say so", c->op->name,
               text, i);
    }
    if (count > 0) {
      assert_true(takes(b, c, i, 0) && takes(b, c, i, count - 1));
      assert_false(takes(b, c, i, count));
      if (shoal_indices_spare(&call, i, &spare)) assert_true(takes(b, c, i, spare));
    }
  }
}

static void indices_are_declared(void **state) {
  (void)state;
  for_each_case(says_its_indices);
}

// At least two cases, among them f64 and f32 if it takes floats; documentation everywhere; a cost
// that is not negative.
static void records_are_complete(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int64_t i = 0; i < shoal_registry_count(b.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(b.registry, i);
    int32_t cases = 0;
    bool seen[SHOAL_DTYPE_COUNT] = {false};
    assert_non_null(op->doc);
    assert_non_null(op->kernel);
    for (int32_t k = 0; k < op->attr_count; ++k) assert_non_null(op->attrs[k].doc);
    for (; op->cases && op->cases[cases]; ++cases) {
      shoal_case_t c;
      assert_ok(shoal_case_parse(op, op->cases[cases], &b.arena, &c));
      shoal_type_t out[MAX_OPERANDS];
      shoal_call_t call = {op,       c.input_count, shoal_op_outputs(op, c.attrs),
                           c.inputs, NULL,          c.attrs};
      assert_ok(shoal_op_infer(&call, out));
      call.outputs = out;
      const shoal_cost_t cost = shoal_op_cost(&call);
      assert_true(cost.flops >= 0 && cost.bytes >= 0);
      for (int32_t k = 0; k < c.input_count; ++k) seen[c.inputs[k].dtype] = true;
      for (int32_t k = 0; k < call.output_count; ++k) seen[out[k].dtype] = true;
    }
    bool floats = false;  // logic has none
    for (int32_t k = 0; k < SHOAL_DTYPE_COUNT; ++k) {
      floats |= seen[k] && shoal_dtype_is_float((shoal_dtype_t)k);
    }
    if (cases < 2 || (floats && (!seen[SHOAL_F64] || !seen[SHOAL_F32]))) {
      fail_msg("%s: too few cases", op->name);
    }
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(records_are_complete), cmocka_unit_test(cases_run),
      cmocka_unit_test(dtypes_agree),         cmocka_unit_test(outputs_overwrite_inputs),
      cmocka_unit_test(indices_are_declared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
