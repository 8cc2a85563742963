// Parts of plan/ shared by its files.
#ifndef SHOAL_PLAN_COMPLETE_H_
#define SHOAL_PLAN_COMPLETE_H_

#include "plan/plan.h"

// Everything of a plan but the ways of nodes.
SHOAL_MUST_USE shoal_status_t shoal_plan_prepare(const shoal_model_t *model, shoal_rules_t *rules,
                                                 const shoal_intent_t *intent, int32_t world,
                                                 shoal_allocator_t allocator,
                                                 shoal_plan_t **out_plan);
// Chooses ways for every node of a graph by propagation in topological order.
SHOAL_MUST_USE shoal_status_t shoal_plan_complete(shoal_plan_t *plan, shoal_graph_plan_t *graph);
// Layouts of a node's outputs from its choices, stored in graph->values.
SHOAL_MUST_USE shoal_status_t shoal_plan_set_outputs(shoal_plan_t *plan, shoal_graph_plan_t *graph,
                                                     int32_t node);
// The last entry whose pattern matches, or NULL.
const shoal_intent_entry_t *shoal_intent_find(int64_t count, const shoal_intent_entry_t *entries,
                                              const char *name);
// Parses and checks a layout; without a "mesh!" prefix it is on mesh number `mesh`.
SHOAL_MUST_USE shoal_status_t shoal_plan_parse_layout(const shoal_plan_t *plan, const char *text,
                                                      int32_t mesh, const char *what,
                                                      const shoal_shape_t *shape,
                                                      shoal_layout_t *out_layout);
// The same for the resting layout of a state: neither unreduced nor along micro.
SHOAL_MUST_USE shoal_status_t shoal_plan_rest_state(shoal_plan_t *plan, int32_t state,
                                                    const char *text, int32_t mesh);

#endif  // SHOAL_PLAN_COMPLETE_H_
