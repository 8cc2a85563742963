// Strategy `sequence` (Korthikanti et al. 2022): `tensor`, with what lies between its pairs of
// products - residuals, norms, dropout - cut along the sequence over the same ranks. The sum behind
// a row product is scattered instead of given to all, and gathered in front of the next column
// product: the bytes of the all-reduce, for 1/n of those activations. What is gathered is not kept
// for the backward pass, but gathered again.
//
// It only decides how nodes are cut along `tensor`: the products as `tensor` has them, their
// gradients likewise, and whoever reads an unreduced sum along the dim before the last. Completion
// carries the cut on.
#include "base/status.h"
#include "planners/tensor.h"

typedef struct sequence {
  shoal_strategy_context_t *context;
  shoal_tensor_products_t found;
} sequence_t;

static const shoal_value_info_t *value_of(const sequence_t *s, int32_t value) {
  return &s->found.graph->values.items[value];
}

static shoal_status_t decide(sequence_t *s, int64_t n, const shoal_way_t *way, const char *reason) {
  return shoal_context_decide_way(s->context, &s->found.graph->nodes.items[n], "tensor", way,
                                  reason);
}

// The first way of a node that cuts an operand along a dim, item by item.
static const shoal_way_t *find_way(const sequence_t *s, int64_t n, int32_t operand, int32_t dim) {
  for (int32_t w = 0; w < s->found.rules[n]->way_count; ++w) {
    const shoal_way_t *way = &s->found.rules[n]->ways[w];
    const shoal_way_operand_t *is = &way->operands[operand];
    if (is->kind == SHOAL_OPERAND_CUT && is->dim == dim && is->scale == 1 && is->repeat == 1)
      return way;
  }
  return NULL;
}

// The gradients of a product: by its input, which reads the weight as it is cut, and by the weight.
static shoal_status_t decide_gradients(sequence_t *s, const shoal_tensor_product_t *product) {
  const shoal_graph_t *graph = s->found.graph;
  const shoal_node_t *of = &graph->nodes.items[product->node];
  const int32_t weight = of->inputs[product->weight];
  const int32_t dim = product->way->operands[product->weight].dim;
  for (int64_t n = product->node + 1; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (!shoal_node_is_gradient(node) || node->of != product->node || node->input_count != 2 ||
        node->output_count != 1)
      continue;
    int32_t operand = -1;
    for (int32_t i = 0; i < 2; ++i)
      if (node->inputs[i] == weight) operand = i;
    if (operand < 0 && shoal_shape_equal(&value_of(s, node->outputs[0])->type.shape,
                                         &value_of(s, weight)->type.shape))
      operand = 2;
    const shoal_way_t *way = operand >= 0 ? find_way(s, n, operand, dim) : NULL;
    if (way) SHOAL_RETURN_IF_ERROR(decide(s, n, way, "as its product"));
  }
  return NULL;
}

// Who reads an unreduced sum does so along the sequence.
static shoal_status_t scatter(sequence_t *s, int32_t value) {
  const shoal_graph_t *graph = s->found.graph;
  const int32_t dim = value_of(s, value)->type.shape.rank - 2;
  if (dim < 1) return NULL;  // rows of a batch, no sequence
  for (int64_t n = value_of(s, value)->node + 1; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    for (int32_t i = 0; i < node->input_count; ++i) {
      if (node->inputs[i] != value) continue;
      const shoal_way_t *way = find_way(s, n, i, dim);
      const shoal_way_operand_t *out = way ? &way->operands[way->input_count] : NULL;
      if (way && out->kind == SHOAL_OPERAND_CUT)
        SHOAL_RETURN_IF_ERROR(decide(s, n, way, "what lies between products is cut by sequence"));
    }
  }
  return NULL;
}

// Tables that are cut by rows give unreduced sums, too.
static shoal_status_t scatter_tables(sequence_t *s) {
  const shoal_graph_t *graph = s->found.graph;
  for (int64_t n = 0; n < graph->nodes.count; ++n) {
    const shoal_node_t *node = &graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD || node->output_count != 1) continue;
    for (int32_t i = 0; i < node->input_count; ++i) {
      const shoal_value_info_t *in = value_of(s, node->inputs[i]);
      if (in->source != SHOAL_FROM_STATE || s->found.dims[in->index] < 0) continue;
      const shoal_way_t *way = find_way(s, n, i, s->found.dims[in->index]);
      if (way && way->operands[way->input_count].kind == SHOAL_OPERAND_PARTIAL)
        SHOAL_RETURN_IF_ERROR(scatter(s, node->outputs[0]));
    }
  }
  return NULL;
}

shoal_status_t shoal_strategy_sequence(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  sequence_t s = {.context = context};
  SHOAL_RETURN_IF_ERROR(shoal_tensor_place(context, "tensor", NULL, &s.found));
  if (!s.found.graph || shoal_context_axis(context, "tensor") < 2) return NULL;
  for (int64_t i = 0; i < s.found.products.count; ++i) {
    const shoal_tensor_product_t *product = &s.found.products.items[i];
    const shoal_node_t *node = &s.found.graph->nodes.items[product->node];
    const shoal_value_info_t *input = value_of(&s, node->inputs[1 - product->weight]);
    if (input->type.shape.rank < 3) continue;
    SHOAL_RETURN_IF_ERROR(decide(&s, product->node, product->way, "weights stay where they are"));
    SHOAL_RETURN_IF_ERROR(decide_gradients(&s, product));
    if (product->by_rows)
      SHOAL_RETURN_IF_ERROR(scatter(&s, node->outputs[0]));
    else
      SHOAL_RETURN_IF_ERROR(shoal_context_decide(context, "keep", input->name, "redo",
                                                 "a rank keeps its part of the sequence"));
  }
  return scatter_tables(&s);
}
