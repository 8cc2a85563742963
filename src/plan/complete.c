// Completion by propagation: nodes in topological order, each as choose.c chooses for it.
// Strategies steer it by pinning states, inputs and values and by decisions about ways; `auto`
// compares whole plans.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/composite.h"
#include "plan/early.h"
#include "plan/gradients.h"
#include "plan/sparse.h"

// ---- nodes that are alike --------------------------------------------------------------

// What a node's decision depends on: its rule, its mesh, the layouts that its inputs are in and its
// outputs are pinned to, where gradients go, what the intent says about its ways, in which types
// operands are exchanged, whether rows or sums of rows are, and where it stands to the loop over
// micro-batches. The rule stands for op, attributes and types.
typedef struct seen {
  const shoal_rule_t *rule;
  int32_t mesh, count, input_count;
  const shoal_layout_t **layouts;
  const shoal_layout_t **homes;  // by input; NULL: of no gradient
  shoal_dtype_t *exchanged;      // by operand; NULL: all in their own type
  shoal_late_t late;
  bool early;
  bool gathers;                 // it adds up rows that are sent to all ranks
  const shoal_row_sum_t *rows;  // of a node that may be made one; NULL: of others
  uint64_t loose;               // bit o: the pin of output o says nothing about micro
  const shoal_intent_decision_t *constrained;  // who says that it has the layout of its pin
  const shoal_intent_decision_t *decided[SHOAL_PLAN_SLOTS];
  const shoal_decision_t *decision;
  const shoal_why_t *why;
  const shoal_layout_t **phased;  // its outputs, if the composite way is cheaper; else NULL
} seen_t;

typedef struct completion {
  shoal_plan_t *plan;
  shoal_graph_plan_t *graph;
  shoal_arena_t *arena;          // of this completion
  bool parts;                    // the graph is one of parts
  bool *late;                    // by value: known only behind the loop over micro-batches
  bool *early;                   // by node: runs before that loop
  const shoal_layout_t **homes;  // by value: where a gradient goes; NULL: nowhere has cuts
  shoal_index_t index;
  SHOAL_VEC(seen_t) seen;
} completion_t;

static uint64_t hash_seen(const seen_t *seen) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, (int64_t)(intptr_t)seen->rule);
  hash = shoal_hash_int(shoal_hash_int(hash, seen->mesh),
                        4 * seen->late + 2 * seen->gathers + seen->early);
  if (seen->loose) hash = shoal_hash_int(hash, (int64_t)seen->loose);
  for (int slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot)
    if (seen->decided[slot]) hash = shoal_hash_int(hash, (int64_t)(intptr_t)seen->decided[slot]);
  if (seen->exchanged)
    hash = shoal_hash_bytes(hash, seen->exchanged, (size_t)seen->count * sizeof *seen->exchanged);
  if (seen->homes)
    hash = shoal_hash_bytes(hash, seen->homes, (size_t)seen->input_count * sizeof *seen->homes);
  return shoal_hash_bytes(hash, seen->layouts, (size_t)seen->count * sizeof *seen->layouts);
}

static bool same_rows(const shoal_row_sum_t *a, const shoal_row_sum_t *b) {
  if (!a || !b) return a == b;
  return a->by_cost == b->by_cost && a->home == b->home && a->times == b->times;
}

// An earlier node that is alike in everything that counts, or NULL.
static const seen_t *find_seen(const completion_t *all, const seen_t *seen, uint64_t hash,
                               const shoal_call_t *call) {
  for (int64_t at = -1, n; (n = shoal_index_next(&all->index, hash, &at)) >= 0;) {
    const seen_t *other = &all->seen.items[n];
    if (other->rule != seen->rule || other->mesh != seen->mesh || other->count != seen->count ||
        other->late != seen->late || other->early != seen->early || other->loose != seen->loose ||
        other->gathers != seen->gathers || !same_rows(other->rows, seen->rows) ||
        memcmp(other->layouts, seen->layouts, (size_t)seen->count * sizeof *seen->layouts) != 0 ||
        memcmp(other->decided, seen->decided, sizeof seen->decided) != 0 ||
        (other->homes != NULL) != (seen->homes != NULL) ||
        (seen->homes &&
         memcmp(other->homes, seen->homes, (size_t)seen->input_count * sizeof *seen->homes) != 0) ||
        (seen->exchanged && memcmp(other->exchanged, seen->exchanged,
                                   (size_t)seen->count * sizeof *seen->exchanged) != 0))
      continue;
    // Rules may be shared between sizes.
    bool same = true;
    for (int32_t k = 0; k < seen->count && same; ++k) {
      const shoal_type_t *type =
          k < call->input_count ? &call->inputs[k] : &call->outputs[k - call->input_count];
      same = shoal_type_equal(type, &other->decision->types[k]);
    }
    if (same) return other;
  }
  return NULL;
}

// What shoal.constrain wants of a value that it reads; NULL: nothing, or on another mesh.
static shoal_status_t find_wanted(shoal_plan_t *plan, const shoal_graph_plan_t *graph,
                                  int32_t value, int32_t mesh, const shoal_layout_t **out_pin) {
  const int32_t reader = graph->constrainers ? graph->constrainers[value] : -1;
  *out_pin = NULL;
  if (reader < 0 || graph->nodes[reader].mesh != mesh) return NULL;
  return shoal_plan_pin_constrained(plan, graph, reader, out_pin);
}

static uint64_t loose_bit(const shoal_layout_t *pin, int32_t output) {
  const bool loose = pin && output < 64 && !shoal_layout_along(pin, SHOAL_AXIS_MICRO);
  return (uint64_t)loose << (output & 63);
}

shoal_status_t shoal_plan_find_pins(shoal_plan_t *plan, const shoal_graph_plan_t *graph, int32_t n,
                                    const shoal_layout_t **out_pins, uint64_t *out_loose) {
  const shoal_node_t *node = &graph->graph->nodes.items[n];
  const int32_t mesh = graph->nodes[n].mesh;
  *out_loose = 0;
  if (node->op->constrains) {
    SHOAL_RETURN_IF_ERROR(shoal_plan_pin_constrained(plan, graph, n, out_pins));
    *out_loose = loose_bit(out_pins[0], 0);
    return NULL;
  }
  for (int32_t o = 0; o < node->output_count; ++o) {
    int32_t value = node->outputs[o];
    const shoal_value_info_t *info = &graph->graph->values.items[value];
    out_pins[o] = NULL;
    const shoal_intent_decision_t *entry = shoal_plan_decided_value(plan, graph->graph, info->name);
    if (entry && strcmp(entry->pattern, "*") != 0) {
      SHOAL_RETURN_IF_ERROR(shoal_plan_parse_layout(plan, entry->choice, mesh, info->name,
                                                    &info->type.shape, &out_pins[o]));
    } else if (graph->assigned[value] >= 0) {
      out_pins[o] = plan->states[graph->assigned[value]];
    } else {
      SHOAL_RETURN_IF_ERROR(find_wanted(plan, graph, value, mesh, &out_pins[o]));
      *out_loose |= loose_bit(out_pins[o], o);
    }
  }
  return NULL;
}

shoal_status_t shoal_plan_find_ways(const shoal_plan_t *plan, const char *name, int32_t m,
                                    const shoal_intent_decision_t **out_decided) {
  const shoal_mesh_t *mesh = &plan->meshes[m];
  for (int64_t w = 0; w < plan->way_count; ++w) {
    const shoal_way_decisions_t *ways = &plan->ways[w];
    const shoal_intent_decision_t *found = shoal_patterns_find(ways->patterns, name);
    if (!found) continue;
    const int32_t slot =
        strcmp(ways->axis, "micro") == 0 ? 0 : shoal_mesh_axis(mesh, ways->axis) + 1;
    const bool micro = strcmp(ways->axis, "micro") == 0;
    shoal_status_t status = NULL;
    if (slot == 0 && !micro)
      status = SHOAL_ERROR(INVALID_ARGUMENT, "node '%s' runs on mesh '%s', which has no axis '%s'",
                           name, mesh->name, ways->axis);
    else if (micro ? plan->micro < 2 : mesh->axes[slot - 1].size < 2)
      status = SHOAL_ERROR(INVALID_ARGUMENT,
                           "about node '%s': along '%s' there is one part and nothing to cut", name,
                           ways->axis);
    if (status) return shoal_decision_annotate(found, status);
    out_decided[slot] = found;
  }
  return NULL;
}

// The same for a node of the plan. That a node is composite says nothing about the ways of its
// parts; that it is whole along an axis does.
static shoal_status_t find_ways(const completion_t *all, int32_t n,
                                const shoal_intent_decision_t **decided) {
  if (all->plan->way_count == 0) return NULL;
  const shoal_composite_t *owner = shoal_plan_owner(all->plan, all->graph, n);
  const shoal_intent_decision_t *of_owner[SHOAL_PLAN_SLOTS] = {0};
  const int32_t mesh = all->graph->nodes[n].mesh;
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_find_ways(all->plan, all->graph->graph->nodes.items[n].name, mesh, decided));
  if (owner)
    SHOAL_RETURN_IF_ERROR(shoal_plan_find_ways(
        all->plan, shoal_composite_node(all->plan, owner)->name, mesh, of_owner));
  for (int slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
    const bool later = of_owner[slot] && decided[slot] && of_owner[slot] > decided[slot];
    if (later || !decided[slot]) decided[slot] = of_owner[slot];
    if (decided[slot] && shoal_choice_is_composite(decided[slot]->choice)) decided[slot] = NULL;
  }
  return NULL;
}

// Does a decision leave parts of a sum on ranks?
static bool leaves_sum(const shoal_layout_t *layout) {
  bool found = false;
  for (int32_t i = 0; i < layout->cut_count && !found; ++i)
    found = layout->cuts[i].kind == SHOAL_CUT_PARTIAL && layout->cuts[i].axis != SHOAL_AXIS_MICRO;
  return found;
}

// May the composite way of a node be weighed against the ways that were chosen? Only those move
// anything that cost something.
static bool may_be_composite(const completion_t *all, int32_t index, const seen_t *seen) {
  const shoal_node_t *node = &all->graph->graph->nodes.items[index];
  if (all->parts || seen->early || !node->op->decompose ||
      shoal_plan_owner(all->plan, all->graph, index))
    return false;
  bool moves = false, decided = seen->decided[0] != NULL;
  for (int32_t slot = 1; slot <= all->plan->meshes[seen->mesh].axis_count; ++slot) {
    moves |= seen->why[slot].cost > 0;
    decided |= seen->decided[slot] != NULL;
  }
  if (node->op->sparse)
    moves = seen->rows && seen->rows->by_cost &&
            leaves_sum(seen->decision->operands[node->input_count]);
  return moves && !decided && !shoal_plan_decided(all->plan, SHOAL_DECIDE_EXPAND, node->name);
}

// The same for a node that makes a sum of rows: sending rows is weighed against adding up sums.
static shoal_status_t weigh_rows(completion_t *all, int32_t index, seen_t *seen, shoal_why_t *why,
                                 const shoal_weighed_t *weighed) {
  const shoal_node_t *node = &all->graph->graph->nodes.items[index];
  const shoal_layout_t *sum = seen->decision->operands[node->input_count];
  const shoal_type_t *type = &seen->decision->types[node->input_count];
  const int32_t slots = all->plan->meshes[seen->mesh].axis_count + 1;
  double added[SHOAL_PLAN_SLOTS] = {0}, sent[SHOAL_PLAN_SLOTS] = {0}, whole = 0, rows = 0;
  int32_t axes = 0;
  for (int32_t slot = 1; slot < slots; ++slot) {
    added[slot] = shoal_sparse_sum_cost(seen->rows, sum, type, slot - 1);
    sent[slot] = shoal_sparse_send_cost(weighed->outputs[0], weighed->costs[slot]);
    whole += why[slot].cost + added[slot];
    rows += sent[slot];
    axes += sent[slot] > 0;
  }
  if (shoal_sparse_pays(whole, rows, axes) && !all->plan->settled) {
    seen->phased = shoal_arena_copy(all->arena, weighed->outputs, (size_t)node->output_count,
                                    sizeof *weighed->outputs);
    return seen->phased ? NULL : SHOAL_OOM();
  }
  for (int32_t slot = 1; slot < slots; ++slot) {
    if (added[slot] == 0) continue;
    why[slot].cost += added[slot];
    why[slot].rows = true;
    why[slot].runner_up_composite = true;
    why[slot].runner_up_cost = sent[slot];
  }
  return NULL;
}

// Weighs the composite way of a node: it wins, or it may be the next best along an axis.
static shoal_status_t weigh(completion_t *all, int32_t index, seen_t *seen, shoal_why_t *why,
                            shoal_arena_t *scratch) {
  const shoal_node_t *node = &all->graph->graph->nodes.items[index];
  const int32_t slots = all->plan->meshes[seen->mesh].axis_count + 1;
  shoal_weighed_t weighed;
  SHOAL_RETURN_IF_ERROR(
      shoal_composite_weigh(all->plan, all->graph, index, seen->layouts, scratch, &weighed));
  if (!weighed.possible) return NULL;
  if (node->op->sparse) return weigh_rows(all, index, seen, why, &weighed);
  double whole =
      shoal_unreduced_cost(all->graph, node, seen->decision->operands + node->input_count,
                           seen->layouts + node->input_count);
  for (int32_t slot = 0; slot < slots; ++slot) whole += why[slot].cost;
  if (weighed.total < whole && !all->plan->settled) {
    seen->phased = shoal_arena_copy(all->arena, weighed.outputs, (size_t)node->output_count,
                                    sizeof *weighed.outputs);
    return seen->phased ? NULL : SHOAL_OOM();
  }
  double reduced = weighed.total;  // what its outputs cost, which merged ones have in their costs
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) reduced -= weighed.costs[slot];
  for (int32_t slot = 0; slot < slots; ++slot) {
    const double cost = weighed.costs[slot] + (why[slot].merged ? reduced : 0);
    if (!weighed.cuts[slot] || why[slot].cost == 0 || cost >= why[slot].runner_up_cost) continue;
    why[slot].runner_up_composite = true;
    why[slot].runner_up_cost = cost;
  }
  return NULL;
}

static shoal_status_t choose_anew(completion_t *all, int32_t index, const shoal_call_t *call,
                                  seen_t *seen, shoal_arena_t *scratch) {
  const shoal_chooser_node_t of = {.node = &all->graph->graph->nodes.items[index],
                                   .call = call,
                                   .rule = seen->rule,
                                   .mesh = seen->mesh,
                                   .layouts = seen->layouts,
                                   .loose = seen->loose,
                                   .constrained = seen->constrained,
                                   .late = seen->late,
                                   .early = seen->early,
                                   .gathers = seen->gathers,
                                   .exchanged = seen->exchanged,
                                   .homes = seen->homes,
                                   .decided = seen->decided};
  shoal_choice_t choices[SHOAL_PLAN_SLOTS];
  const int32_t slots = all->plan->meshes[seen->mesh].axis_count + 1;
  shoal_why_t *why = SHOAL_NEW(&all->plan->arena, shoal_why_t, slots);
  if (!why) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_plan_choose(all->plan, &of, scratch, choices, why));
  SHOAL_RETURN_IF_ERROR(shoal_plan_decide(all->plan, all->graph, index, choices));
  seen->decision = all->graph->nodes[index].decision;
  seen->why = why;
  return may_be_composite(all, index, seen) ? weigh(all, index, seen, why, scratch) : NULL;
}

// Outputs that are not made once per micro-batch, of inputs some of which are, or which are late
// themselves, are late.
static void note_late(const completion_t *all, const shoal_node_t *node, const seen_t *seen) {
  bool behind = seen->late != SHOAL_LATE_NOT;
  for (int32_t i = 0; i < node->input_count && !seen->early; ++i)
    behind |= shoal_layout_along(all->graph->values[node->inputs[i]], SHOAL_AXIS_MICRO) != NULL;
  for (int32_t o = 0; o < node->output_count; ++o) {
    const int32_t value = node->outputs[o];
    all->late[value] = behind && !shoal_layout_along(all->graph->values[value], SHOAL_AXIS_MICRO);
  }
}

// Gives a node the decision of another that is alike, or its own.
static void take(completion_t *all, int32_t index, const seen_t *seen) {
  shoal_plan_t *plan = all->plan;
  shoal_graph_plan_t *graph = all->graph;
  const shoal_node_t *node = &graph->graph->nodes.items[index];
  graph->nodes[index].decision = seen->decision;
  graph->nodes[index].why = seen->why;
  for (int32_t o = 0; o < node->output_count; ++o)
    graph->values[node->outputs[o]] =
        seen->phased ? seen->phased[o] : seen->decision->operands[node->input_count + o];
  note_late(all, node, seen);
  if (!seen->phased) return;
  const int64_t g = graph - plan->graphs;
  plan->phased[g][plan->expansion.sources ? plan->expansion.sources[g][index] : index] = true;
  ++plan->found;
}

static shoal_status_t find_exchanged(const shoal_graph_plan_t *graph, const shoal_node_t *node,
                                     seen_t *seen, shoal_arena_t *arena) {
  if (!graph->exchanged) return NULL;
  seen->exchanged = SHOAL_NEW(arena, shoal_dtype_t, seen->count);
  if (!seen->exchanged) return SHOAL_OOM();
  for (int32_t k = 0; k < seen->count; ++k)
    seen->exchanged[k] =
        graph->exchanged[k < node->input_count ? node->inputs[k]
                                               : node->outputs[k - node->input_count]];
  return NULL;
}

// Only updates may scatter: before them a gradient is still summed over micro-batches.
static shoal_status_t find_homes(const completion_t *all, const shoal_node_t *node, seen_t *seen) {
  bool any = false;
  for (int32_t i = 0; i < node->input_count && all->homes; ++i)
    any |= all->homes[node->inputs[i]] != NULL;
  if (!any || node->kind != SHOAL_NODE_UPDATE) return NULL;
  seen->homes = SHOAL_NEW(all->arena, const shoal_layout_t *, node->input_count);
  if (!seen->homes) return SHOAL_OOM();
  for (int32_t i = 0; i < node->input_count; ++i) seen->homes[i] = all->homes[node->inputs[i]];
  return NULL;
}

// Such a node is like no other: its errors name the line that constrains it. What a person decides
// about its ways wins.
static shoal_status_t complete_constrained(completion_t *all, int32_t index,
                                           const shoal_call_t *call, seen_t *seen,
                                           shoal_arena_t *scratch) {
  bool decided = false;
  for (int slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) decided |= seen->decided[slot] != NULL;
  const shoal_layout_t *pin = seen->layouts[call->input_count];
  shoal_status_t status = NULL;
  if (seen->late != SHOAL_LATE_NOT && shoal_layout_along(pin, SHOAL_AXIS_MICRO))
    status = SHOAL_ERROR(UNSUPPORTED, "it is known only when all micro-batches are done");
  if (!status) status = choose_anew(all, index, call, seen, scratch);
  if (!status) take(all, index, seen);
  if (!status && !decided) status = shoal_plan_check_constrained(all->graph, index, pin, scratch);
  if (decided) return status;
  return shoal_plan_blame_constraint(all->graph, index, seen->constrained, status);
}

static shoal_status_t complete_node(completion_t *all, int32_t index, shoal_arena_t *scratch) {
  shoal_graph_plan_t *graph = all->graph;
  const shoal_node_t *node = &graph->graph->nodes.items[index];
  shoal_call_t call;
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph->graph, node, scratch, &call));
  seen_t seen = {.mesh = graph->nodes[index].mesh,
                 .count = node->input_count + node->output_count,
                 .input_count = node->input_count};
  seen.early = all->early[index];
  seen.gathers =
      node->op->sparse && (all->parts || shoal_plan_owner(all->plan, graph, index) != NULL);
  if (node->op->sparse && graph->rows) seen.rows = &graph->rows[index];
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(all->plan->rules, &call, &seen.rule));
  seen.layouts = SHOAL_NEW(scratch, const shoal_layout_t *, seen.count);
  if (!seen.layouts) return SHOAL_OOM();
  for (int32_t i = 0; i < node->input_count; ++i) {
    seen.layouts[i] = graph->values[node->inputs[i]];
    if (all->late[node->inputs[i]])
      seen.late = node->kind == SHOAL_NODE_UPDATE ? SHOAL_LATE_ALL : SHOAL_LATE_SUMS;
  }
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_find_pins(all->plan, graph, index, seen.layouts + node->input_count, &seen.loose));
  SHOAL_RETURN_IF_ERROR(find_ways(all, index, seen.decided));
  SHOAL_RETURN_IF_ERROR(find_exchanged(graph, node, &seen, scratch));
  SHOAL_RETURN_IF_ERROR(find_homes(all, node, &seen));
  SHOAL_RETURN_IF_ERROR(shoal_plan_constrained(all->plan, graph, index, &seen.constrained));
  if (seen.constrained) return complete_constrained(all, index, &call, &seen, scratch);
  const uint64_t hash = hash_seen(&seen);
  const seen_t *alike = find_seen(all, &seen, hash, &call);
  if (alike) {
    take(all, index, alike);
    return NULL;
  }
  SHOAL_RETURN_IF_ERROR(choose_anew(all, index, &call, &seen, scratch));
  take(all, index, &seen);
  seen.layouts =
      shoal_arena_copy(all->arena, seen.layouts, (size_t)seen.count, sizeof *seen.layouts);
  if (seen.exchanged)
    seen.exchanged =
        shoal_arena_copy(all->arena, seen.exchanged, (size_t)seen.count, sizeof *seen.exchanged);
  if (graph->exchanged && !seen.exchanged) return SHOAL_OOM();
  if (!seen.layouts || !shoal_index_add(&all->index, hash, all->seen.count) ||
      !SHOAL_PUSH(all->arena, &all->seen, seen))
    return SHOAL_OOM();
  return NULL;
}

static shoal_status_t complete_all(completion_t *all) {
  const shoal_graph_t *graph = all->graph->graph;
  for (int32_t n = 0; n < graph->nodes.count; ++n) {
    shoal_arena_t scratch;
    shoal_arena_init(all->plan->allocator, &scratch);
    shoal_status_t status = complete_node(all, n, &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  return NULL;
}

static shoal_status_t complete(shoal_plan_t *plan, shoal_graph_plan_t *graph, bool parts) {
  shoal_arena_t arena;
  shoal_arena_init(plan->allocator, &arena);
  completion_t all = {.plan = plan, .graph = graph, .arena = &arena, .parts = parts};
  shoal_index_init(&arena, &all.index);
  all.late = SHOAL_NEW(&arena, bool, graph->graph->values.count);
  all.early = SHOAL_NEW(&arena, bool, graph->graph->nodes.count);
  shoal_status_t status = all.late && all.early ? NULL : SHOAL_OOM();
  if (!status && !parts) status = shoal_sparse_find(plan, graph);
  if (!status && !parts) status = shoal_plan_find_homes(plan, graph, &arena, &all.homes);
  for (bool more = true; more && !status;) {  // ends: each turn marks nodes that were not
    more = false;
    status = complete_all(&all);
    if (!status && !parts) status = shoal_early_mark(plan, graph, all.late, all.early, &more);
  }
  shoal_arena_deinit(&arena);
  if (status) return shoal_status_annotatef(status, "graph '%s'", graph->graph->name);
  return NULL;
}

shoal_status_t shoal_plan_complete(shoal_plan_t *plan, shoal_graph_plan_t *graph) {
  return complete(plan, graph, false);
}

shoal_status_t shoal_plan_complete_parts(shoal_plan_t *plan, shoal_graph_plan_t *graph) {
  return complete(plan, graph, true);
}
