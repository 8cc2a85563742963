// See trail.h.
#include "planners/trail.h"

#include <string.h>

#include "base/status.h"

shoal_status_t shoal_trail_init(shoal_strategy_context_t *context, shoal_trail_t *out_walk) {
  shoal_trail_t trail = {.context = context};
  trail.graph = shoal_model_find_graph(context->model, "train");
  for (int64_t g = 0; g < context->model->graphs.count && !trail.graph; ++g)
    if (strcmp(context->model->graphs.items[g]->name, "init") != 0)
      trail.graph = context->model->graphs.items[g];
  *out_walk = trail;
  if (!trail.graph) return NULL;
  trail.rules = SHOAL_NEW(context->arena, const shoal_rule_t *, trail.graph->nodes.count);
  trail.dims = SHOAL_NEW(context->arena, int32_t, trail.graph->values.count);
  trail.seen = SHOAL_NEW(context->arena, bool, trail.graph->values.count);
  if (!trail.rules || !trail.dims || !trail.seen) return SHOAL_OOM();
  for (int64_t n = 0; n < trail.graph->nodes.count; ++n) {
    shoal_call_t call;
    SHOAL_RETURN_IF_ERROR(
        shoal_node_call(trail.graph, &trail.graph->nodes.items[n], context->arena, &call));
    SHOAL_RETURN_IF_ERROR(shoal_rules_get(context->rules, &call, &trail.rules[n]));
  }
  shoal_trail_reset(&trail);
  *out_walk = trail;
  return NULL;
}

void shoal_trail_reset(shoal_trail_t *trail) {
  for (int64_t v = 0; v < trail->graph->values.count; ++v) trail->dims[v] = -1;
}

bool shoal_operand_is_plain(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_CUT && operand->scale == 1 && operand->repeat == 1 &&
         operand->length == 0 && operand->before == 0 && operand->after == 0 &&
         !operand->dealt_by_items;
}

const shoal_way_t *shoal_trail_way(const shoal_trail_t *trail, int64_t n) {
  const shoal_node_t *node = &trail->graph->nodes.items[n];
  const shoal_way_t *best = NULL;
  int32_t most = 0;
  for (int32_t w = 0; w < trail->rules[n]->way_count; ++w) {
    const shoal_way_t *way = &trail->rules[n]->ways[w];
    int32_t same = 0;
    for (int32_t k = 0; k < node->input_count; ++k)
      same += trail->dims[node->inputs[k]] >= 0 && way->operands[k].kind == SHOAL_OPERAND_CUT &&
              way->operands[k].dim == trail->dims[node->inputs[k]];
    if (same > most) best = way, most = same;
  }
  return best;
}

static bool alike(const shoal_graph_t *graph, int32_t a, int32_t b) {
  return shoal_shape_equal(&graph->values.items[a].type.shape, &graph->values.items[b].type.shape);
}

void shoal_trail_take(shoal_trail_t *trail, int64_t n, const shoal_way_t *way) {
  const shoal_node_t *node = &trail->graph->nodes.items[n];
  for (int32_t o = 0; o < node->output_count; ++o) {
    const shoal_way_operand_t *out = way ? &way->operands[node->input_count + o] : NULL;
    int32_t *dim = &trail->dims[node->outputs[o]];
    *dim = out && out->kind == SHOAL_OPERAND_CUT ? out->dim : -1;
    for (int32_t k = 0; !way && node->op->decompose && k < node->input_count; ++k)
      if (alike(trail->graph, node->inputs[k], node->outputs[o]) && *dim < 0)
        *dim = trail->dims[node->inputs[k]];
  }
}

static shoal_status_t trace(shoal_trail_t *trail, int32_t value, int32_t dim,
                            shoal_trail_fn_t found, void *self) {
  if (trail->seen[value]) return NULL;
  trail->seen[value] = true;
  const shoal_value_info_t *info = &trail->graph->values.items[value];
  if (info->source != SHOAL_FROM_NODE) return found(self, value, dim);
  const shoal_node_t *node = &trail->graph->nodes.items[info->node];
  const shoal_rule_t *rule = trail->rules[info->node];
  bool passed = false, phases = false;
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *out = &way->operands[node->input_count + info->output];
    if (!shoal_operand_is_plain(out) || out->dim != dim) continue;
    for (int32_t k = 0; k < node->input_count; ++k)
      if (shoal_operand_is_plain(&way->operands[k]))
        SHOAL_RETURN_IF_ERROR(trace(trail, node->inputs[k], way->operands[k].dim, found, self));
    passed = true;
  }
  for (int32_t k = 0; !passed && node->op->decompose && k < node->input_count; ++k)
    if (alike(trail->graph, node->inputs[k], value)) {
      SHOAL_RETURN_IF_ERROR(trace(trail, node->inputs[k], dim, found, self));
      phases = true;
    }
  return passed || phases ? NULL : found(self, value, dim);
}

shoal_status_t shoal_trail_trace(shoal_trail_t *trail, int32_t value, int32_t dim,
                                 shoal_trail_fn_t found, void *self) {
  memset(trail->seen, 0, (size_t)trail->graph->values.count * sizeof *trail->seen);
  return trace(trail, value, dim, found, self);
}
