// Composite ways: see composite.c.
#ifndef SHOAL_PLAN_COMPOSITE_H_
#define SHOAL_PLAN_COMPOSITE_H_

#include "plan/plan.h"

// Is it "AXIS=composite", or that without the axis?
bool shoal_choice_is_composite(const char *choice);

// Makes plan->model a copy in which parts stand for composite nodes, if there are any: `phased`, by
// graph and node, or NULL: those that the intent asks for.
SHOAL_MUST_USE shoal_status_t shoal_composites_expand(shoal_plan_t *plan, bool *const *phased);
// Fills plan->graphs[graph].owners.
SHOAL_MUST_USE shoal_status_t shoal_composites_own(shoal_plan_t *plan, int64_t graph);
// Says what composite ways cost and what was next best; refuses those that were asked for along an
// axis along which none of their parts is cut.
SHOAL_MUST_USE shoal_status_t shoal_composites_judge(shoal_plan_t *plan);
// Are parts of the composite cut along the axis of this slot, or do they send rows along it?
bool shoal_composite_cuts(const shoal_plan_t *plan, const shoal_composite_t *composite,
                          int32_t slot);

// What a node would be as a composite.
typedef struct shoal_weighed {
  bool possible;
  double total, costs[SHOAL_PLAN_SLOTS];  // by slot; the total has reductions that are put off
  bool cuts[SHOAL_PLAN_SLOTS];            // by slot: parts are cut along it
  const shoal_layout_t **outputs;         // the layouts its outputs would have
} shoal_weighed_t;
// Completes the parts of a node whose inputs lie in `layouts`. The outputs lie in `scratch`.
SHOAL_MUST_USE shoal_status_t shoal_composite_weigh(shoal_plan_t *plan,
                                                    const shoal_graph_plan_t *graph, int32_t node,
                                                    const shoal_layout_t *const *layouts,
                                                    shoal_arena_t *scratch,
                                                    shoal_weighed_t *out_weighed);
// What reducing outputs costs that come out unreduced and are not pinned.
double shoal_unreduced_cost(const shoal_graph_plan_t *graph, const shoal_node_t *node,
                            const shoal_layout_t *const *outputs,
                            const shoal_layout_t *const *pins);

#endif  // SHOAL_PLAN_COMPOSITE_H_
