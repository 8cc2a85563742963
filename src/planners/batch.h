// What several strategies do with the inputs of a model.
#ifndef SHOAL_PLANNERS_BATCH_H_
#define SHOAL_PLANNERS_BATCH_H_

#include "planners/planners.h"

// Cuts every input of every graph that has a dim 0 once more: "data:0".
SHOAL_MUST_USE shoal_status_t shoal_strategy_cut_inputs(shoal_strategy_context_t *context,
                                                        const char *cuts);

#endif  // SHOAL_PLANNERS_BATCH_H_
