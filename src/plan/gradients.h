// Which state a gradient belongs to, and how it is exchanged: see gradients.c.
#ifndef SHOAL_PLAN_GRADIENTS_H_
#define SHOAL_PLAN_GRADIENTS_H_

#include "plan/plan.h"

typedef struct shoal_gradients shoal_gradients_t;

SHOAL_MUST_USE shoal_status_t shoal_gradients_make(const shoal_graph_t *graph,
                                                   const shoal_model_t *model, shoal_arena_t *arena,
                                                   shoal_gradients_t **out_gradients);
// The state that is updated with this gradient; -1: it is none, or updates nothing.
int32_t shoal_gradients_state(shoal_gradients_t *gradients, int32_t value);
// The state that the value is read from or assigned to; -1: none.
int32_t shoal_gradients_copied_state(const shoal_gradients_t *gradients, int32_t value);

// By value of a graph of the plan's model, also as it was before nodes were expanded: the type in
// which ranks sum it. NULL: each in its own. Lies in `arena`.
SHOAL_MUST_USE shoal_status_t shoal_plan_exchanged(const shoal_plan_t *plan,
                                                   const shoal_graph_t *graph, shoal_arena_t *arena,
                                                   shoal_dtype_t **out_types);
// Fills `trained`, once: which states have a gradient.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_trained(shoal_plan_t *plan);
// Can a sync decision say anything about a state? It has a gradient, or it is a parameter whose
// copies go in the bucket. Behind shoal_plan_find_trained.
bool shoal_plan_is_synced(const shoal_plan_t *plan, int64_t state, const shoal_sync_t *sync);
// Fills graphs[...].exchanged from what `syncs` says.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_exchanged(shoal_plan_t *plan);

#endif  // SHOAL_PLAN_GRADIENTS_H_
