// Choosing the ways of one node, axis by axis: each takes the way that changes the layouts of its
// inputs (and pinned outputs) least. Greedy and local: no search. What was chosen comes with its
// cost, the reason and the second best.
#include "plan/choose.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "plan/complete.h"
#include "plan/cut.h"
#include "plan/resolved.h"
#include "plan/summands.h"

enum { MAX_TRIES = 24 };  // item cuts tried per way: two per operand and the plain one

static int32_t axis_of(int32_t slot) {
  return slot == 0 ? SHOAL_AXIS_MICRO : slot - 1;
}

// What completion knows of one operand along one axis while it chooses for a node.
typedef struct operand_view {
  const shoal_type_t *type;
  double bytes, reduced_bytes;  // of the whole; while it is summed over ranks
  bool pinned;                  // outputs: somebody said how it should be cut
  bool elsewhere;               // inputs: it comes from another mesh
  const shoal_cut_t *cut;       // inputs: as it is; outputs: as pinned. NULL: whole
  const shoal_cut_t *home;      // inputs: as it will be wanted once it is reduced. NULL: whole
  shoal_cut_t storage, home_storage;
} operand_view_t;

typedef struct chooser {
  shoal_plan_t *plan;
  const shoal_chooser_node_t *of;
  const shoal_node_t *node;
  const shoal_rule_t *rule;
  int32_t mesh, slot;
  shoal_choice_t *choices;   // by slot
  shoal_why_t *why;          // by slot
  operand_view_t *operands;  // inputs, then outputs
  double largest;            // bytes of the largest operand
} chooser_t;

// The item of `layout` along the chooser's axis. From another mesh, the axis of the same name
// counts: stages of different size cut the batch alike, and a sum may arrive as one summand.
static const shoal_cut_t *cut_along(const chooser_t *c, const shoal_layout_t *layout,
                                    shoal_cut_t *storage) {
  int32_t axis = axis_of(c->slot);
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  if (axis != SHOAL_AXIS_MICRO && layout->mesh != mesh) {
    int32_t other = shoal_mesh_axis(layout->mesh, mesh->axes[axis].name);
    if (other < 0) return NULL;
    const shoal_cut_t *found = shoal_layout_along(layout, other);
    if (!found || (found->kind == SHOAL_CUT_PARTIAL && found->reduce == SHOAL_REDUCE_LSE))
      return NULL;
    *storage = *found;
    storage->axis = axis;
    storage->weights = NULL;
    return storage;
  }
  return shoal_layout_along(layout, axis);
}

// What an unreduced output costs that comes of an unreduced input: the reduction is only put off,
// and each consumer that needs the sum pays on its own. Sums over micro-batches are reduced once,
// behind the loop.
static double deferred_cost(const chooser_t *c, int32_t operand) {
  const operand_view_t *view = &c->operands[operand];
  const shoal_way_t *micro = c->choices[0].way;
  bool accumulated = micro && micro->operands[operand].kind == SHOAL_OPERAND_PARTIAL;
  return 2 * view->reduced_bytes / (double)(accumulated ? c->plan->micro : 1);
}

// Is an output merged by log-sum-exp with another? That cannot be put off: nobody reads it before,
// so that it is paid here.
static bool is_merged(const shoal_cut_t *cut) {
  return cut && cut->kind == SHOAL_CUT_PARTIAL && cut->reduce == SHOAL_REDUCE_LSE;
}

// shoal.lse_merge takes logarithms in the type of the value, or f32 for floats of 16 bits; and it
// needs a dim more.
static bool is_mergeable(const chooser_t *c) {
  const shoal_type_t *value = c->operands[c->node->input_count].type;
  const shoal_dtype_t wide = shoal_dtype_size(value->dtype) == 2 ? SHOAL_F32 : value->dtype;
  return value->shape.rank < SHOAL_MAX_RANK &&
         c->operands[c->node->input_count + 1].type->dtype == wide;
}

static bool reduces(const shoal_cut_t *have, const shoal_cut_t *need) {
  return have && have->kind == SHOAL_CUT_PARTIAL && (!need || need->kind != SHOAL_CUT_PARTIAL);
}

// What changing an operand costs. A gradient that goes where the moments are in any case is
// scattered for its own sake: nobody will want the whole.
static double change_cost(const operand_view_t *view, const shoal_cut_t *have,
                          const shoal_cut_t *need) {
  const shoal_shape_t *shape = &view->type->shape;
  if (!reduces(have, need)) return shoal_cut_change(have, need, shape, view->bytes);
  const double cost = shoal_cut_change(have, need, shape, view->reduced_bytes);
  return need && view->home && shoal_cut_same(need, view->home, shape, false) ? cost / 2 : cost;
}

static bool is_decided(const chooser_t *c) {
  return c->of->decided && c->of->decided[c->slot];
}

static double way_cost(const chooser_t *c, const shoal_choice_t *choice) {
  double cost = 0, deferred = 0;
  int32_t operand_count = c->node->input_count + c->node->output_count;
  bool whole_to_partial = false, stays_partial = false, micro = c->slot == 0;
  for (int32_t k = 0; k < operand_count; ++k) {
    const operand_view_t *view = &c->operands[k];
    const shoal_shape_t *shape = &view->type->shape;
    bool cuts = false;
    shoal_cut_t cut = {0};
    if (choice->way) {
      shoal_status_t status =
          shoal_way_cut(choice->way, k, shape, axis_of(c->slot), &choice->item_cut, &cuts, &cut);
      if (status) {
        shoal_status_free(status);
        return INFINITY;
      }
    }
    const shoal_cut_t *way = cuts ? &cut : NULL;
    bool input = k < c->node->input_count, partial = way && way->kind == SHOAL_CUT_PARTIAL;
    if (!input && is_merged(way)) {
      if (micro || !is_mergeable(c)) return INFINITY;  // parts of micro-batches never meet
      cost += 2 * view->bytes;
      continue;
    }
    if (!input && partial && !micro && c->of->gathers && !is_decided(c)) return INFINITY;
    if (!input && partial && !micro) deferred += deferred_cost(c, k);
    if (!input && !view->pinned) continue;
    const shoal_cut_t *have = input ? view->cut : way, *need = input ? way : view->cut;
    // A gradient that is multiplied by what all of them together say waits for its sum.
    if (input && way && micro && c->of->late >= (partial ? SHOAL_LATE_SUMS : SHOAL_LATE_ALL))
      return INFINITY;
    if (input && partial && !have) whole_to_partial = true;
    if (input && partial && have) stays_partial = true;
    // A sum over micro-batches that changes mesh should do so once, not once per micro-batch.
    if (input && partial && micro && view->elsewhere)
      cost += (double)(c->plan->micro - 1) * view->bytes;
    cost += micro ? shoal_cut_change_micro(have, need, shape, view->bytes)
                  : change_cost(view, have, need);
  }
  return cost + (whole_to_partial ? 3 * c->largest : 0) + (stays_partial ? deferred : 0);
}

// An operand that is one of several equal windows (the gradient of a slice of fused QKV) says how
// its own window is dealt; the others are dealt alike, so that the pieces' sum needs no reshard.
static bool split_evenly(const shoal_way_t *way, const shoal_way_operand_t *operand,
                         shoal_item_cut_t *cut) {
  if (!way->any_order || cut->chunk_count != 0 || operand->kind != SHOAL_OPERAND_CUT) return false;
  if (operand->length == 0 || way->items % operand->length != 0) return false;
  cut->chunk_count = (int32_t)(way->items / operand->length);
  return cut->chunk_count > 1;
}

// The best of the item cuts that the node's operands suggest for a way.
static shoal_choice_t deal(const chooser_t *c, const shoal_way_t *way, double *out_cost) {
  const int32_t operand_count = c->node->input_count + c->node->output_count;
  shoal_choice_t tries[MAX_TRIES], best = {.way = way};
  int32_t try_count = 0;
  for (int32_t k = 0; k < operand_count && try_count + 2 < MAX_TRIES; ++k) {
    shoal_choice_t choice = {.way = way};
    if (!c->operands[k].cut ||
        !shoal_way_match(way, k, &c->operands[k].type->shape, c->operands[k].cut, &choice.item_cut))
      continue;
    shoal_choice_t even = choice;
    if (split_evenly(way, &way->operands[k], &even.item_cut)) tries[try_count++] = even;
    tries[try_count++] = choice;
  }
  tries[try_count++] = (shoal_choice_t){.way = way};
  *out_cost = INFINITY;
  for (int32_t t = 0; t < try_count; ++t) {
    double cost = way_cost(c, &tries[t]);
    if (cost < *out_cost) best = tries[t], *out_cost = cost;
  }
  return best;
}

// Along an axis where no input is cut a node stays whole unless a pin pays for a cut.
static shoal_choice_t choose(const chooser_t *c, shoal_why_t *why) {
  shoal_choice_t best = {0};
  why->cost = way_cost(c, &best);
  for (int32_t w = 0; w < c->rule->way_count; ++w) {
    double cost;
    const shoal_choice_t choice = deal(c, &c->rule->ways[w], &cost);
    if (cost < why->cost) {
      why->runner_up = best.way;
      why->runner_up_cost = why->cost;
      best = choice;
      why->cost = cost;
    } else if (cost < why->runner_up_cost) {
      why->runner_up = choice.way;
      why->runner_up_cost = cost;
    }
  }
  return best;
}

// ---- reasons ---------------------------------------------------------------------------

// Does the choice leave the operand as it is cut?
static bool follows(const chooser_t *c, const shoal_choice_t *choice, int32_t k, bool ignore_halo) {
  const operand_view_t *view = &c->operands[k];
  bool cuts = false;
  shoal_cut_t cut = {0};
  shoal_status_t status = shoal_way_cut(choice->way, k, &view->type->shape, axis_of(c->slot),
                                        &choice->item_cut, &cuts, &cut);
  shoal_status_free(status);
  return !status && cuts && shoal_cut_same(view->cut, &cut, &view->type->shape, ignore_halo);
}

// The largest operand that is cut along the axis and, if there is a way, stays so; or -1. Inputs
// come before outputs, which are cut only where they are pinned.
static int32_t find_leader(const chooser_t *c, const shoal_choice_t *choice) {
  int32_t leader = -1;
  for (int32_t k = 0; k < c->node->input_count + c->node->output_count; ++k) {
    const operand_view_t *view = &c->operands[k];
    if (!view->cut || (k >= c->node->input_count && leader >= 0)) continue;
    if (choice->way && !follows(c, choice, k, true)) continue;
    if (leader < 0 || view->bytes > c->operands[leader].bytes) leader = k;
  }
  return leader;
}

// Does the way leave outputs that log-sum-exp merges?
static bool merges(const shoal_way_t *way) {
  bool found = false;
  for (int32_t o = 0; way && o < way->output_count && !found; ++o) {
    const shoal_way_operand_t *out = &way->operands[way->input_count + o];
    found = out->kind == SHOAL_OPERAND_PARTIAL && out->reduce == SHOAL_REDUCE_LSE;
  }
  return found;
}

static void give_reason(const chooser_t *c, const shoal_choice_t *choice, shoal_why_t *why) {
  why->operand = find_leader(c, choice);
  const bool output = why->operand >= c->node->input_count;
  why->partial = why->operand >= 0 && c->operands[why->operand].cut->kind == SHOAL_CUT_PARTIAL;
  why->merged = merges(choice->way);
  why->because = !choice->way       ? SHOAL_BECAUSE_GATHERED
                 : why->operand < 0 ? SHOAL_BECAUSE_CHEAPEST
                 : output           ? SHOAL_BECAUSE_PINNED
                                    : SHOAL_BECAUSE_FOLLOWS;
}

// ---- decisions -------------------------------------------------------------------------

static shoal_status_t refuse(const chooser_t *c, int32_t slot, shoal_status_t status) {
  if (!c->of->decided || !c->of->decided[slot]) return status;  // whoever constrains it is blamed
  return shoal_decision_annotate(c->of->decided[slot],
                                 shoal_status_annotatef(status, "about node '%s'", c->node->name));
}

// The choice that the intent asks for along an axis.
static shoal_status_t obey(chooser_t *c, shoal_arena_t *scratch, shoal_choice_t *out_choice) {
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  const int64_t size = c->slot == 0 ? c->plan->micro : mesh->axes[c->slot - 1].size;
  const shoal_intent_decision_t *decided = c->of->decided[c->slot];
  shoal_why_t *why = &c->why[c->slot];
  const shoal_choice_t free_choice = choose(c, why);
  const double free_cost = why->cost;
  bool dealt = false;
  SHOAL_RETURN_IF_ERROR(
      shoal_way_choice_parse(decided->choice, c->rule, c->node, size, scratch, &dealt, out_choice));
  if (out_choice->item_cut.weights) {
    out_choice->item_cut.weights = shoal_arena_copy(&c->plan->arena, out_choice->item_cut.weights,
                                                    (size_t)size, sizeof(int64_t));
    if (!out_choice->item_cut.weights) return SHOAL_OOM();
  }
  if (out_choice->way && !dealt)
    *out_choice = deal(c, out_choice->way, &why->cost);
  else
    why->cost = way_cost(c, out_choice);
  if (isinf(why->cost) && c->slot == 0 && merges(out_choice->way))
    return SHOAL_ERROR_HINT(UNSUPPORTED, "cut the keys along an axis of the mesh",
                            "its outputs would have to be merged over micro-batches, which log-sum-"
                            "exp does over ranks only");
  if (isinf(why->cost))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "`shoal explain --why NODE` shows what would hold",
                            c->slot == 0 ? "the loop over micro-batches cannot bring its inputs "
                                           "and outputs into that form"
                                         : "its operands cannot be brought into that form");
  if (out_choice->way != free_choice.way)
    why->runner_up = free_choice.way, why->runner_up_cost = free_cost;
  why->because = SHOAL_BECAUSE_DECIDED;
  why->merged = merges(out_choice->way);
  why->decided = decided;
  return NULL;
}

// The choice that leaves output 0 as it is pinned. Along micro a pin that does not name it leaves
// the node as free as any other.
static shoal_status_t constrain(const chooser_t *c, shoal_choice_t *out_choice) {
  const int32_t k = c->node->input_count;
  const operand_view_t *view = &c->operands[k];
  shoal_why_t *why = &c->why[c->slot];
  const shoal_choice_t free_choice = choose(c, why);
  const double free_cost = why->cost;
  bool found = !view->cut;
  *out_choice = (shoal_choice_t){0};
  for (int32_t w = 0; w < c->rule->way_count && !found; ++w) {
    *out_choice = (shoal_choice_t){.way = &c->rule->ways[w]};
    found =
        shoal_way_match(out_choice->way, k, &view->type->shape, view->cut, &out_choice->item_cut) &&
        follows(c, out_choice, k, false);
  }
  if (!found)
    return SHOAL_ERROR(UNSUPPORTED, "a value cannot be held like that along '%s'",
                       shoal_slot_name(&c->plan->meshes[c->mesh], c->slot));
  why->cost = way_cost(c, out_choice);
  if (isinf(why->cost))
    return SHOAL_ERROR(UNSUPPORTED, "it cannot be brought into that layout along '%s'",
                       shoal_slot_name(&c->plan->meshes[c->mesh], c->slot));
  if (out_choice->way != free_choice.way)
    why->runner_up = free_choice.way, why->runner_up_cost = free_cost;
  why->because = SHOAL_BECAUSE_DECIDED;
  why->decided = c->of->constrained;
  return NULL;
}

// Is the operand a window of the item space, or does it hold more than its items?
static bool is_offset(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_CUT && (operand->length != 0 || operand->before != 0 ||
                                                operand->after != 0 || operand->dealt_by_items);
}

static bool both_cut(const shoal_way_operand_t *a, const shoal_way_operand_t *b) {
  return a->kind == SHOAL_OPERAND_CUT && b->kind == SHOAL_OPERAND_CUT && a->dim == b->dim;
}

static bool follow_alike(const shoal_way_operand_t *a, const shoal_way_operand_t *b) {
  if (a->kind != SHOAL_OPERAND_CUT || b->kind != SHOAL_OPERAND_CUT) return a->kind == b->kind;
  return a->dim == b->dim && a->scale == b->scale && a->repeat == b->repeat;
}

// Does one item of `coarse` hold all items of `fine`, as rows hold columns in a merged dim?
static bool holds_all(const shoal_way_operand_t *coarse, const shoal_way_operand_t *fine,
                      int64_t fine_items) {
  return fine->repeat > 1 && fine_items > 0 && coarse->scale % (fine->scale * fine_items) == 0;
}

// Two ways that cut the same dim of an operand were each verified on the whole. One inside the
// other stays right if all operands follow both in the same manner - they deal the same items - or
// if the dim is a product of the two item spaces. Windows and halos counted from an outer part's
// start are not what the rule saw, nor are items that only some operands share with the outer cut.
// Of a product the coarser cut is written first (`finer`); but nothing goes in front of micro.
static bool nests(const shoal_way_t *outer, const shoal_way_t *inner, bool outer_is_micro) {
  bool same_dim = false, offset = false, alike = true, product = true;
  for (int32_t k = 0; k < outer->input_count + outer->output_count; ++k) {
    const shoal_way_operand_t *a = &outer->operands[k], *b = &inner->operands[k];
    offset |= is_offset(a) || is_offset(b);
    alike &= follow_alike(a, b);
    if (!both_cut(a, b)) continue;
    same_dim = true;
    product &= holds_all(a, b, inner->items) || (!outer_is_micro && holds_all(b, a, outer->items));
  }
  return !same_dim || (!offset && (alike || product));
}

// One of two choices gives way: the inner, unless only it was asked for.
static int32_t loser(const chooser_t *c, int32_t outer, int32_t inner) {
  const bool keep_inner = c->why[inner].decided && !c->why[outer].decided;
  return keep_inner ? outer : inner;
}

static void drop(chooser_t *c, int32_t slot) {
  c->choices[slot].way = NULL;
  c->why[slot].because = SHOAL_BECAUSE_UNFIT;
  c->why[slot].merged = false;
}

static shoal_status_t drop_what_does_not_nest(chooser_t *c, int32_t slots) {
  for (int32_t inner = 1; inner < slots; ++inner)
    for (int32_t outer = 0; outer < inner; ++outer) {
      if (!c->choices[outer].way || !c->choices[inner].way ||
          nests(c->choices[outer].way, c->choices[inner].way, outer == 0))
        continue;
      const int32_t slot = loser(c, outer, inner);
      if (c->why[slot].decided)
        return refuse(c, slot,
                      SHOAL_ERROR(INVALID_ARGUMENT,
                                  "the ways along two axes that were decided on "
                                  "cannot be cut one inside the other"));
      drop(c, slot);
    }
  return NULL;
}

static shoal_status_t check_operands(const chooser_t *c) {
  for (int32_t k = 0; k < c->node->input_count + c->node->output_count; ++k) {
    const shoal_shape_t *shape = &c->operands[k].type->shape;
    shoal_layout_t layout = {0};
    SHOAL_RETURN_IF_ERROR(
        shoal_plan_operand(&c->plan->meshes[c->mesh], c->choices, k, shape, &layout));
    SHOAL_RETURN_IF_ERROR(shoal_layout_check(&layout, shape));
  }
  return NULL;
}

// Drops choices, innermost first, until every operand's layout is one the algebra allows (halo
// meets chunks, a dim cut twice by different items ...).
static shoal_status_t make_legal(chooser_t *c) {
  for (int32_t slot = c->plan->meshes[c->mesh].axis_count;; --slot) {
    shoal_status_t status = check_operands(c);
    if (!status) return NULL;
    while (slot >= 0 && (!c->choices[slot].way || c->why[slot].decided)) --slot;
    if (slot < 0 || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) {
      for (int32_t s = 0; s <= c->plan->meshes[c->mesh].axis_count; ++s)
        if (c->why[s].decided && c->choices[s].way) return refuse(c, s, status);
      return shoal_status_annotatef(status, "while completing node '%s'", c->node->name);
    }
    shoal_status_free(status);
    drop(c, slot);
  }
}

static void look_at_operands(chooser_t *c) {
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  for (int32_t k = 0; k < c->node->input_count + c->node->output_count; ++k) {
    operand_view_t *view = &c->operands[k];
    const bool input = k < c->node->input_count;
    const shoal_layout_t *layout = c->of->layouts[k];
    const int32_t output = k - c->node->input_count;
    const bool loose = !input && output < 64 && ((c->of->loose >> output) & 1);
    view->pinned = !input && layout && (c->slot > 0 || !loose);
    view->elsewhere = input && layout->mesh != mesh;
    view->cut = layout ? cut_along(c, layout, &view->storage) : NULL;
    const shoal_layout_t *home = input && c->of->homes ? c->of->homes[k] : NULL;
    view->home = home ? cut_along(c, home, &view->home_storage) : NULL;
  }
}

// The way that the op claims, which is no choice; whole along micro.
static shoal_status_t claim(chooser_t *c) {
  shoal_why_t *why = &c->why[c->slot];
  if (c->of->decided && c->of->decided[c->slot])
    return refuse(
        c, c->slot,
        SHOAL_ERROR_HINT(INVALID_ARGUMENT, "leave it out, or clip behind the sum: no clip_before",
                         "each rank clips its own summand of a gradient there, which is its sum "
                         "over all micro-batches"));
  if (c->slot > 0)
    c->choices[c->slot] = deal(c, c->rule->claimed, &why->cost);
  else
    why->cost = way_cost(c, &c->choices[0]);
  why->because = SHOAL_BECAUSE_CLAIMED;
  return NULL;
}

static shoal_status_t choose_all(chooser_t *c, shoal_arena_t *scratch) {
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  for (c->slot = 0; c->slot <= mesh->axis_count; ++c->slot) {
    shoal_why_t *why = &c->why[c->slot];
    *why = (shoal_why_t){.operand = -1, .runner_up_cost = INFINITY};
    if (c->slot == 0 ? c->plan->micro < 2 : mesh->axes[c->slot - 1].size < 2) continue;
    if (c->slot == 0 && c->of->early) {
      why->because = SHOAL_BECAUSE_EARLY;
      continue;
    }
    look_at_operands(c);
    if (shoal_plan_claims(c->plan, c->rule, c->mesh, c->slot)) {
      SHOAL_RETURN_IF_ERROR(claim(c));
      continue;
    }
    if (is_decided(c)) {
      shoal_status_t status = obey(c, scratch, &c->choices[c->slot]);
      if (status) return refuse(c, c->slot, status);
      continue;
    }
    if (c->of->constrained && c->operands[c->node->input_count].pinned) {
      SHOAL_RETURN_IF_ERROR(constrain(c, &c->choices[c->slot]));
      continue;
    }
    c->choices[c->slot] = choose(c, why);
    give_reason(c, &c->choices[c->slot], why);
  }
  return drop_what_does_not_nest(c, mesh->axis_count + 1);
}

shoal_status_t shoal_plan_choose(shoal_plan_t *plan, const shoal_chooser_node_t *of,
                                 shoal_arena_t *scratch, shoal_choice_t *out_choices,
                                 shoal_why_t *out_why) {
  const shoal_node_t *node = of->node;
  const int32_t count = node->input_count + node->output_count;
  chooser_t c = {.plan = plan,
                 .of = of,
                 .node = node,
                 .rule = of->rule,
                 .mesh = of->mesh,
                 .choices = out_choices,
                 .why = out_why};
  memset(out_choices, 0, SHOAL_PLAN_SLOTS * sizeof *out_choices);
  c.operands = SHOAL_NEW(scratch, operand_view_t, count);
  if (!c.operands) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    operand_view_t *view = &c.operands[k];
    view->type =
        k < node->input_count ? &of->call->inputs[k] : &of->call->outputs[k - node->input_count];
    const shoal_dtype_t exchanged = of->exchanged ? of->exchanged[k] : view->type->dtype;
    const double elements = (double)shoal_shape_count(&view->type->shape);
    view->bytes = elements * (double)shoal_dtype_size(view->type->dtype) + 1;
    view->reduced_bytes = elements * (double)shoal_dtype_size(exchanged) + 1;
    if (view->bytes > c.largest) c.largest = view->bytes;
  }
  SHOAL_RETURN_IF_ERROR(choose_all(&c, scratch));
  return make_legal(&c);
}
