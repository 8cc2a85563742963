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

shoal_value_t shoal_nn_project(shoal_graph_t *graph, const char *name, shoal_value_t x,
                               int64_t out_features, shoal_init_t init, bool no_bias) {
  shoal_scope_push(graph, name);
  shoal_dtype_t dtype = shoal_value_type(x).dtype;
  if (shoal_value_ok(x) && shoal_value_type(x).shape.rank == 0) {
    shoal_nn_refuse(graph, "linear: x is a scalar");
  }
  shoal_value_t weight =
      shoal_nn_parameter(graph, "weight", dtype, SHOAL_SHAPE(last_dim(x), out_features), init);
  shoal_value_t y = shoal_nn_product(graph, x, weight, false);
  if (!no_bias) {
    shoal_init_t zeros = {0};
    shoal_value_t bias = shoal_nn_parameter(graph, "bias", dtype, SHOAL_SHAPE(out_features), zeros);
    y = shoal_add(graph, y, bias);
  }
  shoal_scope_pop(graph);
  return y;
}

shoal_value_t shoal_nn_linear_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                 int64_t out_features, const char *file, int line) {
  shoal_site_push(graph, file, line);
  double bound = 1 / sqrt((double)(last_dim(x) > 0 ? last_dim(x) : 1));
  shoal_init_t init = {SHOAL_INIT_UNIFORM, -bound, bound};
  shoal_value_t y = shoal_nn_project(graph, name, x, out_features, init, false);
  shoal_site_pop(graph);
  return y;
}

shoal_value_t shoal_nn_embedding_at(shoal_graph_t *graph, const char *name, shoal_value_t ids,
                                    int64_t rows, int64_t width, shoal_dtype_t dtype,
                                    const char *file, int line) {
  shoal_nn_enter(graph, name, file, line);
  shoal_init_t normal = {SHOAL_INIT_NORMAL, 0, 0.02};
  shoal_value_t table = shoal_nn_parameter(graph, "table", dtype, SHOAL_SHAPE(rows, width), normal);
  shoal_value_t y = shoal_embedding(graph, table, ids);
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_layer_norm_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                     const char *file, int line) {
  shoal_nn_enter(graph, name, file, line);
  shoal_dtype_t dtype = shoal_value_type(x).dtype;
  shoal_init_t ones = {SHOAL_INIT_FILL, 1, 0}, zeros = {0};
  shoal_value_t gamma = shoal_nn_parameter(graph, "gamma", dtype, SHOAL_SHAPE(last_dim(x)), ones);
  shoal_value_t beta = shoal_nn_parameter(graph, "beta", dtype, SHOAL_SHAPE(last_dim(x)), zeros);
  shoal_value_t y;
  shoal_layer_norm(graph, x, gamma, beta, 1e-5, &y, NULL, NULL);
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

// [B, T, C] -> [B, H, T, D]
static shoal_value_t split_heads(shoal_graph_t *graph, shoal_value_t x, shoal_shape_t split) {
  return shoal_transpose(graph, shoal_reshape(graph, x, split), SHOAL_SHAPE(0, 2, 1, 3));
}

shoal_value_t shoal_nn_attend(shoal_graph_t *graph, const char *name, shoal_value_t x,
                              int64_t heads, shoal_init_t qkv_init, shoal_init_t proj_init) {
  shoal_scope_push(graph, name);
  shoal_shape_t shape = shoal_value_type(x).shape;
  int64_t B = shape.dims[0], T = shape.dims[1], C = shape.dims[2];
  shoal_value_t y = {NULL, -1};
  if (shoal_value_ok(x) && (shape.rank != 3 || heads < 1 || C % heads != 0)) {
    shoal_nn_refuse(graph, "self-attention: x must be [B, T, C] and C a multiple of heads");
  } else if (shoal_value_ok(x)) {
    shoal_value_t qkv = shoal_nn_project(graph, "qkv", x, 3 * C, qkv_init, false), part[3];
    shoal_shape_t split = SHOAL_SHAPE(B, T, heads, C / heads);
    static const char *const names[] = {"q", "k", "v"};
    for (int i = 0; i < 3; ++i) {
      shoal_scope_push(graph, names[i]);
      shoal_value_t third = shoal_slice(graph, qkv, SHOAL_SHAPE(0, 0, i * C), shape);
      part[i] = split_heads(graph, third, split);
      shoal_scope_pop(graph);
    }
    shoal_attention(graph, part[0], part[1], part[2], 1, &y, NULL);
    y = shoal_reshape(graph, shoal_transpose(graph, y, SHOAL_SHAPE(0, 2, 1, 3)), shape);
    y = shoal_nn_project(graph, "proj", y, C, proj_init, false);
  }
  shoal_scope_pop(graph);
  return y;
}

shoal_value_t shoal_nn_self_attention_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                         int64_t heads, const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_init_t init = {SHOAL_INIT_NORMAL, 0, 0.02};
  shoal_value_t y = shoal_nn_attend(graph, name, x, heads, init, init);
  shoal_site_pop(graph);
  return y;
}
