// Discovery: seeds. Rules are found by executing a call cut and whole (ShardCombine; EasyDist's
// search, made to see uneven parts, merged dims, windows, halos, flat ranges and unreduced inputs).
//
// A way is sought per *seed*: the first input that is cut, and its dim. For a seed the inputs
// behind it are tried whole or cut along dims that could follow: those as long as the seed's; where
// sizes are attributes (reshape) also those that are a multiple or a part of it; where positions
// are attributes, or inputs are variadic, windows. First all inputs at once that have a dim like
// the seed's at the same distance from their end, then as few cuts as possible; the first that
// holds is taken. Further seeds: outputs alone (random numbers, rows of a gradient), everything
// flat, inputs that are sums not yet made.
//
// Bounds: at most TRIES assignments of the other inputs per seed form, each executed on at most 20
// parts (settle.c), nearly all refused by shape before the first; trial_t.limit bounds the parts
// per call.
#include "base/number.h"
#include "base/status.h"
#include "op/families/family.h"
#include "op/operands.h"
#include "rules/search.h"

enum { TRIES = 300 };

// ---- the other inputs --------------------------------------------------------------------------

typedef struct choices {
  int32_t count, natural;  // forms[0] is whole; `natural` is tried first,
  int32_t same;            // then the one along the dim of the seed's number
  shoal_way_operand_t forms[SEARCH_MAX_FORMS];
} choices_t;

typedef struct assignment {
  search_t *s;
  candidate_t *candidate;
  choices_t *choices;  // by input
  int32_t tries;
} assignment_t;

// What input `input` can be when the seed's dim is dim `seed_dim` of input `seed`. Where other dims
// may be multiples, those in its place are, and those of its own length.
static void list_choices(const search_t *s, int32_t input, int32_t seed, int32_t seed_dim,
                         int64_t items, bool related, choices_t *out) {
  const shoal_shape_t *seeded = search_shape(s, seed);
  const int32_t from_end = seeded->rank - seed_dim;
  const shoal_shape_t *shape = search_shape(s, input);
  out->count = 1;
  out->natural = out->same = 0;
  out->forms[0] = (shoal_way_operand_t){0};
  for (int32_t d = 0; d < shape->rank; ++d) {
    bool aligned = shape->rank - d == from_end;
    const bool follows = aligned || d == seed_dim || shape->dims[d] == seeded->dims[seed_dim];
    if (shape->dims[d] != items && !s->has_sizes && !(related && follows)) continue;
    if (shape->dims[d] != items && !related) continue;
    int32_t added = search_forms(d, shape->dims[d], items, s->shapes, out->count, out->forms);
    if (added && aligned) out->natural = out->count;
    if (added && d == seed_dim) out->same = out->count;
    out->count += added;
  }
}

static bool try_assignment(assignment_t *a) {
  if (a->tries++ >= TRIES) return false;
  return search_try(a->s, a->candidate);
}

// Assignments of the inputs from `input` on with exactly `cuts` of them cut.
static bool assign(assignment_t *a, int32_t input, int32_t cuts) {
  if (input == a->s->trial->input_count) return cuts == 0 && try_assignment(a);
  if (cuts > a->s->trial->input_count - input || a->tries >= TRIES) return false;
  shoal_way_operand_t *operand = &a->candidate->operands[input];
  for (int32_t i = 0; i < a->choices[input].count; ++i) {
    if (i > 0 && cuts == 0) break;
    *operand = a->choices[input].forms[i];
    if (assign(a, input + 1, cuts - (i > 0))) return true;
  }
  *operand = (shoal_way_operand_t){0};
  return false;
}

// All inputs behind `input` at once that have a dim like the seed's at the same distance from their
// end, and then at the same distance from their start (operands of fewer dims).
static bool try_alike(assignment_t *a, int32_t input) {
  const int32_t count = a->s->trial->input_count;
  for (int by_start = 0; by_start < 2; ++by_start) {
    int32_t cuts = 0, others = 0;
    for (int32_t i = input + 1; i < count; ++i) {
      const choices_t *choices = &a->choices[i];
      const int32_t chosen = by_start ? choices->same : choices->natural;
      a->candidate->operands[i] = choices->forms[chosen];
      cuts += chosen > 0;
      others += choices->same != choices->natural;
    }
    if (cuts && (!by_start || others) && try_assignment(a)) return true;
  }
  return false;
}

// A way that cuts `input` (first of all inputs) as `form` says. related: other dims may be
// multiples. alike: all inputs that can be cut are, or there is none.
static bool seed_input(search_t *s, int32_t input, const shoal_way_operand_t *form, int64_t items,
                       bool related, bool alike) {
  shoal_arena_t scratch;
  shoal_arena_init(s->trial->allocator, &scratch);
  candidate_t candidate;
  bool found = false;
  int32_t count = s->trial->input_count;
  choices_t *choices = SHOAL_NEW(&scratch, choices_t, count);
  if (!choices || !search_candidate(s, &scratch, &candidate)) {
    if (!s->trial->error) s->trial->error = SHOAL_OOM();
    goto done;
  }
  assignment_t a = {.s = s, .candidate = &candidate, .choices = choices};
  candidate.operands[input] = *form;
  candidate.items = items;
  for (int32_t i = input + 1; i < count; ++i) {
    list_choices(s, i, input, form->dim, items, related, &choices[i]);
  }
  found = try_alike(&a, input);
  for (int32_t cuts = 0; !found && !alike && !s->trial->error && cuts < count - input; ++cuts) {
    found = assign(&a, input + 1, cuts);
  }
done:
  shoal_arena_deinit(&scratch);
  return found;
}

// ---- merged and split dims ---------------------------------------------------------------------

// Adds to a list of item spaces, largest first.
static int32_t add_items(int64_t items, int32_t count, int64_t list[SEARCH_MAX_FORMS]) {
  int32_t at = 0;
  while (at < count && list[at] > items) ++at;
  if (items < 2 || (at < count && list[at] == items) || count == SEARCH_MAX_FORMS) return count;
  for (int32_t k = count; k > at; --k) list[k] = list[k - 1];
  list[at] = items;
  return count + 1;
}

// Item spaces that the dim may share with another operand's: where sizes are attributes their
// common divisors, else the shorter of two dims in the same place if it divides the longer (grouped
// heads).
static int32_t shared_items(const search_t *s, int32_t input, int32_t dim,
                            int64_t out[SEARCH_MAX_FORMS]) {
  const shoal_shape_t *shape = search_shape(s, input);
  int32_t count = 0;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    const shoal_shape_t *other = search_shape(s, i);
    for (int32_t d = 0; i != input && d < other->rank; ++d) {
      bool placed = d == dim || other->rank - d == shape->rank - dim;
      int64_t common = shoal_gcd(shape->dims[dim], other->dims[d]);
      bool divides = common == shape->dims[dim] || common == other->dims[d];
      if (!s->has_sizes && placed && divides) count = add_items(common, count, out);
      for (int64_t divisor = common; s->has_sizes && divisor > 1; --divisor) {
        if (common % divisor == 0) count = add_items(divisor, count, out);
      }
    }
  }
  return count;
}

// Would a way that cuts the input like this only be a coarser one than a way found before?
static bool is_coarser(const search_t *s, int32_t input, const shoal_way_operand_t *form,
                       int64_t items) {
  for (int64_t i = 0; i < s->ways.count; ++i) {
    const shoal_way_t *way = &s->ways.items[i];
    const shoal_way_operand_t *o = &way->operands[input];
    if (o->kind != SHOAL_OPERAND_CUT || o->dim != form->dim || o->length || o->dealt_by_items)
      continue;
    if (form->scale % o->scale || form->repeat % o->repeat) continue;
    int64_t turns = form->repeat / o->repeat;
    if (way->items == items * (form->scale / o->scale) * turns && (turns == 1 || way->any_order)) {
      return true;
    }
  }
  return false;
}

// Where sizes are attributes a dim may have several ways (a split dim: its outer and its inner
// part).
static bool seed_related(search_t *s, int32_t input, int32_t dim) {
  int64_t items[SEARCH_MAX_FORMS], length = search_shape(s, input)->dims[dim];
  int64_t before = s->ways.count;
  int32_t count = shared_items(s, input, dim, items);
  bool found = false;
  for (int32_t i = 0; i < count; ++i) {
    shoal_way_operand_t forms[SEARCH_MAX_FORMS];
    int32_t form_count = search_forms(dim, length, items[i], s->shapes, 0, forms);
    for (int32_t k = 0; k < form_count && !s->trial->error; ++k) {
      if (is_coarser(s, input, &forms[k], items[i])) continue;
      found |= seed_input(s, input, &forms[k], items[i], true, false);
      if (found && !s->has_sizes) return true;
    }
  }
  // The outer part of a dim first.
  for (int64_t i = before + 1; i < s->ways.count; ++i) {
    shoal_way_t way = s->ways.items[i];
    int64_t at = i;
    for (; at > before; --at) {
      if (s->ways.items[at - 1].operands[input].repeat <= way.operands[input].repeat) break;
      s->ways.items[at] = s->ways.items[at - 1];
    }
    s->ways.items[at] = way;
  }
  return found;
}

// ---- windows -----------------------------------------------------------------------------------

// All variadic inputs one behind the other along `dim`.
static bool seed_row(search_t *s, int32_t input, int32_t dim) {
  trial_t *trial = s->trial;
  if (!trial->op->variadic || input != trial->op->input_count - 1) return false;
  if (trial->input_count - input < 2) return false;
  candidate_t c;
  if (!search_candidate(s, &trial->arena, &c)) return false;
  for (int32_t i = input; i < trial->input_count; ++i) {
    const shoal_shape_t *shape = search_shape(s, i);
    if (dim >= shape->rank) return false;
    if (shape->dims[dim] == 0) continue;
    c.operands[i] = search_cut(dim, 1, 1);
    c.operands[i].offset = c.items;
    c.operands[i].length = shape->dims[dim];
    c.items += shape->dims[dim];
  }
  return search_try(s, &c);
}

// The position along `dim` that an attribute gives, or -1.
static int64_t position(const trial_t *trial, int32_t attr, int32_t dim) {
  const shoal_attr_schema_t *schema = &trial->op->attrs[attr];
  const shoal_attr_value_t *value = &trial->attrs[attr];
  if (schema->role != SHOAL_ROLE_POSITION) return -1;
  if (schema->kind == SHOAL_ATTR_INTS) return dim < value->count ? value->ints[dim] : -1;
  int32_t operand = shoal_attr_operand(trial->op, trial->attrs, trial->input_count, attr);
  if (operand < 0) return -1;
  int32_t own = schema->dim < 0 ? schema->dim + trial->types[operand].shape.rank : schema->dim;
  return own == dim ? value->i : -1;
}

// The input is a window of an output along `dim`, or an output of the input.
static bool seed_window(search_t *s, int32_t input, int32_t dim) {
  trial_t *trial = s->trial;
  int64_t length = search_shape(s, input)->dims[dim];
  for (int32_t a = 0; a < trial->op->attr_count; ++a) {
    int64_t at = position(trial, a, dim);
    for (int32_t o = 0; at >= 0 && o < trial->output_count; ++o) {
      const shoal_shape_t *shape = search_shape(s, trial->input_count + o);
      if (dim >= shape->rank || shape->dims[dim] == length || shape->dims[dim] == 0) continue;
      int64_t other = shape->dims[dim], inner = length < other ? length : other;
      candidate_t c;
      if (!search_candidate(s, &trial->arena, &c)) return false;
      c.items = length + other - inner;
      if (at + inner > c.items) continue;
      c.operands[input] = c.operands[trial->input_count + o] = search_cut(dim, 1, 1);
      c.decided[o] = true;
      shoal_way_operand_t *window = &c.operands[length == inner ? input : trial->input_count + o];
      window->offset = at;
      window->length = inner;
      if (search_try(s, &c)) return true;
    }
  }
  return false;
}

// The outputs are windows of the input, which begin at the positions that an attribute lists.
static bool seed_split(search_t *s, int32_t input, int32_t dim) {
  const trial_t *trial = s->trial;
  const shoal_shape_t *shape = search_shape(s, input);
  for (int32_t a = 0; a < trial->op->attr_count; ++a) {
    const shoal_attr_schema_t *schema = &trial->op->attrs[a];
    const shoal_attr_value_t *starts = &trial->attrs[a];
    if (schema->role != SHOAL_ROLE_POSITIONS || starts->count < trial->output_count) continue;
    if (shoal_attr_operand(trial->op, trial->attrs, trial->input_count, a) != input) continue;
    if (shoal_normal_axis(trial->attrs[schema->dim].i, shape->rank) != dim) continue;
    candidate_t c;
    if (!search_candidate(s, &s->trial->arena, &c)) return false;
    c.items = shape->dims[dim];
    c.operands[input] = search_cut(dim, 1, 1);
    bool fits = true;
    for (int32_t o = 0; o < trial->output_count; ++o) {
      const shoal_shape_t *part = search_shape(s, trial->input_count + o);
      const int64_t start = shoal_attr_list(starts)[o];
      fits &= dim < part->rank && start >= 0 && start + part->dims[dim] <= c.items;
      if (!fits || part->dims[dim] == 0) continue;
      shoal_way_operand_t *window = &c.operands[trial->input_count + o];
      *window = search_cut(dim, 1, 1);
      window->offset = start;
      window->length = part->dims[dim];
      c.decided[o] = true;
    }
    if (fits && search_try(s, &c)) return true;
  }
  return false;
}

// ---- seeds -------------------------------------------------------------------------------------

// Does the way leave nothing to be reduced?
static bool is_cut(const shoal_way_t *way) {
  for (int32_t i = 0; i < way->output_count; ++i) {
    if (way->operands[way->input_count + i].kind == SHOAL_OPERAND_PARTIAL) return false;
  }
  return true;
}

// The dim can be cut by itself. Where another input has a shorter one in the same place, which
// divides it, both may be cut together (heads of queries, and those of the keys that they share).
static void seed_grouped(search_t *s, int32_t input, int32_t dim) {
  const shoal_shape_t *shape = search_shape(s, input);
  int64_t shorter = 0;
  for (int32_t i = input + 1; i < s->trial->input_count && !s->has_sizes; ++i) {
    const shoal_shape_t *other = search_shape(s, i);
    if (other->rank != shape->rank || other->dims[dim] < 2) continue;
    if (other->dims[dim] == shape->dims[dim] || shape->dims[dim] % other->dims[dim]) continue;
    shorter = other->dims[dim];
  }
  if (!shorter) return;
  const shoal_way_operand_t form = search_cut(dim, shape->dims[dim] / shorter, 1);
  seed_input(s, input, &form, shorter, true, true);
}

static void seed_dim(search_t *s, int32_t input, int32_t dim) {
  int64_t length = search_shape(s, input)->dims[dim], before = s->ways.count;
  if (length < 2 || s->trial->error) return;
  if (seed_row(s, input, dim) || seed_window(s, input, dim) || seed_split(s, input, dim)) return;
  shoal_way_operand_t plain = search_cut(dim, 1, 1);
  bool found = seed_input(s, input, &plain, length, false, false), kept = s->ways.count > before;
  if (found && (!kept || is_cut(&s->ways.items[before]))) {
    seed_grouped(s, input, dim);
    return;
  }
  // Exchanging a halo is cheaper than reducing.
  if (search_spatial(s, input, dim)) {
    if (kept && s->ways.count > before + 1) search_drop(s, before);
    return;
  }
  if (found) {
    seed_grouped(s, input, dim);
  } else if (!seed_related(s, input, dim)) {
    search_sliding(s, input, dim);
  }
}

// Every rank has all inputs and makes its part of an output.
static void seed_output(search_t *s, int32_t output, int32_t dim) {
  int32_t operand = s->trial->input_count + output;
  candidate_t c;
  if (search_shape(s, operand)->dims[dim] < 2 || search_found(s, operand, dim)) return;
  if (!search_candidate(s, &s->trial->arena, &c)) return;
  c.operands[operand] = search_cut(dim, 1, 1);
  c.items = search_shape(s, operand)->dims[dim];
  c.decided[output] = true;
  search_try(s, &c);
}

// All operands with as many elements as the largest one.
static void seed_flat(search_t *s) {
  int64_t largest = 0;
  candidate_t c;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    int64_t count = shoal_shape_count(search_shape(s, i));
    if (count > largest) largest = count;
  }
  if (largest < 2 || !search_candidate(s, &s->trial->arena, &c)) return;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    if (shoal_shape_count(search_shape(s, i)) != largest) continue;
    c.operands[i].kind = SHOAL_OPERAND_FLAT;
    if (i >= s->trial->input_count) c.decided[i - s->trial->input_count] = true;
  }
  search_try(s, &c);
}

// Input `input` is a sum not yet made; -1: all float inputs are.
static void seed_partial(search_t *s, int32_t input) {
  candidate_t c;
  if (!search_candidate(s, &s->trial->arena, &c)) return;
  for (int32_t i = 0; i < s->trial->input_count; ++i) {
    if (!shoal_dtype_is_float(s->trial->types[i].dtype) || (input >= 0 && i != input)) continue;
    c.operands[i] =
        (shoal_way_operand_t){.kind = SHOAL_OPERAND_PARTIAL, .reduce = SHOAL_REDUCE_SUM};
  }
  search_try(s, &c);
}

static void look_at_roles(search_t *s) {
  const shoal_op_t *op = s->trial->op;
  for (int32_t i = 0; i < op->attr_count; ++i) {
    const shoal_attr_schema_t *schema = &op->attrs[i];
    int32_t operand = shoal_attr_operand(op, s->trial->attrs, s->trial->input_count, i);
    if (schema->role == SHOAL_ROLE_PLAIN || schema->role == SHOAL_ROLE_COUNT) continue;
    if (operand < 0) continue;
    s->has_role[operand] = true;
    s->has_place[operand] |= schema->role == SHOAL_ROLE_PLACE;
    s->has_sizes |= schema->role == SHOAL_ROLE_SIZE;
  }
  // Where windows slide, dims are sizes of what they slide over; channels have groups at most.
  if (s->has_sizes) s->shapes = op->window && op->window[0] ? SEARCH_TURNS : SEARCH_BOTH;
}

static void seed_all(search_t *s) {
  trial_t *trial = s->trial;
  look_at_roles(s);
  for (int32_t i = 0; i < trial->input_count; ++i) {
    for (int32_t d = 0; d < search_shape(s, i)->rank; ++d) seed_dim(s, i, d);
  }
  for (int32_t o = 0; o < trial->output_count; ++o) {
    int32_t operand = trial->input_count + o;
    if (!s->has_role[operand]) continue;
    for (int32_t d = 0; d < search_shape(s, operand)->rank; ++d) seed_output(s, o, d);
  }
  seed_flat(s);
  int32_t floats = 0;
  for (int32_t i = 0; i < trial->input_count; ++i) {
    if (!shoal_dtype_is_float(trial->types[i].dtype)) continue;
    seed_partial(s, i);
    ++floats;
  }
  if (floats > 1) seed_partial(s, -1);
}

// ---- a call ------------------------------------------------------------------------------------

shoal_status_t shoal_rules_discover(const shoal_call_t *call, shoal_executor_t executor,
                                    shoal_allocator_t allocator, shoal_arena_t *arena,
                                    shoal_rule_t *out_rule) {
  trial_t trial;
  shoal_status_t status = NULL;
  *out_rule = (shoal_rule_t){.op = shoal_arena_strdup(arena, call->op->name), .attrs = call->attrs};
  if (!out_rule->op) return SHOAL_OOM();
  status = trial_init(call, executor, allocator, TRIAL_SETS, &trial);
  if (status) goto done;
  search_t s = {
      .trial = &trial, .arena = arena, .operand_count = trial.input_count + trial.output_count};
  s.has_place = SHOAL_NEW(&trial.arena, bool, s.operand_count);
  s.has_role = SHOAL_NEW(&trial.arena, bool, s.operand_count);
  if (!s.has_place || !s.has_role || !search_init(&s)) {
    status = SHOAL_OOM();
    goto done;
  }
  if (!trial.note) seed_all(&s);
  search_deinit(&s);
  status = trial.error;
  trial.error = NULL;
  out_rule->way_count = (int32_t)s.ways.count;
  out_rule->ways = s.ways.items;
  out_rule->note = trial.note;
done:
  trial_deinit(&trial);
  if (status) {
    return shoal_status_annotatef(status, "while looking for ways to cut '%s'", call->op->name);
  }
  return NULL;
}
