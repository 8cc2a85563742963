// Blocks: the sizes of a call that must change together.
//
// A size that may change alone is a symbol. If the op refuses, all equal ones are changed with it,
// and the smallest part of them that the op accepts is the block: those follow, the others were
// equal by chance. Of sizes that cannot change so, one may be a multiple of another (grouped
// heads); what can only change in steps (a dim that must be even) is a multiple of a symbol, plus a
// rest.
//
// Where a dim of an input decides neither an output's shape nor another input's, the shape function
// may have forgotten to look at it: such a dim follows the same dim of an operand of the same
// shape.
#include <string.h>

#include "rules/symbols.h"

enum { MAX_HEADS = 9 };  // members of a set of which every part is tried

// A set of slots under work: `in` by slot.
static bool moves(symbols_t *s, const bool *in, int64_t step) {
  for (int32_t i = 0; i < s->slot_count; ++i) {
    s->values[i] = s->slots[i].value + (in[i] ? step : 0);
  }
  return symbols_accepts(s, s->values);
}

// Do two slots move together for a start? Those of operands of the same shape, along the same dim.
static bool are_bound(const symbols_t *s, const slot_t *a, const slot_t *b) {
  if (a->dim != b->dim || a->operand < 0 || b->operand < 0) return a == b;
  return shoal_shape_equal(&s->types[a->operand].shape, &s->types[b->operand].shape);
}

// The members of a set by which parts of it are tried: single slots, or those that are bound.
static int32_t list_heads(const symbols_t *s, int32_t seed, bool bound, const bool *in,
                          int32_t heads[MAX_HEADS + 1]) {
  int32_t count = 0;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    bool first = in[i] && i != seed && !(bound && are_bound(s, &s->slots[i], &s->slots[seed]));
    for (int32_t k = 0; first && bound && k < count; ++k) {
      first = !are_bound(s, &s->slots[i], &s->slots[heads[k]]);
    }
    if (!first) continue;
    if (count == MAX_HEADS) return count + 1;
    heads[count++] = i;
  }
  return count;
}

static bool is_chosen(const symbols_t *s, int32_t slot, bool bound, const int32_t *heads,
                      int32_t count, uint32_t mask) {
  for (int32_t k = 0; k < count; ++k) {
    if (!(mask >> k & 1)) continue;
    if (slot == heads[k] || (bound && are_bound(s, &s->slots[slot], &s->slots[heads[k]])))
      return true;
  }
  return false;
}

// Leaves in the set the smallest part that can move with `seed`. False: there are too many parts.
static bool choose_smallest(symbols_t *s, int32_t seed, bool bound, int64_t step, bool *in,
                            bool *part) {
  int32_t heads[MAX_HEADS + 1], count = list_heads(s, seed, bound, in, heads);
  if (count > MAX_HEADS) return false;
  for (int32_t size = 0; size <= count; ++size) {
    for (uint32_t mask = 0; mask < 1u << count; ++mask) {
      if (__builtin_popcount(mask) != size) continue;
      for (int32_t i = 0; i < s->slot_count; ++i) {
        bool with_seed = i == seed || (bound && are_bound(s, &s->slots[i], &s->slots[seed]));
        part[i] = in[i] && (with_seed || is_chosen(s, i, bound, heads, count, mask));
      }
      if (!moves(s, part, step)) continue;
      memcpy(in, part, sizeof *in * (size_t)s->slot_count);
      return true;
    }
  }
  return true;
}

// Takes single slots and pairs out of the set as long as the rest can move without them.
static void thin_out(symbols_t *s, int32_t seed, int64_t step, bool *in, bool *part) {
  for (bool changed = true; changed && !s->error;) {
    changed = false;
    for (int32_t a = 0; a < s->slot_count; ++a) {
      for (int32_t b = 0; b <= a; ++b) {
        if (a == seed || b == seed || !in[a] || !in[b]) continue;
        memcpy(part, in, sizeof *in * (size_t)s->slot_count);
        part[a] = part[b] = false;
        if (!moves(s, part, step)) continue;
        in[a] = in[b] = false;
        changed = true;
      }
    }
  }
}

// Leaves in the set what has to move with `seed`: the smallest part that can, where there are few;
// else first by dims of operands of one shape.
static void shrink(symbols_t *s, int32_t seed, int64_t step, bool *in, bool *part) {
  if (choose_smallest(s, seed, false, step, in, part)) return;
  choose_smallest(s, seed, true, step, in, part);
  if (!choose_smallest(s, seed, false, step, in, part)) thin_out(s, seed, step, in, part);
}

// May the slot's size be a symbol's?
static bool is_free(const symbols_t *s, const slot_t *slot) {
  return slot->value >= 2 && !slot->windowed && !symbols_is_position(s, slot);
}

// The slots that have to move with `seed` if it moves by `step`. False: it cannot.
static bool find_block(symbols_t *s, int32_t seed, int64_t step, bool *in, bool *part) {
  int32_t equal = 0;
  memset(in, 0, sizeof(bool) * (size_t)s->slot_count);
  in[seed] = true;
  if (moves(s, in, step)) return true;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    in[i] = slot->value == s->slots[seed].value && is_free(s, slot) && slot->times == 1;
    equal += in[i];
  }
  if (equal < 2 || !moves(s, in, step)) return false;
  shrink(s, seed, step, in, part);
  return true;
}

static void give_symbol(symbols_t *s, const bool *in, int32_t symbol, int64_t times, int64_t plus) {
  for (int32_t i = 0; i < s->slot_count; ++i) {
    if (!in[i]) continue;
    s->slots[i].times = times;
    s->slots[i].plus = plus;
    s->slots[i].term_count = 1;
    s->slots[i].terms[0] = symbol;
  }
}

// Symbols of what moves in steps of this size.
static void find_blocks(symbols_t *s, int64_t step, bool *in, bool *part) {
  for (int32_t seed = 0; seed < s->slot_count && !s->error; ++seed) {
    const slot_t *slot = &s->slots[seed];
    if (slot->term_count || !is_free(s, slot) || slot->value / step < 2) continue;
    if (!find_block(s, seed, step, in, part)) continue;
    // What it must follow may move alone (the whole that a slice takes all of): one for both.
    for (int32_t i = 0; i < s->slot_count; ++i) {
      for (int32_t k = 0; in[i] && s->slots[i].term_count && k < s->slot_count; ++k) {
        in[k] |= s->slots[k].term_count && s->slots[k].terms[0] == s->slots[i].terms[0];
      }
    }
    if (!moves(s, in, step)) continue;
    give_symbol(s, in, symbols_add(s, slot->value / step), step, slot->value % step);
  }
}

// Literals of that value: only `one`, or all of them.
static void list_equal(const symbols_t *s, int32_t one, bool all, bool *in) {
  for (int32_t i = 0; i < s->slot_count; ++i) {
    const slot_t *slot = &s->slots[i];
    in[i] = i == one ||
            (all && !slot->term_count && is_free(s, slot) && slot->value == s->slots[one].value);
  }
}

// Of what cannot move alone, one may be a multiple of another (grouped heads).
static void find_multiples(symbols_t *s, bool *in, bool *part) {
  for (int32_t p = 0; p < s->slot_count * s->slot_count && !s->error; ++p) {
    int32_t a = p / s->slot_count, b = p % s->slot_count;
    const slot_t *large = &s->slots[a], *small = &s->slots[b];
    if (large->term_count || small->term_count || !is_free(s, large) || !is_free(s, small))
      continue;
    if (large->value <= small->value || large->value % small->value) continue;
    int64_t times = large->value / small->value;
    for (int32_t all = 0; all < 4; ++all) {
      list_equal(s, a, all & 1, in);
      list_equal(s, b, all & 2, part);
      for (int32_t i = 0; i < s->slot_count; ++i) {
        s->values[i] = s->slots[i].value + (in[i] ? times : part[i] ? 1 : 0);
      }
      if (!symbols_accepts(s, s->values)) continue;
      int32_t symbol = symbols_add(s, small->value);
      give_symbol(s, in, symbol, times, 0);
      give_symbol(s, part, symbol, 1, 0);
      break;
    }
  }
}

// ---- what the shape function does not look at --------------------------------------------------

static bool same_outputs(const symbols_t *s) {
  for (int32_t i = s->input_count; i < s->operand_count; ++i) {
    if (!shoal_shape_equal(&s->types[i].shape, &s->tried_types[i].shape)) return false;
  }
  return true;
}

// Joins the symbol of slot `a` to that of `b`.
static void join(symbols_t *s, int32_t a, int32_t b, bool *in) {
  int32_t from = s->slots[a].terms[0], to = s->slots[b].terms[0];
  for (int32_t i = 0; i < s->slot_count; ++i) {
    in[i] =
        s->slots[i].term_count == 1 && (s->slots[i].terms[0] == from || s->slots[i].terms[0] == to);
  }
  if (from == to || !moves(s, in, s->slots[b].times)) return;
  for (int32_t i = 0; i < s->slot_count; ++i) {
    if (in[i]) s->slots[i].terms[0] = to;
  }
}

static void follow_what_is_alike(symbols_t *s, bool *in) {
  for (int32_t a = 0; a < s->slot_count && !s->error; ++a) {
    const slot_t *slot = &s->slots[a];
    if (slot->operand < 0 || slot->term_count != 1 || slot->windowed) continue;
    bool alone = true;
    for (int32_t i = 0; i < s->slot_count; ++i) {
      in[i] = s->slots[i].term_count == 1 && s->slots[i].terms[0] == slot->terms[0];
      alone &= !in[i] || s->slots[i].operand == slot->operand;
    }
    if (!alone || !moves(s, in, slot->times) || !same_outputs(s)) continue;
    for (int32_t b = 0; b < s->slot_count; ++b) {
      const slot_t *other = &s->slots[b];
      if (other->operand < 0 || other->operand == slot->operand || other->dim != slot->dim)
        continue;
      if (other->term_count != 1 || other->times != slot->times || other->windowed) continue;
      if (!shoal_shape_equal(&s->types[slot->operand].shape, &s->types[other->operand].shape))
        continue;
      join(s, a, b, in);
    }
  }
}

void symbols_find_blocks(symbols_t *s, bool *in, bool *part) {
  find_blocks(s, 1, in, part);
  find_multiples(s, in, part);
  for (int64_t step = 2; step <= MAX_STEP && !s->error; ++step) find_blocks(s, step, in, part);
  follow_what_is_alike(s, in);
}
