// What every optimizer may do besides its update (shoal_training_t): gradients clipped by the norm
// of all of them together, a loss scale that follows overflows, moving averages of parameters. All
// of it is nodes and states: norms are sums over parts wherever gradients are cut, and all ranks
// decide alike whether a step is taken.
#include <math.h>
#include <string.h>

#include "graph/builder.h"
#include "nn/optimizer.h"

#define MARGIN 1e-6  // added to norms before they divide, as PyTorch does

static shoal_value_t apply(shoal_graph_t *graph, const char *op, int32_t count,
                           const shoal_value_t *inputs, int32_t attr_count,
                           const shoal_attr_t *attrs) {
  shoal_value_t out = {0};
  shoal_node_add(graph, op, count, inputs, attr_count, attrs, 1, &out);
  return out;
}

shoal_value_t shoal_nn_cast(shoal_graph_t *graph, shoal_value_t x, shoal_dtype_t dtype) {
  return shoal_value_type(x).dtype == dtype ? x : shoal_cast(graph, x, dtype);
}

shoal_value_t shoal_nn_number(shoal_graph_t *graph, shoal_dtype_t dtype, double value) {
  return shoal_full(graph, SHOAL_SCALAR, value, dtype);
}

// A reduction over all dims from `first` on.
static shoal_value_t reduce_from(shoal_graph_t *graph, const char *op, int32_t first,
                                 shoal_value_t x) {
  static const int64_t dims[SHOAL_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
  const int32_t rank = shoal_value_type(x).shape.rank;
  if (rank == first && first > 0) return x;  // of rows that are scalars
  const shoal_attr_t all[] = {shoal_attr_ints("dims", rank - first, dims + first)};
  return apply(graph, op, 1, &x, 1, all);
}

static shoal_value_t reduce(shoal_graph_t *graph, const char *op, shoal_value_t x) {
  return reduce_from(graph, op, 0, x);
}

// x times a scalar of a type at least as wide, rounded once.
static shoal_value_t times(shoal_graph_t *graph, shoal_value_t x, shoal_value_t factor) {
  const shoal_dtype_t dtype = shoal_value_type(x).dtype, wide = shoal_value_type(factor).dtype;
  return shoal_nn_cast(graph, shoal_mul(graph, shoal_nn_cast(graph, x, wide), factor), dtype);
}

void shoal_nn_check_training(shoal_graph_t *graph, const shoal_training_t *training) {
  shoal_nn_check_factor(graph, "clip_norm", training->clip_norm, INFINITY);
  shoal_nn_check_factor(graph, "clip_max", training->clip_max, INFINITY);
  if (training->clip_before && training->clip_norm == 0 && training->clip_max == 0)
    shoal_nn_refuse_hint(graph, "give clip_norm or clip_max, too",
                         "clip_before says when gradients are clipped, and nothing says to what");
  shoal_nn_check_factor(graph, "average", training->average, 1);
  shoal_nn_check_factor(graph, "loss_scale", training->loss_scale, INFINITY);
  if (training->loss_scale != 0 && training->no_loss_scale)
    shoal_nn_refuse(graph, "loss_scale is %g, and no_loss_scale is set", training->loss_scale);
  shoal_nn_check_factor(graph, "scale_growth", training->scale_growth, INFINITY);
  shoal_nn_check_factor(graph, "scale_backoff", training->scale_backoff, INFINITY);
}

// ---- the loss scale -----------------------------------------------------------------------------

// Gradients of f16 vanish below 6e-8: a graph with such values needs a scale.
static double first_scale(const shoal_graph_t *graph, const shoal_training_t *training) {
  if (training->loss_scale != 0 || training->no_loss_scale) return training->loss_scale;
  for (int64_t i = 0; i < graph->values.count; ++i) {
    if (graph->values.items[i].type.dtype == SHOAL_F16) return 65536;
  }
  return 0;
}

shoal_value_t shoal_nn_scale_loss(shoal_targets_t *t, shoal_value_t loss,
                                  shoal_value_t *out_scale) {
  shoal_graph_t *graph = t->graph;
  const double start = first_scale(graph, &t->recipe->training);
  *out_scale = (shoal_value_t){0};
  if (start == 0) return loss;
  const shoal_state_options_t options = {.init = {SHOAL_INIT_FILL, start, 0}};
  *out_scale =
      shoal_state(graph, shoal_nn_own_name(t, "loss_scale"), SHOAL_F32, SHOAL_SCALAR, &options);
  shoal_scope_push(graph, shoal_nn_own_name(t, "loss_scale"));
  const shoal_dtype_t dtype = shoal_value_type(loss).dtype;
  const shoal_value_t scaled = shoal_mul(graph, loss, shoal_nn_cast(graph, *out_scale, dtype));
  shoal_scope_pop(graph);
  return scaled;
}

// Sets `finite`, the next scale, and a step that counts only updates that are taken.
static void guard(shoal_targets_t *t, shoal_value_t scale) {
  shoal_graph_t *graph = t->graph;
  const shoal_training_t *training = &t->recipe->training;
  const shoal_value_t good =
      shoal_state(graph, shoal_nn_own_name(t, "loss_scale#good"), SHOAL_I64, SHOAL_SCALAR, NULL);
  const shoal_value_t taken =
      shoal_state(graph, shoal_nn_own_name(t, "updates"), SHOAL_I64, SHOAL_SCALAR, NULL);
  for (int32_t i = 0; i < t->count && !graph->model->error; ++i) {
    const shoal_value_t all =
        reduce(graph, "shoal.reduce_all", shoal_is_finite(graph, t->gradients[i]));
    t->finite = i ? shoal_logical_and(graph, t->finite, all) : all;
  }
  const shoal_value_t in[] = {scale, good, t->finite};
  const int64_t interval = training->scale_interval;
  const shoal_attr_t attrs[] = {
      shoal_attr_real("growth", shoal_nn_or(training->scale_growth, 2)),
      shoal_attr_real("backoff", shoal_nn_or(training->scale_backoff, 0.5)),
      shoal_attr_int("interval", interval ? interval : 2000)};
  shoal_value_t next[2] = {{0}};
  shoal_node_add(graph, "shoal.loss_scale_update", 3, in, 3, attrs, 2, next);
  shoal_assign(graph, scale, next[0]);
  shoal_assign(graph, good, next[1]);
  t->step = shoal_add(graph, taken, shoal_nn_number(graph, SHOAL_I64, 1));
  shoal_assign_if(graph, taken, t->step, t->finite);
}

// ---- clipping -----------------------------------------------------------------------------------

// Where gradients are clipped before ranks sum them, t->gradients are *summands* here: tensors with
// a row for each rank (shoal.summands), one row on one device. Norms and factors are then vectors
// with an element for each of them.

// min(1, limit / (norm + margin))
static shoal_value_t shrink(shoal_targets_t *t, shoal_value_t norm, double limit) {
  shoal_graph_t *graph = t->graph;
  if (t->recipe->training.clip_before) {
    const shoal_attr_t attrs[] = {shoal_attr_real("limit", limit)};
    return apply(graph, "shoal.clip_factor", 1, &norm, 1, attrs);
  }
  const shoal_dtype_t dtype = shoal_value_type(norm).dtype;
  const shoal_value_t ratio =
      shoal_div(graph, shoal_nn_number(graph, dtype, limit), shoal_affine(graph, norm, 1, MARGIN));
  return shoal_minimum(graph, ratio, shoal_nn_number(graph, dtype, 1));
}

// Of all gradients together: the root of the sum of squares, or the largest absolute element.
static shoal_value_t global_norm(shoal_targets_t *t, shoal_dtype_t wide, bool largest) {
  shoal_graph_t *graph = t->graph;
  const bool rows = t->recipe->training.clip_before;
  shoal_value_t sum = {0};
  for (int32_t i = 0; i < t->count && !graph->model->error; ++i) {
    const shoal_value_t g = t->gradients[i];
    shoal_value_t part =
        largest ? reduce_from(graph, "shoal.reduce_max", rows ? 1 : 0, shoal_abs(graph, g))
        : rows  ? shoal_row_squares(graph, g)
                : shoal_sum_squares(graph, g);
    part = shoal_nn_cast(graph, part, wide);
    if (i == 0) sum = part;
    if (i > 0) sum = largest ? shoal_maximum(graph, sum, part) : shoal_add(graph, sum, part);
  }
  return largest ? sum : shoal_sqrt(graph, sum);
}

// Norms are those of gradients of the loss itself: `inverse` undoes the scale, if there is one.
static shoal_value_t clip(shoal_targets_t *t, shoal_dtype_t wide, shoal_value_t inverse) {
  const shoal_training_t *training = &t->recipe->training;
  const double limits[] = {training->clip_norm, training->clip_max};
  shoal_value_t factor = inverse;
  for (int32_t k = 0; k < 2; ++k) {
    if (limits[k] == 0) continue;
    shoal_value_t norm = global_norm(t, wide, k == 1);
    if (inverse.graph) norm = shoal_mul(t->graph, norm, inverse);
    const shoal_value_t smaller = shrink(t, norm, limits[k]);
    factor = factor.graph ? shoal_mul(t->graph, factor, smaller) : smaller;
  }
  return factor;
}

void shoal_nn_treat_gradients(shoal_targets_t *t, shoal_value_t scale) {
  shoal_graph_t *graph = t->graph;
  shoal_dtype_t wide = SHOAL_F32;
  for (int32_t i = 0; i < t->count; ++i) {
    if (shoal_value_type(t->gradients[i]).dtype == SHOAL_F64) wide = SHOAL_F64;
  }
  shoal_value_t inverse = {0};
  const bool before = t->recipe->training.clip_before;
  const char *name = t->recipe->training.name;
  shoal_scope_push(graph, name ? shoal_nn_own_name(t, "gradients") : "/update/gradients");
  for (int32_t i = 0; before && i < t->count && !graph->model->error; ++i) {
    t->gradients[i] = apply(graph, "shoal.summands", 1, &t->gradients[i], 0, NULL);
  }
  if (scale.graph) {
    guard(t, scale);
    inverse = shoal_reciprocal(graph, shoal_nn_cast(graph, scale, wide));
  }
  const shoal_value_t factor = clip(t, wide, inverse);
  for (int32_t i = 0; i < t->count && factor.graph && !graph->model->error; ++i) {
    t->gradients[i] = before ? shoal_weighted_sum(graph, t->gradients[i], factor)
                             : times(graph, t->gradients[i], factor);
  }
  shoal_scope_pop(graph);
}

// ---- averages -----------------------------------------------------------------------------------

void shoal_use_averages_at(shoal_graph_t *graph, const char *file, int line) {
  if (!graph || graph->model->error) return;
  const shoal_model_t *model = graph->model;
  bool any = !model->minimized;  // nothing trains here: averages come from a checkpoint
  for (int64_t i = 0; i < model->states.count && !any; ++i) {
    const char *mark = strrchr(model->states.items[i].name, '#');
    any = mark && strcmp(mark, "#average") == 0;
  }
  shoal_site_push(graph, file, line);
  if (!any) {
    shoal_nn_refuse_hint(graph, "training.average, in a graph that is built before this one",
                         "the model keeps no averages of its parameters");
  }
  graph->instead = "average";
  shoal_site_pop(graph);
}

// The first update starts the average, later ones are mixed into it.
void shoal_nn_average(shoal_targets_t *t) {
  const shoal_training_t *training = &t->recipe->training;
  if (training->average == 0) return;
  shoal_graph_t *graph = t->graph;
  const shoal_value_t average = shoal_nn_moment(t, t->at, "average");
  const shoal_value_t later = shoal_greater(graph, t->step, shoal_nn_number(graph, SHOAL_I64, 1));
  const shoal_value_t decay =
      shoal_affine(graph, shoal_cast(graph, later, SHOAL_F64), training->average, 0);
  shoal_nn_put(t, average, shoal_ema_update(graph, average, t->next, decay));
}
