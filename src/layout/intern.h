// Interned layouts. A model of a hundred layers has thousands of values in a dozen layouts. Plans
// and programs point at interned ones, so that each layout is stored once, equal ones have equal
// pointers, and results can be shared.
#ifndef SHOAL_LAYOUT_INTERN_H_
#define SHOAL_LAYOUT_INTERN_H_

#include "base/index.h"
#include "shoal/layout.h"

typedef struct shoal_layouts {
  shoal_arena_t *arena;  // of the layouts, too
  shoal_index_t index;
  SHOAL_VEC(const shoal_layout_t *) items;
} shoal_layouts_t;

void shoal_layouts_init(shoal_arena_t *arena, shoal_layouts_t *out_layouts);
// Gives the interned layout that is written exactly as `layout`, on the same mesh (the same
// pointer). Copies weights.
SHOAL_MUST_USE shoal_status_t shoal_layouts_keep(shoal_layouts_t *layouts,
                                                 const shoal_layout_t *layout,
                                                 const shoal_layout_t **out_layout);
// Hash of all fields of the layout, and of its mesh's address.
uint64_t shoal_layout_hash(const shoal_layout_t *layout);

#endif  // SHOAL_LAYOUT_INTERN_H_
