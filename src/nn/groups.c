// Parameter groups of a recipe: which group a state belongs to, the numbers its optimizer then has,
// and its learning rate.
#include <math.h>
#include <string.h>

#include "base/locale.h"
#include "graph/builder.h"
#include "nn/optimizer.h"
#include "shoal/options.h"

static const shoal_parameter_group_t NO_GROUP = {0};

static bool matches_one_of(shoal_targets_t *t, const char *patterns, const char *name) {
  for (const char *at = patterns; *at;) {
    const size_t length = shoal_pattern_length(at);
    const char *pattern = shoal_arena_printf(&t->scratch, "%.*s", (int)length, at);
    if (!pattern) shoal_model_fail(t->graph->model, SHOAL_OOM());
    if (pattern && shoal_pattern_match(pattern, name)) return true;
    at += length + (at[length] == ',');
  }
  return false;
}

static bool belongs(shoal_targets_t *t, const shoal_parameter_group_t *group, const char *name,
                    int32_t dims) {
  if (dims < group->min_dims || (group->max_dims && dims > group->max_dims)) return false;
  return !group->pattern || matches_one_of(t, group->pattern, name);
}

// ---- rules --------------------------------------------------------------------------------------

// What the group says instead of the recipe.
static shoal_recipe_t numbers_of(const shoal_recipe_t *recipe,
                                 const shoal_parameter_group_t *group) {
  shoal_recipe_t n = *recipe;
  const double *in[] = {&group->weight_decay, &group->momentum, &group->beta1, &group->beta2,
                        &group->eps};
  double *out[] = {&n.weight_decay, &n.momentum, &n.beta1, &n.beta2, &n.eps};
  for (int32_t k = 0; k < 5; ++k) {
    if (group->optimizer || *in[k] != 0) *out[k] = *in[k];
  }
  if (group->optimizer) n.optimizer = group->optimizer;
  if (group->no_decay) n.weight_decay = 0;
  return n;
}

static void check_numbers(shoal_graph_t *graph, const shoal_nn_rule_t *rule) {
  const shoal_recipe_t *n = &rule->numbers;
  shoal_nn_check_factor(graph, "lr", n->lr, INFINITY);
  shoal_nn_check_factor(graph, "weight_decay", n->weight_decay, INFINITY);
  shoal_nn_check_factor(graph, "momentum", n->momentum, INFINITY);
  shoal_nn_check_factor(graph, "beta1", n->beta1, 1);
  shoal_nn_check_factor(graph, "beta2", n->beta2, 1);
  shoal_nn_check_factor(graph, "eps", n->eps, INFINITY);
  if (rule->optimizer->check) rule->optimizer->check(graph, n);
  if (!rule->group) return;
  shoal_nn_check_factor(graph, "lr of a group", rule->group->lr, INFINITY);
  shoal_nn_check_factor(graph, "lr_factor", rule->group->lr_factor, INFINITY);
  if (rule->group->lr != 0 && !rule->group->name) {
    shoal_nn_refuse_hint(graph, "give it a name, or a factor of the recipe's rate: lr_factor",
                         "a group with a learning rate of its own has no name");
  }
}

// Fills in a rule when a state asks for it first.
static void prepare(shoal_targets_t *t, int32_t index) {
  shoal_nn_rule_t *rule = &t->rules[index];
  if (rule->optimizer) return;
  rule->group = index >= 2 ? &t->recipe->groups[index / 2 - 1] : NULL;
  rule->numbers = numbers_of(t->recipe, rule->group ? rule->group : &NO_GROUP);
  if (index % 2) {  // AdamW's, of what Muon cannot train
    rule->numbers.optimizer = "adamw";
    if (t->muon) {
      const shoal_adamw_t *adamw = &t->muon->adamw;
      rule->numbers.lr = adamw->lr;
      rule->numbers.beta1 = adamw->beta1;
      rule->numbers.beta2 = adamw->beta2;
      rule->numbers.eps = adamw->eps;
      rule->numbers.weight_decay = adamw->weight_decay;
    }
  }
  rule->optimizer = shoal_nn_optimizer_find(t->graph, rule->numbers.optimizer);
  if (rule->optimizer) check_numbers(t->graph, rule);
}

int32_t shoal_nn_rule_for(shoal_targets_t *t, const char *state, shoal_shape_t shape) {
  int32_t g = t->recipe->group_count;
  while (g > 0 && !belongs(t, &t->recipe->groups[g - 1], state, shape.rank)) --g;
  if (t->graph->model->error) return -1;
  prepare(t, 2 * g);
  if (t->graph->model->error || (g > 0 && t->recipe->groups[g - 1].frozen)) return -1;
  const bool excepted = t->muon && t->muon->except && shoal_pattern_match(t->muon->except, state);
  if (strcmp(t->rules[2 * g].optimizer->name, "muon") != 0) return 2 * g;
  if (shape.rank == 2 && !excepted) return 2 * g;
  prepare(t, 2 * g + 1);
  return 2 * g + 1;
}

// The names of all states that are trained, for a hint; the count of them.
static int64_t names_of(shoal_targets_t *t, const char ***out_names) {
  const shoal_model_t *model = t->graph->model;
  const char **names = SHOAL_NEW(&t->scratch, const char *, model->states.count);
  int64_t count = 0;
  for (int64_t i = 0; names && i < model->states.count; ++i) {
    if (model->states.items[i].options.trainable) names[count++] = model->states.items[i].name;
  }
  *out_names = names;
  return count;
}

static shoal_status_t check_patterns(shoal_targets_t *t, const char *patterns) {
  for (const char *at = patterns; at && *at;) {
    const size_t length = shoal_pattern_length(at);
    const char *pattern = shoal_arena_printf(&t->scratch, "%.*s", (int)length, at);
    if (!pattern) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(shoal_pattern_check(pattern));
    at += length + (at[length] == ',');
  }
  return NULL;
}

void shoal_nn_check_patterns(shoal_targets_t *t) {
  const char *only = t->recipe->training.only, *except = t->muon ? t->muon->except : NULL;
  shoal_status_t status = only ? shoal_pattern_check(only) : NULL;
  if (!status && except) status = shoal_pattern_check(except);
  for (int32_t g = 0; g < t->recipe->group_count && !status; ++g)
    status = check_patterns(t, t->recipe->groups[g].pattern);
  shoal_model_fail(t->graph->model, status);
}

void shoal_nn_check_groups(shoal_targets_t *t) {
  for (int32_t g = 0; g < t->recipe->group_count; ++g) {
    if (t->rules[2 * g + 2].optimizer) continue;
    const shoal_parameter_group_t *group = &t->recipe->groups[g];
    const char *pattern = group->pattern ? group->pattern : "*", **names;
    const int64_t count = names_of(t, &names);
    const char *otherwise =
        shoal_arena_printf(&t->scratch,
                           "states have names such as '%.80s'; a state that several "
                           "groups match belongs to the last",
                           shoal_value_name(t->states[0]));
    shoal_hint_t hint;
    shoal_nn_refuse_hint(t->graph, shoal_did_you_mean(pattern, names, count, otherwise, &hint),
                         "no trainable state belongs to the group '%s'", pattern);
    return;
  }
}

// ---- learning rates -----------------------------------------------------------------------------

// A state that starts as `lr`. Two optimizers that share it must agree.
static shoal_value_t rate_state(shoal_targets_t *t, const char *suffix, double lr) {
  const char *name = shoal_nn_own_name(t, suffix);
  const shoal_model_t *model = t->graph->model;
  const int32_t known = shoal_model_find_state(model, name + 1);
  const shoal_state_options_t options = {.init = {SHOAL_INIT_FILL, lr, 0}};
  if (known >= 0 && model->states.items[known].options.init.a != lr) {
    shoal_nn_refuse_hint(t->graph, "training.name gives each its own",
                         "the learning rate '%s' starts as %g already, and cannot as %g", name + 1,
                         model->states.items[known].options.init.a, lr);
  }
  return shoal_state(t->graph, name, SHOAL_F32, SHOAL_SCALAR, &options);
}

static shoal_value_t base_of(shoal_targets_t *t, int32_t index) {
  const shoal_nn_rule_t *rule = &t->rules[index];
  const shoal_parameter_group_t *group = rule->group ? rule->group : &NO_GROUP;
  const shoal_recipe_t *recipe = t->recipe;
  if (index % 2) {
    if (t->muon && t->muon->adamw.lr_value.graph) return t->muon->adamw.lr_value;
    return rate_state(
        t, "adamw.lr",
        t->muon ? shoal_nn_or(t->muon->adamw.lr, rule->optimizer->lr) : rule->optimizer->lr);
  }
  if (group->lr_value.graph) return group->lr_value;
  if (group->lr != 0) {
    const char *suffix = shoal_arena_printf(&t->scratch, "%s.lr", group->name);
    if (!suffix) shoal_model_fail(t->graph->model, SHOAL_OOM());
    return suffix ? rate_state(t, suffix, group->lr) : shoal_none();
  }
  if (recipe->lr_value.graph) return recipe->lr_value;
  const shoal_nn_optimizer_t *main = shoal_nn_optimizer_find(t->graph, recipe->optimizer);
  return main ? rate_state(t, "lr", shoal_nn_or(recipe->lr, main->lr)) : shoal_none();
}

// base * rate * factor, an f32 scalar; base itself where both are 1.
static shoal_value_t rate_of(shoal_targets_t *t, shoal_value_t base, shoal_value_t rate,
                             double factor) {
  if (!rate.graph && factor == 1) return base;
  shoal_graph_t *graph = t->graph;
  shoal_value_t value = shoal_nn_cast(graph, base, SHOAL_F64);
  if (rate.graph) value = shoal_mul(graph, value, rate);
  if (factor != 1) value = shoal_affine(graph, value, factor, 0);
  return shoal_cast(graph, value, SHOAL_F32);
}

void shoal_nn_make_rates(shoal_targets_t *t) {
  shoal_graph_t *graph = t->graph;
  shoal_scope_push(graph, shoal_nn_own_name(t, "rate"));
  const shoal_value_t rate = shoal_nn_lr_factor(graph, &t->recipe->lr_schedule, t->step);
  prepare(t, 0);
  const shoal_value_t base = base_of(t, 0);  // the state is there even if no parameter uses it
  if (rate.graph) {
    const shoal_value_t value = rate_of(t, base, rate, 1);
    shoal_output(graph, shoal_nn_own_name(t, "rate") + 1, value);
  }
  for (int32_t i = 0; i < t->count && !graph->model->error; ++i) {
    shoal_nn_rule_t *rule = &t->rules[t->rule_of[i]];
    if (rule->lr.graph) continue;
    const double factor = rule->group ? shoal_nn_or(rule->group->lr_factor, 1) : 1;
    rule->lr = rate_of(t, base_of(t, t->rule_of[i]), rate, factor);
  }
  shoal_scope_pop(graph);
}
