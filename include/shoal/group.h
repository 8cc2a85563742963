// Shoal, comm: groups from meshes, and meshes from meshes.
//
// A mesh (layout.h) is the one object for process topologies and partitions. Here are the groups of
// ranks that it makes, who is next to whom along an axis, and the meshes one makes of others. Axes
// are given as a text of names, "tensor" or "data,tensor"; their order is the order of the group's
// ranks, first outermost. Unless an axis has that name, "model" means all axes but data and "all"
// means all of them; "" means none.
//
// A rank that is not on a mesh is *inactive* there: its groups have size 0 and rank -1, collectives
// on them are refused on that rank (INVALID_ARGUMENT) and disturb nobody, its primitives
// (primitive.h) have nothing to do. Functions that take no world are *Not collective*, do not
// block, and allocate from the arena.
#ifndef SHOAL_GROUP_H_
#define SHOAL_GROUP_H_

#include "shoal/comm.h"
#include "shoal/layout.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Meshes
// -------------------------------------------------------------------------------------------------

// Checks that all ranks of the mesh are in a world of `world_size`, each once and, with `whole`,
// that every rank of the world is on the mesh. INVALID_ARGUMENT says how many ranks there are and
// how many the axes make.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_check(const shoal_mesh_t *mesh,
                                                         int32_t world_size, bool whole);

// Makes a mesh of these ranks in this order, on one axis named "rank" (DistDL: inclusive).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_of_ranks(int64_t count, const int32_t *ranks,
                                                            shoal_arena_t *arena,
                                                            shoal_mesh_t *out_mesh);
// Makes the union: the ranks of `a` in their order, then those of `b` that `a` does not have, on
// one axis named "rank".
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_union(const shoal_mesh_t *a,
                                                         const shoal_mesh_t *b,
                                                         shoal_arena_t *arena,
                                                         shoal_mesh_t *out_mesh);
// Makes a sub-mesh: the ranks that share `rank`'s coordinates along the axes that are not kept.
// Keeping all axes in another order transposes the mesh. NOT_FOUND when `rank` is not on the mesh.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_sub(const shoal_mesh_t *mesh, const char *keep,
                                                       int32_t rank, shoal_arena_t *arena,
                                                       shoal_mesh_t *out_mesh);
// Splits one axis into two, `outer` over `inner`; inner_size must divide its size. The ranks keep
// their positions.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_split(const shoal_mesh_t *mesh, const char *axis,
                                                         const char *outer, const char *inner,
                                                         int64_t inner_size, shoal_arena_t *arena,
                                                         shoal_mesh_t *out_mesh);
// Splits the axis data for expert parallelism: data=8 with expert_size 4 becomes moe_dp=2,moe_ep=4.
// Groups along moe_ep hold different experts, groups along moe_dp copies of the same ones;
// "moe_dp,moe_ep" is data.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_experts(const shoal_mesh_t *mesh,
                                                           int64_t expert_size,
                                                           shoal_arena_t *arena,
                                                           shoal_mesh_t *out_mesh);

// Neighbours and ends along an axis, as ranks of the world. -1: there is none - `rank` is at that
// end, is not on the mesh, or the mesh has no such axis.
SHOAL_API int32_t shoal_mesh_next(const shoal_mesh_t *mesh, const char *axis, int32_t rank);
SHOAL_API int32_t shoal_mesh_prev(const shoal_mesh_t *mesh, const char *axis, int32_t rank);
SHOAL_API int32_t shoal_mesh_first(const shoal_mesh_t *mesh, const char *axis, int32_t rank);
SHOAL_API int32_t shoal_mesh_last(const shoal_mesh_t *mesh, const char *axis, int32_t rank);

// The ranks of `rank`'s group along `axes`, in the order of the group; none when it is not on the
// mesh.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_group_ranks(const shoal_mesh_t *mesh,
                                                               const char *axes, int32_t rank,
                                                               shoal_arena_t *arena,
                                                               int64_t *out_count,
                                                               const int32_t **out_ranks);

// Draws the grid of ranks as text: the last axis across, the one before it down, one grid for each
// position of the others.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_mesh_draw(const shoal_mesh_t *mesh,
                                                        shoal_arena_t *arena,
                                                        const char **out_text);

// -------------------------------------------------------------------------------------------------
// Groups. Freed with shoal_group_free
// -------------------------------------------------------------------------------------------------

// This rank's group along `axes`: the ranks of the mesh with its coordinates along all other axes.
// Exchanges no message; every rank of the mesh calls it, in the same order (inactive ranks need
// not).
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_group_along(shoal_world_t *world,
                                                          const shoal_mesh_t *mesh,
                                                          const char *axes,
                                                          shoal_group_t **out_group);
// The ranks that give the same key, ascending. *Collective* over the world.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_group_split(shoal_world_t *world, int64_t key,
                                                          shoal_group_t **out_group);
// The ranks on this rank's host: same host name and same boot of the kernel, unless the
// environment's SHOAL_NODE names the node. *Collective* over the world.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_group_node(shoal_world_t *world,
                                                         shoal_group_t **out_group);
// The group's ranks in the world, shoal_group_size of them; borrowed.
SHOAL_API const int32_t *shoal_group_ranks(const shoal_group_t *group);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_GROUP_H_
