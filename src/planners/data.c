// Strategy `data`: every rank takes rows of the batch; parameters are replicated, so gradients come
// out unreduced and completion puts one all-reduce before each update.
#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_data(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_mesh_t mesh;
  SHOAL_RETURN_IF_ERROR(shoal_strategy_mesh(context, "data", &mesh));
  if (shoal_mesh_axis(&mesh, "data") < 0)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name an axis data: data=2",
                            "the mesh '%s' has no axis 'data'", context->options->mesh);
  const char *layout = NULL, *text = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_strategy_batch_layout(context, &mesh, &layout));
  SHOAL_RETURN_IF_ERROR(shoal_mesh_print(&mesh, context->arena, &text));
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, text));
  return shoal_strategy_cut_inputs(context, layout);
}
