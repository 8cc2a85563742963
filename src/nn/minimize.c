// Recipes, and the optimizers one by one, each of which is a recipe.
#include "nn/optimizer.h"

void shoal_optimize_at(shoal_graph_t *graph, shoal_value_t loss, const shoal_recipe_t *recipe,
                       const char *file, int line) {
  static const shoal_recipe_t defaults = {0};
  shoal_nn_optimize("optimize", graph, loss, recipe ? recipe : &defaults, NULL, file, line);
}

// A function that makes a recipe of its options `o`: the numbers that all optimizers have, and
// those that follow. `muon` is NULL or &o.
#define OPTIMIZER(function, called, optimizer_, options_t, muon, ...)               \
  void function(shoal_graph_t *graph, shoal_value_t loss, const options_t *options, \
                const char *file, int line) {                                       \
    const options_t o = options ? *options : (options_t){0};                        \
    const shoal_recipe_t recipe = {.optimizer = optimizer_,                         \
                                   .lr = o.lr,                                      \
                                   .weight_decay = o.weight_decay,                  \
                                   .lr_value = o.lr_value,                          \
                                   .training = o.training,                          \
                                   __VA_ARGS__};                                    \
    shoal_nn_optimize(called, graph, loss, &recipe, muon, file, line);              \
  }

OPTIMIZER(shoal_minimize_at, "minimize", "adamw", shoal_adamw_t, NULL, .beta1 = o.beta1,
          .beta2 = o.beta2, .eps = o.eps)
OPTIMIZER(shoal_minimize_adam_at, "minimize_adam", "adam", shoal_adam_t, NULL, .beta1 = o.beta1,
          .beta2 = o.beta2, .eps = o.eps)
OPTIMIZER(shoal_minimize_lamb_at, "minimize_lamb", "lamb", shoal_lamb_t, NULL, .beta1 = o.beta1,
          .beta2 = o.beta2, .eps = o.eps)
OPTIMIZER(shoal_minimize_lion_at, "minimize_lion", "lion", shoal_lion_t, NULL, .beta1 = o.beta1,
          .beta2 = o.beta2)
OPTIMIZER(shoal_minimize_sgd_at, "minimize_sgd", "sgd", shoal_sgd_t, NULL, .momentum = o.momentum,
          .nesterov = o.nesterov, .dampening = o.dampening)
OPTIMIZER(shoal_minimize_adafactor_at, "minimize_adafactor", "adafactor", shoal_adafactor_t, NULL,
          .beta2_decay = o.beta2_decay, .eps = o.eps1, .eps2 = o.eps2, .clip = o.clip)
OPTIMIZER(shoal_minimize_muon_at, "minimize_muon", "muon", shoal_muon_t, &o, .momentum = o.momentum,
          .nesterov = o.nesterov, .orthogonal_steps = o.orthogonal_steps, .adjust = o.adjust,
          .rows_are_outputs = o.rows_are_outputs)
