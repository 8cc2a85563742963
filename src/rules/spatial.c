// Discovery: halo ways, for ops whose windows slide (convolution, pooling and their gradients).
//
// The item space is a dim of one operand that has a place (an output if it can be: a convolution's
// rows of results; the gradient's rows of a convolution that strides). Every operand with a place
// follows along the same dim: as many elements per item as the sizes suggest (the stride), dealt by
// items where that does not come out even. Inputs start with a halo that is wide enough for
// anything reasonable; each side is then replaced by the smallest that still holds. Of all item
// spaces and strides the one with the smallest halos is kept; a halo that reaches from end to end
// is no way at all.
#include "rules/search.h"

enum { WIDEST = 40, LARGEST_SCALE = 32, MAX_TRIED = 32 };

typedef struct slide {
  search_t *s;
  int32_t dim, leader;  // the operand whose dim is the item space
  int64_t items;
  candidate_t candidate;
  int64_t best_price;   // of what was found so far
  int32_t tried_count;  // candidates, as they were set out
  candidate_t tried[MAX_TRIED];
} slide_t;

static bool same_shape(const search_t *s, int32_t a, int32_t b) {
  return shoal_shape_equal(search_shape(s, a), search_shape(s, b));
}

// Operands that have a place, and inputs shaped like one of them (a pooling's result in its
// gradient).
static bool takes_part(const search_t *s, int32_t operand, int32_t dim) {
  if (dim >= search_shape(s, operand)->rank) return false;
  if (s->has_place[operand]) return true;
  for (int32_t i = 0; operand < s->trial->input_count && i < s->operand_count; ++i) {
    if (s->has_place[i] && same_shape(s, operand, i)) return true;
  }
  return false;
}

// Elements per item, rounded down or up. 0: these sizes have nothing to do with each other.
static int64_t scale_of(int64_t length, int64_t items, bool up) {
  int64_t scale = (up ? length + items - 1 : length) / items;
  return scale > LARGEST_SCALE ? 0 : scale;
}

// Which inputs may have a halo: where an output is a sum over windows, what leads them must not.
typedef enum halo { HALO_ALL, HALO_OTHER_SHAPES, HALO_ALL_BUT_LEADER, HALO_COUNT } halo_t;

static bool set_out(slide_t *slide, bool up, halo_t halo) {
  search_t *s = slide->s;
  for (int32_t i = 0; i < s->operand_count; ++i) {
    shoal_way_operand_t *o = &slide->candidate.operands[i];
    *o = (shoal_way_operand_t){0};
    if (i >= s->trial->input_count) slide->candidate.decided[i - s->trial->input_count] = false;
    if (!takes_part(s, i, slide->dim)) continue;
    int64_t length = search_shape(s, i)->dims[slide->dim];
    int64_t scale = scale_of(length, slide->items, up);
    if (scale == 0) return false;
    *o = search_cut(slide->dim, scale, 1);
    o->dealt_by_items = length != slide->items * scale;
    if (i >= s->trial->input_count) {
      slide->candidate.decided[i - s->trial->input_count] = true;
    } else if (halo == HALO_ALL || (halo == HALO_OTHER_SHAPES ? !same_shape(s, i, slide->leader)
                                                              : i != slide->leader)) {
      o->before = o->after = length < WIDEST ? length : WIDEST;
    }
  }
  slide->candidate.items = slide->items;
  return true;
}

// Elements that items of these scales leave over: strides that do not fit have many.
static int64_t rest_of(const slide_t *slide) {
  int64_t rests = 0;
  for (int32_t i = 0; i < slide->s->operand_count; ++i) {
    const shoal_way_operand_t *o = &slide->candidate.operands[i];
    if (o->kind != SHOAL_OPERAND_CUT) continue;
    int64_t rest = search_shape(slide->s, i)->dims[slide->dim] - slide->items * o->scale;
    rests += rest < 0 ? -rest : rest;
  }
  return rests;
}

// These, and the elements exchanged.
static int64_t price(const slide_t *slide) {
  int64_t sum = rest_of(slide);
  for (int32_t i = 0; i < slide->s->operand_count; ++i) {
    const shoal_way_operand_t *o = &slide->candidate.operands[i];
    if (o->kind == SHOAL_OPERAND_CUT) sum += o->before + o->after;
  }
  return sum;
}

// The smallest value of one side of a halo that still holds: a halo that is too small fails with
// the first or second part, so counting upwards is cheaper than halving. False: what was found
// before is cheaper by then.
static bool shrink(slide_t *slide, int64_t *side) {
  int64_t widest = *side;
  for (*side = 0; *side < widest; ++*side) {
    if (search_settle_quickly(slide->s, &slide->candidate)) return true;
    if (*side >= slide->best_price) return false;
  }
  return true;
}

// False: a halo reaches too far to tell, or costs too much.
static bool shrink_all(slide_t *slide) {
  search_t *s = slide->s;
  for (int32_t i = 0; i < s->trial->input_count; ++i) {
    shoal_way_operand_t *o = &slide->candidate.operands[i];
    if (o->kind != SHOAL_OPERAND_CUT || o->before == 0) continue;
    if (!shrink(slide, &o->before) || !shrink(slide, &o->after)) return false;
    // Too near to the whole to tell how far the window really reaches.
    int64_t farthest = (slide->items - 1) * o->scale;
    if (o->before >= farthest || o->after >= farthest) return false;
  }
  return true;
}

// Was the candidate tried before, with another leader or another rounding?
static bool is_known(slide_t *slide) {
  const candidate_t *c = &slide->candidate;
  for (int32_t i = 0; i < slide->tried_count; ++i) {
    bool same = slide->tried[i].items == c->items;
    for (int32_t k = 0; same && k < slide->s->operand_count; ++k) {
      const shoal_way_operand_t *a = &slide->tried[i].operands[k], *b = &c->operands[k];
      same = a->kind == b->kind && a->scale == b->scale && a->before == b->before &&
             a->after == b->after;
    }
    if (same) return true;
  }
  if (slide->tried_count == MAX_TRIED) return false;
  candidate_t copy = *c;
  copy.operands = shoal_arena_copy(&slide->s->trial->arena, c->operands,
                                   (size_t)slide->s->operand_count, sizeof *c->operands);
  if (copy.operands) slide->tried[slide->tried_count++] = copy;
  return false;
}

// Does another input have the leader's shape? Else two of the ways to give halos are one.
static bool has_twin(const slide_t *slide) {
  int32_t inputs = slide->s->trial->input_count, twins = 0;
  for (int32_t i = 0; i < inputs; ++i) twins += same_shape(slide->s, i, slide->leader);
  return slide->leader < inputs && twins > 1;
}

// The cheapest way with this leader, if it is cheaper than the best so far.
static void try_leader(slide_t *slide, int32_t leader, candidate_t *best) {
  search_t *s = slide->s;
  const shoal_shape_t *shape = search_shape(s, leader);
  slide->leader = leader;
  slide->items = slide->dim < shape->rank ? shape->dims[slide->dim] : 0;
  for (int32_t variant = 0; slide->items >= 2 && variant < 2 * HALO_COUNT; ++variant) {
    if (variant / 2 == HALO_ALL_BUT_LEADER && !has_twin(slide)) return;
    if (s->trial->error || !search_candidate(s, &s->trial->arena, &slide->candidate)) return;
    if (!set_out(slide, variant & 1, (halo_t)(variant / 2)) || is_known(slide)) continue;
    if (rest_of(slide) >= slide->best_price) continue;
    if (!search_settle_roughly(s, &slide->candidate) || !shrink_all(slide)) continue;
    if (price(slide) >= slide->best_price || !search_settle(s, &slide->candidate)) continue;
    slide->best_price = price(slide);
    *best = slide->candidate;
  }
}

bool search_spatial(search_t *s, int32_t input, int32_t dim) {
  int32_t places = 0;
  slide_t slide = {.s = s, .dim = dim, .best_price = INT64_MAX};
  candidate_t best;
  for (int32_t i = 0; i < s->operand_count; ++i) places += s->has_place[i];
  const char *window = s->trial->op->window;
  if (places < 2 || (window && !window[0]) || !takes_part(s, input, dim)) return false;
  for (int32_t i = s->operand_count - 1; i >= 0; --i) {  // outputs before inputs
    if (s->has_place[i]) try_leader(&slide, i, &best);
  }
  if (slide.best_price == INT64_MAX || s->trial->error) return false;
  search_keep(s, &best);
  return true;
}

bool search_sliding(search_t *s, int32_t input, int32_t dim) {
  trial_t *trial = s->trial;
  int64_t length = search_shape(s, input)->dims[dim];
  if (s->has_sizes) return false;
  for (int32_t o = 0; o < trial->output_count; ++o) {
    int32_t operand = trial->input_count + o;
    int64_t items = dim < search_shape(s, operand)->rank ? search_shape(s, operand)->dims[dim] : 0;
    if (items < 2 || items >= length || s->has_role[operand]) continue;
    for (int64_t scale = 1; scale <= LARGEST_SCALE && !trial->error; ++scale) {
      int64_t after = length - items * scale;
      candidate_t c;
      if (after == 0 || after <= -scale || after > WIDEST) continue;
      if (!search_candidate(s, &trial->arena, &c)) return false;
      c.items = items;
      c.operands[input] = search_cut(dim, scale, 1);
      c.operands[input].after = after;
      c.operands[input].dealt_by_items = true;
      c.operands[operand] = search_cut(dim, 1, 1);
      c.decided[o] = true;
      if (search_try(s, &c)) return true;
    }
  }
  return false;
}
