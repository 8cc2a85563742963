// The verifier: a good model passes, and each way of breaking one is found.
#include "graph_support.h"

static shoal_model_t *good(void) {
  shoal_model_t *model = new_model(0);
  shoal_graph_t *g = shoal_model_graph(model, "f");
  shoal_value_t x = shoal_input(g, "x", SHOAL_F32, SHOAL_SHAPE(2, 3));
  shoal_value_t w = shoal_state(g, "w", SHOAL_F32, SHOAL_SHAPE(3), NULL);
  shoal_value_t v = shoal_state(g, "v", SHOAL_F32, SHOAL_SHAPE(3), NULL);
  shoal_value_t a = node(g, "shoal.mul", x, w), b = node(g, "shoal.relu", a);
  shoal_assign(g, w, node(g, "shoal.relu", v));
  shoal_assign(g, v, w);
  shoal_output(g, "a", a);
  shoal_output(g, "b", b);
  assert_ok(shoal_model_verify(model));
  return model;
}

static shoal_graph_t *graph_of(shoal_model_t *model) {
  return model->graphs.items[1];
}

#define BREAK(name, change, part)                        \
  static void name(void **state) {                       \
    (void)state;                                         \
    shoal_model_t *m = good();                           \
    shoal_graph_t *g = graph_of(m);                      \
    (void)g;                                             \
    change;                                              \
    assert_error(MISMATCH, part, shoal_model_verify(m)); \
    shoal_model_free(m);                                 \
  }

static int32_t *inputs_of(shoal_graph_t *g, int node) {
  return (int32_t *)g->nodes.items[node].inputs;
}
static int32_t *outputs_of(shoal_graph_t *g, int node) {
  return (int32_t *)g->nodes.items[node].outputs;
}

BREAK(use_before_definition, inputs_of(g, 0)[0] = g->nodes.items[1].outputs[0], "defined later")
BREAK(own_output_as_input, inputs_of(g, 0)[0] = g->nodes.items[0].outputs[0], "defined later")
BREAK(input_out_of_range, inputs_of(g, 0)[0] = 1000, "not a value")
BREAK(negative_input, inputs_of(g, 0)[1] = -1, "not a value")
BREAK(wrong_shape, g->values.items[g->nodes.items[1].outputs[0]].type.shape.dims[1] = 4,
      "shoal.relu gives")
BREAK(wrong_dtype, g->values.items[g->nodes.items[1].outputs[0]].type.dtype = SHOAL_F64,
      "shoal.relu gives")
BREAK(shared_output, outputs_of(g, 1)[0] = g->nodes.items[0].outputs[0], "not the node's output")
BREAK(output_count, g->nodes.items[1].output_count = 2, "outputs")
BREAK(
    nodes_swapped,
    {
      shoal_node_t first = g->nodes.items[0];
      g->nodes.items[0] = g->nodes.items[1];
      g->nodes.items[1] = first;
    },
    "out of order")
BREAK(value_from_nowhere, g->values.items[0].source = (shoal_source_t)9, "nowhere")
BREAK(wrong_input_index, g->values.items[0].index = 7, "input")
BREAK(wrong_state_index, g->values.items[1].index = 7, "no state")
BREAK(state_type, m->states.items[0].type.shape.dims[0] = 4, "another type")
BREAK(read_type, g->values.items[1].type.dtype = SHOAL_F64, "differs in type")
BREAK(double_names, g->values.items[g->nodes.items[1].outputs[0]].name = "mul", "two values")
BREAK(double_node_names, g->nodes.items[1].name = "mul", "two nodes")
BREAK(double_outputs, g->outputs.items[1].name = "a", "two outputs")
BREAK(output_out_of_range, g->outputs.items[1].value = -3, "not a value")
BREAK(double_assignment, g->assigns.items[1].state = g->assigns.items[0].state, "twice")
BREAK(assigned_type, g->assigns.items[0].value = g->nodes.items[0].outputs[0], "another type")
BREAK(assigned_nothing, g->assigns.items[0].value = 99, "no value")
BREAK(init_incomplete, m->graphs.items[0]->assigns.count = 1, "initial value")
BREAK(double_state, m->states.items[1].name = "w", "two states")
BREAK(input_list, g->inputs.items[0].value = 3, "input")

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(use_before_definition),
      cmocka_unit_test(own_output_as_input),
      cmocka_unit_test(input_out_of_range),
      cmocka_unit_test(negative_input),
      cmocka_unit_test(wrong_shape),
      cmocka_unit_test(wrong_dtype),
      cmocka_unit_test(shared_output),
      cmocka_unit_test(output_count),
      cmocka_unit_test(nodes_swapped),
      cmocka_unit_test(value_from_nowhere),
      cmocka_unit_test(wrong_input_index),
      cmocka_unit_test(wrong_state_index),
      cmocka_unit_test(state_type),
      cmocka_unit_test(read_type),
      cmocka_unit_test(double_names),
      cmocka_unit_test(double_node_names),
      cmocka_unit_test(double_outputs),
      cmocka_unit_test(output_out_of_range),
      cmocka_unit_test(double_assignment),
      cmocka_unit_test(assigned_type),
      cmocka_unit_test(assigned_nothing),
      cmocka_unit_test(init_incomplete),
      cmocka_unit_test(double_state),
      cmocka_unit_test(input_list),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
