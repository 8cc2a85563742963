// Strategy `single`: the one-device run, on rank 0 of any world. The smallest strategy: copy it to
// start one.
#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_single(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_mesh_t mesh;
  SHOAL_RETURN_IF_ERROR(shoal_strategy_mesh(context, "solo", &mesh));
  const char *text = mesh.micro > 1 ? shoal_arena_printf(context->arena, "solo=1,micro=%lld@0",
                                                         (long long)mesh.micro)
                                    : "solo=1@0";
  if (!text) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_context_mesh(context, text));
  return shoal_strategy_cut_inputs(context, mesh.micro > 1 ? "micro:0" : "");
}
