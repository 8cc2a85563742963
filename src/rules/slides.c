// Symbols that windows slide over (convolution, pooling and their gradients; attention, whose
// queries and keys have places too).
//
// Such an op has several operands with places, and moves over their last dims: as many as the
// record's `window` has entries, two where it does not say. Their sizes along one dim belong
// together though the shape function does not say so (a gradient takes the image's size and that of
// the result): each is a multiple of the smallest, plus or minus a few, and these relations (stride
// and rest) are kept. Kernels are what decides the outputs' sizes without being one of them: they
// and their like stay literal, because halos depend on them.
#include <stdlib.h>
#include <string.h>

#include "op/operands.h"
#include "rules/symbols.h"

enum { MAX_MEMBERS = 64 };

// ---- kernels -----------------------------------------------------------------------------------

static int32_t spoken_of(const symbols_t *s, int32_t attr) {
  return shoal_attr_operand(s->op, s->attrs, s->input_count, attr);
}

static int32_t operand_of(const symbols_t *s, const slot_t *slot) {
  return slot->operand >= 0 ? slot->operand : spoken_of(s, slot->attr);
}

static bool is_of(const slot_t *slot, int32_t symbol) {
  return slot->term_count == 1 && slot->terms[0] == symbol;
}

// How many of the last dims windows move over. An attribute that is the shape of an operand has two
// entries more, for [N, C].
static int32_t window_dims(const symbols_t *s) {
  for (int32_t a = 0; s->op->window && a < s->op->attr_count; ++a) {
    if (strcmp(s->op->attrs[a].name, s->op->window) != 0) continue;
    return s->attrs[a].count - (s->op->attrs[a].role == SHOAL_ROLE_SIZE ? 2 : 0);
  }
  return 2;
}

// Is the symbol the size of an operand with a place? Along dims that windows move over, an output
// may also grow with a kernel (a transposed convolution): that does not make it one.
static bool is_placed(symbols_t *s, int32_t symbol) {
  const int32_t dims = window_dims(s);
  int64_t step = 1;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    s->values[i] = slot->value + (is_of(slot, symbol) ? slot->times : 0);
    if (!is_of(slot, symbol)) continue;
    if (s->placed[operand_of(s, slot)]) return true;
    step = slot->times;
  }
  if (!symbols_accepts(s, s->values)) return false;
  for (int32_t i = s->input_count; i < s->operand_count; ++i) {
    for (int32_t d = 0; s->placed[i] && d < s->types[i].shape.rank - dims; ++d) {
      if (s->tried_types[i].shape.dims[d] == s->types[i].shape.dims[d] + step) return true;
    }
  }
  return false;
}

// The largest kernel, stride, padding and the like along a dim, which is counted from the end:
// 1 is the last. Numbers that are given for each dim that windows move over count for that
// dim alone.
static int64_t largest_plain(const symbols_t *s, int32_t from_end) {
  const int32_t dims = window_dims(s);
  int64_t largest = 0, found = 0;
  for (int32_t i = 0; i < s->input_count; ++i) {
    for (int32_t d = 0; d < s->types[i].shape.rank; ++d) {
      if (s->types[i].shape.dims[d] > largest) largest = s->types[i].shape.dims[d];
    }
  }
  for (int32_t a = 0; a < s->op->attr_count; ++a) {
    const shoal_attr_schema_t *schema = &s->op->attrs[a];
    bool many = schema->kind == SHOAL_ATTR_INTS;
    if (schema->role != SHOAL_ROLE_PLAIN || (schema->kind != SHOAL_ATTR_INT && !many)) continue;
    const int32_t count = many ? s->attrs[a].count : 1;
    const int64_t *numbers = many ? shoal_attr_list(&s->attrs[a]) : &s->attrs[a].i;
    for (int32_t d = 0; d < count; ++d) {
      if (s->op->window && many && count == dims && count - d != from_end) continue;
      // Larger than every dim: no kernel, but a stream's key or a limit.
      if (numbers[d] < largest && numbers[d] > found) found = numbers[d];
    }
  }
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    if (slot->operand < 0 || slot->term_count != 0 || s->placed[slot->operand]) continue;
    const int32_t end = s->types[slot->operand].shape.rank - slot->dim;
    if (s->op->window && end != from_end) continue;
    if (slot->value > found) found = slot->value;
  }
  return found;
}

// ---- what belongs together ---------------------------------------------------------------------

// A size along the dim: of a symbol, or of an output that no symbol gives.
typedef struct member {
  int32_t symbol;  // -1: an output's
  int32_t operand;
  int64_t value;  // of the symbol's slots, or the output's dim
} member_t;

typedef struct members {
  int32_t count;
  member_t items[MAX_MEMBERS];
} members_t;

static bool add_member(members_t *list, member_t member) {
  for (int32_t i = 0; member.symbol >= 0 && i < list->count; ++i) {
    if (list->items[i].symbol == member.symbol) return true;
  }
  if (list->count == MAX_MEMBERS) return false;
  list->items[list->count++] = member;
  return true;
}

// Sizes of operands with a place along `dim`, one of those that windows move over. False: one is
// literal, of two dims at once, or made of several symbols.
static bool list_members(const symbols_t *s, int32_t dim, members_t *out) {
  bool given[SHOAL_MAX_RANK] = {false};  // outputs of which attributes give the size
  const int32_t dims = window_dims(s);
  out->count = 0;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    int32_t operand = operand_of(s, slot), rank = s->types[operand].shape.rank;
    if (!s->placed[operand] || slot->dim != dim || dim < rank - dims || slot->value < 2) continue;
    if (operand >= s->input_count && operand - s->input_count < SHOAL_MAX_RANK)
      given[operand - s->input_count] = true;
    if (slot->term_count != 1 || slot->times != 1 || slot->plus || s->symbols[slot->terms[0]].slid)
      return false;
    if (!add_member(out, (member_t){slot->terms[0], operand, slot->value})) return false;
  }
  for (int32_t i = s->input_count; i < s->operand_count; ++i) {
    const shoal_shape_t *shape = &s->types[i].shape;
    if (!s->placed[i] || dim >= shape->rank || dim < shape->rank - dims) continue;
    if (i - s->input_count >= SHOAL_MAX_RANK || given[i - s->input_count]) continue;
    if (shape->dims[dim] < 2) continue;
    if (!add_member(out, (member_t){-1, i, shape->dims[dim]})) return false;
  }
  return true;
}

// value = times * base + plus, where that may be a stride and what it leaves over: as much as a
// dilated kernel reaches, where it is known that windows move there.
static bool relate(const symbols_t *s, int64_t value, int64_t base, int64_t *times, int64_t *plus) {
  const int64_t most = s->op->window ? 40 : 8;
  *times = (value + base / 2) / base;
  *plus = value - *times * base;
  if (*plus == 0) return *times <= 32;
  return *times <= 4 && llabs(*plus) <= most && base >= 2 * llabs(*plus);
}

// Writes everything along the dim by one symbol. Without a relation each stays on its own.
static void link_dim(symbols_t *s, int32_t dim) {
  members_t list;
  if (!list_members(s, dim, &list) || list.count == 0) return;
  int64_t base = INT64_MAX, times, plus, most_times = 1, most_plus = 0;
  const int64_t plain = largest_plain(s, s->types[list.items[0].operand].shape.rank - dim);
  int32_t symbol = -1;
  bool related = true;
  for (int32_t i = 0; i < list.count; ++i) {
    if (list.items[i].value < base) base = list.items[i].value;
    if (list.items[i].symbol >= 0 && symbol < 0) symbol = list.items[i].symbol;
  }
  for (int32_t i = 0; i < list.count; ++i) {
    related &= relate(s, list.items[i].value, base, &times, &plus);
    if (times > most_times) most_times = times;
    if (llabs(plus) > most_plus) most_plus = llabs(plus);
    if (list.items[i].symbol < 0) continue;
    s->symbols[list.items[i].symbol].slid = true;
    s->symbols[list.items[i].symbol].least = plain + 2;
  }
  if (!related || symbol < 0) return;
  // What is dealt are the smallest; the largest of them has to be longer than a window.
  if (s->op->window) {
    s->symbols[symbol].least = (plain + most_plus + most_times - 1) / most_times + 2;
  }
  for (int32_t i = 0; i < list.count; ++i) {
    const member_t *m = &list.items[i];
    relate(s, m->value, base, &times, &plus);
    if (m->symbol < 0 && s->slid_output_count < 2 * SHOAL_MAX_RANK) {
      s->slid_outputs[s->slid_output_count++] =
          (slid_output_t){m->operand, dim, symbol, times, plus};
    }
    for (int32_t k = 0; m->symbol >= 0 && k < s->slot_count; ++k) {
      slot_t *slot = &s->slots[k];
      if (!is_of(slot, m->symbol)) continue;
      slot->times = times;
      slot->plus = plus;
    }
  }
  for (int32_t k = 0; k < s->slot_count; ++k) {
    for (int32_t i = 0; i < list.count; ++i) {
      if (list.items[i].symbol >= 0 && is_of(&s->slots[k], list.items[i].symbol))
        s->slots[k].terms[0] = symbol;
    }
  }
  s->symbols[symbol].real = base;
}

void symbols_find_slides(symbols_t *s) {
  int32_t places = 0;
  for (int32_t i = 0; i < s->operand_count; ++i) places += s->placed[i];
  s->slides = places >= 2 && !(s->op->window && !s->op->window[0]);
  if (!s->slides) return;
  for (int32_t i = 0; i < s->symbol_count; ++i) {
    if (!is_placed(s, i)) symbols_drop(s, i);
  }
  for (int32_t d = 0; d < SHOAL_MAX_RANK; ++d) link_dim(s, d);
}
