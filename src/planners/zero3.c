// Strategy `zero3` (ZeRO stage 3, FSDP): `zero2`, with weights resting flat as well. They are
// gathered for the forward pass of every micro-batch, let go, and gathered again for its backward
// pass.
#include "base/status.h"
#include "planners/zero.h"

shoal_status_t shoal_strategy_zero3(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  SHOAL_RETURN_IF_ERROR(shoal_zero_share(context, NULL, true));
  SHOAL_RETURN_IF_ERROR(shoal_zero_scatter(context));
  return shoal_zero_gather(context);
}
