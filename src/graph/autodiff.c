// Reverse-mode differentiation: walks the nodes behind a loss backwards and asks each op's record
// for its gradient. It knows no op but shoal.add (contributions to a value are summed) and
// shoal.full (the seed, and zeros for what the loss does not depend on).
//
// Nodes of forward node n are called "grad/n/op"; sums into a value too, under the node or name it
// is from. Records emit the gradients of all their inputs; those that nothing needs (the gradient
// of the data) are taken out again at the end: the graph gains exactly the nodes that lead to the
// asked-for gradients. Each of them knows the forward node it belongs to, and its kind: a node that
// leads to nothing but gradients of values that depend on states alone is a weight gradient, which
// a schedule may put off; every other one is an input gradient, for which earlier layers wait.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "graph/builder.h"

typedef struct grad {
  shoal_graph_t *graph;
  shoal_graph_emitter_t emitter;
  shoal_arena_t scratch;
  int64_t value_count;               // before the first gradient node
  bool *wanted;                      // [value_count] does it lead from a value we differentiate by?
  bool *constant;                    // [value_count] does it depend on states alone?
  shoal_ref_t *sums;                 // [value_count] gradient so far, or SHOAL_NO_REF
  SHOAL_VEC(shoal_ref_t) passed_on;  // gradients of values that depend on inputs
} grad_t;

static bool is_float(const shoal_graph_t *graph, int32_t value) {
  return shoal_dtype_is_float(graph->values.items[value].type.dtype);
}

// The forward node that gradients of a node belong to: its own, when it is a gradient itself.
static int32_t forward_of(const shoal_graph_t *graph, int32_t node) {
  if (node < 0 || graph->nodes.items[node].kind == SHOAL_NODE_FORWARD) return node;
  return graph->nodes.items[node].of;
}

// Opens scope "grad/<node of the value, or its name>", for gradients that belong to that node. A
// state has none: its gradients belong to `reader`, a node that reads it.
static shoal_status_t push_value_scope(shoal_graph_t *graph, int32_t value, int32_t reader) {
  const shoal_value_info_t *info = &graph->values.items[value];
  const int32_t node = info->source == SHOAL_FROM_NODE ? info->node : reader;
  const char *name =
      info->source == SHOAL_FROM_NODE ? graph->nodes.items[info->node].name : info->name;
  const char *scope = shoal_arena_printf(&graph->model->arena, "grad/%s", name);
  if (!scope) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_graph_push_scope(graph, scope));
  return shoal_graph_push_purpose(
      graph, (shoal_purpose_t){SHOAL_NODE_INPUT_GRADIENT, forward_of(graph, node)});
}

static void pop_value_scope(shoal_graph_t *graph) {
  shoal_graph_pop_purpose(graph);
  shoal_graph_pop_scope(graph);
}

static shoal_status_t pass_on(grad_t *g, int32_t value, shoal_ref_t ref) {
  if (g->constant[value]) return NULL;
  return SHOAL_PUSH(&g->scratch, &g->passed_on, ref) ? NULL : SHOAL_OOM();
}

static shoal_status_t emit_full(grad_t *g, int32_t like, double value, shoal_ref_t *out_ref) {
  const shoal_type_t type = g->graph->values.items[like].type;
  SHOAL_RETURN_IF_ERROR(push_value_scope(g->graph, like, -1));
  shoal_attr_t attrs[] = {shoal_attr_shape("shape", &type.shape), shoal_attr_real("value", value),
                          shoal_attr_dtype("dtype", type.dtype)};
  shoal_emit(&g->emitter.base, "shoal.full", 0, NULL, 3, attrs, 1, out_ref);
  pop_value_scope(g->graph);
  SHOAL_RETURN_IF_ERROR(shoal_graph_emitter_status(&g->emitter));
  return pass_on(g, like, *out_ref);
}

// Adds to the gradient of a value what node `from` gives. The sum belongs to the node that makes
// the value; that of a state to the first of its readers, whose gradients come last.
static shoal_status_t contribute(grad_t *g, int32_t from, int32_t value, shoal_ref_t ref) {
  shoal_graph_t *graph = g->graph;
  const shoal_type_t *want = &graph->values.items[value].type;
  const shoal_type_t *have = &graph->values.items[ref].type;
  if (!shoal_type_equal(want, have)) {
    return SHOAL_ERROR(INTERNAL, "%s gave a gradient of another type than its input '%s'",
                       graph->nodes.items[from].op->name, graph->values.items[value].name);
  }
  if (g->sums[value] == SHOAL_NO_REF) {
    g->sums[value] = ref;
    return pass_on(g, value, ref);
  }
  shoal_ref_t both[] = {g->sums[value], ref};
  SHOAL_RETURN_IF_ERROR(push_value_scope(graph, value, from));
  shoal_emit(&g->emitter.base, "shoal.add", 2, both, 0, NULL, 1, &g->sums[value]);
  pop_value_scope(graph);
  SHOAL_RETURN_IF_ERROR(shoal_graph_emitter_status(&g->emitter));
  return pass_on(g, value, g->sums[value]);
}

static shoal_status_t differentiate(grad_t *g, int64_t node_index) {
  shoal_graph_t *graph = g->graph;
  const shoal_node_t node = graph->nodes.items[node_index];  // a copy: emitting moves the array
  shoal_ref_t *refs = SHOAL_NEW(&g->scratch, shoal_ref_t, node.input_count + node.output_count);
  if (!refs) return SHOAL_OOM();
  shoal_ref_t *output_grads = refs, *input_grads = refs + node.output_count;
  bool flows = false, wanted = false;
  for (int32_t i = 0; i < node.output_count; ++i) {
    output_grads[i] = g->sums[node.outputs[i]];
    flows |= output_grads[i] != SHOAL_NO_REF;
  }
  for (int32_t i = 0; i < node.input_count; ++i) {
    input_grads[i] = SHOAL_NO_REF;
    wanted |= g->wanted[node.inputs[i]];
  }
  if (!flows || !wanted) return NULL;
  if (!node.op->gradient) {
    return SHOAL_ERROR(UNSUPPORTED, "%s has no gradient; node '%s' made at %s:%d needs one",
                       node.op->name, node.name, node.file, node.line);
  }
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, &node, &g->scratch, &call));
  SHOAL_RETURN_IF_ERROR(push_value_scope(graph, node.outputs[0], -1));
  node.op->gradient(&call, &g->emitter.base, node.inputs, node.outputs, output_grads, input_grads);
  pop_value_scope(graph);
  SHOAL_RETURN_IF_ERROR(shoal_graph_emitter_status(&g->emitter));
  for (int32_t i = 0; i < node.input_count; ++i) {
    if (input_grads[i] == SHOAL_NO_REF || !g->wanted[node.inputs[i]]) continue;
    SHOAL_RETURN_IF_ERROR(contribute(g, (int32_t)node_index, node.inputs[i], input_grads[i]));
  }
  return NULL;
}

// Takes out the nodes from `first_node` on that no root needs, and gives the others their kind.
// Values from `first_value` on are theirs.
static shoal_status_t prune(grad_t *g, int64_t first_node, int64_t first_value, int64_t count,
                            int32_t *roots) {
  shoal_graph_t *graph = g->graph;
  bool *live = SHOAL_NEW(&g->scratch, bool, graph->values.count);
  bool *passed_on = SHOAL_NEW(&g->scratch, bool, graph->values.count);
  int32_t *moved = SHOAL_NEW(&g->scratch, int32_t, graph->values.count);
  if (!live || !passed_on || !moved) return SHOAL_OOM();
  for (int64_t i = 0; i < first_value; ++i) moved[i] = (int32_t)i;
  for (int64_t i = 0; i < count; ++i) live[roots[i]] = true;
  for (int64_t i = 0; i < g->passed_on.count; ++i) passed_on[g->passed_on.items[i]] = true;
  for (int64_t i = graph->nodes.count; i-- > first_node;) {
    shoal_node_t *node = &graph->nodes.items[i];
    bool any = false, on = false;
    for (int32_t k = 0; k < node->output_count; ++k) {
      any |= live[node->outputs[k]];
      on |= passed_on[node->outputs[k]];
    }
    if (!on) node->kind = SHOAL_NODE_WEIGHT_GRADIENT;
    for (int32_t k = 0; any && k < node->input_count; ++k) {
      live[node->inputs[k]] = true;
      passed_on[node->inputs[k]] |= on;
    }
    for (int32_t k = 0; any && k < node->output_count; ++k) live[node->outputs[k]] = true;
  }
  int64_t nodes = first_node, values = first_value;
  for (int64_t i = first_node; i < graph->nodes.count; ++i) {
    shoal_node_t node = graph->nodes.items[i];
    if (!live[node.outputs[0]]) continue;
    int32_t *operands =
        SHOAL_NEW(&graph->model->arena, int32_t, node.input_count + node.output_count);
    if (!operands) return SHOAL_OOM();
    for (int32_t k = 0; k < node.input_count; ++k) operands[k] = moved[node.inputs[k]];
    for (int32_t k = 0; k < node.output_count; ++k) {
      moved[node.outputs[k]] = operands[node.input_count + k] = (int32_t)values;
      graph->values.items[values] = graph->values.items[node.outputs[k]];
      graph->values.items[values++].node = (int32_t)nodes;
    }
    node.inputs = operands;
    node.outputs = operands + node.input_count;
    graph->nodes.items[nodes++] = node;
  }
  graph->nodes.count = nodes;
  graph->values.count = values;
  for (int64_t i = 0; i < count; ++i) roots[i] = moved[roots[i]];
  return NULL;
}

static shoal_status_t check_operands(const shoal_graph_t *graph, shoal_value_t loss, int32_t count,
                                     const shoal_value_t *wrt) {
  if (!shoal_value_ok(loss) || loss.graph != graph) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the loss is not a value of graph '%s'", graph->name);
  }
  const shoal_type_t type = shoal_value_type(loss);
  if (type.shape.rank != 0 || !shoal_dtype_is_float(type.dtype)) {
    char is[SHOAL_TYPE_SIZE];
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "reduce it with reduce_sum or reduce_mean first",
                            "only a float scalar can be differentiated; '%s' is %s",
                            shoal_value_name(loss), shoal_type_format(&type, is, sizeof is));
  }
  for (int32_t i = 0; i < count; ++i) {
    if (!shoal_value_ok(wrt[i]) || wrt[i].graph != graph) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "value %d to differentiate by is not one of graph '%s'",
                         (int)i, graph->name);
    }
    if (!is_float(graph, wrt[i].id)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is not a float: there is no gradient by it",
                         shoal_value_name(wrt[i]));
    }
  }
  return NULL;
}

static shoal_status_t gradients(grad_t *g, int32_t loss, int32_t count, const shoal_value_t *wrt,
                                int32_t *out_ids) {
  shoal_graph_t *graph = g->graph;
  int64_t node_count = graph->nodes.count;
  g->value_count = graph->values.count;
  g->wanted = SHOAL_NEW(&g->scratch, bool, g->value_count);
  g->constant = SHOAL_NEW(&g->scratch, bool, g->value_count);
  g->sums = SHOAL_NEW(&g->scratch, shoal_ref_t, g->value_count);
  if (!g->wanted || !g->constant || !g->sums) return SHOAL_OOM();
  for (int64_t i = 0; i < g->value_count; ++i) g->sums[i] = SHOAL_NO_REF;
  for (int32_t i = 0; i < count; ++i) g->wanted[wrt[i].id] = true;
  for (int64_t i = 0; i < g->value_count; ++i)
    g->constant[i] = graph->values.items[i].source == SHOAL_FROM_STATE;
  for (int64_t i = 0; i < node_count; ++i) {
    const shoal_node_t *node = &graph->nodes.items[i];
    bool any = false, constant = true;
    for (int32_t k = 0; k < node->input_count; ++k) {
      any |= g->wanted[node->inputs[k]];
      constant &= g->constant[node->inputs[k]];
    }
    for (int32_t k = 0; k < node->output_count; ++k) {
      g->wanted[node->outputs[k]] |= any && is_float(graph, node->outputs[k]);
      g->constant[node->outputs[k]] = constant;
    }
  }
  if (g->wanted[loss]) SHOAL_RETURN_IF_ERROR(emit_full(g, loss, 1, &g->sums[loss]));
  for (int64_t i = node_count; i-- > 0;) SHOAL_RETURN_IF_ERROR(differentiate(g, i));
  for (int32_t i = 0; i < count; ++i) {
    if (g->sums[wrt[i].id] == SHOAL_NO_REF) {
      SHOAL_RETURN_IF_ERROR(emit_full(g, wrt[i].id, 0, &g->sums[wrt[i].id]));
    }
    out_ids[i] = g->sums[wrt[i].id];
  }
  return prune(g, node_count, g->value_count, count, out_ids);
}

void shoal_gradients_at(shoal_graph_t *graph, shoal_value_t loss, int32_t count,
                        const shoal_value_t *wrt, shoal_value_t *out_gradients, const char *file,
                        int line) {
  for (int32_t i = 0; i < count; ++i) out_gradients[i] = (shoal_value_t){NULL, -1};
  if (!graph || graph->model->error) return;
  shoal_graph_site(graph, &file, &line);
  grad_t g = {.graph = graph};
  shoal_arena_init(graph->model->allocator, &g.scratch);
  shoal_graph_emitter_init(graph, file, line, &g.emitter);
  shoal_status_t status = NULL;
  int32_t *ids = SHOAL_NEW(&g.scratch, int32_t, count > 0 ? count : 0);
  if (!ids) SHOAL_GOTO_IF_ERROR(status, done, SHOAL_OOM());
  SHOAL_GOTO_IF_ERROR(status, done, check_operands(graph, loss, count, wrt));
  SHOAL_GOTO_IF_ERROR(status, done, gradients(&g, loss.id, count, wrt, ids));
  for (int32_t i = 0; i < count; ++i) out_gradients[i] = (shoal_value_t){graph, ids[i]};
done:
  shoal_arena_deinit(&g.scratch);
  shoal_model_fail_at(graph->model, shoal_status_annotate(status, "gradient"), file, line);
}
