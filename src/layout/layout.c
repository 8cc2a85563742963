// Layouts: what is allowed, and comparison. The first half of the check needs no shape and runs at
// parse; everything behind it may rely on: axes exist and are used once, micro cuts come first and
// flat last, no sum or product of the numbers in a cut overflows.
#include <stdio.h>

#include "layout/layout_impl.h"

enum { ITEM = 160 };                            // room for an item in a message
static const int64_t LARGEST = INT64_MAX / 64;  // of any size or halo: sums over all cuts still fit

static bool has_halo(const shoal_cut_t *cut) {
  return cut->before != 0 || cut->after != 0;
}

// ---- without a shape -------------------------------------------------------------------

#define REFUSE(code, hint, ...) \
  return SHOAL_ERROR_HINT(code, hint, "layout item '%s': " __VA_ARGS__)
// The item in question, of `layout` and `index`. It is written only where it is refused: layouts
// are checked thousands of times.
#define ITEM_TEXT item_text(layout, index, (char[ITEM]){0})

static const char *item_text(const shoal_layout_t *layout, int32_t index, char buffer[ITEM]) {
  shoal_layout_item_format(layout, index, buffer, ITEM);
  return buffer;
}

// Number -1 is the tile.
static const shoal_cut_t *item_at(const shoal_layout_t *layout, int32_t index) {
  return index < 0 ? &layout->tile.cut : &layout->cuts[index];
}

static shoal_status_t check_numbers(const shoal_layout_t *layout, int32_t index) {
  const shoal_cut_t *cut = item_at(layout, index);
  if (cut->unit < 0 || cut->unit > LARGEST || cut->items < SHOAL_NO_ITEMS || cut->items > LARGEST ||
      cut->before > LARGEST || cut->before < -LARGEST || cut->after > LARGEST ||
      cut->after < -LARGEST) {
    REFUSE(INVALID_ARGUMENT, "use sizes that fit a tensor", "a number is out of range", ITEM_TEXT);
  }
  int64_t extent;
  if (cut->items > 0 &&
      (__builtin_mul_overflow(cut->items, cut->unit > 1 ? cut->unit : 1, &extent) ||
       extent > LARGEST)) {
    REFUSE(INVALID_ARGUMENT, "use sizes that fit a tensor", "items times unit is out of range",
           ITEM_TEXT);
  }
  if (cut->turn) {
    const int64_t size = shoal_layout_axis_size(layout->mesh, cut->axis);
    if (cut->turn < 0 || cut->turn >= size)
      REFUSE(INVALID_ARGUMENT, "turn by less than the ranks along the axis",
             "a turn by %lld among %lld ranks", ITEM_TEXT, (long long)cut->turn, (long long)size);
    if (cut->kind != SHOAL_CUT_DIM || cut->axis == SHOAL_AXIS_MICRO || has_halo(cut) || index < 0)
      REFUSE(UNSUPPORTED, "turn cuts of a dim, without a halo, along an axis of ranks",
             "micro-batches, tiles, halos and flat cuts do not turn", ITEM_TEXT);
  }
  if (cut->chunk_count < 0 || (cut->chunk_count > SHOAL_MAX_CHUNKS && cut->chunks[0].length != 0)) {
    REFUSE(INVALID_ARGUMENT, "give at most 8 lengths, or equal chunks", "%d chunks", ITEM_TEXT,
           cut->chunk_count);
  }
  for (int32_t i = 0; cut->chunks[0].length != 0 && i < cut->chunk_count; ++i) {
    const shoal_chunk_t *chunk = &cut->chunks[i];
    if (chunk->length < 1 || chunk->length > LARGEST || chunk->unit < 0 || chunk->unit > LARGEST) {
      REFUSE(INVALID_ARGUMENT, "chunks have a length and a unit of at least 1",
             "chunk %d has length %lld, unit %lld", ITEM_TEXT, i, (long long)chunk->length,
             (long long)chunk->unit);
    }
  }
  if (cut->weights) {
    int64_t sum = 0, size = shoal_layout_axis_size(layout->mesh, cut->axis);
    for (int64_t i = 0; i < size; ++i) {
      if (cut->weights[i] < 0 || __builtin_add_overflow(sum, cut->weights[i], &sum)) {
        REFUSE(INVALID_ARGUMENT, "use small non-negative weights", "weight %lld is out of range",
               ITEM_TEXT, (long long)i);
      }
    }
    if (sum == 0) {
      REFUSE(INVALID_ARGUMENT, "give at least one rank a weight", "all weights are zero",
             ITEM_TEXT);
    }
  }
  return NULL;
}

// How item `index` goes with the ones before it.
static shoal_status_t check_order(const shoal_layout_t *layout, int32_t index) {
  const shoal_cut_t *cut = &layout->cuts[index];
  const char *axis = shoal_layout_axis_name(layout->mesh, cut->axis);
  bool micro = cut->axis == SHOAL_AXIS_MICRO;
  if (micro && cut->kind == SHOAL_CUT_FLAT) {
    REFUSE(UNSUPPORTED, "cut the batch dim: 'micro:0'", "micro is outermost and cannot cut flat",
           ITEM_TEXT);
  }
  const shoal_cut_t *outer = NULL;  // the cut just outside on the same dim
  for (int32_t i = 0; i < index; ++i) {
    const shoal_cut_t *other = &layout->cuts[i];
    if (other->axis == cut->axis) {
      REFUSE(INVALID_ARGUMENT, "an axis cuts one dim or is partial, once",
             "axis '%s' is used twice in the layout", ITEM_TEXT, axis);
    }
    if (other->kind == SHOAL_CUT_PARTIAL || cut->kind == SHOAL_CUT_PARTIAL) continue;
    if (micro) {
      REFUSE(INVALID_ARGUMENT, "micro-batches are outermost: write micro first",
             "micro is written behind another cut", ITEM_TEXT);
    }
    if (other->kind == SHOAL_CUT_FLAT && cut->kind == SHOAL_CUT_DIM) {
      REFUSE(INVALID_ARGUMENT, "flat counts in what the other cuts leave: write it last",
             "a dim is cut behind a flat item", ITEM_TEXT);
    }
    if (cut->kind == SHOAL_CUT_FLAT && has_halo(other)) {
      REFUSE(UNSUPPORTED, "drop the halo, or the flat cut", "flat with a halo", ITEM_TEXT);
    }
    if (cut->kind != SHOAL_CUT_DIM || other->kind != SHOAL_CUT_DIM || other->dim != cut->dim)
      continue;
    if ((cut->turn && has_halo(other)) || (other->turn && has_halo(cut))) {
      REFUSE(UNSUPPORTED, "drop the halo, or the turn", "halo with a turn", ITEM_TEXT);
    }
    if ((cut->chunk_count && has_halo(other)) || (other->chunk_count && has_halo(cut))) {
      REFUSE(UNSUPPORTED, "drop the halo, or the chunks of this dim", "halo with chunks",
             ITEM_TEXT);
    }
    outer = other;
  }
  if (cut->chunk_count && has_halo(cut)) {
    REFUSE(UNSUPPORTED, "drop the halo, or the chunks", "halo with chunks", ITEM_TEXT);
  }
  if (outer && outer->items && cut->items && (outer->chunk_count || cut->chunk_count)) {
    REFUSE(UNSUPPORTED, "give items to one of the two cuts",
           "two cuts of a dim with items cannot have chunks", ITEM_TEXT);
  }
  return NULL;
}

static shoal_status_t check_tile(const shoal_layout_t *layout) {
  const shoal_tile_t *tile = &layout->tile;
  const shoal_cut_t *cut = &tile->cut;
  const int32_t index = -1;
  if (tile->count == 0) return NULL;
  if (tile->count < 0 || tile->index < 0 || tile->index >= tile->count) {
    REFUSE(INVALID_ARGUMENT, "tiles count from 0: 'tile(1/4):0' is the second of four",
           "there is no such tile", ITEM_TEXT);
  }
  if (cut->kind != SHOAL_CUT_DIM || cut->items || has_halo(cut) || cut->weights) {
    REFUSE(UNSUPPORTED, "a tile takes a dim, chunks and a unit only", "it says more", ITEM_TEXT);
  }
  SHOAL_RETURN_IF_ERROR(check_numbers(layout, index));
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *other = &layout->cuts[i];
    if (other->kind == SHOAL_CUT_FLAT) {
      REFUSE(UNSUPPORTED, "drop the flat cut", "a tile with a flat cut", ITEM_TEXT);
    }
    if (other->kind != SHOAL_CUT_DIM || other->dim != cut->dim) continue;
    if (other->axis == SHOAL_AXIS_MICRO || other->items || has_halo(other)) {
      REFUSE(UNSUPPORTED, "use a tile along another dim",
             "micro-batches, items or a halo along dim %d", ITEM_TEXT, cut->dim);
    }
    if (other->chunk_count) {
      REFUSE(UNSUPPORTED, "drop the chunks of the cut", "another cut of dim %d has chunks",
             ITEM_TEXT, cut->dim);
    }
  }
  return NULL;
}

shoal_status_t shoal_layout_check_items(const shoal_layout_t *layout) {
  if (!layout->mesh) return SHOAL_ERROR(INVALID_ARGUMENT, "the layout has no mesh");
  if (layout->cut_count < 0 || layout->cut_count > SHOAL_MAX_CUTS) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "the layout has %d items", layout->cut_count);
  }
  for (int32_t index = 0; index < layout->cut_count; ++index) {
    const shoal_cut_t *cut = &layout->cuts[index];
    if (cut->axis < SHOAL_AXIS_MICRO || cut->axis >= layout->mesh->axis_count) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "layout item %d: the mesh has no axis %d", index,
                         cut->axis);
    }
    if (cut->kind == SHOAL_CUT_FLAT && (cut->chunk_count || cut->items || has_halo(cut))) {
      REFUSE(UNSUPPORTED, "flat takes a unit and weights only", "flat with chunks, items or halo",
             ITEM_TEXT);
    }
    if (cut->kind != SHOAL_CUT_PARTIAL || cut->turn)
      SHOAL_RETURN_IF_ERROR(check_numbers(layout, index));
    SHOAL_RETURN_IF_ERROR(check_order(layout, index));
  }
  return check_tile(layout);
}

// ---- with a shape ----------------------------------------------------------------------

static shoal_status_t check_chunks(const shoal_layout_t *layout, int32_t index, int64_t length) {
  const shoal_cut_t *cut = item_at(layout, index);
  if (cut->chunks[0].length == 0) {
    if (length % cut->chunk_count == 0) return NULL;
    REFUSE(INVALID_ARGUMENT, "give the chunks' lengths: '*(a,b,...)'",
           "dim %d has length %lld, which does not divide into %d chunks", ITEM_TEXT, cut->dim,
           (long long)length, cut->chunk_count);
  }
  int64_t sum = 0;
  for (int32_t i = 0; i < cut->chunk_count; ++i) sum += cut->chunks[i].length;
  if (sum == length) return NULL;
  REFUSE(INVALID_ARGUMENT, "make the chunk lengths add up to the dim's length",
         "the chunks add up to %lld, dim %d has length %lld", ITEM_TEXT, (long long)sum, cut->dim,
         (long long)length);
}

shoal_status_t shoal_layout_check(const shoal_layout_t *layout, const shoal_shape_t *shape) {
  SHOAL_RETURN_IF_ERROR(shoal_layout_check_items(layout));
  if (shape->rank < 0 || shape->rank > SHOAL_MAX_RANK) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a shape has 0 to %d dims, not %d", SHOAL_MAX_RANK,
                       shape->rank);
  }
  int64_t count = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    int64_t length = shape->dims[d];
    if (length < 0 || __builtin_mul_overflow(count, length > 0 ? length : 1, &count) ||
        count > LARGEST) {
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "use sizes that fit a tensor",
                              "dim %d of the shape has length %lld, which is out of range", d,
                              (long long)length);
    }
  }
  for (int32_t index = layout->tile.count > 0 ? -1 : 0; index < layout->cut_count; ++index) {
    const shoal_cut_t *cut = item_at(layout, index);
    if (cut->kind != SHOAL_CUT_DIM) continue;
    if (cut->dim < 0 || cut->dim >= shape->rank) {
      char hint[64] = "a scalar has no dims: leave the item out";
      if (shape->rank) snprintf(hint, sizeof hint, "use a dim from 0 to %d", shape->rank - 1);
      REFUSE(INVALID_ARGUMENT, hint, "the value has %d dims, there is no dim %d", ITEM_TEXT,
             shape->rank, cut->dim);
    }
    if (cut->chunk_count) SHOAL_RETURN_IF_ERROR(check_chunks(layout, index, shape->dims[cut->dim]));
  }
  return NULL;
}

// ---- comparison ------------------------------------------------------------------------

// An axis of size 1 cuts nothing - unless halo or items on its dim make its place in the order
// matter.
bool shoal_cut_idle(const shoal_layout_t *layout, const shoal_cut_t *cut) {
  if (shoal_layout_axis_size(layout->mesh, cut->axis) > 1) return false;
  if (cut->kind != SHOAL_CUT_DIM) return true;
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *other = &layout->cuts[i];
    if (other->kind != SHOAL_CUT_DIM || other->dim != cut->dim) continue;
    if (has_halo(other) || other->items) return false;
  }
  return true;
}

bool shoal_cut_alike(const shoal_cut_t *a, const shoal_cut_t *b, int64_t parts) {
  if (a->kind != b->kind) return false;
  if (a->kind == SHOAL_CUT_PARTIAL) return a->reduce == b->reduce;
  if (a->kind == SHOAL_CUT_DIM && a->dim != b->dim) return false;
  int64_t a_unit = shoal_max64(a->unit, 1), b_unit = shoal_max64(b->unit, 1);
  if (a_unit != b_unit || a->items != b->items) return false;
  if (a->before != b->before || a->after != b->after || a->turn != b->turn) return false;
  if (a->chunk_count != b->chunk_count) return false;
  if (a->chunk_count && a->chunks[0].length == 0) {
    if (b->chunks[0].length != 0) return false;
  } else {
    for (int32_t i = 0; i < a->chunk_count; ++i) {
      const shoal_chunk_t *x = &a->chunks[i], *y = &b->chunks[i];
      if (x->length != y->length) return false;
      if ((x->unit ? x->unit : a_unit) != (y->unit ? y->unit : b_unit)) return false;
    }
  }
  if (!a->weights != !b->weights) return false;
  if (a->weights == b->weights) return true;
  for (int64_t i = 0; i < parts; ++i) {
    if (a->weights[i] != b->weights[i]) return false;
  }
  return true;
}

bool shoal_tile_same(const shoal_layout_t *a, const shoal_layout_t *b) {
  if (a->tile.count != b->tile.count || a->tile.index != b->tile.index) return false;
  return a->tile.count == 0 || shoal_cut_alike(&a->tile.cut, &b->tile.cut, 0);
}

bool shoal_layout_equal(const shoal_layout_t *a, const shoal_layout_t *b) {
  if (!shoal_mesh_equal(a->mesh, b->mesh) || !shoal_tile_same(a, b)) return false;
  int32_t i = 0, j = 0;
  for (;;) {
    while (i < a->cut_count && shoal_cut_idle(a, &a->cuts[i])) ++i;
    while (j < b->cut_count && shoal_cut_idle(b, &b->cuts[j])) ++j;
    if (i == a->cut_count || j == b->cut_count) return i == a->cut_count && j == b->cut_count;
    const shoal_cut_t *x = &a->cuts[i++], *y = &b->cuts[j++];
    if (x->axis != y->axis) return false;
    if (!shoal_cut_alike(x, y, shoal_layout_axis_size(a->mesh, x->axis))) return false;
  }
}

const shoal_cut_t *shoal_layout_along(const shoal_layout_t *layout, int32_t axis) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].axis == axis) return &layout->cuts[i];
  }
  return NULL;
}

bool shoal_layout_is_partial(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    const shoal_cut_t *cut = &layout->cuts[i];
    if (cut->kind != SHOAL_CUT_PARTIAL) continue;
    if (shoal_layout_axis_size(layout->mesh, cut->axis) > 1) return true;
  }
  return false;
}

bool shoal_layout_is_flat(const shoal_layout_t *layout) {
  for (int32_t i = 0; i < layout->cut_count; ++i) {
    if (layout->cuts[i].kind == SHOAL_CUT_FLAT) return true;
  }
  return false;
}
