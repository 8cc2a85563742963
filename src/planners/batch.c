// See batch.h.
#include "planners/batch.h"

#include "base/status.h"

shoal_status_t shoal_strategy_cut_inputs(shoal_strategy_context_t *context, const char *cuts) {
  for (int64_t g = 0; g < context->model->graphs.count; ++g) {
    const shoal_graph_t *graph = context->model->graphs.items[g];
    for (int64_t i = 0; i < graph->inputs.count; ++i) {  // graphs share names: twice is as once
      const shoal_named_t *input = &graph->inputs.items[i];
      if (graph->values.items[input->value].type.shape.rank > 0)
        SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, input->name, cuts));
    }
  }
  return NULL;
}
