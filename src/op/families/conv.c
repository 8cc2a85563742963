// 2-d convolution of x [N,C,H,W] with w [O,C,KH,KW] (cross-correlation, as in deep learning), and
// its two gradients. Windows lie in global coordinates (window.h), so that a part of the rows or
// columns with its halo computes its share:
//   out[n,o,y,x]  = sum over c, taps of x[n,c,in(y,tap),in(x,tap)] w[o,c,tap]
//   dx            = the same pairs, summed for each input          (needs the dy that see it)
//   dw            = the same pairs, summed for each tap            (a part of dy: a partial sum)
#ifndef KERNELS_HERE
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/window.h"

#define EACH EACH_REAL
#define KERNELS "op/families/conv.c"
#include "op/families/each.h"

#define RUN(name, dtype, ...) \
  ((dtype) == SHOAL_F64 ? name##_f64(__VA_ARGS__) : name##_f32(__VA_ARGS__))

// ---- forward ---------------------------------------------------------------------------

enum { STRIDE, PADDING, DILATION, HEIGHT, WIDTH, PLACE_X, PLACE_OUT };

static shoal_status_t conv_window(const shoal_call_t *call, shoal_window_t *out_window) {
  const shoal_type_t *x = &call->inputs[0], *w = &call->inputs[1];
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 0, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, 4));
  REQUIRE(call, x->shape.dims[1] == w->shape.dims[1], "x has %lld channels and w %lld",
          (long long)x->shape.dims[1], (long long)w->shape.dims[1]);
  return shoal_window_read(call, w->shape.dims[2], w->shape.dims[3], STRIDE, PADDING, DILATION,
                           out_window);
}

static shoal_status_t conv_places(const shoal_call_t *call, shoal_window_t *out_window,
                                  shoal_shape_t *out_shape, shoal_place_t *out_x,
                                  shoal_place_t *out_out) {
  SHOAL_RETURN_IF_ERROR(conv_window(call, out_window));
  const shoal_shape_t *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
  *out_shape = (shoal_shape_t){.rank = 4, .dims = {x->dims[0], w->dims[0]}};
  return shoal_window_places(call, out_window, HEIGHT, PLACE_X, PLACE_OUT, out_shape, out_x,
                             out_out);
}

static void conv2d_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  shoal_window_t window;
  shoal_status_t status = conv_window(call, &window);
  if (!status) shoal_window_complete(&window, &call->inputs[0].shape, &attrs[HEIGHT]);
  shoal_status_free(status);  // infer says it again
}

static shoal_status_t conv2d_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, out;
  out_types[0].dtype = call->inputs[0].dtype;
  return conv_places(call, &window, &out_types[0].shape, &x, &out);
}

static int64_t conv2d_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, &call->inputs[1].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv2d) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv2d_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, out;
  SHOAL_RETURN_IF_ERROR(conv_places(call, &window, &shape, &x, &out));
  const shoal_taps_t taps = shoal_taps_at(&shape, window.kernel, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_inputs(call, &window, &x, &out, &taps));
  RUN(conv2d, inputs->dtype, &taps, &inputs[0], &inputs[1], &outputs[0]);
  return NULL;
}

OP_GRADIENT(conv2d) {
  const shoal_attr_value_t *a = call->attrs;
  const shoal_attr_t stride = shoal_attr_ints("stride", 2, a[STRIDE].ints);
  const shoal_attr_t padding = shoal_attr_ints("padding", 2, a[PADDING].ints);
  const shoal_attr_t dilation = shoal_attr_ints("dilation", 2, a[DILATION].ints);
  (void)out;
  in_grads[0] = shoal_emit_one(
      e, "shoal.conv2d_grad_x", REFS(in[1], grads[0]),
      ATTRS(shoal_attr_shape("shape", &call->inputs[0].shape), stride, padding, dilation));
  in_grads[1] = shoal_emit_one(e, "shoal.conv2d_grad_w", REFS(in[0], grads[0]),
                               ATTRS(shoal_attr_ints("kernel", 2, &call->inputs[1].shape.dims[2]),
                                     stride, padding, dilation));
}

// Two flops for each element of `big` and each of the channels and taps it meets.
static double pair_flops(const shoal_shape_t *big, double partners) {
  return 2.0 * (double)shoal_shape_count(big) * partners;
}

static void conv2d_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->inputs[1].shape;
  out_cost->flops = pair_flops(&call->outputs[0].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv2d = {
    .name = "shoal.conv2d",
    .doc =
        "2-d convolution (cross-correlation) of x [N, C, H, W] with w [O, C, KH, KW], zero "
        "padding.",
    SHOAL_OP_INPUTS("x", "w"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_WINDOW_SIZE("height", 2), SHOAL_WINDOW_SIZE("width", 3),
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .complete = conv2d_complete,
    .infer = conv2d_infer,
    .gradient = conv2d_gradient,
    .cost = conv2d_cost,
    .workspace = conv2d_workspace,
    .kernel = conv2d_kernel,
    SHOAL_OP_CASES("f64[2,3,7,5], f64[4,3,3,3] ; stride=[1,1], padding=[1,1]",
                   "f32[1,2,9,7], f32[3,2,3,2] ; stride=[2,1], padding=[1,0]",
                   "f64[1,2,10,6], f64[2,2,3,3] ; stride=[1,1], padding=[0,0]",
                   "f64[1,1,9,9], f64[2,1,3,3] ; stride=[2,2], padding=[2,2], dilation=[2,2]",
                   "bf16[1,2,5,5], bf16[2,2,2,2] ; stride=[1,1], padding=[0,0]"),
};

// ---- gradient of x ---------------------------------------------------------------------

enum { GX_SHAPE, GX_STRIDE, GX_PADDING, GX_DILATION, GX_PLACE_DY, GX_PLACE_X };

static shoal_status_t grad_x_places(const shoal_call_t *call, shoal_window_t *out_window,
                                    shoal_shape_t *out_shape, shoal_place_t *out_x,
                                    shoal_place_t *out_dy) {
  const shoal_shape_t *w = &call->inputs[0].shape, *dy = &call->inputs[1].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 0, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, GX_SHAPE, out_shape));
  REQUIRE(call, w->dims[0] == dy->dims[1], "w has %lld outputs and dy %lld channels",
          (long long)w->dims[0], (long long)dy->dims[1]);
  REQUIRE(
      call,
      out_shape->rank == 4 && out_shape->dims[0] == dy->dims[0] && out_shape->dims[1] == w->dims[1],
      "shape must be [N, C, H, W] with dy's N and w's C");
  SHOAL_RETURN_IF_ERROR(shoal_window_read(call, w->dims[2], w->dims[3], GX_STRIDE, GX_PADDING,
                                          GX_DILATION, out_window));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, GX_PLACE_DY, dy, out_dy));
  return shoal_check_place(call, GX_PLACE_X, out_shape, out_x);
}

static shoal_status_t conv2d_grad_x_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, dy;
  out_types[0].dtype = call->inputs[0].dtype;
  return grad_x_places(call, &window, &out_types[0].shape, &x, &dy);
}

static int64_t conv2d_grad_x_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, &call->inputs[0].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv2d_grad_x) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv2d_grad_x_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, dy;
  SHOAL_RETURN_IF_ERROR(grad_x_places(call, &window, &shape, &x, &dy));
  const shoal_taps_t taps = shoal_taps_at(&shape, window.kernel, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_outputs(call, &window, &x, &dy, &taps));
  RUN(conv2d_grad_x, inputs->dtype, &taps, &inputs[0], &inputs[1], &outputs[0]);
  return NULL;
}

static void conv2d_grad_x_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->inputs[0].shape;
  out_cost->flops = pair_flops(&call->inputs[1].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv2d_grad_x = {
    .name = "shoal.conv2d_grad_x",
    .doc = "Gradient of conv2d with respect to x.",
    SHOAL_OP_INPUTS("w", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"), SHOAL_WINDOW_STRIDE,
                   SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(1)),
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_OUTPUT(0))),
    .infer = conv2d_grad_x_infer,
    .cost = conv2d_grad_x_cost,
    .workspace = conv2d_grad_x_workspace,
    .kernel = conv2d_grad_x_kernel,
    SHOAL_OP_CASES(
        "f64[4,3,3,3], f64[2,4,7,5] ; shape=[2,3,7,5], stride=[1,1], padding=[1,1]",
        "f32[3,2,3,2], f32[1,3,5,6] ; shape=[1,2,9,7], stride=[2,1], padding=[1,0]",
        "f64[2,1,3,3], f64[1,2,5,5] ; shape=[1,1,9,9], stride=[2,2], padding=[2,2], dilation=[2,2]",
        "bf16[2,2,2,2], bf16[1,2,4,4] ; shape=[1,2,5,5], stride=[1,1], padding=[0,0]"),
};

// ---- gradient of w ---------------------------------------------------------------------

enum { GW_KERNEL, GW_STRIDE, GW_PADDING, GW_DILATION, GW_PLACE_X, GW_PLACE_DY };

static shoal_status_t grad_w_places(const shoal_call_t *call, shoal_window_t *out_window,
                                    shoal_shape_t *out_shape, shoal_place_t *out_x,
                                    shoal_place_t *out_dy) {
  const shoal_shape_t *x = &call->inputs[0].shape, *dy = &call->inputs[1].shape;
  shoal_shape_t kernel;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 0, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, 4));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, GW_KERNEL, &kernel));
  REQUIRE(call, kernel.rank == 2, "kernel needs two numbers (rows, columns)");
  REQUIRE(call, x->dims[0] == dy->dims[0], "x and dy differ in N");
  SHOAL_RETURN_IF_ERROR(shoal_window_read(call, kernel.dims[0], kernel.dims[1], GW_STRIDE,
                                          GW_PADDING, GW_DILATION, out_window));
  *out_shape =
      (shoal_shape_t){.rank = 4, .dims = {dy->dims[1], x->dims[1], kernel.dims[0], kernel.dims[1]}};
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, GW_PLACE_X, x, out_x));
  return shoal_check_place(call, GW_PLACE_DY, dy, out_dy);
}

static shoal_status_t conv2d_grad_w_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, dy;
  out_types[0].dtype = call->inputs[0].dtype;
  return grad_w_places(call, &window, &out_types[0].shape, &x, &dy);
}

static int64_t conv2d_grad_w_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->inputs[1].shape, &call->outputs[0].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv2d_grad_w) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv2d_grad_w_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, dy;
  SHOAL_RETURN_IF_ERROR(grad_w_places(call, &window, &shape, &x, &dy));
  const shoal_taps_t taps = shoal_taps_at(&inputs[1].shape, window.kernel, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_inputs(call, &window, &x, &dy, &taps));
  RUN(conv2d_grad_w, inputs->dtype, &taps, &inputs[0], &inputs[1], &outputs[0]);
  return NULL;
}

static void conv2d_grad_w_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->outputs[0].shape;
  out_cost->flops = pair_flops(&call->inputs[1].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv2d_grad_w = {
    .name = "shoal.conv2d_grad_w",
    .doc = "Gradient of conv2d with respect to w.",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dw"),
    SHOAL_OP_ATTRS(SHOAL_WINDOW_ATTR("kernel", "size of w's window: rows, columns"),
                   SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(1))),
    .infer = conv2d_grad_w_infer,
    .cost = conv2d_grad_w_cost,
    .workspace = conv2d_grad_w_workspace,
    .kernel = conv2d_grad_w_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,7,5], f64[2,4,7,5] ; kernel=[3,3], stride=[1,1], padding=[1,1]",
        "f32[1,2,9,7], f32[1,3,5,6] ; kernel=[3,2], stride=[2,1], padding=[1,0]",
        "f64[1,1,9,9], f64[1,2,5,5] ; kernel=[3,3], stride=[2,2], padding=[2,2], dilation=[2,2]",
        "bf16[1,2,5,5], bf16[1,2,4,4] ; kernel=[2,2], stride=[1,1], padding=[0,0]"),
};

#else  // per element type

// Row y of channel c of image n.
static inline R *K(line)(const shoal_tensor_t *tensor, int64_t n, int64_t c, int64_t y) {
  const int64_t *dims = tensor->shape.dims;
  return (R *)tensor->data + ((n * dims[1] + c) * dims[2] + y) * dims[3];
}

// to[i] += f from[taps[i * kernel]], where there is one.
static inline void K(gather)(R f, const R *restrict from, const int64_t *taps, int64_t kernel,
                             int64_t n, R *restrict to) {
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = taps[i * kernel];
    if (at >= 0) to[i] += f * from[at];
  }
}

// Forward and the gradient of x are one loop: `to` [N,A,..] sums `from` [N,B,..] through taps, with
// weights w[A,B,KH,KW] or, swapped, w[B,A,KH,KW].
static void K(correlate)(const shoal_taps_t *taps, const shoal_tensor_t *w, bool swapped,
                         const shoal_tensor_t *from, const shoal_tensor_t *to) {
  const int64_t *dims = to->shape.dims, kh = taps->kernel[0], kw = taps->kernel[1];
  for (int64_t line = 0; line < dims[0] * dims[1] * dims[2]; ++line) {
    const int64_t y = line % dims[2], a = line / dims[2] % dims[1], n = line / dims[2] / dims[1];
    R *out = K(line)(to, n, a, y);
    for (int64_t x = 0; x < dims[3]; ++x) out[x] = 0;
    for (int64_t b = 0; b < from->shape.dims[1]; ++b) {
      for (int64_t i = 0; i < kh; ++i) {
        const int64_t row = taps->table[0][y * kh + i];
        if (row < 0) continue;
        const R *weights = swapped ? K(line)(w, b, a, i) : K(line)(w, a, b, i);
        for (int64_t j = 0; j < kw; ++j) {
          K(gather)(weights[j], K(line)(from, n, b, row), taps->table[1] + j, kw, dims[3], out);
        }
      }
    }
  }
}

static void K(conv2d)(const shoal_taps_t *taps, const shoal_tensor_t *x, const shoal_tensor_t *w,
                      const shoal_tensor_t *out) {
  K(correlate)(taps, w, false, x, out);
}

static void K(conv2d_grad_x)(const shoal_taps_t *taps, const shoal_tensor_t *w,
                             const shoal_tensor_t *dy, const shoal_tensor_t *dx) {
  K(correlate)(taps, w, true, dy, dx);
}

static void K(conv2d_grad_w)(const shoal_taps_t *taps, const shoal_tensor_t *x,
                             const shoal_tensor_t *dy, const shoal_tensor_t *dw) {
  const int64_t *w = dw->shape.dims, *dims = dy->shape.dims, kh = w[2], kw = w[3];
  R *out = dw->data;
  for (int64_t oc = 0; oc < w[0] * w[1]; ++oc) {
    for (int64_t tap = 0; tap < kh * kw; ++tap) {
      R sum = 0;
      for (int64_t line = 0; line < dims[0] * dims[2]; ++line) {
        const int64_t n = line / dims[2], y = line % dims[2];
        const int64_t row = taps->table[0][y * kh + tap / kw];
        if (row < 0) continue;
        const R *from = K(line)(x, n, oc % w[1], row), *slope = K(line)(dy, n, oc / w[1], y);
        for (int64_t i = 0; i < dims[3]; ++i) {
          const int64_t at = taps->table[1][i * kw + tap % kw];
          if (at >= 0) sum += slope[i] * from[at];
        }
      }
      *out++ = sum;
    }
  }
}

#endif
