// Gradients that are clipped before ranks sum them: see summands.c.
#ifndef SHOAL_PLAN_SUMMANDS_H_
#define SHOAL_PLAN_SUMMANDS_H_

#include "plan/plan.h"

// Counts the ranks that have a summand of each gradient, into plan->summands. Where the model asks
// and there are several, plan->original becomes a copy of the model that says so. Behind the
// meshes.
SHOAL_MUST_USE shoal_status_t shoal_plan_count_summands(shoal_plan_t *plan);
// Does the node of this rule have the way that its op claims along the axis of this slot, or none
// along micro for the sake of that?
bool shoal_plan_claims(const shoal_plan_t *plan, const shoal_rule_t *rule, int32_t mesh,
                       int32_t slot);
// Refuses a complete plan whose nodes have claimed ways where they must not, or other ways where
// they must; and exchanges that would come before the clipping.
SHOAL_MUST_USE shoal_status_t shoal_plan_check_summands(const shoal_plan_t *plan);

#endif  // SHOAL_PLAN_SUMMANDS_H_
