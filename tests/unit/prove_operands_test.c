// Operands that vary from call to call, from rules to ranks: their ways are found and named, and a
// model that has them trains on three ranks, cut along its rows or columns, as on one.
#include "operands_support.h"
#include "shoal/rules.h"

static void finds_ways(void **state) {
  (void)state;
  shoal_registry_t *registry = operands_registry();
  shoal_rules_t *rules = NULL;
  shoal_arena_t *arena = NULL;
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  const struct {
    const char *op, *example, *way;
  } cases[] = {
      {"user.fma", "f64[6,5]", "{x:0 -> y:0}~"},
      {"user.fma", "f64[6,5], f64[6,5] ; with=\"shift\"", "{x:0, shift:0 -> y:0}~"},
      {"user.fma", "f64[6,5], f64[6,5] ; with=\"shift\"", "{x:sum, shift:sum -> y:sum}"},
      {"user.fma", "f64[6,5], f64[6,5] ; with=\"scale\"", "{x:sum -> y:sum}"},
      {"user.fma", "f64[6,5], f64[6,5], f64[6,5] ; with=\"scale,shift\"",
       "{x:1, scale:1, shift:1 -> y:1}~"},
      {"user.fan", "f64[6,5] ; count=1", "{x:1 -> ys:1}~"},
      {"user.fan", "f64[6,5] ; count=3", "{x:1 -> ys[0]:1, ys[1]:1, ys[2]:1}~"},
      {"user.fan", "f64[6,5] ; count=3", "{x:sum -> ys[0]:sum, ys[1]:sum, ys[2]:sum}"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    const shoal_op_t *op = NULL;
    const shoal_rule_t *rule = NULL;
    const char *text = NULL;
    shoal_way_t way;
    assert_ok(shoal_op_find(registry, cases[i].op, &op));
    assert_ok(shoal_rules_of_case(rules, op, cases[i].example, &rule));
    assert_ok(shoal_rule_print(op, rule, arena, &text));
    if (!strstr(text, cases[i].way)) fail_msg("%s lacks %s", text, cases[i].way);
    const int32_t inputs = rule->ways[0].input_count;
    assert_ok(shoal_way_parse(cases[i].way, op, rule->attrs, inputs, arena, &way));
    assert_ok(shoal_way_print(op, rule->attrs, &way, arena, &text));
    assert_string_equal(text, cases[i].way);
  }
  const shoal_op_t *fma = NULL, *fan = NULL;
  shoal_way_t way;
  assert_ok(shoal_op_find(registry, "user.fma", &fma));
  assert_ok(shoal_op_find(registry, "user.fan", &fan));
  const shoal_attr_value_t shift[] = {{.s = "shift"}, {.place = NULL}}, two = {.i = 2};
  assert_error(INVALID_ARGUMENT, "'scale' is left out",
               shoal_way_parse("{scale:0 -> y:0}", fma, shift, 2, arena, &way));
  assert_error(INVALID_ARGUMENT, "no output ys[2]",
               shoal_way_parse("{x:0 -> ys[2]:0}", fan, &two, 1, arena, &way));
  shoal_arena_free(arena);
  shoal_rules_free(rules);
  shoal_registry_release(registry);
}

static void trains_in_parts(void **state) {
  (void)state;
  shoal_model_t *model = operands_model();
  const char *const layouts[] = {"ranks:0", "ranks:1"};
  for (int32_t i = 0; i < 2; ++i) {
    const shoal_intent_entry_t choices[] = {{"x", layouts[i]}, {"w", layouts[i]}};
    const shoal_parallelize_options_t options = {
        .mesh = "ranks=3", .layouts = choices, .layout_count = 2, .through_text = true};
    const shoal_check_how_t how = {.ranks = 3, .steps = 3};
    shoal_check_report_t report;
    assert_ok(shoal_check(model, &options, &how, &report));
  }
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_ways),
                                     cmocka_unit_test(trains_in_parts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
