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
  shoal_value_t lr, step;
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

static void check_adam(shoal_graph_t *graph, double lr, double beta1, double beta2, double eps,
                       double weight_decay) {
  check_factor(graph, "lr", lr, INFINITY);
  check_factor(graph, "beta1", beta1, 1);
  check_factor(graph, "beta2", beta2, 1);
  check_factor(graph, "eps", eps, INFINITY);
  check_factor(graph, "weight_decay", weight_decay, INFINITY);
}

static double or_default(double value, double fallback) {
  return value != 0 ? value : fallback;
}

// ---- one state ----------------------------------------------------------------------------------

// Adds the update of parameter i, its moments and their assignments.
typedef void (*update_fn_t)(targets_t *t, int32_t i, const void *options);

static void update_by_sgd(targets_t *t, int32_t i, const void *options) {
  const shoal_sgd_t *o = options;
  shoal_value_t w = t->states[i], g = t->gradients[i];
  if (o->momentum == 0) {
    shoal_assign(t->graph, w, shoal_sgd_update(t->graph, w, g, t->lr, o->weight_decay));
    return;
  }
  shoal_value_t m = moment(t, i, "sgd.momentum"), out[2];
  shoal_node_add(t->graph, "shoal.sgd_momentum_update", 4, (shoal_value_t[]){w, g, m, t->lr}, 3,
                 (shoal_attr_t[]){shoal_attr_real("momentum", o->momentum),
                                  shoal_attr_real("weight_decay", o->weight_decay),
                                  shoal_attr_int("nesterov", o->nesterov)},
                 2, out);
  shoal_assign(t->graph, w, out[0]);
  shoal_assign(t->graph, m, out[1]);
}

static void update_by_adam(targets_t *t, int32_t i, const void *options) {
  const shoal_adam_t *o = options;
  shoal_value_t w = t->states[i], new_w, new_m, new_v;
  shoal_value_t m = moment(t, i, "adam.m"), v = moment(t, i, "adam.v");
  shoal_adam_update(t->graph, w, t->gradients[i], m, v, t->lr, t->step, or_default(o->beta1, 0.9),
                    or_default(o->beta2, 0.999), or_default(o->eps, 1e-8), o->weight_decay, &new_w,
                    &new_m, &new_v);
  shoal_assign(t->graph, w, new_w);
  shoal_assign(t->graph, m, new_m);
  shoal_assign(t->graph, v, new_v);
}

static void update_by_adamw(targets_t *t, int32_t i, const void *options) {
  const shoal_adamw_t *o = options;
  shoal_value_t w = t->states[i], new_w, new_m, new_v;
  shoal_value_t m = moment(t, i, "adamw.m"), v = moment(t, i, "adamw.v");
  shoal_adamw_update(t->graph, w, t->gradients[i], m, v, t->lr, t->step, or_default(o->beta1, 0.9),
                     or_default(o->beta2, 0.999), or_default(o->eps, 1e-8), o->weight_decay, &new_w,
                     &new_m, &new_v);
  shoal_assign(t->graph, w, new_w);
  shoal_assign(t->graph, m, new_m);
  shoal_assign(t->graph, v, new_v);
}

static void update_by_lion(targets_t *t, int32_t i, const void *options) {
  const shoal_lion_t *o = options;
  shoal_value_t w = t->states[i], m = moment(t, i, "lion.m"), new_w, new_m;
  shoal_lion_update(t->graph, w, t->gradients[i], m, t->lr, or_default(o->beta1, 0.9),
                    or_default(o->beta2, 0.99), o->weight_decay, &new_w, &new_m);
  shoal_assign(t->graph, w, new_w);
  shoal_assign(t->graph, m, new_m);
}

// ---- all of them --------------------------------------------------------------------------------

static void minimize(shoal_graph_t *graph, shoal_value_t loss, double lr, shoal_value_t lr_value,
                     update_fn_t update, const void *options) {
  targets_t t;
  bool trains = targets_init(&t, graph, loss, lr, lr_value);
  shoal_kind_push(graph, SHOAL_NODE_UPDATE);
  if (trains) t.step = shoal_step(graph);
  for (int32_t i = 0; i < t.count && !graph->model->error; ++i) {
    push_update_scope(&t, i);
    update(&t, i, options);
    shoal_scope_pop(graph);
  }
  shoal_kind_pop(graph);
  targets_deinit(&t);
}

void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_sgd_t *options,
                           const char *file, int line) {
  shoal_sgd_t o = options ? *options : (shoal_sgd_t){0};
  shoal_site_push(graph, file, line);
  check_factor(graph, "lr", o.lr, INFINITY);
  check_factor(graph, "momentum", o.momentum, INFINITY);
  check_factor(graph, "weight_decay", o.weight_decay, INFINITY);
  if (o.nesterov && o.momentum == 0)
    shoal_nn_refuse(graph, "minimize: nesterov needs a momentum above 0");
  minimize(graph, loss, or_default(o.lr, 1e-2), o.lr_value, update_by_sgd, &o);
  shoal_site_pop(graph);
}

void shoal_minimize_adam_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_adam_t *options,
                            const char *file, int line) {
  shoal_adam_t o = options ? *options : (shoal_adam_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  minimize(graph, loss, or_default(o.lr, 1e-3), o.lr_value, update_by_adam, &o);
  shoal_site_pop(graph);
}

void shoal_minimize_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_adamw_t *options,
                       const char *file, int line) {
  shoal_adamw_t o = options ? *options : (shoal_adamw_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay);
  minimize(graph, loss, or_default(o.lr, 1e-3), o.lr_value, update_by_adamw, &o);
  shoal_site_pop(graph);
}

void shoal_minimize_lion_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_lion_t *options,
                            const char *file, int line) {
  shoal_lion_t o = options ? *options : (shoal_lion_t){0};
  shoal_site_push(graph, file, line);
  check_adam(graph, o.lr, o.beta1, o.beta2, 0, o.weight_decay);
  minimize(graph, loss, or_default(o.lr, 1e-4), o.lr_value, update_by_lion, &o);
  shoal_site_pop(graph);
}
