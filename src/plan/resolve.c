// From decisions to what lowering reads: regions to recompute, what is kept, where states rest, how
// gradients are exchanged, schedules, fetches. Layouts, stages and ways are resolved elsewhere
// (place.c, create.c, complete.c).
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/complete.h"
#include "plan/gradients.h"
#include "plan/stages.h"
#include "shoal/options.h"

// Outputs larger than this are gathered on request, where there are several ranks.
#define FETCH_BYTES (INT64_C(1) << 20)

static const char *chosen(const shoal_plan_t *plan, shoal_decide_t kind, const char *name) {
  const shoal_intent_decision_t *decision = shoal_plan_decided(plan, kind, name);
  return decision ? decision->choice : NULL;
}

// ---- ways ------------------------------------------------------------------------------

static bool has_axis(const shoal_plan_t *plan, const char *axis) {
  bool found = strcmp(axis, "micro") == 0;
  for (int64_t m = 0; m < plan->mesh_count && !found; ++m)
    found = shoal_mesh_axis(&plan->meshes[m], axis) >= 0;
  return found;
}

static shoal_status_t no_axis(shoal_plan_t *plan, const char *axis) {
  SHOAL_VEC(const char *) names = {0};
  for (int64_t m = 0; m < plan->mesh_count; ++m)
    for (int32_t a = 0; a < plan->meshes[m].axis_count; ++a)
      if (!SHOAL_PUSH(&plan->arena, &names, plan->meshes[m].axes[a].name)) return SHOAL_OOM();
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND, shoal_did_you_mean(axis, names.items, names.count, "'micro' is one too", &hint),
      "no mesh has an axis '%s'", axis);
}

// The decisions about ways along one axis, in order.
static shoal_status_t add_ways(shoal_plan_t *plan, const char *axis) {
  const shoal_patterns_t *all = &plan->patterns[SHOAL_DECIDE_WAY];
  const size_t length = strlen(axis);
  shoal_intent_decision_t *found = SHOAL_NEW(&plan->arena, shoal_intent_decision_t, all->count);
  shoal_patterns_t *patterns = SHOAL_NEW(&plan->arena, shoal_patterns_t, 1);
  int64_t count = 0;
  if (!found || !patterns) return SHOAL_OOM();
  for (int64_t e = 0; e < all->count; ++e)
    if (strncmp(all->entries[e].choice, axis, length) == 0 && all->entries[e].choice[length] == '=')
      found[count++] = all->entries[e];
  plan->ways[plan->way_count++] = (shoal_way_decisions_t){axis, patterns};
  return shoal_patterns_init(count, found, &plan->arena, patterns);
}

shoal_status_t shoal_plan_sort_ways(shoal_plan_t *plan) {
  const shoal_patterns_t *all = &plan->patterns[SHOAL_DECIDE_WAY];
  if (all->count == 0) return NULL;
  plan->ways = SHOAL_NEW(&plan->arena, shoal_way_decisions_t, all->count);
  if (!plan->ways) return SHOAL_OOM();
  for (int64_t e = 0; e < all->count; ++e) {
    char *axis = shoal_arena_strdup(&plan->arena, all->entries[e].choice);
    if (!axis) return SHOAL_OOM();
    axis[strcspn(axis, "=")] = 0;
    bool known = false;
    for (int64_t w = 0; w < plan->way_count && !known; ++w)
      known = strcmp(plan->ways[w].axis, axis) == 0;
    if (known) continue;
    if (!has_axis(plan, axis))
      return shoal_decision_annotate(&all->entries[e], no_axis(plan, axis));
    SHOAL_RETURN_IF_ERROR(add_ways(plan, axis));
  }
  return NULL;
}

// ---- states ----------------------------------------------------------------------------

static shoal_memory_kind_t memory_of(const char *choice) {
  if (!choice || strcmp(choice, "device") == 0) return SHOAL_MEMORY_DEVICE;
  return strcmp(choice, "host") == 0 ? SHOAL_MEMORY_HOST : SHOAL_MEMORY_FILE;
}

// A decision about states none of which it can say anything about would do nothing.
static shoal_status_t check_sync(shoal_plan_t *plan, const shoal_intent_decision_t *decision) {
  const char *other = NULL;
  shoal_sync_t sync = {0};
  SHOAL_RETURN_IF_ERROR(shoal_plan_find_trained(plan));
  SHOAL_RETURN_IF_ERROR(shoal_decision_sync(decision, &plan->arena, &sync));
  for (int64_t s = 0; s < plan->model->states.count; ++s) {
    const char *name = plan->model->states.items[s].name;
    if (!shoal_pattern_match(decision->pattern, name)) continue;
    if (shoal_plan_is_synced(plan, s, &sync)) return NULL;
    if (!other) other = name;
  }
  if (!other) return NULL;
  return shoal_decision_annotate(
      decision, SHOAL_ERROR_HINT(INVALID_ARGUMENT, "let the pattern match states that are trained",
                                 "about state '%s': it has no gradient to exchange", other));
}

static shoal_status_t check_syncs(shoal_plan_t *plan) {
  const shoal_patterns_t *all = &plan->patterns[SHOAL_DECIDE_SYNC];
  for (int64_t e = 0; e < all->count; ++e)
    SHOAL_RETURN_IF_ERROR(check_sync(plan, &all->entries[e]));
  return NULL;
}

// Sync decisions leave out states that they say nothing about. Each word replaces what an earlier
// decision says of the same: a strategy's `each` and a user's `dtype=bf16` go together.
static shoal_status_t resolve_sync(shoal_plan_t *plan, int64_t s,
                                   const shoal_intent_decision_t *decision) {
  shoal_sync_t sync = plan->syncs[s];
  SHOAL_RETURN_IF_ERROR(shoal_decision_sync(decision, &plan->arena, &sync));
  if (shoal_plan_is_synced(plan, s, &sync)) plan->syncs[s] = sync;
  return NULL;
}

static shoal_status_t resolve_state(shoal_plan_t *plan, int64_t s) {
  const char *name = plan->model->states.items[s].name;
  shoal_sync_t *sync = &plan->syncs[s];
  *sync = (shoal_sync_t){.prefetch = 1};
  const shoal_patterns_t *syncs = &plan->patterns[SHOAL_DECIDE_SYNC];
  for (int64_t e = 0; e < syncs->count; ++e)
    if (shoal_pattern_match(syncs->entries[e].pattern, name))
      SHOAL_RETURN_IF_ERROR(resolve_sync(plan, s, &syncs->entries[e]));
  const char *layers = chosen(plan, SHOAL_DECIDE_PREFETCH, name);
  if (layers) sync->prefetch = (int32_t)strtol(layers, NULL, 10);
  plan->memories[s] = memory_of(chosen(plan, SHOAL_DECIDE_MEMORY, name));
  return NULL;
}

// ---- graphs ----------------------------------------------------------------------------

shoal_keep_t shoal_keep_of(const char *choice) {
  if (!choice || strcmp(choice, "keep") == 0) return SHOAL_KEEP;
  if (strcmp(choice, "redo") == 0) return SHOAL_KEEP_REDO;
  return strcmp(choice, "host") == 0 ? SHOAL_KEEP_HOST : SHOAL_KEEP_FILE;
}

// How much of a node's name is its region: as many of its scopes as the pattern names. "block*"
// makes a region of each block, "block*/attn*" one of each block's attention; "/*" at the end only
// says that all below counts, so that "block0/*" is one region. Without '*' it is the whole name.
static size_t region_length(const char *pattern, const char *node) {
  size_t length = strlen(pattern), end = 0;
  int64_t scopes = 1;
  if (!shoal_pattern_is(pattern)) return strlen(node);
  if (strncmp(pattern, "re:", 3) == 0 && length > 3 &&
      (strcmp(pattern + length - 3, "/.*") == 0 || strcmp(pattern + length - 3, "/.+") == 0))
    length -= 3;
  while (length > 2 && memcmp(pattern + length - 2, "/*", 2) == 0) length -= 2;
  for (size_t i = 0; i < length; ++i) scopes += pattern[i] == '/';
  for (;; ++end) {
    end += strcspn(node + end, "/");
    if (--scopes == 0 || !node[end]) return end;
  }
}

typedef struct regions {
  shoal_index_t index;
  SHOAL_VEC(const char *) names;  // the name starts with it
  SHOAL_VEC(size_t) lengths;
  SHOAL_VEC(int32_t) meshes;
  SHOAL_VEC(int32_t) stages;
} regions_t;

// On each mesh a region of its own, and in each of its stages if it has several: what goes from one
// to another is kept, not sent again. The backward pass goes through them the other way round, and
// could not wait for it.
static shoal_status_t region_of(shoal_arena_t *arena, regions_t *regions, const char *name,
                                size_t length, int32_t mesh, int32_t stage, int32_t *out_region) {
  const uint64_t hash =
      shoal_hash_int(shoal_hash_int(shoal_hash_bytes(SHOAL_HASH_START, name, length), mesh), stage);
  for (int64_t at = -1, r; (r = shoal_index_next(&regions->index, hash, &at)) >= 0;)
    if (regions->lengths.items[r] == length && regions->meshes.items[r] == mesh &&
        regions->stages.items[r] == stage && memcmp(regions->names.items[r], name, length) == 0) {
      *out_region = (int32_t)r;
      return NULL;
    }
  *out_region = (int32_t)regions->names.count;
  if (!shoal_index_add(&regions->index, hash, regions->names.count) ||
      !SHOAL_PUSH(arena, &regions->names, name) || !SHOAL_PUSH(arena, &regions->lengths, length) ||
      !SHOAL_PUSH(arena, &regions->meshes, mesh) || !SHOAL_PUSH(arena, &regions->stages, stage))
    return SHOAL_OOM();
  return NULL;
}

// Is there a backward pass to compute anything again for?
static bool has_backward(const shoal_graph_t *graph) {
  bool found = false;
  for (int64_t n = 0; n < graph->nodes.count && !found; ++n)
    found = graph->nodes.items[n].kind == SHOAL_NODE_INPUT_GRADIENT ||
            graph->nodes.items[n].kind == SHOAL_NODE_WEIGHT_GRADIENT;
  return found;
}

// Of the region that the model marks. No node has a name with a space in it.
static const char *mark_name(shoal_arena_t *arena, const shoal_node_t *node) {
  return shoal_arena_printf(arena, "mark %d", (int)node->recompute);
}

// Has somebody asked for something to be computed again?
static bool is_asked(const shoal_plan_t *plan, const shoal_graph_t *graph) {
  bool found = plan->patterns[SHOAL_DECIDE_RECOMPUTE].count > 0;
  for (int64_t n = 0; n < graph->nodes.count && !found; ++n)
    found = graph->nodes.items[n].recompute > 0;
  return found;
}

static shoal_status_t find_regions(const shoal_plan_t *plan, shoal_graph_plan_t *gp,
                                   shoal_arena_t *scratch) {
  const shoal_graph_t *graph = gp->graph;
  regions_t regions = {0};
  const int32_t *stages;
  shoal_index_init(scratch, &regions.index);
  SHOAL_RETURN_IF_ERROR(shoal_plan_several_stages(gp, scratch, &stages));
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    const shoal_intent_decision_t *decision =
        shoal_plan_decided_node(plan, SHOAL_DECIDE_RECOMPUTE, gp, n);
    const bool marked = !decision && node->recompute > 0;
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    if (!marked && (!decision || strcmp(decision->choice, "yes") != 0)) continue;
    const char *name = marked                                ? mark_name(scratch, node)
                       : shoal_pattern_is(decision->pattern) ? node->name
                                                             : decision->pattern;
    if (!name) return SHOAL_OOM();
    const size_t length = marked ? strlen(name) : region_length(decision->pattern, node->name);
    SHOAL_RETURN_IF_ERROR(region_of(scratch, &regions, name, length, gp->nodes[n].mesh,
                                    stages ? stages[n] : 0, &gp->regions[n]));
  }
  return NULL;
}

bool shoal_plan_waits_for_request(const shoal_plan_t *plan, const shoal_type_t *type) {
  return plan->world > 1 && shoal_type_bytes(type) > FETCH_BYTES;
}

static shoal_status_t resolve_graph(shoal_plan_t *plan, shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  gp->regions = SHOAL_NEW(&plan->arena, int32_t, graph->nodes.count);
  gp->keeps = SHOAL_NEW(&plan->arena, shoal_keep_t, graph->values.count);
  gp->on_request = SHOAL_NEW(&plan->arena, bool, graph->outputs.count);
  gp->halos = SHOAL_NEW(&plan->arena, shoal_halo_t, graph->nodes.count);
  gp->tilings = SHOAL_NEW(&plan->arena, shoal_tiling_t, graph->nodes.count);
  gp->at_capacity = SHOAL_NEW(&plan->arena, bool, graph->nodes.count);
  if (!gp->regions || !gp->keeps || !gp->on_request || !gp->halos || !gp->tilings ||
      !gp->at_capacity)
    return SHOAL_OOM();
  for (int64_t n = 0; n < graph->nodes.count; ++n)
    gp->at_capacity[n] =
        graph->nodes.items[n].op->bounds &&
        shoal_plan_moves_capacity(chosen(plan, SHOAL_DECIDE_BOUNDED, graph->nodes.items[n].name));
  for (int64_t n = 0; plan->patterns[SHOAL_DECIDE_TILE].count > 0 && n < graph->nodes.count; ++n) {
    const shoal_intent_decision_t *tile = shoal_plan_decided_node(plan, SHOAL_DECIDE_TILE, gp, n);
    if (tile) (void)shoal_tiling_of(tile->choice, &gp->tilings[n]);
  }
  for (int64_t n = 0; plan->patterns[SHOAL_DECIDE_HALO].count > 0 && n < graph->nodes.count; ++n)
    gp->halos[n] = shoal_halo_of(chosen(plan, SHOAL_DECIDE_HALO, graph->nodes.items[n].name));
  for (int64_t n = 0; n < graph->nodes.count; ++n) gp->regions[n] = -1;
  gp->assigned = SHOAL_NEW(&plan->arena, int32_t, graph->values.count);
  if (!gp->assigned) return SHOAL_OOM();
  for (int64_t v = 0; v < graph->values.count; ++v) gp->assigned[v] = -1;
  for (int64_t a = 0; a < graph->assigns.count; ++a)
    gp->assigned[graph->assigns.items[a].value] = graph->assigns.items[a].state;
  for (int64_t v = 0; plan->patterns[SHOAL_DECIDE_KEEP].count > 0 && v < graph->values.count; ++v)
    gp->keeps[v] = shoal_keep_of(chosen(plan, SHOAL_DECIDE_KEEP, graph->values.items[v].name));
  for (int64_t o = 0; o < graph->outputs.count; ++o) {
    const shoal_named_t *output = &graph->outputs.items[o];
    const char *choice = chosen(plan, SHOAL_DECIDE_FETCH, output->name);
    const shoal_type_t *type = &graph->values.items[output->value].type;
    gp->on_request[o] =
        choice ? strcmp(choice, "request") == 0 : shoal_plan_waits_for_request(plan, type);
  }
  const shoal_intent_decision_t *schedule =
      shoal_plan_decided(plan, SHOAL_DECIDE_SCHEDULE, graph->name);
  if (schedule)
    SHOAL_RETURN_IF_ERROR(
        shoal_decision_annotate(schedule, shoal_plan_schedule(plan, gp, schedule->choice)));
  if (!is_asked(plan, graph) || !has_backward(graph)) return NULL;
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = find_regions(plan, gp, &scratch);
  if (!status) status = shoal_plan_store_rest(plan, gp, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

// Only the forward pass is recomputed: a decision that matches nothing of it would say nothing.
static shoal_status_t check_recompute(const shoal_plan_t *plan,
                                      const shoal_intent_decision_t *decision) {
  const char *other = NULL;
  if (strcmp(decision->kind, "recompute") != 0 || strcmp(decision->choice, "yes") != 0) return NULL;
  for (int64_t g = 0; g < plan->model->graphs.count; ++g) {
    const shoal_graph_plan_t *gp = &plan->graphs[g];
    for (int64_t n = 0; n < gp->graph->nodes.count; ++n) {
      const shoal_node_t *node = &gp->graph->nodes.items[n];
      const shoal_composite_t *owner = shoal_plan_owner(plan, gp, n);
      const char *whole = owner ? shoal_composite_node(plan, owner)->name : node->name;
      if (!shoal_pattern_match(decision->pattern, node->name) &&
          !shoal_pattern_match(decision->pattern, whole))
        continue;
      if (node->kind == SHOAL_NODE_FORWARD) return NULL;
      if (!other) other = whole;
    }
  }
  if (!other) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "let the pattern match nodes of the forward pass",
                          "decision 'recompute %s yes': '%s' is not part of the forward pass",
                          decision->pattern, other);
}

shoal_status_t shoal_plan_resolve(shoal_plan_t *plan) {
  const shoal_model_t *model = plan->model;
  for (int64_t i = 0; i < plan->intent.decision_count; ++i)
    SHOAL_RETURN_IF_ERROR(check_recompute(plan, &plan->intent.decisions[i]));
  plan->syncs = SHOAL_NEW(&plan->arena, shoal_sync_t, model->states.count);
  plan->memories = SHOAL_NEW(&plan->arena, shoal_memory_kind_t, model->states.count);
  if (!plan->syncs || !plan->memories) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(check_syncs(plan));
  for (int64_t s = 0; s < model->states.count; ++s) SHOAL_RETURN_IF_ERROR(resolve_state(plan, s));
  for (int64_t g = 0; g < model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(resolve_graph(plan, &plan->graphs[g]));
  return shoal_plan_find_exchanged(plan);
}
