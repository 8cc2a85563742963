// Reading the resolved part of a plan file: the list of decisions, later ones win. The plan that it
// makes is the one that was written, also where somebody edited it: each entry is taken as it says
// or refused with its place in the file.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan/choose.h"
#include "plan/complete.h"
#include "plan/composite.h"
#include "plan/gradients.h"
#include "plan/kinds.h"
#include "plan/resolved.h"
#include "plan/resolved_names.h"
#include "plan/stages.h"
#include "shoal/options.h"

// Entries about ways, by node and by entry; -1: no more.
typedef struct graph_ways {
  int32_t *first, *next;
} graph_ways_t;

typedef struct reader {
  shoal_plan_t *plan;
  const shoal_json_t *list;
  shoal_arena_t *scratch;
  shoal_entry_names_t names;
  graph_ways_t *ways;              // by graph
  shoal_told_t **told;             // by composite and slot
  bool (*said)[SHOAL_PLAN_SLOTS];  // by composite: it is to be cut along the slot's axis
} reader_t;

static shoal_status_t init(shoal_plan_t *plan, const shoal_json_t *list, shoal_arena_t *scratch,
                           reader_t *r) {
  const shoal_model_t *model = plan->model;
  *r = (reader_t){.plan = plan, .list = list, .scratch = scratch};
  r->told = SHOAL_NEW(scratch, shoal_told_t *, plan->composites.count);
  r->said = shoal_arena_alloc(scratch, (size_t)plan->composites.count + 1, sizeof *r->said);
  r->ways = SHOAL_NEW(scratch, graph_ways_t, model->graphs.count);
  if (!r->told || !r->said || !r->ways) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const int64_t count = model->graphs.items[g]->nodes.count;
    r->ways[g].first = SHOAL_NEW(scratch, int32_t, count);
    r->ways[g].next = SHOAL_NEW(scratch, int32_t, list->count);
    if (!r->ways[g].first || !r->ways[g].next) return SHOAL_OOM();
    for (int64_t n = 0; n < count; ++n) r->ways[g].first[n] = -1;
  }
  return shoal_entry_names_init(model, scratch, &r->names);
}

// ---- one entry each --------------------------------------------------------------------

static shoal_status_t find_mesh(const reader_t *r, const char *name, int32_t *out_mesh) {
  *out_mesh = shoal_plan_find_mesh(r->plan, name);
  if (*out_mesh >= 0) return NULL;
  SHOAL_VEC(const char *) names = {0};
  for (int64_t m = 0; m < r->plan->mesh_count; ++m)
    if (!SHOAL_PUSH(r->scratch, &names, r->plan->meshes[m].name)) return SHOAL_OOM();
  return shoal_entry_unknown("mesh", name, names.count, names.items, "the plan lists its meshes");
}

static shoal_status_t read_layout(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int32_t s = 0, v = 0;
  int64_t g = 0;
  if (shoal_json_find(entry, "state")) {
    SHOAL_RETURN_IF_ERROR(shoal_entry_state(&r->names, entry, &s));
    return shoal_plan_rest_state(r->plan, s, choice, -1);
  }
  SHOAL_RETURN_IF_ERROR(shoal_entry_input(&r->names, entry, &g, &v));
  return shoal_plan_feed_input(r->plan, &r->plan->graphs[g], v, choice, -1);
}

static shoal_status_t read_sync(shoal_plan_t *plan, int32_t s, const char *choice) {
  shoal_sync_t *sync = &plan->syncs[s];
  *sync = (shoal_sync_t){.prefetch = sync->prefetch};
  SHOAL_RETURN_IF_ERROR(
      shoal_decision_sync(&(shoal_intent_decision_t){.choice = choice}, &plan->arena, sync));
  sync->rows_by = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_plan_find_trained(plan));
  if (shoal_plan_is_synced(plan, s, sync)) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the entry out",
                          "state '%s' has no gradient to exchange",
                          plan->model->states.items[s].name);
}

static shoal_status_t read_of_state(reader_t *r, shoal_decide_t kind, const shoal_json_t *entry,
                                    const char *choice) {
  int32_t s = 0;
  SHOAL_RETURN_IF_ERROR(shoal_entry_state(&r->names, entry, &s));
  if (kind == SHOAL_DECIDE_SYNC) return read_sync(r->plan, s, choice);
  if (kind == SHOAL_DECIDE_MEMORY)
    (void)shoal_memory_kind_parse(choice, &r->plan->memories[s]);  // checked before
  else
    r->plan->syncs[s].prefetch = (int32_t)strtol(choice, NULL, 10);
  return NULL;
}

static shoal_status_t read_recompute(const shoal_json_t *entry, const char *choice,
                                     shoal_graph_plan_t *gp, int32_t n) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  int64_t region = SHOAL_OWN_REGION;
  if (node->kind != SHOAL_NODE_FORWARD)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the entry out",
                            "only nodes of the forward pass can be recomputed, and '%s' is none",
                            node->name);
  if (shoal_json_find(entry, "region")) {
    SHOAL_RETURN_IF_ERROR(shoal_json_get_int(entry, "region", &region));
    if (region < 0 || region > gp->graph->nodes.count)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                              "nodes with the same number are recomputed together; without one, a "
                              "node is so alone",
                              "region %lld is out of range", (long long)region);
  }
  gp->regions[n] = strcmp(choice, "yes") == 0 ? (int32_t)region : -1;
  return NULL;
}

static shoal_status_t read_counts(const char *choice, shoal_graph_plan_t *gp, int32_t n) {
  const shoal_node_t *node = &gp->graph->nodes.items[n];
  if (!node->op->bounds)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the entry out", "node '%s' bounds no rows",
                            node->name);
  gp->at_capacity[n] = shoal_plan_moves_capacity(choice);
  return NULL;
}

static shoal_status_t read_of_node(reader_t *r, shoal_decide_t kind, const shoal_json_t *entry,
                                   const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  SHOAL_RETURN_IF_ERROR(shoal_entry_node(&r->names, entry, &g, &n));
  shoal_graph_plan_t *gp = &r->plan->graphs[g];
  if (kind == SHOAL_DECIDE_STAGE) return find_mesh(r, choice, &gp->nodes[n].mesh);
  if (kind == SHOAL_DECIDE_RECOMPUTE) return read_recompute(entry, choice, gp, n);
  if (kind == SHOAL_DECIDE_BOUNDED) return read_counts(choice, gp, n);
  if (kind == SHOAL_DECIDE_HALO)
    gp->halos[n] = shoal_halo_of(choice);
  else
    (void)shoal_tiling_of(choice, &gp->tilings[n]);  // checked before
  return NULL;
}

static shoal_status_t read_output(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0, o = 0;
  SHOAL_RETURN_IF_ERROR(shoal_entry_output(&r->names, entry, &g, &o));
  r->plan->graphs[g].on_request[o] = strcmp(choice, "request") == 0;
  return NULL;
}

static shoal_status_t read_keep(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  int32_t v = 0;
  SHOAL_RETURN_IF_ERROR(shoal_entry_value(&r->names, entry, &g, &v));
  r->plan->graphs[g].keeps[v] = shoal_keep_of(choice);
  return NULL;
}

// Behind the ways, which say what halos there are.
static shoal_status_t check_halo(reader_t *r, const shoal_json_t *entry) {
  int64_t g = 0;
  int32_t n = 0;
  const char *kind;
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "kind", &kind));
  if (shoal_kind_find(kind) != SHOAL_DECIDE_HALO) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_entry_node(&r->names, entry, &g, &n));
  const shoal_graph_plan_t *gp = &r->plan->graphs[g];
  if (gp->halos[n] == SHOAL_HALO_WHOLE || shoal_plan_has_halo(gp, n)) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "take the entry out, or give the node another way",
                          "node '%s' waits for no halo", gp->graph->nodes.items[n].name);
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
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "{\"choice\": \"..\", \"cost\": 0}",
                              "%s must be an object", other->path);
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
static shoal_status_t slot_of(const shoal_mesh_t *mesh, const char *choice, shoal_arena_t *texts,
                              int32_t *out_slot) {
  const char *names[SHOAL_PLAN_SLOTS];
  char *axis = shoal_arena_strdup(texts, choice);
  if (!axis) return SHOAL_OOM();
  axis[strcspn(axis, "=")] = 0;
  for (*out_slot = 0; *out_slot <= mesh->axis_count; ++*out_slot) {
    names[*out_slot] = shoal_slot_name(mesh, *out_slot);
    if (strcmp(names[*out_slot], axis) == 0) return NULL;
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          shoal_did_you_mean(axis, names, mesh->axis_count + 1,
                                             "the plan's meshes list their axes", &hint),
                          "mesh '%s' has no axis '%s'", mesh->name, axis);
}

// That a node is composite was read before (shoal_resolved_phased): here is what was told about it.
static shoal_status_t read_composite(reader_t *r, const shoal_json_t *entry, const char *choice) {
  int64_t g = 0;
  const char *name;
  int32_t slot = 0;
  SHOAL_RETURN_IF_ERROR(shoal_entry_graph(&r->names, entry, &g));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "node", &name));
  shoal_plan_t *plan = r->plan;
  for (int64_t c = 0; c < plan->composites.count; ++c) {
    shoal_composite_t *composite = &plan->composites.items[c];
    if (composite->graph != g || strcmp(shoal_composite_node(plan, composite)->name, name) != 0)
      continue;
    const shoal_mesh_t *mesh = &plan->meshes[plan->graphs[g].nodes[composite->first].mesh];
    SHOAL_RETURN_IF_ERROR(slot_of(mesh, choice, r->scratch, &slot));
    shoal_told_t *told = r->told[c];
    if (!told) told = r->told[c] = SHOAL_NEW(&plan->arena, shoal_told_t, SHOAL_PLAN_SLOTS);
    if (!told) return SHOAL_OOM();
    composite->told = told;
    r->said[c][slot] = true;
    told[slot] = (shoal_told_t){0};
    return read_told(entry, &plan->arena, &told[slot]);
  }
  return shoal_entry_unknown("composite node", name, 0, NULL, "take the entry out");
}

// Ways are read node by node: here they are only noted.
static shoal_status_t note_way(reader_t *r, const shoal_json_t *entry, int64_t index,
                               const char *choice) {
  int64_t g = 0;
  int32_t n = 0;
  if (shoal_choice_is_composite(choice)) return read_composite(r, entry, choice);
  SHOAL_RETURN_IF_ERROR(shoal_entry_node(&r->names, entry, &g, &n));
  r->ways[g].next[index] = r->ways[g].first[n];
  r->ways[g].first[n] = (int32_t)index;
  return NULL;
}

// The key that names what an entry is about.
static const char *subject_key(shoal_decide_t kind, const shoal_json_t *entry) {
  static const char *const keys[SHOAL_OF_COUNT] = {
      [SHOAL_OF_NODE] = "node",     [SHOAL_OF_VALUE] = "value", [SHOAL_OF_STATE] = "state",
      [SHOAL_OF_OUTPUT] = "output", [SHOAL_OF_GRAPH] = "graph",
  };
  if (kind == SHOAL_DECIDE_LAYOUT) return shoal_json_find(entry, "state") ? "state" : "input";
  return keys[shoal_kind_of(kind)];
}

// Has the entry keys that its kind has no use for?
static shoal_status_t check_keys(shoal_decide_t kind, const char *subject,
                                 const shoal_json_t *entry) {
  const char *keys[9] = {"kind", "choice", "by", "reason", "cost", "runner_up", subject};
  int64_t count = 7;
  if (strcmp(subject, "state") != 0) keys[count++] = "graph";
  if (kind == SHOAL_DECIDE_RECOMPUTE) keys[count++] = "region";
  return shoal_json_only(entry, keys, count);
}

// Reads what is the same for all kinds, and refuses what is none.
static shoal_status_t check_entry(const shoal_json_t *entry, shoal_decide_t *out_kind,
                                  const char **out_choice) {
  shoal_intent_decision_t decision = {.pattern = "*"};
  if (entry->kind != SHOAL_JSON_OBJECT)
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                            "{\"kind\": \"keep\", \"graph\": .., \"value\": .., \"choice\": ..}",
                            "%s must be an object", entry->path);
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "kind", &decision.kind));
  SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "choice", &decision.choice));
  *out_kind = shoal_kind_find(decision.kind);
  *out_choice = decision.choice;
  if (*out_kind < SHOAL_DECIDE_COUNT) {
    const char *subject = subject_key(*out_kind, entry);
    SHOAL_RETURN_IF_ERROR(check_keys(*out_kind, subject, entry));
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, subject, &decision.pattern));
  }
  return shoal_decision_check(&decision);
}

static shoal_status_t read_entry(reader_t *r, int64_t index, bool first_pass) {
  const shoal_json_t *entry = &r->list->children[index];
  shoal_decide_t kind = SHOAL_DECIDE_COUNT;
  const char *choice = NULL;
  int64_t g = 0;
  SHOAL_RETURN_IF_ERROR(check_entry(entry, &kind, &choice));
  if (first_pass != (kind == SHOAL_DECIDE_STAGE)) return NULL;
  switch (kind) {
    case SHOAL_DECIDE_LAYOUT:
      return read_layout(r, entry, choice);
    case SHOAL_DECIDE_WAY:
      return note_way(r, entry, index, choice);
    case SHOAL_DECIDE_STAGE:
    case SHOAL_DECIDE_RECOMPUTE:
    case SHOAL_DECIDE_HALO:
    case SHOAL_DECIDE_TILE:
    case SHOAL_DECIDE_BOUNDED:
      return read_of_node(r, kind, entry, choice);
    case SHOAL_DECIDE_KEEP:
      return read_keep(r, entry, choice);
    case SHOAL_DECIDE_MEMORY:
    case SHOAL_DECIDE_SYNC:
    case SHOAL_DECIDE_PREFETCH:
      return read_of_state(r, kind, entry, choice);
    case SHOAL_DECIDE_SCHEDULE:
      SHOAL_RETURN_IF_ERROR(shoal_entry_graph(&r->names, entry, &g));
      return shoal_plan_schedule(r->plan, &r->plan->graphs[g], choice);
    case SHOAL_DECIDE_FETCH:
      return read_output(r, entry, choice);
    case SHOAL_DECIDE_EXPAND:   // shoal_resolved_phased
    case SHOAL_DECIDE_BALANCE:  // of strategies; stages say what came of it
    case SHOAL_DECIDE_COUNT:
      break;
  }
  return NULL;
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
  for (int32_t e = r->ways[g].first[n]; e >= 0; e = r->ways[g].next[e]) {
    const shoal_json_t *entry = &r->list->children[e];
    const char *choice;
    SHOAL_RETURN_IF_ERROR(shoal_json_get_string(entry, "choice", &choice));
    int32_t slot = 0;
    SHOAL_RETURN_IF_ERROR(shoal_entry_annotate(entry, slot_of(mesh, choice, texts, &slot)));
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
        choice, rule, node, shoal_slot_size(plan, mesh, slot), texts, &dealt, &choices[slot]);
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
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "take the entry out, or give one of the parts a way along the axis",
          "%s: node '%s' is composite along an axis along which none of its parts is cut",
          r->list->path, shoal_composite_node(r->plan, composite)->name);
    }
  return NULL;
}

shoal_status_t shoal_resolved_read(shoal_plan_t *plan, const shoal_json_t *list,
                                   shoal_arena_t *scratch) {
  reader_t r;
  SHOAL_RETURN_IF_ERROR(init(plan, list, scratch, &r));
  SHOAL_RETURN_IF_ERROR(forget(plan));
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t i = 0; i < list->count; ++i) {
      shoal_status_t status = read_entry(&r, i, pass == 0);
      if (status) return shoal_entry_annotate(&list->children[i], status);
    }
  SHOAL_RETURN_IF_ERROR(shoal_resolved_regions(plan, list, scratch));
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
    SHOAL_RETURN_IF_ERROR(
        shoal_entry_annotate(&list->children[i], check_halo(&r, &list->children[i])));
  return check_composites(&r);
}
