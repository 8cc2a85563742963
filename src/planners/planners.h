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

// cache.c: the file of a plan that is asked for; the plan in it, or NULL; keeping one.
SHOAL_MUST_USE shoal_status_t shoal_cache_open(const shoal_model_t *model,
                                               const shoal_plan_options_t *options,
                                               shoal_arena_t *arena, const char **out_path);
SHOAL_MUST_USE shoal_status_t shoal_cache_read(const char *path, const shoal_model_t *model,
                                               shoal_rules_t *rules,
                                               const shoal_plan_options_t *options,
                                               shoal_arena_t *arena, shoal_cache_note_t *note,
                                               shoal_plan_t **out_plan);
SHOAL_MUST_USE shoal_status_t shoal_cache_write(const char *path, const shoal_plan_t *plan,
                                                const shoal_plan_options_t *options,
                                                shoal_arena_t *arena, shoal_cache_note_t *note);

#define SHOAL_STRATEGY(name, doc)                                                        \
  SHOAL_MUST_USE shoal_status_t shoal_strategy_##name(shoal_strategy_context_t *context, \
                                                      void *user_data);
#include "planners/strategies.inc"
#undef SHOAL_STRATEGY

#endif  // SHOAL_PLANNERS_PLANNERS_H_
