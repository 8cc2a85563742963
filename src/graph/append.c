// Appending to a graph: the one place where inputs, state reads, nodes, outputs and assignments
// come from. It checks and infers; it does not know who calls (builder, autodiff, parser,
// expansion) and blames nobody.
//
// Invariants kept: values and nodes are in topological order; a node's outputs have consecutive
// ids; names of nodes and values are unique in the graph; every type has a byte count that fits 64
// bits.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "graph/builder.h"
#include "op/attrs.h"
#include "op/operands.h"

static shoal_status_t add_value(shoal_graph_t *graph, shoal_value_info_t info, int32_t *out_id) {
  shoal_arena_t *arena = &graph->model->arena;
  if (graph->values.count >= INT32_MAX) return SHOAL_ERROR(UNSUPPORTED, "too many values");
  // consecutive values mostly come from the same file: keep one copy of its name
  if (!info.file) info.file = "";
  const shoal_value_info_t *last =
      graph->values.count ? &graph->values.items[graph->values.count - 1] : NULL;
  info.file = last && strcmp(last->file, info.file) == 0 ? last->file
                                                         : shoal_arena_strdup(arena, info.file);
  if (!info.file || !SHOAL_PUSH(arena, &graph->values, info)) return SHOAL_OOM();
  *out_id = (int32_t)(graph->values.count - 1);
  return NULL;
}

static shoal_status_t take_exact_name(shoal_graph_t *graph, const char *name,
                                      const char **out_name) {
  shoal_arena_t *arena = &graph->model->arena;
  const char *copy = shoal_arena_strdup(arena, name);
  bool is_new;
  if (!copy || !shoal_names_add(arena, &graph->builder->names, copy, &is_new)) return SHOAL_OOM();
  if (!is_new) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the name '%s' is already used in graph '%s'", name,
                       graph->name);
  }
  *out_name = copy;
  return NULL;
}

shoal_status_t shoal_graph_add_input(shoal_graph_t *graph, const char *name, shoal_type_t type,
                                     const char *file, int line, int32_t *out_id) {
  SHOAL_RETURN_IF_ERROR(shoal_type_check(&type));
  SHOAL_RETURN_IF_ERROR(take_exact_name(graph, name, &name));
  SHOAL_RETURN_IF_ERROR(add_value(graph,
                                  (shoal_value_info_t){.type = type,
                                                       .name = name,
                                                       .source = SHOAL_FROM_INPUT,
                                                       .node = -1,
                                                       .index = (int32_t)graph->inputs.count,
                                                       .file = file,
                                                       .line = line},
                                  out_id));
  shoal_named_t input = {name, *out_id};
  return SHOAL_PUSH(&graph->model->arena, &graph->inputs, input) ? NULL : SHOAL_OOM();
}

shoal_status_t shoal_graph_read_state(shoal_graph_t *graph, int32_t state, const char *file,
                                      int line, int32_t *out_id) {
  struct shoal_graph_builder *b = graph->builder;
  while (b->state_values.count <= state) {
    if (!SHOAL_PUSH(&graph->model->arena, &b->state_values, -1)) return SHOAL_OOM();
  }
  if (b->state_values.items[state] < 0) {
    const shoal_state_info_t *info = &graph->model->states.items[state];
    const char *name;
    SHOAL_RETURN_IF_ERROR(take_exact_name(graph, info->name, &name));
    SHOAL_RETURN_IF_ERROR(add_value(graph,
                                    (shoal_value_info_t){.type = info->type,
                                                         .name = name,
                                                         .source = SHOAL_FROM_STATE,
                                                         .node = -1,
                                                         .index = state,
                                                         .file = file,
                                                         .line = line},
                                    &b->state_values.items[state]));
  }
  *out_id = b->state_values.items[state];
  return NULL;
}

shoal_status_t shoal_graph_add_output(shoal_graph_t *graph, const char *name, int32_t value) {
  for (int64_t i = 0; i < graph->outputs.count; ++i) {
    if (strcmp(graph->outputs.items[i].name, name) == 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "graph '%s' already has an output '%s'", graph->name,
                         name);
    }
  }
  shoal_named_t output = {shoal_arena_strdup(&graph->model->arena, name), value};
  if (!output.name || !SHOAL_PUSH(&graph->model->arena, &graph->outputs, output))
    return SHOAL_OOM();
  return NULL;
}

shoal_status_t shoal_graph_assign(shoal_graph_t *graph, int32_t state, int32_t value,
                                  int32_t predicate) {
  const shoal_state_info_t *info = &graph->model->states.items[state];
  const shoal_type_t *type = &graph->values.items[value].type;
  for (int64_t i = 0; i < graph->assigns.count; ++i) {
    if (graph->assigns.items[i].state == state) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' is assigned twice in graph '%s'", info->name,
                         graph->name);
    }
  }
  if (!shoal_type_equal(type, &info->type)) {
    char have[SHOAL_TYPE_SIZE], want[SHOAL_TYPE_SIZE];
    return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' is %s and cannot be assigned %s", info->name,
                       shoal_type_format(&info->type, want, sizeof want),
                       shoal_type_format(type, have, sizeof have));
  }
  const shoal_type_t *decides = predicate < 0 ? NULL : &graph->values.items[predicate].type;
  if (decides && (decides->dtype != SHOAL_BOOL || decides->shape.rank != 0)) {
    char have[SHOAL_TYPE_SIZE];
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "compare with greater_equal or equal, and reduce it to a scalar",
                            "state '%s': only a bool scalar decides about an assignment; '%s' is "
                            "%s",
                            info->name, graph->values.items[predicate].name,
                            shoal_type_format(decides, have, sizeof have));
  }
  shoal_assignment_t assign = {.state = state, .value = value, .predicate = predicate};
  return SHOAL_PUSH(&graph->model->arena, &graph->assigns, assign) ? NULL : SHOAL_OOM();
}

// ---- nodes -----------------------------------------------------------------------------

static shoal_status_t name_node(shoal_graph_t *graph, const shoal_node_spec_t *spec,
                                const char **out_name) {
  if (spec->name) return take_exact_name(graph, spec->name, out_name);
  struct shoal_graph_builder *b = graph->builder;
  const char *dot = strrchr(spec->op->name, '.');
  const char *scope = b->scopes.count ? b->scopes.items[b->scopes.count - 1] : "";
  const char *base = shoal_arena_printf(&graph->model->arena, "%s%s%s", scope, scope[0] ? "/" : "",
                                        dot ? dot + 1 : spec->op->name);
  if (base && strlen(base) >= SHOAL_NAME_LIMIT - 20) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the name '%.80s...' is too long", base);
  }
  *out_name = base ? shoal_names_take(&graph->model->arena, &b->names, b->avoid, base) : NULL;
  return *out_name ? NULL : SHOAL_OOM();
}

const char *shoal_node_value_name(const shoal_node_t *node, int32_t output,
                                  char buffer[SHOAL_NAME_LIMIT + 64]) {
  if (node->output_count == 1) return node->name;
  const shoal_operand_name_t name = shoal_output_name(node->op, node->output_count, output);
  if (name.number < 0) {
    snprintf(buffer, SHOAL_NAME_LIMIT + 64, "%s.%s", node->name, name.name);
  } else {
    snprintf(buffer, SHOAL_NAME_LIMIT + 64, "%s.%s_%d", node->name, name.name, name.number);
  }
  return buffer;
}

static shoal_status_t add_outputs(shoal_graph_t *graph, const shoal_node_t *node,
                                  const shoal_type_t *types, int32_t *out_ids) {
  char buffer[SHOAL_NAME_LIMIT + 64];
  for (int32_t i = 0; i < node->output_count; ++i) {
    shoal_value_info_t info = {.type = types[i],
                               .name = node->name,
                               .source = SHOAL_FROM_NODE,
                               .node = (int32_t)graph->nodes.count,
                               .output = i,
                               .index = -1,
                               .file = node->file,
                               .line = node->line};
    if (node->output_count > 1) {
      SHOAL_RETURN_IF_ERROR(
          take_exact_name(graph, shoal_node_value_name(node, i, buffer), &info.name));
    }
    SHOAL_RETURN_IF_ERROR(add_value(graph, info, &out_ids[i]));
  }
  return NULL;
}

shoal_status_t shoal_graph_rename(shoal_graph_t *graph, int32_t value, const char *name) {
  return take_exact_name(graph, name, &graph->values.items[value].name);
}

shoal_status_t shoal_graph_append(shoal_graph_t *graph, const shoal_node_spec_t *spec,
                                  int32_t *out_ids) {
  shoal_arena_t *arena = &graph->model->arena;
  const shoal_op_t *op = spec->op;
  int32_t outputs = shoal_op_outputs(op, spec->attrs);
  shoal_node_t node = {.op = op,
                       .input_count = spec->input_count,
                       .output_count = outputs,
                       .kind = spec->purpose.kind,
                       .of = spec->purpose.of,
                       .stage = spec->stage,
                       .sharing = spec->sharing,
                       .recompute = spec->recompute,
                       .line = spec->line};
  shoal_attr_value_t *attrs = shoal_attrs_copy(op, spec->attrs, arena);
  node.inputs = shoal_arena_copy(arena, spec->inputs, (size_t)spec->input_count, sizeof(int32_t));
  int32_t *ids = SHOAL_NEW(arena, int32_t, outputs);
  shoal_type_t *types = SHOAL_NEW(arena, shoal_type_t, spec->input_count + outputs);
  if (!attrs || !node.inputs || !ids || !types) return SHOAL_OOM();
  for (int32_t i = 0; i < op->attr_count; ++i)
    if (op->attrs[i].kind == SHOAL_ATTR_PLACE)
      attrs[i].place = NULL;  // a graph speaks of the whole
  for (int32_t i = 0; i < spec->input_count; ++i)
    types[i] = graph->values.items[spec->inputs[i]].type;
  shoal_type_t *out_types = types + spec->input_count;
  shoal_call_t call = {.op = op,
                       .input_count = spec->input_count,
                       .output_count = outputs,
                       .inputs = types,
                       .attrs = attrs};
  shoal_op_complete(op, spec->input_count, types, attrs);
  SHOAL_RETURN_IF_ERROR(shoal_op_infer(&call, out_types));
  for (int32_t i = 0; i < outputs; ++i) {
    SHOAL_RETURN_IF_ERROR(shoal_status_annotatef(shoal_type_check(&out_types[i]), "output '%s'",
                                                 shoal_output_name(op, outputs, i).name));
  }
  SHOAL_RETURN_IF_ERROR(name_node(graph, spec, &node.name));
  node.file = spec->file ? spec->file : "";
  SHOAL_RETURN_IF_ERROR(add_outputs(graph, &node, out_types, ids));
  node.file = outputs ? graph->values.items[ids[0]].file : "";  // the model's own copy
  node.attrs = attrs;
  node.outputs = ids;
  if (!SHOAL_PUSH(arena, &graph->nodes, node)) return SHOAL_OOM();
  memcpy(out_ids, ids, (size_t)outputs * sizeof *ids);
  return NULL;
}

// Inputs in the places of the record's names, -1 or too few where one is left out, become those
// that are given and the attribute that names them. A caller who writes that attribute gives just
// those.
static shoal_status_t leave_out(const shoal_op_t *op, shoal_arena_t *arena, int32_t *input_count,
                                const int32_t **inputs, int32_t *attr_count,
                                const shoal_attr_t **attrs) {
  const int32_t required = op->input_count - op->optional;
  const int32_t last = *input_count < op->input_count ? *input_count : op->input_count;
  int32_t *given = shoal_arena_copy(arena, *inputs, (size_t)*input_count, sizeof *given);
  shoal_attr_t *all = SHOAL_NEW(arena, shoal_attr_t, *attr_count + 1);
  const char *with = "";
  if (!given || !all) return SHOAL_OOM();
  bool gaps = false, written = false;
  for (int32_t i = required; i < *input_count; ++i) gaps |= (*inputs)[i] < 0;
  for (int32_t i = 0; i < *attr_count; ++i) {
    all[i] = (*attrs)[i];
    written |= all[i].name && strcmp(all[i].name, SHOAL_WITH) == 0;
  }
  if (written && gaps) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "%s: leave inputs out, or name those given in 'with', not both", op->name);
  }
  if (written || *input_count > op->input_count) return NULL;  // as it is
  int32_t count = required < last ? required : last;
  for (int32_t i = count; i < last; ++i) {
    if ((*inputs)[i] < 0) continue;
    given[count++] = (*inputs)[i];
    with = shoal_arena_printf(arena, "%s%s%s", with, with[0] ? "," : "", op->inputs[i]);
    if (!with) return SHOAL_OOM();
  }
  all[(*attr_count)++] = shoal_attr_string(SHOAL_WITH, with);
  *input_count = count;
  *inputs = given;
  *attrs = all;
  return NULL;
}

shoal_status_t shoal_graph_emit(shoal_graph_t *graph, const char *op_name, int32_t input_count,
                                const int32_t *inputs, int32_t attr_count,
                                const shoal_attr_t *attrs, const char *file, int line,
                                int32_t output_count, int32_t *out_ids) {
  const shoal_op_t *op;
  SHOAL_RETURN_IF_ERROR(shoal_op_find(graph->model->registry, op_name, &op));
  if (op->optional) {
    SHOAL_RETURN_IF_ERROR(
        leave_out(op, &graph->model->arena, &input_count, &inputs, &attr_count, &attrs));
  }
  shoal_attr_value_t *values;
  SHOAL_RETURN_IF_ERROR(shoal_op_attrs(op, attr_count, attrs, &graph->model->arena, &values));
  const int32_t outputs = shoal_op_outputs(op, values);
  if (output_count != outputs) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s has %d output%s, not %d", op->name, (int)outputs,
                       outputs == 1 ? "" : "s", (int)output_count);
  }
  const struct shoal_graph_builder *b = graph->builder;
  const shoal_purpose_t forward = {.kind = SHOAL_NODE_FORWARD, .of = -1};
  shoal_node_spec_t spec = {
      .op = op,
      .purpose = b->purposes.count ? b->purposes.items[b->purposes.count - 1] : forward,
      .input_count = input_count,
      .inputs = inputs,
      .attrs = values,
      .file = file,
      .line = line};
  if (spec.purpose.kind == SHOAL_NODE_FORWARD && b->stages.count > 0)
    spec.stage = b->stages.items[b->stages.count - 1];
  if (spec.purpose.kind == SHOAL_NODE_FORWARD)
    spec.sharing =
        b->sharings.count > 0 ? b->sharings.items[b->sharings.count - 1].asked : b->default_sharing;
  if (spec.purpose.kind == SHOAL_NODE_FORWARD && b->regions.count > 0)
    spec.recompute = b->regions.items[b->regions.count - 1].region;
  return shoal_graph_append(graph, &spec, out_ids);
}

shoal_status_t shoal_node_call(const shoal_graph_t *graph, const shoal_node_t *node,
                               shoal_arena_t *arena, shoal_call_t *out_call) {
  shoal_type_t *types = SHOAL_NEW(arena, shoal_type_t, node->input_count + node->output_count);
  if (!types) return SHOAL_OOM();
  for (int32_t i = 0; i < node->input_count; ++i)
    types[i] = graph->values.items[node->inputs[i]].type;
  shoal_type_t *outputs = types + node->input_count;
  for (int32_t i = 0; i < node->output_count; ++i)
    outputs[i] = graph->values.items[node->outputs[i]].type;
  *out_call = (shoal_call_t){.op = node->op,
                             .input_count = node->input_count,
                             .output_count = node->output_count,
                             .inputs = types,
                             .outputs = outputs,
                             .attrs = node->attrs};
  return NULL;
}
