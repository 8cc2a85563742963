// Numbers in place of NaN and infinities. It is made of simple ops and is not one of its own: how a
// sum that is not yet made may be passed on is found by running ops on numbers, and those it would
// leave as they are.
#include <float.h>

#include "nn/build.h"

static double largest(shoal_dtype_t dtype) {
  switch (dtype) {
    case SHOAL_F32:
      return FLT_MAX;
    case SHOAL_BF16:
      return 0x1.FEp127;
    case SHOAL_F16:
      return 65504;
    default:
      return DBL_MAX;
  }
}

static shoal_value_t number(shoal_graph_t *graph, shoal_value_t like, double value) {
  return shoal_full(graph, SHOAL_SCALAR, value, shoal_value_type(like).dtype);
}

shoal_value_t shoal_nn_nan_to_num_at(shoal_graph_t *graph, shoal_value_t x,
                                     const shoal_nn_nan_to_num_options_t *options, const char *file,
                                     int line) {
  static const shoal_nn_nan_to_num_options_t defaults = {0};
  if (!options) options = &defaults;
  const double most = largest(shoal_value_type(x).dtype);
  const double above = options->above ? *options->above : most;
  const double below = options->below ? *options->below : -most;
  shoal_site_push(graph, file, line);
  const shoal_value_t nan = shoal_is_nan(graph, x);
  const shoal_value_t high = shoal_greater(graph, x, number(graph, x, most));
  const shoal_value_t low = shoal_less(graph, x, number(graph, x, -most));
  x = shoal_where(graph, nan, number(graph, x, options->nan), x);
  x = shoal_where(graph, high, number(graph, x, above), x);
  x = shoal_where(graph, low, number(graph, x, below), x);
  shoal_site_pop(graph);
  return x;
}
