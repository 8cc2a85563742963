// Layers. B batch, T time, C channels, H heads, D = C / H; products keep batch and time apart (no
// reshape to [B T, C]), so that a cut along either stays a cut along one dim.
#include <math.h>

#include "nn/build.h"

static int64_t last_dim(shoal_value_t x) {
  shoal_shape_t shape = shoal_value_type(x).shape;
  return shape.rank ? shape.dims[shape.rank - 1] : 0;
}

shoal_value_t shoal_nn_product(shoal_graph_t *graph, shoal_value_t x, shoal_value_t weight,
                               bool transposed) {
  int32_t rank = shoal_value_type(x).shape.rank;
  char equation[64];
  int32_t at = 0;
  for (int32_t d = 0; d + 1 < rank; ++d) equation[at++] = "btuvwxyz"[d];
  equation[at++] = 'c';
  equation[at++] = ',';
  equation[at++] = transposed ? 'n' : 'c';
  equation[at++] = transposed ? 'c' : 'n';
  equation[at++] = '-';
  equation[at++] = '>';
  for (int32_t d = 0; d + 1 < rank; ++d) equation[at++] = "btuvwxyz"[d];
  equation[at++] = 'n';
  equation[at] = 0;
  return shoal_einsum(graph, x, weight, equation);
}

shoal_value_t shoal_nn_project_from(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                    int64_t out_features, shoal_init_t init, shoal_init_t bias_init,
                                    bool no_bias) {
  shoal_scope_push(graph, name);
  shoal_dtype_t dtype = shoal_value_type(x).dtype;
  if (shoal_value_ok(x) && shoal_value_type(x).shape.rank == 0) {
    shoal_nn_refuse_hint(graph, "reshape it to [1]",
                         "linear: x is a scalar, and has no last dim to multiply");
  }
  shoal_value_t weight =
      shoal_nn_parameter(graph, "weight", dtype, SHOAL_SHAPE(last_dim(x), out_features), init);
  shoal_value_t y = shoal_nn_product(graph, x, weight, false);
  if (!no_bias) {
    shoal_value_t bias =
        shoal_nn_parameter(graph, "bias", dtype, SHOAL_SHAPE(out_features), bias_init);
    y = shoal_add(graph, y, bias);
  }
  shoal_scope_pop(graph);
  return y;
}

shoal_value_t shoal_nn_project(shoal_graph_t *graph, const char *name, shoal_value_t x,
                               int64_t out_features, shoal_init_t init, bool no_bias) {
  const shoal_init_t zeros = {0};
  return shoal_nn_project_from(graph, name, x, out_features, init, zeros, no_bias);
}

shoal_value_t shoal_nn_linear_with_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                      int64_t out_features,
                                      const shoal_nn_linear_options_t *options, const char *file,
                                      int line) {
  static const shoal_nn_linear_options_t defaults = {0};
  if (!options) options = &defaults;
  shoal_site_push(graph, file, line);
  double bound = 1 / sqrt((double)(last_dim(x) > 0 ? last_dim(x) : 1));
  shoal_init_t uniform = {SHOAL_INIT_UNIFORM, -bound, bound};
  shoal_value_t y = shoal_nn_project_from(graph, name, x, out_features,
                                          shoal_nn_init_or(options->weight_init, uniform),
                                          options->bias_init, options->no_bias);
  if (options->activation) y = shoal_nn_activation_at(graph, options->activation, y, file, line);
  shoal_site_pop(graph);
  return y;
}

shoal_value_t shoal_nn_linear_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                 int64_t out_features, const char *file, int line) {
  return shoal_nn_linear_with_at(graph, name, x, out_features, NULL, file, line);
}

static shoal_value_t embedding_table(shoal_graph_t *graph, int64_t rows, int64_t width,
                                     shoal_dtype_t dtype, shoal_init_t init) {
  const shoal_init_t normal = {SHOAL_INIT_NORMAL, 0, 0.02};
  return shoal_nn_parameter(graph, "table", dtype, SHOAL_SHAPE(rows, width),
                            shoal_nn_init_or(init, normal));
}

shoal_value_t shoal_nn_embedding_with_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                         int64_t rows, int64_t width, shoal_dtype_t dtype,
                                         const shoal_nn_embedding_options_t *options,
                                         const char *file, int line) {
  const shoal_init_t own = {0};
  shoal_nn_enter(graph, name, file, line);
  shoal_value_t table = embedding_table(graph, rows, width, dtype, options ? options->init : own);
  shoal_value_t y = shoal_embedding(graph, table, ids);
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_embedding_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                    int64_t rows, int64_t width, shoal_dtype_t dtype,
                                    const char *file, int line) {
  return shoal_nn_embedding_with_at(graph, name, ids, rows, width, dtype, NULL, file, line);
}

shoal_value_t shoal_nn_embedding_bag_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                        shoal_value_t offsets, int64_t rows, int64_t width,
                                        shoal_dtype_t dtype,
                                        const shoal_nn_embedding_bag_options_t *options,
                                        const char *file, int line) {
  static const shoal_nn_embedding_bag_options_t defaults = {0};
  if (!options) options = &defaults;
  const bool weighted = options->weights.graph != NULL;
  const char *mode = options->mode ? options->mode : weighted ? "sum" : "mean";
  shoal_embedding_bag_options_t with = {0};
  if (weighted) with.weights = options->weights;
  shoal_nn_enter(graph, name, file, line);
  shoal_value_t table = embedding_table(graph, rows, width, dtype, options->init);
  shoal_value_t y = shoal_embedding_bag_with(graph, table, ids, offsets, mode, &with);
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_dropout_at(shoal_graph_t *graph, const char *name, shoal_value_t x, double p,
                                  const char *file, int line) {
  if (p == 0) return x;
  shoal_nn_enter(graph, name, file, line);
  // the stream carries the node's full name: the same numbers wherever the node runs
  int64_t key = shoal_random_key(graph, "dropout");
  shoal_value_t y = shoal_dropout(graph, x, shoal_step(graph), p, key);
  shoal_nn_leave(graph);
  return y;
}
