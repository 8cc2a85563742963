// The tiles of a value: which rows each of them has, and in which layout; for pass `tile`.
#ifndef SHOAL_LOWER_TILE_FIT_H_
#define SHOAL_LOWER_TILE_FIT_H_

#include "lower/build.h"

// Finds how a dim is tiled so that every rank has a share of every tile: with the parts that the
// layout makes of it as chunks. *count is how many tiles are wanted, and becomes how many there can
// be: at least 2. *out_against: why there are none, in the build's arena; NULL: nothing.
SHOAL_MUST_USE shoal_status_t shoal_tile_cut(build_t *b, const instance_t *of, int32_t dim,
                                             shoal_arena_t *scratch, int32_t *count,
                                             shoal_cut_t *out_cut, const char **out_against);

// The layout of a tile of an instance, such that every rank's part of it is some of what the rank
// has of the instance. NULL, and *out_against, if there is none.
SHOAL_MUST_USE shoal_status_t shoal_tile_layout(build_t *b, const instance_t *of,
                                                const shoal_tile_t *tile, shoal_arena_t *scratch,
                                                const shoal_layout_t **out_layout,
                                                const char **out_against);

#endif  // SHOAL_LOWER_TILE_FIT_H_
