// Convolution layer: x [N, C, H, W] -> [N, channels, H', W'].
#include <math.h>

#include "nn/build.h"

shoal_value_t shoal_nn_conv2d_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                 int64_t channels, int64_t kernel, int64_t stride, int64_t padding,
                                 const char *file, int line) {
  shoal_nn_enter(graph, name, file, line);
  shoal_type_t type = shoal_value_type(x);
  if (shoal_value_ok(x) && type.shape.rank != 4) {
    shoal_nn_refuse(graph, "conv2d: x must be [N, C, H, W]");
  }
  int64_t fan_in = type.shape.dims[1] * kernel * kernel;
  double bound = 1 / sqrt((double)(fan_in > 0 ? fan_in : 1));
  shoal_init_t uniform = {SHOAL_INIT_UNIFORM, -bound, bound}, zeros = {0};
  shoal_value_t weight =
      shoal_nn_parameter(graph, "weight", type.dtype,
                         SHOAL_SHAPE(channels, type.shape.dims[1], kernel, kernel), uniform);
  shoal_value_t bias = shoal_nn_parameter(graph, "bias", type.dtype, SHOAL_SHAPE(channels), zeros);
  shoal_value_t y =
      shoal_conv(graph, x, weight, SHOAL_SHAPE(stride, stride), SHOAL_SHAPE(padding, padding));
  // one number per channel, for all H, W
  y = shoal_add(graph, y, shoal_reshape(graph, bias, SHOAL_SHAPE(channels, 1, 1)));
  shoal_nn_leave(graph);
  return y;
}
