// What the optimizers share: the states they train, moments next to them, and the frame that makes
// gradients and asks for one update after the other. Private to nn/.
#ifndef SHOAL_NN_OPTIMIZER_H_
#define SHOAL_NN_OPTIMIZER_H_

#include "base/arena.h"
#include "nn/build.h"

typedef struct shoal_targets {
  shoal_graph_t *graph;
  shoal_arena_t scratch;
  int32_t count;
  shoal_value_t *states, *gradients;
  shoal_value_t lr, step;  // the step counts updates that were taken
  shoal_value_t finite;    // updates are taken where it is true; zero: always
  int32_t at;              // the parameter whose update is being written, and its next value
  shoal_value_t next;
} shoal_targets_t;

// Adds the update of parameter i, its moments and their assignments.
typedef void (*shoal_nn_update_fn_t)(shoal_targets_t *targets, int32_t i, void *options);

// Gradients of the loss by every trainable state that the graph reads and nobody froze, treated as
// `training` asks for, and the updates. lr is what the state "lr" starts with, unless lr_value is
// given.
void shoal_nn_minimize(shoal_graph_t *graph, shoal_value_t loss, double lr, shoal_value_t lr_value,
                       const shoal_training_t *training, shoal_nn_update_fn_t update,
                       void *options);

// The state "<parameter>#<suffix>", of the parameter's type, or of its dtype and another shape.
shoal_value_t shoal_nn_moment(shoal_targets_t *targets, int32_t i, const char *suffix);
shoal_value_t shoal_nn_moment_of(shoal_targets_t *targets, int32_t i, const char *suffix,
                                 shoal_shape_t shape);
// Assigns, where the update is taken.
void shoal_nn_put(shoal_targets_t *targets, shoal_value_t state, shoal_value_t value);

// Refuses a factor that is not in [0, below).
void shoal_nn_check_factor(shoal_graph_t *graph, const char *name, double value, double below);
static inline double shoal_nn_or(double value, double fallback) {
  return value != 0 ? value : fallback;
}

// ---- training.c ---------------------------------------------------------------------------------

void shoal_nn_check_training(shoal_graph_t *graph, const shoal_training_t *training);
// The loss to take gradients of, and what it was multiplied by; the loss itself and nothing where
// no scale is asked for.
shoal_value_t shoal_nn_scale_loss(shoal_graph_t *graph, shoal_value_t loss,
                                  const shoal_training_t *training, shoal_value_t *out_scale);
// Undoes the scale, clips, and decides whether updates are taken: sets gradients, finite and step.
void shoal_nn_treat_gradients(shoal_targets_t *targets, const shoal_training_t *training,
                              shoal_value_t scale);
// The moving average of the parameter whose update was just written.
void shoal_nn_average(shoal_targets_t *targets, const shoal_training_t *training);

#endif  // SHOAL_NN_OPTIMIZER_H_
