// See batch.h.
#include "planners/batch.h"

#include <string.h>

#include "base/status.h"

shoal_status_t shoal_strategy_mesh(shoal_strategy_context_t *context, const char *axis,
                                   shoal_mesh_t *out_mesh) {
  const char *text = context->options->mesh;
  if (!text) text = shoal_arena_printf(context->arena, "%s=%d", axis, context->options->world);
  if (!text) return SHOAL_OOM();
  return shoal_mesh_parse(text, context->arena, out_mesh);
}

shoal_status_t shoal_strategy_cut_inputs(shoal_strategy_context_t *context, const char *layout) {
  if (!layout[0]) return NULL;
  for (int64_t g = 0; g < context->model->graphs.count; ++g) {
    const shoal_graph_t *graph = context->model->graphs.items[g];
    for (int64_t i = 0; i < graph->inputs.count; ++i) {
      const shoal_named_t *input = &graph->inputs.items[i];
      if (graph->values.items[input->value].type.shape.rank == 0) continue;
      bool known = false;  // graphs share names of inputs
      for (int64_t k = 0; k < context->layouts.count; ++k)
        known |= strcmp(context->layouts.items[k].pattern, input->name) == 0;
      if (known) continue;
      SHOAL_RETURN_IF_ERROR(shoal_context_layout(context, input->name, layout));
    }
  }
  return NULL;
}

shoal_status_t shoal_strategy_batch_layout(shoal_strategy_context_t *context,
                                           const shoal_mesh_t *mesh, const char **out_layout) {
  bool data = shoal_mesh_axis(mesh, "data") >= 0, micro = mesh->micro > 1;
  *out_layout = shoal_arena_printf(context->arena, "%s%s%s", micro ? "micro:0" : "",
                                   micro && data ? "," : "", data ? "data:0" : "");
  return *out_layout ? NULL : SHOAL_OOM();
}
