// Strategy `data`: every rank takes rows of the batch; parameters are replicated, so gradients come
// out unreduced and completion puts one all-reduce before each update. An axis `node` is the outer
// half of `data`: a sum goes over the ranks of a node first, and then over nodes.
#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_data(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  if (shoal_context_axis(context, "node") > 0)
    SHOAL_RETURN_IF_ERROR(shoal_strategy_cut_inputs(context, "node:0"));
  if (shoal_context_axis(context, "data") == 0) return NULL;
  return shoal_strategy_cut_inputs(context, "data:0");
}
