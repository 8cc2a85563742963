// Nodes that run on the whole batch before the loop over micro-batches, because each micro-batch
// needs what they make of all of them: the number of labels that a mean loss divides by. That is
// possible where only inputs and states lead to them, which are all there when the step starts.
#ifndef SHOAL_PLAN_EARLY_H_
#define SHOAL_PLAN_EARLY_H_

#include "plan/plan.h"

// Looks at a graph whose nodes have their ways for nodes of the loop that need a value which would
// be known only behind it (`late`, by value, or an unreduced sum). Marks in `early`, by node, what
// leads to such values, if all of it may run early: it is neither learned through, nor did anybody
// ask for a cut of it along micro. *out_more: some were not marked before; the graph has to be
// completed once more.
SHOAL_MUST_USE shoal_status_t shoal_early_mark(shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                               const bool *late, bool *early, bool *out_more);
// By node of a graph that is planned: does it run early? It has no way along micro, nor has
// anything that leads to it, and a node of the loop needs it.
SHOAL_MUST_USE shoal_status_t shoal_early_find(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                               const bool **out_early);

#endif  // SHOAL_PLAN_EARLY_H_
