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

// The model on three ranks, with its input and its weight in either layout.
static void check_in_parts(const shoal_model_t *model, const char *first, const char *second) {
  const char *const layouts[] = {first, second};
  for (int32_t i = 0; i < 2; ++i) {
    const shoal_intent_entry_t choices[] = {{"x", layouts[i]}, {"w", layouts[i]}};
    const shoal_parallelize_options_t options = {
        .mesh = "ranks=3", .layouts = choices, .layout_count = 2, .through_text = true};
    const shoal_check_how_t how = {.ranks = 3, .steps = 3};
    shoal_check_report_t report;
    assert_ok(shoal_check(model, &options, &how, &report));
  }
}

// ---- split: as many outputs as a list has entries, which may be long ----------------------------

// Calls too large to be executed have the ways of small ones, with their own numbers; those that
// have no common divisor are executed as they are.
static void splits_lift(void **state) {
  (void)state;
  const struct {
    int64_t size, step;
    int32_t parts, ways;  // a layout has eight chunks, so that more windows are no way
    const char *key, *way;
  } cases[] = {
      {3 * 4096, 4096, 3, 3, "f64[4, 15] {axis=1, starts=[0, 5, 10]}", "parts[2]:1@8192..12288}~"},
      {12 * 64 + 32, 64, 12, 2, "f64[4, 125] {axis=1, starts=[0, 10, 20,", "parts[11]:0}~"},
      {17, 2, 8, 3, "f64[5, 17] {axis=1, starts=[0, 2, 4,", "parts[7]:1@14..17}~"}};
  shoal_registry_t *registry = NULL;
  shoal_rules_t *rules = NULL;
  shoal_arena_t *arena = NULL;
  const shoal_op_t *op = NULL;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  assert_ok(shoal_op_find(registry, "shoal.split", &op));
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    int64_t starts[20];
    for (int32_t p = 0; p < cases[i].parts; ++p) starts[p] = p * cases[i].step;
    const shoal_attr_t given[] = {shoal_attr_int("axis", 1),
                                  shoal_attr_ints("starts", cases[i].parts, starts)};
    shoal_attr_value_t *attrs = NULL;
    assert_ok(shoal_op_attrs(op, 2, given, arena, &attrs));
    memset(starts, 0, sizeof starts);  // they were copied
    const shoal_type_t x = {SHOAL_F32, SHOAL_SHAPE(4000, cases[i].size)};
    const shoal_call_t call = {op, 1, shoal_op_outputs(op, attrs), &x, NULL, attrs};
    const shoal_rule_t *rule = NULL;
    const char *text = NULL;
    assert_ok(shoal_rules_get(rules, &call, &rule));
    assert_ok(shoal_rule_print(op, rule, arena, &text));
    if (!strstr(rule->key, cases[i].key)) fail_msg("key %s", rule->key);
    if (!strstr(text, cases[i].way)) fail_msg("%s", text);
    assert_int_equal(rule->way_count, cases[i].ways);
  }
  shoal_arena_free(arena);
  shoal_rules_free(rules);
  shoal_registry_release(registry);
}

// Twelve parts, of which some are used, one twice.
static void splits_train(void **state) {
  (void)state;
  shoal_model_t *model = NULL, *parsed = NULL;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = 3}, &model));
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(6, 26)), parts[12];
  shoal_state_options_t drawn = {.init = {SHOAL_INIT_UNIFORM, -1, 1}, .trainable = true};
  const shoal_value_t w = shoal_state(g, "w", SHOAL_F64, SHOAL_SHAPE(6, 26), &drawn);
  int64_t starts[12];
  for (int32_t i = 0; i < 12; ++i) starts[i] = 2 * i;
  const shoal_attr_t attrs[] = {shoal_attr_int("axis", 1), shoal_attr_ints("starts", 12, starts)};
  x = shoal_mul(g, x, w);
  shoal_node_add(g, "shoal.split", 1, &x, 2, attrs, 12, parts);
  shoal_value_t y = shoal_mul(g, shoal_mul(g, parts[1], parts[4]), parts[1]);
  shoal_value_t loss = shoal_add(g, shoal_reduce_mean(g, y, SHOAL_SHAPE(0, 1)),
                                 shoal_reduce_mean(g, parts[11], SHOAL_SHAPE(0, 1)));
  shoal_minimize_sgd(g, loss, &(shoal_sgd_t){.lr = 0.1});
  shoal_output(g, "loss", loss);
  assert_ok(shoal_model_status(model));
  shoal_arena_t *arena = NULL;
  const char *text = NULL, *again = NULL;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  assert_ok(shoal_model_print(model, arena, &text));
  assert_non_null(strstr(text, "starts=[0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22]"));
  assert_ok(shoal_model_parse("split", text, NULL, &parsed));
  assert_ok(shoal_model_print(parsed, arena, &again));
  assert_string_equal(text, again);
  shoal_model_free(parsed);
  shoal_arena_free(arena);
  check_in_parts(model, "ranks:0", "ranks:1");
  shoal_model_free(model);
}

static void trains_in_parts(void **state) {
  (void)state;
  shoal_model_t *model = operands_model();
  check_in_parts(model, "ranks:0", "ranks:1");
  shoal_model_free(model);
}
int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_ways),
                                     cmocka_unit_test(trains_in_parts),
                                     cmocka_unit_test(splits_lift), cmocka_unit_test(splits_train)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
