// Deciding on a way of a node, for strategies that look at one graph of a model. A decision names
// a node, and graphs of one model share names: the same layer runs in "train" and "eval", or on a
// whole prompt in "prefill" and on one token in "decode". A way need not exist in all of them (one
// token has no sequence to cut), so a strategy decides only on what all of them can do, and leaves
// the rest to completion.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "planners/planners.h"

// Indexes the nodes of all graphs by name, once.
static shoal_status_t index_nodes(shoal_strategy_context_t *context) {
  if (context->by_name.arena) return NULL;
  shoal_index_init(context->arena, &context->by_name);
  for (int64_t g = 0; g < context->model->graphs.count; ++g) {
    const shoal_graph_t *graph = context->model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      const shoal_context_node_t one = {graph, &graph->nodes.items[n]};
      const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, one.node->name);
      if (!shoal_index_add(&context->by_name, hash, context->nodes.count) ||
          !SHOAL_PUSH(context->arena, &context->nodes, one))
        return SHOAL_OOM();
    }
  }
  return NULL;
}

// `items`: how many the way must have; 0: any number.
static shoal_status_t has_way(shoal_strategy_context_t *context, const shoal_context_node_t *one,
                              const char *text, int64_t items, bool *out_has) {
  shoal_call_t call;
  const shoal_rule_t *rule = NULL;
  *out_has = false;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(one->graph, one->node, context->arena, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(context->rules, &call, &rule));
  for (int32_t w = 0; w < rule->way_count && !*out_has; ++w) {
    const char *printed = NULL;
    SHOAL_RETURN_IF_ERROR(
        shoal_way_print(one->node->op, one->node->attrs, &rule->ways[w], context->arena, &printed));
    *out_has = strcmp(printed, text) == 0 && (items == 0 || rule->ways[w].items == items);
  }
  return NULL;
}

shoal_status_t shoal_context_decide_way(shoal_strategy_context_t *context, const shoal_node_t *node,
                                        const char *axis, const shoal_way_t *way,
                                        const char *reason) {
  return shoal_context_decide_deal(context, node, axis, way, "", reason);
}

shoal_status_t shoal_context_decide_deal(shoal_strategy_context_t *context,
                                         const shoal_node_t *node, const char *axis,
                                         const shoal_way_t *way, const char *deal,
                                         const char *reason) {
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, node->name);
  const char *text = NULL;
  if (node->op->constrains) return NULL;  // the model has decided
  SHOAL_RETURN_IF_ERROR(shoal_way_print(node->op, node->attrs, way, context->arena, &text));
  SHOAL_RETURN_IF_ERROR(index_nodes(context));
  for (int64_t at = -1, n; (n = shoal_index_next(&context->by_name, hash, &at)) >= 0;) {
    const shoal_context_node_t *one = &context->nodes.items[n];
    bool has = true;
    if (one->node != node && strcmp(one->node->name, node->name) == 0)
      SHOAL_RETURN_IF_ERROR(has_way(context, one, text, deal[0] ? way->items : 0, &has));
    if (!has) return NULL;
  }
  text = shoal_arena_printf(context->arena, "%s=%s%s", axis, text, deal);
  if (!text) return SHOAL_OOM();
  return shoal_context_decide(context, "way", node->name, text, reason);
}
