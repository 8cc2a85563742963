// A second, naive meaning of layouts, to compare the real one with: it walks over elements one by
// one, deals items out like cards and marks who has what. Nothing is shared with src/layout but the
// structs.
#ifndef SHOAL_TESTS_LAYOUT_MODEL_H_
#define SHOAL_TESTS_LAYOUT_MODEL_H_

#include <string.h>

#include "shoal/layout.h"

enum { MODEL_LENGTH = 256, MODEL_PARTS = 16, MODEL_ITEMS = 4096, MODEL_ELEMENTS = 4096 };

static int64_t model_axis_size(const shoal_layout_t *layout, const shoal_cut_t *cut) {
  int64_t size = cut->axis < 0 ? layout->mesh->micro : layout->mesh->axes[cut->axis].size;
  return size > 0 ? size : 1;
}

// to[item] = the part that gets it. Returns the last part that has any, or 0.
static int model_deal(int64_t items, int64_t parts, const int64_t *weights, int *to) {
  int64_t have[MODEL_PARTS] = {0};
  if (!weights) {
    for (int64_t i = 0; i < items; ++i) ++have[i % parts];  // one round after the other
  } else {
    int64_t sum = 0, dealt = 0;
    bool more[MODEL_PARTS] = {0};
    for (int64_t i = 0; i < parts; ++i) sum += weights[i];
    for (int64_t i = 0; i < parts; ++i) {
      while ((have[i] + 1) * sum <= items * weights[i]) ++have[i];
      dealt += have[i];
    }
    for (; dealt < items; ++dealt) {  // to the part that lacks most of its fair share
      int best = -1;
      for (int i = 0; i < parts; ++i) {
        int64_t lack = items * weights[i] - have[i] * sum;
        if (!more[i] && (best < 0 || lack > items * weights[best] - have[best] * sum)) best = i;
      }
      more[best] = true;
      ++have[best];
    }
  }
  int64_t item = 0;
  int last = 0;
  for (int i = 0; i < parts; ++i) {
    for (int64_t k = 0; k < have[i]; ++k) to[item++] = last = i;
  }
  return last;
}

typedef struct model_state {
  int own[MODEL_LENGTH], own_count;  // indices of the dim, ascending
  bool held[MODEL_LENGTH];
  int64_t origin;       // index that position 0 has (not with chunks)
  int64_t items, unit;  // items that fell to this part; -1: the cut gave none
} model_state_t;

// One cut of a packed list of indices, without halo: appends those that go to `part`.
static void model_cut_list(const int *list, int count, int64_t unit, int64_t items,
                           const shoal_cut_t *cut, int64_t parts, int64_t part, int *out,
                           int *out_count) {
  int to[MODEL_ITEMS];
  bool given = items >= 0;
  if (!given) items = (count + unit - 1) / unit;
  int last = model_deal(items, parts, cut->weights, to);
  for (int k = 0; k < count; ++k) {
    int64_t item = k / unit;
    if ((item < items ? to[item] : last) == part) out[(*out_count)++] = list[k];
  }
}

static void model_cut(const shoal_layout_t *layout, const shoal_cut_t *cut, int64_t length,
                      int64_t part, model_state_t *s) {
  int64_t parts = model_axis_size(layout, cut), unit = cut->unit > 0 ? cut->unit : 1;
  int64_t items = cut->items == 0 ? -1 : cut->items < 0 ? 0 : cut->items;
  part = (part + cut->turn) % parts;
  int next[MODEL_LENGTH] = {0}, next_count = 0;
  if (cut->chunk_count) {
    int64_t low = 0;
    for (int c = 0; c < cut->chunk_count; ++c) {
      bool equal = cut->chunks[0].length == 0;
      int64_t high = low + (equal ? length / cut->chunk_count : cut->chunks[c].length);
      int64_t chunk_unit = equal || cut->chunks[c].unit == 0 ? unit : cut->chunks[c].unit;
      int inside[MODEL_LENGTH], count = 0;
      for (int i = 0; i < s->own_count; ++i) {
        if (s->own[i] >= low && s->own[i] < high) inside[count++] = s->own[i];
      }
      model_cut_list(inside, count, chunk_unit, items, cut, parts, part, next, &next_count);
      low = high;
    }
    memcpy(s->own, next, sizeof next);
    s->own_count = next_count;
    s->items = -1;
    memset(s->held, 0, sizeof s->held);
    for (int i = 0; i < next_count; ++i) s->held[next[i]] = true;
    return;
  }
  // Walk over positions, also behind the end of what there is, and find first and last of this
  // part.
  if (items >= 0 && s->items >= 0 && s->unit == unit) items = s->items;
  int64_t reach = items >= 0 && items * unit > s->own_count ? items * unit : s->own_count;
  int64_t dealt = items >= 0 ? items : (s->own_count + unit - 1) / unit;
  int to[MODEL_ITEMS];
  int last = model_deal(dealt, parts, cut->weights, to);
  int64_t first = -1, behind = -1, mine = 0;
  for (int64_t v = 0; v < reach; ++v) {
    if ((v / unit < dealt ? to[v / unit] : last) != part) continue;
    if (first < 0) first = v;
    behind = v + 1;
  }
  for (int64_t i = 0; i < dealt; ++i) mine += to[i] == part;
  bool held[MODEL_LENGTH] = {0};
  for (int64_t e = 0; e < length && first >= 0; ++e) {
    int64_t v = e - s->origin;
    held[e] = s->held[e] && v >= first - cut->before && v < behind + cut->after;
  }
  for (int i = 0; i < s->own_count && first >= 0; ++i) {
    bool trimmed = (cut->before < 0 && i < first - cut->before) ||
                   (cut->after < 0 && i >= behind + cut->after);
    if (i >= first && i < behind && !trimmed) next[next_count++] = s->own[i];
  }
  s->origin += first < 0 ? 0 : first + (cut->before < 0 ? -cut->before : 0);
  s->items = items >= 0 ? mine : -1;
  s->unit = unit;
  memcpy(s->own, next, sizeof next);
  s->own_count = next_count;
  // Of an outer cut or a tile: lists are not intervals then, and there is no halo.
  bool chunked = layout->tile.cut.dim == cut->dim && layout->tile.cut.chunk_count > 0;
  for (int i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *other = &layout->cuts[i];
    chunked |= other->kind == SHOAL_CUT_DIM && other->dim == cut->dim && other->chunk_count > 0;
  }
  if (chunked) {
    memset(held, 0, sizeof held);
    for (int i = 0; i < next_count; ++i) held[next[i]] = true;
  }
  memcpy(s->held, held, sizeof held);
}

// Is index `e` of a dim in the tile?
static bool model_in_tile(const shoal_tile_t *tile, int64_t length, int64_t e) {
  int64_t low = 0, high = 0, chunk = 0;
  for (; e >= high; ++chunk) {
    const bool equal = tile->cut.chunks[0].length == 0;
    low = high;
    high += tile->cut.chunk_count == 0 ? length
            : equal                    ? length / tile->cut.chunk_count
                                       : tile->cut.chunks[chunk].length;
  }
  int to[MODEL_ITEMS];
  int64_t unit = tile->cut.unit > 0 ? tile->cut.unit : 1;
  if (tile->cut.chunk_count > 0 && tile->cut.chunks[chunk - 1].unit > 0 &&
      tile->cut.chunks[0].length > 0)
    unit = tile->cut.chunks[chunk - 1].unit;
  model_deal((high - low + unit - 1) / unit, tile->count, NULL, to);
  return to[(e - low) / unit] == tile->index;
}

static void model_dim(const shoal_layout_t *layout, int32_t dim, int64_t length,
                      const int64_t *coords, int64_t micro, bool *own, bool *held) {
  model_state_t s = {.items = -1};
  const bool tiled = layout->tile.count > 0 && layout->tile.cut.dim == dim;
  for (int e = 0; e < length; ++e) {
    if (tiled && !model_in_tile(&layout->tile, length, e)) continue;
    if (s.own_count == 0) s.origin = e;
    s.own[s.own_count++] = e;
    s.held[e] = true;
  }
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_DIM || cut->dim != dim || (cut->axis < 0 && micro < 0)) continue;
    model_cut(layout, cut, length, cut->axis < 0 ? micro : coords[cut->axis], &s);
  }
  for (int e = 0; e < length; ++e) own[e] = false;
  for (int i = 0; i < s.own_count; ++i) own[s.own[i]] = true;
  for (int e = 0; e < length; ++e) held[e] = s.held[e];
}

// The elements of a rank's buffer in order, by their row-major index in the whole, and which it
// owns.
typedef struct model_part {
  int64_t count;
  int element[MODEL_ELEMENTS];
  bool owned[MODEL_ELEMENTS];
} model_part_t;

static void model_part(const shoal_layout_t *layout, const shoal_shape_t *shape, int64_t position,
                       int64_t micro, model_part_t *out) {
  int64_t coords[SHOAL_MAX_AXES] = {0}, rest = position, total = 1;
  for (int32_t i = layout->mesh->axis_count - 1; i >= 0; --i) {
    coords[i] = rest % layout->mesh->axes[i].size;
    rest /= layout->mesh->axes[i].size;
  }
  static bool own[SHOAL_MAX_RANK][MODEL_LENGTH], held[SHOAL_MAX_RANK][MODEL_LENGTH];
  for (int32_t d = 0; d < shape->rank; ++d) {
    model_dim(layout, d, shape->dims[d], coords, micro, own[d], held[d]);
    total *= shape->dims[d];
  }
  bool flat = false;
  for (int32_t i = 0; i < layout->cut_count; ++i) flat |= layout->cuts[i].kind == SHOAL_CUT_FLAT;
  out->count = 0;
  for (int64_t e = 0; e < total; ++e) {
    bool is_own = true, is_held = true;
    rest = e;
    for (int32_t d = shape->rank - 1; d >= 0; --d) {
      is_own = is_own && own[d][rest % shape->dims[d]];
      is_held = is_held && held[d][rest % shape->dims[d]];
      rest /= shape->dims[d];
    }
    if (flat ? !is_own : !is_held) continue;
    out->owned[out->count] = is_own;
    out->element[out->count++] = (int)e;
  }
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_FLAT) continue;
    int kept[MODEL_ELEMENTS], count = 0;
    model_cut_list(out->element, (int)out->count, cut->unit > 0 ? cut->unit : 1, -1, cut,
                   model_axis_size(layout, cut), coords[cut->axis], kept, &count);
    memcpy(out->element, kept, (size_t)count * sizeof *kept);
    out->count = count;
  }
}

#endif  // SHOAL_TESTS_LAYOUT_MODEL_H_
