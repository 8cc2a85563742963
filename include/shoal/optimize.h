// Shoal, nn: how a model is trained. Recipes, optimizers, learning rates over time, clipping,
// averages and loss scales. All of it is nodes and states that are added to a graph.
//
//   shoal_parameter_group_t groups[] = {{.pattern = "*/bias,*/gamma,*/beta", .no_decay = true}};
//   shoal_optimize(graph, loss, &(shoal_recipe_t){
//       .optimizer = "adamw", .lr = 3e-4, .weight_decay = 0.1,
//       .rate = {.kind = "cosine", .warmup = 100, .steps = 10000, .last = 0.1},
//       .training = {.clip_norm = 1}, .groups = groups, .group_count = 1});
//
// All functions are *Not collective* and do not block; what is wrong is an error of the model
// (shoal_model_status).
#ifndef SHOAL_OPTIMIZE_H_
#define SHOAL_OPTIMIZE_H_

#include "shoal/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// What every optimizer may do besides its update. Zeros: none of it. Norms are those of all
// gradients of the loss together, however they are cut.
typedef struct shoal_training {
  double clip_norm;  // scales gradients down so that the root of the sum of their squares, plus
                     // 1e-6, is at most this
  double clip_max;   // likewise for the largest of their absolute elements
  double average;    // decay of a moving average of each parameter, the state "name#average", which
                     // starts as the parameter after its first update
  // Gradients are taken of the loss times the f32 state "loss_scale", which starts as this, and
  // divided by it. After a step with gradients that are not all finite, parameters, moments and
  // averages stay as they were, and the scale takes scale_backoff (0: 0.5) of itself;
  // scale_interval (0: 2000) finite steps in a row multiply it by scale_growth (0: 2). The state
  // "updates" counts updates that were taken; optimizers that count steps count those.
  // Graphs that compute in f16 have a loss scale of 65536 unless another is given, or none wanted.
  double loss_scale, scale_growth, scale_backoff;
  int64_t scale_interval;
  bool no_loss_scale;
  // Trains only states whose names match this pattern ("discriminator/*"); NULL: all. For two
  // losses, each of which trains states of its own: in one graph, or in two.
  const char *only;
  // Its own learning rate, count of steps and loss scale: states "name.lr", "name.step",
  // "name.loss_scale" and "name.updates"; NULL: the model's "lr", "step" and so on. For two losses
  // that are minimised at different rates, or in graphs that do not run in turn.
  const char *name;
} shoal_training_t;

// -------------------------------------------------------------------------------------------------
// Recipes: an optimizer by name with all that belongs to it, as data.
// -------------------------------------------------------------------------------------------------

// How the learning rate changes with the steps: in step t, counted from 0, it is the state "lr"
// times a factor. Steps are those of the state "step", so a resumed run goes on where it was.
typedef struct shoal_rate {
  // "constant" (or NULL): 1.
  // "linear": falls from 1 to `last` at `steps`.
  // "cosine": the same along half a cosine.
  // "step": is multiplied by `gamma` after every `every` steps.
  // "one_cycle": as torch.optim.lr_scheduler.OneCycleLR: rises from 1 / div to 1 in the first
  //   `rise` of `steps` and falls to 1 / (div final_div) by the last step.
  // "wsd": 1 until `decay` steps before `steps`, then falls to `last` (warm-up, stable, decay).
  const char *kind;
  int64_t warmup;     // before all else, but not with one_cycle: rises from `first` to 1 in so many
                      // steps. step counts from behind them
  double first;       // the factor of step 0 where there is a warm-up
  int64_t steps;      // of the whole, warm-up included; later steps have the last factor
  double last;        // linear, cosine, wsd: the factor at the end
  int64_t every;      // step
  double gamma;       // step; 0: 0.1
  int64_t decay;      // wsd; 0: a tenth of the steps
  const char *curve;  // one_cycle: "cosine" (NULL) or "linear"; wsd: "linear" (NULL), "cosine" or
                      // "sqrt", which is 1 - sqrt(progress)
  double rise;        // one_cycle: share of the steps in which it rises; 0: 0.3
  double div;         // one_cycle; 0: 25
  double final_div;   // one_cycle; 0: 1e4
  bool three_phases;  // one_cycle: falls to 1 / div as fast as it rose, and then on
} shoal_rate_t;

// Parameters that are trained otherwise than the others. A state belongs to the last group that it
// matches; one that no state belongs to is an error. Zeros: as the recipe says, but where the group
// names an optimizer, that optimizer's defaults.
typedef struct shoal_parameter_group {
  const char *pattern;  // of state names, with commas between several ("*/bias,*/gamma"); '*'
                        // matches anything. NULL: all
  int32_t min_dims, max_dims;  // matches only states with so many dims; 0: any number. 2 and 2 are
                               // matrices, 0 and 1 vectors and scalars
  bool frozen;                 // not trained: no gradients, no moments
  double lr_factor;            // times the recipe's learning rate; 0: 1
  // A learning rate of its own: the state "name.lr" starts as lr. The recipe's `rate` counts too.
  const char *name;
  double lr;
  shoal_value_t lr_value;  // in place of that state; zero: none
  double weight_decay;
  bool no_decay;
  const char *optimizer;
  double momentum, beta1, beta2, eps;
} shoal_parameter_group_t;

typedef struct shoal_recipe {
  // "adamw" (or NULL), "adam", "sgd", "lion", "lamb", "adafactor", "muon". Muon trains matrices;
  // what has not two dims is trained by AdamW with the recipe's betas, eps and weight_decay, whose
  // learning rate is the state "adamw.lr", at first 1e-3.
  const char *optimizer;
  // Of the optimizers that have them; zeros: their defaults (shoal_sgd_t, shoal_adam_t ...).
  double lr, weight_decay, momentum, beta1, beta2, eps;
  bool nesterov;                   // sgd
  double dampening;                // sgd
  double eps2, beta2_decay, clip;  // adafactor; its eps1 is eps
  bool no_nesterov;                // muon, as all that follows
  int64_t orthogonal_steps;        // rounds that make directions orthogonal; 0: 5
  const char *adjust;
  bool rows_are_outputs;
  shoal_value_t lr_value;  // in place of the state "lr"; zero: none
  shoal_rate_t rate;
  shoal_training_t training;
  const shoal_parameter_group_t *groups;
  int32_t group_count;
} shoal_recipe_t;

// Adds backward and update nodes as the recipe says for every trainable state that the graph reads
// and nobody froze, and counts the step. The recipe may be NULL: AdamW. Where recipe.rate is not
// constant, the graph gets the f32 output "rate": the learning rate of the step, without factors of
// groups. With training.name it is "name.rate".
SHOAL_API void shoal_optimize_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_recipe_t *recipe, const char *file, int line);
#define shoal_optimize(graph, loss, ...) shoal_optimize_at(graph, loss, __VA_ARGS__, SHOAL_HERE)

// From here on the graph reads moving averages (training.average, "name#average") in place of the
// parameters that have one: for evaluation with averaged weights. Called before the layers, after
// the graph that trains was built; averages are worth something after its first step. In a model
// that no graph trains all parameters have one, which is to be loaded (shoal_load).
//
//   shoal_graph_t *eval = shoal_model_graph(model, "eval");
//   shoal_use_averages(eval);
//   shoal_output(eval, "logits", network(eval));
SHOAL_API void shoal_use_averages_at(shoal_graph_t *graph, const char *file, int line);
#define shoal_use_averages(graph) shoal_use_averages_at(graph, SHOAL_HERE)

// -------------------------------------------------------------------------------------------------
// Optimizers one by one: each is a recipe without groups and with a constant rate.
// -------------------------------------------------------------------------------------------------

// Optimizers. lr is a value: the f32 scalar state "lr" (set with shoal_session_set), or lr_value if
// given.
typedef struct shoal_sgd {
  double lr, momentum, weight_decay;  // zeros: 1e-2, none, none
  bool nesterov;                      // needs a momentum
  double dampening;                   // what the momentum does not take of a gradient but the first
  shoal_value_t lr_value;             // zero: state "lr", initially .lr
  shoal_training_t training;
} shoal_sgd_t;
typedef struct shoal_adam {
  double lr, beta1, beta2, eps;  // zeros: 1e-3, 0.9, 0.999, 1e-8
  double weight_decay;           // times the parameter is added to the gradient
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_adam_t;
typedef struct shoal_adamw {
  double lr, beta1, beta2, eps, weight_decay;  // zeros: 1e-3, 0.9, 0.999, 1e-8, 0
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_adamw_t;
typedef struct shoal_lion {
  double lr, beta1, beta2, weight_decay;  // zeros: 1e-4, 0.9, 0.99, 0
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_lion_t;
typedef struct shoal_lamb {
  double lr, beta1, beta2, eps, weight_decay;  // zeros: 1e-3, 0.9, 0.999, 1e-6, 0
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_lamb_t;
// As torch.optim.Adafactor: second moments of parameters with two dims or more are kept by row and
// by column. clip is its d.
typedef struct shoal_adafactor {
  double lr, beta2_decay;   // zeros: 1e-2, -0.8
  double eps1, eps2, clip;  // zeros: the type's epsilon, 1e-3, 1
  double weight_decay;
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_adafactor_t;
// As torch.optim.Muon, in the parameter's own precision: trains matrices. What has not two dims,
// and matrices whose name matches `except` ("*embedding*"), are trained by AdamW, whose learning
// rate is the f32 scalar state "adamw.lr" or adamw.lr_value; adamw.training is not read.
typedef struct shoal_muon {
  double lr, momentum, weight_decay;  // zeros: 1e-3, 0.95, none
  bool no_nesterov;
  int64_t steps;          // rounds that make directions orthogonal; 0: 5
  const char *adjust;     // shoal.muon_update's; NULL: "original"
  bool rows_are_outputs;  // weights are [out, in], not [in, out] as those of shoal_nn_linear
  const char *except;
  shoal_adamw_t adamw;
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_muon_t;

// Adds backward and update nodes for every trainable state the graph reads that is not frozen, and
// counts the step. shoal_minimize is AdamW. Moments are states next to their parameter:
// "name#adamw.m", "name#adamw.v", "name#adam.m", "name#adam.v", "name#sgd.momentum", "name#lion.m",
// "name#lamb.m", "name#lamb.v", "name#adafactor.rows" and ".cols" or "name#adafactor.v",
// "name#muon.m". Options may be NULL.
SHOAL_API void shoal_minimize_sgd_at(shoal_graph_t *graph, shoal_value_t loss,
                                     const shoal_sgd_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_adam_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_adam_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_lion_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_lion_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_lamb_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_lamb_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_adafactor_at(shoal_graph_t *graph, shoal_value_t loss,
                                           const shoal_adafactor_t *options, const char *file,
                                           int line);
SHOAL_API void shoal_minimize_muon_at(shoal_graph_t *graph, shoal_value_t loss,
                                      const shoal_muon_t *options, const char *file, int line);
SHOAL_API void shoal_minimize_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_adamw_t *options, const char *file, int line);
#define shoal_minimize_sgd(graph, loss, ...) \
  shoal_minimize_sgd_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_adam(graph, loss, ...) \
  shoal_minimize_adam_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_lion(graph, loss, ...) \
  shoal_minimize_lion_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_lamb(graph, loss, ...) \
  shoal_minimize_lamb_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_adafactor(graph, loss, ...) \
  shoal_minimize_adafactor_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize_muon(graph, loss, ...) \
  shoal_minimize_muon_at(graph, loss, __VA_ARGS__, SHOAL_HERE)
#define shoal_minimize(graph, loss, ...) shoal_minimize_at(graph, loss, __VA_ARGS__, SHOAL_HERE)

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_OPTIMIZE_H_
