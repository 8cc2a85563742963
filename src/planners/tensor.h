// What strategy `tensor` finds out about a model, for strategies that build on it.
#ifndef SHOAL_PLANNERS_TENSOR_H_
#define SHOAL_PLANNERS_TENSOR_H_

#include "planners/planners.h"

// A product with a weight that is cut over the axis.
typedef struct shoal_tensor_product {
  int32_t node, weight;    // of the graph; which input the weight is, or a cast of it
  bool by_rows;            // the output is an unreduced sum; else it is cut by columns
  const shoal_way_t *way;  // along the axis
} shoal_tensor_product_t;

typedef struct shoal_tensor_products {
  const shoal_graph_t *graph;  // "train", or the first besides "init"; NULL: there is none
  const shoal_rule_t **rules;  // by node
  SHOAL_VEC(shoal_tensor_product_t) products;
  int32_t *dims;  // by state: the dim of a matrix that is cut; -1: it is not
  bool *cut;      // by value: cut by columns, or what follows from it
} shoal_tensor_products_t;

// Cuts weights over an axis, as the strategy does over `tensor`; of the nodes that `only` marks,
// NULL: of all. What it finds is about that axis.
SHOAL_MUST_USE shoal_status_t shoal_tensor_place(shoal_strategy_context_t *context,
                                                 const char *axis, const bool *only,
                                                 shoal_tensor_products_t *out);

#endif  // SHOAL_PLANNERS_TENSOR_H_
