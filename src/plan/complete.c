// Completion by propagation: nodes in topological order, axis by axis, each takes the way that
// changes the layouts of its inputs (and pinned outputs) least. Greedy and local: no search.
// Strategies steer it by pinning states, inputs and values; `auto` compares whole plans.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/complete.h"
#include "plan/cut.h"

enum { MAX_TRIES = 24 };  // item cuts tried per way: two per operand and the plain one

static int32_t axis_of(int32_t slot) {
  return slot == 0 ? SHOAL_AXIS_MICRO : slot - 1;
}

// What completion knows of one operand along one axis while it chooses for a node.
typedef struct operand_view {
  const shoal_type_t *type;
  double bytes;
  bool pinned;             // outputs: somebody said how it should be cut
  bool elsewhere;          // inputs: it comes from another mesh
  const shoal_cut_t *cut;  // inputs: as it is; outputs: as pinned. NULL: whole
  shoal_cut_t storage;
} operand_view_t;

typedef struct chooser {
  shoal_plan_t *plan;
  shoal_graph_plan_t *graph;
  const shoal_node_t *node;
  const shoal_rule_t *rule;
  const int32_t *assigned;  // by value: the state it is assigned to, or -1
  int32_t mesh, slot;
  shoal_choice_t choices[SHOAL_PLAN_SLOTS];
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
  return 2 * view->bytes / (double)(accumulated ? c->plan->micro : 1);
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
    if (!input && partial && !micro) deferred += deferred_cost(c, k);
    if (!input && !view->pinned) continue;
    const shoal_cut_t *have = input ? view->cut : way, *need = input ? way : view->cut;
    if (input && partial && !have) whole_to_partial = true;
    if (input && partial && have) stays_partial = true;
    // A sum over micro-batches that changes mesh should do so once, not once per micro-batch.
    if (input && partial && micro && view->elsewhere)
      cost += (double)(c->plan->micro - 1) * view->bytes;
    cost += micro ? shoal_cut_change_micro(have, need, shape, view->bytes)
                  : shoal_cut_change(have, need, shape, view->bytes);
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

// Along an axis where no input is cut a node stays whole unless a pin pays for a cut.
static shoal_choice_t choose(const chooser_t *c) {
  shoal_choice_t best = {0};
  double best_cost = way_cost(c, &best);
  int32_t operand_count = c->node->input_count + c->node->output_count;
  for (int32_t w = 0; w < c->rule->way_count && best_cost > 0; ++w) {
    const shoal_way_t *way = &c->rule->ways[w];
    shoal_choice_t tries[MAX_TRIES];
    int32_t try_count = 0;
    for (int32_t k = 0; k < operand_count && try_count + 2 < MAX_TRIES; ++k) {
      shoal_choice_t choice = {.way = way};
      if (!c->operands[k].cut || !shoal_way_match(way, k, &c->operands[k].type->shape,
                                                  c->operands[k].cut, &choice.item_cut))
        continue;
      shoal_choice_t even = choice;
      if (split_evenly(way, &way->operands[k], &even.item_cut)) tries[try_count++] = even;
      tries[try_count++] = choice;
    }
    tries[try_count++] = (shoal_choice_t){.way = way};
    for (int32_t t = 0; t < try_count; ++t) {
      double cost = way_cost(c, &tries[t]);
      if (cost < best_cost) best = tries[t], best_cost = cost;
    }
  }
  return best;
}

// Pins of a node's outputs: a state it is assigned to, or a layout the intent gives the value by
// name. NULL: none.
static shoal_status_t find_pins(const chooser_t *c, const shoal_layout_t **pins) {
  for (int32_t o = 0; o < c->node->output_count; ++o) {
    int32_t value = c->node->outputs[o];
    const shoal_value_info_t *info = &c->graph->graph->values.items[value];
    pins[o] = NULL;
    const shoal_intent_decision_t *entry =
        shoal_patterns_find(&c->plan->patterns[SHOAL_DECIDE_LAYOUT], info->name);
    if (entry && strcmp(entry->pattern, "*") != 0) {
      SHOAL_RETURN_IF_ERROR(shoal_plan_parse_layout(c->plan, entry->choice, c->mesh, info->name,
                                                    &info->type.shape, &pins[o]));
    } else if (c->assigned[value] >= 0) {
      pins[o] = c->plan->states[c->assigned[value]];
    }
  }
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

static void drop_what_does_not_nest(shoal_choice_t *choices, int32_t slots) {
  for (int32_t inner = 1; inner < slots; ++inner)
    for (int32_t outer = 0; outer < inner; ++outer)
      if (choices[outer].way && choices[inner].way &&
          !nests(choices[outer].way, choices[inner].way, outer == 0))
        choices[inner].way = NULL;
}

// Drops choices, innermost first, until every operand's layout is one the algebra allows (halo
// meets chunks, a dim cut twice by different items ...).
static shoal_status_t make_legal(chooser_t *c) {
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  for (int32_t drop = mesh->axis_count + 1; drop >= 0; --drop) {
    shoal_status_t status = NULL;
    for (int32_t k = 0; k < c->node->input_count + c->node->output_count && !status; ++k) {
      const shoal_shape_t *shape = &c->operands[k].type->shape;
      shoal_layout_t layout = {0};
      status = shoal_plan_operand(mesh, c->choices, k, shape, &layout);
      if (!status) status = shoal_layout_check(&layout, shape);
    }
    if (!status) return NULL;
    if (drop == 0 || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY)
      return shoal_status_annotatef(status, "while completing node '%s'", c->node->name);
    shoal_status_free(status);
    c->choices[drop - 1].way = NULL;
  }
  return NULL;
}

// Chooses for every axis; `pins` are the outputs', NULL where there is none.
static void choose_all(chooser_t *c, const shoal_layout_t *const *pins) {
  const shoal_mesh_t *mesh = &c->plan->meshes[c->mesh];
  int32_t count = c->node->input_count + c->node->output_count;
  for (c->slot = 0; c->slot <= mesh->axis_count; ++c->slot) {
    if (c->slot == 0 ? c->plan->micro < 2 : mesh->axes[c->slot - 1].size < 2) continue;
    for (int32_t k = 0; k < count; ++k) {
      operand_view_t *view = &c->operands[k];
      bool input = k < c->node->input_count;
      const shoal_layout_t *layout =
          input ? c->graph->values[c->node->inputs[k]] : pins[k - c->node->input_count];
      view->pinned = !input && layout;
      view->elsewhere = input && layout->mesh != mesh;
      view->cut = layout ? cut_along(c, layout, &view->storage) : NULL;
    }
    c->choices[c->slot] = choose(c);
  }
  drop_what_does_not_nest(c->choices, mesh->axis_count + 1);
}

// ---- nodes that are alike --------------------------------------------------------------

// What a node's decision depends on: its rule, its mesh, the layouts that its inputs are in and its
// outputs are pinned to. The rule stands for op, attributes and types.
typedef struct seen {
  const shoal_rule_t *rule;
  int32_t mesh, count;
  const shoal_layout_t **layouts;
  const shoal_decision_t *decision;
} seen_t;

typedef struct completion {
  shoal_plan_t *plan;
  shoal_graph_plan_t *graph;
  int32_t *assigned;
  shoal_arena_t *arena;  // of this completion
  shoal_index_t index;
  SHOAL_VEC(seen_t) seen;
} completion_t;

static uint64_t hash_seen(const seen_t *seen) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)(intptr_t)seen->rule);
  hash = shoal_hash_int(hash, seen->mesh);
  return shoal_hash_bytes(hash, seen->layouts, (size_t)seen->count * sizeof *seen->layouts);
}

// The decision of an earlier node that is alike in everything that counts, or NULL.
static const shoal_decision_t *find_seen(const completion_t *all, const seen_t *seen, uint64_t hash,
                                         const shoal_call_t *call) {
  for (int64_t at = -1, n; (n = shoal_index_next(&all->index, hash, &at)) >= 0;) {
    const seen_t *other = &all->seen.items[n];
    if (other->rule != seen->rule || other->mesh != seen->mesh || other->count != seen->count ||
        memcmp(other->layouts, seen->layouts, (size_t)seen->count * sizeof *seen->layouts) != 0)
      continue;
    // Rules may be shared between sizes.
    bool same = true;
    for (int32_t k = 0; k < seen->count && same; ++k) {
      const shoal_type_t *type =
          k < call->input_count ? &call->inputs[k] : &call->outputs[k - call->input_count];
      same = shoal_type_equal(type, &other->decision->types[k]);
    }
    if (same) return other->decision;
  }
  return NULL;
}

static shoal_status_t choose_anew(completion_t *all, int32_t index, const shoal_call_t *call,
                                  const seen_t *seen, shoal_arena_t *scratch) {
  const shoal_node_t *node = &all->graph->graph->nodes.items[index];
  chooser_t c = {.plan = all->plan,
                 .graph = all->graph,
                 .node = node,
                 .rule = seen->rule,
                 .assigned = all->assigned,
                 .mesh = seen->mesh};
  c.operands = SHOAL_NEW(scratch, operand_view_t, seen->count);
  if (!c.operands) return SHOAL_OOM();
  for (int32_t k = 0; k < seen->count; ++k) {
    operand_view_t *view = &c.operands[k];
    view->type = k < node->input_count ? &call->inputs[k] : &call->outputs[k - node->input_count];
    view->bytes = (double)shoal_shape_count(&view->type->shape) *
                      (double)shoal_dtype_size(view->type->dtype) +
                  1;
    if (view->bytes > c.largest) c.largest = view->bytes;
  }
  choose_all(&c, seen->layouts + node->input_count);
  SHOAL_RETURN_IF_ERROR(make_legal(&c));
  return shoal_plan_decide(all->plan, all->graph, index, c.choices);
}

static shoal_status_t complete_node(completion_t *all, int32_t index, shoal_arena_t *scratch) {
  shoal_graph_plan_t *graph = all->graph;
  const shoal_node_t *node = &graph->graph->nodes.items[index];
  chooser_t c = {.plan = all->plan,
                 .graph = graph,
                 .node = node,
                 .assigned = all->assigned,
                 .mesh = graph->nodes[index].mesh};
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph->graph, node, scratch, &call));
  seen_t seen = {.mesh = c.mesh, .count = node->input_count + node->output_count};
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(all->plan->rules, &call, &seen.rule));
  seen.layouts = SHOAL_NEW(scratch, const shoal_layout_t *, seen.count);
  if (!seen.layouts) return SHOAL_OOM();
  for (int32_t i = 0; i < node->input_count; ++i) seen.layouts[i] = graph->values[node->inputs[i]];
  SHOAL_RETURN_IF_ERROR(find_pins(&c, seen.layouts + node->input_count));
  uint64_t hash = hash_seen(&seen);
  if ((seen.decision = find_seen(all, &seen, hash, &call))) {
    graph->nodes[index].decision = seen.decision;
    for (int32_t o = 0; o < node->output_count; ++o)
      graph->values[node->outputs[o]] = seen.decision->operands[node->input_count + o];
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(choose_anew(all, index, &call, &seen, scratch));
  seen.decision = graph->nodes[index].decision;
  seen.layouts =
      shoal_arena_copy(all->arena, seen.layouts, (size_t)seen.count, sizeof *seen.layouts);
  if (!seen.layouts || !shoal_index_add(&all->index, hash, all->seen.count) ||
      !SHOAL_PUSH(all->arena, &all->seen, seen))
    return SHOAL_OOM();
  return NULL;
}

static shoal_status_t complete_all(completion_t *all) {
  const shoal_graph_t *graph = all->graph->graph;
  all->assigned = SHOAL_NEW(all->arena, int32_t, graph->values.count);
  if (!all->assigned) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) all->assigned[v] = -1;
  for (int64_t a = 0; a < graph->assigns.count; ++a)
    all->assigned[graph->assigns.items[a].value] = graph->assigns.items[a].state;
  for (int32_t n = 0; n < graph->nodes.count; ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(all->plan->allocator, &scratch);
    shoal_status_t status = complete_node(all, n, &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  return NULL;
}

shoal_status_t shoal_plan_complete(shoal_plan_t *plan, shoal_graph_plan_t *graph) {
  shoal_arena_t arena;
  shoal_arena_init(plan->allocator, &arena);
  completion_t all = {.plan = plan, .graph = graph, .arena = &arena};
  shoal_index_init(&arena, &all.index);
  shoal_status_t status = complete_all(&all);
  shoal_arena_deinit(&arena);
  if (status) return shoal_status_annotatef(status, "graph '%s'", graph->graph->name);
  return NULL;
}
