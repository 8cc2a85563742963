// Completion by propagation: nodes in topological order, axis by axis, each takes the way that
// changes the layouts of its inputs (and pinned outputs) least. Greedy and local: no search.
// Strategies steer it by pinning states, inputs and values; `auto` compares whole plans.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "plan/complete.h"
#include "plan/cut.h"

enum { MAX_TRIES = 24 };  // item cuts tried per way: two per operand and the plain one

static int32_t axis_of(int32_t slot) {
  return slot == 0 ? SHOAL_AXIS_MICRO : slot - 1;
}

// Does the cut `inner` count inside chunks of `outer`'s units? Then it must be written after it: a
// unit of 64 columns cut 12 * 64 -> 12 * 32 could not be found again in what the finer cut leaves.
static bool finer(const shoal_cut_t *inner, const shoal_cut_t *outer, const shoal_shape_t *shape) {
  if (inner->kind != SHOAL_CUT_DIM || outer->kind != SHOAL_CUT_DIM || inner->dim != outer->dim)
    return false;
  if (inner->chunk_count < 2 || outer->chunk_count >= inner->chunk_count || outer->unit < 2)
    return false;
  int64_t length = shape->dims[inner->dim];
  if (inner->chunks[0].length == 0) return outer->unit % (length / inner->chunk_count) == 0;
  int64_t end = 0, due = outer->unit;  // every unit must end where a chunk does
  for (int32_t i = 0; i < inner->chunk_count && end < length; ++i) {
    end += inner->chunks[i].length;
    if (end > due && due < length) return false;
    if (end == due) due += outer->unit;
  }
  return true;
}

shoal_status_t shoal_plan_operand(const shoal_plan_t *plan, const shoal_graph_plan_t *graph,
                                  int32_t node, int32_t operand, shoal_layout_t *out_layout) {
  const shoal_node_t *info = &graph->graph->nodes.items[node];
  const shoal_node_plan_t *np = &graph->nodes[node];
  int32_t value = operand < info->input_count ? info->inputs[operand]
                                              : info->outputs[operand - info->input_count];
  const shoal_shape_t *shape = &graph->graph->values.items[value].type.shape;
  memset(out_layout, 0, sizeof *out_layout);
  out_layout->mesh = &plan->meshes[np->mesh];
  shoal_cut_t flats[SHOAL_PLAN_SLOTS];
  int32_t flat_count = 0;
  for (int32_t slot = 0; slot <= out_layout->mesh->axis_count; ++slot) {
    const shoal_choice_t *choice = &np->choices[slot];
    if (!choice->way) continue;
    bool cuts = false;
    shoal_cut_t cut = {0};
    SHOAL_RETURN_IF_ERROR(
        shoal_way_cut(choice->way, operand, shape, axis_of(slot), &choice->item_cut, &cuts, &cut));
    if (!cuts) continue;
    if (cut.kind == SHOAL_CUT_FLAT) {
      flats[flat_count++] = cut;
      continue;
    }
    // In front of the first cut that is finer along the same dim; micro stays first.
    int32_t at = 0, count = out_layout->cut_count++;
    while (at < count && (out_layout->cuts[at].axis == SHOAL_AXIS_MICRO ||
                          !finer(&out_layout->cuts[at], &cut, shape)))
      ++at;
    for (int32_t i = count; i > at; --i) out_layout->cuts[i] = out_layout->cuts[i - 1];
    out_layout->cuts[at] = cut;
  }
  for (int32_t i = 0; i < flat_count; ++i) out_layout->cuts[out_layout->cut_count++] = flats[i];
  return NULL;
}

shoal_status_t shoal_plan_set_outputs(shoal_plan_t *plan, shoal_graph_plan_t *graph, int32_t node) {
  const shoal_node_t *info = &graph->graph->nodes.items[node];
  for (int32_t o = 0; o < info->output_count; ++o)
    SHOAL_RETURN_IF_ERROR(shoal_plan_operand(plan, graph, node, info->input_count + o,
                                             &graph->values[info->outputs[o]]));
  return NULL;
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
  int32_t mesh, slot;
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
  const shoal_node_plan_t *np = &c->graph->nodes[c->node - c->graph->graph->nodes.items];
  const shoal_way_t *micro = np->choices[0].way;
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
// name.
static shoal_status_t find_pins(chooser_t *c, shoal_layout_t *pins, bool *pinned) {
  for (int32_t o = 0; o < c->node->output_count; ++o) {
    int32_t value = c->node->outputs[o];
    const shoal_value_info_t *info = &c->graph->graph->values.items[value];
    pinned[o] = false;
    const shoal_intent_entry_t *entry =
        shoal_intent_find(c->plan->intent.layout_count, c->plan->intent.layouts, info->name);
    if (entry && strcmp(entry->pattern, "*") != 0) {
      pinned[o] = true;
      SHOAL_RETURN_IF_ERROR(shoal_plan_parse_layout(c->plan, entry->value, c->mesh, info->name,
                                                    &info->type.shape, &pins[o]));
      continue;
    }
    for (int64_t a = 0; a < c->graph->graph->assigns.count; ++a)
      if (c->graph->graph->assigns.items[a].value == value) {
        pinned[o] = true;
        pins[o] = c->plan->states[c->graph->graph->assigns.items[a].state];
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
static bool nests(const shoal_way_t *outer, const shoal_way_t *inner) {
  bool same_dim = false, offset = false, alike = true, product = true;
  for (int32_t k = 0; k < outer->input_count + outer->output_count; ++k) {
    const shoal_way_operand_t *a = &outer->operands[k], *b = &inner->operands[k];
    offset |= is_offset(a) || is_offset(b);
    alike &= follow_alike(a, b);
    if (!both_cut(a, b)) continue;
    same_dim = true;
    product &= holds_all(a, b, inner->items) || holds_all(b, a, outer->items);
  }
  return !same_dim || (!offset && (alike || product));
}

static void drop_what_does_not_nest(shoal_node_plan_t *np, int32_t slots) {
  for (int32_t inner = 1; inner < slots; ++inner)
    for (int32_t outer = 0; outer < inner; ++outer)
      if (np->choices[outer].way && np->choices[inner].way &&
          !nests(np->choices[outer].way, np->choices[inner].way))
        np->choices[inner].way = NULL;
}

// Drops choices, innermost first, until every operand's layout is one the algebra allows (halo
// meets chunks, a dim cut twice by different items ...).
static shoal_status_t make_legal(chooser_t *c, int32_t node) {
  shoal_node_plan_t *np = &c->graph->nodes[node];
  int32_t slots = c->plan->meshes[c->mesh].axis_count + 1;
  for (int32_t drop = slots; drop >= 0; --drop) {
    shoal_status_t status = NULL;
    for (int32_t k = 0; k < c->node->input_count + c->node->output_count && !status; ++k) {
      shoal_layout_t layout;
      status = shoal_plan_operand(c->plan, c->graph, node, k, &layout);
      if (!status) status = shoal_layout_check(&layout, &c->operands[k].type->shape);
    }
    if (!status) return NULL;
    if (drop == 0 || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY)
      return shoal_status_annotatef(status, "while completing node '%s'", c->node->name);
    shoal_status_free(status);
    np->choices[drop - 1].way = NULL;
  }
  return NULL;
}

static shoal_status_t complete_node(shoal_plan_t *plan, shoal_graph_plan_t *graph, int32_t index,
                                    shoal_arena_t *scratch) {
  const shoal_node_t *node = &graph->graph->nodes.items[index];
  shoal_node_plan_t *np = &graph->nodes[index];
  chooser_t c = {.plan = plan, .graph = graph, .node = node, .mesh = np->mesh};
  int32_t count = node->input_count + node->output_count;
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph->graph, node, scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &c.rule));
  c.operands = SHOAL_NEW(scratch, operand_view_t, count);
  shoal_layout_t *pins = SHOAL_NEW(scratch, shoal_layout_t, node->output_count);
  bool *pinned = SHOAL_NEW(scratch, bool, node->output_count);
  if (!c.operands || !pins || !pinned) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_pins(&c, pins, pinned));
  for (int32_t k = 0; k < count; ++k) {
    operand_view_t *view = &c.operands[k];
    view->type = k < node->input_count ? &call.inputs[k] : &call.outputs[k - node->input_count];
    view->bytes = (double)shoal_shape_count(&view->type->shape) *
                      (double)shoal_dtype_size(view->type->dtype) +
                  1;
    if (view->bytes > c.largest) c.largest = view->bytes;
  }
  for (c.slot = 0; c.slot <= plan->meshes[c.mesh].axis_count; ++c.slot) {
    np->choices[c.slot] = (shoal_choice_t){0};
    if (c.slot == 0 ? plan->micro < 2 : plan->meshes[c.mesh].axes[c.slot - 1].size < 2) continue;
    for (int32_t k = 0; k < count; ++k) {
      operand_view_t *view = &c.operands[k];
      bool input = k < node->input_count;
      view->pinned = !input && pinned[k - node->input_count];
      const shoal_layout_t *layout =
          input ? &graph->values[node->inputs[k]] : &pins[k - node->input_count];
      view->elsewhere = input && layout->mesh != &plan->meshes[c.mesh];
      view->cut = input || view->pinned ? cut_along(&c, layout, &view->storage) : NULL;
    }
    np->choices[c.slot] = choose(&c);
  }
  drop_what_does_not_nest(np, plan->meshes[c.mesh].axis_count + 1);
  SHOAL_RETURN_IF_ERROR(make_legal(&c, index));
  return shoal_plan_set_outputs(plan, graph, index);
}

shoal_status_t shoal_plan_complete(shoal_plan_t *plan, shoal_graph_plan_t *graph) {
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = NULL;
  for (int32_t n = 0; n < graph->graph->nodes.count && !status; ++n)
    status = complete_node(plan, graph, n, &scratch);
  shoal_arena_deinit(&scratch);
  if (status) return shoal_status_annotatef(status, "graph '%s'", graph->graph->name);
  return NULL;
}
