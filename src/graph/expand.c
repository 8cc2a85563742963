// Expansion: a copy of a model in which some nodes are replaced by their ops' decompositions.
// Everything else is copied as it is: names, attributes, files and lines. And a decomposition
// alone, for whoever weighs what its parts would cost. And a copy in which ops on summands of
// gradients are told how many there are: types follow.
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"

typedef struct expand {
  shoal_graph_t *to;
  int32_t *ids;  // value of the source -> value of the copy
  int32_t
      *nodes;  // node of the source -> the last of its nodes in the copy, or -1. NULL: a node is
               // copied alone, and belongs to none
  int64_t summands;  // how many there are of a gradient; 0: as many as the source says
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
  return (shoal_purpose_t){.kind = node->kind,
                           .of = node->of < 0 || !x->nodes ? -1 : x->nodes[node->of]};
}

static shoal_status_t attrs_of(const expand_t *x, const shoal_node_t *node,
                               const shoal_attr_value_t **out_attrs) {
  const shoal_op_t *op = node->op;
  *out_attrs = node->attrs;
  if (!op->summands || x->summands == 0) return NULL;
  shoal_attr_value_t *attrs =
      shoal_arena_copy(x->scratch, node->attrs, (size_t)op->attr_count, sizeof *attrs);
  if (!attrs) return SHOAL_OOM();
  for (int32_t a = 0; a < op->attr_count; ++a)
    if (strcmp(op->attrs[a].name, op->summands) == 0) attrs[a].i = x->summands;
  *out_attrs = attrs;
  return NULL;
}

static shoal_status_t copy_node(expand_t *x, const shoal_graph_t *from, const shoal_node_t *node,
                                const int32_t *inputs, int32_t *outputs) {
  const shoal_attr_value_t *attrs = NULL;
  SHOAL_RETURN_IF_ERROR(attrs_of(x, node, &attrs));
  shoal_node_spec_t spec = {.op = node->op,
                            .name = node->name,
                            .purpose = purpose_of(x, node),
                            .stage = node->stage,
                            .sharing = node->sharing,
                            .recompute = node->recompute,
                            .input_count = node->input_count,
                            .inputs = inputs,
                            .attrs = attrs,
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
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_stage(x->to, node->stage));
  SHOAL_RETURN_IF_ERROR(
      shoal_graph_push_sharing(x->to, (shoal_open_sharing_t){.asked = node->sharing}));
  SHOAL_RETURN_IF_ERROR(
      shoal_graph_push_region(x->to, (shoal_open_region_t){.region = node->recompute}));
  shoal_graph_emitter_t emitter;
  shoal_graph_emitter_init(x->to, node->file, node->line, &emitter);
  x->to->builder->avoid = &from->builder->names;  // nodes behind this one keep theirs
  for (int32_t i = 0; i < node->output_count; ++i) outputs[i] = SHOAL_NO_REF;
  node->op->decompose(&call, &emitter.base, inputs, outputs);
  x->to->builder->avoid = NULL;
  shoal_graph_pop_region(x->to);
  shoal_graph_pop_sharing(x->to);
  shoal_graph_pop_stage(x->to);
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

typedef SHOAL_VEC(int32_t) sources_t;  // by node of the copy: the node it was, or is a part of

// `ids` is filled: value of the source -> value of the copy.
static shoal_status_t copy_graph(const shoal_graph_t *from, const bool *chosen, int64_t summands,
                                 shoal_model_t *to, int32_t *ids, sources_t *sources,
                                 shoal_arena_t *arena, shoal_arena_t *scratch) {
  expand_t x = {.ids = ids,
                .nodes = SHOAL_NEW(scratch, int32_t, from->nodes.count),
                .summands = summands,
                .scratch = scratch};
  if (!x.nodes) return SHOAL_OOM();
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
      while (sources->count < *after)
        if (!SHOAL_PUSH(arena, sources, value->node)) return SHOAL_OOM();
    }
  }
  for (int64_t i = 0; i < from->outputs.count; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_graph_add_output(x.to, from->outputs.items[i].name,
                                                 x.ids[from->outputs.items[i].value]));
  }
  for (int64_t i = 0; i < from->assigns.count; ++i) {
    // What was checked when the model was built need not be checked again, pair by pair.
    shoal_assignment_t assign = from->assigns.items[i];
    assign.value = x.ids[assign.value];
    if (assign.predicate >= 0) assign.predicate = x.ids[assign.predicate];
    if (!SHOAL_PUSH(&to->arena, &x.to->assigns, assign)) return SHOAL_OOM();
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

static shoal_status_t copy_graphs(const shoal_model_t *model, const bool *const *chosen,
                                  int64_t summands, shoal_model_t *copy, shoal_arena_t *arena,
                                  shoal_expansion_t *expansion, shoal_arena_t *scratch) {
  const int64_t count = model->graphs.count;
  expansion->sources = SHOAL_NEW(arena, const int32_t *, count);
  expansion->values = SHOAL_NEW(arena, const int32_t *, count);
  if (!expansion->sources || !expansion->values) return SHOAL_OOM();
  copy->init_rewritten = true;  // "init" is copied, not written from the states
  SHOAL_RETURN_IF_ERROR(copy_states(model, copy));
  bool rewritten = model->init_rewritten;
  for (int64_t g = 0; g < count; ++g) {
    const shoal_graph_t *from = model->graphs.items[g];
    int32_t *ids = SHOAL_NEW(arena, int32_t, from->values.count);
    sources_t sources = {0};
    if (!ids) return SHOAL_OOM();
    const bool *mine = chosen ? chosen[g] : NULL;
    SHOAL_RETURN_IF_ERROR(copy_graph(from, mine, summands, copy, ids, &sources, arena, scratch));
    expansion->sources[g] = sources.items;
    expansion->values[g] = ids;
    for (int64_t n = 0; g == 0 && mine && n < from->nodes.count; ++n) rewritten |= mine[n];
  }
  copy->init_rewritten = rewritten;
  return NULL;
}

static shoal_status_t copy_model(const shoal_model_t *model, const bool *const *chosen,
                                 int64_t summands, shoal_arena_t *arena,
                                 shoal_expansion_t *out_expansion, shoal_model_t **out_model) {
  *out_model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  const shoal_model_options_t options = {
      .allocator = model->allocator, .registry = model->registry, .seed = model->seed};
  shoal_model_t *copy;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &copy));
  shoal_arena_t scratch;
  shoal_arena_init(model->allocator, &scratch);
  shoal_status_t status =
      copy_graphs(model, chosen, summands, copy, arena, out_expansion, &scratch);
  shoal_arena_deinit(&scratch);
  if (status) {
    shoal_model_free(copy);
    return status;
  }
  *out_model = copy;
  return NULL;
}

shoal_status_t shoal_model_expand_nodes(const shoal_model_t *model, const bool *const *chosen,
                                        shoal_arena_t *arena, shoal_expansion_t *out_expansion,
                                        shoal_model_t **out_model) {
  return copy_model(model, chosen, 0, arena, out_expansion, out_model);
}

shoal_status_t shoal_model_set_summands(const shoal_model_t *model, int64_t count,
                                        shoal_model_t **out_model) {
  shoal_arena_t arena;
  shoal_expansion_t unused;
  shoal_arena_init(model->allocator, &arena);
  shoal_status_t status = copy_model(model, NULL, count, &arena, &unused, out_model);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_model_expand(const shoal_model_t *model, const char *graph,
                                  const char *const *nodes, int64_t count,
                                  shoal_model_t **out_model) {
  *out_model = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  const shoal_graph_t *in = shoal_model_find_graph(model, graph);
  if (!in) return SHOAL_ERROR(NOT_FOUND, "the model has no graph '%s'", graph);
  shoal_arena_t scratch;
  shoal_arena_init(model->allocator, &scratch);
  shoal_status_t status = NULL;
  shoal_expansion_t expansion;
  const bool **all = SHOAL_NEW(&scratch, const bool *, model->graphs.count);
  bool *chosen = SHOAL_NEW(&scratch, bool, in->nodes.count);
  if (!chosen || !all) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
  SHOAL_GOTO_IF_ERROR(status, done, choose(in, nodes, count, chosen));
  for (int64_t g = 0; g < model->graphs.count; ++g)
    all[g] = model->graphs.items[g] == in ? chosen : NULL;
  status = shoal_model_expand_nodes(model, all, &scratch, &expansion, out_model);
done:
  shoal_arena_deinit(&scratch);
  return status;
}

// ---- one node --------------------------------------------------------------------------

static shoal_status_t write_parts(const shoal_graph_t *from, const shoal_node_t *node,
                                  shoal_model_t *to, shoal_arena_t *arena, int32_t *operands) {
  expand_t x = {.scratch = arena};
  SHOAL_RETURN_IF_ERROR(shoal_model_add_graph(to, from->name, &x.to));
  for (int32_t k = 0; k < node->input_count; ++k) {
    const shoal_value_info_t *value = &from->values.items[node->inputs[k]];
    int32_t same = 0;
    while (same < k && node->inputs[same] != node->inputs[k]) ++same;
    operands[k] = operands[same];
    if (same == k)
      SHOAL_RETURN_IF_ERROR(shoal_graph_add_input(x.to, value->name, value->type, value->file,
                                                  value->line, &operands[k]));
  }
  return decompose(&x, from, node, operands, operands + node->input_count);
}

shoal_status_t shoal_node_expand(const shoal_graph_t *graph, const shoal_node_t *node,
                                 shoal_arena_t *arena, int32_t *out_operands,
                                 shoal_model_t **out_model) {
  const shoal_model_options_t options = {.allocator = graph->model->allocator,
                                         .registry = graph->model->registry};
  *out_model = NULL;
  shoal_model_t *parts;
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &parts));
  shoal_status_t status = write_parts(graph, node, parts, arena, out_operands);
  if (status) {
    shoal_model_free(parts);
    return status;
  }
  *out_model = parts;
  return NULL;
}
