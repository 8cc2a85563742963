// Strategy `channel`: convolutions are cut by channels over axis `channel`, as `tensor` cuts
// products. A convolution of whole channels makes a part of its output channels (its weight is cut
// along them: a *column* way), the next one takes that part of its input channels and leaves sums
// (a *row* way), so that one reduction is needed for both. A convolution in groups that gets a part
// of the channels works on its groups alone. Biases, norms and their statistics, and the product
// behind the last convolution, rest as the channels that they meet.
//
// Which dims these are is read off the rules. Weights of convolutions are states of three dims or
// more; those of products have two, which is what `tensor` looks for.
#include "base/status.h"
#include "planners/trail.h"

typedef struct channels {
  shoal_trail_t trail;
  bool *placed;    // by state
  int64_t *units;  // by value: how many elements of the dim that is cut stay together
  const shoal_way_operand_t *met;  // for `rest`: how the state's value is cut
  int64_t item;                    // and how many items stay together
  bool any;                        // a weight is cut
} channels_t;

// A state comes by its cut: "channel:0", "channel:0*2/3" (2 copies of the items, 3 elements each).
static shoal_status_t rest(void *self, int32_t value, int32_t dim) {
  channels_t *c = self;
  const shoal_value_info_t *info = &c->trail.graph->values.items[value];
  shoal_strategy_context_t *context = c->trail.context;
  if (info->source != SHOAL_FROM_STATE || c->placed[info->index]) return NULL;
  c->placed[info->index] = true;
  c->any |= info->type.shape.rank >= 3;
  char *cut = shoal_arena_printf(context->arena, "channel:%d", dim);
  if (cut && c->met->repeat > 1)
    cut = shoal_arena_printf(context->arena, "%s*%lld", cut, (long long)c->met->repeat);
  if (cut && c->item * c->met->scale > 1)
    cut = shoal_arena_printf(context->arena, "%s/%lld", cut, (long long)(c->item * c->met->scale));
  if (!cut) return SHOAL_OOM();
  return shoal_context_cut(context, context->model->states.items[info->index].name, cut);
}

// Is the value made of states alone, in few steps (a cast, a reshape, a decayed average)?
static bool is_of_states(const shoal_graph_t *graph, int32_t value, int depth) {
  const shoal_value_info_t *info = &graph->values.items[value];
  if (info->source != SHOAL_FROM_NODE) return info->source == SHOAL_FROM_STATE;
  const shoal_node_t *node = &graph->nodes.items[info->node];
  bool all = depth > 0 && node->input_count > 0;
  for (int32_t k = 0; k < node->input_count && all; ++k)
    all = is_of_states(graph, node->inputs[k], depth - 1);
  return all;
}

// Is the value a weight of a convolution, perhaps cast?
static bool is_weight(const channels_t *c, int32_t value) {
  const shoal_graph_t *graph = c->trail.graph;
  const shoal_value_info_t *info = &graph->values.items[value];
  while (info->source == SHOAL_FROM_NODE && graph->nodes.items[info->node].input_count == 1)
    info = &graph->values.items[graph->nodes.items[info->node].inputs[0]];
  return info->source == SHOAL_FROM_STATE && info->type.shape.rank >= 3;
}

// The way of a node that gets whole channels and makes a part of the output's; NULL: there is none.
static const shoal_way_t *column_way(const channels_t *c, int64_t n) {
  const shoal_node_t *node = &c->trail.graph->nodes.items[n];
  const shoal_rule_t *rule = c->trail.rules[n];
  const shoal_way_t *grouped = NULL;
  if (node->input_count < 2 || !is_weight(c, node->inputs[1])) return NULL;
  for (int32_t w = 0; w < rule->way_count; ++w) {
    const shoal_way_t *way = &rule->ways[w];
    if (way->operands[1].kind != SHOAL_OPERAND_CUT ||
        way->operands[node->input_count].kind != SHOAL_OPERAND_CUT)
      continue;
    if (way->operands[0].kind == SHOAL_OPERAND_WHOLE) return way;
    grouped = way;  // every group has channels of its own
  }
  return grouped;
}

// How many items of the way stay together, so that inputs stay cut as they are.
static int64_t items_together(const channels_t *c, const shoal_node_t *node,
                              const shoal_way_t *way) {
  int64_t item = 1;
  for (int32_t k = 0; k < node->input_count; ++k) {
    if (c->trail.dims[node->inputs[k]] < 0 || way->operands[k].kind != SHOAL_OPERAND_CUT) continue;
    const int64_t mine = c->units[node->inputs[k]] / way->operands[k].scale;
    if (mine > item) item = mine;
  }
  return item;
}

static shoal_status_t visit(channels_t *c, int64_t n) {
  const shoal_node_t *node = &c->trail.graph->nodes.items[n];
  const shoal_way_t *way = shoal_trail_way(&c->trail, n);
  if (!way) way = column_way(c, n);
  c->item = way ? items_together(c, node, way) : 1;
  for (int32_t k = 0; way && k < node->input_count; ++k) {
    c->met = &way->operands[k];
    if (c->trail.dims[node->inputs[k]] >= 0 || c->met->kind != SHOAL_OPERAND_CUT) continue;
    if (!is_of_states(c->trail.graph, node->inputs[k], 4)) continue;
    SHOAL_RETURN_IF_ERROR(shoal_trail_trace(&c->trail, node->inputs[k], c->met->dim, rest, c));
  }
  shoal_trail_take(&c->trail, n, way);
  for (int32_t o = 0; way && o < node->output_count; ++o)
    c->units[node->outputs[o]] = c->item * way->operands[node->input_count + o].scale;
  return NULL;
}

shoal_status_t shoal_strategy_channel(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  channels_t c = {0};
  SHOAL_RETURN_IF_ERROR(shoal_trail_init(context, &c.trail));
  if (!c.trail.graph) return NULL;
  c.placed = SHOAL_NEW(context->arena, bool, context->model->states.count);
  c.units = SHOAL_NEW(context->arena, int64_t, c.trail.graph->values.count);
  if (!c.placed || !c.units) return SHOAL_OOM();
  for (int64_t v = 0; v < c.trail.graph->values.count; ++v) c.units[v] = 1;
  for (int64_t n = 0; n < c.trail.graph->nodes.count; ++n)
    if (c.trail.graph->nodes.items[n].kind == SHOAL_NODE_FORWARD)
      SHOAL_RETURN_IF_ERROR(visit(&c, n));
  if (c.any) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "`tensor` cuts the weights of products",
                          "the model has no convolution whose channels could be cut");
}
