// The registry, attributes by name, the case language, reductions, and what is refused with which
// words.
#include "op/families/kernel.h"
#include "op/reduce.h"
#include "op_support.h"
#include "unit/failing.h"

static shoal_status_t same_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  out_types[0] = call->inputs[0];
  return NULL;
}

static const char *const x_name[] = {"x"}, *const y_name[] = {"y"};

static void registers_user_ops(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t native = shoal_registry_count(b.registry);
  shoal_op_t op = {.name = "user.same",
                   .input_count = 1,
                   .inputs = x_name,
                   .output_count = 1,
                   .outputs = y_name,
                   .infer = same_infer};
  for (int32_t i = 0; i < 100; ++i) {  // the table grows; records stay where they are
    char *name = shoal_arena_printf(&b.arena, "user.same%d", i);
    op.name = name;
    assert_ok(shoal_op_register(b.registry, &op));
  }
  const shoal_op_t *first = bench_op(&b, "user.same0");
  assert_ptr_equal(first, shoal_registry_op(b.registry, native));
  assert_int_equal(shoal_registry_count(b.registry), native + 100);
  assert_null(shoal_registry_op(b.registry, native + 100));
  assert_error(INVALID_ARGUMENT, "exists", shoal_op_register(b.registry, first));
  op.name = "plain";
  assert_error(INVALID_ARGUMENT, "user.my_op", shoal_op_register(b.registry, &op));
  op.name = "user.broken";
  op.infer = NULL;
  assert_error(INVALID_ARGUMENT, "infer", shoal_op_register(b.registry, &op));
  op.infer = same_infer;
  const shoal_attr_schema_t bad = {
      .name = "n", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_SIZE, .operand = SHOAL_OUTPUT(1)};
  op.attr_count = 1;
  op.attrs = &bad;
  assert_error(INVALID_ARGUMENT, "output 1", shoal_op_register(b.registry, &op));
  op.attr_count = 0;
  op.window = "kernel";
  assert_error(INVALID_ARGUMENT, "`window` names 'kernel'", shoal_op_register(b.registry, &op));
  op.window = "";
  op.spare = "ignore";
  assert_error(INVALID_ARGUMENT, "`spare` names 'ignore'", shoal_op_register(b.registry, &op));
  const shoal_attr_schema_t ignore = {.name = "ignore", .kind = SHOAL_ATTR_INT, .optional = true};
  op.attr_count = 1;
  op.attrs = &ignore;
  assert_error(INVALID_ARGUMENT, "no `index_count`", shoal_op_register(b.registry, &op));
  op.attr_count = 0;
  op.spare = NULL;
  op.optional = 2;
  assert_error(INVALID_ARGUMENT, "2 optional inputs", shoal_op_register(b.registry, &op));
  op.optional = 1;
  assert_error(INVALID_ARGUMENT, "no attribute that names", shoal_op_register(b.registry, &op));
  op.optional = 0;
  op.overwrite_count = 1;
  op.overwrites = &(const shoal_overwrite_t){0, 7};
  assert_error(INVALID_ARGUMENT, "overwrite input 7", shoal_op_register(b.registry, &op));
  shoal_registry_retain(b.registry);
  shoal_registry_release(b.registry);
  assert_error(NOT_FOUND, "shoal.matmul", shoal_op_find(b.registry, "shoal.matmull", &first));
  bench_deinit(&b);
}

static void takes_attributes_by_name(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_op_t *op = bench_op(&b, "shoal.random_normal");
  shoal_attr_value_t *values;
  const shoal_shape_t shape = SHOAL_SHAPE(3, 4);
  shoal_attr_t attrs[] = {shoal_attr_real("std", 2),
                          shoal_attr_shape("shape", &shape),
                          shoal_attr_dtype("dtype", SHOAL_F32),
                          shoal_attr_int("key", 7),
                          shoal_attr_real("mean", 1),
                          shoal_attr_int("keys", 7)};
  assert_ok(shoal_op_attrs(op, 5, attrs, &b.arena, &values));
  assert_int_equal(values[0].count, 2);
  assert_int_equal(values[0].ints[1], 4);
  assert_int_equal(values[1].i, 7);
  assert_null(values[3].place);
  assert_true(values[4].f == 1 && values[5].f == 2);
  assert_error(INVALID_ARGUMENT, "'key'", shoal_op_attrs(op, 6, attrs, &b.arena, &values));
  assert_error(INVALID_ARGUMENT, "needs the attribute 'mean'",
               shoal_op_attrs(op, 4, attrs, &b.arena, &values));
  attrs[5] = attrs[0];
  assert_error(INVALID_ARGUMENT, "twice", shoal_op_attrs(op, 6, attrs, &b.arena, &values));
  attrs[0] = shoal_attr_int("std", 2);
  assert_error(INVALID_ARGUMENT, "must be a real, not an integer",
               shoal_op_attrs(op, 5, attrs, &b.arena, &values));
  attrs[0] = shoal_attr_real("std", 2);
  const int64_t many[9] = {0};
  attrs[1] = shoal_attr_ints("shape", 9, many);
  assert_error(INVALID_ARGUMENT, "8 values", shoal_op_attrs(op, 5, attrs, &b.arena, &values));
  bench_deinit(&b);
}

static void reads_cases(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_op_t *op = bench_op(&b, "shoal.concat");
  shoal_case_t c;
  assert_ok(shoal_case_parse(op, "i32[2,3]<9+, i32[2,1] ; axis=-1", &b.arena, &c));
  assert_int_equal(c.input_count, 2);
  assert_int_equal(c.limit[0], 9);
  assert_int_equal(c.limit[1], 2);
  assert_true(c.positive[0] && !c.positive[1]);
  assert_int_equal(c.attrs[0].i, -1);
  shoal_tensor_t t = new_tensor(&b, SHOAL_I32, SHOAL_SHAPE(1000), 0);
  bool seen[9] = {false};
  shoal_case_fill(&c, 0, 1, t);
  for (int64_t i = 0; i < 1000; ++i) seen[(int64_t)at(&t, i)] = true;
  assert_false(seen[0]);
  for (int32_t i = 1; i < 9; ++i) assert_true(seen[i]);
  assert_ok(shoal_case_parse(op, "i32[1000]<3>-4 ; axis=0", &b.arena, &c));
  memset(seen, 0, sizeof seen);
  shoal_case_fill(&c, 0, 1, t);
  for (int64_t i = 0; i < 1000; ++i) {
    const int64_t number = (int64_t)at(&t, i);
    assert_true(number >= -3 && number < 3);
    seen[number + 3] = true;
  }
  for (int32_t i = 0; i < 6; ++i) assert_true(seen[i]);
  assert_error(INVALID_ARGUMENT, "between the limits",
               shoal_case_parse(op, "i32[2]<3>2", &b.arena, &c));
  assert_error(INVALID_ARGUMENT, "no element type", shoal_case_parse(op, "f33[2]", &b.arena, &c));
  assert_error(INVALID_ARGUMENT, "no attribute 'dim'",
               shoal_case_parse(op, "f32[2] ; dim=1", &b.arena, &c));
  assert_error(INVALID_ARGUMENT, "end", shoal_case_parse(op, "f32[2] ; axis=1 1", &b.arena, &c));
  bench_deinit(&b);
}

// ---- an index besides the range ---------------------------------------------------------

static int64_t five_indices(const shoal_call_t *call, int32_t input) {
  return input == 0 && call->outputs ? 5 : 0;
}

static void draws_spare_indices(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_attr_schema_t ignore = {
      .name = "ignore", .kind = SHOAL_ATTR_INT, .optional = true, .fallback.i = -100};
  const shoal_op_t op = {.name = "user.spare",
                         .input_count = 1,
                         .inputs = x_name,
                         .output_count = 1,
                         .outputs = y_name,
                         .attr_count = 1,
                         .attrs = &ignore,
                         .infer = same_infer,
                         .index_count = five_indices,
                         .spare = "ignore"};
  assert_ok(shoal_op_register(b.registry, &op));
  const struct {
    const char *text;
    shoal_dtype_t dtype;
    bool spares;
  } drawn[] = {{"i32[1000]<5", SHOAL_I32, true}, {"u8[1000]<5", SHOAL_U8, false}};  // no -100 in u8
  for (int32_t k = 0; k < 2; ++k) {
    shoal_case_t c;
    assert_ok(shoal_case_parse(&op, drawn[k].text, &b.arena, &c));
    shoal_tensor_t t = new_tensor(&b, drawn[k].dtype, SHOAL_SHAPE(1000), 0);
    shoal_case_fill(&c, 0, 1, t);
    int32_t spares = 0, others = 0;
    for (int64_t i = 0; i < 1000; ++i) {
      const int64_t number = (int64_t)at(&t, i);
      spares += number == -100;
      others += number >= 0 && number < 5;
    }
    assert_int_equal(spares + others, 1000);
    assert_true(drawn[k].spares ? spares > 50 && spares < 250 : spares == 0);
  }
  bench_deinit(&b);
}

static void reduces(void **state) {
  (void)state;
  shoal_reduce_t kind;
  assert_true(shoal_reduce_parse("lse", &kind) && kind == SHOAL_REDUCE_LSE);
  assert_false(shoal_reduce_parse("mean", &kind));
  assert_string_equal(shoal_reduce_name(SHOAL_REDUCE_PROD), "prod");
  const shoal_reduce_t kinds[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                  SHOAL_REDUCE_PROD, SHOAL_REDUCE_LSE};
  for (int32_t k = 0; k < 5; ++k) {  // the identity is one, in every dtype
    for (int32_t d = 0; d < SHOAL_DTYPE_COUNT; ++d) {
      const shoal_dtype_t dtype = (shoal_dtype_t)d;
      if (kinds[k] == SHOAL_REDUCE_LSE && !shoal_dtype_is_float(dtype)) continue;
      if (shoal_dtype_is_storage(dtype)) continue;  // not joined
      uint64_t a, b;
      shoal_dtype_store(dtype, &a, 0, 1);
      shoal_reduce_fill(dtype, kinds[k], 1, &b);
      shoal_reduce_join(dtype, kinds[k], 1, &a, &b);
      assert_true(shoal_dtype_load(dtype, &b, 0) == 1);
      shoal_reduce_fill(dtype, kinds[k], 1, &b);
      shoal_reduce_join(dtype, kinds[k], 1, &b, &a);
      assert_true(shoal_dtype_load(dtype, &a, 0) == 1);
    }
  }
  double x = 3, y = 5;
  shoal_reduce_join(SHOAL_F64, SHOAL_REDUCE_LSE, 1, &y, &x);
  check_near(x, log(exp(3) + exp(5)), 1e-14, "lse", 0);
  for (int32_t k = 0; k < 2; ++k) {  // a NaN beside what adds nothing, either way round
    assert_true(
        isnan(shoal_reduce_reals(SHOAL_REDUCE_LSE, k ? NAN : -INFINITY, k ? -INFINITY : NAN)));
    assert_true(
        isnan(shoal_reduce_reals(SHOAL_REDUCE_LSE, k ? NAN : INFINITY, k ? INFINITY : NAN)));
  }
  int64_t i = 6, j = 7;
  shoal_reduce_join(SHOAL_I64, SHOAL_REDUCE_PROD, 1, &j, &i);
  assert_int_equal(i, 42);
}

static shoal_status_t use_registry(shoal_allocator_t allocator, void *context) {
  (void)context;
  shoal_registry_t *registry = NULL;
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  const shoal_op_t *op = NULL;
  shoal_case_t c;
  shoal_op_t mine = {
      .name = "user.mine", .output_count = 1, .outputs = y_name, .infer = same_infer};
  shoal_status_t status = shoal_registry_create(allocator, &registry);
  if (!status) status = shoal_op_find(registry, "shoal.einsum", &op);
  if (!status) status = shoal_case_parse(op, op->cases[0], &arena, &c);
  if (!status) status = shoal_op_register(registry, &mine);
  shoal_arena_deinit(&arena);
  shoal_registry_release(registry);
  return status;
}

static void survives_short_memory(void **state) {
  (void)state;
  check_failing_allocations(use_registry, NULL, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(registers_user_ops),
      cmocka_unit_test(takes_attributes_by_name),
      cmocka_unit_test(reads_cases),
      cmocka_unit_test(draws_spare_indices),
      cmocka_unit_test(reduces),
      cmocka_unit_test(survives_short_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
