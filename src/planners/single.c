// Strategy `single`: the one-device run, on rank 0 of any world. The smallest strategy: copy it to
// start one.
#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_single(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_mesh_t mesh = {0};
  if (context->options->mesh)
    SHOAL_RETURN_IF_ERROR(shoal_mesh_parse(context->options->mesh, context->arena, &mesh));
  if (mesh.micro <= 1) return shoal_context_mesh(context, "solo=1@0");
  const char *text =
      shoal_arena_printf(context->arena, "solo=1,micro=%lld@0", (long long)mesh.micro);
  if (!text) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, text));
  return shoal_strategy_cut_inputs(context, "micro:0");
}
