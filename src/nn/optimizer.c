// Optimizers: gradients of the loss by every trainable state that the graph reads and nobody froze,
// and one update node per state ("update/<state>/..."). Learning rate and step are values; moments
// are states next to their parameter ("<state>#adamw.m"), of its type, so that they can be cut like
// it.
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/locale.h"
#include "base/status.h"
#include "graph/builder.h"
#include "nn/build.h"

typedef struct targets {
  shoal_graph_t *graph;
  shoal_arena_t scratch;
  int32_t count;
  shoal_value_t *states, *gradients;
  shoal_value_t lr;
} targets_t;

// Finds the states to train, their gradients and the learning rate; false if there is an error.
static bool targets_init(targets_t *t, shoal_graph_t *graph, shoal_value_t loss, double lr,
                         shoal_value_t lr_value) {
  *t = (targets_t){.graph = graph};
  if (!graph || graph->model->error) return false;
  shoal_model_t *model = graph->model;
  model->minimized = true;
  shoal_arena_init(model->allocator, &t->scratch);
  t->states = SHOAL_NEW(&t->scratch, shoal_value_t, graph->values.count);
  t->gradients = SHOAL_NEW(&t->scratch, shoal_value_t, graph->values.count);
  if (!t->states || !t->gradients) {
    shoal_model_fail(graph->model, SHOAL_OOM());
    return false;
  }
  for (int32_t i = 0; i < graph->values.count; ++i) {
    const shoal_value_info_t *value = &graph->values.items[i];
    if (value->source != SHOAL_FROM_STATE) continue;
    const shoal_state_info_t *state = &model->states.items[value->index];
    if (!state->options.trainable || shoal_model_freezes(model, state->name)) continue;
    t->states[t->count++] = (shoal_value_t){graph, i};
  }
  if (!t->count) shoal_nn_refuse(graph, "minimize: the graph reads no trainable state");
  shoal_gradients(graph, loss, t->count, t->states, t->gradients);
  t->lr = lr_value;
  if (!lr_value.graph) {
    shoal_state_options_t options = {.init = {SHOAL_INIT_FILL, lr, 0}};
    t->lr = shoal_state(graph, "/lr", SHOAL_F32, SHOAL_SCALAR, &options);
  }
  return !model->error;
}

static void targets_deinit(targets_t *t) {
  shoal_arena_deinit(&t->scratch);
}

// The state "<parameter>#<suffix>", of the parameter's type.
static shoal_value_t moment(targets_t *t, int32_t i, const char *suffix) {
  shoal_type_t type = shoal_value_type(t->states[i]);
  const char *name =
      shoal_arena_printf(&t->scratch, "/%s#%s", shoal_value_name(t->states[i]), suffix);
  if (!name) {
    shoal_model_fail(t->graph->model, SHOAL_OOM());
    return (shoal_value_t){NULL, -1};
  }
  return shoal_state(t->graph, name, type.dtype, type.shape, NULL);
}

static void push_update_scope(targets_t *t, int32_t i) {
  const char *name = shoal_arena_printf(&t->scratch, "/update/%s", shoal_value_name(t->states[i]));
  if (!name) shoal_model_fail(t->graph->model, SHOAL_OOM());
  shoal_scope_push(t->graph, name ? name : "/");
}

// A factor that is no number trains nothing but NaN, a negative one climbs, and moments that decay
// by 1 or more never forget.
static void check_factor(shoal_graph_t *graph, const char *name, double value, double below) {
  if (isfinite(value) && value >= 0 && value < below) return;
  char message[96];
  shoal_format(message, sizeof message, "minimize: %s is %g, not in [0, %g)", name, value, below);
  shoal_nn_refuse(graph, message);
}

static double or_default(double value, double fallback) {
  return value != 0 ? value : fallback;
}

void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_sgd_t *options,
                           const char *file, int line) {
  shoal_sgd_t o = options ? *options : (shoal_sgd_t){0};
  targets_t t;
  shoal_site_push(graph, file, line);
  check_factor(graph, "lr", o.lr, INFINITY);
  check_factor(graph, "momentum", o.momentum, INFINITY);
  check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  bool trains = targets_init(&t, graph, loss, or_default(o.lr, 1e-2), o.lr_value);
  shoal_kind_push(graph, SHOAL_NODE_UPDATE);
  if (trains) shoal_step(graph);
  for (int32_t i = 0; i < t.count && !graph->model->error; ++i) {
    shoal_value_t w = t.states[i], g = t.gradients[i];
    push_update_scope(&t, i);

    if (o.momentum == 0) {
      shoal_assign(graph, w, shoal_sgd_update(graph, w, g, t.lr, o.weight_decay));
    } else {
      shoal_value_t m = moment(&t, i, "sgd.momentum"), new_w, new_m;
      shoal_sgd_momentum_update(graph, w, g, m, t.lr, o.momentum, o.weight_decay, &new_w, &new_m);
      shoal_assign(graph, w, new_w);
      shoal_assign(graph, m, new_m);
    }
    shoal_scope_pop(graph);
  }
  shoal_kind_pop(graph);
  targets_deinit(&t);
  shoal_site_pop(graph);
}

void shoal_minimize_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_adamw_t *options,
                       const char *file, int line) {
  shoal_adamw_t o = options ? *options : (shoal_adamw_t){0};
  targets_t t;
  shoal_site_push(graph, file, line);
  check_factor(graph, "lr", o.lr, INFINITY);
  check_factor(graph, "beta1", o.beta1, 1);
  check_factor(graph, "beta2", o.beta2, 1);
  check_factor(graph, "eps", o.eps, INFINITY);
  check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  shoal_value_t step = {NULL, -1};
  bool trains = targets_init(&t, graph, loss, or_default(o.lr, 1e-3), o.lr_value);
  shoal_kind_push(graph, SHOAL_NODE_UPDATE);
  if (trains) step = shoal_step(graph);
  for (int32_t i = 0; i < t.count && !graph->model->error; ++i) {
    shoal_value_t w = t.states[i], new_w, new_m, new_v;
    push_update_scope(&t, i);
    shoal_value_t m = moment(&t, i, "adamw.m"), v = moment(&t, i, "adamw.v");
    shoal_adamw_update(graph, w, t.gradients[i], m, v, t.lr, step, or_default(o.beta1, 0.9),
                       or_default(o.beta2, 0.999), or_default(o.eps, 1e-8), o.weight_decay, &new_w,
                       &new_m, &new_v);
    shoal_assign(graph, w, new_w);
    shoal_assign(graph, m, new_m);
    shoal_assign(graph, v, new_v);
    shoal_scope_pop(graph);
  }
  shoal_kind_pop(graph);
  targets_deinit(&t);
  shoal_site_pop(graph);
}
