// Convolution of x [N,C,S..] with w [O,C/G,K..] over one to three dims (cross-correlation, as in
// deep learning), and its two gradients. Channels fall into G groups, one behind the other; a group
// of outputs sees its group of inputs only. Windows lie in global coordinates (window.h), so that a
// part of a dim with its halo computes its share:
//   out[n,o,s..]  = sum over the group's c, taps of x[n,c,in(s,tap)..] w[o,c,tap..]
//   dx            = the same pairs, summed for each input          (needs the dy that see it)
//   dw            = the same pairs, summed for each tap            (a part of dy: a partial sum)
// How many groups there are follows from the shapes, so that a part of them is a call like others.
#ifndef KERNELS_HERE
#include "op/families/conv.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"
#include "op/families/window.h"

#define EACH EACH_REAL
#define KERNELS "op/families/conv.c"
#include "op/families/each.h"

#define RUN(name, dtype, ...) \
  ((dtype) == SHOAL_F64 ? name##_f64(__VA_ARGS__) : name##_f32(__VA_ARGS__))

// ---- forward ---------------------------------------------------------------------------

enum { STRIDE, PADDING, DILATION, GROUPS, SHAPE, PLACE_X, PLACE_OUT };

shoal_status_t shoal_conv_groups(const shoal_call_t *call, const char *what, int64_t channels,
                                 int64_t each, int64_t outputs, int64_t *out_groups) {
  *out_groups = each ? channels / each : 1;
  REQUIRE_HINT(call, *out_groups * each == channels,
               "with G groups w has 1/G of the channels along its dim 1",
               "%s has %lld channels and w %lld, no part of them", what, (long long)channels,
               (long long)each);
  REQUIRE_HINT(call, *out_groups ? outputs % *out_groups == 0 : outputs == 0,
               "choose a number of outputs that the groups divide",
               "%lld outputs cannot be shared by %lld groups of channels", (long long)outputs,
               (long long)*out_groups);
  return NULL;
}

static shoal_status_t conv_window(const shoal_call_t *call, shoal_window_t *out_window) {
  const shoal_type_t *x = &call->inputs[0], *w = &call->inputs[1];
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, x->shape.rank));
  int64_t groups;
  SHOAL_RETURN_IF_ERROR(
      shoal_conv_groups(call, "x", x->shape.dims[1], w->shape.dims[1], w->shape.dims[0], &groups));
  const int64_t given = call->attrs[PLACE_X].place ? 0 : call->attrs[GROUPS].i;
  REQUIRE_HINT(call, given == 0 || given == groups,
               "w has [outputs, channels / groups, kernel...]; groups may be left out",
               "w makes %lld groups of x's channels, not %lld", (long long)groups,
               (long long)given);
  return shoal_window_read(call, w->shape.rank - 2, &w->shape.dims[2], STRIDE, PADDING, DILATION,
                           out_window);
}

static shoal_status_t conv_places(const shoal_call_t *call, shoal_window_t *out_window,
                                  shoal_shape_t *out_shape, shoal_place_t *out_x,
                                  shoal_place_t *out_out) {
  SHOAL_RETURN_IF_ERROR(conv_window(call, out_window));
  const shoal_shape_t *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
  *out_shape = (shoal_shape_t){.dims = {x->dims[0], w->dims[0]}};
  return shoal_window_places(call, out_window, SHAPE, PLACE_X, PLACE_OUT, out_shape, out_x,
                             out_out);
}

static void conv_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  shoal_window_t window;
  shoal_status_t status = conv_window(call, &window);
  if (!status) {
    attrs[GROUPS].i = 0;  // what the shapes say, and so of any size
    shoal_window_complete(&window, &call->inputs[0].shape, call->inputs[1].shape.dims[0],
                          &attrs[SHAPE]);
  }
  shoal_status_free(status);  // infer says it again
}

static shoal_status_t conv_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, out;
  out_types[0].dtype = call->inputs[0].dtype;
  return conv_places(call, &window, &out_types[0].shape, &x, &out);
}

static int64_t conv_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, &call->inputs[1].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, out;
  SHOAL_RETURN_IF_ERROR(conv_places(call, &window, &shape, &x, &out));
  const shoal_taps_t taps = shoal_taps_at(&shape, &window, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_inputs(call, &window, &x, &out, &taps));
  RUN(correlate, inputs->dtype, &taps, &inputs[1], false, &inputs[0], &outputs[0]);
  return NULL;
}

OP_GRADIENT(conv) {
  const shoal_attr_value_t *a = call->attrs;
  const shoal_attr_t stride = shoal_attr_ints("stride", a[STRIDE].count, a[STRIDE].ints);
  const shoal_attr_t padding = shoal_attr_ints("padding", a[PADDING].count, a[PADDING].ints);
  const shoal_attr_t dilation = shoal_attr_ints("dilation", a[DILATION].count, a[DILATION].ints);
  const shoal_shape_t *w = &call->inputs[1].shape;
  (void)out;
  in_grads[0] = shoal_emit_one(
      e, "shoal.conv_grad_x", REFS(in[1], grads[0]),
      ATTRS(shoal_attr_shape("shape", &call->inputs[0].shape), stride, padding, dilation));
  in_grads[1] = shoal_emit_one(e, "shoal.conv_grad_w", REFS(in[0], grads[0]),
                               ATTRS(shoal_attr_ints("kernel", w->rank - 2, &w->dims[2]), stride,
                                     padding, dilation, shoal_attr_int("channels", w->dims[1])));
}

// Two flops for each element of `big` and each of the channels and taps it meets.
static double pair_flops(const shoal_shape_t *big, double partners) {
  return 2.0 * (double)shoal_shape_count(big) * partners;
}

static void conv_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->inputs[1].shape;
  out_cost->flops = pair_flops(&call->outputs[0].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv = {
    .name = "shoal.conv",
    .doc =
        "Convolution (cross-correlation) of x [N, C, ...] with w [O, C / groups, ...] over one to "
        "three dims, padded with zeros: out [N, O, ...]. A dim of S elements and K taps becomes "
        "floor((S + 2 padding - dilation (K - 1) - 1) / stride) + 1. How many groups there are "
        "follows from the shapes. Half-size floats are summed in f32.",
    .window = "stride",
    .uncut = "the window's dims of w: each output needs all taps; they are few",
    SHOAL_OP_INPUTS("x", "w"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_CONV_GROUPS, SHOAL_WINDOW_SHAPE,
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .complete = conv_complete,
    .infer = conv_infer,
    .gradient = conv_gradient,
    .cost = conv_cost,
    .workspace = conv_workspace,
    .kernel = conv_kernel,
    SHOAL_OP_CASES("f64[2,3,7,5], f64[4,3,3,3] ; stride=[1,1], padding=[1,1]",
                   "f32[1,2,9,7], f32[3,2,3,2] ; stride=[2,1], padding=[1,0]",
                   "f64[2,2,9], f64[3,2,4] ; stride=[2], padding=[1]",
                   "f64[1,4,6], f64[6,2,3] ; stride=[1], padding=[1]",
                   "f64[1,3,5,6], f64[3,1,3,3] ; stride=[1,1], padding=[1,1], groups=3",
                   "f64[1,2,4,5,6], f64[2,2,3,1,2] ; stride=[1,1,2], padding=[1,0,1]",
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
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, w->rank));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, GX_SHAPE, out_shape));
  REQUIRE(call, w->dims[0] == dy->dims[1], "w has %lld outputs and dy %lld channels",
          (long long)w->dims[0], (long long)dy->dims[1]);
  REQUIRE(call, out_shape->rank == w->rank && out_shape->dims[0] == dy->dims[0],
          "shape must be [%lld, channels] and %d dims more", (long long)dy->dims[0], w->rank - 2);
  int64_t groups;
  SHOAL_RETURN_IF_ERROR(
      shoal_conv_groups(call, "shape", out_shape->dims[1], w->dims[1], dy->dims[1], &groups));
  SHOAL_RETURN_IF_ERROR(shoal_window_read(call, w->rank - 2, &w->dims[2], GX_STRIDE, GX_PADDING,
                                          GX_DILATION, out_window));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, GX_PLACE_DY, dy, out_dy));
  return shoal_check_place(call, GX_PLACE_X, out_shape, out_x);
}

static shoal_status_t conv_grad_x_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, dy;
  out_types[0].dtype = call->inputs[0].dtype;
  return grad_x_places(call, &window, &out_types[0].shape, &x, &dy);
}

static int64_t conv_grad_x_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, &call->inputs[0].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

shoal_status_t shoal_conv_spread(const shoal_call_t *call, const shoal_window_t *window,
                                 const shoal_place_t *to_place, const shoal_place_t *from_place,
                                 const shoal_tensor_t *w, const shoal_tensor_t *from,
                                 const shoal_tensor_t *to, void *workspace) {
  const shoal_taps_t taps = shoal_taps_at(&to->shape, window, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_outputs(call, window, to_place, from_place, &taps));
  RUN(correlate, w->dtype, &taps, w, true, from, to);
  return NULL;
}

OP_KERNEL(conv_grad_x) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv_grad_x_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, dy;
  SHOAL_RETURN_IF_ERROR(grad_x_places(call, &window, &shape, &x, &dy));
  return shoal_conv_spread(call, &window, &x, &dy, &inputs[0], &inputs[1], outputs, workspace);
}

static void conv_grad_x_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->inputs[0].shape;
  out_cost->flops = pair_flops(&call->inputs[1].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv_grad_x = {
    .name = "shoal.conv_grad_x",
    .doc = "Gradient of conv with respect to x, from w [O, C / groups, ...] and dy [N, O, ...].",
    .window = "stride",
    .uncut = "the window's dims of w: each output needs all taps; they are few",
    SHOAL_OP_INPUTS("w", "dy"),
    SHOAL_OP_OUTPUTS("dx"),
    SHOAL_OP_ATTRS(SHOAL_ATTR_SIZES("shape", SHOAL_OUTPUT(0), "shape of x"), SHOAL_WINDOW_STRIDE,
                   SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(1)),
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_OUTPUT(0))),
    .infer = conv_grad_x_infer,
    .cost = conv_grad_x_cost,
    .workspace = conv_grad_x_workspace,
    .kernel = conv_grad_x_kernel,
    SHOAL_OP_CASES(
        "f64[4,3,3,3], f64[2,4,7,5] ; shape=[2,3,7,5], stride=[1,1], padding=[1,1]",
        "f32[3,2,3,2], f32[1,3,5,6] ; shape=[1,2,9,7], stride=[2,1], padding=[1,0]",
        "f64[2,1,3,3], f64[1,2,5,5] ; shape=[1,1,9,9], stride=[2,2], padding=[2,2], dilation=[2,2]",
        "f64[3,2,4], f64[2,3,4] ; shape=[2,2,9], stride=[2], padding=[1]",
        "f64[6,2,3], f64[1,6,6] ; shape=[1,4,6], stride=[1], padding=[1]",
        "bf16[2,2,2,2], bf16[1,2,4,4] ; shape=[1,2,5,5], stride=[1,1], padding=[0,0]"),
};

// ---- gradient of w ---------------------------------------------------------------------

enum { GW_KERNEL, GW_STRIDE, GW_PADDING, GW_DILATION, GW_CHANNELS, GW_PLACE_X, GW_PLACE_DY };

static shoal_status_t grad_w_places(const shoal_call_t *call, shoal_window_t *out_window,
                                    shoal_shape_t *out_shape, shoal_place_t *out_x,
                                    shoal_place_t *out_dy) {
  const shoal_shape_t *x = &call->inputs[0].shape, *dy = &call->inputs[1].shape;
  shoal_shape_t kernel;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, x->rank));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, GW_KERNEL, &kernel));
  REQUIRE(call, kernel.rank == x->rank - 2, "kernel needs %d numbers, not %d", x->rank - 2,
          kernel.rank);
  REQUIRE(call, x->dims[0] == dy->dims[0], "x has %lld examples and dy %lld", (long long)x->dims[0],
          (long long)dy->dims[0]);
  SHOAL_RETURN_IF_ERROR(shoal_window_read(call, kernel.rank, kernel.dims, GW_STRIDE, GW_PADDING,
                                          GW_DILATION, out_window));
  const int64_t given = call->attrs[GW_CHANNELS].i, channels = given < 0 ? x->dims[1] : given;
  int64_t groups;
  SHOAL_RETURN_IF_ERROR(shoal_conv_groups(call, "x", x->dims[1], channels, dy->dims[1], &groups));
  *out_shape = (shoal_shape_t){.rank = x->rank, .dims = {dy->dims[1], channels}};
  for (int32_t i = 0; i < kernel.rank; ++i) out_shape->dims[2 + i] = kernel.dims[i];
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, GW_PLACE_X, x, out_x));
  return shoal_check_place(call, GW_PLACE_DY, dy, out_dy);
}

static void conv_grad_w_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  if (attrs[GW_CHANNELS].i < 0 && call->inputs[0].shape.rank > 1) {
    attrs[GW_CHANNELS].i = call->inputs[0].shape.dims[1];
  }
}

static shoal_status_t conv_grad_w_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, dy;
  out_types[0].dtype = call->inputs[0].dtype;
  return grad_w_places(call, &window, &out_types[0].shape, &x, &dy);
}

static int64_t conv_grad_w_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->inputs[1].shape, &call->outputs[0].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv_grad_w) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv_grad_w_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, dy;
  SHOAL_RETURN_IF_ERROR(grad_w_places(call, &window, &shape, &x, &dy));
  const shoal_taps_t taps = shoal_taps_at(&inputs[1].shape, &window, workspace);
  SHOAL_RETURN_IF_ERROR(shoal_taps_inputs(call, &window, &x, &dy, &taps));
  RUN(conv_grad_w, inputs->dtype, &taps, &inputs[0], &inputs[1], &outputs[0]);
  return NULL;
}

static void conv_grad_w_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->outputs[0].shape;
  out_cost->flops = pair_flops(&call->inputs[1].shape, (double)shoal_shape_product(w, 1, w->rank));
}

const shoal_op_t shoal_op_conv_grad_w = {
    .name = "shoal.conv_grad_w",
    .doc = "Gradient of conv with respect to w, from x [N, C, ...] and dy [N, O, ...].",
    .window = "stride",
    .uncut = "the window's dims of dw: they are few",
    SHOAL_OP_INPUTS("x", "dy"),
    SHOAL_OP_OUTPUTS("dw"),
    SHOAL_OP_ATTRS(SHOAL_WINDOW_ATTR("kernel", "size of w's window along each dim"),
                   SHOAL_WINDOW_STRIDE, SHOAL_WINDOW_PADDING, SHOAL_WINDOW_DILATION,
                   {.name = "channels",
                    .kind = SHOAL_ATTR_INT,
                    .role = SHOAL_ROLE_SIZE,
                    .operand = SHOAL_OUTPUT(0),
                    .dim = 1,
                    .optional = true,
                    .fallback = {.i = -1},
                    .doc = "of w: those of a group; -1: all of x's"},
                   SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
                   SHOAL_ATTR_PLACE_OF("place_dy", SHOAL_INPUT(1))),
    .complete = conv_grad_w_complete,
    .infer = conv_grad_w_infer,
    .cost = conv_grad_w_cost,
    .workspace = conv_grad_w_workspace,
    .kernel = conv_grad_w_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,7,5], f64[2,4,7,5] ; kernel=[3,3], stride=[1,1], padding=[1,1]",
        "f32[1,2,9,7], f32[1,3,5,6] ; kernel=[3,2], stride=[2,1], padding=[1,0]",
        "f64[1,1,9,9], f64[1,2,5,5] ; kernel=[3,3], stride=[2,2], padding=[2,2], dilation=[2,2]",
        "f64[2,2,9], f64[2,3,4] ; kernel=[4], stride=[2], padding=[1]",
        "f64[1,4,6], f64[1,6,6] ; kernel=[3], stride=[1], padding=[1], channels=2",
        "bf16[1,2,5,5], bf16[1,2,4,4] ; kernel=[2,2], stride=[1,1], padding=[0,0]"),
};

#else  // per element type

// A tensor [N,C,..] line by line.
typedef struct K(lines) {
  R *data;
  int64_t channels, planes, rows, columns;
} K(lines_t);

static inline K(lines_t) K(lines_of)(const shoal_tensor_t *tensor) {
  const shoal_shape_t *shape = &tensor->shape;
  return (K(lines_t)){tensor->data, shape->dims[1], shoal_window_size(shape, 0),
                      shoal_window_size(shape, 1), shoal_window_size(shape, 2)};
}

// Row y of plane z of channel c of image n.
static inline R *K(line)(const K(lines_t) * of, int64_t n, int64_t c, int64_t z, int64_t y) {
  return of->data + (((n * of->channels + c) * of->planes + z) * of->rows + y) * of->columns;
}

// to[i] += f from[what tap t of i sees], for each of `n` that sees something.
static inline void K(gather)(R f, const R *restrict from, const shoal_taps_t *taps, int64_t t,
                             int64_t n, R *restrict to) {
  const shoal_run_t run = taps->runs[t];
  if (!run.regular) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = taps->table[2][i * taps->kernel[2] + t];
      if (at >= 0) to[i] += f * from[at];
    }
  } else if (run.gap == 1 && run.step == 1) {
    to += run.first, from += run.from;
    for (int64_t i = 0; i < run.count; ++i) to[i] += f * from[i];
  } else {
    to += run.first, from += run.from;
    for (int64_t i = 0; i < run.count; ++i) to[i * run.gap] += f * from[i * run.step];
  }
}

// Do taps t, t + 1 and t + 2 step from element to element? Then they are taken together where all
// three see something: sets the elements [*lo, *hi) that do. Sums stay in the same order.
static inline bool K(three)(const shoal_taps_t *taps, int64_t t, int64_t *lo, int64_t *hi) {
  *lo = 0;
  *hi = INT64_MAX;
  if (t + 3 > taps->kernel[2]) return false;
  for (const shoal_run_t *run = taps->runs + t; run < taps->runs + t + 3; ++run) {
    if (!run->regular || run->gap != 1 || run->step != 1) return false;
    if (run->first > *lo) *lo = run->first;
    if (run->first + run->count < *hi) *hi = run->first + run->count;
  }
  return *lo < *hi;
}

// gather for three taps at once.
static inline void K(gather3)(const R *f, const R *restrict from, const shoal_run_t *runs,
                              int64_t lo, int64_t hi, R *restrict to) {
  const R *seen[3];
  for (int64_t t = 0; t < 3; ++t) {
    seen[t] = from + runs[t].from - runs[t].first;
    for (int64_t i = runs[t].first; i < lo; ++i) to[i] += f[t] * seen[t][i];
    for (int64_t i = hi; i < runs[t].first + runs[t].count; ++i) to[i] += f[t] * seen[t][i];
  }
  const R *restrict a = seen[0], *restrict b = seen[1], *restrict c = seen[2];
  const R fa = f[0], fb = f[1], fc = f[2];
  for (int64_t i = lo; i < hi; ++i) to[i] = to[i] + fa * a[i] + fb * b[i] + fc * c[i];
}

// The sum of slope[i] from[what tap t of i sees].
static inline R K(dot)(const R *restrict slope, const R *restrict from, const shoal_taps_t *taps,
                       int64_t t, int64_t n) {
  const shoal_run_t run = taps->runs[t];
  R sum = 0;
  if (!run.regular) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = taps->table[2][i * taps->kernel[2] + t];
      if (at >= 0) sum += slope[i] * from[at];
    }
    return sum;
  }
  slope += run.first, from += run.from;
  for (int64_t i = 0; i < run.count; ++i) sum += slope[i * run.gap] * from[i * run.step];
  return sum;
}

// sum, and slope[i] seen[i] for i in [begin, end).
static inline R K(add_dot)(R sum, const R *slope, const R *seen, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) sum += slope[i] * seen[i];
  return sum;
}

// dot for three taps at once, added to to[0], to[1], to[2].
static inline void K(dot3)(const R *restrict slope, const R *restrict from, const shoal_run_t *runs,
                           int64_t lo, int64_t hi, R *restrict to) {
  const R *a = from + runs[0].from - runs[0].first, *b = from + runs[1].from - runs[1].first,
          *c = from + runs[2].from - runs[2].first;
  R sum_a = K(add_dot)(0, slope, a, runs[0].first, lo);
  R sum_b = K(add_dot)(0, slope, b, runs[1].first, lo);
  R sum_c = K(add_dot)(0, slope, c, runs[2].first, lo);
  for (int64_t i = lo; i < hi; ++i) {
    sum_a += slope[i] * a[i];
    sum_b += slope[i] * b[i];
    sum_c += slope[i] * c[i];
  }
  to[0] += K(add_dot)(sum_a, slope, a, hi, runs[0].first + runs[0].count);
  to[1] += K(add_dot)(sum_b, slope, b, hi, runs[1].first + runs[1].count);
  to[2] += K(add_dot)(sum_c, slope, c, hi, runs[2].first + runs[2].count);
}

// Forward and the gradient of x are one loop: `to` [N,A,..] sums `from` [N,B,..] through taps, with
// weights w[A,B/G,K..] or, swapped, w[B,A/G,K..].
static void K(correlate)(const shoal_taps_t *taps, const shoal_tensor_t *weight, bool swapped,
                         const shoal_tensor_t *input, const shoal_tensor_t *output) {
  const K(lines_t) to = K(lines_of)(output), from = K(lines_of)(input), w = K(lines_of)(weight);
  // Channels of a group on both sides, one of which is w's second dim.
  const int64_t each = w.channels;
  const int64_t groups = each ? (swapped ? to.channels : from.channels) / each : 1;
  const int64_t group_to = groups ? to.channels / groups : 0,
                group_from = groups ? from.channels / groups : 0;
  int64_t lo, hi;
  const int64_t together = K(three)(taps, 0, &lo, &hi) ? 3 : 0;
  for (int64_t line = 0; line < output->shape.dims[0] * to.channels * to.planes * to.rows; ++line) {
    const int64_t y = line % to.rows, z = line / to.rows % to.planes;
    const int64_t a = line / to.rows / to.planes % to.channels;
    const int64_t n = line / to.rows / to.planes / to.channels;
    R *out = K(line)(&to, n, a, z, y);
    for (int64_t x = 0; x < to.columns; ++x) out[x] = 0;
    const int64_t first = a / group_to * group_from, own = swapped ? a % each : 0;
    for (int64_t b = first; b < first + group_from; ++b) {
      for (int64_t d = 0; d < w.planes; ++d) {
        const int64_t plane = taps->table[0][z * w.planes + d];
        for (int64_t h = 0; plane >= 0 && h < w.rows; ++h) {
          const int64_t row = taps->table[1][y * w.rows + h];
          if (row < 0) continue;
          const R *f = swapped ? K(line)(&w, b, own, d, h) : K(line)(&w, a, b - first, d, h);
          const R *in = K(line)(&from, n, b, plane, row);
          if (together) K(gather3)(f, in, taps->runs, lo, hi, out);
          for (int64_t j = together; j < w.columns; ++j) {
            K(gather)(f[j], in, taps, j, to.columns, out);
          }
        }
      }
    }
  }
}

static void K(conv_grad_w)(const shoal_taps_t *taps, const shoal_tensor_t *input,
                           const shoal_tensor_t *slopes, const shoal_tensor_t *output) {
  const K(lines_t) x = K(lines_of)(input), dy = K(lines_of)(slopes), dw = K(lines_of)(output);
  const int64_t taps_each = dw.planes * dw.rows, outputs = output->shape.dims[0];
  // Outputs of a group: w has that many for each dw.channels of x.
  const int64_t groups = dw.channels ? x.channels / dw.channels : 1;
  const int64_t each = groups ? outputs / groups : 0;
  const int64_t lines = slopes->shape.dims[0] * dy.planes * dy.rows;
  int64_t lo, hi;
  const int64_t together = K(three)(taps, 0, &lo, &hi) ? 3 : 0;
  for (int64_t i = 0; i < shoal_shape_count(&output->shape); ++i) dw.data[i] = 0;
  for (int64_t i = 0; i < lines * taps_each; ++i) {
    const int64_t tap = i % taps_each, line = i / taps_each;
    const int64_t y = line % dy.rows, z = line / dy.rows % dy.planes,
                  n = line / dy.rows / dy.planes;
    const int64_t plane = taps->table[0][z * dw.planes + tap / dw.rows];
    const int64_t row = taps->table[1][y * dw.rows + tap % dw.rows];
    if (plane < 0 || row < 0) continue;
    R *to = dw.data + tap * dw.columns;
    for (int64_t o = 0; o < outputs; ++o) {
      const R *slope = K(line)(&dy, n, o, z, y);
      const int64_t first = o / each * dw.channels;
      for (int64_t c = first; c < first + dw.channels; ++c, to += taps_each * dw.columns) {
        const R *from = K(line)(&x, n, c, plane, row);
        if (together) K(dot3)(slope, from, taps->runs, lo, hi, to);
        for (int64_t t = together; t < dw.columns; ++t) {
          to[t] += K(dot)(slope, from, taps, t, dy.columns);
        }
      }
    }
  }
}

#endif
