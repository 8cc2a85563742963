// Which state a gradient belongs to: the one whose sync decision speaks of it.
//
// A gradient belongs to the state that its update reaches first. Updates may mix gradients
// (clipping by the norm of all of them), so the way is looked for breadth first: the state itself
// is nearer than those that are only touched by the norm. What is read from a state, or assigned to
// one, belongs to that state. What is made of a gradient's summands, each clipped, is the gradient
// that ranks exchange.
#include "plan/gradients.h"

#include <string.h>

#include "base/status.h"
#include "plan/complete.h"

struct shoal_gradients {
  const shoal_graph_t *graph;
  const shoal_model_t *model;
  int32_t *assigned;  // by value: the state that takes it; -1: none
  int64_t *first;     // by value: its uses by nodes that update; first[value + 1] is their end
  int32_t *uses;      // nodes
  int32_t *known;     // by value: what was found; -1: nothing, -2: not asked yet
  int64_t *seen;      // by value: the search that came to it last
  int32_t *queue;     // values
  int64_t search;
};

// Of several states that take a value, the first that is trained counts.
static void list_assigned(shoal_gradients_t *s) {
  for (int64_t v = 0; v < s->graph->values.count; ++v) s->assigned[v] = -1, s->known[v] = -2;
  for (int64_t i = 0; i < s->graph->assigns.count; ++i) {
    const shoal_assignment_t *assign = &s->graph->assigns.items[i];
    int32_t *state = &s->assigned[assign->value];
    const bool trained = s->model->states.items[assign->state].options.trainable;
    if (*state < 0 || (trained && !s->model->states.items[*state].options.trainable))
      *state = assign->state;
  }
}

static bool updates(const shoal_node_t *node) {
  return node->kind == SHOAL_NODE_UPDATE;
}

static shoal_status_t list_uses(shoal_gradients_t *s, shoal_arena_t *arena) {
  const shoal_graph_t *graph = s->graph;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; updates(node) && i < node->input_count; ++i)
      ++s->first[node->inputs[i] + 1];
  }
  for (int64_t v = 0; v < graph->values.count; ++v) s->first[v + 1] += s->first[v];
  int64_t *at = shoal_arena_copy(arena, s->first, (size_t)graph->values.count, sizeof *at);
  s->uses = SHOAL_NEW(arena, int32_t, s->first[graph->values.count]);
  if (!at || !s->uses) return SHOAL_OOM();
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; updates(node) && i < node->input_count; ++i)
      s->uses[at[node->inputs[i]]++] = (int32_t)n;
  }
  return NULL;
}

shoal_status_t shoal_gradients_make(const shoal_graph_t *graph, const shoal_model_t *model,
                                    shoal_arena_t *arena, shoal_gradients_t **out_gradients) {
  const int64_t count = graph->values.count;
  shoal_gradients_t *s = SHOAL_NEW(arena, shoal_gradients_t, 1);
  if (!s) return SHOAL_OOM();
  *s = (shoal_gradients_t){.graph = graph,
                           .model = model,
                           .assigned = SHOAL_NEW(arena, int32_t, count),
                           .first = SHOAL_NEW(arena, int64_t, count + 1),
                           .known = SHOAL_NEW(arena, int32_t, count),
                           .seen = SHOAL_NEW(arena, int64_t, count),
                           .queue = SHOAL_NEW(arena, int32_t, count)};
  if (!s->assigned || !s->first || !s->known || !s->seen || !s->queue) return SHOAL_OOM();
  list_assigned(s);
  SHOAL_RETURN_IF_ERROR(list_uses(s, arena));
  *out_gradients = s;
  return NULL;
}

// Breadth first over what updates make of the value.
static int32_t find_updated(shoal_gradients_t *s, int32_t value) {
  int64_t head = 0, end = 0;
  int32_t found = -1;
  ++s->search;
  s->seen[value] = s->search;
  s->queue[end++] = value;
  for (; head < end; ++head) {
    const int32_t v = s->queue[head];
    if (s->assigned[v] >= 0) {
      if (s->model->states.items[s->assigned[v]].options.trainable) return s->assigned[v];
      if (found < 0) found = s->assigned[v];
    }
    for (int64_t u = s->first[v]; u < s->first[v + 1]; ++u) {
      const shoal_node_t *node = &s->graph->nodes.items[s->uses[u]];
      for (int32_t o = 0; o < node->output_count; ++o) {
        if (s->seen[node->outputs[o]] == s->search) continue;
        s->seen[node->outputs[o]] = s->search;
        s->queue[end++] = node->outputs[o];
      }
    }
  }
  return found;
}

int32_t shoal_gradients_state(shoal_gradients_t *s, int32_t value) {
  const shoal_value_info_t *info = &s->graph->values.items[value];
  if (info->source != SHOAL_FROM_NODE) return -1;
  const shoal_node_t *node = &s->graph->nodes.items[info->node];
  if (!shoal_node_is_gradient(node) && !node->op->sums_summands) return -1;
  if (s->known[value] == -2) s->known[value] = find_updated(s, value);
  return s->known[value];
}

int32_t shoal_gradients_copied_state(const shoal_gradients_t *s, int32_t value) {
  const shoal_value_info_t *info = &s->graph->values.items[value];
  return info->source == SHOAL_FROM_STATE ? info->index : s->assigned[value];
}

// ---- states ----------------------------------------------------------------------------

static shoal_status_t mark_trained(const shoal_plan_t *plan, const shoal_graph_t *graph,
                                   shoal_arena_t *scratch) {
  shoal_gradients_t *gradients = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph, plan->model, scratch, &gradients));
  for (int32_t v = 0; v < graph->values.count; ++v) {
    const int32_t state = shoal_gradients_state(gradients, v);
    if (state >= 0) plan->trained[state] = true;
  }
  return NULL;
}

shoal_status_t shoal_plan_find_trained(shoal_plan_t *plan) {
  if (plan->trained) return NULL;
  plan->trained = SHOAL_NEW(&plan->arena, bool, plan->model->states.count);
  if (!plan->trained) return SHOAL_OOM();
  shoal_arena_t scratch;
  shoal_status_t status = NULL;
  shoal_arena_init(plan->allocator, &scratch);
  for (int64_t g = 0; g < plan->model->graphs.count && !status; ++g)
    status = mark_trained(plan, plan->graphs[g].graph, &scratch);
  shoal_arena_deinit(&scratch);
  return status;
}

bool shoal_plan_is_synced(const shoal_plan_t *plan, int64_t state, const shoal_sync_t *sync) {
  const bool bucket = sync->bucket || sync->bucket_bytes > 0;
  return plan->trained[state] || (bucket && plan->model->states.items[state].options.trainable);
}

// ---- exchange --------------------------------------------------------------------------

static shoal_status_t find_exchanged(const shoal_plan_t *plan, const shoal_graph_t *graph,
                                     shoal_arena_t *scratch, shoal_dtype_t *types,
                                     int32_t *scale_log2) {
  shoal_gradients_t *gradients = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph, plan->model, scratch, &gradients));
  for (int32_t v = 0; v < graph->values.count; ++v) {
    const int32_t state = shoal_gradients_state(gradients, v);
    const shoal_dtype_t own = types[v] = graph->values.items[v].type.dtype;
    if (state >= 0 && plan->syncs[state].cast && shoal_dtype_is_float(own))
      types[v] = plan->syncs[state].dtype;
    scale_log2[v] = types[v] != own ? plan->syncs[state].scale_log2 : 0;
  }
  return NULL;
}

shoal_status_t shoal_plan_exchanged(const shoal_plan_t *plan, const shoal_graph_t *graph,
                                    shoal_arena_t *arena, shoal_dtype_t **out_types,
                                    int32_t **out_scale_log2) {
  bool any = false;
  *out_types = NULL;
  *out_scale_log2 = NULL;
  for (int64_t s = 0; s < plan->model->states.count; ++s) any |= plan->syncs[s].cast;
  if (!any) return NULL;
  *out_types = SHOAL_NEW(arena, shoal_dtype_t, graph->values.count);
  *out_scale_log2 = SHOAL_NEW(arena, int32_t, graph->values.count);
  if (!*out_types || !*out_scale_log2) return SHOAL_OOM();
  shoal_arena_t scratch;
  shoal_arena_init(plan->allocator, &scratch);
  shoal_status_t status = find_exchanged(plan, graph, &scratch, *out_types, *out_scale_log2);
  shoal_arena_deinit(&scratch);
  return status;
}

shoal_status_t shoal_plan_find_exchanged(shoal_plan_t *plan) {
  for (int64_t s = 0; s < plan->model->states.count; ++s)
    if (plan->syncs[s].scale_log2 != 0 && !plan->syncs[s].cast)
      return SHOAL_ERROR_HINT(
          INVALID_ARGUMENT, "sync * dtype=f16 scale=1024",
          "sync of state '%s' has a scale and no dtype: what is exchanged in its "
          "own type is not scaled",
          plan->model->states.items[s].name);
  for (int64_t g = 0; g < plan->model->graphs.count; ++g)
    SHOAL_RETURN_IF_ERROR(shoal_plan_exchanged(plan, plan->graphs[g].graph, &plan->arena,
                                               &plan->graphs[g].exchanged,
                                               &plan->graphs[g].scale_log2));
  return NULL;
}

// ---- homes -----------------------------------------------------------------------------

shoal_status_t shoal_plan_state_homes(shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                      shoal_arena_t *arena, const shoal_layout_t ***out_homes,
                                      bool *out_any) {
  const shoal_model_t *model = plan->model;
  const shoal_layout_t **homes = SHOAL_NEW(arena, const shoal_layout_t *, model->states.count);
  if (!homes) return SHOAL_OOM();
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    int32_t owner = -1;
    SHOAL_RETURN_IF_ERROR(shoal_plan_owner_state(plan, s, &owner));
    if (owner < 0)
      homes[s] = plan->states[s];
    else if (homes[owner] == plan->states[owner] &&
             shoal_shape_equal(&state->type.shape, &model->states.items[owner].type.shape))
      homes[owner] = plan->states[s];
  }
  for (int64_t a = 0; a < gp->graph->assigns.count; ++a) {
    const shoal_assignment_t *assign = &gp->graph->assigns.items[a];
    const shoal_value_info_t *info = &gp->graph->values.items[assign->value];
    const shoal_intent_decision_t *entry = shoal_plan_decided_value(plan, gp->graph, info->name);
    if (entry && strcmp(entry->pattern, "*") != 0 && info->source == SHOAL_FROM_NODE)
      SHOAL_RETURN_IF_ERROR(shoal_plan_parse_layout(plan, entry->choice, gp->nodes[info->node].mesh,
                                                    info->name, &info->type.shape,
                                                    &homes[assign->state]));
  }
  for (int64_t s = 0; s < model->states.count; ++s) *out_any |= homes[s] && homes[s]->cut_count > 0;
  *out_homes = homes;
  return NULL;
}

shoal_status_t shoal_plan_find_homes(shoal_plan_t *plan, const shoal_graph_plan_t *gp,
                                     shoal_arena_t *arena, const shoal_layout_t ***out_homes) {
  const shoal_graph_t *graph = gp->graph;
  const shoal_layout_t **states = NULL;
  shoal_gradients_t *gradients = NULL;
  bool any = false;
  *out_homes = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_plan_state_homes(plan, gp, arena, &states, &any));
  if (!any) return NULL;
  const shoal_layout_t **homes = SHOAL_NEW(arena, const shoal_layout_t *, graph->values.count);
  if (!homes) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_gradients_make(graph, plan->model, arena, &gradients));
  for (int32_t v = 0; v < graph->values.count; ++v) {
    const int32_t state = shoal_gradients_state(gradients, v);
    if (state >= 0 && shoal_shape_equal(&graph->values.items[v].type.shape,
                                        &plan->model->states.items[state].type.shape))
      homes[v] = states[state];
  }
  *out_homes = homes;
  return NULL;
}
