// A plan read aloud: meshes, schedules, states at rest, the ways of nodes with reasons for what
// costs anything or was asked for, states that are left in another layout than they rest in, and
// when outputs are gathered.
#include <string.h>

#include "base/text.h"
#include "op/type.h"
#include "plan/choose.h"
#include "plan/composite.h"
#include "plan/resolved.h"

static shoal_status_t explain_states(const shoal_plan_t *plan, shoal_arena_t *arena,
                                     shoal_text_t *text) {
  shoal_text_add(text, "states at rest\n");
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    const shoal_state_info_t *state = &plan->model->states.items[s];
    const char *layout = NULL;
    char type[SHOAL_TYPE_SIZE];
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(plan->states[s], arena, &layout));
    shoal_text_addf(text, "  %-36s %s  %s\n", state->name,
                    shoal_type_format(&state->type, type, sizeof type),
                    layout[0] ? layout : "replicated");
  }
  return NULL;
}

// The reason of a way along an axis. What goes without saying is said only to who asks.
static bool explain_told(shoal_told_t told, const char *axis, bool all, shoal_text_t *text) {
  if (!told.by) told.by = "the plan file";
  const bool asked = strcmp(told.by, "completion") != 0 && strcmp(told.by, "pin") != 0;
  const bool plain = told.cost == 0 && !asked;
  if (!told.reason || (plain && !all)) return false;
  shoal_bytes_text_t bytes;
  if (all)
    shoal_text_addf(text, "    by %s: %s", told.by, told.reason);
  else
    shoal_text_addf(text, "      %s, by %s: %s", axis, told.by, told.reason);
  if (asked) shoal_text_addf(text, "; it moves %s", shoal_bytes_format(told.cost, &bytes));
  shoal_text_add(text, "\n");
  if (told.runner_up && (all || asked))
    shoal_text_addf(text, "%snext best %s, which moves %s\n", all ? "    " : "        ",
                    told.runner_up, shoal_bytes_format(told.runner_up_cost, &bytes));
  return true;
}

shoal_status_t shoal_explain_way(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t n,
                                 int32_t slot, bool all, shoal_arena_t *arena, shoal_text_t *text) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_node_plan_t *np = &gp->nodes[n];
  const shoal_mesh_t *mesh = &plan->meshes[np->mesh];
  const char *axis = shoal_slot_name(mesh, slot), *way;
  shoal_told_t told;
  SHOAL_RETURN_IF_ERROR(shoal_reason_of_way(plan, gp, n, slot, arena, &told));
  if (all) {
    SHOAL_RETURN_IF_ERROR(shoal_way_choice_print(node, &np->decision->choices[slot],
                                                 shoal_slot_size(plan, mesh, slot), arena, &way));
    shoal_text_addf(text, "  way: %s=%s\n", axis, way);
  }
  if (!explain_told(told, axis, all, text) && all && !np->told)
    shoal_text_add(text, "    no input is cut along it\n");
  return NULL;
}

shoal_status_t shoal_explain_composite(const shoal_plan_t *plan, const shoal_composite_t *composite,
                                       bool all, shoal_arena_t *arena, shoal_text_t *text) {
  const int32_t m = plan->graphs[composite->graph].nodes[composite->first].mesh;
  const shoal_mesh_t *mesh = &plan->meshes[m];
  if (!all) shoal_text_addf(text, "  %-44s", shoal_composite_node(plan, composite)->name);
  bool any = false;
  for (int32_t slot = 0; slot <= mesh->axis_count && !all; ++slot) {
    if (!shoal_composite_cuts(plan, composite, slot)) continue;
    shoal_text_addf(text, " %s composite", shoal_slot_name(mesh, slot));
    any = true;
  }
  if (!all)
    shoal_text_addf(text, "%s, %d part%s\n", any ? "" : " whole", composite->count,
                    composite->count == 1 ? "" : "s");
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    shoal_told_t told;
    const char *axis = shoal_slot_name(mesh, slot);
    if (!shoal_composite_cuts(plan, composite, slot)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_reason_of_composite(plan, composite, slot, arena, &told));
    if (all) shoal_text_addf(text, "  way: %s=composite\n", axis);
    explain_told(told, axis, all, text);
  }
  return NULL;
}

static shoal_status_t explain_nodes(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                    shoal_arena_t *arena, shoal_text_t *text) {
  shoal_text_addf(text, "graph %s\n", gp->graph->name);
  for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
    const shoal_node_t *node = &gp->graph->nodes.items[n];
    const shoal_node_plan_t *np = &gp->nodes[n];
    const shoal_mesh_t *mesh = &plan->meshes[np->mesh];
    const shoal_composite_t *owner = shoal_plan_owner(plan, gp, n);
    if (owner && owner->first == n)
      SHOAL_RETURN_IF_ERROR(shoal_explain_composite(plan, owner, false, arena, text));
    shoal_text_addf(text, "  %-44s", node->name);
    bool any = false;
    for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
      if (!np->decision->choices[slot].way) continue;
      const char *way = NULL;
      SHOAL_RETURN_IF_ERROR(shoal_way_choice_print(node, &np->decision->choices[slot],
                                                   shoal_slot_size(plan, mesh, slot), arena, &way));
      shoal_text_addf(text, " %s %s", shoal_slot_name(mesh, slot), way);
      any = true;
    }
    shoal_text_addf(text, "%s%s%s%s%s", any ? "" : " whole", plan->mesh_count > 1 ? " on " : "",
                    plan->mesh_count > 1 ? mesh->name : "",
                    gp->regions[n] >= 0 ? ", recomputed" : "",
                    gp->halos[n] == SHOAL_HALO_SPLIT  ? ", split for its halo"
                    : gp->halos[n] == SHOAL_HALO_AUTO ? ", split for its halo where possible"
                                                      : "");
    if (gp->tilings[n].ring)
      shoal_text_addf(text, ", in a ring%s",
                      gp->tilings[n].where_possible ? " where possible" : "");
    else if (gp->tilings[n].count > 0)
      shoal_text_addf(text, ", in %d tiles%s", gp->tilings[n].count,
                      gp->tilings[n].where_possible ? " where possible" : "");
    shoal_text_add(text, "\n");
    for (int32_t slot = 0; slot <= mesh->axis_count; ++slot)
      SHOAL_RETURN_IF_ERROR(shoal_explain_way(plan, gp, n, slot, false, arena, text));
  }
  return NULL;
}

// States that a graph leaves in another layout than they rest in: the plan pays for the change.
static shoal_status_t explain_updates(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                      shoal_arena_t *arena, shoal_text_t *text) {
  for (int64_t a = 0; a < gp->graph->assigns.count; ++a) {
    const shoal_assignment_t *assign = &gp->graph->assigns.items[a];
    const shoal_layout_t *have = gp->values[assign->value], *need = plan->states[assign->state];
    if (have == need) continue;
    const char *from, *to;
    shoal_bytes_text_t bytes;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(have, arena, &from));
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(need, arena, &to));
    shoal_text_addf(
        text, "  update of %s: %s -> %s, which moves %s\n",
        plan->model->states.items[assign->state].name, from[0] ? from : "replicated",
        to[0] ? to : "replicated",
        shoal_bytes_format(
            shoal_reason_cost(have, need, &gp->graph->values.items[assign->value].type), &bytes));
  }
  return NULL;
}

static void add_in_flight(const shoal_schedule_t *t, shoal_work_t to, shoal_text_t *text) {
  for (int32_t s = 0; s < t->stage_count; ++s)
    shoal_text_addf(text, " %d", shoal_schedule_in_flight(t, s, SHOAL_WORK_FORWARD, to));
}

// Does an update wait for gradients on other meshes, as clipping by one norm of all does?
static shoal_status_t joins_meshes(const shoal_graph_plan_t *gp, shoal_arena_t *arena,
                                   bool *out_joins) {
  const shoal_graph_t *graph = gp->graph;
  bool *backward = SHOAL_NEW(arena, bool, graph->nodes.count);
  if (!backward) return SHOAL_OOM();
  *out_joins = false;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    backward[n] = shoal_node_is_gradient(node) && node->kind != SHOAL_NODE_UPDATE;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source != SHOAL_FROM_NODE || !backward[value->node]) continue;
      backward[n] = true;
      *out_joins |= node->kind == SHOAL_NODE_UPDATE &&
                    graph->nodes.items[value->node].kind == SHOAL_NODE_UPDATE &&
                    gp->nodes[value->node].mesh != gp->nodes[n].mesh;
    }
  }
  return NULL;
}

static shoal_status_t explain_schedule(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                       shoal_arena_t *arena, shoal_text_t *text) {
  const shoal_schedule_t *t = gp->schedule;
  shoal_schedule_times_t times;
  bool joins = false;
  SHOAL_RETURN_IF_ERROR(
      shoal_schedule_time(t, &(const shoal_durations_t){{1, 1, 1}, 0}, arena, &times));
  SHOAL_RETURN_IF_ERROR(joins_meshes(gp, arena, &joins));
  shoal_text_addf(text,
                  "schedule of %s: %s, %d stages on %d meshes, %d micro-batches; bubble %.1f%% if "
                  "F, B and W take equally long",
                  gp->graph->name, t->name, t->stage_count, t->mesh_count, t->micro,
                  100 * (joins ? times.bubble : times.period_bubble));
  if (joins && times.bubble > times.period_bubble + 1e-9)
    shoal_text_addf(text,
                    ", and %.1f%% without clipping: before the updates all meshes wait for one "
                    "norm of all gradients",
                    100 * times.period_bubble);
  shoal_text_add(text, "; in flight by stage");
  add_in_flight(t, SHOAL_WORK_BACKWARD, text);
  if (t->split) {
    shoal_text_add(text, ", up to W");
    add_in_flight(t, SHOAL_WORK_WEIGHT, text);
  }
  shoal_text_add(text, "\n");
  return shoal_explain_borders(plan, gp, arena, text);
}

static shoal_status_t explain_schedules(const shoal_plan_t *plan, shoal_arena_t *arena,
                                        shoal_text_t *text) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    if (plan->graphs[g].schedule)
      SHOAL_RETURN_IF_ERROR(explain_schedule(plan, &plan->graphs[g], arena, text));
  return NULL;
}

shoal_status_t shoal_plan_explain_schedules(const shoal_plan_t *plan, shoal_arena_t *arena,
                                            const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  shoal_status_t status = explain_schedules(plan, arena, &text);
  return shoal_text_close(&text, status, arena, out_text);
}

static void explain_outputs(const shoal_graph_plan_t *gp, shoal_text_t *text) {
  const shoal_graph_t *graph = gp->graph;
  if (graph->outputs.count > 0) shoal_text_addf(text, "outputs of %s\n", graph->name);
  for (int64_t o = 0; o < graph->outputs.count; ++o) {
    const shoal_named_t *output = &graph->outputs.items[o];
    char type[SHOAL_TYPE_SIZE];
    shoal_text_addf(text, "  %-36s %s  %s\n", output->name,
                    shoal_type_format(&graph->values.items[output->value].type, type, sizeof type),
                    gp->on_request[o] ? "gathered on request" : "gathered in every run");
  }
}

shoal_status_t shoal_plan_explain(const shoal_plan_t *plan, shoal_arena_t *arena,
                                  const char **out_text) {
  shoal_text_t text;
  shoal_text_init(arena->allocator, &text);
  for (int64_t m = 0; m < plan->mesh_count; ++m)
    shoal_text_addf(&text, "mesh %s\n", plan->intent.meshes[m]);
  shoal_status_t status = explain_schedules(plan, arena, &text);
  if (!status) status = explain_states(plan, arena, &text);
  for (int64_t g = 0; g < plan->model->graphs.count && !status; ++g) {
    status = explain_nodes(plan, &plan->graphs[g], arena, &text);
    if (!status) status = explain_updates(plan, &plan->graphs[g], arena, &text);
    explain_outputs(&plan->graphs[g], &text);
  }
  return shoal_text_close(&text, status, arena, out_text);
}
