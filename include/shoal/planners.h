// Shoal, planners: named strategies, and how to add one.
//
// A strategy writes an *intent* through the functions below; completion works out the rest.
// Strategies live in a table: the native ones first, then the user's (shoal_strategy_register).
#ifndef SHOAL_PLANNERS_H_
#define SHOAL_PLANNERS_H_

#include "shoal/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct shoal_strategies shoal_strategies_t;  // a table: native strategies, then the user's

// What became of the cache.
typedef struct shoal_cache_note {
  bool hit;        // the plan is one that was made before
  char text[400];  // why an entry or the folder could not be used; "" where all is well
} shoal_cache_note_t;

typedef struct shoal_plan_options {
  shoal_allocator_t allocator;     // zero: the system's
  const char *strategy;            // NULL: "auto"
  const char *mesh;                // "data=2,tensor=2,micro=3"; NULL: the strategy's default
  const char *cluster;             // text of a cluster file, a preset, or NULL
  int32_t world;                   // ranks
  shoal_strategies_t *strategies;  // NULL: native ones only
  int64_t layout_count;            // explicit layouts, added after the strategy's own
  const shoal_intent_entry_t *layouts;
  int64_t decision_count;  // decisions, after the strategy's own
  const shoal_intent_decision_t *decisions;
  const char
      *cache;  // folder of plans that were made before, made where there is none; NULL or "":
               // every plan is made anew. With native strategies only
  shoal_cache_note_t *cache_note;  // may be NULL
} shoal_plan_options_t;

typedef struct shoal_strategy_context shoal_strategy_context_t;

typedef struct shoal_strategy {
  const char *name;
  const char *doc;
  // Writes an intent for the context's model, mesh and world.
  shoal_status_t (*plan)(shoal_strategy_context_t *context, void *user_data);
  void *user_data;
} shoal_strategy_t;

// A list of strategies: the native ones, then the user's. Those are copied; name, doc and user_data
// are borrowed for the list's life. INVALID_ARGUMENT for a strategy without name or plan, or a name
// that exists.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_strategies_create(shoal_allocator_t allocator, shoal_strategies_t **out_strategies);
SHOAL_API void shoal_strategies_free(shoal_strategies_t *strategies);  // NULL is allowed
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_strategy_register(shoal_strategies_t *strategies,
                                                                const shoal_strategy_t *strategy);
SHOAL_API int64_t shoal_strategies_count(const shoal_strategies_t *strategies);  // NULL: native
// By index; NULL after the last. Borrowed.
SHOAL_API const shoal_strategy_t *shoal_strategies_get(const shoal_strategies_t *strategies,
                                                       int64_t index);

// What a strategy sees and writes. Strings are copied.
SHOAL_API const shoal_model_t *shoal_context_model(const shoal_strategy_context_t *context);
SHOAL_API const shoal_plan_options_t *shoal_context_options(
    const shoal_strategy_context_t *context);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_mesh(shoal_strategy_context_t *context,
                                                           const char *mesh);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_layout(shoal_strategy_context_t *context,
                                                             const char *pattern,
                                                             const char *layout);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_stage(shoal_strategy_context_t *context,
                                                            const char *pattern, const char *mesh);
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_expand(shoal_strategy_context_t *context,
                                                             const char *pattern);
// A decision of any kind (plan.h), by this strategy; `reason` is for people and may be NULL.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_decide(shoal_strategy_context_t *context,
                                                             const char *kind, const char *pattern,
                                                             const char *choice,
                                                             const char *reason);

// Runs a strategy and completes its intent; or, with a cache, takes the plan that was made before
// for an equal model, cluster and options by this build with equal rules. What is wrong with the
// cache is noted, never an error. Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_plan_make(const shoal_model_t *model,
                                                        shoal_rules_t *rules,
                                                        const shoal_plan_options_t *options,
                                                        shoal_plan_t **out_plan);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_PLANNERS_H_
