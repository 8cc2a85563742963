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

shoal_status_t shoal_lower_check_decisions(const shoal_plan_t *plan) {
  for (int64_t s = 0; s < plan->model->states.count; ++s)
    if (plan->syncs[s].narrow)
      return refuse(plan, SHOAL_DECIDE_SYNC, plan->model->states.items[s].name);
  return NULL;
}
