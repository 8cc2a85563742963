// Packing: addresses for blocks that do not all live at once.
#ifndef SHOAL_LOWER_PACK_H_
#define SHOAL_LOWER_PACK_H_

#include "base/arena.h"

typedef struct shoal_block {
  int64_t bytes, first, last;  // life, inclusive
  int64_t *offset;             // where to write the answer
  int64_t place;               // used while packing
  int64_t align;               // what the offset is a multiple of; 0: of what all sizes are
} shoal_block_t;

// Writes the offsets, from 0 on; *out_end: what they take together. Changes the order of `blocks`.
SHOAL_MUST_USE shoal_status_t shoal_lower_pack(shoal_block_t *blocks, int64_t count,
                                               shoal_arena_t *scratch, int64_t *out_end);

#endif  // SHOAL_LOWER_PACK_H_
