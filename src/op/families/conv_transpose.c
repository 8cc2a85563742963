// Transposed convolution of x [N,C,S..] with w [C,O/G,K..] over one to three dims: the adjoint of
// the convolution of [N,O,..] with w. Each element of x adds w, scaled by it, to the window that
// lies `stride` further for each step:
//   out[n,o,s..] = sum over c, taps, and the steps i with i stride - padding + tap dilation = s of
//                  x[n,c,i..] w[c,o,tap..]
// Its size is (S - 1) stride - 2 padding + dilation (K - 1) + 1 + output_padding along each dim.
// The gradients are a convolution and that of one by its weights (conv.c).
#include "op/families/conv.h"
#include "op/families/emit.h"
#include "op/families/kernel.h"

enum { STRIDE, PADDING, DILATION, OUTPUT_PADDING, GROUPS, SHAPE, PLACE_X, PLACE_OUT };

static shoal_status_t transpose_window(const shoal_call_t *call, shoal_window_t *out_window) {
  const shoal_shape_t *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
  SHOAL_RETURN_IF_ERROR(shoal_check_floats(call, 0, 2));
  SHOAL_RETURN_IF_ERROR(shoal_window_rank(call));
  SHOAL_RETURN_IF_ERROR(shoal_check_rank(call, 1, x->rank));
  REQUIRE_HINT(call, x->dims[1] == w->dims[0],
               "w has [channels, outputs / groups, kernel...], the other way round than for conv",
               "x has %lld channels and w %lld", (long long)x->dims[1], (long long)w->dims[0]);
  return shoal_window_read(call, w->rank - 2, &w->dims[2], STRIDE, PADDING, DILATION, out_window);
}

// Elements of the result along direction i without output_padding.
static int64_t least_size(const shoal_window_t *window, int32_t i, int64_t size) {
  return (size - 1) * window->stride[i] - 2 * window->padding[i] +
         window->dilation[i] * (window->kernel[i] - 1) + 1;
}

static void conv_transpose_complete(const shoal_call_t *call, shoal_attr_value_t *attrs) {
  const shoal_shape_t *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
  shoal_window_t window;
  shoal_status_t status = transpose_window(call, &window);
  shoal_attr_value_t *shape = &attrs[SHAPE], *groups = &attrs[GROUPS];
  const shoal_attr_value_t *more = &attrs[OUTPUT_PADDING];
  if (!status && shape->count == 0 && (more->count == 0 || more->count == window.dims)) {
    shape->count = x->rank;
    shape->ints[0] = x->dims[0];
    // Groups that are wrong are left for infer to refuse.
    shape->ints[1] = w->dims[1] * (groups->i > 0 && groups->i <= x->dims[1] ? groups->i : 1);
    for (int32_t k = 0; k < window.dims; ++k) {
      const int32_t i = SHOAL_DIRECTIONS - window.dims + k;
      const int64_t size = least_size(&window, i, x->dims[2 + k]);
      // A sum that leaves 64 bits is as wrong as the largest number: infer refuses both.
      if (size < 0)
        shape->ints[2 + k] = 0;
      else if (__builtin_add_overflow(size, more->count ? more->ints[k] : 0, &shape->ints[2 + k]))
        shape->ints[2 + k] = INT64_MAX;
    }
  }
  // From here on the shape says it, for calls of any size.
  if (!status && shape->count > 1 && groups->i > 0 && groups->i <= x->dims[1] &&
      shape->ints[1] == w->dims[1] * groups->i) {
    groups->i = 0;
  }
  shoal_status_free(status);  // infer says it again
}

static shoal_status_t transpose_places(const shoal_call_t *call, shoal_window_t *out_window,
                                       shoal_shape_t *out_shape, shoal_place_t *out_x,
                                       shoal_place_t *out_out) {
  const shoal_shape_t *x = &call->inputs[0].shape, *w = &call->inputs[1].shape;
  int64_t groups;
  SHOAL_RETURN_IF_ERROR(transpose_window(call, out_window));
  SHOAL_RETURN_IF_ERROR(shoal_check_sizes(call, SHAPE, out_shape));
  const int32_t more = call->attrs[OUTPUT_PADDING].count;
  REQUIRE(call, more == 0 || more == out_window->dims,
          "output_padding needs %d numbers, one for each dim behind [N, C], not %d",
          out_window->dims, more);
  REQUIRE(call, out_shape->rank == x->rank && out_shape->dims[0] == x->dims[0],
          "shape must be [%lld, outputs] and %d dims more", (long long)x->dims[0],
          out_window->dims);
  SHOAL_RETURN_IF_ERROR(
      shoal_conv_groups(call, "shape", out_shape->dims[1], w->dims[1], x->dims[1], &groups));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE_X, x, out_x));
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, PLACE_OUT, out_shape, out_out));
  REQUIRE(call, call->attrs[PLACE_OUT].place || call->attrs[GROUPS].i == 0,
          "shape and w make %lld groups, not %lld", (long long)groups,
          (long long)call->attrs[GROUPS].i);
  for (int32_t i = SHOAL_DIRECTIONS - out_window->dims; i < SHOAL_DIRECTIONS; ++i) {
    REQUIRE(call, shoal_window_size(&out_x->whole, i) > 0, "x has no elements along dim %d",
            shoal_window_dim(x, i));
    const int64_t least = least_size(out_window, i, shoal_window_size(&out_x->whole, i));
    const int64_t size = shoal_window_size(&out_out->whole, i);
    const int64_t most = out_window->stride[i] > out_window->dilation[i] ? out_window->stride[i]
                                                                         : out_window->dilation[i];
    REQUIRE_HINT(call, size > 0, "less padding, or a larger kernel or output_padding",
                 "padding %lld leaves nothing of dim %d of the result",
                 (long long)out_window->padding[i], shoal_window_dim(x, i));
    REQUIRE_HINT(call, size >= least && size - least < most,
                 "output_padding says how many elements more than the fewest",
                 "dim %d of the result has from %lld to %lld elements, not %lld",
                 shoal_window_dim(x, i), (long long)least, (long long)(least + most - 1),
                 (long long)size);
  }
  return NULL;
}

static shoal_status_t conv_transpose_infer(const shoal_call_t *call, shoal_type_t *out_types) {
  shoal_window_t window;
  shoal_place_t x, out;
  out_types[0].dtype = call->inputs[0].dtype;
  return transpose_places(call, &window, &out_types[0].shape, &x, &out);
}

static int64_t conv_transpose_workspace(const shoal_call_t *call) {
  return shoal_taps_bytes(&call->outputs[0].shape, &call->inputs[1].shape.dims[2]) +
         shoal_kernel_widen_bytes(call);
}

OP_KERNEL(conv_transpose) {
  if (shoal_kernel_is_half(call)) {
    return shoal_kernel_widened(call, inputs, outputs, workspace, conv_transpose_kernel);
  }
  shoal_window_t window;
  shoal_shape_t shape;
  shoal_place_t x, out;
  SHOAL_RETURN_IF_ERROR(transpose_places(call, &window, &shape, &x, &out));
  return shoal_conv_spread(call, &window, &out, &x, &inputs[1], &inputs[0], outputs, workspace);
}

OP_GRADIENT(conv_transpose) {
  const shoal_attr_value_t *a = call->attrs;
  const shoal_shape_t *w = &call->inputs[1].shape;
  const shoal_attr_t stride = shoal_attr_ints("stride", a[STRIDE].count, a[STRIDE].ints);
  const shoal_attr_t padding = shoal_attr_ints("padding", a[PADDING].count, a[PADDING].ints);
  const shoal_attr_t dilation = shoal_attr_ints("dilation", a[DILATION].count, a[DILATION].ints);
  (void)out;
  in_grads[0] = shoal_emit_one(
      e, "shoal.conv", REFS(grads[0], in[1]),
      ATTRS(stride, padding, dilation, shoal_attr_shape("shape", &call->inputs[0].shape)));
  in_grads[1] = shoal_emit_one(e, "shoal.conv_grad_w", REFS(grads[0], in[0]),
                               ATTRS(shoal_attr_ints("kernel", w->rank - 2, &w->dims[2]), stride,
                                     padding, dilation, shoal_attr_int("channels", w->dims[1])));
}

static void conv_transpose_cost(const shoal_call_t *call, shoal_cost_t *out_cost) {
  const shoal_shape_t *w = &call->inputs[1].shape;
  out_cost->flops = 2.0 * (double)shoal_shape_count(&call->inputs[0].shape) *
                    (double)shoal_shape_product(w, 1, w->rank);
}

const shoal_op_t shoal_op_conv_transpose = {
    .name = "shoal.conv_transpose",
    .doc =
        "Transposed convolution of x [N, C, ...] with w [C, O / groups, ...] over one to three "
        "dims: the adjoint of conv with this w. A dim of S elements and K taps becomes (S - 1) "
        "stride - 2 padding + dilation (K - 1) + 1 + output_padding. Half-size floats are summed "
        "in f32.",
    .window = "stride",
    .uncut = "the window's dims of w: each output needs all taps; they are few",
    SHOAL_OP_INPUTS("x", "w"),
    SHOAL_OP_OUTPUTS("out"),
    SHOAL_OP_ATTRS(
        SHOAL_WINDOW_ATTR("stride", "step in the result for each element of x, at least 1"),
        SHOAL_WINDOW_ATTR("padding", "elements left out at both ends of each dim of the result"),
        SHOAL_WINDOW_DILATION,
        {.name = "output_padding",
         .kind = SHOAL_ATTR_INTS,
         .optional = true,
         .doc = "elements more at the end of each dim behind [N, O], fewer than stride or "
                "dilation; left out: 0"},
        {.name = "groups",
         .kind = SHOAL_ATTR_INT,
         .role = SHOAL_ROLE_COUNT,
         .optional = true,
         .doc = "groups of channels; 0 or left out: 1, or as many as a given shape makes"},
        {.name = "shape",
         .kind = SHOAL_ATTR_INTS,
         .role = SHOAL_ROLE_SIZE,
         .operand = SHOAL_OUTPUT(0),
         .optional = true,
         .doc = "shape of the result, in the place of output_padding"},
        SHOAL_ATTR_PLACE_OF("place_x", SHOAL_INPUT(0)),
        SHOAL_ATTR_PLACE_OF("place_out", SHOAL_OUTPUT(0))),
    .complete = conv_transpose_complete,
    .infer = conv_transpose_infer,
    .gradient = conv_transpose_gradient,
    .cost = conv_transpose_cost,
    .workspace = conv_transpose_workspace,
    .kernel = conv_transpose_kernel,
    SHOAL_OP_CASES(
        "f64[2,3,4,3], f64[3,2,3,3] ; stride=[2,2], padding=[1,1], output_padding=[1,0]",
        "f32[1,2,5], f32[2,3,4] ; stride=[2], padding=[1]",
        "f64[1,4,4], f64[4,1,3] ; stride=[1], padding=[0], groups=2",
        "f64[1,2,2,3,3], f64[2,1,2,1,2] ; stride=[1,2,1], padding=[0,0,0], dilation=[1,1,2]",
        "bf16[1,2,4], bf16[2,2,2] ; stride=[2], padding=[0]"),
};
