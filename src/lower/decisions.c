// Decisions that lowering cannot carry out yet are refused by name: a plan never says more than the
// program does.
#include "base/status.h"
#include "lower/build.h"

static shoal_status_t refuse(const shoal_plan_t *plan, shoal_decide_t kind, const char *name) {
  const shoal_intent_decision_t *decision = shoal_plan_decided(plan, kind, name);
  const char *pattern = decision ? decision->pattern : name;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "take the decision out of the plan",
                          "decision '%s %s %s' about '%s' cannot be lowered yet",
                          shoal_decision_kind(kind)->name, pattern,
                          decision ? decision->choice : "", name);
}

static shoal_status_t check_states(const shoal_plan_t *plan) {
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    const char *name = plan->model->states.items[s].name;
    const shoal_sync_t *sync = &plan->syncs[s];
    if (sync->narrow) return refuse(plan, SHOAL_DECIDE_SYNC, name);
  }
  return NULL;
}

static shoal_status_t check_graph(const shoal_plan_t *plan, const shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  for (int64_t o = 0; o < graph->outputs.count; ++o)
    if (gp->on_request[o]) return refuse(plan, SHOAL_DECIDE_FETCH, graph->outputs.items[o].name);
  return NULL;
}

shoal_status_t shoal_lower_check_decisions(const shoal_plan_t *plan) {
  SHOAL_RETURN_IF_ERROR(check_states(plan));
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(check_graph(plan, &plan->graphs[g]));
  return NULL;
}
