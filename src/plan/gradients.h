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
// which ranks sum it, and the power of two by which it is multiplied for that (as its logarithm; 0
// where it keeps its type). NULL: each in its own, none. Both lie in `arena`.
SHOAL_MUST_USE shoal_status_t shoal_plan_exchanged(const shoal_plan_t *plan,
                                                   const shoal_graph_t *graph, shoal_arena_t *arena,
                                                   shoal_dtype_t **out_types,
                                                   int32_t **out_scale_log2);
// Fills `trained`, once: which states have a gradient.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_trained(shoal_plan_t *plan);
// Can a sync decision say anything about a state? It has a gradient, or it is a parameter whose
// copies go in the bucket. Behind shoal_plan_find_trained.
bool shoal_plan_is_synced(const shoal_plan_t *plan, int64_t state, const shoal_sync_t *sync);
// Fills graphs[...].exchanged and scale_log2 from what `syncs` says.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_exchanged(shoal_plan_t *plan);
// By state: where its gradient goes once it is reduced, as below; *out_any: some of them are cut.
SHOAL_MUST_USE shoal_status_t shoal_plan_state_homes(shoal_plan_t *plan,
                                                     const shoal_graph_plan_t *graph,
                                                     shoal_arena_t *arena,
                                                     const shoal_layout_t ***out_homes,
                                                     bool *out_any);
// By value: where a gradient goes once it is reduced - to the moments of the state that it updates
// ("w#...", of the same shape), or to the state itself; or, if the intent says how the new value of
// the state is cut, there. NULL for other values, and altogether where nothing is cut. In `arena`.
SHOAL_MUST_USE shoal_status_t shoal_plan_find_homes(shoal_plan_t *plan,
                                                    const shoal_graph_plan_t *graph,
                                                    shoal_arena_t *arena,
                                                    const shoal_layout_t ***out_homes);

#endif  // SHOAL_PLAN_GRADIENTS_H_
