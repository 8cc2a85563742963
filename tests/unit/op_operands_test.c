// Operands that vary from call to call: which inputs a call has, what they are called, which
// attributes speak of them, and what is refused.
#include "op/operands.h"

#include "op/case.h"
#include "operands_support.h"

static const shoal_op_t *find(const shoal_registry_t *registry, const char *name) {
  const shoal_op_t *op = NULL;
  assert_ok(shoal_op_find(registry, name, &op));
  return op;
}

static void names_and_numbers(void **state) {
  (void)state;
  shoal_registry_t *registry = operands_registry();
  const shoal_op_t *fma = find(registry, "user.fma"), *add = find(registry, "shoal.add");
  const struct {
    const char *with;
    int32_t given[3], named[3];
  } cases[] = {{"", {0, -1, -1}, {0, 1, 2}},
               {"scale", {0, 1, -1}, {0, 1, 2}},
               {"shift", {0, -1, 1}, {0, 2, 2}},
               {"scale,shift", {0, 1, 2}, {0, 1, 2}}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; ++c) {
    const shoal_attr_value_t attrs[] = {{.s = cases[c].with}, {.place = NULL}};
    for (int32_t i = 0; i < 3; ++i) {
      assert_int_equal(shoal_op_given(fma, attrs, i), cases[c].given[i]);
      if (cases[c].given[i] >= 0) {
        assert_int_equal(shoal_op_named(fma, attrs, cases[c].given[i]), i);
      }
    }
    assert_int_equal(shoal_attr_operand(fma, attrs, 3, FMA_PLACE), cases[c].given[FMA_SHIFT]);
  }
  assert_int_equal(shoal_op_given(add, NULL, 1), 1);
  assert_int_equal(shoal_op_named(add, NULL, 1), 1);
  const shoal_op_t *fan = find(registry, "user.fan"), *concat = find(registry, "shoal.concat");
  assert_int_equal(shoal_op_outputs(add, NULL), 1);
  assert_int_equal(shoal_op_outputs(fan, &(shoal_attr_value_t){.i = 7}), 7);
  assert_int_equal(shoal_output_name(fan, 3, 2).number, 2);
  assert_int_equal(shoal_output_name(fan, 1, 0).number, -1);
  assert_int_equal(shoal_op_named(concat, NULL, 5), 0);
  assert_int_equal(shoal_input_name(concat, NULL, 5).number, 5);
  shoal_registry_release(registry);
}

// Calls in the case language, and what the message must contain.
static void refuses(void **state) {
  (void)state;
  shoal_registry_t *registry = operands_registry();
  const struct {
    const char *op, *text, *message;
  } refused[] = {
      {"user.fma", "f64[2], f64[2]", "user.fma takes 1 input, not 2"},
      {"user.fma", "f64[2] ; with=\"shift\"", "with \"shift\" takes 2 inputs, not 1"},
      {"user.fma", "f64[2], f64[2] ; with=\"shft\"", "did you mean 'shift'?"},
      {"user.fma", "f64[2], f64[2] ; with=\"x\"", "no optional input"},
      {"user.fma", "f64[2], f64[2], f64[2] ; with=\"shift,scale\"", "out of order"},
      {"user.fma", "f64[2], f64[2], f64[2] ; with=\"scale,scale\"", "twice"},
  };
  for (size_t i = 0; i < sizeof refused / sizeof *refused; ++i) {
    shoal_arena_t *arena = NULL;
    assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
    const shoal_op_t *op = find(registry, refused[i].op);
    shoal_case_t c;
    shoal_type_t out[4];
    assert_ok(shoal_case_parse(op, refused[i].text, arena, &c));
    const shoal_call_t call = {op, c.input_count, 1, c.inputs, NULL, c.attrs};
    assert_error(INVALID_ARGUMENT, refused[i].message, shoal_op_infer(&call, out));
    shoal_arena_free(arena);
  }
  const shoal_type_t x = {SHOAL_F64, SHOAL_SHAPE(2)};
  shoal_type_t out[4];
  const shoal_call_t call = {find(registry, "user.fan"),   1, 2, &x, NULL,
                             &(shoal_attr_value_t){.i = 3}};
  assert_error(INVALID_ARGUMENT, "has 3 outputs, not 2", shoal_op_infer(&call, out));
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(names_and_numbers),
                                     cmocka_unit_test(refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
