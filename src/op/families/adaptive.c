// Adaptive average pooling of [N,C,S..]: as many windows as the result has share out an input of L
// elements evenly along each dim, and its gradient:
//   out[o..] = mean of x[floor(o L / n) .. ceil((o + 1) L / n)), of n along that dim
// Indices are those of the whole (separable.h). Where n divides L, windows lie side by side.
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/separable.h"

enum { A_SHAPE, A_PLACE_IN, A_PLACE_OUT };  // the gradient's: of dy and dx

static void adaptive_weights(const void *how, int32_t i, int64_t in, int64_t out, int64_t o,
                             int64_t *index, double *weight) {
  const shoal_separable_t *map = how;
  const int64_t from = o * in / out, to = ((o + 1) * in + out - 1) / out;
  for (int64_t t = 0; t < map->taps[i]; ++t) {
    index[t] = from + t < to ? from + t : -1;
    weight[t] = 1.0 / (double)(to - from);
  }
}

// Elements of the longest window, along each direction of the wholes.
static void adaptive_taps(const shoal_shape_t *in, const shoal_shape_t *out,
                          int64_t taps[SHOAL_DIRECTIONS]) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int64_t size = shoal_window_size(in, i), count = shoal_window_size(out, i);
    taps[i] = count && size ? size / count + 2 * (size % count != 0) : 1;
  }
}

// `in`: is x the input? Else it is dy, and shape is that of x.
static shoal_status_t adaptive_map(const shoal_call_t *call, bool in, shoal_shape_t *out_shape,
                                   shoal_separable_t *out_map) {
  const shoal_shape_t *given = &call->inputs[0].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 1));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_separable_shape(call, A_SHAPE, given, out_shape));
  *out_map = (shoal_separable_t){.weights = adaptive_weights};
  SHOAL_RETURN_IF_ERROR(
      shoal_check_place(call, A_PLACE_IN, given, in ? &out_map->x : &out_map->out));
  SHOAL_RETURN_IF_ERROR(
      shoal_check_place(call, A_PLACE_OUT, out_shape, in ? &out_map->out : &out_map->x));
  for (int32_t d = 2; d < given->rank; ++d) {
    REQUIRE(call, out_map->x.whole.dims[d] > 0 || out_map->out.whole.dims[d] == 0,
            "dim %d is empty: there is nothing to average", d);
  }
  adaptive_taps(&out_map->x.whole, &out_map->out.whole, out_map->taps);
  return NULL;
}

static shoal_status_t adaptive_avg_pool_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return adaptive_map(call, true, &out_types[0].shape, &map);
}

static shoal_status_t adaptive_avg_pool_grad_infer(const shoal_call_t *call,
                                                   shoal_type_t *out_types) {
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return adaptive_map(call, false, &out_types[0].shape, &map);
}

static const shoal_shape_t *whole_of(const shoal_call_t *call, int32_t attr,
                                     const shoal_shape_t *part) {
  const shoal_place_t *place = call->attrs[attr].place;
  return place ? &place->whole : part;
}

static void both_taps(const shoal_call_t *call, bool in, int64_t taps[SHOAL_DIRECTIONS]) {
  const shoal_shape_t *input = whole_of(call, A_PLACE_IN, &call->inputs[0].shape);
  const shoal_shape_t *output = whole_of(call, A_PLACE_OUT, &call->outputs[0].shape);
  adaptive_taps(in ? input : output, in ? output : input, taps);
}

static int64_t adaptive_avg_pool_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  both_taps(call, true, taps);
  return shoal_separable_bytes(&call->outputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

static int64_t adaptive_avg_pool_grad_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  both_taps(call, false, taps);
  return shoal_separable_bytes(&call->inputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(adaptive_avg_pool) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, adaptive_avg_pool_kernel);
  }
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(adaptive_map(call, true, &shape, &map));
  map.how = &map;
  return shoal_separable_run(call, &map, inputs, outputs, workspace);
}

OP_KERNEL(adaptive_avg_pool_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, adaptive_avg_pool_grad_kernel);
  }
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(adaptive_map(call, false, &shape, &map));
  map.how = &map;
  return shoal_separable_adjoint(call, &map, inputs, outputs, workspace);
}

OP_GRADIENT(adaptive_avg_pool) {
  (void)in, (void)out;
  in_grads[0] = shoal_emit_one(e, "shoal.adaptive_avg_pool_grad", REFS(grads[0]),
                               ATTRS(shoal_attr_shape("shape", &call->inputs[0].shape)));
}

static void adaptive_avg_pool_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  both_taps(call, true, taps);
  out_cost->flops = shoal_separable_flops(&call->outputs[0].shape, taps);
}

static void adaptive_avg_pool_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  both_taps(call, false, taps);
  out_cost->flops = shoal_separable_flops(&call->inputs[0].shape, taps);
}

const shoal_op_t shoal_op_adaptive_avg_pool = {
    .name = "shoal.adaptive_avg_pool",
    .doc =
        "Means of as many windows of x [N, C, ...] as shape has: along a dim of L elements, of "
        "which the result has n, window o goes from floor(o L / n) to before ceil((o + 1) L / n).",
    .window = "shape",
    .uncut =
        "dims of x that become one element, or others in no simple proportion: windows lie "
        "differently in each part",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0),
                                    "shape of the result, [N, C, ...] with the N and C of x"),
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .infer = adaptive_avg_pool_infer,
    .gradient = adaptive_avg_pool_gradient,
    .cost = adaptive_avg_pool_cost,
    .workspace = adaptive_avg_pool_workspace,
    .kernel = adaptive_avg_pool_kernel,
    SHOAL_OP_CASES("f64[2,2,6,4] ; shape=[2,2,3,4]", "f32[1,2,7] ; shape=[1,2,3]",
                   "f64[1,1,3,5,4] ; shape=[1,1,1,3,2]", "f64[1,2,3] ; shape=[1,2,5]",
                   "bf16[1,2,6] ; shape=[1,2,2]"),
};

const shoal_op_t shoal_op_adaptive_avg_pool_grad = {
    .name = "shoal.adaptive_avg_pool_grad",
    .doc = "Gradient of adaptive_avg_pool: each dy is shared out among its window.",
    .window = "shape",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"),
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dx", SHOAL_OUTPUT(0))),
    .infer = adaptive_avg_pool_grad_infer,
    .cost = adaptive_avg_pool_grad_cost,
    .workspace = adaptive_avg_pool_grad_workspace,
    .kernel = adaptive_avg_pool_grad_kernel,
    SHOAL_OP_CASES("f64[2,2,3,4] ; shape=[2,2,6,4]", "f32[1,2,3] ; shape=[1,2,7]",
                   "f64[1,2,5] ; shape=[1,2,3]", "bf16[1,2,2] ; shape=[1,2,6]"),
};
