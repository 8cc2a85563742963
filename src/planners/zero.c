// See zero.h.
#include "planners/zero.h"

#include <string.h>

#include "base/status.h"

// Is it trained, and of a shape that can be shared out?
static bool is_weight(const shoal_state_info_t *state) {
  return state->options.trainable && state->type.shape.rank > 0;
}

// Is the node's only input a state of ours, or what such a node made of one, and its output alike
// in all but its type? Casts of mixed precision are: what is gathered is their output.
static bool is_copy(const shoal_model_t *model, const shoal_graph_t *graph, int64_t n) {
  const shoal_node_t *node = &graph->nodes.items[n];
  if (node->kind != SHOAL_NODE_FORWARD || node->input_count != 1 || node->output_count != 1)
    return false;
  const shoal_value_info_t *in = &graph->values.items[node->inputs[0]];
  if (!shoal_shape_equal(&in->type.shape, &graph->values.items[node->outputs[0]].type.shape))
    return false;
  if (in->source == SHOAL_FROM_STATE) return is_weight(&model->states.items[in->index]);
  return in->source == SHOAL_FROM_NODE && is_copy(model, graph, in->node);
}

// By state: a master copy, which the forward passes read only to make narrower copies of it.
static shoal_status_t find_masters(shoal_strategy_context_t *context, bool **out_masters) {
  const shoal_model_t *model = context->model;
  bool *masters = SHOAL_NEW(context->arena, bool, model->states.count);
  bool *others = SHOAL_NEW(context->arena, bool, model->states.count);
  if (!masters || !others) return SHOAL_OOM();
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n) {
      const shoal_node_t *node = &graph->nodes.items[n];
      for (int32_t i = 0; i < node->input_count && node->kind != SHOAL_NODE_UPDATE; ++i) {
        const shoal_value_info_t *in = &graph->values.items[node->inputs[i]];
        if (in->source != SHOAL_FROM_STATE) continue;
        const bool narrows = is_copy(model, graph, n) &&
                             shoal_dtype_size(graph->values.items[node->outputs[0]].type.dtype) <
                                 shoal_dtype_size(in->type.dtype);
        *(narrows ? &masters[in->index] : &others[in->index]) = true;
      }
    }
  }
  for (int64_t s = 0; s < model->states.count; ++s) masters[s] = masters[s] && !others[s];
  *out_masters = masters;
  return NULL;
}

// All axes that cut the batch.
static const char *all_axes(const shoal_strategy_context_t *context) {
  return shoal_context_axis(context, "node") == 0   ? "data:flat"
         : shoal_context_axis(context, "data") == 0 ? "node:flat"
                                                    : "node:flat,data:flat";
}

shoal_status_t shoal_zero_share(shoal_strategy_context_t *context, const char *cuts, bool weights) {
  bool *masters = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_strategy_data(context, NULL));
  SHOAL_RETURN_IF_ERROR(find_masters(context, &masters));
  if (!cuts) cuts = all_axes(context);
  for (int64_t s = context->model->states.count; s-- > 0;) {  // moments before what they follow
    const shoal_state_info_t *state = &context->model->states.items[s];
    const bool moment = strchr(state->name, '#') && state->type.shape.rank > 0;
    if (moment || masters[s] || (weights && is_weight(state)))
      SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, state->name, cuts));
  }
  return NULL;
}

// By state: it has moments, of whatever shape.
static shoal_status_t find_owners(shoal_strategy_context_t *context, bool **out_owners) {
  const shoal_model_t *model = context->model;
  bool *owners = SHOAL_NEW(context->arena, bool, model->states.count);
  if (!owners) return SHOAL_OOM();
  for (int64_t s = 0; s < model->states.count; ++s) {
    const shoal_state_info_t *state = &model->states.items[s];
    const char *hash = strchr(state->name, '#');
    if (!hash || state->type.shape.rank == 0) continue;
    const char *name =
        shoal_arena_printf(context->arena, "%.*s", (int)(hash - state->name), state->name);
    if (!name) return SHOAL_OOM();
    const int32_t owner = shoal_model_find_state(model, name);
    if (owner >= 0) owners[owner] = true;
  }
  *out_owners = owners;
  return NULL;
}

// Without moments, as in plain SGD, nothing else says that a gradient is to be scattered: the new
// weight is made in parts.
static shoal_status_t share_updates(shoal_strategy_context_t *context, const shoal_graph_t *graph) {
  const shoal_model_t *model = context->model;
  bool *owners = NULL;
  SHOAL_RETURN_IF_ERROR(find_owners(context, &owners));
  for (int64_t a = 0; a < graph->assigns.count; ++a) {
    const shoal_assignment_t *assign = &graph->assigns.items[a];
    const shoal_value_info_t *value = &graph->values.items[assign->value];
    const shoal_state_info_t *state = &model->states.items[assign->state];
    if (!is_weight(state) || owners[assign->state] || value->source != SHOAL_FROM_NODE) continue;
    const char *layout = NULL;
    SHOAL_RETURN_IF_ERROR(shoal_context_layout_of(context, state->name, &layout));
    SHOAL_RETURN_IF_ERROR(shoal_context_layout(context, value->name, layout));
    SHOAL_RETURN_IF_ERROR(shoal_context_cut(context, value->name, all_axes(context)));
  }
  return NULL;
}

shoal_status_t shoal_zero_scatter(shoal_strategy_context_t *context) {
  for (int64_t g = 0; g < context->model->graphs.count; ++g) {
    const shoal_graph_t *graph = context->model->graphs.items[g];
    bool trains = false;
    for (int64_t n = 0; n < graph->nodes.count && !trains; ++n)
      trains = shoal_node_is_gradient(&graph->nodes.items[n]);
    if (!trains) continue;
    SHOAL_RETURN_IF_ERROR(share_updates(context, graph));
    return shoal_context_decide(context, "sync", "*", "each",
                                "only the rank's part of a gradient is kept");
  }
  return NULL;
}

static shoal_status_t gather_again(shoal_strategy_context_t *context, const char *name) {
  return shoal_context_decide(context, "keep", name, "redo",
                              "weights are gathered where they are used");
}

shoal_status_t shoal_zero_gather(shoal_strategy_context_t *context) {
  const shoal_model_t *model = context->model;
  for (int64_t s = 0; s < model->states.count; ++s)
    if (is_weight(&model->states.items[s]))
      SHOAL_RETURN_IF_ERROR(gather_again(context, model->states.items[s].name));
  for (int64_t g = 0; g < model->graphs.count; ++g) {
    const shoal_graph_t *graph = model->graphs.items[g];
    for (int64_t n = 0; n < graph->nodes.count; ++n)
      if (is_copy(model, graph, n))
        SHOAL_RETURN_IF_ERROR(
            gather_again(context, graph->values.items[graph->nodes.items[n].outputs[0]].name));
  }
  return NULL;
}
