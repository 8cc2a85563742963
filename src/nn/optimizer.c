// The frame of all optimizers: gradients of the loss by every trainable state that the graph reads
// and nobody froze, and one update per state ("update/<state>/..."). Learning rate and step are
// values; moments are states next to their parameter ("<state>#adamw.m"), of its type, so that they
// can be cut like it. (The updates: optimizers.c.)
#include "nn/optimizer.h"

#include <math.h>
#include <string.h>

#include "base/locale.h"
#include "base/status.h"
#include "graph/builder.h"

// Is this a gradient of what the loss does not depend on?
static bool is_nothing(shoal_value_t gradient) {
  const shoal_value_info_t *value = &gradient.graph->values.items[gradient.id];
  if (value->source != SHOAL_FROM_NODE) return false;
  const shoal_node_t *node = &gradient.graph->nodes.items[value->node];
  return strcmp(node->op->name, "shoal.full") == 0 && node->attrs[1].f == 0;
}

// A loss that reaches no parameter trains nothing, and looks as if it did.
static void check_reached(const shoal_targets_t *t) {
  for (int32_t i = 0; i < t->count; ++i) {
    if (!is_nothing(t->gradients[i])) return;
  }
  shoal_nn_refuse_hint(t->graph,
                       "no gradient flows through comparisons, indices and integers: `shoal ops "
                       "NAME` says so of an op",
                       "minimize: the loss depends on none of the states to train, such as '%s'",
                       shoal_value_name(t->states[0]));
}

// Finds the states to train, their gradients, still scaled, and the learning rate; false if there
// is an error.
static bool targets_init(shoal_targets_t *t, shoal_graph_t *graph, shoal_value_t loss, double lr,
                         shoal_value_t lr_value, const shoal_training_t *training,
                         shoal_value_t *out_scale) {
  *t = (shoal_targets_t){.graph = graph};
  if (!graph || graph->model->error) return false;
  shoal_model_t *model = graph->model;
  model->minimized = true;
  shoal_arena_init(model->allocator, &t->scratch);
  loss = shoal_nn_scale_loss(graph, loss, training, out_scale);
  t->states = SHOAL_NEW(&t->scratch, shoal_value_t, graph->values.count);
  t->gradients = SHOAL_NEW(&t->scratch, shoal_value_t, graph->values.count);
  if (!t->states || !t->gradients) {
    shoal_model_fail(graph->model, SHOAL_OOM());
    return false;
  }
  const char *other = NULL, *frozen = NULL;
  for (int32_t i = 0; i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (value->source != SHOAL_FROM_STATE) continue;
    const shoal_state_info_t *state = &model->states.items[value->index];
    if (!state->options.trainable) continue;
    if (training->only && !shoal_pattern_match(training->only, state->name)) {
      other = state->name;
      continue;
    }
    if (shoal_model_freezes(model, state->name)) {
      frozen = state->name;
      continue;
    }
    t->states[t->count++] = (shoal_value_t){graph, i};
  }
  if (frozen && !t->count) {
    shoal_nn_refuse_hint(graph, "`only` in shoal_training_t says what one shoal_minimize trains",
                         "minimize: all trainable states are frozen, such as '%s'", frozen);
  } else if (other && !t->count) {
    shoal_nn_refuse(graph, "minimize: no trainable state matches '%s'; there is '%s'",
                    training->only, other);
  } else if (!t->count) {
    shoal_nn_refuse_hint(graph, "a state is trained if its option `trainable` is set",
                         "minimize: the graph reads no trainable state");
  }
  shoal_gradients(graph, loss, t->count, t->states, t->gradients);
  if (!model->error) check_reached(t);
  t->lr = lr_value;
  if (!lr_value.graph) {
    shoal_state_options_t options = {.init = {SHOAL_INIT_FILL, lr, 0}};
    t->lr = shoal_state(graph, "/lr", SHOAL_F32, SHOAL_SCALAR, &options);
  }
  return !model->error;
}

static void targets_deinit(shoal_targets_t *t) {
  shoal_arena_deinit(&t->scratch);
}

shoal_value_t shoal_nn_moment_of(shoal_targets_t *t, int32_t i, const char *suffix,
                                 shoal_shape_t shape) {
  const char *name =
      shoal_arena_printf(&t->scratch, "/%s#%s", shoal_value_name(t->states[i]), suffix);
  if (!name) {
    shoal_model_fail(t->graph->model, SHOAL_OOM());
    return (shoal_value_t){NULL, -1};
  }
  return shoal_state(t->graph, name, shoal_value_type(t->states[i]).dtype, shape, NULL);
}

shoal_value_t shoal_nn_moment(shoal_targets_t *t, int32_t i, const char *suffix) {
  return shoal_nn_moment_of(t, i, suffix, shoal_value_type(t->states[i]).shape);
}

void shoal_nn_put(shoal_targets_t *t, shoal_value_t state, shoal_value_t value) {
  if (state.id == t->states[t->at].id) t->next = value;
  if (t->finite.graph) {
    shoal_assign_if(t->graph, state, value, t->finite);
  } else {
    shoal_assign(t->graph, state, value);
  }
}

static void push_update_scope(shoal_targets_t *t, int32_t i) {
  const char *name = shoal_arena_printf(&t->scratch, "/update/%s", shoal_value_name(t->states[i]));
  if (!name) shoal_model_fail(t->graph->model, SHOAL_OOM());
  shoal_scope_push(t->graph, name ? name : "/");
}

// A factor that is no number trains nothing but NaN, a negative one climbs, and moments that decay
// by 1 or more never forget.
void shoal_nn_check_factor(shoal_graph_t *graph, const char *name, double value, double below) {
  if (isfinite(value) && value >= 0 && value < below) return;
  shoal_nn_refuse(graph, "minimize: %s is %g, not in [0, %g)", name, value, below);
}

void shoal_nn_minimize(shoal_graph_t *graph, shoal_value_t loss, double lr, shoal_value_t lr_value,
                       const shoal_training_t *training, shoal_nn_update_fn_t update,
                       void *options) {
  shoal_targets_t t;
  shoal_value_t scale = {0};
  shoal_nn_check_training(graph, training);
  bool trains = targets_init(&t, graph, loss, lr, lr_value, training, &scale);
  shoal_kind_push(graph, SHOAL_NODE_UPDATE);
  if (trains) t.step = shoal_step(graph);
  if (trains) shoal_nn_treat_gradients(&t, training, scale);
  for (t.at = 0; t.at < t.count && !graph->model->error; ++t.at) {
    push_update_scope(&t, t.at);
    update(&t, t.at, options);
    shoal_nn_average(&t, training);
    shoal_scope_pop(graph);
  }
  shoal_kind_pop(graph);
  targets_deinit(&t);
}
