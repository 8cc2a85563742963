// Everything a plan says about the names that match a pattern: states, nodes, values, outputs.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "op/type.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/gradients.h"
#include "plan/resolved.h"

typedef struct answer {
  const shoal_plan_t *plan;
  const char *pattern;
  shoal_arena_t *arena;
  shoal_text_t *text;
  int64_t count;
} answer_t;

static bool asked(answer_t *a, const char *name) {
  if (!shoal_pattern_match(a->pattern, name)) return false;
  ++a->count;
  return true;
}

static const char *shown(const char *layout) {
  return layout[0] ? layout : "replicated";
}

static void say_told(answer_t *a, shoal_decide_t kind, const char *choice,
                     const shoal_told_t *told) {
  shoal_text_addf(a->text, "  %s: %s\n    by %s: %s\n", shoal_decision_kind(kind)->name, choice,
                  told->by, told->reason);
}

static void say_decided(answer_t *a, shoal_decide_t kind, const char *name, const char *choice,
                        const char *otherwise) {
  shoal_told_t told;
  shoal_reason_of(a->plan, kind, name, otherwise, &told);
  say_told(a, kind, choice, &told);
}

// What it costs to bring the value that a graph assigns into the layout that the state rests in.
static shoal_status_t say_update(answer_t *a, const shoal_graph_plan_t *gp, int32_t s) {
  for (int64_t i = 0; i < gp->graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &gp->graph->assigns.items[i];
    if (assign->state != s) continue;
    const shoal_value_info_t *value = &gp->graph->values.items[assign->value];
    const char *have, *need;
    shoal_bytes_text_t bytes;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(gp->values[assign->value], a->arena, &have));
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(a->plan->states[s], a->arena, &need));
    const double cost =
        shoal_reason_cost(gp->values[assign->value], a->plan->states[s], &value->type);
    if (gp->values[assign->value] == a->plan->states[s])
      shoal_text_addf(a->text, "  updated by graph %s from '%s', in the layout it rests in\n",
                      gp->graph->name, value->name);
    else
      shoal_text_addf(a->text, "  updated by graph %s from '%s': %s -> %s, which moves %s\n",
                      gp->graph->name, value->name, shown(have), shown(need),
                      shoal_bytes_format(cost, &bytes));
  }
  return NULL;
}

static shoal_status_t say_state(answer_t *a, int32_t s) {
  const shoal_plan_t *plan = a->plan;
  const shoal_state_info_t *state = &plan->model->states.items[s];
  char type[SHOAL_TYPE_SIZE];
  const char *text;
  shoal_text_addf(a->text, "state %s %s\n", state->name,
                  shoal_type_format(&state->type, type, sizeof type));
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(plan->states[s], a->arena, &text));
  say_decided(a, SHOAL_DECIDE_LAYOUT, state->name, shown(text), "nobody asked for anything else");
  if (shoal_plan_decided(plan, SHOAL_DECIDE_MEMORY, state->name))
    say_decided(a, SHOAL_DECIDE_MEMORY, state->name, shoal_memory_kind_name(plan->memories[s]), "");
  if (shoal_plan_decided(plan, SHOAL_DECIDE_SYNC, state->name) &&
      shoal_plan_is_synced(plan, s, &plan->syncs[s])) {
    SHOAL_RETURN_IF_ERROR(shoal_sync_print(&plan->syncs[s], a->arena, &text));
    say_decided(a, SHOAL_DECIDE_SYNC, state->name, text, "");
  }
  const shoal_intent_decision_t *layers =
      shoal_plan_decided(plan, SHOAL_DECIDE_PREFETCH, state->name);
  if (layers) say_decided(a, SHOAL_DECIDE_PREFETCH, state->name, layers->choice, "");
  const shoal_intent_decision_t *keep = shoal_plan_decided(plan, SHOAL_DECIDE_KEEP, state->name);
  if (keep) say_decided(a, SHOAL_DECIDE_KEEP, state->name, keep->choice, "");
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(say_update(a, &plan->graphs[g], s));
  return NULL;
}

static shoal_status_t say_operand(answer_t *a, const shoal_graph_plan_t *gp, int64_t n, int32_t k) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_layout_t *wanted = gp->nodes[n].decision->operands[k];
  const bool input = k < node->input_count;
  const int32_t value = input ? node->inputs[k] : node->outputs[k - node->input_count];
  const shoal_value_info_t *info = &gp->graph->values.items[value];
  char type[SHOAL_TYPE_SIZE];
  const char *have, *need;
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(wanted, a->arena, &need));
  SHOAL_RETURN_IF_ERROR(shoal_layout_print(gp->values[value], a->arena, &have));
  shoal_text_addf(a->text, "  %s %s %s  %s", input ? "input " : "output", info->name,
                  shoal_type_format(&info->type, type, sizeof type), shown(need));
  if (input && wanted != gp->values[value]) shoal_text_addf(a->text, ", made from %s", shown(have));
  shoal_text_add(a->text, "\n");
  const shoal_intent_decision_t *keep =
      input ? NULL : shoal_plan_decided(a->plan, SHOAL_DECIDE_KEEP, info->name);
  if (keep && gp->keeps[value] == shoal_keep_of(keep->choice))
    say_decided(a, SHOAL_DECIDE_KEEP, info->name, keep->choice, "");
  return NULL;
}

static shoal_status_t say_composite(answer_t *a, const shoal_composite_t *composite) {
  const shoal_graph_plan_t *gp = &a->plan->graphs[composite->graph];
  const shoal_node_t *node = shoal_composite_node(a->plan, composite);
  shoal_text_addf(a->text, "node %s of graph %s, %s\n", node->name, gp->graph->name,
                  node->op->name);
  SHOAL_RETURN_IF_ERROR(shoal_explain_composite(a->plan, composite, true, a->arena, a->text));
  for (int32_t i = 0; i < composite->count; ++i)
    shoal_text_addf(a->text, "%s%s", i == 0 ? "  in parts " : ", ",
                    gp->graph->nodes.items[composite->first + i].name);
  shoal_text_add(a->text, "\n");
  return NULL;
}

static shoal_status_t say_node(answer_t *a, const shoal_graph_plan_t *gp, int64_t n) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_mesh_t *mesh = &a->plan->meshes[gp->nodes[n].mesh];
  shoal_text_addf(a->text, "node %s of graph %s, %s\n", node->name, gp->graph->name,
                  node->op->name);
  if (a->plan->mesh_count > 1)
    say_decided(a, SHOAL_DECIDE_STAGE, node->name, mesh->name,
                "it runs where what it reads or updates lies");
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    if (shoal_slot_size(a->plan, mesh, slot) > 1)
      SHOAL_RETURN_IF_ERROR(shoal_explain_way(a->plan, gp, n, slot, true, a->arena, a->text));
  }
  if (gp->regions[n] >= 0)
    say_decided(a, SHOAL_DECIDE_RECOMPUTE, node->name, "yes",
                node->recompute > 0 ? "the model marks it" : "");
  if (gp->halos[n] != SHOAL_HALO_WHOLE)
    say_decided(a, SHOAL_DECIDE_HALO, node->name,
                gp->halos[n] == SHOAL_HALO_SPLIT ? "split" : "auto", "");
  if (gp->tilings[n].count > 0)
    say_decided(a, SHOAL_DECIDE_TILE, node->name, shoal_tiling_text(&gp->tilings[n], (char[16]){0}),
                "");
  if (node->op->bounds)
    say_decided(a, SHOAL_DECIDE_BOUNDED, node->name, gp->at_capacity[n] ? "capacity" : "real",
                "only rows that are used need to be sent");
  for (int32_t k = 0; k < node->input_count + node->output_count; ++k)
    SHOAL_RETURN_IF_ERROR(say_operand(a, gp, n, k));
  return NULL;
}

static shoal_status_t say_graph(answer_t *a, const shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    const char *text;
    if (!asked(a, input->name)) continue;
    shoal_text_addf(a->text, "input %s of graph %s\n", input->name, graph->name);
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(gp->values[input->value], a->arena, &text));
    shoal_told_t told;
    shoal_reason_by(shoal_plan_decided_value(a->plan, graph, input->name),
                    "nobody asked for anything else", &told);
    say_told(a, SHOAL_DECIDE_LAYOUT, shown(text), &told);
  }
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_composite_t *owner = shoal_plan_owner(a->plan, gp, n);
    if (owner && owner->first == n && asked(a, shoal_composite_node(a->plan, owner)->name))
      SHOAL_RETURN_IF_ERROR(say_composite(a, owner));
    if (asked(a, graph->nodes.items[n].name)) SHOAL_RETURN_IF_ERROR(say_node(a, gp, n));
  }
  for (int64_t o = 0; o < graph->outputs.count; ++o) {
    const char *name = graph->outputs.items[o].name;
    shoal_told_t told;
    if (!asked(a, name)) continue;
    shoal_reason_of_fetch(a->plan, gp, o, &told);
    shoal_text_addf(a->text, "output %s of graph %s\n", name, graph->name);
    say_told(a, SHOAL_DECIDE_FETCH, gp->on_request[o] ? "request" : "always", &told);
  }
  return NULL;
}

static shoal_status_t answer(answer_t *a) {
  for (int32_t s = 0; s < a->plan->model->states.count; ++s)
    if (asked(a, a->plan->model->states.items[s].name)) SHOAL_RETURN_IF_ERROR(say_state(a, s));
  for (int64_t g = 0; g < a->plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(say_graph(a, &a->plan->graphs[g]));
  return NULL;
}

shoal_status_t shoal_plan_why(const shoal_plan_t *plan, const char *pattern, shoal_arena_t *arena,
                              const char **out_text) {
  shoal_text_t text;
  SHOAL_RETURN_IF_ERROR(shoal_pattern_check(pattern));
  shoal_text_init(arena->allocator, &text);
  answer_t a = {.plan = plan, .pattern = pattern, .arena = arena, .text = &text};
  shoal_status_t status = answer(&a);
  if (!status && a.count == 0)
    status = SHOAL_ERROR_HINT(NOT_FOUND, "`shoal explain MODEL --graph` lists the names",
                              "'%s' matches no state, input, node or output", pattern);
  return shoal_text_close(&text, status, arena, out_text);
}
