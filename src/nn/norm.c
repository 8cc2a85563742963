// Norms with states of their own: layer norm, RMS norm, batch norm with running statistics, group
// norm.
#include "nn/build.h"

static shoal_init_t filled(double value) {
  return (shoal_init_t){SHOAL_INIT_FILL, value, 0};
}

static int64_t dim_of(shoal_value_t x, int32_t dim) {
  const shoal_shape_t shape = shoal_value_type(x).shape;
  if (dim < 0) dim += shape.rank;
  return dim >= 0 && dim < shape.rank ? shape.dims[dim] : 0;
}

shoal_value_t shoal_nn_layer_norm_with_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                          const shoal_nn_layer_norm_options_t *options,
                                          const char *file, int line) {
  static const shoal_nn_layer_norm_options_t defaults = {0};
  if (!options) options = &defaults;
  const int64_t dims = options->dims ? options->dims : 1;
  const shoal_type_t type = shoal_value_type(x);
  shoal_layer_norm_options_t with = {.eps = options->eps, .dims = dims};
  shoal_nn_enter(graph, name, file, line);
  shoal_value_t y = shoal_none();
  if (shoal_value_ok(x) && (dims < 1 || dims > type.shape.rank)) {
    shoal_nn_refuse(graph, "layer norm: x has fewer dims than are normed over");
  } else if (shoal_value_ok(x)) {
    shoal_shape_t row = {.rank = (int32_t)dims};
    for (int32_t d = 0; d < row.rank; ++d) row.dims[d] = dim_of(x, d - row.rank);
    if (!options->no_gamma) {
      with.gamma = shoal_nn_parameter(graph, "gamma", type.dtype, row, filled(1));
    }
    if (!options->no_beta) {
      with.beta = shoal_nn_parameter(graph, "beta", type.dtype, row, filled(0));
    }
    shoal_layer_norm_with(graph, x, &with, &y, NULL, NULL);
  }
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_layer_norm_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                     const char *file, int line) {
  return shoal_nn_layer_norm_with_at(graph, name, x, NULL, file, line);
}

shoal_value_t shoal_nn_rms_norm_with_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                        const shoal_nn_rms_norm_options_t *options,
                                        const char *file, int line) {
  static const shoal_nn_rms_norm_options_t defaults = {0};
  if (!options) options = &defaults;
  shoal_rms_norm_options_t with = {.eps = options->eps};
  shoal_nn_enter(graph, name, file, line);
  if (!options->no_gamma) {
    with.gamma = shoal_nn_parameter(graph, "gamma", shoal_value_type(x).dtype,
                                    SHOAL_SHAPE(dim_of(x, -1)), filled(1));
  }
  shoal_value_t y;
  shoal_rms_norm_with(graph, x, &with, &y, NULL);
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_rms_norm_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                   const char *file, int line) {
  return shoal_nn_rms_norm_with_at(graph, name, x, NULL, file, line);
}

// [C] -> [C, 1, ..], which broadcasts to x [N, C, ..].
static shoal_value_t along_channels(shoal_graph_t *graph, shoal_value_t row, shoal_value_t x) {
  shoal_shape_t shape = {.rank = shoal_value_type(x).shape.rank - 1};
  for (int32_t d = 0; d < shape.rank; ++d) shape.dims[d] = d ? 1 : dim_of(x, 1);
  return shoal_reshape(graph, row, shape);
}

// old + momentum (scale new - old)
static void follow(shoal_graph_t *graph, shoal_value_t state, shoal_value_t value, double scale,
                   double momentum) {
  const shoal_value_t old = shoal_affine(graph, state, 1 - momentum, 0);
  shoal_assign(graph, state,
               shoal_add(graph, old, shoal_affine(graph, value, momentum * scale, 0)));
}

// With statistics that were gathered before.
static shoal_value_t normalize(shoal_graph_t *graph, shoal_value_t x, shoal_value_t mean,
                               shoal_value_t variance, double eps) {
  const shoal_dtype_t dtype = shoal_value_type(x).dtype, wide = shoal_value_type(mean).dtype;
  const shoal_value_t rstd = shoal_rsqrt(graph, shoal_affine(graph, variance, 1, eps));
  shoal_value_t y = wide == dtype ? x : shoal_cast(graph, x, wide);
  y = shoal_sub(graph, y, along_channels(graph, mean, x));
  y = shoal_mul(graph, y, along_channels(graph, rstd, x));
  return wide == dtype ? y : shoal_cast(graph, y, dtype);
}

shoal_value_t shoal_nn_batch_norm_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                     const shoal_nn_norm_options_t *options, const char *file,
                                     int line) {
  static const shoal_nn_norm_options_t defaults = {0};
  if (!options) options = &defaults;
  const double eps = options->eps != 0 ? options->eps : 1e-5;
  const double momentum = options->momentum != 0 ? options->momentum : 0.1;
  const shoal_shape_t channels = SHOAL_SHAPE(dim_of(x, 1));
  const shoal_dtype_t dtype = shoal_value_type(x).dtype;
  shoal_dtype_t wide = dtype == SHOAL_BF16 || dtype == SHOAL_F16 ? SHOAL_F32 : dtype;
  shoal_nn_enter(graph, name, file, line);
  shoal_value_t y = shoal_none();
  if (shoal_value_ok(x) && shoal_value_type(x).shape.rank < 2) {
    shoal_nn_refuse(graph, "batch norm: x must be [N, C, ..], and has %d dims",
                    shoal_value_type(x).shape.rank);
  } else if (!(momentum >= 0 && momentum <= 1)) {
    shoal_nn_refuse(graph, "batch norm: momentum is %g, not in [0, 1]", momentum);
  } else if (shoal_value_ok(x)) {
    shoal_value_t gamma = shoal_none(), beta = shoal_none();
    if (!options->no_affine) {
      gamma = shoal_nn_parameter(graph, "gamma", dtype, channels,
                                 shoal_nn_init_or(options->gamma_init, filled(1)));
      beta = shoal_nn_parameter(graph, "beta", dtype, channels, filled(0));
    }
    shoal_state_options_t ones = {.init = filled(1)};
    shoal_value_t mean = shoal_state(graph, "running_mean", wide, channels, NULL);
    shoal_value_t variance = shoal_state(graph, "running_variance", wide, channels, &ones);
    if (options->eval) {
      y = normalize(graph, x, mean, variance, eps);
      if (!options->no_affine) {
        y = shoal_mul(graph, y, along_channels(graph, gamma, x));
        y = shoal_add(graph, y, along_channels(graph, beta, x));
      }
    } else {
      shoal_batch_norm_options_t with = {.eps = eps};
      if (!options->no_affine) with.gamma = gamma, with.beta = beta;
      const shoal_shape_t shape = shoal_value_type(x).shape;
      const double count = (double)shoal_shape_count(&shape) / (double)shape.dims[1];
      shoal_value_t batch_mean, batch_variance;
      shoal_batch_norm_with(graph, x, &with, &y, &batch_mean, &batch_variance);
      if (!options->keep_running) {
        follow(graph, mean, batch_mean, 1, momentum);
        follow(graph, variance, batch_variance, count > 1 ? count / (count - 1) : 1, momentum);
      }
    }
  }
  shoal_nn_leave(graph);
  return y;
}

shoal_value_t shoal_nn_group_norm_at(shoal_graph_t *graph, const char *name, shoal_value_t x,
                                     int64_t groups, const shoal_nn_norm_options_t *options,
                                     const char *file, int line) {
  static const shoal_nn_norm_options_t defaults = {0};
  if (!options) options = &defaults;
  shoal_group_norm_options_t with = {.eps = options->eps};
  shoal_nn_enter(graph, name, file, line);
  if (!options->no_affine) {
    const shoal_dtype_t dtype = shoal_value_type(x).dtype;
    const shoal_shape_t channels = SHOAL_SHAPE(dim_of(x, 1));
    with.gamma = shoal_nn_parameter(graph, "gamma", dtype, channels,
                                    shoal_nn_init_or(options->gamma_init, filled(1)));
    with.beta = shoal_nn_parameter(graph, "beta", dtype, channels, filled(0));
  }
  shoal_value_t y;
  shoal_group_norm_with(graph, x, groups ? groups : dim_of(x, 1), &with, &y, NULL, NULL);
  shoal_nn_leave(graph);
  return y;
}
