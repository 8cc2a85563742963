// Strategy `zero1` (ZeRO stage 1, Rajbhandari et al. 2020): `data`, with the optimizer's moments -
// states called "weight#..." - resting flat over the data axis. A gradient is then scattered as it
// is reduced, each rank updates its range of the weight, and the new weight is gathered: together
// the bytes of one all-reduce, for 1/n of the moments' memory. Not the gradients (stage 2) and not
// the weights (stage 3).
#include "planners/zero.h"

shoal_status_t shoal_strategy_zero1(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  return shoal_zero_share(context, NULL, false);
}
