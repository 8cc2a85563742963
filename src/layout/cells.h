// Cells: groups of ranks whose parts have the same sizes in some layouts, and differ only in where
// they lie.
//
// Along each axis of a mesh the coordinates are put into *runs*: within one, parts have the same
// sizes (and, in chunks, the same intervals, and halos of the same width). One run per axis is a
// *cell*; what holds of the first rank of each cell holds of all. Balanced dealing makes few runs:
// larger parts, the others, a short last one, empty ones. Weights make a run of every coordinate.
// The number of cells depends on the cuts, not on the ranks, except for those.
//
// For a reshard, which has two layouts, all ranks of a cell send and receive messages of the same
// sizes, and need the same staging memory. Where two different cuts of one dim meet, it matters
// where parts lie: there every coordinate of the axes that take part is a run.
#ifndef SHOAL_LAYOUT_CELLS_H_
#define SHOAL_LAYOUT_CELLS_H_

#include "base/arena.h"
#include "shoal/layout.h"

// Micro-batches are one more axis, behind the mesh's.
#define SHOAL_CELLS_MICRO SHOAL_MAX_AXES

typedef struct shoal_cells {
  const shoal_mesh_t *mesh;
  int64_t run_count[SHOAL_MAX_AXES + 1];          // at least 1, also behind the mesh's last axis
  const int64_t *run_starts[SHOAL_MAX_AXES + 1];  // first coordinate of each run; the first is 0
} shoal_cells_t;

// As `micro` below: the micro-batches are one more axis. Otherwise it is one of them, or -1 for all
// together.
#define SHOAL_MICRO_ANY (-2)

typedef struct shoal_cells_of {
  const shoal_layout_t *layout;
  const shoal_shape_t *shape;
  int64_t micro;
} shoal_cells_of_t;

// Finds the cells of several layouts on one mesh (their meshes are equal).
SHOAL_MUST_USE shoal_status_t shoal_layout_cells(const shoal_mesh_t *mesh, int64_t count,
                                                 const shoal_cells_of_t *layouts,
                                                 shoal_arena_t *arena, shoal_cells_t *out_cells);
// The number of cells of ranks, micro-batches aside. Cells are in the order of their first ranks'
// positions.
int64_t shoal_cells_count(const shoal_cells_t *cells);
void shoal_cells_first(const shoal_cells_t *cells, int64_t cell,
                       int64_t out_coords[SHOAL_MAX_AXES]);  // of its ranks
int64_t shoal_cells_find(const shoal_cells_t *cells, const int64_t coords[SHOAL_MAX_AXES]);

// The cells of a reshard: of the ranks that have a part before, and of those that have one
// afterwards. On one mesh, or on meshes that share ranks, ranks are equal only if they are in the
// same cell of both.
typedef struct shoal_reshard_cells {
  shoal_cells_t src, dst;
  bool same_mesh;
} shoal_reshard_cells_t;

SHOAL_MUST_USE shoal_status_t shoal_reshard_cells(const shoal_layout_t *src, int64_t src_micro,
                                                  const shoal_layout_t *dst, int64_t dst_micro,
                                                  const shoal_shape_t *shape, shoal_arena_t *arena,
                                                  shoal_reshard_cells_t *out_cells);
// Ranks that are in one cell of both: what holds of each alone holds of both together. They are
// between the same meshes.
SHOAL_MUST_USE shoal_status_t shoal_reshard_cells_join(const shoal_reshard_cells_t *a,
                                                       const shoal_reshard_cells_t *b,
                                                       shoal_arena_t *arena,
                                                       shoal_reshard_cells_t *out_cells);
// Gives one rank per cell, of all ranks that take part or (rank_count > 0) of the given ones.
SHOAL_MUST_USE shoal_status_t shoal_reshard_cells_ranks(const shoal_reshard_cells_t *cells,
                                                        int64_t rank_count, const int32_t *ranks,
                                                        shoal_arena_t *arena, int64_t *out_count,
                                                        const int32_t **out_ranks);

// The largest number of staging bytes that a rank's detached forward motion needs (0 where it only
// sends): over all ranks, or (rank_count > 0) over the given ones.
SHOAL_MUST_USE shoal_status_t shoal_reshard_staging_largest(
    const shoal_layout_t *src, int64_t src_micro, const shoal_layout_t *dst, int64_t dst_micro,
    const shoal_shape_t *shape, shoal_dtype_t dtype, int64_t rank_count, const int32_t *ranks,
    shoal_arena_t *scratch, int64_t *out_bytes);

#endif  // SHOAL_LAYOUT_CELLS_H_
