// links: all
//
// Composite ways: completion finds them where they move less, decisions ask for them or against
// them, plan files hold them, and the model stays what it is. What the parts compute is proven by
// `shoal check` (check_composites.sh).
#include <inttypes.h>
#include <math.h>

#include "plan_fixture.h"
#include "shoal/ops.h"

#define D(kind_, pattern_, choice_) \
  { .kind = kind_, .pattern = pattern_, .choice = choice_ }
#define DECISIONS(...)                                                                         \
  COUNT(((const shoal_intent_decision_t[]){__VA_ARGS__})), (const shoal_intent_decision_t[]) { \
    __VA_ARGS__                                                                                \
  }

// relu(x), a softmax of its columns, a state times that; x [4, 64] is fed cut by columns.
static shoal_model_t *columns(void) {
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(4, 64)), soft;
  shoal_value_t y = shoal_relu(g, x);
  const shoal_attr_t axis = shoal_attr_int("axis", 1);
  shoal_node_add(g, "shoal.softmax", 1, &y, 1, &axis, 1, &soft);
  shoal_output(g, "out", shoal_mul(g, soft, soft));
  assert_ok(shoal_model_status(model));
  return model;
}

static shoal_status_t try_plan(const shoal_model_t *model, const char *mesh, const char *layout,
                               int64_t count, const shoal_intent_decision_t *decisions,
                               shoal_plan_t **out_plan) {
  const shoal_intent_entry_t layouts[] = {{"x", layout}};
  const shoal_intent_t intent = {.mesh_count = 1,
                                 .meshes = &mesh,
                                 .layout_count = 1,
                                 .layouts = layouts,
                                 .decision_count = count,
                                 .decisions = decisions};
  return shoal_plan_create(model, rules, &intent, 2, shoal_allocator_system(), out_plan);
}

static shoal_plan_t *plan_with(const shoal_model_t *model, const char *layout, int64_t count,
                               const shoal_intent_decision_t *decisions) {
  shoal_plan_t *plan;
  assert_ok(try_plan(model, "tensor=2", layout, count, decisions, &plan));
  return plan;
}

static void refuse(const char *layout, shoal_code_t code, const char *message, int64_t count,
                   const shoal_intent_decision_t *decisions) {
  shoal_model_t *model = columns();
  shoal_plan_t *plan = NULL;
  shoal_status_t status = try_plan(model, "tensor=2", layout, count, decisions, &plan);
  if (!status) fail_msg("not refused: %s", message);
  assert_int_equal(shoal_status_code(status), code);
  if (!strstr(shoal_status_message(status), message))
    fail_msg("'%s' does not say '%s'", shoal_status_message(status), message);
  shoal_status_free(status);
  assert_null(plan);
  shoal_model_free(model);
}

static void expect_why(const shoal_plan_t *plan, const char *pattern, const char *text) {
  shoal_arena_t arena;
  const char *told;
  shoal_arena_init(shoal_allocator_system(), &arena);
  assert_ok(shoal_plan_why(plan, pattern, &arena, &told));
  if (!strstr(told, text)) fail_msg("'%s' does not say '%s'", told, text);
  shoal_arena_deinit(&arena);
}

static void test_found(void **state) {
  (void)state;
  shoal_model_t *model = columns();
  const uint64_t before = shoal_model_structure_hash(model);
  shoal_plan_t *plan = plan_with(model, "tensor:1", 0, NULL);
  assert_int_equal(plan->composites.count, 1);
  const shoal_composite_t *composite = &plan->composites.items[0];
  assert_string_equal(shoal_composite_node(plan, composite)->name, "softmax");
  assert_int_equal(composite->count, 5);
  // Two reductions of four rows instead of a gather.
  assert_true(composite->why[1].cost < composite->why[1].runner_up_cost);
  assert_null(composite->why[1].runner_up);
  expect_way(plan, "softmax/reduce_max", "tensor", "{x:1 -> out:max}~");
  expect_way(plan, "softmax/div", "tensor", "{a:1 -> out:1}~");
  expect_layout(plan, "softmax", "tensor:1");  // its output has the name that it had
  expect_way(plan, "mul", "tensor", "{a:1, b:1 -> out:1}~");
  expect_why(plan, "softmax", "way: tensor=composite");
  expect_why(plan, "softmax", "by completion: computed in 5 parts, it leaves its input 'relu' cut");
  expect_why(plan, "softmax", "next best tensor=whole, which moves 2.0 KiB");
  assert_ptr_equal(shoal_plan_model(plan), model);
  assert_true(shoal_model_structure_hash(model) == before);
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  // Cut by rows there is a way that moves nothing.
  plan = plan_with(model, "tensor:0", 0, NULL);
  assert_int_equal(plan->composites.count, 0);
  expect_way(plan, "softmax", "tensor", "{x:0 -> out:0}~");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// A softmax over few elements is gathered: the parts would move more.
static void test_weighed(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(3)), soft;
  const shoal_attr_t axis = shoal_attr_int("axis", 0);
  shoal_node_add(g, "shoal.softmax", 1, &x, 1, &axis, 1, &soft);
  shoal_output(g, "out", soft);
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan = plan_with(model, "tensor:0", 0, NULL);
  assert_int_equal(plan->composites.count, 0);
  expect_way(plan, "softmax", "tensor", "");
  expect_why(plan, "softmax", "next best tensor=composite, which moves");
  shoal_plan_free(plan);
  plan = plan_with(model, "tensor:0", DECISIONS(D("way", "softmax", "tensor=composite")));
  assert_int_equal(plan->composites.count, 1);
  expect_why(plan, "softmax", "by user: it was asked for; it moves");
  expect_why(plan, "softmax", "next best tensor=whole, which moves 25 B");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_decided(void **state) {
  (void)state;
  shoal_model_t *model = columns();
  shoal_plan_t *plan = plan_with(model, "tensor:1", DECISIONS(D("way", "softmax", "tensor=whole")));
  assert_int_equal(plan->composites.count, 0);
  expect_way(plan, "softmax", "tensor", "");
  shoal_plan_free(plan);
  plan = plan_with(model, "tensor:1", DECISIONS(D("expand", "softmax", "no")));
  assert_int_equal(plan->composites.count, 0);
  shoal_plan_free(plan);
  // Later ones win, and what is said about the node holds for its parts.
  plan = plan_with(
      model, "tensor:1",
      DECISIONS(D("way", "softmax", "tensor=whole"), D("way", "soft*", "tensor=composite"),
                D("way", "softmax/exp", "tensor=whole")));
  assert_int_equal(plan->composites.count, 1);
  expect_way(plan, "softmax/exp", "tensor", "");
  expect_way(plan, "softmax/reduce_max", "tensor", "{x:1 -> out:max}~");
  shoal_plan_free(plan);
  assert_ok(try_plan(model, "tensor=2", "tensor:1",
                     DECISIONS(D("recompute", "softmax", "yes"), D("stage", "softmax", "")),
                     &plan));
  assert_int_equal(plan->composites.count, 1);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

// A node that is called like a part keeps its name: parts are called otherwise.
static void test_names(void **state) {
  (void)state;
  shoal_model_t *model = empty_model();
  shoal_graph_t *g = shoal_model_graph(model, "train");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(4, 64)), soft;
  const shoal_attr_t axis = shoal_attr_int("axis", 1);
  shoal_node_add(g, "shoal.softmax", 1, &x, 1, &axis, 1, &soft);
  shoal_scope_push(g, "softmax");
  shoal_output(g, "out", shoal_exp(g, soft));
  shoal_scope_pop(g);
  assert_ok(shoal_model_status(model));
  shoal_plan_t *plan = plan_with(model, "tensor:1", 0, NULL);
  assert_int_equal(plan->composites.count, 1);
  expect_way(plan, "softmax/exp", "tensor", "{x:1 -> out:1}~");
  expect_way(plan, "softmax/exp_1", "tensor", "{x:1 -> out:1}~");
  const shoal_graph_t *graph = plan->graphs[plan->composites.items[0].graph].graph;
  assert_string_equal(graph->nodes.items[graph->nodes.count - 1].name, "softmax/exp");
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_along_one_of_two_axes(void **state) {
  (void)state;
  shoal_model_t *model = columns();
  const shoal_intent_entry_t layouts[] = {{"x", "data:0,tensor:1"}};
  const char *mesh = "data=2,tensor=2";
  const shoal_intent_decision_t decisions[] = {D("way", "softmax", "data=whole"),
                                               D("way", "softmax", "tensor=composite")};
  const shoal_intent_t intent = {.mesh_count = 1,
                                 .meshes = &mesh,
                                 .layout_count = 1,
                                 .layouts = layouts,
                                 .decision_count = 2,
                                 .decisions = decisions};
  shoal_plan_t *plan;
  assert_ok(shoal_plan_create(model, rules, &intent, 4, shoal_allocator_system(), &plan));
  for (int32_t i = 0; i < plan->composites.items[0].count; ++i) {
    const shoal_node_plan_t *part =
        &plan->graphs[plan->composites.items[0].graph].nodes[plan->composites.items[0].first + i];
    assert_null(part->decision->choices[1].way);
  }
  shoal_program_free(lower(plan));
  shoal_plan_free(plan);
  shoal_model_free(model);
}

static void test_refused(void **state) {
  (void)state;
  refuse("tensor:1", SHOAL_UNSUPPORTED, "shoal.relu has no phases",
         DECISIONS(D("way", "relu", "tensor=composite")));
  refuse("", SHOAL_INVALID_ARGUMENT,
         "'way softmax tensor=composite': about node 'softmax': none of its 5 parts can be cut "
         "along 'tensor'",
         DECISIONS(D("way", "softmax", "tensor=composite")));
  refuse("tensor:1", SHOAL_NOT_FOUND, "no mesh has an axis 'data'",
         DECISIONS(D("way", "softmax", "data=composite")));
  refuse("tensor:1", SHOAL_INVALID_ARGUMENT, "along 'micro' there is one part",
         DECISIONS(D("way", "softmax", "micro=composite")));
  refuse("tensor:1", SHOAL_INVALID_ARGUMENT, "is composite by 'micro=composite'",
         DECISIONS(D("way", "softmax", "tensor={x:0 -> out:0}"),
                   D("way", "softmax", "micro=composite")));
  refuse("tensor:1", SHOAL_INVALID_ARGUMENT, "'composites' is no way of shoal.softmax",
         DECISIONS(D("way", "softmax", "tensor=composites")));
}

// ---- files -----------------------------------------------------------------------------

static shoal_status_t parse(const shoal_model_t *model, const char *text, bool *rebuilt,
                            shoal_plan_t **plan) {
  return shoal_plan_parse("test.json", text, model, rules, 2, shoal_allocator_system(), rebuilt,
                          plan);
}

// The text with the first `from` behind `behind` replaced.
static char *edited(const char *text, const char *behind, const char *from, const char *to,
                    shoal_arena_t *arena) {
  const char *at = strstr(text, behind);
  assert_non_null(at);
  at = strstr(at, from);
  assert_non_null(at);
  char *out = shoal_arena_printf(arena, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  assert_non_null(out);
  return out;
}

static void test_file(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = columns();
  shoal_plan_t *plan = plan_with(model, "tensor:1", 0, NULL), *again = NULL;
  const char *text, *copy,
      *hash = shoal_arena_printf(&arena, "\"model\": \"%016" PRIx64 "\"",
                                 shoal_model_structure_hash(model));
  bool rebuilt;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_non_null(strstr(text, hash));
  assert_non_null(strstr(text,
                         "\"node\": \"softmax\", \"choice\": \"tensor=composite\", \"by\": "
                         "\"completion\", \"reason\": \"computed in 5 parts"));
  assert_ok(parse(model, text, &rebuilt, &again));
  assert_false(rebuilt);
  assert_int_equal(again->composites.count, 1);
  assert_ok(shoal_plan_print(again, &arena, &copy));
  assert_string_equal(text, copy);
  expect_why(again, "softmax", "next best tensor=whole, which moves 2.0 KiB");
  shoal_plan_free(again);
  shoal_plan_free(plan);
  // Edited: taken, or refused with its place.
  assert_error(INVALID_ARGUMENT, "there is no node 'softmax",
               parse(model, edited(text, "resolved", "tensor=composite", "tensor=whole", &arena),
                     &rebuilt, &again));
  assert_error(INVALID_ARGUMENT, "there is no node 'softmaxx'",
               parse(model, edited(text, "resolved", "\"softmax\"", "\"softmaxx\"", &arena),
                     &rebuilt, &again));
  assert_error(
      UNSUPPORTED, "shoal.mul has no phases",
      parse(model, edited(text, "resolved", "\"softmax\"", "\"mul\"", &arena), &rebuilt, &again));
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

// Files that were written when only the intent said what is expanded: they have the hash of the
// model with its parts, and no entry for the node itself.
static void test_older_file(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = columns();
  shoal_plan_t *plan = plan_with(model, "tensor:1", DECISIONS(D("expand", "softmax", "yes")));
  shoal_plan_t *again = NULL;
  const char *text;
  bool rebuilt;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  char now[20], then[20];
  uint64_t rules_now, rules_then;
  snprintf(now, sizeof now, "%016" PRIx64, shoal_model_structure_hash(model));
  snprintf(then, sizeof then, "%016" PRIx64, shoal_model_structure_hash(plan->model));
  char *old = edited(text, "resolved", now, then, &arena);
  assert_ok(shoal_rules_hash(rules, model, &rules_now));
  assert_ok(shoal_rules_hash(rules, plan->model, &rules_then));
  snprintf(now, sizeof now, "%016" PRIx64, rules_now);
  snprintf(then, sizeof then, "%016" PRIx64, rules_then);
  old = edited(old, "resolved", now, then, &arena);
  char *entry = strstr(old, "\"node\": \"softmax\",");
  assert_non_null(entry);
  while (*entry != '\n') --entry;
  char *end = strchr(entry + 1, '\n');
  memmove(entry, end, strlen(end) + 1);
  assert_ok(parse(model, old, &rebuilt, &again));
  assert_false(rebuilt);
  assert_int_equal(again->composites.count, 1);
  expect_way(again, "softmax/div", "tensor", "{a:1 -> out:1}~");
  shoal_plan_free(again);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

// Nothing is cut, but the parts were asked for: the file says so without an axis.
static void test_expanded_without_a_cut(void **state) {
  (void)state;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_model_t *model = columns();
  shoal_plan_t *plan = plan_with(model, "", DECISIONS(D("expand", "softmax", "yes")));
  shoal_plan_t *again = NULL;
  const char *text, *copy;
  bool rebuilt;
  assert_ok(shoal_plan_print(plan, &arena, &text));
  assert_non_null(
      strstr(text, "{\"kind\": \"expand\", \"graph\": \"train\", \"node\": \"softmax\""));
  assert_ok(parse(model, text, &rebuilt, &again));
  assert_false(rebuilt);
  assert_ok(shoal_plan_print(again, &arena, &copy));
  assert_string_equal(text, copy);
  shoal_plan_free(again);
  shoal_plan_free(plan);
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

// The strategy says how weights are cut; that the loss over a cut vocabulary is computed in parts
// is found.
static void test_vocabulary(void **state) {
  (void)state;
  shoal_model_t *model = small_gpt(false);
  shoal_plan_t *plan = plan_by(model, rules, "tensor", "tensor=2", 2);
  int64_t losses = 0;
  for (int64_t c = 0; c < plan->composites.count; ++c)
    losses += strstr(shoal_composite_node(plan, &plan->composites.items[c])->op->name,
                     "cross_entropy") != NULL;
  assert_int_equal(losses, plan->composites.count);
  assert_int_equal(losses, 3);  // train: forward and backward; eval
  // The rules of their parts come with the build, but for those of a factor of its own.
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  for (int64_t c = 0; c < plan->composites.count; ++c) {
    const shoal_composite_t *composite = &plan->composites.items[c];
    const shoal_graph_t *graph = plan->graphs[composite->graph].graph;
    for (int32_t i = 0; i < composite->count; ++i) {
      const shoal_node_t *part = &graph->nodes.items[composite->first + i];
      const shoal_rule_t *rule;
      shoal_call_t call;
      assert_ok(shoal_node_call(graph, part, &arena, &call));
      assert_ok(shoal_rules_get(rules, &call, &rule));
      if (!rule->shipped && strcmp(part->op->name, "shoal.affine") != 0)
        fail_msg("the rule of '%s' was discovered", part->name);
    }
  }
  shoal_arena_deinit(&arena);
  shoal_plan_free(plan);
  shoal_model_free(model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_found),
      cmocka_unit_test(test_weighed),
      cmocka_unit_test(test_decided),
      cmocka_unit_test(test_names),
      cmocka_unit_test(test_along_one_of_two_axes),
      cmocka_unit_test(test_refused),
      cmocka_unit_test(test_file),
      cmocka_unit_test(test_older_file),
      cmocka_unit_test(test_expanded_without_a_cut),
      cmocka_unit_test(test_vocabulary),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
