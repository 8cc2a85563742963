// What strategy `annotated` needs to know before there is a mesh.
#ifndef SHOAL_PLANNERS_ANNOTATED_H_
#define SHOAL_PLANNERS_ANNOTATED_H_

#include "planners/planners.h"

// Does a node of the model say how ranks share it?
bool shoal_model_is_annotated(const shoal_model_t *model);

// The mesh that the model's annotations ask for in this world, "pipe=2,data=2,tensor=4", with the
// micro-batches of a mesh that says nothing else, "micro=4".
SHOAL_MUST_USE shoal_status_t shoal_annotated_mesh(shoal_strategy_context_t *context,
                                                   const char **out_mesh);

#endif  // SHOAL_PLANNERS_ANNOTATED_H_
