// Shoal, planners: named strategies, and how to add one.
//
// A strategy writes an *intent* through the functions below; completion works out the rest.
// Strategies live in a table: the native ones first, then the user's (shoal_strategy_register).
//
// Several may be combined: "tensor+zero1" on the mesh "data=2,tensor=2". Each uses its own axes of
// the mesh; an axis that none of those named uses brings in the first strategy of the table that
// does, so that "zero1" on that mesh means the same. They are applied in the table's order, however
// they are written.
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

// Choices about memory and communication, in words that stand for decisions (docs/memory.md,
// docs/plan.md). NULL chooses nothing, and "none" does the same for `offload` and `compress`.
typedef struct shoal_choices {
  // What the backward pass computes again: "block" (every block of the model: scopes like block0
  // and block1), "attention" (every scope that holds an attention), patterns of nodes, or several
  // of these with commas between them, of which the last that speaks of a node counts. What the
  // model marks (shoal_with_recompute) is computed again as well, unless this is "none".
  const char *recompute;
  // What lies in other memory, and where: "optimizer=host,weights=file,activations=file", or some
  // of these; without "=file" or "=host" it is the host's.
  const char *offload;
  // The type in which gradients are exchanged: "bf16", "f16". "f16:1024" multiplies them by 1024, a
  // power of two, before they are rounded to it, and divides them behind the exchange.
  const char *compress;
} shoal_choices_t;
// Lists the decisions that the choices stand for, followed by the given ones, which win; the list
// lies in the arena. INVALID_ARGUMENT: a word means nothing, or the model has no such thing (no
// blocks, no attention). Not collective.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_choices_decide(const shoal_model_t *model, const shoal_choices_t *choices, int64_t count,
                     const shoal_intent_decision_t *decisions, shoal_arena_t *arena,
                     int64_t *out_count, const shoal_intent_decision_t **out_decisions);

typedef struct shoal_plan_options {
  shoal_allocator_t allocator;  // zero: the system's
  const char *strategy;  // "data", "tensor+zero1"; NULL: "annotated" for a model with annotations
                         // (shoal_with_replicate, shoal_with_split), else "auto"
  const char *mesh;      // "data=2,tensor=2,micro=3"; NULL: the strategy's default
  const char *cluster;   // text of a cluster file, a preset, or NULL
  int32_t world;         // ranks
  shoal_strategies_t *strategies;  // NULL: native ones only
  int64_t layout_count;            // explicit layouts, added after the strategy's own
  const shoal_intent_entry_t *layouts;
  int64_t decision_count;  // decisions, after the strategy's own
  const shoal_intent_decision_t *decisions;
  shoal_choices_t choices;  // become decisions before those above, which win
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
  // The axes of a mesh that it uses, separated by commas, the usual one first: all ranks are
  // on that one where no mesh is given. NULL: it plans the mesh by itself (shoal_context_mesh) and
  // is not combined with others.
  const char *axes;
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
// Ranks along an axis of the mesh that the strategies share; 0: it has no such axis.
SHOAL_API int64_t shoal_context_axis(const shoal_strategy_context_t *context, const char *axis);
// Adds a mesh to the plan. Without a call, a strategy that has axes gets the mesh asked for.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_mesh(shoal_strategy_context_t *context,
                                                           const char *mesh);
// Replaces the layout of what the pattern matches.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_layout(shoal_strategy_context_t *context,
                                                             const char *pattern,
                                                             const char *layout);
// Adds cuts to the layout that the state, input or value of this name has so far ("tensor:1" and
// "data:flat" make "tensor:1,data:flat"), and replaces those along the same axes; flat ones come
// last. A state "w#m" that has no layout of its own starts from that of w, if it has w's shape.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_context_cut(shoal_strategy_context_t *context,
                                                          const char *name, const char *cuts);
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
