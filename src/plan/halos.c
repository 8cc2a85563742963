// Decisions about halos: a node that reads rows of neighbours may be computed in pieces, so that it
// starts before they are there. Only nodes with a halo can be told to; which these are is known
// when all nodes have their ways.
#include <string.h>

#include "base/status.h"
#include "plan/complete.h"

shoal_halo_t shoal_halo_of(const char *choice) {
  if (!choice || strcmp(choice, "whole") == 0) return SHOAL_HALO_WHOLE;
  return strcmp(choice, "split") == 0 ? SHOAL_HALO_SPLIT : SHOAL_HALO_AUTO;
}

bool shoal_cut_widens(const shoal_layout_t *layout, int32_t item) {
  const shoal_cut_t *cut = &layout->cuts[item];
  return cut->axis != SHOAL_AXIS_MICRO && cut->kind == SHOAL_CUT_DIM &&
         (cut->before > 0 || cut->after > 0) && layout->mesh->axes[cut->axis].size > 1;
}

bool shoal_plan_has_halo(const shoal_graph_plan_t *gp, int64_t n) {
  const int32_t inputs = gp->graph->nodes.items[n].input_count;
  for (int32_t k = 0; k < inputs; ++k) {
    const shoal_layout_t *layout = gp->nodes[n].decision->operands[k];
    for (int32_t i = 0; i < layout->cut_count; ++i)
      if (shoal_cut_widens(layout, i)) return true;
  }
  return false;
}

// Is there a node that the decision speaks of and that has a halo?
static bool finds_one(const shoal_plan_t *plan, const shoal_intent_decision_t *decision) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
      if (shoal_pattern_match(decision->pattern, gp->graph->nodes.items[n].name) &&
          shoal_plan_has_halo(gp, n))
        return true;
  }
  return false;
}

shoal_status_t shoal_plan_settle_halos(shoal_plan_t *plan) {
  for (int64_t i = 0; i < plan->intent.decision_count; ++i) {
    const shoal_intent_decision_t *decision = &plan->intent.decisions[i];
    if (strcmp(decision->kind, "halo") != 0 || strcmp(decision->choice, "split") != 0 ||
        finds_one(plan, decision))
      continue;
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "cut rows that its windows cross, or take the decision out",
        "decision 'halo %s split': no node that it names waits for a halo", decision->pattern);
  }
  if (plan->patterns[SHOAL_DECIDE_HALO].count == 0) return NULL;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n)
      if (!shoal_plan_has_halo(gp, n)) gp->halos[n] = SHOAL_HALO_WHOLE;
  }
  return NULL;
}
