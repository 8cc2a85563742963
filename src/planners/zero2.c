// Strategy `zero2` (ZeRO stage 2): `zero1`, with gradients reduced and scattered in every
// micro-batch, so that a rank sums up and keeps only its part of each. Without micro-batches it is
// `zero1`.
#include "base/status.h"
#include "planners/zero.h"

shoal_status_t shoal_strategy_zero2(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  SHOAL_RETURN_IF_ERROR(shoal_zero_share(context, NULL, false));
  return shoal_zero_scatter(context);
}
