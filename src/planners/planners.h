// Planners make plans. Each strategy is one file and one line in strategies.inc; it writes an
// intent, and completion (plan/) does the rest. `auto` simulates a few candidates and takes the
// fastest.
#ifndef SHOAL_PLANNERS_PLANNERS_H_
#define SHOAL_PLANNERS_PLANNERS_H_

#include "plan/plan.h"
#include "shoal/planners.h"

struct shoal_strategy_context {
  const shoal_model_t *model;
  shoal_rules_t *rules;
  const shoal_plan_options_t *options;
  shoal_arena_t *arena;  // what the intent points to
  SHOAL_VEC(const char *) meshes;
  SHOAL_VEC(shoal_intent_entry_t) layouts, stages;
  SHOAL_VEC(const char *) expand;
  SHOAL_VEC(shoal_intent_decision_t) decisions;
};

#define SHOAL_STRATEGY(name, doc)                                                        \
  SHOAL_MUST_USE shoal_status_t shoal_strategy_##name(shoal_strategy_context_t *context, \
                                                      void *user_data);
#include "planners/strategies.inc"
#undef SHOAL_STRATEGY

#endif  // SHOAL_PLANNERS_PLANNERS_H_
