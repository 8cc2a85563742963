// Records of native ops: they have enough cases and words, and ops that read indices say which ones
// they take. (What they compute: `shoal check ops`.)
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

static void fill_inputs(bench_t *b, const shoal_case_t *c, shoal_tensor_t *out_inputs) {
  for (int32_t i = 0; i < c->input_count; ++i) {
    out_inputs[i] = new_tensor(b, c->inputs[i].dtype, c->inputs[i].shape, 0);
    shoal_case_fill(c, i, 11, out_inputs[i]);
  }
}

// Whether a kernel takes `index` in every element of an integer input.
static bool takes(bench_t *b, const shoal_case_t *c, int32_t input, int64_t index) {
  shoal_tensor_t in[MAX_OPERANDS], out[MAX_OPERANDS];
  fill_inputs(b, c, in);
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
      cmocka_unit_test(records_are_complete),
      cmocka_unit_test(indices_are_declared),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
