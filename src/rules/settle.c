// Discovery: a candidate says how the inputs are cut; executing it says what becomes of the
// outputs.
//
// A candidate is executed on five deals: two parts, three parts, two uneven parts of two-item
// units, three of which two are empty, and parts of single items, so that every boundary (or those
// near the ends and in the middle) is tried. Every hypothesis about an output (cut along a dim,
// whole, sum, max, min, product, merged by log-sum-exp with its partner) must hold on all of them:
// on the first for all sets of values, on the second for two, on the others for one. Of several
// that do, the first in this order is taken. That is at most 31 executions; candidates that fail
// mostly fail before the first (shapes) or behind it.
#include "base/dtype.h"
#include "base/status.h"
#include "rules/search.h"

static const int64_t UNEVEN[] = {1, 3}, EMPTY[] = {0, 1, 0};
static const deal_t DEALS[] = {
    {.parts = 2, .unit = 1, .id = 1},
    {.parts = 3, .unit = 1, .id = 2},
    {.parts = 2, .unit = 2, .weights = UNEVEN, .id = 3},
    {.parts = 3, .unit = 1, .weights = EMPTY, .id = 4},
};
// Sets of values on each.
static const int32_t DEAL_SETS[] = {TRIAL_SETS, 2, 1, 1};
static const deal_t CARDS = {.parts = 2, .unit = 1, .alternate = true, .id = 5};
enum { FINE = 6 };  // and more: the number of items is added
enum { DEAL_COUNT = sizeof DEALS / sizeof *DEALS, FINE_PARTS = 5 };

// ---- candidates --------------------------------------------------------------------------------

bool search_candidate(search_t *s, shoal_arena_t *arena, candidate_t *out) {
  *out = (candidate_t){.operands = SHOAL_NEW(arena, shoal_way_operand_t, s->operand_count),
                       .decided = SHOAL_NEW(arena, bool, s->trial->output_count)};
  if (out->operands && out->decided) return true;
  if (!s->trial->error) s->trial->error = SHOAL_OOM();
  return false;
}

int32_t search_forms(int32_t dim, int64_t length, int64_t items, search_shapes_t shapes,
                     int32_t count, shoal_way_operand_t forms[SEARCH_MAX_FORMS]) {
  if (items < 2 || length < items || length % items) return 0;
  int64_t each = length / items;
  int32_t added = 0;
  for (int32_t pass = 0; pass < 3; ++pass) {  // scaled, repeated, both
    for (int64_t repeat = 1; repeat <= each; ++repeat) {
      if (each % repeat) continue;
      int32_t kind = repeat == 1 ? 0 : repeat == each ? 1 : 2;
      if (kind != pass || kind > (int32_t)shapes || count + added == SEARCH_MAX_FORMS) continue;
      forms[count + added++] = search_cut(dim, each / repeat, repeat);
    }
  }
  return added;
}

static shoal_way_t way_of(const search_t *s, const candidate_t *candidate) {
  return (shoal_way_t){.input_count = s->trial->input_count,
                       .output_count = s->trial->output_count,
                       .operands = candidate->operands,
                       .items = candidate->items,
                       .any_order = candidate->any_order};
}

// ---- outputs -----------------------------------------------------------------------------------

typedef struct forms {
  int32_t count;
  shoal_way_operand_t items[SEARCH_MAX_FORMS];
} forms_t;

bool search_init(search_t *s) {
  shoal_arena_init(s->trial->allocator, &s->scratch);
  s->forms = SHOAL_NEW(&s->trial->arena, forms_t, s->trial->output_count);
  return s->forms;
}

void search_deinit(search_t *s) {
  shoal_arena_deinit(&s->scratch);
}

static void add_joined(forms_t *forms, bool only_sum) {
  static const shoal_reduce_t reduces[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                           SHOAL_REDUCE_PROD};
  forms->items[forms->count++] = (shoal_way_operand_t){.kind = SHOAL_OPERAND_WHOLE};
  for (int32_t i = 0; i < (only_sum ? 1 : 4); ++i) {
    forms->items[forms->count++] =
        (shoal_way_operand_t){.kind = SHOAL_OPERAND_PARTIAL, .reduce = reduces[i]};
  }
}

// What an output may turn out to be.
static void output_forms(const search_t *s, const candidate_t *c, int32_t output, bool only_sum,
                         forms_t *out) {
  int32_t operand = s->trial->input_count + output;
  const shoal_way_operand_t *given = &c->operands[operand];
  out->count = 0;
  if (c->decided[output] && given->kind != SHOAL_OPERAND_WHOLE) {
    out->items[out->count++] = *given;
    return;
  }
  if (!s->has_role[operand] && c->items) {
    const shoal_shape_t *shape = search_shape(s, operand);
    for (int32_t pass = 0; pass < 2; ++pass) {  // dims of just the items first
      for (int32_t d = 0; d < shape->rank; ++d) {
        if ((shape->dims[d] == c->items) != (pass == 0) || out->count > SEARCH_MAX_FORMS - 16)
          continue;
        out->count +=
            search_forms(d, shape->dims[d], c->items, SEARCH_BOTH, out->count, out->items);
      }
    }
    if (out->count > SEARCH_MAX_FORMS - 6) out->count = SEARCH_MAX_FORMS - 6;
  }
  add_joined(out, only_sum);
  if (!only_sum && c->items && trial_partner(s->trial, output) >= 0)
    out->items[out->count++] =
        (shoal_way_operand_t){.kind = SHOAL_OPERAND_PARTIAL, .reduce = SHOAL_REDUCE_LSE};
}

// How many are dealt; 0: nothing is, inputs are unreduced.
static int64_t dealt(const search_t *s, const candidate_t *c) {
  for (int32_t i = 0; i < s->operand_count; ++i) {
    if (c->operands[i].kind == SHOAL_OPERAND_FLAT) return shoal_shape_count(search_shape(s, i));
  }
  return c->items;
}

// Drops the hypotheses about output `output` that part `index` contradicts; all parts if it is -1.
// False: none is left.
static bool drop_wrong(search_t *s, const shoal_way_t *way, int32_t output, const deal_t *deal,
                       int64_t index, const trial_part_t *parts) {
  forms_t *forms = &s->forms[output];
  int32_t kept = 0;
  for (int32_t i = 0; i < forms->count; ++i) {
    const shoal_way_operand_t form = forms->items[i];
    bool holds = index < 0
                     ? trial_parts_join(s->trial, way, output, &form, deal, parts, &s->scratch)
                     : trial_part_holds(s->trial, way, output, &form, deal, index, &parts[index],
                                        &s->scratch);
    if (holds) forms->items[kept++] = form;
  }
  forms->count = kept;
  return kept > 0;
}

// Drops the hypotheses that do not hold on this deal, for `sets` sets of values. False: the
// candidate cannot be executed, or an output has none left.
static bool filter(search_t *s, const candidate_t *c, const deal_t *deal, int32_t sets) {
  trial_t *trial = s->trial;
  const shoal_way_t way = way_of(s, c);
  const bool silent = shoal_status_silence(true);
  shoal_arena_clear(&s->scratch);
  trial_part_t *parts = SHOAL_NEW(&s->scratch, trial_part_t, deal->parts);
  bool good = trial_allocated(trial, parts);
  for (trial->set = 0; good && trial->set < sets; ++trial->set) {
    for (int64_t p = 0; good && p < deal->parts; ++p) {
      good = (trial->set > 0 || trial_prepare(trial, &way, deal, p, &s->scratch, &parts[p])) &&
             trial_execute(trial, &way, deal, p, &parts[p]);
      for (int32_t o = 0; good && o < trial->output_count; ++o) {
        good = drop_wrong(s, &way, o, deal, p, parts);
      }
    }
    for (int32_t o = 0; good && o < trial->output_count; ++o) {
      good = drop_wrong(s, &way, o, deal, -1, parts);
    }
  }
  trial->set = 0;
  shoal_status_silence(silent);
  return good;
}

// Inputs that are sums not yet made: the fewer elements there are, the more often they are split,
// because a rounding that is not linear looks so three times in four.
static bool holds_on_splits(search_t *s, const candidate_t *c) {
  int64_t most = 1;
  for (int32_t i = s->trial->input_count; i < s->operand_count; ++i) {
    const int64_t count = shoal_shape_count(search_shape(s, i));
    if (count > most) most = count;
  }
  for (int64_t salt = 1; salt <= 64 / most; ++salt) {
    if (!filter(s, c, &(deal_t){.parts = 2, .unit = 1, .id = 1, .salt = salt}, 1)) return false;
  }
  return true;
}

// Single items, or three of them between large parts.
static bool holds_item_by_item(search_t *s, const candidate_t *c, int64_t items) {
  const int64_t weights[FINE_PARTS] = {1, (items - 3) / 2, 1, items - 3 - (items - 3) / 2, 1};
  bool few = items <= TRIAL_MAX_PARTS;
  const deal_t fine = {.parts = few ? items : FINE_PARTS,
                       .unit = 1,
                       .weights = few ? NULL : weights,
                       .id = FINE + items};
  return filter(s, c, &fine, 1);
}

typedef enum thoroughness { ROUGHLY, QUICKLY, FULLY } thoroughness_t;

static bool holds_on_deals(search_t *s, const candidate_t *c, thoroughness_t how) {
  int64_t items = dealt(s, c);
  if (how == ROUGHLY) return filter(s, c, &DEALS[0], 1);
  for (int32_t i = 0; how == FULLY && i < DEAL_COUNT; ++i) {
    if (items == 0 && DEALS[i].weights) continue;
    if (DEALS[i].unit > 1 && items < 3) continue;
    const int32_t sets = s->trial->set_count, most = items == 0 && i > 0 ? 1 : DEAL_SETS[i];
    if (!filter(s, c, &DEALS[i], sets < most ? sets : most)) return false;
  }
  return items == 0 ? holds_on_splits(s, c) : holds_item_by_item(s, c, items);
}

// The outputs are what the candidate says and nothing else.
static void give_outputs(search_t *s, const candidate_t *c) {
  for (int32_t o = 0; o < s->trial->output_count; ++o) {
    s->forms[o].count = 1;
    s->forms[o].items[0] = c->operands[s->trial->input_count + o];
  }
}

// Does it hold when the items are dealt like cards?
static bool holds_in_any_order(search_t *s, const candidate_t *c) {
  if (c->items < 2) return false;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    const shoal_way_operand_t *o = &c->operands[i];
    if (o->before || o->after || o->dealt_by_items) return false;
  }
  give_outputs(s, c);
  return filter(s, c, &CARDS, 1);
}

static bool is_lse(const shoal_way_operand_t *form) {
  return form->kind == SHOAL_OPERAND_PARTIAL && form->reduce == SHOAL_REDUCE_LSE;
}

// A value and its logarithms are merged together or not at all: if one of them cannot be joined
// otherwise, both are. It is the last hypothesis of both.
static bool agree_on_merging(const search_t *s, forms_t *forms) {
  if (trial_partner(s->trial, 0) < 0) return true;
  if (!is_lse(&forms[0].items[0]) && !is_lse(&forms[1].items[0])) return true;
  for (int32_t o = 0; o < 2; ++o) forms[o].items[0] = forms[o].items[forms[o].count - 1];
  return is_lse(&forms[0].items[0]) && is_lse(&forms[1].items[0]);
}

static bool settle(search_t *s, candidate_t *c, thoroughness_t how) {
  trial_t *trial = s->trial;
  bool good = false, only_sum = false;
  for (int32_t i = 0; i < trial->input_count; ++i) {
    only_sum |= c->operands[i].kind == SHOAL_OPERAND_PARTIAL;
  }
  for (int32_t o = 0; o < trial->output_count; ++o) output_forms(s, c, o, only_sum, &s->forms[o]);
  if (!holds_on_deals(s, c, how) || !agree_on_merging(s, s->forms)) return false;
  for (int32_t o = 0; o < trial->output_count; ++o) {
    c->operands[trial->input_count + o] = s->forms[o].items[0];
    good |= s->forms[o].items[0].kind != SHOAL_OPERAND_WHOLE;
  }
  if (good && how == FULLY) c->any_order = holds_in_any_order(s, c);
  return good && !trial->error;
}

bool search_settle(search_t *s, candidate_t *c) {
  return settle(s, c, FULLY);
}

bool search_settle_roughly(search_t *s, candidate_t *c) {
  return settle(s, c, ROUGHLY);
}

bool search_settle_quickly(search_t *s, candidate_t *c) {
  return settle(s, c, QUICKLY);
}

bool search_holds_on(search_t *s, const candidate_t *c, const deal_t *deal) {
  give_outputs(s, c);
  const bool dealt_out = dealt(s, c) > 0;
  // Sums of many parts lose digits that narrow types do not have.
  const deal_t even = {.parts = deal->parts < 3 ? 2 : 3, .unit = 1, .salt = deal->salt};
  return filter(s, c, dealt_out ? deal : &even, s->trial->set_count < 2 ? 1 : 2);
}

bool search_holds(search_t *s, candidate_t *c, int64_t most) {
  enum { MOST_BYTES = 1 << 25 };  // of the parts' outputs, which are kept until all are made
  const trial_t *trial = s->trial;
  const int64_t items = dealt(s, c);
  int64_t bytes = 1;
  for (int32_t o = 0; o < trial->output_count; ++o) {
    s->forms[o].count = 1;
    s->forms[o].items[0] = c->operands[trial->input_count + o];
    bytes += (int64_t)shoal_tensor_bytes(trial_whole(trial, trial->input_count + o));
  }
  for (int32_t i = 0; i < DEAL_COUNT; ++i) {
    if (items == 0 && DEALS[i].weights) continue;
    const int32_t sets = i == 0 || trial->set_count < 2 ? trial->set_count : 2;
    if (!filter(s, c, &DEALS[i], sets)) return false;
  }
  if (items == 0) return true;
  const int64_t room = MOST_BYTES / bytes + 1, limit = most < room ? most : room;
  const deal_t fine = {.parts = items < limit ? items : limit, .unit = 1};
  if (!filter(s, c, &fine, 1)) return false;
  if (c->any_order) c->any_order = holds_in_any_order(s, c);
  return true;
}

bool search_holds_again(search_t *s, candidate_t *c) {
  const int64_t items = dealt(s, c);
  give_outputs(s, c);
  for (int32_t i = 0; i < 3; ++i) {
    const int32_t sets = i == 0 && s->trial->set_count > 1 ? 2 : 1;
    if (DEALS[i].unit > 1 && items < 3) continue;
    if (!filter(s, c, &DEALS[i], sets)) return false;
  }
  if (items > 0 && !holds_item_by_item(s, c, items)) return false;
  if (c->any_order) c->any_order = holds_in_any_order(s, c);
  return true;
}

// Hypotheses for the outputs from `output` on that have roles and are not decided; then all is
// settled.
static bool try_outputs(search_t *s, candidate_t *c, int32_t output) {
  trial_t *trial = s->trial;
  while (output < trial->output_count &&
         (c->decided[output] || !s->has_role[trial->input_count + output])) {
    ++output;
  }
  if (output == trial->output_count) return search_settle(s, c);
  int32_t operand = trial->input_count + output, count = 0;
  const shoal_shape_t *shape = search_shape(s, operand);
  shoal_way_operand_t forms[SEARCH_MAX_FORMS];
  for (int32_t d = 0; c->items && d < shape->rank; ++d) {
    if (!s->has_sizes && shape->dims[d] != c->items) continue;
    count += search_forms(d, shape->dims[d], c->items, s->shapes, count, forms);
  }
  c->decided[output] = true;
  bool found = false;
  for (int32_t i = 0; !found && i <= count; ++i) {
    c->operands[operand] =
        i < count ? forms[i] : (shoal_way_operand_t){.kind = SHOAL_OPERAND_WHOLE};
    found = try_outputs(s, c, output + 1);
  }
  c->decided[output] = false;
  return found;
}

bool search_try(search_t *s, candidate_t *c) {
  if (s->trial->error || !try_outputs(s, c, 0)) return false;
  search_keep(s, c);
  return true;
}

// ---- ways found so far -------------------------------------------------------------------------

bool search_same_operand(const shoal_way_operand_t *a, const shoal_way_operand_t *b) {
  return a->kind == b->kind && a->reduce == b->reduce && a->dim == b->dim && a->scale == b->scale &&
         a->repeat == b->repeat && a->offset == b->offset && a->length == b->length &&
         a->before == b->before && a->after == b->after && a->dealt_by_items == b->dealt_by_items;
}

// Is `b` way `a`, perhaps with an input left whole that `a` cuts? Who has all of it can take the
// part for nothing. (Coarser items are not even tried, see discover.c.)
static bool covers(const shoal_way_t *a, const shoal_way_t *b) {
  if (a->items != b->items) return false;
  for (int32_t i = 0; i < a->input_count + a->output_count; ++i) {
    const shoal_way_operand_t *x = &a->operands[i], *y = &b->operands[i];
    bool left_whole =
        i < a->input_count && x->kind == SHOAL_OPERAND_CUT && y->kind == SHOAL_OPERAND_WHOLE;
    if (!left_whole && !search_same_operand(x, y)) return false;
  }
  return true;
}

bool search_same_way(const shoal_way_t *a, const shoal_way_t *b) {
  if (a->items != b->items || a->any_order != b->any_order) return false;
  for (int32_t i = 0; i < a->input_count + a->output_count; ++i) {
    if (!search_same_operand(&a->operands[i], &b->operands[i])) return false;
  }
  return true;
}

void search_keep(search_t *s, candidate_t *c) {
  shoal_way_t way = way_of(s, c);
  for (int64_t i = 0; i < s->ways.count; ++i) {
    if (covers(&s->ways.items[i], &way)) return;
  }
  way.operands =
      shoal_arena_copy(s->arena, c->operands, (size_t)s->operand_count, sizeof *c->operands);
  if ((!way.operands || !SHOAL_PUSH(s->arena, &s->ways, way)) && !s->trial->error) {
    s->trial->error = SHOAL_OOM();
  }
}

void search_drop(search_t *s, int64_t index) {
  for (int64_t i = index + 1; i < s->ways.count; ++i) s->ways.items[i - 1] = s->ways.items[i];
  --s->ways.count;
}

bool search_found(const search_t *s, int32_t operand, int32_t dim) {
  for (int64_t i = 0; i < s->ways.count; ++i) {
    const shoal_way_operand_t *o = &s->ways.items[i].operands[operand];
    if (o->kind == SHOAL_OPERAND_CUT && o->dim == dim) return true;
  }
  return false;
}
