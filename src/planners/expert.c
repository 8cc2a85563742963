// Strategy `expert` (GShard, Lepikhin et al. 2020): the experts of a mixture are dealt over axis
// `expert`, and so are the rows of the batch. Everything but the experts works row by row, as under
// `data`; what stands in the experts' places goes to the ranks that have the experts, and back: two
// all-to-alls forward, two backward. Which token finds a place is known before, row by row, so that
// the same tokens are dropped as on one device. Gradients of experts need no reduction along the
// axis.
//
// A *product of experts* is known by its rule: a way cuts weight, input and output alike, item by
// item (each expert has a product of its own), and another one contracts. From there on the cut is
// carried through whatever works expert by expert; who cannot go on, takes rows again. With an axis
// `tensor` each expert's products are cut as `tensor` cuts others: columns first, then rows.
#include "base/status.h"
#include "planners/trail.h"

typedef struct experts {
  shoal_trail_t trail;  // dims: where experts lie in a value
  bool *weights;        // by state: it has experts
  int32_t *inner;       // by state: the dim that `tensor` cuts, counted from 1; 0: none
  bool *columns;        // by value: cut over `tensor` as well, since a product's columns are
  bool found;
  const shoal_node_t *grouped;  // a product that has its rows sorted by expert; NULL: none
} experts_t;

static bool is_sum(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_PARTIAL && operand->reduce == SHOAL_REDUCE_SUM;
}

// The state that a value is, or is a copy of in another type; -1: none.
static int32_t state_of(const shoal_graph_t *graph, int32_t value) {
  const shoal_value_info_t *info = &graph->values.items[value];
  while (info->source == SHOAL_FROM_NODE) {
    const shoal_node_t *node = &graph->nodes.items[info->node];
    const shoal_value_info_t *in = &graph->values.items[node->inputs[0]];
    if (node->input_count != 1 || node->kind != SHOAL_NODE_FORWARD ||
        !shoal_shape_equal(&in->type.shape, &info->type.shape))
      return -1;
    info = in;
  }
  return info->source == SHOAL_FROM_STATE ? info->index : -1;
}

// How a node multiplies input `k`, a weight of three dims or more: the way that has an expert for
// each item; NULL: it is no product of experts.
static const shoal_way_t *product_way(experts_t *x, int64_t n, int32_t k) {
  const shoal_node_t *node = &x->trail.graph->nodes.items[n];
  const shoal_rule_t *rule = x->trail.rules[n];
  const shoal_way_t *each = NULL, *summed = NULL;
  bool contracts = false;
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *mine = &way->operands[k], *out = &way->operands[way->input_count];
    bool with = false;  // another input is cut, too
    if (!shoal_operand_is_plain(mine)) continue;
    for (int32_t i = 0; i < way->input_count; ++i)
      with |= i != k && shoal_operand_is_plain(&way->operands[i]);
    contracts |= with && is_sum(out);
    if (with && shoal_operand_is_plain(out) && !each) each = way;
    if (!with && is_sum(out)) summed = way;
  }
  if (contracts && !each && summed) x->grouped = node;
  return contracts ? each : NULL;
}

static shoal_status_t decide(experts_t *x, int64_t n, const char *axis, const shoal_way_t *way,
                             const char *reason) {
  if (shoal_context_axis(x->trail.context, axis) < 2) return NULL;
  return shoal_context_decide_way(x->trail.context, &x->trail.graph->nodes.items[n], axis, way,
                                  reason);
}

// How the weight of a product of experts rests: by experts, and inside of each by columns or rows.
static shoal_status_t place_weight(experts_t *x, int64_t n, int32_t k, const shoal_way_t *each,
                                   int32_t state) {
  shoal_strategy_context_t *context = x->trail.context;
  const shoal_node_t *node = &x->trail.graph->nodes.items[n];
  const shoal_rule_t *rule = x->trail.rules[n];
  const shoal_way_t *inside = NULL;
  bool rows = false;
  for (int32_t i = 0; i < node->input_count; ++i) rows |= x->columns[node->inputs[i]];
  for (int32_t w = 0; w < rule->way_count && shoal_context_axis(context, "tensor") > 1; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *mine = &way->operands[k], *out = &way->operands[way->input_count];
    if (!shoal_operand_is_plain(mine) || mine->dim == each->operands[k].dim) continue;
    if (rows ? is_sum(out) : shoal_operand_is_plain(out)) inside = way;
  }
  char *cut = shoal_arena_printf(context->arena, "expert:%d", each->operands[k].dim);
  if (cut && inside) {
    const int32_t dim = inside->operands[k].dim;
    cut = shoal_arena_printf(context->arena, "%s,tensor:%d", cut, dim);
    x->inner[state] = dim + 1;
    x->columns[node->outputs[0]] = !rows;
    SHOAL_RETURN_IF_ERROR(decide(x, n, "tensor", inside, "weights stay where they are"));
  }
  if (!cut) return SHOAL_OOM();
  return shoal_context_cut(context, context->model->states.items[state].name, cut);
}

// Gradients of a product, by its input and by its weight, are cut inside of experts as it is.
static shoal_status_t decide_gradient(experts_t *x, int64_t n) {
  const shoal_graph_t *graph = x->trail.graph;
  const shoal_node_t *node = &graph->nodes.items[n];
  if (!shoal_node_is_gradient(node) || node->of < 0) return NULL;
  const shoal_node_t *of = &graph->nodes.items[node->of];
  for (int32_t k = 0; k < of->input_count; ++k) {
    const int32_t state = state_of(graph, of->inputs[k]);
    if (state < 0 || x->inner[state] == 0) continue;
    int32_t operand = -1;  // the weight, or else its gradient
    for (int32_t i = 0; i < node->input_count; ++i)
      if (node->inputs[i] == of->inputs[k]) operand = i;
    if (operand < 0 && shoal_shape_equal(&graph->values.items[node->outputs[0]].type.shape,
                                         &graph->values.items[of->inputs[k]].type.shape))
      operand = node->input_count;
    for (int32_t w = 0; w < x->trail.rules[n]->way_count && operand >= 0; ++w) {
      const shoal_way_t *way = &x->trail.rules[n]->ways[w];
      if (shoal_operand_is_plain(&way->operands[operand]) &&
          way->operands[operand].dim == x->inner[state] - 1)
        return decide(x, n, "tensor", way, "as its product");
    }
  }
  return NULL;
}

// Takes a product of experts; its weight rests as its first use wants it.
static shoal_status_t take_product(experts_t *x, int64_t n, bool *out_taken) {
  const shoal_graph_t *graph = x->trail.graph;
  const shoal_node_t *node = &graph->nodes.items[n];
  *out_taken = false;
  for (int32_t k = 0; k < node->input_count && !*out_taken; ++k) {
    const int32_t state = state_of(graph, node->inputs[k]);
    if (state < 0 || graph->values.items[node->inputs[k]].type.shape.rank < 3) continue;
    const shoal_way_t *way = product_way(x, n, k);
    if (!way) continue;
    if (!x->weights[state]) SHOAL_RETURN_IF_ERROR(place_weight(x, n, k, way, state));
    x->weights[state] = x->found = *out_taken = true;
    x->trail.dims[node->inputs[k]] = way->operands[k].dim;
    shoal_trail_take(&x->trail, n, way);
    SHOAL_RETURN_IF_ERROR(decide(x, n, "expert", way, "each rank has its experts"));
  }
  return NULL;
}

// The way that goes on expert by expert with all inputs in which experts lie; NULL: there is none.
static const shoal_way_t *way_on(const experts_t *x, int64_t n) {
  const shoal_node_t *node = &x->trail.graph->nodes.items[n];
  const shoal_rule_t *rule = x->trail.rules[n];
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    bool goes = true;
    for (int32_t k = 0; k < node->input_count; ++k)
      if (x->trail.dims[node->inputs[k]] >= 0)
        goes &= shoal_operand_is_plain(&way->operands[k]) &&
                way->operands[k].dim == x->trail.dims[node->inputs[k]];
    for (int32_t o = 0; o < node->output_count; ++o)
      goes &= shoal_operand_is_plain(&way->operands[node->input_count + o]);
    if (goes) return way;
  }
  return NULL;
}

// The way that takes rows of input `k` and makes rows of them.
static const shoal_way_t *way_by_rows(const experts_t *x, int64_t n, int32_t k) {
  const shoal_rule_t *rule = x->trail.rules[n];
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_operand_t *in = &rule->ways[w].operands[k];
    const shoal_way_operand_t *out = &rule->ways[w].operands[rule->ways[w].input_count];
    if (shoal_operand_is_plain(in) && in->dim == 0 && shoal_operand_is_plain(out))
      return &rule->ways[w];
  }
  return NULL;
}

static shoal_status_t visit(experts_t *x, int64_t n) {
  const shoal_graph_t *graph = x->trail.graph;
  const shoal_node_t *node = &graph->nodes.items[n];
  bool taken = false;
  int32_t known = -1;  // an input in which experts lie, weights apart if there is another
  if (node->kind == SHOAL_NODE_FORWARD) SHOAL_RETURN_IF_ERROR(take_product(x, n, &taken));
  for (int32_t k = 0; k < node->input_count; ++k)
    if (x->trail.dims[node->inputs[k]] >= 0 &&
        (known < 0 || state_of(graph, node->inputs[known]) >= 0))
      known = k;
  if (taken || known < 0 || node->kind == SHOAL_NODE_UPDATE) return NULL;
  const shoal_way_t *way = way_on(x, n);
  if (way) {
    SHOAL_RETURN_IF_ERROR(decide(x, n, "expert", way, "it works expert by expert"));
    shoal_trail_take(&x->trail, n, way);
    for (int32_t k = 0; k < node->input_count; ++k)
      x->columns[node->outputs[0]] |= x->columns[node->inputs[k]];
    return decide_gradient(x, n);
  }
  if (x->trail.dims[node->inputs[known]] == 0) return NULL;  // a gradient of weights, most likely
  way = way_by_rows(x, n, known);
  return way ? decide(x, n, "expert", way, "rows come back from the experts") : NULL;
}

static shoal_status_t no_experts(const experts_t *x) {
  if (x->grouped)
    return SHOAL_ERROR_HINT(
        UNSUPPORTED,
        "give experts places: of moe-gpt, bounded=yes has one for every pick and sends those that "
        "are taken",
        "node '%s' has the tokens of all ranks sorted by expert: how many go where is not known "
        "when the plan is made",
        x->grouped->name);
  return SHOAL_ERROR_HINT(UNSUPPORTED, "`data` and `tensor` cut any model",
                          "the model has no experts: no weight has a product for each item of a "
                          "dim");
}

shoal_status_t shoal_strategy_expert(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  experts_t x = {0};
  SHOAL_RETURN_IF_ERROR(shoal_trail_init(context, &x.trail));
  if (!x.trail.graph) return NULL;
  x.weights = SHOAL_NEW(context->arena, bool, context->model->states.count);
  x.columns = SHOAL_NEW(context->arena, bool, x.trail.graph->values.count);
  x.inner = SHOAL_NEW(context->arena, int32_t, context->model->states.count);
  if (!x.weights || !x.columns || !x.inner) return SHOAL_OOM();
  for (int64_t n = 0; n < x.trail.graph->nodes.count; ++n) SHOAL_RETURN_IF_ERROR(visit(&x, n));
  if (!x.found || x.grouped) return no_experts(&x);
  return shoal_strategy_cut_inputs(context, "expert:0");
}
