// Operands that vary from call to call, in graphs: builders leave inputs out, gradients do, the
// text says so and parses back, outputs that repeat have names of their own.
#include <string.h>

#include "graph/graph.h"
#include "operands_support.h"

static const shoal_node_t *node_named(const shoal_graph_t *graph, const char *name) {
  for (int64_t n = 0; n < graph->nodes.count; ++n)
    if (strcmp(graph->nodes.items[n].name, name) == 0) return &graph->nodes.items[n];
  fail_msg("there is no node '%s'", name);
  return NULL;
}

static void builds_and_prints(void **state) {
  (void)state;
  shoal_model_t *model = operands_model(), *parsed = NULL;
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  const char *const with[] = {"shift", "scale", "scale,shift"};
  const char *const names[] = {"fma", "fma_1", "fma_2"};
  for (int32_t i = 0; i < 3; ++i) {
    const shoal_node_t *node = node_named(graph, names[i]);
    assert_string_equal(node->attrs[FMA_WITH].s, with[i]);
    assert_int_equal(node->input_count, i == 2 ? 3 : 2);
  }
  // dx of the second is dy * w: a fma without shift; of the first, one without both.
  bool bare = false, scaled = false;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (!shoal_node_is_gradient(node) || strcmp(node->op->name, "user.fma") != 0) continue;
    bare |= node->input_count == 1 && !node->attrs[FMA_WITH].s[0];
    scaled |= node->input_count == 2 && strcmp(node->attrs[FMA_WITH].s, "scale") == 0;
  }
  assert_true(bare || scaled);
  const shoal_node_t *fan = node_named(graph, "fan");
  assert_int_equal(fan->output_count, 3);
  assert_string_equal(graph->values.items[fan->outputs[2]].name, "fan.ys_2");

  shoal_arena_t *arena = NULL;
  const char *text = NULL, *again = NULL;
  assert_ok(shoal_arena_create(shoal_allocator_system(), &arena));
  assert_ok(shoal_model_print(model, arena, &text));
  assert_non_null(strstr(text, "{with=\"shift\"}"));
  shoal_registry_t *registry = operands_registry();
  assert_ok(
      shoal_model_parse("operands", text, &(shoal_model_options_t){.registry = registry}, &parsed));
  assert_ok(shoal_model_print(parsed, arena, &again));
  assert_string_equal(text, again);
  assert_true(shoal_model_hash(model) == shoal_model_hash(parsed));
  shoal_model_free(parsed);
  shoal_registry_release(registry);
  shoal_arena_free(arena);
  shoal_model_free(model);
}

// What a builder refuses; each in a model of its own, which keeps its first error.
static void refuses(void **state) {
  (void)state;
  for (int32_t i = 0; i < 4; ++i) {
    shoal_registry_t *registry = operands_registry();
    shoal_model_t *model = NULL;
    assert_ok(shoal_model_create(&(shoal_model_options_t){.registry = registry}, &model));
    shoal_registry_release(registry);
    shoal_graph_t *g = shoal_model_graph(model, "g");
    const shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(3));
    const shoal_attr_t with = shoal_attr_string("with", "shift");
    const shoal_attr_t count = shoal_attr_int("count", 3);
    shoal_value_t y[3];
    if (i == 0)
      shoal_node_add(g, "user.fma", 3, (shoal_value_t[]){shoal_none(), x, x}, 0, NULL, 1, y);
    if (i == 1)
      shoal_node_add(g, "user.fma", 3, (shoal_value_t[]){x, shoal_none(), x}, 1, &with, 1, y);
    if (i == 2) shoal_node_add(g, "user.fma", 4, (shoal_value_t[]){x, x, x, x}, 0, NULL, 1, y);
    if (i == 3) shoal_node_add(g, "user.fan", 1, &x, 1, &count, 2, y);
    const char *const said[] = {"input 'x' is a null value", "not both", "not 4",
                                "has 3 outputs, not 2"};
    assert_error(INVALID_ARGUMENT, said[i], shoal_model_status(model));
    shoal_model_free(model);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(builds_and_prints),
                                     cmocka_unit_test(refuses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
