// What layers share (build.h).
#include "nn/build.h"

#include "graph/builder.h"

void shoal_nn_fail(shoal_graph_t *graph, shoal_status_t status) {
  if (graph) {
    const char *file = __FILE__;
    int line = __LINE__;
    shoal_graph_site(graph, &file, &line);
    shoal_model_fail(graph->model,
                     shoal_status_create(shoal_status_code(status), file, line,
                                         shoal_status_message(status), shoal_status_hint(status)));
  }
  shoal_status_free(status);
}

void shoal_nn_enter(shoal_graph_t *graph, const char *name, const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_scope_push(graph, name);
}

void shoal_nn_leave(shoal_graph_t *graph) {
  shoal_scope_pop(graph);
  shoal_site_pop(graph);
}

bool shoal_nn_is_mixed(const shoal_graph_t *graph, shoal_dtype_t dtype) {
  return graph && graph->model->mixed && (dtype == SHOAL_BF16 || dtype == SHOAL_F16);
}

shoal_value_t shoal_nn_widen(shoal_graph_t *graph, shoal_value_t x) {
  if (!shoal_value_ok(x) || !shoal_nn_is_mixed(graph, shoal_value_type(x).dtype)) return x;
  return shoal_cast(graph, x, SHOAL_F32);
}

shoal_value_t shoal_nn_parameter_at(shoal_graph_t *graph, const char *name, shoal_dtype_t dtype,
                                    shoal_shape_t shape, shoal_init_t init, const char *file,
                                    int line) {
  const bool mixed = shoal_nn_is_mixed(graph, dtype);
  const shoal_state_options_t options = {.init = init, .trainable = true};
  shoal_site_push(graph, file, line);
  shoal_value_t x = shoal_state(graph, name, mixed ? SHOAL_F32 : dtype, shape, &options);
  if (mixed) x = shoal_cast(graph, x, dtype);
  shoal_site_pop(graph);
  return x;
}
