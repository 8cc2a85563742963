// Composite ways. An op that no way cuts along a dim may still be computed in phases: a softmax
// along a cut dim as maxima, sums and a division, with a small reduction between them. The phases
// are the op's decomposition. In a plan such a node is *composite*: parts stand for it in the
// plan's own copy of the model, each with a way like any other node. The model itself, its hash and
// its names stay as they are, and so do the names of the node's outputs.
//
// Completion weighs the parts' ways against those of the whole op, as if they were one more way.
#include "plan/composite.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/cut.h"
#include "plan/resolved.h"
#include "plan/sparse.h"

bool shoal_choice_is_composite(const char *choice) {
  const char *equals = strchr(choice, '=');
  if (equals) choice = equals + 1;
  choice += strspn(choice, " ");
  const size_t length = strcspn(choice, " ");
  return length == 9 && strncmp(choice, "composite", 9) == 0 &&
         !choice[length + strspn(choice + length, " ")];
}

// ---- asked for -------------------------------------------------------------------------

static shoal_status_t no_parts(const shoal_intent_decision_t *decision, const shoal_node_t *node) {
  return shoal_decision_annotate(
      decision, SHOAL_ERROR_HINT(UNSUPPORTED, "`shoal rules` says which ops have a composite way",
                                 "about node '%s': %s has no phases, so it has no composite way",
                                 node->name, node->op->name));
}

// Does the intent say that a node is composite, by its way or because its rows are to be exchanged
// (`rows`, or NULL)? Along other axes the parts decide, so that a way of the whole op along one of
// them cannot hold as well.
static shoal_status_t is_asked(const shoal_plan_t *plan, const shoal_node_t *node,
                               const shoal_intent_decision_t *rows, bool *out_asked) {
  const shoal_intent_decision_t *asked = rows, *other = NULL;
  for (int64_t w = 0; w < plan->way_count; ++w) {
    const shoal_intent_decision_t *found = shoal_patterns_find(plan->ways[w].patterns, node->name);
    if (!found) continue;
    if (shoal_choice_is_composite(found->choice))
      asked = found;
    else if (strchr(found->choice, '{'))
      other = found;
  }
  const shoal_intent_decision_t *expand = shoal_plan_decided(plan, SHOAL_DECIDE_EXPAND, node->name);
  *out_asked = asked || (expand && node->op->decompose && strcmp(expand->choice, "yes") == 0);
  if (asked && !node->op->decompose) return no_parts(asked, node);
  if (asked && other)
    return shoal_decision_annotate(
        other, SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                                "decide on the way of a part: `shoal explain` "
                                "lists them",
                                "node '%s' is composite by '%s', so that its parts have ways along "
                                "this axis, not the node",
                                node->name, asked->choice));
  return NULL;
}

static shoal_status_t copy_phased(shoal_plan_t *plan, bool *const *phased, shoal_arena_t *scratch,
                                  bool *out_any) {
  const int64_t count = plan->original->graphs.count;
  plan->phased = SHOAL_NEW(&plan->arena, bool *, count);
  if (!plan->phased) return SHOAL_OOM();
  for (int64_t g = 0; g < count; ++g) {
    const shoal_graph_t *graph = plan->original->graphs.items[g];
    bool *mine = plan->phased[g] = SHOAL_NEW(&plan->arena, bool, graph->nodes.count);
    const shoal_intent_decision_t **rows =
        SHOAL_NEW(scratch, const shoal_intent_decision_t *, graph->nodes.count);
    if (!mine || !rows) return SHOAL_OOM();
    if (!phased) SHOAL_RETURN_IF_ERROR(shoal_sparse_ask(plan, g, scratch, rows));
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      if (phased)
        mine[n] = phased[g][n];
      else
        SHOAL_RETURN_IF_ERROR(is_asked(plan, &graph->nodes.items[n], rows[n], &mine[n]));
      *out_any |= mine[n];
    }
  }
  return NULL;
}

shoal_status_t shoal_composites_expand(shoal_plan_t *plan, bool *const *phased) {
  bool any = false;
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = copy_phased(plan, phased, &scratch, &any);
  shoal_arena_deinit(&scratch);
  if (status || !any) return status;
  SHOAL_RETURN_IF_ERROR(shoal_model_expand_nodes(plan->original, (const bool *const *)plan->phased,
                                                 &plan->arena, &plan->expansion,
                                                 &plan->owned_model));
  plan->model = plan->owned_model;
  for (int32_t g = 0; g < plan->model->graphs.count; ++g) {
    const int64_t count = plan->model->graphs.items[g]->nodes.count;
    const int32_t *sources = plan->expansion.sources[g];
    for (int32_t n = 0, next; n < count; n = next) {
      for (next = n + 1; next < count && sources[next] == sources[n];) ++next;
      const shoal_composite_t one = {.graph = g, .node = sources[n], .first = n, .count = next - n};
      if (plan->phased[g][sources[n]] && !SHOAL_PUSH(&plan->arena, &plan->composites, one))
        return SHOAL_OOM();
    }
  }
  return NULL;
}

shoal_status_t shoal_composites_own(shoal_plan_t *plan, int64_t graph) {
  if (plan->composites.count == 0) return NULL;
  const int64_t count = plan->model->graphs.items[graph]->nodes.count;
  int32_t *owners = SHOAL_NEW(&plan->arena, int32_t, count);
  if (!owners) return SHOAL_OOM();
  for (int64_t n = 0; n < count; ++n) owners[n] = -1;
  for (int32_t c = 0; c < plan->composites.count; ++c) {
    const shoal_composite_t *composite = &plan->composites.items[c];
    for (int32_t i = 0; composite->graph == graph && i < composite->count; ++i)
      owners[composite->first + i] = c;
  }
  plan->graphs[graph].owners = owners;
  return NULL;
}

// ---- weighing --------------------------------------------------------------------------

double shoal_unreduced_cost(const shoal_graph_plan_t *graph, const shoal_node_t *node,
                            const shoal_layout_t *const *outputs,
                            const shoal_layout_t *const *pins) {
  double cost = 0;
  for (int32_t o = 0; o < node->output_count; ++o) {
    const shoal_type_t *type = &graph->graph->values.items[node->outputs[o]].type;
    for (int32_t c = 0; !pins[o] && c < outputs[o]->cut_count; ++c)
      if (outputs[o]->cuts[c].kind == SHOAL_CUT_PARTIAL &&
          outputs[o]->cuts[c].axis != SHOAL_AXIS_MICRO &&
          outputs[o]->cuts[c].reduce != SHOAL_REDUCE_LSE)
        cost += 2 * (double)shoal_shape_count(&type->shape) * (double)shoal_dtype_size(type->dtype);
  }
  return cost;
}

// The parts of a node as a graph of their own, with what is known about its operands.
static shoal_status_t plan_parts(shoal_plan_t *plan, const shoal_graph_plan_t *from, int32_t n,
                                 const shoal_layout_t *const *layouts, const shoal_graph_t *parts,
                                 const int32_t *operands, shoal_arena_t *scratch,
                                 shoal_graph_plan_t *out_graph) {
  const shoal_node_t *node = &from->graph->nodes.items[n];
  shoal_graph_plan_t *gp = out_graph;
  *gp = (shoal_graph_plan_t){.graph = parts};
  gp->nodes = SHOAL_NEW(scratch, shoal_node_plan_t, parts->nodes.count);
  gp->values = SHOAL_NEW(scratch, const shoal_layout_t *, parts->values.count);
  gp->assigned = SHOAL_NEW(scratch, int32_t, parts->values.count);
  if (!gp->nodes || !gp->values || !gp->assigned) return SHOAL_OOM();
  for (int64_t i = 0; i < parts->nodes.count; ++i) gp->nodes[i].mesh = from->nodes[n].mesh;
  for (int64_t v = 0; v < parts->values.count; ++v) gp->assigned[v] = -1;
  for (int32_t k = 0; k < node->input_count; ++k) gp->values[operands[k]] = layouts[k];
  for (int32_t o = 0; o < node->output_count; ++o)
    gp->assigned[operands[node->input_count + o]] = from->assigned[node->outputs[o]];
  return shoal_plan_complete_parts(plan, gp);
}

static void add_costs(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int32_t first,
                      int32_t count, double *costs) {
  const int32_t slots = plan->meshes[gp->nodes[first].mesh].axis_count + 1;
  for (int32_t i = first; i < first + count; ++i)
    for (int32_t slot = 0; slot < slots; ++slot) costs[slot] += gp->nodes[i].why[slot].cost;
}

// Does a phase need what all micro-batches give to the phase before? Then the loop over them would
// have to run once for each.
static bool waits_for_micro(const shoal_graph_plan_t *gp) {
  bool waits = false;
  for (int64_t n = 0; n < gp->graph->nodes.count && !waits; ++n) {
    const shoal_node_t *part = &gp->graph->nodes.items[n];
    for (int32_t k = 0; k < part->input_count; ++k) {
      const int32_t value = part->inputs[k];
      waits |= gp->graph->values.items[value].source == SHOAL_FROM_NODE &&
               shoal_layout_along(gp->values[value], SHOAL_AXIS_MICRO) &&
               !shoal_layout_along(gp->nodes[n].decision->operands[k], SHOAL_AXIS_MICRO);
    }
  }
  return waits;
}

static shoal_status_t weigh(shoal_plan_t *plan, const shoal_graph_plan_t *graph, int32_t n,
                            const shoal_layout_t *const *layouts, const shoal_model_t *model,
                            const int32_t *operands, shoal_arena_t *scratch,
                            shoal_weighed_t *weighed) {
  const shoal_node_t *node = &graph->graph->nodes.items[n];
  const shoal_graph_t *parts = model->graphs.items[model->graphs.count - 1];
  shoal_graph_plan_t gp;
  if (parts->nodes.count == 0) return NULL;
  SHOAL_RETURN_IF_ERROR(plan_parts(plan, graph, n, layouts, parts, operands, scratch, &gp));
  weighed->possible = !waits_for_micro(&gp);
  for (int32_t o = 0; o < node->output_count; ++o)
    weighed->outputs[o] = gp.values[operands[node->input_count + o]];
  add_costs(plan, &gp, 0, (int32_t)parts->nodes.count, weighed->costs);
  weighed->total = shoal_unreduced_cost(graph, node, weighed->outputs, layouts + node->input_count);
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
    weighed->total += weighed->costs[slot];
    for (int64_t i = 0; i < parts->nodes.count; ++i)
      weighed->cuts[slot] |= gp.nodes[i].decision->choices[slot].way != NULL;
  }
  return NULL;
}

shoal_status_t shoal_composite_weigh(shoal_plan_t *plan, const shoal_graph_plan_t *graph,
                                     int32_t node, const shoal_layout_t *const *layouts,
                                     shoal_arena_t *scratch, shoal_weighed_t *out_weighed) {
  const shoal_node_t *whole = &graph->graph->nodes.items[node];
  *out_weighed = (shoal_weighed_t){.total = INFINITY};
  int32_t *operands = SHOAL_NEW(scratch, int32_t, whole->input_count + whole->output_count);
  out_weighed->outputs = SHOAL_NEW(scratch, const shoal_layout_t *, whole->output_count);
  if (!operands || !out_weighed->outputs) return SHOAL_OOM();
  shoal_model_t *parts = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_node_expand(graph->graph, whole, scratch, operands, &parts));
  shoal_status_t status = weigh(plan, graph, node, layouts, parts, operands, scratch, out_weighed);
  shoal_model_free(parts);
  // Parts that cannot be completed are no alternative; memory that is short is an error.
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  out_weighed->possible = false;
  return NULL;
}

// ---- judging ---------------------------------------------------------------------------

// Does a part add up rows that lie on several ranks along the axis of this slot? They are sent as
// they are, where the whole op would leave a sum.
static bool gathers_rows(const shoal_graph_plan_t *gp, int32_t n, int32_t slot) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  bool found = false;
  for (int32_t k = 0; node->op->sparse && slot > 0 && k < node->input_count && !found; ++k)
    found = shoal_layout_along(gp->values[node->inputs[k]], slot - 1) != NULL;
  return found;
}

bool shoal_composite_cuts(const shoal_plan_t *plan, const shoal_composite_t *composite,
                          int32_t slot) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  bool cuts = false;
  for (int32_t n = composite->first; n < composite->first + composite->count && !cuts; ++n)
    cuts = gp->nodes[n].decision->choices[slot].way || gathers_rows(gp, n, slot);
  return cuts;
}

// What completion would have chosen for the whole op; infinite costs where it could not.
static shoal_status_t choose_whole(shoal_plan_t *plan, const shoal_composite_t *composite,
                                   shoal_arena_t *scratch, shoal_choice_t *choices,
                                   shoal_why_t *why) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  const shoal_graph_t *graph = plan->original->graphs.items[composite->graph];
  const shoal_node_t *node = shoal_composite_node(plan, composite);
  const int32_t *images = plan->expansion.values[composite->graph];
  const int32_t count = node->input_count + node->output_count;
  const shoal_layout_t **layouts = SHOAL_NEW(scratch, const shoal_layout_t *, count);
  const shoal_rule_t *rule = NULL;
  shoal_call_t call;
  uint64_t loose = 0;
  if (!layouts) return SHOAL_OOM();
  for (int32_t k = 0; k < node->input_count; ++k) layouts[k] = gp->values[images[node->inputs[k]]];
  for (int32_t o = 0; o < node->output_count; ++o) {
    const shoal_value_info_t *value = &gp->graph->values.items[images[node->outputs[o]]];
    if (value->source != SHOAL_FROM_NODE) continue;
    const shoal_node_t *part = &gp->graph->nodes.items[value->node];
    const shoal_layout_t **pins = SHOAL_NEW(scratch, const shoal_layout_t *, part->output_count);
    if (!pins) return SHOAL_OOM();
    uint64_t bits = 0;
    SHOAL_RETURN_IF_ERROR(shoal_plan_find_pins(plan, gp, value->node, pins, &bits));
    layouts[node->input_count + o] = pins[value->output];
    if (o < 64 && value->output < 64) loose |= ((bits >> value->output) & 1) << o;
  }
  SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, scratch, &call));
  SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
  const shoal_chooser_node_t of = {.node = node,
                                   .call = &call,
                                   .rule = rule,
                                   .mesh = gp->nodes[composite->first].mesh,
                                   .layouts = layouts,
                                   .loose = loose};
  shoal_status_t status = shoal_plan_choose(plan, &of, scratch, choices, why);
  if (!status || shoal_status_code(status) == SHOAL_OUT_OF_MEMORY) return status;
  shoal_status_free(status);
  for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot)
    why[slot] = (shoal_why_t){.operand = -1, .cost = INFINITY};
  return NULL;
}

static shoal_status_t refuse_uncut(const shoal_plan_t *plan, const shoal_composite_t *composite,
                                   const shoal_intent_decision_t *decided, int32_t slot) {
  const shoal_node_t *node = shoal_composite_node(plan, composite);
  const shoal_mesh_t *mesh =
      &plan->meshes[plan->graphs[composite->graph].nodes[composite->first].mesh];
  return shoal_decision_annotate(
      decided,
      SHOAL_ERROR_HINT(INVALID_ARGUMENT, "cut what the node reads along that axis, by a layout",
                       "about node '%s': none of its %d parts can be cut along '%s' as what it "
                       "reads lies now",
                       node->name, composite->count, shoal_slot_name(mesh, slot)));
}

// Of a sum of rows: what it costs to send them, and to add up sums instead.
static shoal_status_t price_rows(const shoal_plan_t *plan, const shoal_composite_t *composite,
                                 const shoal_choice_t *choices, shoal_why_t *why, double *costs) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  const shoal_node_plan_t *last = &gp->nodes[composite->first + composite->count - 1];
  const shoal_node_t *node = shoal_composite_node(plan, composite);
  const shoal_row_sum_t *rows = shoal_sparse_of(plan, composite);
  if (!rows) return NULL;
  const int32_t at = last->decision->operand_count - 1;
  const shoal_type_t *type = &last->decision->types[at];
  shoal_layout_t sum = {0};
  SHOAL_RETURN_IF_ERROR(shoal_plan_operand(&plan->meshes[last->mesh], choices, node->input_count,
                                           &type->shape, &sum));
  for (int32_t slot = 1; slot <= plan->meshes[last->mesh].axis_count; ++slot) {
    const double added = shoal_sparse_sum_cost(rows, &sum, type, slot - 1);
    why[slot].rows = added > 0;
    why[slot].cost += added;
    costs[slot] = shoal_sparse_send_cost(last->decision->operands[at], costs[slot]);
  }
  return NULL;
}

static shoal_status_t judge(shoal_plan_t *plan, shoal_composite_t *composite,
                            shoal_arena_t *scratch) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  const shoal_node_t *node = shoal_composite_node(plan, composite);
  const int32_t mesh = gp->nodes[composite->first].mesh;
  const int32_t slots = plan->meshes[mesh].axis_count + 1;
  const shoal_intent_decision_t *decided[SHOAL_PLAN_SLOTS] = {0};
  shoal_choice_t choices[SHOAL_PLAN_SLOTS] = {0};
  double costs[SHOAL_PLAN_SLOTS] = {0};
  shoal_why_t *why = SHOAL_NEW(&plan->arena, shoal_why_t, SHOAL_PLAN_SLOTS);
  if (!why) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_plan_find_ways(plan, node->name, mesh, decided));
  SHOAL_RETURN_IF_ERROR(choose_whole(plan, composite, scratch, choices, why));
  SHOAL_RETURN_IF_ERROR(shoal_sparse_check(plan, composite));
  add_costs(plan, gp, composite->first, composite->count, costs);
  SHOAL_RETURN_IF_ERROR(price_rows(plan, composite, choices, why, costs));
  const shoal_row_sum_t *rows = shoal_sparse_of(plan, composite);
  const shoal_intent_decision_t *expand = shoal_plan_decided(plan, SHOAL_DECIDE_EXPAND, node->name);
  for (int32_t slot = 0; slot < slots; ++slot) {
    const bool asked = decided[slot] && shoal_choice_is_composite(decided[slot]->choice);
    if (asked && !shoal_composite_cuts(plan, composite, slot))
      return refuse_uncut(plan, composite, decided[slot], slot);
    const shoal_why_t whole = why[slot];
    why[slot] =
        (shoal_why_t){.because = SHOAL_BECAUSE_PHASES,
                      .operand = whole.operand,
                      .partial = whole.partial,
                      .rows = rows && whole.rows,
                      .cost = costs[slot],
                      .runner_up = choices[slot].way,
                      .runner_up_cost = whole.cost,
                      .decided = asked                      ? decided[slot]
                                 : rows && rows->state >= 0 ? plan->syncs[rows->state].rows_by
                                                            : NULL};
    if (!why[slot].decided) why[slot].decided = expand;
    if (why[slot].decided) why[slot].because = SHOAL_BECAUSE_DECIDED;
  }
  composite->why = why;
  return NULL;
}

shoal_status_t shoal_composites_judge(shoal_plan_t *plan) {
  for (int64_t c = 0; c < plan->composites.count; ++c) {
    shoal_arena_t scratch;
    shoal_arena_init(plan->allocator, &scratch);
    shoal_status_t status = judge(plan, &plan->composites.items[c], &scratch);
    shoal_arena_deinit(&scratch);
    if (status) return status;
  }
  return NULL;
}
