// Decisions about bounded values: whether what a node bounds moves at its real size, by counts, or
// at its capacity, with all its rows.
#include <string.h>

#include "base/status.h"
#include "plan/complete.h"

bool shoal_plan_moves_capacity(const char *choice) {
  return choice && strcmp(choice, "capacity") == 0;
}

static bool finds_one(const shoal_plan_t *plan, const char *pattern) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->graphs[g].graph;
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      if (graph->nodes.items[n].op->bounds &&
          shoal_pattern_match(pattern, graph->nodes.items[n].name))
        return true;
  }
  return false;
}

shoal_status_t shoal_plan_check_counts(const shoal_plan_t *plan) {
  for (int64_t i = 0; i < plan->intent.decision_count; ++i) {
    const shoal_intent_decision_t *decision = &plan->intent.decisions[i];
    if (strcmp(decision->kind, "counts") != 0 || finds_one(plan, decision->pattern)) continue;
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name nodes of shoal.bound, or take the decision out",
                            "decision 'counts %s %s': no node that it names bounds rows",
                            decision->pattern, decision->choice);
  }
  return NULL;
}
