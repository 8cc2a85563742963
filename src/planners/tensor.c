// Strategy `tensor` (Megatron-LM, Shoeybi et al. 2019): of two products in a row the first weight
// is cut by columns and the second by rows, so that one reduction is needed for both. Which product
// is which follows from the rules: a *column way* cuts the weight and the output, a *row way* cuts
// both inputs and leaves the output unreduced. Units and chunks (heads, fused QKV) are read off the
// consumers' ways.
#include "planners/tensor.h"

#include <string.h>

#include "base/number.h"
#include "base/status.h"

#define MAX_BREAKS (SHOAL_MAX_CHUNKS - 1)

// What a cut along a dim must respect: chunk boundaries and a unit, in elements of that dim.
typedef struct grain {
  int64_t unit;
  int32_t break_count;
  int64_t breaks[MAX_BREAKS];
} grain_t;

typedef struct tensor_planner {
  shoal_strategy_context_t *context;
  const char *axis;
  const shoal_graph_t *graph;
  const shoal_rule_t **rules;  // per node
  bool *cut;                   // per value: cut over the axis as far as this strategy knows
  bool *placed;                // per state
  shoal_tensor_products_t *out;
  int32_t *first_use, *next_use;  // uses of a value by forward nodes, as lists; -1: no more
  int32_t *use_node, *use_input;  // by use
} tensor_planner_t;

static void add_break(grain_t *grain, int64_t at, int64_t length) {
  if (at <= 0 || at >= length || grain->break_count == MAX_BREAKS) return;
  int32_t i = 0;
  while (i < grain->break_count && grain->breaks[i] < at) ++i;
  if (i < grain->break_count && grain->breaks[i] == at) return;
  memmove(&grain->breaks[i + 1], &grain->breaks[i],
          sizeof(int64_t) * (size_t)(grain->break_count - i));
  grain->breaks[i] = at;
  ++grain->break_count;
}

// Follows a value cut along `dim` to its consumers and gathers what they ask of the cut. `origin`
// maps the value's dim into the coordinates of the first value; `depth` bounds the walk.
static void follow(const tensor_planner_t *p, int32_t value, int32_t dim, int64_t origin, int depth,
                   int64_t length, grain_t *grain) {
  if (depth == 0) return;
  for (int32_t use = p->first_use[value]; use >= 0; use = p->next_use[use]) {
    const int32_t n = p->use_node[use], k = p->use_input[use];
    const shoal_node_t *node = &p->graph->nodes.items[n];
    for (int32_t w = 0; w < p->rules[n]->way_count; ++w) {
      const shoal_way_t *way = &p->rules[n]->ways[w];
      const shoal_way_operand_t *in = &way->operands[k];
      if (in->kind != SHOAL_OPERAND_CUT || in->dim != dim || in->repeat != 1) continue;
      grain->unit = grain->unit / shoal_gcd(grain->unit, in->scale) * in->scale;
      for (int32_t o = 0; o < node->output_count; ++o) {
        const shoal_way_operand_t *out = &way->operands[way->input_count + o];
        if (out->kind != SHOAL_OPERAND_CUT || out->repeat != 1 || in->scale != 1) continue;
        int64_t size = p->graph->values.items[node->outputs[o]].type.shape.dims[out->dim];
        int64_t at = origin + (out->offset - in->offset);
        add_break(grain, at, length);
        add_break(grain, at + size, length);
        follow(p, node->outputs[o], out->dim, at, depth - 1, length, grain);
      }
      break;
    }
  }
}

// Who uses each value, backward nodes left out: they follow forward.
static shoal_status_t list_uses(tensor_planner_t *p) {
  shoal_arena_t *arena = p->context->arena;
  int64_t count = 0;
  for (int64_t n = 0; n < p->graph->nodes.count; ++n) count += p->graph->nodes.items[n].input_count;
  p->first_use = SHOAL_NEW(arena, int32_t, p->graph->values.count);
  p->next_use = SHOAL_NEW(arena, int32_t, count);
  p->use_node = SHOAL_NEW(arena, int32_t, count);
  p->use_input = SHOAL_NEW(arena, int32_t, count);
  if (!p->first_use || !p->next_use || !p->use_node || !p->use_input) return SHOAL_OOM();
  for (int64_t v = 0; v < p->graph->values.count; ++v) p->first_use[v] = -1;
  int32_t use = 0;
  for (int64_t n = p->graph->nodes.count; n-- > 0;) {  // lists come out in the order of nodes
    const shoal_node_t *node = &p->graph->nodes.items[n];
    if (shoal_node_is_gradient(node)) continue;
    for (int32_t k = node->input_count; k-- > 0; ++use) {
      p->use_node[use] = (int32_t)n;
      p->use_input[use] = k;
      p->next_use[use] = p->first_use[node->inputs[k]];
      p->first_use[node->inputs[k]] = use;
    }
  }
  return NULL;
}

// "tensor:1*3/64" or, with unequal chunks, "tensor:1*(2048/64,512/64,512/64)"
static shoal_status_t print_cut(const tensor_planner_t *p, int32_t dim, int64_t length,
                                const grain_t *grain, const char **out_text) {
  shoal_arena_t *arena = p->context->arena;
  if (grain->break_count == 0) {
    *out_text = grain->unit > 1
                    ? shoal_arena_printf(arena, "%s:%d/%lld", p->axis, dim, (long long)grain->unit)
                    : shoal_arena_printf(arena, "%s:%d", p->axis, dim);
    return *out_text ? NULL : SHOAL_OOM();
  }
  bool equal = true;
  int64_t each = length / (grain->break_count + 1);
  for (int32_t i = 0; i < grain->break_count; ++i) equal &= grain->breaks[i] == (i + 1) * each;
  if (equal && each * (grain->break_count + 1) == length) {
    *out_text = shoal_arena_printf(arena, "%s:%d*%d/%lld", p->axis, dim, grain->break_count + 1,
                                   (long long)grain->unit);
    return *out_text ? NULL : SHOAL_OOM();
  }
  char *text = shoal_arena_printf(arena, "%s:%d*(", p->axis, dim);
  for (int32_t i = 0; i <= grain->break_count && text; ++i) {
    int64_t from = i ? grain->breaks[i - 1] : 0;
    int64_t to = i < grain->break_count ? grain->breaks[i] : length;
    text = shoal_arena_printf(arena, "%s%s%lld/%lld", text, i ? "," : "", (long long)(to - from),
                              (long long)grain->unit);
  }
  *out_text = text ? shoal_arena_printf(arena, "%s)", text) : NULL;
  return *out_text ? NULL : SHOAL_OOM();
}

static shoal_status_t place(tensor_planner_t *p, int32_t state, int32_t dim, int64_t length,
                            const grain_t *grain) {
  const char *text = NULL;
  p->placed[state] = true;
  SHOAL_RETURN_IF_ERROR(print_cut(p, dim, length, grain, &text));
  return shoal_context_cut(p->context, p->context->model->states.items[state].name, text);
}

// Does the node pass every cut of its one input on, as casts do?
static bool passes_cuts(const tensor_planner_t *p, int32_t n) {
  const shoal_node_t *node = &p->graph->nodes.items[n];
  if (node->input_count != 1 || node->output_count != 1) return false;
  const shoal_shape_t *shape = &p->graph->values.items[node->inputs[0]].type.shape;
  if (!shoal_shape_equal(shape, &p->graph->values.items[node->outputs[0]].type.shape)) return false;
  int32_t passed = 0;
  for (int32_t w = 0; w < p->rules[n]->way_count; ++w) {
    const shoal_way_operand_t *in = &p->rules[n]->ways[w].operands[0], *out = in + 1;
    passed += in->kind == SHOAL_OPERAND_CUT && out->kind == SHOAL_OPERAND_CUT && in->dim >= 0 &&
              in->dim == out->dim;
  }
  return passed >= shape->rank;
}

// The state that an input is, or is made of by a cast (parameters of mixed precision); NULL: none
// of that rank.
static const shoal_value_info_t *state_input(const tensor_planner_t *p, const shoal_node_t *node,
                                             int32_t k, int32_t rank) {
  const shoal_value_info_t *info = &p->graph->values.items[node->inputs[k]];
  while (info->source == SHOAL_FROM_NODE && passes_cuts(p, info->node)) {
    info = &p->graph->values.items[p->graph->nodes.items[info->node].inputs[0]];
  }
  return info->source == SHOAL_FROM_STATE && info->type.shape.rank == rank ? info : NULL;
}

// A product with a weight: decides columns or rows.
static shoal_status_t place_weight(tensor_planner_t *p, int64_t n, int32_t k, bool *out_done) {
  const shoal_node_t *node = &p->graph->nodes.items[n];
  const shoal_value_info_t *weight = state_input(p, node, k, 2);
  const shoal_way_t *column = NULL, *row = NULL;
  for (int32_t w = 0; w < p->rules[n]->way_count; ++w) {
    const shoal_way_t *way = &p->rules[n]->ways[w];
    const shoal_way_operand_t *mine = &way->operands[k], *other = &way->operands[1 - k];
    const shoal_way_operand_t *out = &way->operands[2];
    if (mine->kind != SHOAL_OPERAND_CUT) continue;
    if (other->kind == SHOAL_OPERAND_WHOLE && out->kind == SHOAL_OPERAND_CUT) column = way;
    if (other->kind == SHOAL_OPERAND_CUT && out->kind == SHOAL_OPERAND_PARTIAL) row = way;
  }
  *out_done = column && row;
  if (!*out_done) return NULL;
  int32_t other_value = node->inputs[1 - k], out_value = node->outputs[0];
  bool by_rows = p->cut[other_value];
  const shoal_way_t *way = by_rows ? row : column;
  int32_t dim = way->operands[k].dim;
  int64_t length = weight->type.shape.dims[dim];
  grain_t grain = {.unit = 1};
  if (by_rows) {
    // The rows are dealt as the other input is: look through the node that made it (a reshape of
    // heads).
    const shoal_value_info_t *other = &p->graph->values.items[other_value];
    if (other->source == SHOAL_FROM_NODE) {
      const shoal_rule_t *made = p->rules[other->node];
      for (int32_t w = 0; w < made->way_count; ++w) {
        const shoal_way_operand_t *out = &made->ways[w].operands[made->ways[w].input_count];
        if (out->kind == SHOAL_OPERAND_CUT && out->dim == way->operands[1 - k].dim &&
            out->repeat == 1)
          grain.unit = out->scale;
      }
    }
  } else {
    follow(p, out_value, way->operands[2].dim, 0, 6, length, &grain);
  }
  p->cut[out_value] = !by_rows;
  const shoal_tensor_product_t product = {(int32_t)n, k, by_rows, way};
  if (p->placed[weight->index]) {  // a weight that is used twice is cut as its first use wants it
    if (p->out->dims[weight->index] != dim) return NULL;
  } else {
    p->out->dims[weight->index] = dim;
    SHOAL_RETURN_IF_ERROR(place(p, weight->index, dim, length, &grain));
  }
  return SHOAL_PUSH(p->context->arena, &p->out->products, product) ? NULL : SHOAL_OOM();
}

// A 1-d state joined to a cut value along the dim that is cut rests cut too.
static shoal_status_t place_vector(tensor_planner_t *p, int64_t n, int32_t k) {
  const shoal_node_t *node = &p->graph->nodes.items[n];
  const shoal_value_info_t *vector = state_input(p, node, k, 1);
  int64_t length = vector->type.shape.dims[0];
  if (p->placed[vector->index] || node->output_count != 1) return NULL;
  const shoal_shape_t *shape = &p->graph->values.items[node->outputs[0]].type.shape;
  grain_t grain = {.unit = 1};
  follow(p, node->outputs[0], shape->rank - 1, 0, 6, length, &grain);
  return place(p, vector->index, 0, length, &grain);
}

static shoal_status_t visit(tensor_planner_t *p, int64_t n) {
  const shoal_node_t *node = &p->graph->nodes.items[n];
  bool any_cut = false, done = false;
  for (int32_t k = 0; k < node->input_count; ++k) any_cut |= p->cut[node->inputs[k]];
  for (int32_t k = 0; k < node->input_count && node->input_count == 2 && !done; ++k)
    if (state_input(p, node, k, 2)) SHOAL_RETURN_IF_ERROR(place_weight(p, n, k, &done));
  if (done || !any_cut) return NULL;
  bool follows = false;  // does some way carry a cut on from a cut input?
  for (int32_t w = 0; w < p->rules[n]->way_count; ++w)
    for (int32_t k = 0; k < node->input_count; ++k) {
      const shoal_way_operand_t *in = &p->rules[n]->ways[w].operands[k];
      int32_t rank = p->graph->values.items[node->inputs[k]].type.shape.rank;
      follows |=
          p->cut[node->inputs[k]] && in->kind == SHOAL_OPERAND_CUT && (in->dim > 0 || rank == 1);
    }
  for (int32_t k = 0; k < node->input_count; ++k)
    if (state_input(p, node, k, 1) && node->input_count == 2)
      SHOAL_RETURN_IF_ERROR(place_vector(p, n, k));
  for (int32_t o = 0; o < node->output_count; ++o) p->cut[node->outputs[o]] = follows;
  return NULL;
}

shoal_status_t shoal_tensor_place(shoal_strategy_context_t *context, const char *axis,
                                  const bool *only, shoal_tensor_products_t *out) {
  tensor_planner_t p = {.context = context, .axis = axis, .out = out};
  *out = (shoal_tensor_products_t){0};
  p.graph = shoal_model_find_graph(context->model, "train");
  for (int64_t g = 0; g < context->model->graphs.count && !p.graph; ++g)
    if (strcmp(context->model->graphs.items[g]->name, "init") != 0)
      p.graph = context->model->graphs.items[g];
  if (!p.graph) return NULL;
  p.rules = SHOAL_NEW(context->arena, const shoal_rule_t *, p.graph->nodes.count);
  p.cut = SHOAL_NEW(context->arena, bool, p.graph->values.count);
  p.placed = SHOAL_NEW(context->arena, bool, context->model->states.count);
  out->graph = p.graph;
  out->rules = p.rules;
  out->cut = p.cut;
  out->dims = SHOAL_NEW(context->arena, int32_t, context->model->states.count);
  if (!p.rules || !p.cut || !p.placed || !out->dims) return SHOAL_OOM();
  for (int64_t s = 0; s < context->model->states.count; ++s) out->dims[s] = -1;
  SHOAL_RETURN_IF_ERROR(list_uses(&p));
  for (int64_t n = 0; n < p.graph->nodes.count; ++n) {
    shoal_call_t call;
    SHOAL_RETURN_IF_ERROR(
        shoal_node_call(p.graph, &p.graph->nodes.items[n], context->arena, &call));
    SHOAL_RETURN_IF_ERROR(shoal_rules_get(context->rules, &call, &p.rules[n]));
  }
  for (int64_t n = 0; n < p.graph->nodes.count; ++n) {
    const shoal_node_t *node = &p.graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;  // backward follows forward
    if (!only || only[n]) SHOAL_RETURN_IF_ERROR(visit(&p, n));
  }
  return NULL;
}

shoal_status_t shoal_strategy_tensor(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  shoal_tensor_products_t products;
  return shoal_tensor_place(context, "tensor", NULL, &products);
}
