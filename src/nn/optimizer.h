// What the optimizers share: the states they train, how each of them is trained, moments next to
// them, and the frame that makes gradients and asks for one update after the other. Private to nn/.
#ifndef SHOAL_NN_OPTIMIZER_H_
#define SHOAL_NN_OPTIMIZER_H_

#include "base/arena.h"
#include "nn/build.h"

typedef struct shoal_targets shoal_targets_t;

typedef struct shoal_nn_optimizer {
  const char *name;
  double lr;  // the usual one
  // Adds the update of parameter i, its moments and their assignments.
  void (*update)(shoal_targets_t *targets, int32_t i, const shoal_recipe_t *numbers);
  // Refuses numbers that only this optimizer has. Optional.
  void (*check)(shoal_graph_t *graph, const shoal_recipe_t *numbers);
} shoal_nn_optimizer_t;

// The optimizer of that name (NULL: AdamW), or NULL, and the model has failed.
const shoal_nn_optimizer_t *shoal_nn_optimizer_find(shoal_graph_t *graph, const char *name);

// How the parameters of a group are trained.
typedef struct shoal_nn_rule {
  const shoal_parameter_group_t *group;   // NULL: of those in no group
  const shoal_nn_optimizer_t *optimizer;  // NULL: not looked at yet
  shoal_recipe_t numbers;                 // the recipe, with what the group says instead
  shoal_value_t lr;                       // of this step
} shoal_nn_rule_t;

struct shoal_targets {
  shoal_graph_t *graph;
  shoal_arena_t scratch;
  const shoal_recipe_t *recipe;
  const shoal_muon_t *muon;  // what shoal_minimize_muon was told; NULL: it was not called
  shoal_nn_rule_t *rules;    // two per group: rule 2 k + 1 is for what rule 2 k cannot train
  int32_t count;
  shoal_value_t *states, *gradients;
  int32_t *rule_of;  // by parameter
  shoal_value_t lr,
      step;              // of the parameter being written; the step counts updates that were taken
  shoal_value_t finite;  // updates are taken where it is true; zero: always
  int32_t at;            // the parameter whose update is being written, and its next value
  shoal_value_t next;
};

// Gradients of the loss by every trainable state that the graph reads and nobody froze, treated as
// the recipe asks for, and the updates. `muon` may be NULL. Errors begin with `function`, the name
// of what the user called.
void shoal_nn_optimize(const char *function, shoal_graph_t *graph, shoal_value_t loss,
                       const shoal_recipe_t *recipe, const shoal_muon_t *muon, const char *file,
                       int line);

// The state "<parameter>#<suffix>", of the parameter's type, or of its dtype and another shape.
shoal_value_t shoal_nn_moment(shoal_targets_t *targets, int32_t i, const char *suffix);
shoal_value_t shoal_nn_moment_of(shoal_targets_t *targets, int32_t i, const char *suffix,
                                 shoal_shape_t shape);
// Assigns, where the update is taken.
void shoal_nn_put(shoal_targets_t *targets, shoal_value_t state, shoal_value_t value);

// "/<suffix>", or "/<training.name>.<suffix>": names of what an optimizer has once. Never NULL.
const char *shoal_nn_own_name(shoal_targets_t *targets, const char *suffix);

// Refuses a factor that is not in [0, below).
void shoal_nn_check_factor(shoal_graph_t *graph, const char *name, double value, double below);
static inline double shoal_nn_or(double value, double fallback) {
  return value != 0 ? value : fallback;
}
// A scalar constant, and x in another dtype if it is not in it already.
shoal_value_t shoal_nn_number(shoal_graph_t *graph, shoal_dtype_t dtype, double value);
shoal_value_t shoal_nn_cast(shoal_graph_t *graph, shoal_value_t x, shoal_dtype_t dtype);

// ---- groups.c -----------------------------------------------------------------------------------

// The rule for a state, an index into rules; -1: the state is frozen, or there is an error.
int32_t shoal_nn_rule_for(shoal_targets_t *targets, const char *state, shoal_shape_t shape);
// Refuses patterns that are no regular expressions, and groups that no trainable state belongs to.
void shoal_nn_check_patterns(shoal_targets_t *targets);
void shoal_nn_check_groups(shoal_targets_t *targets);
// Learning rates of all rules that a parameter has, and the output "rate".
void shoal_nn_make_rates(shoal_targets_t *targets);

// ---- lr_schedule.c ------------------------------------------------------------------------------

// The factor of the learning rate, an f64 scalar; shoal_none() where it is constant, or refused.
shoal_value_t shoal_nn_lr_factor(shoal_graph_t *graph, const shoal_lr_schedule_t *rate,
                                 shoal_value_t step);

// ---- training.c ---------------------------------------------------------------------------------

void shoal_nn_check_training(shoal_graph_t *graph, const shoal_training_t *training);
// The loss to take gradients of, and what it was multiplied by; the loss itself and nothing where
// no scale is asked for.
shoal_value_t shoal_nn_scale_loss(shoal_targets_t *targets, shoal_value_t loss,
                                  shoal_value_t *out_scale);
// Undoes the scale, clips, and decides whether updates are taken: sets gradients, finite and step.
void shoal_nn_treat_gradients(shoal_targets_t *targets, shoal_value_t scale);
// The moving average of the parameter whose update was just written.
void shoal_nn_average(shoal_targets_t *targets);

#endif  // SHOAL_NN_OPTIMIZER_H_
