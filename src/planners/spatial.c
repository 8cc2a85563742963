// Strategy `spatial`: pictures are cut along height, width and depth, and what slides over them
// (convolutions, pools, resizing) gets its neighbours' rows as halos. Norms, losses and gradients
// follow by completion; where a map has fewer rows than there are ranks it is gathered.
//
// Which dims are space is read off the rules: a node *slides* along a dim if a way cuts an input
// and an output along it that do not lie alike, by a halo or by items that do not divide the dim.
// The last dim that a node slides over is the width, the one before it the height, then the depth.
// What leads to such a node from an input of the model is fed cut; a map that begins inside of the
// model (a generator's) is cut where it is first large enough.
#include <string.h>

#include "base/status.h"
#include "planners/trail.h"

enum { SPACE_AXES = 3 };
static const char *const AXES[SPACE_AXES] = {"depth", "height", "width"};

typedef struct space {
  shoal_trail_t trail;
  const char *axis;
  int64_t ranks;     // along the axis
  int32_t number;    // of the axis in AXES
  int32_t *fed;      // by value: the dim along which an input is fed cut; -1: none
  int64_t *strides;  // by value: how many elements of the map that is fed one of its elements is
  int64_t stride;    // the largest
  bool any;          // something is cut
} space_t;

static bool slides(const shoal_way_operand_t *operand) {
  return operand->kind == SHOAL_OPERAND_CUT && operand->repeat == 1 && operand->length == 0 &&
         (operand->before || operand->after || operand->dealt_by_items);
}

// The way of node `n` that slides over input `k` along the axis at hand; NULL: none does.
static const shoal_way_t *sliding_way(const space_t *s, int64_t n, int32_t k) {
  const shoal_rule_t *rule = s->trail.rules[n];
  const shoal_way_t *found[SPACE_AXES] = {0};  // by dim, the last first
  int32_t count = 0;
  for (int32_t w = rule->way_count; w-- > 0;) {
    const shoal_way_t *way = &rule->ways[w];
    const shoal_way_operand_t *in = &way->operands[k], *out = &way->operands[way->input_count];
    if (in->kind != SHOAL_OPERAND_CUT || out->kind != SHOAL_OPERAND_CUT) continue;
    if ((slides(in) || slides(out)) && in->dim > 0 && count < SPACE_AXES) found[count++] = way;
  }
  const int32_t from_last = SPACE_AXES - 1 - s->number;
  if (count == 1) return found[0];  // a line has one dim, whatever the axis is called
  return from_last < count ? found[from_last] : NULL;
}

static int64_t length_of(const space_t *s, int32_t value, int32_t dim) {
  return s->trail.graph->values.items[value].type.shape.dims[dim];
}

static shoal_status_t feed(void *self, int32_t value, int32_t dim) {
  space_t *s = self;
  if (s->trail.graph->values.items[value].source != SHOAL_FROM_INPUT || dim == 0) return NULL;
  if (length_of(s, value, dim) < 2) return NULL;
  s->fed[value] = s->trail.dims[value] = dim;
  s->strides[value] = 1;
  s->any = true;
  return NULL;
}

// Inputs that lead to what slides.
static shoal_status_t feed_maps(space_t *s) {
  for (int64_t n = 0; n < s->trail.graph->nodes.count; ++n) {
    const shoal_node_t *node = &s->trail.graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    for (int32_t k = 0; k < node->input_count; ++k) {
      const shoal_way_t *way = sliding_way(s, n, k);
      if (way)
        SHOAL_RETURN_IF_ERROR(
            shoal_trail_trace(&s->trail, node->inputs[k], way->operands[k].dim, feed, s));
    }
  }
  return NULL;
}

// A node that slides over what is not cut yet: a map begins here, if it has a row for each rank.
static shoal_status_t begin_map(space_t *s, int64_t n, const shoal_way_t **out_way) {
  const shoal_node_t *node = &s->trail.graph->nodes.items[n];
  *out_way = NULL;
  for (int32_t k = 0; k < node->input_count && !*out_way; ++k) {
    const shoal_way_t *way = sliding_way(s, n, k);
    if (way && length_of(s, node->inputs[k], way->operands[k].dim) >= s->ranks &&
        length_of(s, node->outputs[0], way->operands[way->input_count].dim) >= s->ranks)
      *out_way = way;
  }
  s->any |= *out_way != NULL;
  if (!*out_way || s->ranks < 2) return NULL;  // one part has no way
  return shoal_context_decide_way(s->trail.context, node, s->axis, *out_way,
                                  "a map begins here that has a row for each rank");
}

// How many elements of what is fed the elements of a node's outputs are. Phases keep them (NULL).
static void count_strides(space_t *s, int64_t n, const shoal_way_t *way) {
  const shoal_node_t *node = &s->trail.graph->nodes.items[n];
  int64_t item = 0;
  for (int32_t k = 0; k < node->input_count; ++k) {
    if (s->trail.dims[node->inputs[k]] < 0) continue;
    const bool cut = way && way->operands[k].kind == SHOAL_OPERAND_CUT;
    const int64_t stride = s->strides[node->inputs[k]] * (cut ? way->operands[k].scale : 1);
    if (stride > item) item = stride;
  }
  for (int32_t o = 0; o < node->output_count && item > 0; ++o) {
    const int32_t value = node->outputs[o], dim = s->trail.dims[value];
    if (dim < 0) continue;
    const int64_t scale = way ? way->operands[node->input_count + o].scale : 1;
    s->strides[value] = scale < item ? item / scale : 1;
    if (length_of(s, value, dim) >= s->ranks && s->strides[value] > s->stride)
      s->stride = s->strides[value];
  }
}

static shoal_status_t follow(space_t *s) {
  for (int64_t n = 0; n < s->trail.graph->nodes.count; ++n) {
    const shoal_node_t *node = &s->trail.graph->nodes.items[n];
    if (node->kind != SHOAL_NODE_FORWARD) continue;
    const shoal_way_t *way = shoal_trail_way(&s->trail, n);
    // Labels of pixels meet the map along its dims.
    for (int32_t k = 0; way && k < node->input_count; ++k)
      if (s->trail.dims[node->inputs[k]] < 0 && shoal_operand_is_plain(&way->operands[k]))
        SHOAL_RETURN_IF_ERROR(
            shoal_trail_trace(&s->trail, node->inputs[k], way->operands[k].dim, feed, s));
    if (!way) SHOAL_RETURN_IF_ERROR(begin_map(s, n, &way));
    shoal_trail_take(&s->trail, n, way);
    count_strides(s, n, way);
  }
  return NULL;
}

// Rows are dealt in units of all strides together, so that all maps share their borders; in smaller
// ones where that would leave a rank more than an eighth too much.
static int64_t unit_of(const space_t *s, int64_t length) {
  int64_t unit = s->stride;
  for (; unit > 1; unit = unit % 2 ? 1 : unit / 2) {
    const int64_t units = (length + unit - 1) / unit;
    const int64_t largest = (units + s->ranks - 1) / s->ranks * unit;
    if (largest * s->ranks * 8 <= length * 9) break;
  }
  return unit < 1 ? 1 : unit;
}

static shoal_status_t cut_inputs(space_t *s) {
  const shoal_graph_t *graph = s->trail.graph;
  for (int64_t i = 0; i < graph->inputs.count; ++i) {
    const shoal_named_t *input = &graph->inputs.items[i];
    const int32_t dim = s->fed[input->value];
    if (dim < 0) continue;
    const int64_t unit = unit_of(s, length_of(s, input->value, dim));
    const char *cut = unit > 1 ? shoal_arena_printf(s->trail.context->arena, "%s:%d/%lld", s->axis,
                                                    dim, (long long)unit)
                               : shoal_arena_printf(s->trail.context->arena, "%s:%d", s->axis, dim);
    if (!cut) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_context_cut(s->trail.context, input->name, cut));
  }
  return NULL;
}

shoal_status_t shoal_strategy_spatial(shoal_strategy_context_t *context, void *user_data) {
  (void)user_data;
  space_t s = {0};
  SHOAL_RETURN_IF_ERROR(shoal_trail_init(context, &s.trail));
  if (!s.trail.graph) return NULL;
  s.fed = SHOAL_NEW(context->arena, int32_t, s.trail.graph->values.count);
  s.strides = SHOAL_NEW(context->arena, int64_t, s.trail.graph->values.count);
  if (!s.fed || !s.strides) return SHOAL_OOM();
  for (s.number = 0; s.number < SPACE_AXES; ++s.number) {
    s.axis = AXES[s.number];
    s.ranks = shoal_context_axis(context, s.axis);
    if (s.ranks == 0) continue;
    shoal_trail_reset(&s.trail);
    s.stride = 1;
    for (int64_t v = 0; v < s.trail.graph->values.count; ++v) s.fed[v] = -1, s.strides[v] = 1;
    SHOAL_RETURN_IF_ERROR(feed_maps(&s));
    SHOAL_RETURN_IF_ERROR(follow(&s));
    SHOAL_RETURN_IF_ERROR(cut_inputs(&s));
  }
  if (s.any) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED,
                          "it is for models of pictures; `data` and `tensor` cut any model",
                          "no convolution or pool of the model slides over a map");
}
