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
                       "the loss depends on none of the states to train, such as '%s'",
                       shoal_value_name(t->states[0]));
}

// Finds the states to train and who trains them.
static void find_states(shoal_targets_t *t) {
  shoal_model_t *model = t->graph->model;
  const char *only = t->recipe->training.only, *other = NULL, *frozen = NULL;
  for (int32_t i = 0; i < t->graph->values.count; ++i) {
    const shoal_value_info_t *value = &t->graph->values.items[i];
    if (value->source != SHOAL_FROM_STATE) continue;
    const shoal_state_info_t *state = &model->states.items[value->index];
    if (!state->options.trainable) continue;
    if (only && !shoal_pattern_match(only, state->name)) {
      other = state->name;
      continue;
    }
    const int32_t rule = shoal_nn_rule_for(t, state->name, state->type.shape);
    if (shoal_model_freezes(model, state->name) || rule < 0) {
      frozen = state->name;
      continue;
    }
    t->rule_of[t->count] = rule;
    t->states[t->count++] = (shoal_value_t){t->graph, i};
  }
  if (frozen && !t->count) {
    shoal_nn_refuse_hint(t->graph, "`only` in shoal_training_t says which states one loss trains",
                         "all trainable states are frozen, such as '%s'", frozen);
  } else if (other && !t->count) {
    shoal_nn_refuse(t->graph, "no trainable state matches '%s'; there is '%s'", only, other);
  } else if (!t->count) {
    shoal_nn_refuse_hint(t->graph, "a state is trained if its option `trainable` is set",
                         "the graph reads no trainable state");
  }
}

// Finds the states to train and their gradients, still scaled; false if there is an error.
static bool targets_init(shoal_targets_t *t, shoal_value_t loss, shoal_value_t *out_scale) {
  shoal_graph_t *graph = t->graph;
  shoal_model_t *model = graph->model;
  if (model->error) return false;
  model->minimized = true;
  loss = shoal_nn_scale_loss(t, loss, out_scale);
  const int64_t count = graph->values.count;
  t->states = SHOAL_NEW(&t->scratch, shoal_value_t, count);
  t->gradients = SHOAL_NEW(&t->scratch, shoal_value_t, count);
  t->rule_of = SHOAL_NEW(&t->scratch, int32_t, count);
  t->rules = SHOAL_NEW(&t->scratch, shoal_nn_rule_t, 2 * (int64_t)t->recipe->group_count + 2);
  if (!t->states || !t->gradients || !t->rule_of || !t->rules) {
    shoal_model_fail(model, SHOAL_OOM());
    return false;
  }
  shoal_nn_check_patterns(t);
  if (!model->error) find_states(t);
  if (!model->error) shoal_nn_check_groups(t);
  shoal_gradients(graph, loss, t->count, t->states, t->gradients);
  if (!model->error) check_reached(t);
  return !model->error;
}

const char *shoal_nn_own_name(shoal_targets_t *t, const char *suffix) {
  const char *name = t->recipe->training.name;
  name = name ? shoal_arena_printf(&t->scratch, "/%s.%s", name, suffix)
              : shoal_arena_printf(&t->scratch, "/%s", suffix);
  if (!name) shoal_model_fail(t->graph->model, SHOAL_OOM());
  return name ? name : "/";
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
  shoal_nn_refuse(graph, "%s is %g, not in [0, %g)", name, value, below);
}

// The number of this step: the model's, or the optimizer's own.
static shoal_value_t count_steps(shoal_targets_t *t) {
  if (!t->recipe->training.name) return shoal_step(t->graph);
  shoal_value_t state =
      shoal_state(t->graph, shoal_nn_own_name(t, "step"), SHOAL_I64, SHOAL_SCALAR, NULL);
  shoal_scope_push(t->graph, shoal_nn_own_name(t, "step"));
  shoal_value_t next = shoal_add(t->graph, state, shoal_nn_number(t->graph, SHOAL_I64, 1));
  shoal_scope_pop(t->graph);
  shoal_assign(t->graph, state, next);
  return next;
}

void shoal_nn_optimize(const char *function, shoal_graph_t *graph, shoal_value_t loss,
                       const shoal_recipe_t *recipe, const shoal_muon_t *muon, const char *file,
                       int line) {
  if (!graph || graph->model->error) return;
  shoal_targets_t t = {.graph = graph, .recipe = recipe, .muon = muon};
  shoal_value_t scale = {0};
  shoal_site_push(graph, file, line);
  shoal_arena_init(graph->model->allocator, &t.scratch);
  shoal_nn_check_training(graph, &recipe->training);
  const bool trains = targets_init(&t, loss, &scale);
  shoal_kind_push(graph, SHOAL_NODE_UPDATE);
  if (trains) {
    t.step = count_steps(&t);
    shoal_nn_make_rates(&t);
    shoal_nn_treat_gradients(&t, scale);
  }
  for (t.at = 0; t.at < t.count && !graph->model->error; ++t.at) {
    const shoal_nn_rule_t *rule = &t.rules[t.rule_of[t.at]];
    push_update_scope(&t, t.at);
    t.lr = rule->lr;
    rule->optimizer->update(&t, t.at, &rule->numbers);
    shoal_nn_average(&t);
    shoal_scope_pop(graph);
  }
  shoal_kind_pop(graph);
  shoal_arena_deinit(&t.scratch);
  shoal_site_pop(graph);
  graph->model->error = shoal_status_annotate(graph->model->error, function);
}
