// Expansion: a copy of a model in which some nodes are replaced by their ops' decompositions.
// Everything else is copied as it is: names, attributes, files and lines.
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"

typedef struct expand {
  shoal_graph_t *to;
  int32_t *ids;    // value of the source -> value of the copy
  int32_t *nodes;  // node of the source -> the last of its nodes in the copy, or -1
  shoal_arena_t *scratch;
} expand_t;

static shoal_status_t copy_states(const shoal_model_t *from, shoal_model_t *to) {
  for (int64_t i = 0; i < from->states.count; ++i) {
    shoal_state_info_t state = from->states.items[i];
    int32_t index;
    state.name = shoal_arena_strdup(&to->arena, state.name);
    state.file = shoal_arena_strdup(&to->arena, state.file);
    if (!state.name || !state.file) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_model_add_state(to, &state, &index));
  }
  for (int64_t i = 0; i < from->frozen.count; ++i)
    shoal_freeze_at(to, from->frozen.items[i].pattern, "", 0);
  return shoal_model_status(to);
}

// A node's purpose in the copy: gradients of an expanded node belong to the last of its parts.
static shoal_purpose_t purpose_of(const expand_t *x, const shoal_node_t *node) {
  return (shoal_purpose_t){.kind = node->kind, .of = node->of < 0 ? -1 : x->nodes[node->of]};
}

static shoal_status_t copy_node(expand_t *x, const shoal_graph_t *from, const shoal_node_t *node,
                                const int32_t *inputs, int32_t *outputs) {
  shoal_node_spec_t spec = {.op = node->op,
                            .name = node->name,
                            .purpose = purpose_of(x, node),
                            .input_count = node->input_count,
                            .inputs = inputs,
                            .attrs = node->attrs,
                            .file = node->file,
                            .line = node->line};
  SHOAL_RETURN_IF_ERROR(shoal_graph_append(x->to, &spec, outputs));
  char buffer[SHOAL_NAME_LIMIT + 64];
  for (int32_t i = 0; i < node->output_count; ++i) {
    const char *name = from->values.items[node->outputs[i]].name;
    if (strcmp(name, shoal_node_value_name(node, i, buffer)) == 0) continue;
    SHOAL_RETURN_IF_ERROR(shoal_graph_rename(x->to, outputs[i], name));
  }
  return NULL;
}

static shoal_status_t decompose(expand_t *x, const shoal_graph_t *from, const shoal_node_t *node,
                                const int32_t *inputs, int32_t *outputs) {
  int64_t before = x->to->values.count;
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(from, node, x->scratch, &call));
  const char *scope = shoal_arena_strdup(&x->to->model->arena, node->name);
  if (!scope) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_scope(x->to, scope));
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_purpose(x->to, purpose_of(x, node)));
  shoal_graph_emitter_t emitter;
  shoal_graph_emitter_init(x->to, node->file, node->line, &emitter);
  for (int32_t i = 0; i < node->output_count; ++i) outputs[i] = SHOAL_NO_REF;
  node->op->decompose(&call, &emitter.base, inputs, outputs);
  shoal_graph_pop_purpose(x->to);
  shoal_graph_pop_scope(x->to);
  SHOAL_RETURN_IF_ERROR(shoal_graph_emitter_status(&emitter));
  for (int32_t i = 0; i < node->output_count; ++i) {
    if (outputs[i] < 0 || outputs[i] >= x->to->values.count) {
      return SHOAL_ERROR(INTERNAL, "the decomposition of %s gives no output %d", node->op->name,
                         (int)i);
    }
    const shoal_type_t *want = &call.outputs[i], *have = &x->to->values.items[outputs[i]].type;
    if (!shoal_type_equal(want, have)) {
      return SHOAL_ERROR(INTERNAL, "the decomposition of %s gives output %d another type",
                         node->op->name, (int)i);
    }
    // An output that is one of the inputs (or another output) keeps the name it has.
    bool is_new = outputs[i] >= before;
    for (int32_t k = 0; k < i; ++k) is_new &= outputs[k] != outputs[i];
    if (!is_new) continue;
    SHOAL_RETURN_IF_ERROR(
        shoal_graph_rename(x->to, outputs[i], from->values.items[node->outputs[i]].name));
  }
  return NULL;
}

static shoal_status_t copy_graph(const shoal_graph_t *from, const bool *chosen, shoal_model_t *to,
                                 shoal_arena_t *scratch) {
  expand_t x = {.ids = SHOAL_NEW(scratch, int32_t, from->values.count),
                .nodes = SHOAL_NEW(scratch, int32_t, from->nodes.count),
                .scratch = scratch};
  if (!x.ids || !x.nodes) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_model_add_graph(to, from->name, &x.to));
  for (int64_t i = 0; i < from->values.count; ++i) {
    const shoal_value_info_t *value = &from->values.items[i];
    if (value->source == SHOAL_FROM_INPUT) {
      SHOAL_RETURN_IF_ERROR(shoal_graph_add_input(x.to, value->name, value->type, value->file,
                                                  value->line, &x.ids[i]));
    } else if (value->source == SHOAL_FROM_STATE) {
      SHOAL_RETURN_IF_ERROR(
          shoal_graph_read_state(x.to, value->index, value->file, value->line, &x.ids[i]));
    } else if (value->output == 0) {
      const shoal_node_t *node = &from->nodes.items[value->node];
      int32_t *inputs = SHOAL_NEW(scratch, int32_t, node->input_count + node->output_count);
      if (!inputs) return SHOAL_OOM();
      for (int32_t k = 0; k < node->input_count; ++k) inputs[k] = x.ids[node->inputs[k]];
      int32_t *outputs = inputs + node->input_count;
      int64_t before = x.to->nodes.count, *after = &x.to->nodes.count;
      SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(chosen && chosen[value->node]
                                                       ? decompose(&x, from, node, inputs, outputs)
                                                       : copy_node(&x, from, node, inputs, outputs),
                                                   "expanding node '%s'", node->name));
      for (int32_t k = 0; k < node->output_count; ++k) x.ids[node->outputs[k]] = outputs[k];
      x.nodes[value->node] = *after > before ? (int32_t)*after - 1 : -1;
    }
  }
  for (int64_t i = 0; i < from->outputs.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_graph_add_output(x.to, from->outputs.items[i].name,
                                                 x.ids[from->outputs.items[i].value]));
  }
  for (int64_t i = 0; i < from->assigns.count; ++i) {
    const shoal_assignment_t *assign = &from->assigns.items[i];
    SHOAL_RETURN_IF_ERROR(
        shoal_graph_assign(x.to, assign->state, x.ids[assign->value],
                           assign->predicate < 0 ? -1 : x.ids[assign->predicate]));
  }
  return NULL;
}

static shoal_status_t choose(const shoal_graph_t *graph, const char *const *nodes, int64_t count,
                             bool *chosen) {
  for (int64_t i = 0; i < count; ++i) {
    int64_t at = 0;
    while (at < graph->nodes.count && strcmp(graph->nodes.items[at].name, nodes[i]) != 0) ++at;
    if (at == graph->nodes.count) {
      return SHOAL_ERROR(NOT_FOUND, "graph '%s' has no node '%s'", graph->name, nodes[i]);
    }
    if (!graph->nodes.items[at].op->decompose) {
      return SHOAL_ERROR(UNSUPPORTED, "node '%s': %s has no decomposition", nodes[i],
                         graph->nodes.items[at].op->name);
    }
    chosen[at] = true;
  }
  return NULL;
}

shoal_status_t shoal_model_expand(const shoal_model_t *model, const char *graph,
                                  const char *const *nodes, int64_t count,
                                  shoal_model_t **out_model) {
  *out_model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  const shoal_graph_t *in = shoal_model_find_graph(model, graph);
  if (!in) return SHOAL_ERROR(NOT_FOUND, "the model has no graph '%s'", graph);
  shoal_model_options_t options = {
      .allocator = model->allocator, .registry = model->registry, .seed = model->seed};
  shoal_model_t *copy;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &copy));
  shoal_arena_t scratch;
  shoal_arena_init(model->allocator, &scratch);
  shoal_status_t status = NULL;
  bool *chosen = SHOAL_NEW(&scratch, bool, in->nodes.count);
  if (!chosen) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
  SHOAL_GOTO_IF_ERROR(status, done, choose(in, nodes, count, chosen));
  copy->init_rewritten = true;  // "init" is copied, not written from the states
  SHOAL_GOTO_IF_ERROR(status, done, copy_states(model, copy));
  for (int64_t i = 0; i < model->graphs.count; ++i) {
    const shoal_graph_t *from = model->graphs.items[i];
    SHOAL_GOTO_IF_ERROR(status, done, copy_graph(from, from == in ? chosen : NULL, copy, &scratch));
  }
  copy->init_rewritten = model->init_rewritten || (in == model->graphs.items[0] && count);
  *out_model = copy;
done:
  shoal_arena_deinit(&scratch);
  if (status) shoal_model_free(copy);
  return status;
}
