// What pass `ring` finds out (ring_find.c) before it makes items of it (ring.c).
#ifndef SHOAL_LOWER_RING_H_
#define SHOAL_LOWER_RING_H_

#include "lower/build.h"

// A node whose gathered inputs go round instead.
typedef struct ring {
  const shoal_way_t *way;  // that cuts them
  int32_t axis;
  int64_t ranks;                   // along it
  shoal_cut_t cut;                 // how they are dealt; the dim is each operand's own
  item_t **gathers;                // by input: the reshard that would have gathered it; NULL: none
  const shoal_layout_t **sources;  // by input: its layout before that
  bool *pieces;                    // by input: it is there whole, and a step reads a part of it
  bool pair;                       // the outputs are a value and its log-sum-exp
  bool *travels;                   // by output: it goes round with its part; else it is a sum
  int32_t *homes;                  // by output that travels: the instance that it becomes
} ring_t;

typedef SHOAL_VEC(int32_t) free_channels_t;

typedef struct rings {
  build_t *b;
  graph_build_t *graph;
  shoal_arena_t *scratch;
  int64_t item_count, instance_count;  // when the pass began
  item_t **items;
  ring_t **rings;         // by item; NULL: it has none
  bool *gone;             // by item: a gather or a reduction that is no longer needed
  item_t **makers;        // by instance: the reshard that makes it; NULL: something else does
  free_channels_t *free;  // channels of what is gone
  const char *against;    // what speaks against a ring
} rings_t;

// The layout of what travels, and of a part of an input that is whole, and of an output that
// travels, as a rank has it in the step of this turn.
shoal_layout_t shoal_ring_turned(const ring_t *ring, const shoal_layout_t *source, int64_t turn);
shoal_layout_t shoal_ring_piece(const ring_t *ring, const shoal_layout_t *whole, int32_t input,
                                int64_t turn);
shoal_layout_t shoal_ring_output(const ring_t *ring, const shoal_layout_t *partial, int32_t output,
                                 int64_t turn);
// Finds how a node's inputs can go round. *out_ring is NULL if they cannot, and r->against says why
// (NULL: nothing is gathered).
SHOAL_MUST_USE shoal_status_t shoal_ring_find(rings_t *r, item_t *item, ring_t **out_ring);
// Finds the homes of what travels, and says which gathers and reductions are gone.
SHOAL_MUST_USE shoal_status_t shoal_rings_settle(rings_t *r);

#endif  // SHOAL_LOWER_RING_H_
