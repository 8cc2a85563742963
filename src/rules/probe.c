// Probes: the small call that is executed in the place of all calls with the same relations.
//
// Symbols become small sizes without common divisors, in the order in which the call has them, so
// that calls which differ in sizes only have the same probe, whatever sizes happen to be equal. Its
// text is the key of its rule. Where the op refuses that order (one size must be smaller than
// another) the real order is taken, then one symbol after the other. What windows slide over stays
// larger than every kernel, stride and padding; where the call itself is not, its sizes are kept.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "op/attrs.h"
#include "op/text.h"
#include "rules/symbols.h"

enum { LEAST = 4 };  // items enough for three parts, units of two and any order

// Small sizes without common divisors.
static const int64_t SIZES[] = {4,  5,  7,  9,  11, 13, 17, 19, 23, 29, 31, 37,
                                41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89};
enum { SIZE_COUNT = sizeof SIZES / sizeof *SIZES };

// Does a literal, or another symbol up to `count` in `order`, have this size already?
static bool is_used(const symbols_t *s, const int64_t *sizes, const int32_t *order, int32_t count,
                    int64_t size) {
  for (int32_t i = 0; i < count; ++i) {
    if (sizes[order[i]] == size) return true;
  }
  for (int32_t i = 0; i < s->slot_count; ++i) {
    if (s->slots[i].term_count == 0 && s->slots[i].value == size) return true;
  }
  return false;
}

// The outputs keep their relations to what slides, and are trivial where they were.
static bool is_alike(const symbols_t *s, const int64_t *sizes) {
  for (int32_t i = 0; i < s->slid_output_count; ++i) {
    const slid_output_t *o = &s->slid_outputs[i];
    int64_t size = s->tried_types[o->operand].shape.dims[o->dim];
    if (size != o->times * sizes[o->symbol] + o->plus) return false;
  }
  for (int32_t i = s->input_count; i < s->operand_count; ++i) {
    for (int32_t d = 0; d < s->types[i].shape.rank; ++d) {
      int64_t real = s->types[i].shape.dims[d], small = s->tried_types[i].shape.dims[d];
      if ((real < 2 || small < 2) && real != small) return false;
    }
  }
  return true;
}

static bool fits(symbols_t *s, const int64_t *sizes) {
  return symbols_accepts(s, symbols_values(s, sizes)) && is_alike(s, sizes);
}

// than: sizes that what slides has to exceed; NULL: none.
static int64_t least_of(const symbols_t *s, int32_t symbol, const int64_t *than) {
  if (!s->symbols[symbol].slid) return LEAST;
  int64_t least = s->symbols[symbol].least > LEAST ? s->symbols[symbol].least : LEAST;
  if (!than) return least;
  // Where windows are known to move, `least` is measured by what moves; else results may be few.
  least = least * 3 / 2 + (s->op->window ? 1 : 3);
  return than[symbol] < least ? least : than[symbol] + 1;
}

// Those that kernels need not fit into first: they get the smallest sizes.
static void order_symbols(const symbols_t *s, bool by_size, int32_t *order) {
  int32_t count = 0;
  for (int32_t slid = 0; slid < 2; ++slid) {
    int32_t first = count;
    for (int32_t i = 0; i < s->symbol_count; ++i) {
      if (s->symbols[i].slid != slid) continue;
      int32_t at = count++;
      for (; by_size && at > first && s->symbols[order[at - 1]].real > s->symbols[i].real; --at)
        order[at] = order[at - 1];
      order[at] = i;
    }
  }
}

// All at once; what slides is tried until its relations hold.
static bool choose_together(symbols_t *s, const int32_t *order, const int64_t *than,
                            int64_t *sizes) {
  for (int32_t i = 0; i < s->symbol_count; ++i) sizes[i] = s->symbols[i].real;
  for (int32_t i = 0; i < s->symbol_count; ++i) {
    int32_t symbol = order[i], k = 0;
    int64_t least = least_of(s, symbol, than);
    for (; k < SIZE_COUNT; ++k) {
      if (SIZES[k] < least || is_used(s, sizes, order, i, SIZES[k])) continue;
      sizes[symbol] = SIZES[k];
      if (!s->symbols[symbol].slid || fits(s, sizes)) break;
    }
    if (k == SIZE_COUNT) return false;
  }
  return fits(s, sizes);
}

// One after the other; what cannot be small while the others are as they are keeps its size.
static bool choose_apart(symbols_t *s, const int32_t *order, const int64_t *than, int64_t *sizes) {
  for (int32_t i = 0; i < s->symbol_count; ++i) sizes[i] = s->symbols[i].real;
  for (int32_t i = 0; i < s->symbol_count; ++i) {
    int32_t symbol = order[i];
    int64_t real = s->symbols[symbol].real;
    bool found = false;
    for (int32_t k = 0; k < SIZE_COUNT && !found; ++k) {
      if (SIZES[k] < least_of(s, symbol, than) || SIZES[k] >= real) continue;
      if (is_used(s, sizes, order, i, SIZES[k])) continue;
      sizes[symbol] = SIZES[k];
      found = fits(s, sizes);
    }
    if (!found) sizes[symbol] = real;
  }
  return fits(s, sizes);
}

static bool choose(symbols_t *s, const int64_t *than, int32_t *order, int64_t *sizes) {
  for (int32_t by_size = 0; by_size < 2; ++by_size) {
    order_symbols(s, by_size, order);
    if (choose_together(s, order, than, sizes)) return true;
  }
  return choose_apart(s, order, than, sizes);
}

// Where the call is not larger than what would stand for it, it stands for itself.
static bool drop_what_is_small(symbols_t *s, const int64_t *sizes) {
  bool any = false;
  for (int32_t i = 0; i < s->symbol_count; ++i) {
    if (!s->symbols[i].slid || sizes[i] < s->symbols[i].real) continue;
    symbols_drop(s, i);
    any = true;
  }
  if (any) symbols_number(s);
  return any;
}

shoal_status_t probe_make(symbols_t *s, bool larger, shoal_arena_t *arena, probe_t *out) {
  *out = (probe_t){0};
  int64_t *small = SHOAL_NEW(arena, int64_t, s->symbol_count);
  int64_t *large = SHOAL_NEW(arena, int64_t, s->symbol_count), *sizes = small;
  int32_t *order = SHOAL_NEW(arena, int32_t, s->symbol_count);
  if (!small || !large || !order) return SHOAL_OOM();
  if (!s->regroup.count) {
    do {
      sizes = small;
      out->found = choose(s, NULL, order, small);
      if (!out->found || !s->slides) break;
      sizes = large;
      out->found = choose(s, small, order, large);
    } while (out->found && drop_what_is_small(s, large));
    // The last that is tried is the one that is wanted.
    if (!larger && out->found && s->slides) out->found = choose(s, NULL, order, sizes = small);
    if (s->error || !out->found) return s->error;
  }
  // A regroup's trial, or that of the sizes chosen, was the last.
  out->found = true;
  out->types =
      shoal_arena_copy(arena, s->tried_types, (size_t)s->operand_count, sizeof *out->types);
  const shoal_attr_value_t *attrs = shoal_attrs_copy(s->op, s->tried_attrs, arena);
  if (!out->types || !attrs) return SHOAL_OOM();
  out->sizes = sizes;
  out->call = (shoal_call_t){.op = s->op,
                             .input_count = s->input_count,
                             .output_count = s->operand_count - s->input_count,
                             .inputs = out->types,
                             .outputs = out->types + s->input_count,
                             .attrs = attrs};
  return NULL;
}

shoal_status_t probe_key(const shoal_call_t *call, shoal_arena_t *arena, const char **out_key) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_text_add(&text, call->op->name);
  for (int32_t i = 0; i < call->input_count; ++i) {
    shoal_text_add(&text, i ? ", " : " ");
    shoal_text_add_type(&text, &call->inputs[i]);
  }
  shoal_status_t status = shoal_text_add_attrs(&text, call->op, call->attrs);
  return shoal_text_close(&text, status, arena, out_key);
}
