// Convolution layers over one to three dims: x [N, C, ...] -> [N, channels, ...].
#include <math.h>

#include "base/dtype.h"
#include "nn/build.h"

// The same number along each of `dims` dims.
static shoal_shape_t along(int32_t dims, int64_t number) {
  shoal_shape_t shape = {.rank = dims};
  for (int32_t d = 0; d < dims; ++d) shape.dims[d] = number;
  return shape;
}

static shoal_shape_t weight_shape(int64_t first, int64_t second, int32_t dims, int64_t kernel) {
  shoal_shape_t shape = {.rank = 2 + dims, .dims = {first, second}};
  for (int32_t d = 0; d < dims; ++d) shape.dims[2 + d] = kernel;
  return shape;
}

// Refuses an x that does not fit. `dims` 0: any number of them.
static bool fits(shoal_graph_t *graph, const shoal_shape_t *x, int32_t dims, int64_t channels,
                 int64_t groups) {
  static const char *const shapes[] = {
      "conv: x must have one to three dims behind [N, C]", "conv1d: x must be [N, C, L]",
      "conv2d: x must be [N, C, H, W]", "conv3d: x must be [N, C, D, H, W]"};
  if (x->rank < 3 || x->rank > 5 || (dims && x->rank - 2 != dims)) {
    char text[128];
    shoal_shape_format(x, text, sizeof text);
    shoal_nn_refuse_hint(graph, "one example needs N = 1, and one channel C = 1: reshape",
                         "%s, not %s", shapes[dims], text);
    return false;
  }
  if (groups < 1 || x->dims[1] % groups || channels % groups) {
    shoal_nn_refuse(graph,
                    "conv: groups must divide x's channels and those of the result: %lld, %lld and "
                    "%lld",
                    (long long)groups, (long long)x->dims[1], (long long)channels);
    return false;
  }
  return true;
}

// The node, without a bias.
static shoal_value_t add_conv(shoal_graph_t *graph, bool transposed, shoal_value_t x,
                              shoal_value_t weight, const shoal_nn_conv_options_t *o) {
  const int32_t dims = shoal_value_type(x).shape.rank - 2;
  const shoal_shape_t stride = along(dims, shoal_nn_size(o->stride, 1));
  const shoal_shape_t padding = along(dims, o->padding);
  const shoal_shape_t dilation = along(o->dilation > 1 ? dims : 0, o->dilation);
  const shoal_shape_t more = along(o->output_padding ? dims : 0, o->output_padding);
  const shoal_attr_t attrs[] = {
      shoal_attr_shape("stride", &stride), shoal_attr_shape("padding", &padding),
      shoal_attr_shape("dilation", &dilation),
      shoal_attr_int("groups", shoal_nn_size(o->groups, 1)),
      shoal_attr_shape("output_padding", &more)};  // the last is for a transposed one
  shoal_value_t y;
  shoal_node_add(graph, transposed ? "shoal.conv_transpose" : "shoal.conv", 2,
                 (shoal_value_t[]){x, weight}, transposed ? 5 : 4, attrs, 1, &y);
  return y;
}

static shoal_value_t convolve(shoal_graph_t *graph, const char *name, int32_t dims, bool transposed,
                              shoal_value_t x, int64_t channels, int64_t kernel,
                              const shoal_nn_conv_options_t *options, const char *file, int line) {
  shoal_nn_enter(graph, name, file, line);
  const shoal_nn_conv_options_t o = options ? *options : (shoal_nn_conv_options_t){0};
  const int64_t groups = shoal_nn_size(o.groups, 1);
  const shoal_type_t type = shoal_value_type(x);
  shoal_value_t y = {0};
  if (!shoal_value_ok(x) || !fits(graph, &type.shape, dims, channels, groups)) goto done;
  const int64_t in = type.shape.dims[1];
  const int64_t first = transposed ? in : channels, each = (transposed ? channels : in) / groups;
  const shoal_shape_t shape = weight_shape(first, each, type.shape.rank - 2, kernel);
  const double fan_in = (double)shoal_shape_count(&shape) / (double)(first > 0 ? first : 1);
  const double bound = 1 / sqrt(fan_in > 0 ? fan_in : 1);
  const shoal_init_t uniform = {SHOAL_INIT_UNIFORM, -bound, bound};
  const shoal_value_t weight = shoal_nn_parameter(graph, "weight", type.dtype, shape,
                                                  shoal_nn_init_or(o.weight_init, uniform));
  const shoal_value_t bias =
      o.no_bias ? (shoal_value_t){0}
                : shoal_nn_parameter(graph, "bias", type.dtype, SHOAL_SHAPE(channels), o.bias_init);
  y = add_conv(graph, transposed, x, weight, &o);
  if (!o.no_bias) {  // one number per channel, wherever it lies
    shoal_shape_t spread = along(type.shape.rank - 1, 1);
    spread.dims[0] = channels;
    y = shoal_add(graph, y, shoal_reshape(graph, bias, spread));
  }
done:
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_conv_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                               int64_t channels, int64_t kernel,
                               const shoal_nn_conv_options_t *options, const char *file, int line) {
  return convolve(graph, name, 0, false, x, channels, kernel, options, file, line);
}

shoal_value_t shoal_nn_conv_transpose_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                         int64_t channels, int64_t kernel,
                                         const shoal_nn_conv_options_t *options, const char *file,
                                         int line) {
  return convolve(graph, name, 0, true, x, channels, kernel, options, file, line);
}

#define CONV(dims)                                                                                 \
  shoal_value_t shoal_nn_conv##dims##d_at(shoal_graph_t *graph, const char *name, shoal_value_t x, \
                                          int64_t channels, int64_t kernel, int64_t stride,        \
                                          int64_t padding, const char *file, int line) {           \
    const shoal_nn_conv_options_t options = {.stride = stride, .padding = padding};                \
    return convolve(graph, name, dims, false, x, channels, kernel, &options, file, line);          \
  }
CONV(1)
CONV(2)
CONV(3)
