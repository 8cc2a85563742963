// Gradients that are sums of rows: see sparse.c.
#ifndef SHOAL_PLAN_SPARSE_H_
#define SHOAL_PLAN_SPARSE_H_

#include "plan/plan.h"

// By node of graph `g` of plan->original: the sync decision that asks for its rows to be sent;
// others are left as they are. Refuses decisions that cannot hold. Needs no graphs of the plan.
SHOAL_MUST_USE shoal_status_t shoal_sparse_ask(shoal_plan_t *plan, int64_t g,
                                               shoal_arena_t *scratch,
                                               const shoal_intent_decision_t **out_asked);
// Fills graph->rows.
SHOAL_MUST_USE shoal_status_t shoal_sparse_find(shoal_plan_t *plan, shoal_graph_plan_t *graph);
// Leaves words about rows to states whose gradients are made of them: patterns match others too.
SHOAL_MUST_USE shoal_status_t shoal_sparse_settle(shoal_plan_t *plan);
// Refuses a composite whose sum is to be exchanged dense.
SHOAL_MUST_USE shoal_status_t shoal_sparse_check(const shoal_plan_t *plan,
                                                 const shoal_composite_t *composite);
// What is known about the sum that a composite makes; NULL: it makes none.
const shoal_row_sum_t *shoal_sparse_of(const shoal_plan_t *plan,
                                       const shoal_composite_t *composite);

// What it costs along an axis to add up sums that lie like `sum`.
double shoal_sparse_sum_cost(const shoal_row_sum_t *rows, const shoal_layout_t *sum,
                             const shoal_type_t *type, int32_t axis);
// What it costs to send rows: `cost` is that of the parts along an axis, which make a sum that lies
// like `sum`.
double shoal_sparse_send_cost(const shoal_layout_t *sum, double cost);
// Is it better to send so many bytes of rows along so many axes than to add up so many of sums?
// Rows take more messages.
bool shoal_sparse_pays(double added, double sent, int32_t axes);

#endif  // SHOAL_PLAN_SPARSE_H_
