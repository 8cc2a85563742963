// Average pooling of [N,C,S..] over one to three dims and its gradient:
//   out[o..] = sum of the window's elements / how many it has
// How many that are follows from where the window lies in the whole (separable.h), so that parts
// divide by the same number.
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/separable.h"

enum { KERNEL_SIZE, STRIDE, PADDING, CEIL, COUNT_PAD, DIVISOR, SHAPE, PLACE_X, PLACE_OUT };
enum { G_KERNEL, G_STRIDE, G_PADDING, G_COUNT_PAD, G_DIVISOR, G_SHAPE, G_PLACE_DY, G_PLACE_DX };

typedef struct average {
  shoal_window_t window;
  bool count_pad;
  int64_t divisor;  // 0: as many as the window has
} average_t;

static void average_weights(const void *how, int32_t i, int64_t in, int64_t out, int64_t o,
                            int64_t *index, double *weight) {
  const average_t *a = how;
  const int64_t kernel = a->window.kernel[i], padding = a->window.padding[i];
  const int64_t start = o * a->window.stride[i] - padding;
  (void)out;
  int64_t from = start, to = start + kernel;
  if (to > in + padding) to = in + padding;
  if (!a->count_pad && from < 0) from = 0;
  if (!a->count_pad && to > in) to = in;
  const int64_t count = a->divisor ? (i == SHOAL_DIRECTIONS - 1 ? a->divisor : 1) : to - from;
  for (int64_t t = 0; t < kernel; ++t) {
    index[t] = start + t;
    weight[t] = count > 0 ? 1.0 / (double)count : 0;
  }
}

static shoal_status_t read_average(const shoal_call_t *call, int32_t kernel, int32_t ceil,
                                   int32_t count_pad, int32_t divisor, average_t *out) {
  SHOAL_RETURN_IF_ERROR(shoal_pool_window(call, kernel, kernel + 1, kernel + 2, -1, &out->window));
  out->window.ceil = ceil >= 0 && call->attrs[ceil].i != 0;
  out->count_pad = call->attrs[count_pad].i != 0;
  out->divisor = call->attrs[divisor].i;
  REQUIRE(call, out->divisor >= 0, "divisor is %lld: it must not be negative",
          (long long)out->divisor);
  return NULL;
}

static shoal_separable_t average_map(const average_t *a) {
  return (shoal_separable_t){
      .taps = {a->window.kernel[0], a->window.kernel[1], a->window.kernel[2]},
      .weights = average_weights,
      .how = a};
}

static shoal_status_t pool_map(const shoal_call_t *call, average_t *average,
                               shoal_shape_t *out_shape, shoal_separable_t *out_map) {
  SHOAL_RETURN_IF_ERROR(read_average(call, KERNEL_SIZE, CEIL, COUNT_PAD, DIVISOR, average));
  *out_map = average_map(average);
  *out_shape = call->inputs[0].shape;
  return shoal_window_places(call, &average->window, SHAPE, PLACE_X, PLACE_OUT, out_shape,
                             &out_map->x, &out_map->out);
}

static void avg_pool_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  average_t average;
  const shoal_shape_t *x = &call->inputs[0].shape;
  shoal_status_t status = read_average(call, KERNEL_SIZE, CEIL, COUNT_PAD, DIVISOR, &average);
  if (!status) shoal_window_complete(&average.window, x, x->dims[1], &attrs[SHAPE]);
  shoal_status_free(status);  // infer says it again
}

static shoal_status_t avg_pool_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  average_t average;
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return pool_map(call, &average, &out_types[0].shape, &map);
}

static void kernel_taps(const shoal_attr_value_t *kernel, int64_t taps[SHOAL_DIRECTIONS]) {
  for (int32_t i = 0; i < SHOAL_DIRECTIONS; ++i) {
    const int32_t at = kernel->count - SHOAL_DIRECTIONS + i;
    taps[i] = at < 0 ? 1 : kernel->ints[at];
  }
}

static int64_t avg_pool_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  kernel_taps(&call->attrs[KERNEL_SIZE], taps);
  return shoal_separable_bytes(&call->outputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(avg_pool) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, avg_pool_kernel);
  }
  average_t average;
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(pool_map(call, &average, &shape, &map));
  return shoal_separable_run(call, &map, inputs, outputs, workspace);
}

OP_GRADIENT(avg_pool) {
  const shoal_attr_value_t *a = call->attrs;
  (void)in, (void)out;
  in_grads[0] = shoal_emit_one(
      e, "shoal.avg_pool_grad", REFS(grads[0]),
      ATTRS(shoal_attr_ints("kernel", a[KERNEL_SIZE].count, a[KERNEL_SIZE].ints),
            shoal_attr_ints("stride", a[STRIDE].count, a[STRIDE].ints),
            shoal_attr_ints("padding", a[PADDING].count, a[PADDING].ints),
            shoal_attr_int("count_pad", a[COUNT_PAD].i), shoal_attr_int("divisor", a[DIVISOR].i),
            shoal_attr_shape("shape", &call->inputs[0].shape)));
}

static void avg_pool_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  kernel_taps(&call->attrs[KERNEL_SIZE], taps);
  out_cost->flops = shoal_separable_flops(&call->outputs[0].shape, taps);
}

#define KERNEL_ATTR SHOAL_WINDOW_ATTR("kernel", "size of the window along each dim behind [N, C]")
#define COUNT_ATTRS                                                                        \
  {.name = "count_pad",                                                                    \
   .kind = SHOAL_ATTR_INT,                                                                 \
   .optional = true,                                                                       \
   .stated = true,                                                                         \
   .fallback = {.i = 1},                                                                   \
   .doc = "1: padding counts among a window's elements; 0: it does not"},                  \
  {                                                                                        \
    .name = "divisor", .kind = SHOAL_ATTR_INT, .role = SHOAL_ROLE_COUNT, .optional = true, \
    .doc = "what sums are divided by; 0: how many elements the window has"                 \
  }

const shoal_op_t shoal_op_avg_pool = {
    .name = "shoal.avg_pool",
    .doc =
        "Mean of each window of x [N, C, ...] over one to three dims. Padding, at most half of the "
        "kernel, holds zeros.",
    .window = "stride",
    SHOAL_OP_INPUTS("x"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(KERNEL_ATTR, SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_CEIL,
                   COUNT_ATTRS, SHOAL_WINDOW_SHAPE, SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .complete = avg_pool_complete,
    .infer = avg_pool_infer,
    .gradient = avg_pool_gradient,
    .cost = avg_pool_cost,
    .workspace = avg_pool_workspace,
    .kernel = avg_pool_kernel,
    SHOAL_OP_CASES("f64[2,2,6,5] ; kernel=[2,2], stride=[2,2], padding=[0,0]",
                   "f32[1,2,7] ; kernel=[3], stride=[2], padding=[1]",
                   "f64[1,2,6,5] ; kernel=[3,2], stride=[2,2], padding=[1,0], ceil=1, count_pad=0",
                   "f64[1,1,4,5,3] ; kernel=[2,1,3], stride=[1,1,1], padding=[1,0,1], divisor=5",
                   "bf16[1,2,6] ; kernel=[2], stride=[2], padding=[0]",
                   "f32[0,2,6] ; kernel=[2], stride=[2], padding=[0]"),
};

// The gradient of x needs only dy: pooling is linear.
static shoal_status_t pool_grad_map(const shoal_call_t *call, average_t *average,
                                    shoal_shape_t *out_shape, shoal_separable_t *out_map) {
  const shoal_shape_t *dy = &call->inputs[0].shape;
  SHOAL_RETURN_IF_ERROR(read_average(call, G_KERNEL, -1, G_COUNT_PAD, G_DIVISOR, average));
  SHOAL_RETURN_IF_ERROR(shoal_separable_shape(call, G_SHAPE, dy, out_shape));
  *out_map = average_map(average);
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, G_PLACE_DY, dy, &out_map->out));
  return shoal_check_place(call, G_PLACE_DX, out_shape, &out_map->x);
}

static shoal_status_t avg_pool_grad_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  average_t average;
  shoal_separable_t map;
  out_types[0].dtype = call->inputs[0].dtype;
  return pool_grad_map(call, &average, &out_types[0].shape, &map);
}

static int64_t avg_pool_grad_workspace(const shoal_call_t *call) {
  int64_t taps[SHOAL_DIRECTIONS];
  kernel_taps(&call->attrs[G_KERNEL], taps);
  return shoal_separable_bytes(&call->inputs[0].shape, taps) + shoal_kernel_widen_bytes(call);
}

OP_KERNEL(avg_pool_grad) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, avg_pool_grad_kernel);
  }
  average_t average;
  shoal_shape_t shape;
  shoal_separable_t map;
  SHOAL_RETURN_IF_ERROR(pool_grad_map(call, &average, &shape, &map));
  return shoal_separable_adjoint(call, &map, inputs, outputs, workspace);
}

static void avg_pool_grad_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  int64_t taps[SHOAL_DIRECTIONS];
  kernel_taps(&call->attrs[G_KERNEL], taps);
  out_cost->flops = shoal_separable_flops(&call->inputs[0].shape, taps);
}

const shoal_op_t shoal_op_avg_pool_grad = {
    .name = "shoal.avg_pool_grad",
    .doc = "Gradient of avg_pool: each dy is shared out among its window.",
    .window = "stride",
    SHOAL_OP_INPUTS("dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(KERNEL_ATTR, SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, COUNT_ATTRS,
                   SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"),
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dx", SHOAL_OUTPUT(0))),
    .infer = avg_pool_grad_infer,
    .cost = avg_pool_grad_cost,
    .workspace = avg_pool_grad_workspace,
    .kernel = avg_pool_grad_kernel,
    SHOAL_OP_CASES(
        "f64[2,2,3,2] ; kernel=[2,2], stride=[2,2], padding=[0,0], shape=[2,2,6,5]",
        "f32[1,2,4] ; kernel=[3], stride=[2], padding=[1], shape=[1,2,7]",
        "f64[1,2,4,3] ; kernel=[3,2], stride=[2,2], padding=[1,0], count_pad=0, shape=[1,2,6,5]",
        "bf16[1,2,3] ; kernel=[2], stride=[2], padding=[0], shape=[1,2,6]"),
};
