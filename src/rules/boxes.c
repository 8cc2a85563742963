// Trials: what a part has of each operand.
//
// A part is exactly what a rank would have: layouts made from the way, boxes of the layout. The
// same boxes are asked for again and again, by other candidates and for other values: they are kept
// by operand, form and deal, except where windows cut the item space, so that the whole way counts.
#include <string.h>

#include "base/status.h"
#include "rules/search.h"

struct boxes_entry {
  boxes_entry_t *next;
  shoal_way_operand_t form;
  int64_t items, deal, parts;
  bool *made;
  shoal_boxes_t *boxes;  // by part
};

// Boxes of an operand whose items are dealt like cards: no layout says that.
static bool alternate(trial_t *trial, const shoal_way_t *way, const shoal_way_operand_t *o,
                      const shoal_shape_t *shape, const deal_t *deal, int64_t index,
                      shoal_arena_t *arena, shoal_boxes_t *out) {
  int64_t window = o->length ? o->length : way->items, count = 0;
  if (window * o->repeat * o->scale != shape->dims[o->dim]) return false;
  shoal_interval_t *list =
      SHOAL_NEW(arena, shoal_interval_t, o->repeat * (window / deal->parts + 1));
  if (!trial_allocated(trial, list)) return false;
  for (int64_t r = 0; r < o->repeat; ++r) {
    for (int64_t i = o->offset; i < o->offset + window; ++i) {
      if (i % deal->parts != index) continue;
      int64_t start = (r * window + i - o->offset) * o->scale;
      if (count && list[count - 1].start + list[count - 1].size == start) {
        list[count - 1].size += o->scale;
      } else {
        list[count++] = (shoal_interval_t){start, o->scale};
      }
    }
  }
  shoal_dim_part_t *part = &out->dims[o->dim];
  *part = (shoal_dim_part_t){.own_count = (int32_t)count, .held_count = (int32_t)count};
  part->own = part->held = list;
  for (int64_t i = 0; i < count; ++i) part->own_size += list[i].size;
  part->held_size = part->own_size;
  return true;
}

// way->operands[operand] is `form`.
static bool make(trial_t *trial, const shoal_way_t *way, int32_t operand, const deal_t *deal,
                 int64_t index, shoal_arena_t *arena, shoal_boxes_t *out) {
  const shoal_mesh_t mesh = {.axis_count = 1, .axes = {{"x", deal->parts}}};
  const shoal_item_cut_t item_cut = {.unit = deal->unit, .weights = deal->weights};
  const shoal_shape_t *shape = &trial->types[operand].shape;
  shoal_layout_t layout = {.mesh = &mesh};
  bool cuts = false, dealt = deal->alternate && way->operands[operand].kind == SHOAL_OPERAND_CUT;
  if (!dealt) {
    if (!trial_passed(trial,
                      shoal_way_cut(way, operand, shape, 0, &item_cut, &cuts, &layout.cuts[0]))) {
      return false;
    }
    layout.cut_count = cuts;
  }
  if (!trial_passed(trial, shoal_layout_boxes(&layout, shape, index, 0, arena, out))) return false;
  return !dealt || alternate(trial, way, &way->operands[operand], shape, deal, index, arena, out);
}

// The entry for the form, a new one if there is none; NULL when memory is short.
static boxes_entry_t *find(trial_t *trial, const shoal_way_t *way, int32_t operand,
                           const shoal_way_operand_t *form, const deal_t *deal) {
  const bool cut = form->kind == SHOAL_OPERAND_CUT || form->kind == SHOAL_OPERAND_FLAT;
  const int64_t items = cut ? way->items : 0, id = cut ? deal->id : 0;
  const int64_t parts = cut ? deal->parts : 1;
  for (boxes_entry_t *e = trial->boxes[operand]; e; e = e->next) {
    if (e->items == items && e->deal == id && search_same_operand(&e->form, form)) return e;
  }
  boxes_entry_t *entry = SHOAL_NEW(&trial->arena, boxes_entry_t, 1);
  if (!trial_allocated(trial, entry)) return NULL;
  *entry = (boxes_entry_t){.next = trial->boxes[operand],
                           .form = *form,
                           .items = items,
                           .deal = id,
                           .parts = parts,
                           .made = SHOAL_NEW(&trial->arena, bool, parts),
                           .boxes = SHOAL_NEW(&trial->arena, shoal_boxes_t, parts)};
  if (!trial_allocated(trial, entry->made) || !trial_allocated(trial, entry->boxes)) return NULL;
  return trial->boxes[operand] = entry;
}

static bool has_windows(const shoal_way_t *way) {
  for (int32_t i = 0; i < way->input_count + way->output_count; ++i) {
    if (way->operands[i].length) return true;
  }
  return false;
}

const shoal_boxes_t *trial_boxes(trial_t *trial, const shoal_way_t *way, int32_t operand,
                                 const shoal_way_operand_t *form, const deal_t *deal, int64_t index,
                                 shoal_arena_t *arena) {
  shoal_way_t given = *way;
  const int32_t count = way->input_count + way->output_count;
  const bool kept = trial->boxes && deal->id && !has_windows(way);
  boxes_entry_t *entry = kept ? find(trial, way, operand, form, deal) : NULL;
  if (kept && !entry) return NULL;
  if (entry && entry->parts == 1) index = 0;
  if (entry && entry->made[index]) return &entry->boxes[index];
  if (form != &way->operands[operand]) {
    shoal_way_operand_t *operands =
        shoal_arena_copy(arena, way->operands, (size_t)count, sizeof *operands);
    if (!trial_allocated(trial, operands)) return NULL;
    operands[operand] = *form;
    given.operands = operands;
  }
  shoal_boxes_t *boxes = entry ? &entry->boxes[index] : SHOAL_NEW(arena, shoal_boxes_t, 1);
  if (!trial_allocated(trial, boxes)) return NULL;
  if (!make(trial, &given, operand, deal, index, entry ? &trial->arena : arena, boxes)) return NULL;
  if (entry) entry->made[index] = true;
  return boxes;
}
