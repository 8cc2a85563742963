// What pass `tile` finds out (tile_find.c) before it makes items of it (tile.c).
#ifndef SHOAL_LOWER_TILE_H_
#define SHOAL_LOWER_TILE_H_

#include "lower/build.h"
#include "plan/gradients.h"

// An instance that is made in tiles.
typedef struct tiles {
  int32_t count;
  const shoal_layout_t **layouts;
  int32_t *pieces;  // instances
  item_t *gather;   // the reshard that would have made it; NULL: something else would have
  const shoal_layout_t **sources;  // the layouts that a gather's tiles come from
  item_t *maker;                   // a node, whose output or reduced output it is
  bool whole;                      // it was assembled, too
} tiles_t;

// A node that is computed in tiles.
typedef struct tiled {
  int32_t count;
  shoal_cut_t *cuts;                // by operand: dim, unit, chunks
  bool *is_cut;                     // by operand: else it is whole
  const shoal_layout_t ***layouts;  // by operand, by tile; NULL where it is whole
  bool *gathers;                    // by input: it is gathered in tiles
  item_t **reductions;              // by output: the reshard that is done in tiles; NULL: none
} tiled_t;

typedef struct tiling {
  build_t *b;
  graph_build_t *graph;
  shoal_arena_t *scratch;
  shoal_gradients_t *states;
  int64_t instance_count;  // when the pass began
  item_t **makers;         // by instance: the reshard that makes it; NULL: something else does
  item_t **reducers;       // by instance: the first reshard that reads it and reduces
  item_t **rings;          // by instance: a node for which it goes round, as decided; NULL: none
  tiles_t **tiles;         // by instance
  item_t *item;            // the node in question
  const char *against;     // what speaks against tiles of it
} tiling_t;

static inline int32_t operand_at(const item_t *item, int32_t k) {
  const shoal_instruction_t *code = &item->code;
  return k < code->input_count ? code->inputs[k] : code->outputs[k - code->input_count];
}

static inline int32_t operand_count(const item_t *item) {
  return item->code.input_count + item->code.output_count;
}

// Are these the layouts of the tiles?
bool shoal_tile_is_made(const tiles_t *tiles, int32_t count, const shoal_layout_t **layouts);
// What kind of communication a reshard is; BETWEEN where it is none on one mesh.
SHOAL_MUST_USE shoal_status_t shoal_tile_kind(const build_t *b, const item_t *reshard,
                                              shoal_reshard_kind_t *out_kind);
// Finds tiles for t->item, along what is gathered in front of it or what is reduced behind it, and
// notes what is made in tiles then. If there are none, t->against says why; NULL: nothing is
// gathered or reduced.
SHOAL_MUST_USE shoal_status_t shoal_tile_find(tiling_t *t, int32_t wanted, tiled_t *tiled,
                                              bool *out_found);

#endif  // SHOAL_LOWER_TILE_H_
