// What the graph and nn tests share: short ways to build, run and compare. Included by test files
// only.
#ifndef SHOAL_TESTS_GRAPH_SUPPORT_H_
#define SHOAL_TESTS_GRAPH_SUPPORT_H_

#include <math.h>

#include "base/arena.h"
#include "base/dtype.h"
#include "graph/graph.h"
#include "graph/interpret.h"
#include "shoal/graph.h"
#include "unit.h"

#define UNUSED __attribute__((unused))

static UNUSED shoal_model_t *new_model(uint64_t seed) {
  shoal_model_t *model;
  assert_ok(shoal_model_create(&(shoal_model_options_t){.seed = seed}, &model));
  return model;
}

// One node with one output and no attributes.
#define node(g, op, ...) node_at(g, op, __FILE__, __LINE__, __VA_ARGS__)
#define node_at(g, op, file, line, ...)                                                     \
  node_of(g, op, (int32_t)(sizeof((shoal_value_t[]){__VA_ARGS__}) / sizeof(shoal_value_t)), \
          (shoal_value_t[]){__VA_ARGS__}, file, line)
static UNUSED shoal_value_t node_of(shoal_graph_t *g, const char *op, int32_t count,
                                    const shoal_value_t *inputs, const char *file, int line) {
  shoal_value_t out;
  shoal_node_add_at(g, op, count, inputs, 0, NULL, 1, &out, file, line);
  return out;
}

static UNUSED double element(shoal_tensor_t tensor, int64_t index) {
  return shoal_dtype_load(tensor.dtype, tensor.data, index);
}

#endif  // SHOAL_TESTS_GRAPH_SUPPORT_H_
