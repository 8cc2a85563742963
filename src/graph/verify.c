// The verifier: says whether a model keeps every invariant that passes rely on. It trusts counts
// and pointers but no index, type, name or order. Run after parsing and expansion, and by tests.
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"

#define BROKEN(...) SHOAL_ERROR(MISMATCH, __VA_ARGS__)

static shoal_status_t verify_node(const shoal_graph_t *graph, int64_t index,
                                  shoal_arena_t *scratch) {
  const shoal_node_t *node = &graph->nodes.items[index];
  const int32_t outputs = shoal_op_outputs(node->op, node->attrs);
  if (node->output_count != outputs || node->output_count < 1) {
    return BROKEN("it has %d outputs, %s has %d", (int)node->output_count, node->op->name,
                  (int)outputs);
  }
  for (int32_t i = 0; i < node->output_count; ++i) {
    int32_t id = node->outputs[i];
    if (id < 0 || id >= graph->values.count) return BROKEN("output %d is not a value", (int)i);
    const shoal_value_info_t *value = &graph->values.items[id];
    if (value->source != SHOAL_FROM_NODE || value->node != index || value->output != i) {
      return BROKEN("value '%s' does not say that it is output %d of this node", value->name,
                    (int)i);
    }
    if (i && id != node->outputs[0] + i) return BROKEN("its outputs are not consecutive");
  }
  for (int32_t i = 0; i < node->input_count; ++i) {
    int32_t id = node->inputs[i];
    if (id < 0 || id >= graph->values.count) return BROKEN("input %d is not a value", (int)i);
    if (id >= node->outputs[0])
      return BROKEN("input %d ('%s') is defined later", (int)i, graph->values.items[id].name);
  }
  if ((int)node->kind < 0 || node->kind >= SHOAL_NODE_KIND_COUNT)
    return BROKEN("its kind is %d, which is none", (int)node->kind);
  if (node->of != -1) {
    if (!shoal_node_is_gradient(node))
      return BROKEN("it belongs to a forward node, but it is no gradient");
    if (node->of < 0 || node->of >= index || graph->nodes.items[node->of].kind)
      return BROKEN("it is a gradient of node %d, which is no forward node before it",
                    (int)node->of);
  }
  for (int32_t i = 0; i < node->op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &node->op->attrs[i];
    const shoal_attr_value_t *attr = &node->attrs[i];
    if (schema->kind == SHOAL_ATTR_PLACE && attr->place) {
      return BROKEN("attribute '%s' speaks of a part; a graph speaks of the whole", schema->name);
    }
    const int32_t most = schema->role == SHOAL_ROLE_POSITIONS ? SHOAL_MAX_INTS : SHOAL_MAX_RANK;
    if (schema->kind == SHOAL_ATTR_INTS && (attr->count < 0 || attr->count > most)) {
      return BROKEN("attribute '%s' has %d entries", schema->name, (int)attr->count);
    }
  }
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, scratch, &call));
  const shoal_type_t *have = call.outputs;
  shoal_type_t *types = SHOAL_NEW(scratch, shoal_type_t, node->output_count);
  if (!types) return SHOAL_OOM();
  call.outputs = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, types));
  for (int32_t i = 0; i < node->output_count; ++i) {
    if (!shoal_type_equal(&types[i], &have[i])) {
      char want[SHOAL_TYPE_SIZE], is[SHOAL_TYPE_SIZE];
      return BROKEN("output %d is %s, %s gives %s", (int)i,
                    shoal_type_format(&have[i], is, sizeof is), node->op->name,
                    shoal_type_format(&types[i], want, sizeof want));
    }
  }
  return NULL;
}

static shoal_status_t verify_value(const shoal_graph_t *graph, int32_t id, int32_t *next_node) {
  const shoal_value_info_t *value = &graph->values.items[id];
  SHOAL_RETURN_IF_ERROR(shoal_type_check(&value->type));
  const shoal_model_t *model = graph->model;
  switch (value->source) {
    case SHOAL_FROM_INPUT:
      if (value->index < 0 || value->index >= graph->inputs.count ||
          graph->inputs.items[value->index].value != id ||
          strcmp(graph->inputs.items[value->index].name, value->name) != 0) {
        return BROKEN("it is not the graph's input that it says it is");
      }
      return NULL;
    case SHOAL_FROM_STATE:
      if (value->index < 0 || value->index >= model->states.count)
        return BROKEN("it reads no state");
      if (!shoal_type_equal(&value->type, &model->states.items[value->index].type) ||
          strcmp(value->name, model->states.items[value->index].name) != 0) {
        return BROKEN("it differs in type or name from the state it reads");
      }
      return NULL;
    case SHOAL_FROM_NODE:
      // values follow their nodes: that is what makes "smaller id" mean "defined before"
      if (value->node == *next_node && value->output == 0) ++*next_node;
      if (value->node != *next_node - 1 || value->node >= graph->nodes.count || value->output < 0 ||
          value->output >= graph->nodes.items[value->node].output_count ||
          graph->nodes.items[value->node].outputs[value->output] != id) {
        return BROKEN("it is not the node's output that it says it is, or out of order");
      }
      return NULL;
  }
  return BROKEN("it comes from nowhere (%d)", (int)value->source);
}

static shoal_status_t verify_names(const shoal_graph_t *graph, shoal_arena_t *scratch) {
  shoal_names_t values = {0}, nodes = {0}, outputs = {0};
  bool is_new;
  for (int64_t i = 0; i < graph->values.count; ++i) {
    const char *name = graph->values.items[i].name;
    if (!shoal_names_add(scratch, &values, name, &is_new)) return SHOAL_OOM();
    if (!is_new) return BROKEN("two values are called '%s'", name);
  }
  for (int64_t i = 0; i < graph->nodes.count; ++i) {
    const char *name = graph->nodes.items[i].name;
    if (!shoal_names_add(scratch, &nodes, name, &is_new)) return SHOAL_OOM();
    if (!is_new) return BROKEN("two nodes are called '%s'", name);
  }
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    const char *name = graph->outputs.items[i].name;
    if (!shoal_names_add(scratch, &outputs, name, &is_new)) return SHOAL_OOM();
    if (!is_new) return BROKEN("two outputs are called '%s'", name);
    if (graph->outputs.items[i].value < 0 || graph->outputs.items[i].value >= graph->values.count) {
      return BROKEN("output '%s' is not a value", name);
    }
  }
  return NULL;
}

static shoal_status_t verify_assigns(const shoal_graph_t *graph, shoal_arena_t *scratch) {
  const shoal_model_t *model = graph->model;
  bool *assigned = SHOAL_NEW(scratch, bool, model->states.count);
  if (!assigned) return SHOAL_OOM();
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &graph->assigns.items[i];
    if (assign->state < 0 || assign->state >= model->states.count || assign->value < 0 ||
        assign->value >= graph->values.count) {
      return BROKEN("assignment %lld names no state or no value", (long long)i);
    }
    const shoal_state_info_t *state = &model->states.items[assign->state];
    if (assigned[assign->state]) return BROKEN("state '%s' is assigned twice", state->name);
    assigned[assign->state] = true;
    if (!shoal_type_equal(&state->type, &graph->values.items[assign->value].type)) {
      return BROKEN("state '%s' is assigned a value of another type", state->name);
    }
    if (assign->predicate == -1) continue;
    if (assign->predicate < 0 || assign->predicate >= graph->values.count)
      return BROKEN("state '%s': what decides about its assignment is not a value", state->name);
    const shoal_type_t *decides = &graph->values.items[assign->predicate].type;
    if (decides->dtype != SHOAL_BOOL || decides->shape.rank != 0)
      return BROKEN("state '%s': what decides about its assignment is no bool scalar", state->name);
    if (graph == model->graphs.items[0])
      return BROKEN("state '%s' gets its initial value under a condition", state->name);
  }
  for (int64_t i = 0; graph == model->graphs.items[0] && i < model->states.count; ++i) {
    if (!assigned[i])
      return BROKEN("state '%s' gets no initial value", model->states.items[i].name);
  }
  return NULL;
}

static shoal_status_t verify_graph(const shoal_graph_t *graph, shoal_arena_t *scratch) {
  int32_t next_node = 0;
  for (int32_t i = 0; i < graph->values.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(
        verify_value(graph, i, &next_node), "value %d '%s'", (int)i, graph->values.items[i].name));
  }
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    int32_t id = graph->inputs.items[i].value;
    if (id < 0 || id >= graph->values.count || graph->values.items[id].source != SHOAL_FROM_INPUT ||
        graph->values.items[id].index != i) {
      return BROKEN("input '%s' is not a value of its own", graph->inputs.items[i].name);
    }
  }
  for (int64_t i = 0; i < graph->nodes.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(verify_node(graph, i, scratch), "node %lld '%s'",
                                                 (long long)i, graph->nodes.items[i].name));
  }
  SHOAL_RETURN_IF_ERROR(verify_names(graph, scratch));
  return verify_assigns(graph, scratch);
}

static shoal_status_t verify_states(const shoal_model_t *model, shoal_arena_t *scratch) {
  shoal_names_t names = {0};
  for (int64_t i = 0; i < model->states.count; ++i) {
    bool is_new;
    if (!shoal_names_add(scratch, &names, model->states.items[i].name, &is_new)) return SHOAL_OOM();
    if (!is_new) return BROKEN("two states are called '%s'", model->states.items[i].name);
    SHOAL_RETURN_IF_ERROR(shoal_type_check(&model->states.items[i].type));
  }
  return NULL;
}

shoal_status_t shoal_model_verify(const shoal_model_t *model) {
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  shoal_arena_t scratch;
  shoal_arena_init(model->allocator, &scratch);
  shoal_status_t status = verify_states(model, &scratch);
  for (int64_t i = 0; i < model->graphs.count && !status; ++i) {
    status = shoal_status_annotatef(verify_graph(model->graphs.items[i], &scratch), "graph '%s'",
                                    model->graphs.items[i]->name);
  }
  shoal_arena_deinit(&scratch);
  return status;
}
