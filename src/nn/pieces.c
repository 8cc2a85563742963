// Small things without states: activations by name, parts of a value.
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "graph/builder.h"
#include "nn/build.h"
#include "shoal/options.h"

static const char *const ACTIVATIONS[] = {
    "none",     "relu",       "gelu",       "gelu_erf",    "silu",        "tanh",
    "sigmoid",  "leaky_relu", "elu",        "celu",        "selu",        "softplus",
    "softsign", "mish",       "hard_swish", "log_sigmoid", "hard_sigmoid"};
enum { ACTIVATION_COUNT = sizeof ACTIVATIONS / sizeof *ACTIVATIONS };

shoal_value_t shoal_nn_activation_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                     const char *file, int line) {
  static const char *const list =
      "relu, gelu, gelu_erf, silu, tanh, sigmoid, leaky_relu, elu, celu, selu, softplus, softsign, "
      "mish, hard_swish, hard_sigmoid, log_sigmoid or none";
  const char *wanted = name ? name : "none";
  int32_t i = 0;
  while (i < ACTIVATION_COUNT && strcmp(ACTIVATIONS[i], wanted) != 0) ++i;
  if (i == 0 || !graph) return x;
  shoal_site_push(graph, file, line);
  shoal_value_t y = {NULL, -1};
  if (i == ACTIVATION_COUNT) {
    shoal_hint_t hint;
    shoal_nn_refuse_hint(graph,
                         shoal_did_you_mean(wanted, ACTIVATIONS, ACTIVATION_COUNT, list, &hint),
                         "there is no activation '%s'", wanted);
  } else {
    char op[64];
    shoal_format(op, sizeof op, "shoal.%s", wanted);
    shoal_node_add(graph, op, 1, &x, 0, NULL, 1, &y);
  }
  shoal_site_pop(graph);
  return y;
}

// Where each part begins; false: refused.
static bool find_starts(shoal_graph_t *graph, int64_t size, int64_t axis, int32_t count,
                        const int64_t *sizes, int64_t *starts) {
  int64_t sum = 0;
  for (int32_t i = 0; i < count; ++i) {
    starts[i] = sum;
    sum += sizes ? sizes[i] : size / count;
    if (sizes && sizes[i] < 0) {
      shoal_nn_refuse(graph, "split: size %d is %lld", i, (long long)sizes[i]);
      return false;
    }
  }
  if (sum == size) return true;
  if (sizes) {
    shoal_nn_refuse(graph, "split: the sizes sum to %lld, and dim %lld has %lld elements",
                    (long long)sum, (long long)axis, (long long)size);
  } else {
    shoal_nn_refuse_hint(graph, "say the sizes of the parts",
                         "split: %d equal parts of the %lld elements of dim %lld", count,
                         (long long)size, (long long)axis);
  }
  return false;
}

void shoal_nn_split_at(shoal_graph_t *graph, shoal_value_t x, int64_t axis, int32_t count,
                       const int64_t *sizes, shoal_value_t *out_parts, const char *file, int line) {
  for (int32_t i = 0; i < count; ++i) out_parts[i] = (shoal_value_t){NULL, -1};
  if (!graph || !shoal_value_ok(x)) return;
  const shoal_shape_t shape = shoal_value_type(x).shape;
  const int64_t dim = axis < 0 ? axis + shape.rank : axis;
  shoal_site_push(graph, file, line);
  int64_t *starts = NULL;
  if (dim < 0 || dim >= shape.rank || count < 1 || count > SHOAL_MAX_INTS) {
    shoal_nn_refuse(graph, "split: axis %lld of %d dims, in %d parts", (long long)axis, shape.rank,
                    count);
  } else if (!(starts = SHOAL_NEW(&graph->model->arena, int64_t, count))) {
    shoal_model_fail(graph->model, SHOAL_OOM());
  } else if (find_starts(graph, shape.dims[dim], dim, count, sizes, starts)) {
    const shoal_attr_t attrs[] = {shoal_attr_int("axis", dim),
                                  shoal_attr_ints("starts", count, starts)};
    shoal_node_add(graph, "shoal.split", 1, &x, 2, attrs, count, out_parts);
  }
  shoal_site_pop(graph);
}
