// Values that are computed again, and what a plan says about where values wait: what is computed
// again need not wait anywhere. A `keep` with a pattern stores what is left of its values; one that
// names a value by itself stores it, and what is computed again starts from it.
#include <string.h>

#include "base/status.h"
#include "plan/complete.h"

// Of one decision of kind `keep`, in a graph.
typedef struct stored {
  int32_t first;  // a value that it leaves out, for it is computed again; -1: there is none
  bool any;       // it stores others
} stored_t;

void shoal_plan_find_again(const shoal_graph_plan_t *gp, bool *again) {
  const shoal_graph_t *g = gp->graph;
  for (int64_t v = 0; v < g->values.count; ++v) {
    const shoal_value_info_t *info = &g->values.items[v];
    again[v] = info->source == SHOAL_FROM_NODE && gp->regions[info->node] >= 0;
  }
  for (int64_t i = 0; i < g->outputs.count; ++i) again[g->outputs.items[i].value] = false;
  for (int64_t i = 0; i < g->assigns.count; ++i) again[g->assigns.items[i].value] = false;
  for (int64_t n = 0; n < g->nodes.count; ++n) {
    const shoal_node_t *node = &g->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD && node->kind != SHOAL_NODE_UPDATE) continue;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const int32_t v = node->inputs[i];
      if (again[v] && (node->kind == SHOAL_NODE_UPDATE ||
                       gp->regions[n] != gp->regions[g->values.items[v].node]))
        again[v] = false;
    }
  }
}

// Marks what is made in the forward pass and read later, by second turns among others.
static void find_read_later(const shoal_graph_plan_t *gp, bool *later) {
  const shoal_graph_t *g = gp->graph;
  for (int64_t n = 0; n < g->nodes.count; ++n) {
    const shoal_node_t *node = &g->nodes.items[n];
    if (node->kind == SHOAL_NODE_FORWARD && gp->regions[n] < 0) continue;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *info = &g->values.items[node->inputs[i]];
      later[node->inputs[i]] |=
          info->source == SHOAL_FROM_NODE && g->nodes.items[info->node].kind == SHOAL_NODE_FORWARD;
    }
  }
}

// Both by name.
static shoal_status_t check_both(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t v,
                                 const shoal_intent_decision_t *keep) {
  const int32_t n = gp->graph->values.items[v].node;
  const shoal_intent_decision_t *recompute =
      shoal_plan_decided_node(plan, SHOAL_DECIDE_RECOMPUTE, gp, n);
  if (!recompute || strcmp(recompute->pattern, gp->graph->nodes.items[n].name) != 0) return NULL;
  return shoal_decision_annotate(
      keep, SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave out one of the two",
                             "it is to be computed again, too, by decision 'recompute %s %s'",
                             recompute->pattern, recompute->choice));
}

static shoal_status_t check_stored(const shoal_graph_plan_t *gp,
                                   const shoal_intent_decision_t *keep, const stored_t *stored,
                                   shoal_arena_t *scratch) {
  if (stored->first < 0 || stored->any) return NULL;
  const char *hint = shoal_arena_printf(
      scratch, "decide 'recompute %s no' as well, or name each value by itself", keep->pattern);
  if (!hint) return SHOAL_OOM();
  return shoal_decision_annotate(
      keep, SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint,
                             "nothing is left to store: '%s' and what else it matches are "
                             "computed again",
                             gp->graph->values.items[stored->first].name));
}

shoal_status_t shoal_plan_store_rest(const shoal_plan_t *plan, shoal_graph_plan_t *gp,
                                     shoal_arena_t *scratch) {
  const shoal_patterns_t *keeps = &plan->patterns[SHOAL_DECIDE_KEEP];
  const int64_t values = gp->graph->values.count;
  bool *again = SHOAL_NEW(scratch, bool, values), *later = SHOAL_NEW(scratch, bool, values);
  stored_t *stored = SHOAL_NEW(scratch, stored_t, keeps->count);
  if (!again || !later || !stored) return SHOAL_OOM();
  for (int64_t e = 0; e < keeps->count; ++e) stored[e].first = -1;
  shoal_plan_find_again(gp, again);
  find_read_later(gp, later);
  for (int64_t v = 0; v < values; ++v) {
    if (gp->keeps[v] != SHOAL_KEEP_HOST && gp->keeps[v] != SHOAL_KEEP_FILE) continue;
    const shoal_intent_decision_t *keep =
        shoal_plan_decided(plan, SHOAL_DECIDE_KEEP, gp->graph->values.items[v].name);
    stored_t *by = &stored[keep - keeps->entries];
    if (again[v] && shoal_pattern_is(keep->pattern)) {
      gp->keeps[v] = SHOAL_KEEP;
      if (by->first < 0) by->first = (int32_t)v;
      continue;
    }
    if (again[v]) SHOAL_RETURN_IF_ERROR(check_both(plan, gp, v, keep));
    by->any |= later[v];
  }
  for (int64_t e = 0; e < keeps->count; ++e)
    SHOAL_RETURN_IF_ERROR(check_stored(gp, &keeps->entries[e], &stored[e], scratch));
  return NULL;
}
