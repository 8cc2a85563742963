// Reading the resolved part of a plan file: the list of decisions, later ones win. The plan that it
// makes is the one that was written, also where somebody edited it: each entry is taken as it says
// or refused with its place in the file.
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/composite.h"
#include "plan/gradients.h"
#include "plan/kinds.h"
#include "plan/resolved.h"
#include "plan/stages.h"
#include "shoal/options.h"

// Names of a graph's nodes and values.
typedef struct graph_names {
  shoal_index_t nodes, values;
  int32_t *first, *next;  // entries about ways: by node, by entry; -1: no more
} graph_names_t;

typedef struct reader {
  shoal_plan_t *plan;
  const shoal_json_t *list;
  shoal_arena_t *scratch;
  graph_names_t *graphs;
  shoal_told_t **told;             // by composite and slot
  bool (*said)[SHOAL_PLAN_SLOTS];  // by composite: it is to be cut along the slot's axis
} reader_t;

// ---- names -----------------------------------------------------------------------------

static shoal_status_t index_names(reader_t *r) {
  const shoal_model_t *model = r->plan->model;
  r->graphs = SHOAL_NEW(r->scratch, graph_names_t, model->graphs.count);
  if (!r->graphs) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    graph_names_t *names = &r->graphs[g];
    shoal_index_init(r->scratch, &names->nodes);
    shoal_index_init(r->scratch, &names->values);
    names->first = SHOAL_NEW(r->scratch, int32_t, graph->nodes.count);
    names->next = SHOAL_NEW(r->scratch, int32_t, r->list->count);
    if (!names->first || !names->next) return SHOAL_OOM();
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      names->first[n] = -1;
      if (!shoal_index_add(&names->nodes,
                           shoal_hash_string(SHOAL_HASH_START, graph->nodes.items[n].name), n))
        return SHOAL_OOM();
    }
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (!shoal_index_add(&names->values,
                           shoal_hash_string(SHOAL_HASH_START, graph->values.items[v].name), v))
        return SHOAL_OOM();
  }
  return NULL;
}

static shoal_status_t unknown(const shoal_json_t *entry, const char *what, const char *name) {
  return SHOAL_ERROR(INVALID_ARGUMENT, "%s: there is no %s '%s'", entry->path, what, name);
}

static shoal_status_t find_graph(const reader_t *r, const shoal_json_t *entry, int64_t *out_graph) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "graph", &name));
  for (int64_t g = 0; g < r->plan->model->graphs.count; ++g)
    if (strcmp(r->plan->model->graphs.items[g]->name, name) == 0) {
      *out_graph = g;
      return NULL;
    }
  return unknown(entry, "graph", name);
}

static shoal_status_t find_node(const reader_t *r, const shoal_json_t *entry, int64_t *out_graph,
                                int32_t *out_node) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(find_graph(r, entry, out_graph));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "node", &name));
  const shoal_graph_t *graph = r->plan->model->graphs.items[*out_graph];
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, n; (n = shoal_index_next(&r->graphs[*out_graph].nodes, hash, &at)) >= 0;)
    if (strcmp(graph->nodes.items[n].name, name) == 0) {
      *out_node = (int32_t)n;
      return NULL;
    }
  return unknown(entry, "node", name);
}

static shoal_status_t find_value(const reader_t *r, const shoal_json_t *entry, const char *key,
                                 int64_t *out_graph, int32_t *out_value) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(find_graph(r, entry, out_graph));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, key, &name));
  const shoal_graph_t *graph = r->plan->model->graphs.items[*out_graph];
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, v; (v = shoal_index_next(&r->graphs[*out_graph].values, hash, &at)) >= 0;)
    if (strcmp(graph->values.items[v].name, name) == 0) {
      *out_value = (int32_t)v;
      return NULL;
    }
  return unknown(entry, key, name);
}

static shoal_status_t find_state(const reader_t *r, const shoal_json_t *entry, int32_t *out_state) {
  const char *name;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "state", &name));
  *out_state = shoal_model_find_state(r->plan->model, name);
  return *out_state >= 0 ? NULL : unknown(entry, "state", name);
}

// ---- one entry each --------------------------------------------------------------------

static shoal_status_t read_stage(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  const int32_t mesh = shoal_plan_find_mesh(r->plan, choice);
  if (mesh < 0) return unknown(entry, "mesh", choice);
  r->plan->graphs[g].nodes[n].mesh = mesh;
  return NULL;
}

static shoal_status_t read_layout(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int32_t s = 0, v = 0;
  int64_t g = 0;
  if (shoal_json_find(entry, "state")) {
    SHOAL_RETURN_IF_ERROR(find_state(r, entry, &s));
    return shoal_plan_rest_state(r->plan, s, choice, -1);
  }
  SHOAL_RETURN_IF_ERROR(find_value(r, entry, "input", &g, &v));
  return shoal_plan_feed_input(r->plan, &r->plan->graphs[g], v, choice, -1);
}

static shoal_status_t read_of_state(reader_t *r, shoal_decide_t kind, const shoal_json_t *entry,
                                    const char *choice) {
  int32_t s = 0;
  SHOAL_RETURN_IF_ERROR(find_state(r, entry, &s));
  shoal_plan_t *plan = r->plan;
  shoal_sync_t *sync = &plan->syncs[s];
  if (kind == SHOAL_DECIDE_MEMORY) {
    (void)shoal_memory_kind_parse(choice, &plan->memories[s]);  // checked before
    return NULL;
  }
  if (kind == SHOAL_DECIDE_PREFETCH) {
    sync->prefetch = (int32_t)strtol(choice, NULL, 10);
    return NULL;
  }
  *sync = (shoal_sync_t){.prefetch = sync->prefetch};
  return shoal_decision_sync(&(shoal_intent_decision_t){.choice = choice}, &plan->arena, sync);
}

static shoal_status_t read_recompute(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0, region = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  shoal_graph_plan_t *gp = &r->plan->graphs[g];
  if (gp->graph->nodes.items[n].kind != SHOAL_NODE_FORWARD)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: only nodes of the forward pass can be recomputed",
                       entry->path);
  if (shoal_json_find(entry, "region"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(entry, "region", &region));
  if (region < 0 || region > gp->graph->nodes.count)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: region %lld is out of range", entry->path,
                       (long long)region);
  gp->regions[n] = strcmp(choice, "yes") == 0 ? (int32_t)region : -1;
  return NULL;
}

static shoal_status_t read_output(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  const char *name;
  SHOAL_RETURN_IF_ERROR(find_graph(r, entry, &g));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "output", &name));
  shoal_graph_plan_t *gp = &r->plan->graphs[g];
  bool found = false;
  for (int64_t o = 0; o < gp->graph->outputs.count; ++o) {
    if (strcmp(gp->graph->outputs.items[o].name, name) != 0) continue;
    gp->on_request[o] = strcmp(choice, "request") == 0;
    found = true;
  }
  return found ? NULL : unknown(entry, "output", name);
}

static shoal_status_t read_keep(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t v = 0;
  SHOAL_RETURN_IF_ERROR(find_value(r, entry, "value", &g, &v));
  r->plan->graphs[g].keeps[v] = shoal_keep_of(choice);
  return NULL;
}

static shoal_status_t read_halo(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  r->plan->graphs[g].halos[n] = shoal_halo_of(choice);
  return NULL;
}

static shoal_status_t read_tiles(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  (void)shoal_tiling_of(choice, &r->plan->graphs[g].tilings[n]);
  return NULL;
}

static shoal_status_t read_counts(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  const shoal_graph_plan_t *gp = &r->plan->graphs[g];
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  if (!node->op->bounds) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the decision out",
                            "%s: node '%s' bounds no rows", entry->path, node->name);
  }
  gp->at_capacity[n] = shoal_plan_moves_capacity(choice);
  return NULL;
}

// Behind the ways, which say what halos there are.
static shoal_status_t check_halo(reader_t *r, const shoal_json_t *entry) {
  int64_t g = 0;
  int32_t n = 0;
  const char *kind;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "kind", &kind));
  if (shoal_kind_find(kind) != SHOAL_DECIDE_HALO) return NULL;
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  const shoal_graph_plan_t *gp = &r->plan->graphs[g];
  if (gp->halos[n] == SHOAL_HALO_WHOLE || shoal_plan_has_halo(gp, n)) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the decision out, or give the node another way",
                          "%s: node '%s' waits for no halo", entry->path,
                          gp->graph->nodes.items[n].name);
}

static shoal_status_t read_told(const shoal_json_t *entry, shoal_arena_t *arena,
                                shoal_told_t *out_told) {
  const shoal_json_t *other = shoal_json_find(entry, "runner_up");
  const char *texts[] = {NULL, NULL, NULL};
  if (shoal_json_find(entry, "by"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "by", &texts[0]));
  if (shoal_json_find(entry, "reason"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "reason", &texts[1]));
  if (shoal_json_find(entry, "cost"))
    SHOAL_RETURN_IF_ERROR(shoal_json_get_real(entry, "cost", &out_told->cost));
  if (other) {
    if (other->kind != SHOAL_JSON_OBJECT)
      return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be an object", other->path);
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(other, "choice", &texts[2]));
    SHOAL_RETURN_IF_ERROR(shoal_json_get_real(other, "cost", &out_told->runner_up_cost));
  }
  for (int i = 0; i < 3; ++i)
    if (texts[i] && !(texts[i] = shoal_arena_strdup(arena, texts[i]))) return SHOAL_OOM();
  out_told->by = texts[0];
  out_told->reason = texts[1];
  out_told->runner_up = texts[2];
  // Numbers that nobody writes are not worth an error, but must print again.
  if (!(out_told->cost >= 0 && out_told->cost < 0x1p62)) out_told->cost = 0;
  if (!(out_told->runner_up_cost >= 0 && out_told->runner_up_cost < 0x1p62))
    out_told->runner_up_cost = 0;
  return NULL;
}

// The slot of an axis that a choice starts with.
static shoal_status_t slot_of(const shoal_mesh_t *mesh, const shoal_json_t *entry,
                              const char *choice, shoal_arena_t *texts, int32_t *out_slot) {
  char *axis = shoal_arena_strdup(texts, choice);
  if (!axis) return SHOAL_OOM();
  axis[strcspn(axis, "=")] = 0;
  const bool micro = strcmp(axis, "micro") == 0;
  *out_slot = micro ? 0 : shoal_mesh_axis(mesh, axis) + 1;
  if (*out_slot == 0 && !micro)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s: the mesh has no axis '%s'", entry->path, axis);
  return NULL;
}

// That a node is composite was read before (shoal_resolved_phased): here is what was told about it.
static shoal_status_t read_composite(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  const char *name;
  int32_t slot = 0;
  SHOAL_RETURN_IF_ERROR(find_graph(r, entry, &g));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "node", &name));
  shoal_plan_t *plan = r->plan;
  for (int64_t c = 0; c < plan->composites.count; ++c) {
    shoal_composite_t *composite = &plan->composites.items[c];
    if (composite->graph != g || strcmp(shoal_composite_node(plan, composite)->name, name) != 0)
      continue;
    const shoal_mesh_t *mesh = &plan->meshes[plan->graphs[g].nodes[composite->first].mesh];
    SHOAL_RETURN_IF_ERROR(slot_of(mesh, entry, choice, r->scratch, &slot));
    shoal_told_t *told = r->told[c];
    if (!told) told = r->told[c] = SHOAL_NEW(&plan->arena, shoal_told_t, SHOAL_PLAN_SLOTS);
    if (!told) return SHOAL_OOM();
    composite->told = told;
    r->said[c][slot] = true;
    told[slot] = (shoal_told_t){0};
    return read_told(entry, &plan->arena, &told[slot]);
  }
  return unknown(entry, "composite node", name);
}

// Ways are read node by node: here they are only noted.
static shoal_status_t note_way(reader_t *r, const shoal_json_t *entry, int64_t index,
                               const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  if (shoal_choice_is_composite(choice)) return read_composite(r, entry, choice);
  SHOAL_RETURN_IF_ERROR(find_node(r, entry, &g, &n));
  graph_names_t *names = &r->graphs[g];
  names->next[index] = names->first[n];
  names->first[n] = (int32_t)index;
  return NULL;
}

static shoal_status_t read_entry(reader_t *r, int64_t index, bool first_pass) {
  static const char *const keys[] = {"kind",  "graph",     "node",   "state", "input",
                                     "value", "output",    "choice", "by",    "reason",
                                     "cost",  "runner_up", "region"};
  const shoal_json_t *entry = &r->list->children[index];
  shoal_intent_decision_t decision = {.pattern = entry->path};
  if (entry->kind != SHOAL_JSON_OBJECT)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s must be an object", entry->path);
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "kind", &decision.kind));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "choice", &decision.choice));
  const shoal_decide_t kind = shoal_kind_find(decision.kind);
  if (first_pass) {
    SHOAL_RETURN_IF_ERROR(shoal_json_only(entry, keys, 13));
    SHOAL_RETURN_IF_ERROR(shoal_decision_check(&decision));
    return kind == SHOAL_DECIDE_STAGE ? read_stage(r, entry, decision.choice) : NULL;
  }
  int64_t g = 0;
  switch (kind) {
    case SHOAL_DECIDE_STAGE:
      return NULL;
    case SHOAL_DECIDE_LAYOUT:
      return read_layout(r, entry, decision.choice);
    case SHOAL_DECIDE_WAY:
      return note_way(r, entry, index, decision.choice);
    case SHOAL_DECIDE_RECOMPUTE:
      return read_recompute(r, entry, decision.choice);
    case SHOAL_DECIDE_KEEP:
      return read_keep(r, entry, decision.choice);
    case SHOAL_DECIDE_MEMORY:
    case SHOAL_DECIDE_SYNC:
    case SHOAL_DECIDE_PREFETCH:
      return read_of_state(r, kind, entry, decision.choice);
    case SHOAL_DECIDE_SCHEDULE:
      SHOAL_RETURN_IF_ERROR(find_graph(r, entry, &g));
      return shoal_plan_schedule(r->plan, &r->plan->graphs[g], decision.choice);
    case SHOAL_DECIDE_HALO:
      return read_halo(r, entry, decision.choice);
    case SHOAL_DECIDE_TILE:
      return read_tiles(r, entry, decision.choice);
    case SHOAL_DECIDE_BOUNDED:
      return read_counts(r, entry, decision.choice);
    case SHOAL_DECIDE_FETCH:
      return read_output(r, entry, decision.choice);
    case SHOAL_DECIDE_EXPAND:  // shoal_resolved_phased
      return NULL;
    case SHOAL_DECIDE_COUNT:
      break;
  }
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "move it to the decisions of the intent",
                          "%s: '%s' can only be decided on in the intent", entry->path,
                          decision.kind);
}

// ---- ways ------------------------------------------------------------------------------

static shoal_status_t read_ways(reader_t *r, int64_t g, int32_t n, shoal_arena_t *texts) {
  shoal_plan_t *plan = r->plan;
  shoal_graph_plan_t *gp = &plan->graphs[g];
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  const shoal_mesh_t *mesh = &plan->meshes[gp->nodes[n].mesh];
  shoal_choice_t choices[SHOAL_PLAN_SLOTS] = {0};
  bool told_before[SHOAL_PLAN_SLOTS] = {0};
  shoal_told_t *told = NULL;
  const shoal_rule_t *rule = NULL;
  for (int32_t e = r->graphs[g].first[n]; e >= 0; e = r->graphs[g].next[e]) {
    const shoal_json_t *entry = &r->list->children[e];
    const char *choice;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "choice", &choice));
    int32_t slot = 0;
    SHOAL_RETURN_IF_ERROR(slot_of(mesh, entry, choice, texts, &slot));
    if (told_before[slot]) continue;  // the list is met from its end: later entries win
    told_before[slot] = true;
    if (!rule) {
      shoal_call_t call;
      SHOAL_RETURN_IF_ERROR(shoal_node_call(gp->graph, node, texts, &call));
      SHOAL_RETURN_IF_ERROR(shoal_rules_get(plan->rules, &call, &rule));
      told = SHOAL_NEW(&plan->arena, shoal_told_t, mesh->axis_count + 1);
      if (!told) return SHOAL_OOM();
    }
    bool dealt;
    shoal_status_t status = shoal_way_choice_parse(
        choice, rule, node->op, shoal_slot_size(plan, mesh, slot), texts, &dealt, &choices[slot]);
    if (status) return shoal_status_annotatef(status, "%s", entry->path);
    shoal_item_cut_t *cut = &choices[slot].item_cut;
    if (cut->weights && !(cut->weights = shoal_arena_copy(&plan->arena, cut->weights,
                                                          (size_t)shoal_slot_size(plan, mesh, slot),
                                                          sizeof *cut->weights)))
      return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(read_told(entry, &plan->arena, &told[slot]));
  }
  gp->nodes[n].told = told;
  shoal_status_t status = shoal_plan_decide(plan, gp, n, choices);
  if (status) return shoal_status_annotatef(status, "%s: node '%s'", r->list->path, node->name);
  return NULL;
}

// ---- all -------------------------------------------------------------------------------

// As if nobody had decided on anything.
static shoal_status_t forget(shoal_plan_t *plan) {
  const shoal_layout_t whole = {.mesh = plan->meshes};
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole, &plan->states[s]));
    plan->syncs[s] = (shoal_sync_t){.prefetch = 1};
    plan->memories[s] = SHOAL_MEMORY_DEVICE;
  }
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    shoal_graph_plan_t *gp = &plan->graphs[g];
    gp->schedule = NULL;
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
      gp->nodes[n].mesh = 0;
      gp->regions[n] = -1;
      gp->halos[n] = SHOAL_HALO_WHOLE;
      gp->at_capacity[n] = false;
      gp->tilings[n] = (shoal_tiling_t){0};
    }
    for (int64_t v = 0; v < gp->graph->values.count; ++v) gp->keeps[v] = SHOAL_KEEP;
    for (int64_t o = 0; o < gp->graph->outputs.count; ++o) gp->on_request[o] = false;
    for (int64_t i = 0; i < gp->graph->inputs.count; ++i)
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole,
                                               &gp->values[gp->graph->inputs.items[i].value]));
  }
  return NULL;
}

static void read_states_of_graphs(shoal_plan_t *plan) {
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_t *graph = plan->model->graphs.items[g];
    for (int64_t v = 0; v < graph->values.count; ++v)
      if (graph->values.items[v].source == SHOAL_FROM_STATE)
        plan->graphs[g].values[v] = plan->states[graph->values.items[v].index];
  }
}

// Composites that the file says are cut along an axis, but no part of which is.
static shoal_status_t check_composites(const reader_t *r) {
  for (int64_t c = 0; c < r->plan->composites.count; ++c)
    for (int32_t slot = 0; slot < SHOAL_PLAN_SLOTS; ++slot) {
      const shoal_composite_t *composite = &r->plan->composites.items[c];
      if (!r->said[c][slot] || shoal_composite_cuts(r->plan, composite, slot)) continue;
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "%s: node '%s' is composite along an axis along which none of its parts "
                         "is cut",
                         r->list->path, shoal_composite_node(r->plan, composite)->name);
    }
  return NULL;
}

shoal_status_t shoal_resolved_read(shoal_plan_t *plan, const shoal_json_t *list,
                                   shoal_arena_t *scratch) {
  reader_t r = {.plan = plan, .list = list, .scratch = scratch};
  r.told = SHOAL_NEW(scratch, shoal_told_t *, plan->composites.count);
  r.said = shoal_arena_alloc(scratch, (size_t)plan->composites.count + 1, sizeof *r.said);
  if (!r.told || !r.said) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(index_names(&r));
  SHOAL_RETURN_IF_ERROR(forget(plan));
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t i = 0; i < list->count; ++i) {
      shoal_status_t status = read_entry(&r, i, pass == 0);
      if (status) return shoal_status_annotatef(status, "%s", list->children[i].path);
    }
  read_states_of_graphs(plan);
  SHOAL_RETURN_IF_ERROR(shoal_plan_find_exchanged(plan));
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    for (int32_t n = 0; n < plan->graphs[g].graph->nodes.count; ++n) {
      shoal_arena_t texts;
      shoal_arena_init(plan->allocator, &texts);
      shoal_status_t status = read_ways(&r, g, n, &texts);
      shoal_arena_deinit(&texts);
      if (status) return status;
    }
  for (int64_t i = 0; i < list->count; ++i)
    SHOAL_RETURN_IF_ERROR(check_halo(&r, &list->children[i]));
  return check_composites(&r);
}
