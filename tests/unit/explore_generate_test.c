// Random cases draw every op: from the examples of its record, at other sizes, so that the model
// can be built and gradients flow through the op if it has one; and what is drawn parses back.
#include <string.h>

#include "base/status.h"
#include "explore/coverage.h"
#include "explore/generators.h"
#include "graph/graph.h"
#include "op/families/family.h"
#include "unit.h"

enum { TRIES = 12 };

typedef struct found {
  int used, differentiated;
} found_t;

static bool differentiates(const shoal_graph_t *graph, const shoal_op_t *op) {
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const int32_t of = graph->nodes.items[n].of;
    if (of >= 0 && graph->nodes.items[of].op == op) return true;
  }
  return false;
}

// One use of the op, in a case of its own.
static void use(shoal_generator_t g, const shoal_op_t *op, found_t *found) {
  shoal_random_case_t c = {.ranks = 1, .steps = 2, .optimizer = SHOAL_CASE_SGD}, again;
  shoal_arena_t arena;
  shoal_model_t *model = NULL;
  shoal_arena_init(shoal_allocator_system(), &arena);
  g.arena = &arena;
  g.c = &c;
  if (shoal_generate_from_record(&g, op)) {
    const char *text, *same;
    assert_ok(shoal_random_case_print(&c, &arena, &text));
    assert_ok(shoal_random_case_parse(text, g.registry, &arena, &again));
    assert_ok(shoal_random_case_print(&again, &arena, &same));
    assert_string_equal(text, same);
    shoal_status_t status =
        shoal_random_case_build(&again, g.registry, shoal_allocator_system(), &model);
    found->used += !status;
    if (!status) found->differentiated += differentiates(shoal_model_graph(model, "train"), op);
    shoal_status_free(status);
  }
  shoal_model_free(model);
  shoal_arena_deinit(&arena);
}

static void test_every_op_is_used(void **state) {
  (void)state;
  shoal_generator_t g = {.dtype = SHOAL_F64, .sizes = {3, 4, 2, 5}};
  shoal_coverage_t *coverage;
  int failed = 0;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &g.registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &g.rules));
  assert_ok(shoal_coverage_create(shoal_allocator_system(), g.registry, &coverage));
  g.coverage = coverage;
  for (int64_t i = 0; i < shoal_registry_count(g.registry); ++i) {
    const shoal_op_t *op = shoal_registry_op(g.registry, i);
    const bool flows = op->gradient && op->gradient != shoal_gradient_none;
    found_t found = {0};
    if (op->constrains) continue;  // test_results_are_constrained
    for (uint64_t k = 0; k < TRIES && (!found.used || (flows && !found.differentiated)); ++k) {
      g.state = (uint64_t)i * 1000 + k;
      use(g, op, &found);
    }
    if (found.used && (!flows || found.differentiated)) continue;
    print_message("%s is %s\n", op->name, found.used ? "never differentiated" : "never used");
    ++failed;
  }
  assert_int_equal(failed, 0);
  shoal_coverage_free(coverage);
  shoal_rules_free(g.rules);
  shoal_registry_release(g.registry);
}

// An op is missing until it occurs, and what was not differentiated is named, too.
static void test_what_is_missing_is_named(void **state) {
  (void)state;
  shoal_registry_t *registry;
  shoal_coverage_t *coverage;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_coverage_create(shoal_allocator_system(), registry, &coverage));
  assert_int_equal(shoal_coverage_count(coverage, "op", "shoal.sort"), 0);
  assert_int_equal(shoal_coverage_count(coverage, "gradient", "shoal.sort"), 0);
  assert_int_equal(shoal_coverage_count(coverage, "gradient", "shoal.less"), -1);
  assert_true(shoal_coverage_occurs(coverage, "op", "shoal.sort"));
  shoal_status_t status = shoal_coverage_assert(coverage);
  assert_int_equal(shoal_status_code(status), SHOAL_MISMATCH);
  assert_null(strstr(shoal_status_message(status), "op 'shoal.sort'"));
  assert_non_null(strstr(shoal_status_message(status), "gradient 'shoal.sort'"));
  assert_non_null(strstr(shoal_status_message(status), "op 'shoal.less'"));
  shoal_status_free(status);
  shoal_coverage_free(coverage);
  shoal_registry_release(registry);
}

// Does a case among those of its kind (14 seeds apart) have a mesh with the axis, and a pin along
// it?
static bool is_planned_by(shoal_registry_t *registry, shoal_rules_t *rules, uint64_t seed,
                          const char *axis) {
  shoal_coverage_t *coverage;
  bool found = false;
  assert_ok(shoal_coverage_create(shoal_allocator_system(), registry, &coverage));
  for (int i = 0; i < 12 && !found; ++i, seed += 14) {
    shoal_random_case_t c, again;
    shoal_arena_t arena;
    const char *text, *same;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(shoal_generate_case(seed, false, registry, rules, coverage, &arena, &c));
    assert_ok(shoal_random_case_print(&c, &arena, &text));
    assert_ok(shoal_random_case_parse(text, registry, &arena, &again));
    assert_ok(shoal_random_case_print(&again, &arena, &same));
    assert_string_equal(text, same);
    for (int64_t p = 0; p < c.pins.count; ++p)
      found |= strstr(c.pins.items[p].value, axis) && strstr(c.meshes.items[0], axis);
    shoal_arena_deinit(&arena);
  }
  shoal_coverage_free(coverage);
  return found;
}

// Results of some cases are held as the model says, with layouts that their meshes can hold; and so
// are gradients.
static void test_results_are_constrained(void **state) {
  (void)state;
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  shoal_coverage_t *coverage;
  int cases = 0, layouts = 0, gradients = 0;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_ok(shoal_coverage_create(shoal_allocator_system(), registry, &coverage));
  for (uint64_t seed = 2; seed < 14 * 4; seed += 14) {
    shoal_random_case_t c, again;
    shoal_arena_t arena;
    shoal_model_t *model;
    const char *text;
    int held = 0, nodes = 0;
    shoal_arena_init(shoal_allocator_system(), &arena);
    assert_ok(shoal_generate_case(seed, false, registry, rules, coverage, &arena, &c));
    assert_ok(shoal_random_case_print(&c, &arena, &text));
    assert_ok(shoal_random_case_parse(text, registry, &arena, &again));
    for (int64_t n = 0; n < again.nodes.count; ++n) {
      const char *layout = again.nodes.items[n].held;
      if (!layout || !c.nodes.items[n].held) assert_ptr_equal(layout, c.nodes.items[n].held);
      if (!layout) continue;
      assert_string_equal(layout, c.nodes.items[n].held);
      ++held;
      layouts += layout[0] != 0;
    }
    assert_ok(shoal_random_case_build(&again, registry, shoal_allocator_system(), &model));
    const shoal_graph_t *train = shoal_model_graph(model, "train");
    for (int64_t n = 0; n < train->nodes.count; ++n) {
      const shoal_node_t *node = &train->nodes.items[n];
      if (!node->op->constrains) continue;
      nodes += node->kind == SHOAL_NODE_FORWARD;
      gradients += node->kind != SHOAL_NODE_FORWARD;
    }
    assert_int_equal(nodes, held);
    cases += held > 0;
    shoal_model_free(model);
    shoal_arena_deinit(&arena);
  }
  assert_true(cases > 0 && layouts > 0 && gradients > 0);
  shoal_coverage_free(coverage);
  shoal_rules_free(rules);
  shoal_registry_release(registry);
}

// Chains of windows are planned by `spatial` and `channel` now and then, groups of rows by
// `expert`.
static void test_strategies_are_drawn(void **state) {
  (void)state;
  shoal_registry_t *registry;
  shoal_rules_t *rules;
  assert_ok(shoal_registry_create(shoal_allocator_system(), &registry));
  assert_ok(shoal_rules_create(shoal_allocator_system(), &rules));
  assert_true(is_planned_by(registry, rules, 6, "height"));
  assert_true(is_planned_by(registry, rules, 6, "channel"));
  assert_true(is_planned_by(registry, rules, 3, "expert"));
  shoal_rules_free(rules);
  shoal_registry_release(registry);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_op_is_used),
      cmocka_unit_test(test_what_is_missing_is_named),
      cmocka_unit_test(test_results_are_constrained),
      cmocka_unit_test(test_strategies_are_drawn),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
