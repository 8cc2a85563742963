// Strategy `zero1` (ZeRO stage 1, Rajbhandari et al. 2020): `data`, with the optimizer's moments -
// states called "weight#..." - resting flat over the data axis. A gradient is then scattered as it
// is reduced, each rank updates its range of the weight, and the new weight is gathered: together
// the bytes of one all-reduce, for 1/n of the moments' memory. Not the gradients (stage 2) and not
// the weights (stage 3).
#include <string.h>

#include "base/status.h"
#include "planners/batch.h"

shoal_status_t shoal_strategy_zero1(shoal_strategy_context_t *context, void *user_data) {
  SHOAL_RETURN_IF_ERROR(shoal_strategy_data(context, user_data));
  bool any = false;
  for (int64_t s = 0; s < context->model->states.count; ++s)
    any |= strchr(context->model->states.items[s].name, '#') != NULL;
  if (any) SHOAL_RETURN_IF_ERROR(shoal_context_layout(context, "*#*", "data:flat"));
  for (int64_t s = 0; s < context->model->states.count; ++s) {  // a scalar has nothing to share out
    const shoal_state_info_t *state = &context->model->states.items[s];
    if (strchr(state->name, '#') && state->type.shape.rank == 0)
      SHOAL_RETURN_IF_ERROR(shoal_context_layout(context, state->name, ""));
  }
  return NULL;
}
