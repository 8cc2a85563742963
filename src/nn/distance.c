// Losses of two tensors of one shape: an op element by element (src/op/families/distance.c), then a
// mean or a sum over all elements. The mean's divisor is that of the whole, however it is cut.
#include "nn/build.h"

static shoal_value_t add_node(shoal_graph_t *graph, const char *op, int32_t count,
                              const shoal_value_t *inputs, int32_t attr_count,
                              const shoal_attr_t *attrs) {
  shoal_value_t out = {0};
  shoal_node_add(graph, op, count, inputs, attr_count, attrs, 1, &out);
  return out;
}

// One loss for all elements, as the options ask for.
static shoal_value_t reduce(shoal_graph_t *graph, shoal_value_t loss,
                            const shoal_loss_options_t *options) {
  const shoal_shape_t shape = shoal_value_type(loss).shape;
  const int64_t dims[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  const shoal_attr_t all[] = {shoal_attr_ints("dims", shape.rank, dims)};
  switch (options->reduction) {
    case SHOAL_REDUCTION_MEAN:
      return add_node(graph, "shoal.reduce_mean", 1, &loss, 1, all);
    case SHOAL_REDUCTION_SUM:
      return add_node(graph, "shoal.reduce_sum", 1, &loss, 1, all);
    case SHOAL_REDUCTION_BATCH: {
      const int64_t rows = shape.rank ? shape.dims[0] : 1;
      const shoal_attr_t counted[] = {all[0], shoal_attr_int("count", rows > 0 ? rows : 1)};
      return add_node(graph, "shoal.reduce_mean", 1, &loss, 2, counted);
    }
    case SHOAL_REDUCTION_NONE:
      return loss;
  }
  shoal_nn_refuse(graph, "loss: there is no reduction %d", (int)options->reduction);
  return shoal_none();
}

// With weights of positive targets: (1 - t) x - (1 + (p - 1) t) log sigmoid(x).
static shoal_value_t weighted_logits(shoal_graph_t *graph, shoal_value_t x, shoal_value_t target,
                                     shoal_value_t positive) {
  const shoal_value_t more = shoal_mul(graph, shoal_affine(graph, positive, 1, -1), target);
  const shoal_value_t factor = shoal_affine(graph, more, 1, 1);
  const shoal_value_t linear = shoal_mul(graph, shoal_affine(graph, target, -1, 1), x);
  const shoal_value_t bend = shoal_mul(graph, factor, shoal_log_sigmoid(graph, x));
  return shoal_sub(graph, linear, bend);
}

typedef shoal_value_t (*loss_fn_t)(shoal_graph_t *graph, shoal_value_t x, shoal_value_t target,
                                   const shoal_loss_options_t *options);

static shoal_value_t build(shoal_graph_t *graph, loss_fn_t fn, shoal_value_t x,
                           shoal_value_t target, const shoal_loss_options_t *options,
                           const char *file, int line) {
  static const shoal_loss_options_t defaults = {0};
  if (!options) options = &defaults;
  shoal_site_push(graph, file, line);
  x = shoal_nn_widen(graph, x);
  target = shoal_nn_widen(graph, target);
  shoal_value_t loss = fn(graph, x, target, options);
  if (options->weight.graph) loss = shoal_mul(graph, loss, shoal_nn_widen(graph, options->weight));
  loss = reduce(graph, loss, options);
  shoal_site_pop(graph);
  return loss;
}

// The op `op` with these attributes, given as a list.
#define WITH(op, ...)                                                               \
  add_node(graph, op, 2, (const shoal_value_t[]){x, target},                        \
           (int32_t)(sizeof((shoal_attr_t[]){__VA_ARGS__}) / sizeof(shoal_attr_t)), \
           (const shoal_attr_t[]){__VA_ARGS__})

#define LOSS(name, result)                                                               \
  static shoal_value_t name(shoal_graph_t *graph, shoal_value_t x, shoal_value_t target, \
                            const shoal_loss_options_t *options) {                       \
    (void)options;                                                                       \
    return result;                                                                       \
  }                                                                                      \
  shoal_value_t shoal_nn_##name##_loss_at(                                               \
      shoal_graph_t *graph, shoal_value_t x, shoal_value_t target,                       \
      const shoal_loss_options_t *options, const char *file, int line) {                 \
    return build(graph, name, x, target, options, file, line);                           \
  }

LOSS(mse, shoal_mse(graph, x, target))
LOSS(l1, shoal_l1(graph, x, target))
LOSS(huber, WITH("shoal.huber", shoal_attr_real("delta", options->delta != 0 ? options->delta : 1)))
LOSS(smooth_l1,
     WITH("shoal.smooth_l1", shoal_attr_real("beta", options->delta != 0 ? options->delta : 1)))
LOSS(bce, shoal_bce(graph, x, target))
LOSS(bce_with_logits,
     options->positive_weight.graph
         ? weighted_logits(graph, x, target, shoal_nn_widen(graph, options->positive_weight))
         : shoal_bce_with_logits(graph, x, target))
LOSS(kl_div, WITH("shoal.kl_div", shoal_attr_int("log_target", options->log_target)))
LOSS(poisson_nll, WITH("shoal.poisson_nll", shoal_attr_int("log_input", !options->rates),
                       shoal_attr_int("full", options->full),
                       shoal_attr_real("eps", options->eps != 0 ? options->eps : 1e-8)))
