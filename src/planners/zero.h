// What the ZeRO strategies share: states that rest flat over the ranks that cut the batch.
#ifndef SHOAL_PLANNERS_ZERO_H_
#define SHOAL_PLANNERS_ZERO_H_

#include "planners/batch.h"

// Cuts the batch as `data` does and shares states out: the optimizer's ("weight#..."), and with
// `weights` those that are trained. `cuts`: "data:flat", or NULL for all axes that cut the batch.
SHOAL_MUST_USE shoal_status_t shoal_zero_share(shoal_strategy_context_t *context, const char *cuts,
                                               bool weights);
// Gradients are reduced and scattered in every micro-batch.
SHOAL_MUST_USE shoal_status_t shoal_zero_scatter(shoal_strategy_context_t *context);
// Weights are gathered for the forward pass and again for the backward pass.
SHOAL_MUST_USE shoal_status_t shoal_zero_gather(shoal_strategy_context_t *context);

#endif  // SHOAL_PLANNERS_ZERO_H_
