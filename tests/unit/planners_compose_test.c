// links: all
//
// Strategies that are combined: whose axes bring in which, in what order cuts are written, the same
// plan however they are named, a user's among them, and what is refused.
#include "plan_support.h"

static shoal_rules_t *rules;
static shoal_model_t *gpt;

static int set_up(void **state) {
  (void)state;
  rules = new_rules();
  gpt = make_gpt(&(gpt_sizes_t){
      .batch = 5, .context = 4, .vocabulary = 7, .width = 24, .heads = 6, .layers = 1});
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  shoal_model_free(gpt);
  shoal_rules_free(rules);
  return 0;
}

// However it is written: both named, in either order, or one of them and an axis for the other.
static void test_product(void **state) {
  (void)state;
  static const char *const names[] = {"tensor+zero1", "zero1+tensor", "zero1", "data+zero1+tensor"};
  for (int64_t i = 0; i < COUNT(names); ++i) {
    shoal_plan_t *plan = plan_by(gpt, rules, names[i], "data=2,tensor=2,micro=2", 4);
    assert_string_equal(shoal_plan_intent(plan)->strategy, names[i]);
    assert_int_equal(shoal_plan_intent(plan)->mesh_count, 1);
    assert_string_equal(shoal_plan_intent(plan)->meshes[0], "data=2,tensor=2,micro=2");
    expect_layout(plan, "ids", "micro:0,data:0");
    expect_state(plan, "block0/attn/qkv/weight", "tensor:1*3/4");
    expect_state(plan, "block0/attn/qkv/weight#adamw.m", "tensor:1*3/4,data:flat");
    expect_state(plan, "block0/mlp/fc2/weight#adamw.v", "tensor:0,data:flat");
    expect_state(plan, "block0/ln_1/gamma#adamw.v", "data:flat");
    shoal_program_free(lower(plan));
    shoal_plan_free(plan);
  }
  shoal_plan_t *plan = plan_by(gpt, rules, "tensor", "data=2,tensor=2", 4);
  expect_layout(plan, "ids", "data:0");
  expect_state(plan, "block0/attn/qkv/weight#adamw.m", "tensor:1*3/4");
  shoal_plan_free(plan);
}

// `node` is the outer half of `data`.
static void test_nodes(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(gpt, rules, "zero1", "node=2,data=2", 4);
  expect_layout(plan, "ids", "node:0,data:0");
  expect_state(plan, "wte/table#adamw.m", "node:flat,data:flat");
  shoal_plan_free(plan);
  plan = plan_by(gpt, rules, "zero1+tensor", "node=2,tensor=3", 6);
  expect_layout(plan, "ids", "node:0");
  expect_state(plan, "block0/attn/proj/weight#adamw.m", "tensor:0/4,node:flat");
  shoal_plan_free(plan);
}

// ---- a user's own -----------------------------------------------------------------------

static shoal_status_t plan_columns(shoal_strategy_context_t *context, void *user_data) {
  int64_t *size = user_data;
  *size = shoal_context_axis(context, "columns");
  SHOAL_RETURN_IF_ERROR(
      shoal_context_decide(context, "recompute", "block0/mlp/*", "yes", "to see who decided"));
  SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, "ids", "columns:1"));
  SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, "wte/table", "columns:1(2,1),data:0"));
  return shoal_context_cut(context, "wte/table", "columns:1*(16/4,8/4)(1,2)");  // instead
}

static shoal_status_t plan_meshes(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, "a!data=2@0-1"));
  return shoal_context_mesh(context, "b!data=2@2-3");
}

static void test_own(void **state) {
  (void)state;
  int64_t size = 0;
  shoal_strategies_t *strategies;
  assert_ok(shoal_strategies_create(shoal_allocator_system(), &strategies));
  const shoal_strategy_t columns = {
      .name = "columns", .plan = plan_columns, .user_data = &size, .axes = "columns,lines"};
  const shoal_strategy_t stages = {.name = "halves", .plan = plan_meshes, .axes = "halves"};
  assert_ok(shoal_strategy_register(strategies, &columns));
  assert_ok(shoal_strategy_register(strategies, &stages));
  assert_error(INVALID_ARGUMENT, "'+' stands between",
               shoal_strategy_register(strategies,
                                       &(shoal_strategy_t){.name = "a+b", .plan = plan_columns}));
  shoal_plan_options_t options = {
      .strategy = "zero1", .mesh = "data=2,columns=2", .world = 4, .strategies = strategies};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(gpt, rules, &options, &plan));  // the axis brings it in, behind zero1
  assert_int_equal(size, 2);
  expect_layout(plan, "ids", "data:0,columns:1");
  expect_state(plan, "wte/table", "data:0,columns:1*(16/4,8/4)(1,2)");
  expect_state(plan, "wte/table#adamw.m", "data:flat");
  const shoal_intent_t *intent = shoal_plan_intent(plan);
  assert_int_equal(intent->decision_count, 1);
  assert_string_equal(intent->decisions[0].by, "columns");
  shoal_plan_free(plan);
  options.strategy = "halves";  // its meshes, not the one asked for
  options.mesh = "halves=2,data=2";
  assert_ok(shoal_plan_make(gpt, rules, &options, &plan));
  assert_int_equal(shoal_plan_intent(plan)->mesh_count, 2);
  expect_layout(plan, "ids", "a!data:0");
  shoal_plan_free(plan);
  shoal_strategies_free(strategies);
}

static void test_errors(void **state) {
  (void)state;
  shoal_plan_t *plan;
#define REFUSED(code, part, ...) \
  assert_error(code, part, shoal_plan_make(gpt, rules, &(shoal_plan_options_t){__VA_ARGS__}, &plan))
  REFUSED(NOT_FOUND, "did you mean 'zero1'?", .strategy = "tensor+zer1", .world = 2);
  REFUSED(NOT_FOUND, "there is no strategy ''", .strategy = "tensor+", .world = 2);
  REFUSED(INVALID_ARGUMENT, "how many ranks 'tensor' and 'zero1' get", .strategy = "tensor+zero1",
          .world = 4);
  REFUSED(INVALID_ARGUMENT, "'auto' plans the whole mesh", .strategy = "data+auto", .world = 2);
  REFUSED(INVALID_ARGUMENT, "the mesh 'data=2' has no axis 'tensor'", .strategy = "zero1+tensor",
          .mesh = "data=2", .world = 2);
  REFUSED(INVALID_ARGUMENT, "did you mean 'tensor'?", .strategy = "data", .mesh = "data=2,tenso=2",
          .world = 4);
  REFUSED(INVALID_ARGUMENT, "no strategy speaks of axis 'rows'", .mesh = "rows=2", .world = 2);
  REFUSED(INVALID_ARGUMENT, "'pipe=2,data=2' has 4 ranks, the world has 5", .strategy = "pipeline",
          .mesh = "pipe=2,data=2", .world = 5);
}

// An axis that layouts or decisions speak of needs no strategy; part of another name is not its.
static void test_used_axis(void **state) {
  (void)state;
  const shoal_intent_entry_t layout = {"wpe/table", "rows:0"}, other = {"wpe/table", "data:0"};
  shoal_plan_options_t options = {.strategy = "data",
                                  .mesh = "data=2,rows=2",
                                  .world = 4,
                                  .layout_count = 1,
                                  .layouts = &layout};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_make(gpt, rules, &options, &plan));
  expect_state(plan, "wpe/table", "rows:0");
  shoal_plan_free(plan);
  options.mesh = "data=2,ta=2";
  options.layouts = &other;
  assert_error(INVALID_ARGUMENT, "speaks of axis 'ta'",
               shoal_plan_make(gpt, rules, &options, &plan));
}

// On a mesh that is given, `auto` takes the strategies of its axes, with their stages.
static void test_auto_mesh(void **state) {
  (void)state;
  shoal_plan_t *plan = plan_by(gpt, rules, "auto", "context=2", 2);
  expect_layout(plan, "ids", "context:1");
  shoal_plan_free(plan);
  plan = plan_by(gpt, rules, "auto", "pipe=2,data=2,micro=2", 4);
  assert_int_equal(shoal_plan_intent(plan)->mesh_count, 2);
  assert_true(shoal_plan_intent(plan)->stage_count > 1);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_product),   cmocka_unit_test(test_nodes),
      cmocka_unit_test(test_own),       cmocka_unit_test(test_errors),
      cmocka_unit_test(test_used_axis), cmocka_unit_test(test_auto_mesh),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
