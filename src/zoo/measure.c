// How large a model is and what a step of it costs, found from its graph (zoo.h).
#include "graph/graph.h"
#include "zoo/family.h"

static int64_t bytes_of(const shoal_type_t *type) {
  return shoal_shape_count(&type->shape) * (int64_t)shoal_dtype_size(type->dtype);
}

static shoal_status_t measure(const shoal_zoo_t *zoo, shoal_model_t *model, shoal_arena_t *scratch,
                              shoal_zoo_size_t *out) {
  shoal_zoo_add(zoo, model);
  SHOAL_RETURN_IF_ERROR(shoal_model_status(model));
  out->parameters = shoal_model_parameters(model);
  for (int64_t i = 0; i < model->states.count; ++i) {
    const shoal_state_info_t *state = &model->states.items[i];
    *(state->options.trainable ? &out->parameter_bytes : &out->other_bytes) +=
        bytes_of(&state->type);
  }
  const shoal_graph_t *graph = shoal_model_find_graph(model, "train");
  for (int64_t i = 0; i < graph->nodes.count; ++i) {
    const shoal_node_t *node = &graph->nodes.items[i];
    shoal_call_t call;
    if (node->kind == SHOAL_NODE_UPDATE) continue;
    shoal_arena_clear(scratch);
    SHOAL_RETURN_IF_ERROR(shoal_node_call(graph, node, scratch, &call));
    const double flops = shoal_op_cost(&call).flops / (double)zoo->batch;
    *(node->kind == SHOAL_NODE_FORWARD ? &out->forward_flops : &out->backward_flops) += flops;
  }
  return NULL;
}

shoal_status_t shoal_zoo_measure(const shoal_zoo_t *zoo, bool mixed, shoal_zoo_size_t *out_size) {
  shoal_model_t *model;
  shoal_arena_t scratch;
  *out_size = (shoal_zoo_size_t){0};
  const shoal_model_options_t options = {.allocator = zoo->arena.allocator, .mixed = mixed};
  SHOAL_RETURN_IF_ERROR(shoal_model_create(&options, &model));
  shoal_arena_init(zoo->arena.allocator, &scratch);
  shoal_status_t status = measure(zoo, model, &scratch, out_size);
  shoal_arena_deinit(&scratch);
  shoal_model_free(model);
  return status;
}
