// Axes of a mesh given as text; see shoal/group.h.
#ifndef SHOAL_COMM_MESH_GROUP_H_
#define SHOAL_COMM_MESH_GROUP_H_

#include "shoal/group.h"

// Indices of the axes that `text` names, in its order.
SHOAL_MUST_USE shoal_status_t shoal_mesh_axes(const shoal_mesh_t *mesh, const char *text,
                                              int32_t *out_count, int32_t out_axes[SHOAL_MAX_AXES]);

#endif  // SHOAL_COMM_MESH_GROUP_H_
