// Writing the resolved part of a plan file: a list of decisions, a line each. What is as it would
// be without any decision is not listed: whole nodes on the first mesh, states replicated there.
#include <math.h>
#include <string.h>

#include "base/status.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/composite.h"
#include "plan/resolved.h"

static void begin(shoal_json_writer_t *w, const char *kind, const char *graph, const char *what,
                  const char *name) {
  shoal_json_begin(w, NULL, '{', true);
  shoal_json_string(w, "kind", kind);
  if (graph) shoal_json_string(w, "graph", graph);
  shoal_json_string(w, what, name);
}

static void end(shoal_json_writer_t *w, const char *choice, const shoal_told_t *told) {
  shoal_json_string(w, "choice", choice);
  if (told->by) shoal_json_string(w, "by", told->by);
  if (told->reason && told->reason[0]) shoal_json_string(w, "reason", told->reason);
  if (told->cost > 0 || told->runner_up) shoal_json_int(w, "cost", (int64_t)told->cost);
  if (told->runner_up) {
    shoal_json_begin(w, "runner_up", '{', true);
    shoal_json_string(w, "choice", told->runner_up);
    shoal_json_int(w, "cost", (int64_t)told->runner_up_cost);
    shoal_json_end(w, '}');
  }
  shoal_json_end(w, '}');
}

// ---- states ----------------------------------------------------------------------------

static const char *why_it_rests(const char *name, shoal_arena_t *arena) {
  const char *hash = strchr(name, '#');
  if (!hash) return "it rests where it is read";
  return shoal_arena_printf(arena, "it rests as '%.*s' does, which it belongs to",
                            (int)(hash - name), name);
}

static shoal_status_t write_state(const shoal_plan_t *plan, int64_t s, shoal_json_writer_t *w,
                                  shoal_arena_t *scratch) {
  const char *name = plan->model->states.items[s].name, *text;
  const shoal_layout_t *layout = plan->states[s];
  const shoal_sync_t *sync = &plan->syncs[s];
  shoal_told_t told;
  if (layout->cut_count > 0 || layout->mesh != plan->meshes) {
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, scratch, &text));
    shoal_reason_of(plan, SHOAL_DECIDE_LAYOUT, name, why_it_rests(name, scratch), &told);
    begin(w, "layout", NULL, "state", name);
    end(w, text, &told);
  }
  if (plan->memories[s] != SHOAL_MEMORY_DEVICE) {
    shoal_reason_of(plan, SHOAL_DECIDE_MEMORY, name, "", &told);
    begin(w, "memory", NULL, "state", name);
    end(w, shoal_memory_kind_name(plan->memories[s]), &told);
  }
  if (sync->each || sync->bucket || sync->bucket_bytes > 0 || sync->cast ||
      sync->rows != SHOAL_ROWS_BY_COST) {
    SHOAL_RETURN_IF_ERROR(shoal_sync_print(sync, scratch, &text));
    shoal_reason_of(plan, SHOAL_DECIDE_SYNC, name, "", &told);
    begin(w, "sync", NULL, "state", name);
    end(w, text, &told);
  }
  if (sync->prefetch != 1) {
    text = shoal_arena_printf(scratch, "%d", sync->prefetch);
    if (!text) return SHOAL_OOM();
    shoal_reason_of(plan, SHOAL_DECIDE_PREFETCH, name, "", &told);
    begin(w, "prefetch", NULL, "state", name);
    end(w, text, &told);
  }
  return NULL;
}

// ---- graphs ----------------------------------------------------------------------------

static shoal_status_t write_inputs(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                   shoal_json_writer_t *w, shoal_arena_t *scratch) {
  for (int64_t i = 0; i < gp->graph->inputs.count; ++i) {
    const shoal_named_t *input = &gp->graph->inputs.items[i];
    const shoal_layout_t *layout = gp->values[input->value];
    const char *text;
    shoal_told_t told;
    if (layout->cut_count == 0 && layout->mesh == plan->meshes) continue;
    SHOAL_RETURN_IF_ERROR(shoal_layout_print(layout, scratch, &text));
    shoal_reason_by(shoal_plan_decided_value(plan, gp->graph, input->name),
                    "it is fed where it is read", &told);
    begin(w, "layout", gp->graph->name, "input", input->name);
    end(w, text, &told);
  }
  return NULL;
}

// A composite node has an entry for each axis along which parts of it are cut. One without any was
// asked for all the same.
static shoal_status_t write_composite(const shoal_plan_t *plan, const shoal_composite_t *composite,
                                      shoal_json_writer_t *w, shoal_arena_t *scratch) {
  const shoal_graph_plan_t *gp = &plan->graphs[composite->graph];
  const char *name = shoal_composite_node(plan, composite)->name;
  const shoal_mesh_t *mesh = &plan->meshes[gp->nodes[composite->first].mesh];
  shoal_told_t told;
  bool any = false;
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    if (!shoal_composite_cuts(plan, composite, slot)) continue;
    any = true;
    SHOAL_RETURN_IF_ERROR(shoal_reason_of_composite(plan, composite, slot, scratch, &told));
    const char *text = shoal_arena_printf(scratch, "%s=composite", shoal_slot_name(mesh, slot));
    if (!text) return SHOAL_OOM();
    begin(w, "way", gp->graph->name, "node", name);
    end(w, text, &told);
  }
  if (any) return NULL;
  shoal_reason_of(plan, SHOAL_DECIDE_EXPAND, name, "it has no way along any axis", &told);
  begin(w, "expand", gp->graph->name, "node", name);
  end(w, "yes", &told);
  return NULL;
}

static shoal_status_t write_node(const shoal_plan_t *plan, const shoal_graph_plan_t *gp, int64_t n,
                                 shoal_json_writer_t *w, shoal_arena_t *scratch) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_node_plan_t *np = &gp->nodes[n];
  const shoal_mesh_t *mesh = &plan->meshes[np->mesh];
  const shoal_composite_t *owner = shoal_plan_owner(plan, gp, n);
  shoal_told_t told;
  if (owner && owner->first == n) SHOAL_RETURN_IF_ERROR(write_composite(plan, owner, w, scratch));
  if (np->mesh != 0) {
    shoal_reason_by(shoal_plan_decided_node(plan, SHOAL_DECIDE_STAGE, gp, n),
                    node->of >= 0 ? "it runs where its forward node does"
                                  : "it runs where what it reads or updates lies",
                    &told);
    begin(w, "stage", gp->graph->name, "node", node->name);
    end(w, mesh->name, &told);
  }
  for (int32_t slot = 0; slot <= mesh->axis_count; ++slot) {
    const shoal_choice_t *choice = &np->decision->choices[slot];
    SHOAL_RETURN_IF_ERROR(shoal_reason_of_way(plan, gp, n, slot, scratch, &told));
    if (!choice->way && !told.reason) continue;
    const char *text;
    SHOAL_RETURN_IF_ERROR(
        shoal_way_choice_print(node, choice, shoal_slot_size(plan, mesh, slot), scratch, &text));
    text = shoal_arena_printf(scratch, "%s=%s", shoal_slot_name(mesh, slot), text);
    if (!text) return SHOAL_OOM();
    begin(w, "way", gp->graph->name, "node", node->name);
    end(w, text, &told);
  }
  if (gp->halos[n] != SHOAL_HALO_WHOLE) {
    shoal_reason_of(plan, SHOAL_DECIDE_HALO, node->name, "", &told);
    begin(w, "halo", gp->graph->name, "node", node->name);
    end(w, gp->halos[n] == SHOAL_HALO_SPLIT ? "split" : "auto", &told);
  }
  if (gp->tilings[n].count > 0) {
    char tiles[16];
    shoal_reason_by(shoal_plan_decided_node(plan, SHOAL_DECIDE_TILE, gp, n), "", &told);
    begin(w, "tile", gp->graph->name, "node", node->name);
    end(w, shoal_tiling_text(&gp->tilings[n], tiles), &told);
  }
  if (gp->at_capacity[n]) {
    shoal_reason_of(plan, SHOAL_DECIDE_BOUNDED, node->name, "", &told);
    begin(w, "counts", gp->graph->name, "node", node->name);
    end(w, "capacity", &told);
  }
  if (gp->regions[n] < 0) return NULL;
  shoal_reason_by(shoal_plan_decided_node(plan, SHOAL_DECIDE_RECOMPUTE, gp, n),
                  node->recompute > 0 ? "the model marks it" : "", &told);
  begin(w, "recompute", gp->graph->name, "node", node->name);
  shoal_json_int(w, "region", gp->regions[n]);
  end(w, "yes", &told);
  return NULL;
}

static shoal_status_t write_graph(const shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                  shoal_json_writer_t *w, shoal_arena_t *scratch) {
  static const char *const keeps[] = {"keep", "redo", "host", "file"};
  const shoal_graph_t *graph = gp->graph;
  shoal_told_t told;
  SHOAL_RETURN_IF_ERROR(write_inputs(plan, gp, w, scratch));
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    shoal_arena_t texts;  // of one node
    shoal_arena_init(plan->allocator, &texts);
    shoal_status_t status = write_node(plan, gp, n, w, &texts);
    shoal_arena_deinit(&texts);
    if (status) return status;
  }
  for (int64_t v = 0; v < graph->values.count; ++v) {
    const char *name = graph->values.items[v].name;
    if (gp->keeps[v] == SHOAL_KEEP) continue;
    shoal_reason_of(plan, SHOAL_DECIDE_KEEP, name, "", &told);
    begin(w, "keep", graph->name, "value", name);
    end(w, keeps[gp->keeps[v]], &told);
  }
  for (int64_t o = 0; o < graph->outputs.count; ++o) {
    const char *name = graph->outputs.items[o].name;
    if (!gp->on_request[o]) continue;
    shoal_reason_of_fetch(plan, gp, o, &told);
    begin(w, "fetch", graph->name, "output", name);
    end(w, "request", &told);
  }
  if (!gp->schedule) return NULL;
  const char *table;
  SHOAL_RETURN_IF_ERROR(shoal_schedule_print(gp->schedule, scratch, &table));
  table = shoal_arena_printf(scratch, "table %s", table);
  if (!table) return SHOAL_OOM();
  shoal_reason_of(plan, SHOAL_DECIDE_SCHEDULE, graph->name, "", &told);
  shoal_json_begin(w, NULL, '{', true);
  shoal_json_string(w, "kind", "schedule");
  shoal_json_string(w, "graph", graph->name);
  end(w, strcmp(gp->schedule->name, "table") == 0 ? table : gp->schedule->name, &told);
  return NULL;
}

shoal_status_t shoal_resolved_write(const shoal_plan_t *plan, shoal_json_writer_t *w,
                                    shoal_arena_t *scratch) {
  shoal_json_begin(w, "decisions", '[', false);
  for (int64_t s = 0; s < plan->model->states.count; ++s)
    SHOAL_RETURN_IF_ERROR(write_state(plan, s, w, scratch));
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(write_graph(plan, &plan->graphs[g], w, scratch));
  shoal_json_end(w, ']');
  return NULL;
}
