// Where states, inputs and nodes lie: resting layouts, layouts of inputs, and the meshes of nodes
// that no stage names. Invariant: every layout in a plan points at one of plan->meshes.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/type.h"
#include "plan/complete.h"

// Along an axis of one rank nothing is cut. The rest of the plan need not know that there are two
// ways to say so (a flat part of one rank would be stored as a list, not in its shape).
static void drop_idle_cuts(shoal_layout_t *layout) {
  int32_t kept = 0;
  for (int32_t c = 0; c < layout->cut_count; ++c) {
    const shoal_cut_t *cut = &layout->cuts[c];
    int64_t size =
        cut->axis == SHOAL_AXIS_MICRO ? layout->mesh->micro : layout->mesh->axes[cut->axis].size;
    if (size > 1) layout->cuts[kept++] = *cut;
  }
  layout->cut_count = kept;
}

shoal_status_t shoal_plan_parse_layout(shoal_plan_t *plan, const char *text, int32_t mesh,
                                       const char *what, const shoal_shape_t *shape,
                                       const shoal_layout_t **out_layout) {
  shoal_layout_t layout;
  shoal_status_t status =
      strchr(text, '!') || mesh < 0
          ? shoal_layout_parse(text, plan->meshes, plan->mesh_count, &plan->arena, &layout)
          : shoal_layout_parse(text, &plan->meshes[mesh], 1, &plan->arena, &layout);
  if (!status) status = shoal_layout_check(&layout, shape);
  if (!status && layout.tile.count > 0)
    status = SHOAL_ERROR_HINT(INVALID_ARGUMENT, "decide `tile` on the node that makes or reads it",
                              "a plan deals out whole values, not tiles");
  if (status) return shoal_status_annotatef(status, "layout '%s' of '%s'", text, what);
  drop_idle_cuts(&layout);
  return shoal_layouts_keep(&plan->layouts, &layout, out_layout);
}

shoal_status_t shoal_plan_rest_state(shoal_plan_t *plan, int32_t s, const char *text,
                                     int32_t mesh) {
  const shoal_state_info_t *state = &plan->model->states.items[s];
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_parse_layout(plan, text, mesh, state->name, &state->type.shape, &plan->states[s]));
  const shoal_layout_t *layout = plan->states[s];
  if (shoal_layout_is_partial(layout))
    return SHOAL_ERROR(INVALID_ARGUMENT, "state '%s' cannot rest unreduced", state->name);
  for (int32_t c = 0; c < layout->cut_count; ++c) {
    if (layout->cuts[c].axis == SHOAL_AXIS_MICRO)
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "state '%s' cannot be cut along micro: it outlives the step", state->name);
    if (layout->cuts[c].before < 0 || layout->cuts[c].after < 0)
      return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "a halo of a resting state is not negative",
                              "state '%s' cannot rest trimmed: nobody would hold what is cut off",
                              state->name);
  }
  return NULL;
}

// Whether the ranks of `mesh` are just those of the meshes that read a state.
static bool is_union(const shoal_plan_t *plan, const shoal_mesh_t *mesh, const bool *reads) {
  int64_t size = 0;
  for (int64_t m = 0; m < plan->mesh_count; ++m) {
    if (!reads[m]) continue;
    const shoal_mesh_t *part = &plan->meshes[m];
    for (int64_t i = 0; i < shoal_mesh_size(part); ++i)
      if (shoal_mesh_position(mesh, shoal_mesh_rank(part, i)) < 0) return false;
    size += shoal_mesh_size(part);
    for (int64_t k = 0; k < m; ++k)
      if (reads[k] && shoal_mesh_overlap(part, &plan->meshes[k])) return false;
  }
  return size == shoal_mesh_size(mesh);
}

// By state, the mesh of the first node that reads it and was given one by a stage, "train" before
// other graphs; else -1. Where nodes on several meshes read it and the plan has a mesh of just
// their ranks, that one: a tied weight.
static shoal_status_t find_readers(shoal_plan_t *plan, int32_t *const *meshes, int32_t **out_mesh) {
  const shoal_model_t *model = plan->model;
  const int64_t states = model->states.count, count = plan->mesh_count;
  int32_t *found = SHOAL_NEW(&plan->arena, int32_t, states);
  bool *reads = SHOAL_NEW(&plan->arena, bool, states *count);
  if (!found || !reads) return SHOAL_OOM();
  for (int64_t s = 0; s < states; ++s) found[s] = -1;
  for (int pass = 0; pass < 2; ++pass)
    for (int64_t g = 0; g < model->graphs.count; ++g) {
      const shoal_graph_t *graph = model->graphs.items[g];
      if ((strcmp(graph->name, "train") == 0) != (pass == 0)) continue;
      for (int64_t n = 0; n < graph->nodes.count; ++n) {
        const shoal_node_t *node = &graph->nodes.items[n];
        for (int32_t i = 0; i < node->input_count && meshes[g][n] >= 0; ++i) {
          const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
          if (value->source != SHOAL_FROM_STATE) continue;
          if (found[value->index] < 0) found[value->index] = meshes[g][n];
          reads[value->index * count + meshes[g][n]] = true;
        }
      }
    }
  for (int64_t s = 0; s < states; ++s) {
    int64_t readers = 0;
    for (int64_t m = 0; m < count; ++m) readers += reads[s * count + m];
    for (int64_t m = 0; m < count && readers > 1; ++m)
      if (is_union(plan, &plan->meshes[m], &reads[s * count])) found[s] = (int32_t)m;
  }
  *out_mesh = found;
  return NULL;
}

shoal_status_t shoal_plan_owner_state(shoal_plan_t *plan, int64_t s, int32_t *out_base) {
  const char *full = plan->model->states.items[s].name, *hash = strchr(full, '#');
  *out_base = -1;
  if (!hash) return NULL;
  char *name = shoal_arena_strdup(&plan->arena, full);
  if (!name) return SHOAL_OOM();
  name[hash - full] = 0;
  int32_t base = shoal_model_find_state(plan->model, name);
  if (base < s) *out_base = base;
  return NULL;
}

shoal_status_t shoal_plan_place_states(shoal_plan_t *plan, int32_t *const *meshes) {
  const shoal_model_t *model = plan->model;
  int32_t *readers = NULL;
  plan->states = SHOAL_NEW(&plan->arena, const shoal_layout_t *, model->states.count);
  if (!plan->states) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_readers(plan, meshes, &readers));
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    const shoal_intent_decision_t *entry =
        shoal_patterns_find(&plan->patterns[SHOAL_DECIDE_LAYOUT], state->name);
    int32_t base = -1;
    SHOAL_RETURN_IF_ERROR(shoal_plan_owner_state(plan, s, &base));
    int32_t mesh = base >= 0 ? (int32_t)(plan->states[base]->mesh - plan->meshes) : readers[s];
    if (mesh < 0) mesh = 0;
    if (entry) {
      SHOAL_RETURN_IF_ERROR(shoal_plan_rest_state(plan, (int32_t)s, entry->choice, mesh));
    } else if (base >= 0 &&
               shoal_shape_equal(&model->states.items[base].type.shape, &state->type.shape)) {
      plan->states[s] = plan->states[base];
    } else {
      const shoal_layout_t whole = {.mesh = &plan->meshes[mesh]};
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole, &plan->states[s]));
    }
  }
  return NULL;
}

// Where the largest of a node's inputs is made, of equal ones the last; -1: nobody knows yet. A
// factor goes to what it multiplies, as a norm that clips gradients of all stages does.
static int32_t mesh_of_largest(const shoal_graph_t *graph, const shoal_node_t *node,
                               const int32_t *meshes) {
  int64_t largest = -1;
  int32_t mesh = -1;
  for (int32_t i = node->input_count; i-- > 0;) {
    const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
    if (value->source != SHOAL_FROM_NODE || meshes[value->node] < 0) continue;
    const int64_t bytes = shoal_type_bytes(&value->type);
    if (bytes <= largest) continue;
    largest = bytes;
    mesh = meshes[value->node];
  }
  return mesh;
}

// With the state they update or read, else their producer, else consumer.
void shoal_plan_spread_meshes(const shoal_plan_t *plan, const shoal_graph_t *graph,
                              int32_t *meshes) {
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    for (int32_t i = 0; i < node->input_count && meshes[n] < 0; ++i) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_STATE && value->type.shape.rank > 0)
        meshes[n] = (int32_t)(plan->states[value->index]->mesh - plan->meshes);
    }
    if (meshes[n] < 0) meshes[n] = mesh_of_largest(graph, node, meshes);
  }
  for (int64_t a = 0; a < graph->assigns.count; ++a) {
    const shoal_value_info_t *value = &graph->values.items[graph->assigns.items[a].value];
    if (value->source == SHOAL_FROM_NODE && meshes[value->node] < 0)
      meshes[value->node] =
          (int32_t)(plan->states[graph->assigns.items[a].state]->mesh - plan->meshes);
  }
  for (int64_t n = graph->nodes.count; n-- > 0;) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (meshes[n] < 0) meshes[n] = 0;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *value = &graph->values.items[node->inputs[i]];
      if (value->source == SHOAL_FROM_NODE && meshes[value->node] < 0)
        meshes[value->node] = meshes[n];
    }
  }
}

shoal_status_t shoal_plan_feed_input(shoal_plan_t *plan, shoal_graph_plan_t *gp, int32_t value,
                                     const char *text, int32_t mesh) {
  const shoal_value_info_t *info = &gp->graph->values.items[value];
  if (info->source != SHOAL_FROM_INPUT)
    return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is no input", info->name);
  SHOAL_RETURN_IF_ERROR(
      shoal_plan_parse_layout(plan, text, mesh, info->name, &info->type.shape, &gp->values[value]));
  if (shoal_layout_is_partial(gp->values[value]))
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "cut it along a dim, or leave it whole",
                            "input '%s' cannot be fed unreduced", info->name);
  return NULL;
}

shoal_status_t shoal_plan_place_inputs(shoal_plan_t *plan, shoal_graph_plan_t *gp) {
  const shoal_graph_t *graph = gp->graph;
  int32_t *first = SHOAL_NEW(&plan->arena, int32_t, graph->values.count);  // plus 1
  if (!first) return SHOAL_OOM();
  for (int64_t n = graph->nodes.count; n-- > 0;)
    for (int32_t k = 0; k < graph->nodes.items[n].input_count; ++k)
      first[graph->nodes.items[n].inputs[k]] = gp->nodes[n].mesh + 1;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    int32_t mesh = first[input->value] ? first[input->value] - 1 : 0;
    const shoal_intent_decision_t *entry = shoal_plan_decided_value(plan, graph, input->name);
    const shoal_layout_t **layout = &gp->values[input->value];
    if (!entry) {
      const shoal_layout_t whole = {.mesh = &plan->meshes[mesh]};
      SHOAL_RETURN_IF_ERROR(shoal_layouts_keep(&plan->layouts, &whole, layout));
      continue;
    }
    SHOAL_RETURN_IF_ERROR(shoal_plan_feed_input(plan, gp, input->value, entry->choice, mesh));
  }
  return NULL;
}
