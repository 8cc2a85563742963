// What layers share: the caller's place, parameters, initial values. Private to nn/.
#ifndef SHOAL_NN_BUILD_H_
#define SHOAL_NN_BUILD_H_

#include "base/status.h"
#include "shoal/nn.h"
#include "shoal/ops.h"

// Makes the model fail with a formatted message, blamed on the graph's site; with a hint (may be
// NULL) at what to do about it.
#define shoal_nn_refuse(graph, ...) shoal_nn_refuse_hint(graph, NULL, __VA_ARGS__)
#define shoal_nn_refuse_hint(graph, hint, ...) \
  shoal_nn_fail(graph, SHOAL_ERROR_HINT(INVALID_ARGUMENT, hint, __VA_ARGS__))
void shoal_nn_fail(shoal_graph_t *graph, shoal_status_t status);  // takes status

// Scope and site at once, as every layer opens and closes them.
void shoal_nn_enter(shoal_graph_t *graph, const char *name, const char *file, int line);
void shoal_nn_leave(shoal_graph_t *graph);

// All-zero options are defaults.
static inline int64_t shoal_nn_size(int64_t value, int64_t fallback) {
  return value ? value : fallback;
}

// Are numbers of this type kept in f32 by a model of mixed precision?
bool shoal_nn_is_mixed(const shoal_graph_t *graph, shoal_dtype_t dtype);
// x, or where that is so x as f32: for sums.
shoal_value_t shoal_nn_widen(shoal_graph_t *graph, shoal_value_t x);
// The initial value that was asked for, or the layer's own if none was.
static inline shoal_init_t shoal_nn_init_or(shoal_init_t asked, shoal_init_t own) {
  return asked.kind == SHOAL_INIT_ZEROS ? own : asked;
}
// x W over the last dim of x: "btc,cn->btn"; with `transposed`, W is [n, c].
shoal_value_t shoal_nn_product(shoal_graph_t *graph, shoal_value_t x, shoal_value_t weight,
                               bool transposed);
// linear with the weight's initial value given, and the bias left out if asked for; and with the
// bias's.
shoal_value_t shoal_nn_project(shoal_graph_t *graph, const char *name, shoal_value_t x,
                               int64_t out_features, shoal_init_t init, bool no_bias);
shoal_value_t shoal_nn_project_from(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                    int64_t out_features, shoal_init_t init, shoal_init_t bias_init,
                                    bool no_bias);

#endif  // SHOAL_NN_BUILD_H_
