// Samples: one rank and micro-batch of each cell (layout/cells.h) among the ranks of a class. What
// is worked out for the samples (sizes, workspaces, whether an instruction binds) holds for all
// ranks.
#ifndef SHOAL_PROGRAM_SAMPLE_H_
#define SHOAL_PROGRAM_SAMPLE_H_

#include "layout/cells.h"
#include "shoal/program.h"

typedef struct shoal_sample {
  int32_t rank;
  int64_t micro;  // -1: outside the loop
} shoal_sample_t;

typedef struct shoal_samples {
  int64_t count;
  const shoal_sample_t *items;
} shoal_samples_t;

// Says whether all ranks of the mesh are in the class.
bool shoal_class_covers(const shoal_class_t *rank_class, const shoal_mesh_t *mesh);

// For values on one mesh, in every micro-batch of the loop or (micro_count 0) outside it. Without a
// class, for all ranks of the mesh. Each entry's `micro` is set here.
SHOAL_MUST_USE shoal_status_t shoal_sample_values(const shoal_class_t *rank_class, int64_t count,
                                                  shoal_cells_of_t *values, int64_t micro_count,
                                                  shoal_arena_t *arena,
                                                  shoal_samples_t *out_samples);
// For a move between two layouts: also sizes of messages and where parts meet are the same.
SHOAL_MUST_USE shoal_status_t shoal_sample_move(const shoal_class_t *rank_class,
                                                const shoal_layout_t *src,
                                                const shoal_layout_t *dst,
                                                const shoal_shape_t *shape, int64_t micro_count,
                                                shoal_arena_t *arena, shoal_samples_t *out_samples);
// For the moves along `count` channels of a table, between the same meshes: all of them together
// are the same.
SHOAL_MUST_USE shoal_status_t shoal_sample_moves(const shoal_class_t *rank_class,
                                                 const shoal_channel_t *table, int32_t count,
                                                 const int32_t *channels, int64_t micro_count,
                                                 shoal_arena_t *arena,
                                                 shoal_samples_t *out_samples);
// The micro-batches in which a move between two layouts differs in more than where it happens; in
// the arena. Without a loop (micro_count 0) that is -1 alone.
SHOAL_MUST_USE shoal_status_t shoal_sample_micros(const shoal_layout_t *src,
                                                  const shoal_layout_t *dst,
                                                  const shoal_shape_t *shape, int64_t micro_count,
                                                  shoal_arena_t *arena, int64_t *out_count,
                                                  const int64_t **out_micros);

#endif  // SHOAL_PROGRAM_SAMPLE_H_
