// Place: a part as an op sees it - which index of the whole each index of the part is.
#include "layout/layout_impl.h"

shoal_status_t shoal_boxes_place(const shoal_boxes_t *boxes, shoal_arena_t *arena,
                                 shoal_place_t *out_place) {
  shoal_place_t place = {
      .whole = boxes->whole,
      .part = {.rank = boxes->whole.rank},
      .flat = boxes->flat,
      .from = boxes->from,
      .to = boxes->to,
  };
  for (int32_t d = 0; d < boxes->whole.rank; ++d) {
    const shoal_dim_part_t *part = &boxes->dims[d];
    int64_t size = part->held_size, at = 0;
    place.part.dims[d] = size;
    if (part->held_count == 0 || (part->held_count == 1 && part->held[0].start == 0)) continue;
    int64_t *index = SHOAL_NEW(arena, int64_t, size);
    if (!index) return SHOAL_OOM();
    for (int32_t i = 0; i < part->held_count; ++i) {
      for (int64_t k = 0; k < part->held[i].size; ++k) index[at++] = part->held[i].start + k;
    }
    place.index[d] = index;
  }
  *out_place = place;
  return NULL;
}

shoal_place_t shoal_place_whole(const shoal_shape_t *shape) {
  return (shoal_place_t){.whole = *shape, .part = *shape};
}

int64_t shoal_place_global(const shoal_place_t *place, int64_t element) {
  if (place->flat) element += place->from;
  int64_t global = 0, stride = 1;
  for (int32_t d = place->whole.rank - 1; d >= 0; --d) {
    int64_t i = element % place->part.dims[d];
    element /= place->part.dims[d];
    global += (place->index[d] ? place->index[d][i] : i) * stride;
    stride *= place->whole.dims[d];
  }
  return global;
}

int64_t shoal_place_local(const shoal_place_t *place, int32_t dim, int64_t global) {
  int64_t size = place->part.dims[dim];
  const int64_t *index = place->index[dim];
  if (!index) return global >= 0 && global < size ? global : -1;
  int64_t low = 0, high = size;  // the first index >= global lies in [low, high]
  while (low < high) {
    int64_t middle = low + (high - low) / 2;
    if (index[middle] < global)
      low = middle + 1;
    else
      high = middle;
  }
  return low < size && index[low] == global ? low : -1;
}
