// What layers share (build.h).
#include "nn/build.h"

#include "base/status.h"
#include "graph/builder.h"

void shoal_nn_refuse(shoal_graph_t *graph, const char *message) {
  if (!graph) return;
  const char *file = __FILE__;
  int line = __LINE__;
  shoal_graph_site(graph, &file, &line);
  shoal_model_fail(graph->model,
                   shoal_status_create(SHOAL_INVALID_ARGUMENT, file, line, message, NULL));
}

void shoal_nn_enter(shoal_graph_t *graph, const char *name, const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_scope_push(graph, name);
}

void shoal_nn_leave(shoal_graph_t *graph) {
  shoal_scope_pop(graph);
  shoal_site_pop(graph);
}

shoal_value_t shoal_nn_parameter(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                                 shoal_shape_t shape, shoal_init_t init) {
  shoal_state_options_t options = {.init = init, .trainable = true};
  return shoal_state(graph, name, dtype, shape, &options);
}
