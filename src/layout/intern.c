// See intern.h.
#include "layout/intern.h"

#include <string.h>

#include "base/hash.h"
#include "layout/layout_impl.h"

static int32_t chunks_of(const shoal_cut_t *cut) {
  bool equal = cut->chunk_count > SHOAL_MAX_CHUNKS || cut->chunks[0].length == 0;
  return equal ? 0 : cut->chunk_count;
}

static int64_t weights_of(const shoal_layout_t *layout, const shoal_cut_t *cut) {
  return cut->weights ? shoal_layout_axis_size(layout->mesh, cut->axis) : 0;
}

static uint64_t hash_cut(uint64_t hash, const shoal_layout_t *layout, const shoal_cut_t *cut) {
  const int64_t words[] = {cut->axis,  cut->kind,   cut->dim,   cut->reduce,      cut->unit,
                           cut->items, cut->before, cut->after, cut->chunk_count, cut->turn};
  hash = shoal_hash_bytes(hash, words, sizeof words);
  hash = shoal_hash_bytes(hash, cut->chunks, (size_t)chunks_of(cut) * sizeof *cut->chunks);
  if (!cut->weights) return hash;
  return shoal_hash_bytes(hash, cut->weights, (size_t)weights_of(layout, cut) * sizeof(int64_t));
}

uint64_t shoal_layout_hash(const shoal_layout_t *layout) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)(intptr_t)layout->mesh);
  for (int32_t i = 0; i < layout->cut_count; ++i) hash = hash_cut(hash, layout, &layout->cuts[i]);
  if (layout->tile.count == 0) return hash;
  hash = shoal_hash_int(hash, layout->tile.index);
  return hash_cut(shoal_hash_int(hash, layout->tile.count), layout, &layout->tile.cut);
}

static bool cuts_alike(const shoal_layout_t *layout, const shoal_cut_t *a, const shoal_cut_t *b) {
  if (a->axis != b->axis || a->kind != b->kind || a->dim != b->dim || a->reduce != b->reduce ||
      a->unit != b->unit || a->items != b->items || a->before != b->before ||
      a->after != b->after || a->turn != b->turn || a->chunk_count != b->chunk_count ||
      chunks_of(a) != chunks_of(b) || !a->weights != !b->weights) {
    return false;
  }
  if (memcmp(a->chunks, b->chunks, (size_t)chunks_of(a) * sizeof *a->chunks) != 0) return false;
  return !a->weights ||
         memcmp(a->weights, b->weights, (size_t)weights_of(layout, a) * sizeof(int64_t)) == 0;
}

static bool alike(const shoal_layout_t *a, const shoal_layout_t *b) {
  if (a->mesh != b->mesh || a->cut_count != b->cut_count) return false;
  if (a->tile.count != b->tile.count || a->tile.index != b->tile.index) return false;
  if (a->tile.count > 0 && !cuts_alike(a, &a->tile.cut, &b->tile.cut)) return false;
  for (int32_t i = 0; i < a->cut_count; ++i) {
    if (!cuts_alike(a, &a->cuts[i], &b->cuts[i])) return false;
  }
  return true;
}

void shoal_layouts_init(shoal_arena_t *arena, shoal_layouts_t *out_layouts) {
  *out_layouts = (shoal_layouts_t){.arena = arena};
  shoal_index_init(arena, &out_layouts->index);
}

shoal_status_t shoal_layouts_keep(shoal_layouts_t *layouts, const shoal_layout_t *layout,
                                  const shoal_layout_t **out_layout) {
  uint64_t hash = shoal_layout_hash(layout);
  for (int64_t at = -1, n; (n = shoal_index_next(&layouts->index, hash, &at)) >= 0;) {
    if (!alike(layouts->items.items[n], layout)) continue;
    *out_layout = layouts->items.items[n];
    return NULL;
  }
  shoal_layout_t *kept = SHOAL_NEW(layouts->arena, shoal_layout_t, 1);
  if (!kept) return SHOAL_OOM();
  *kept = *layout;
  for (int32_t i = 0; i < kept->cut_count; ++i) {
    shoal_cut_t *cut = &kept->cuts[i];
    if (!cut->weights) continue;
    cut->weights = shoal_arena_copy(layouts->arena, cut->weights, (size_t)weights_of(layout, cut),
                                    sizeof *cut->weights);
    if (!cut->weights) return SHOAL_OOM();
  }
  if (!shoal_index_add(&layouts->index, hash, layouts->items.count) ||
      !SHOAL_PUSH(layouts->arena, &layouts->items, kept)) {
    return SHOAL_OOM();
  }
  *out_layout = kept;
  return NULL;
}
