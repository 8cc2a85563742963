// Strategy `explicit`: the mesh and layouts the caller gives, nothing else; completion does the
// rest.
#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_explicit(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  if (!context->options->mesh)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "give one, like --mesh data=2,tensor=2",
                            "strategy 'explicit' needs a mesh");
  return shoal_context_mesh(context, context->options->mesh);
}
