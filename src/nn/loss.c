// Losses over classes.
#include "nn/build.h"

enum { IGNORED = -100 };

shoal_value_t shoal_nn_cross_entropy_at(shoal_graph_t *graph, shoal_value_t logits,
                                        shoal_value_t labels, const char *file, int line) {
  shoal_site_push(graph, file, line);
  shoal_value_t loss = shoal_cross_entropy(graph, logits, labels);
  shoal_site_pop(graph);
  return loss;
}

static shoal_value_t add_node(shoal_graph_t *graph, const char *op, int32_t count,
                              const shoal_value_t *inputs, int32_t attr_count,
                              const shoal_attr_t *attrs) {
  shoal_value_t out = {0};
  shoal_node_add(graph, op, count, inputs, attr_count, attrs, 1, &out);
  return out;
}

// Labels with 0 for those that are ignored, and which these are, where it is asked for.
static shoal_value_t kept_labels(shoal_graph_t *graph, shoal_value_t labels, int64_t ignore,
                                 shoal_value_t *out_ignored) {
  const shoal_dtype_t dtype = shoal_value_type(labels).dtype;
  const shoal_value_t ignored =
      shoal_equal(graph, labels, shoal_full(graph, SHOAL_SCALAR, (double)ignore, dtype));
  if (out_ignored) *out_ignored = ignored;
  return shoal_where(graph, ignored, shoal_full(graph, SHOAL_SCALAR, 0, dtype), labels);
}

// 0 for labels that are ignored, for others the weight of their class or 1.
static shoal_value_t label_weight(shoal_graph_t *graph, shoal_value_t labels, shoal_value_t weights,
                                  int64_t classes, shoal_dtype_t dtype, int64_t ignore) {
  const shoal_attr_t attrs[] = {shoal_attr_int("classes", classes),
                                shoal_attr_dtype("dtype", dtype), shoal_attr_int("ignore", ignore)};
  const shoal_value_t counts = add_node(graph, "shoal.label_weight", 1, &labels, 3, attrs);
  if (!weights.graph) return counts;
  const shoal_attr_t axis = shoal_attr_int("axis", 0);
  const shoal_value_t operands[] = {weights, kept_labels(graph, labels, ignore, NULL)};
  return shoal_mul(graph, counts, add_node(graph, "shoal.gather", 2, operands, 1, &axis));
}

// A loss for each label: the one of cross_entropy, written out.
static shoal_value_t each_label(shoal_graph_t *graph, shoal_value_t logits, shoal_value_t labels,
                                shoal_value_t weights, double smoothing, int64_t ignore) {
  logits = shoal_nn_widen(graph, logits);
  if (weights.graph) weights = shoal_nn_widen(graph, weights);
  const shoal_type_t type = shoal_value_type(logits);
  const int32_t last = type.shape.rank - 1;
  const int64_t classes = last >= 0 ? type.shape.dims[last] : 0;
  const shoal_dtype_t dtype = type.dtype;
  const shoal_value_t logs = shoal_log_softmax(graph, logits, -1);
  shoal_value_t ignored;
  const shoal_value_t kept = kept_labels(graph, labels, ignore, &ignored);
  shoal_value_t direct = shoal_pick(graph, logs, kept);
  if (weights.graph) {
    direct = shoal_mul(graph, direct, label_weight(graph, labels, weights, classes, dtype, ignore));
  }
  shoal_value_t loss = shoal_affine(graph, direct, smoothing - 1, 0);
  if (smoothing > 0) {
    const shoal_value_t all = weights.graph ? shoal_mul(graph, logs, weights) : logs;
    const shoal_value_t sum = shoal_reduce_sum(graph, all, SHOAL_SHAPE(last));
    loss = shoal_add(graph, loss, shoal_affine(graph, sum, -smoothing / (double)classes, 0));
  }
  return shoal_where(graph, ignored, shoal_full(graph, SHOAL_SCALAR, 0, dtype), loss);
}

static shoal_value_t one_loss(shoal_graph_t *graph, shoal_value_t logits, shoal_value_t labels,
                              shoal_value_t weights, double smoothing, int64_t ignore,
                              shoal_reduction_t reduction) {
  const shoal_shape_t logits_shape = shoal_value_type(logits).shape;
  const shoal_shape_t shape = shoal_value_type(labels).shape;
  shoal_dtype_t wide = shoal_value_type(logits).dtype;
  if (wide == SHOAL_BF16 || wide == SHOAL_F16) wide = SHOAL_F32;
  shoal_value_t total = shoal_none();
  int64_t count = reduction == SHOAL_REDUCTION_BATCH && shape.rank ? shape.dims[0] : 1;
  if (weights.graph) weights = shoal_cast(graph, weights, wide);
  if (reduction == SHOAL_REDUCTION_MEAN) {
    const int64_t classes = logits_shape.rank ? logits_shape.dims[logits_shape.rank - 1] : 0;
    const int64_t dims[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    const shoal_attr_t all = shoal_attr_ints("dims", shape.rank, dims);
    total = label_weight(graph, labels, weights, classes, wide, ignore);
    total = add_node(graph, "shoal.reduce_sum", 1, &total, 1, &all);
  }
  const shoal_attr_t attrs[] = {shoal_attr_int("count", count > 0 ? count : 1),
                                shoal_attr_int("ignore", ignore),
                                shoal_attr_real("smoothing", smoothing)};
  return add_node(graph, "shoal.cross_entropy", 4,
                  (const shoal_value_t[]){logits, labels, weights, total}, 3, attrs);
}

shoal_value_t shoal_nn_cross_entropy_with_at(shoal_graph_t *graph, shoal_value_t logits,
                                             shoal_value_t labels,
                                             const shoal_nn_cross_entropy_options_t *options,
                                             const char *file, int line) {
  static const shoal_nn_cross_entropy_options_t defaults = {0};
  if (!options) options = &defaults;
  const int64_t ignore = options->ignore ? *options->ignore : IGNORED;
  const shoal_value_t weights = options->weights.graph ? options->weights : shoal_none();
  shoal_site_push(graph, file, line);
  shoal_value_t loss = shoal_none();
  if (options->smoothing < 0 || options->smoothing > 1) {
    shoal_nn_refuse(graph, "cross-entropy: smoothing is %g, not in [0, 1]", options->smoothing);
  } else if ((unsigned)options->reduction > SHOAL_REDUCTION_NONE) {
    shoal_nn_refuse(graph, "cross-entropy: there is no reduction %d", (int)options->reduction);
  } else if (options->reduction == SHOAL_REDUCTION_NONE) {
    loss = each_label(graph, logits, labels, weights, options->smoothing, ignore);
  } else {
    loss = one_loss(graph, logits, labels, weights, options->smoothing, ignore, options->reduction);
  }
  shoal_site_pop(graph);
  return loss;
}
