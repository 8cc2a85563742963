// What most strategies start with: the mesh they were asked for, and the batch cut over it.
#ifndef SHOAL_PLANNERS_BATCH_H_
#define SHOAL_PLANNERS_BATCH_H_

#include "planners/planners.h"

// The options' mesh parsed, or AXIS=world.
SHOAL_MUST_USE shoal_status_t shoal_strategy_mesh(shoal_strategy_context_t *context,
                                                  const char *axis, shoal_mesh_t *out_mesh);
// Gives every input of every graph that has a dim 0 this layout; "" leaves them replicated.
SHOAL_MUST_USE shoal_status_t shoal_strategy_cut_inputs(shoal_strategy_context_t *context,
                                                        const char *layout);
// "micro:0,data:0" as far as the mesh has these axes.
SHOAL_MUST_USE shoal_status_t shoal_strategy_batch_layout(shoal_strategy_context_t *context,
                                                          const shoal_mesh_t *mesh,
                                                          const char **out_layout);

#endif  // SHOAL_PLANNERS_BATCH_H_
