// Recipes, and the optimizers one by one, each of which is a recipe.
#include "nn/optimizer.h"

void shoal_optimize_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_recipe_t *recipe,
                       const char *file, int line) {
  static const shoal_recipe_t defaults = {0};
  shoal_nn_optimize(graph, loss, recipe ? recipe : &defaults, NULL, file, line);
}

void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_sgd_t *options,
                           const char *file, int line) {
  const shoal_sgd_t o = options ? *options : (shoal_sgd_t){0};
  const shoal_recipe_t recipe = {.optimizer = "sgd",
                                 .lr = o.lr,
                                 .momentum = o.momentum,
                                 .weight_decay = o.weight_decay,
                                 .nesterov = o.nesterov,
                                 .dampening = o.dampening,
                                 .lr_value = o.lr_value,
                                 .training = o.training};
  shoal_nn_optimize(graph, loss, &recipe, NULL, file, line);
}

// Adam, AdamW and LAMB have the same numbers; Lion has no eps.
#define ADAM(function, name, options_t, eps_)                                       \
  void function(shoal_graph_t *graph, shoal_value_t loss, const options_t *options, \
                const char *file, int line) {                                       \
    const options_t o = options ? *options : (options_t){0};                        \
    const shoal_recipe_t recipe = {.optimizer = name,                               \
                                   .lr = o.lr,                                      \
                                   .beta1 = o.beta1,                                \
                                   .beta2 = o.beta2,                                \
                                   .eps = eps_,                                     \
                                   .weight_decay = o.weight_decay,                  \
                                   .lr_value = o.lr_value,                          \
                                   .training = o.training};                         \
    shoal_nn_optimize(graph, loss, &recipe, NULL, file, line);                      \
  }

ADAM(shoal_minimize_at, "adamw", shoal_adamw_t, o.eps)
ADAM(shoal_minimize_adam_at, "adam", shoal_adam_t, o.eps)
ADAM(shoal_minimize_lamb_at, "lamb", shoal_lamb_t, o.eps)
ADAM(shoal_minimize_lion_at, "lion", shoal_lion_t, 0)

void shoal_minimize_adafactor_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_adafactor_t *options, const char *file, int line) {
  const shoal_adafactor_t o = options ? *options : (shoal_adafactor_t){0};
  const shoal_recipe_t recipe = {.optimizer = "adafactor",
                                 .lr = o.lr,
                                 .beta2_decay = o.beta2_decay,
                                 .eps = o.eps1,
                                 .eps2 = o.eps2,
                                 .clip = o.clip,
                                 .weight_decay = o.weight_decay,
                                 .lr_value = o.lr_value,
                                 .training = o.training};
  shoal_nn_optimize(graph, loss, &recipe, NULL, file, line);
}

void shoal_minimize_muon_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_muon_t *options,
                            const char *file, int line) {
  const shoal_muon_t o = options ? *options : (shoal_muon_t){0};
  const shoal_recipe_t recipe = {.optimizer = "muon",
                                 .lr = o.lr,
                                 .momentum = o.momentum,
                                 .weight_decay = o.weight_decay,
                                 .no_nesterov = o.no_nesterov,
                                 .orthogonal_steps = o.steps,
                                 .adjust = o.adjust,
                                 .rows_are_outputs = o.rows_are_outputs,
                                 .lr_value = o.lr_value,
                                 .training = o.training};
  shoal_nn_optimize(graph, loss, &recipe, &o, file, line);
}
