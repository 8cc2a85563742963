// Shoal, nn: how a model is trained. Recipes, optimizers, learning rate schedules, gradient
// clipping, moving averages of weights (EMA) and loss scales. All of them add nodes and states to a
// graph; nothing runs until a session runs that graph.
//
//   shoal_parameter_group_t groups[] = {{.pattern = "*/bias,*/gamma,*/beta", .no_decay = true}};
//   shoal_optimize(graph, loss, &(shoal_recipe_t){
//       .optimizer = "adamw", .lr = 3e-4, .weight_decay = 0.1,
//       .lr_schedule = {.kind = "cosine", .warmup = 100, .steps = 10000, .last_factor = 0.1},
//       .training = {.clip_norm = 1}, .groups = groups, .group_count = 1});
//
// All functions are *Not collective* and do not block. Like every graph builder they return no
// status: the model keeps the first error (shoal_model_status), which shoal_parallelize returns.
// Options, their arrays and strings are copied or used up before a call returns.
#ifndef SHOAL_OPTIMIZE_H_
#define SHOAL_OPTIMIZE_H_

#include "shoal/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

// A setting whose default differs between optimizers: SHOAL_ON, SHOAL_OFF, or zero for the default.
typedef enum shoal_switch { SHOAL_DEFAULT, SHOAL_ON, SHOAL_OFF } shoal_switch_t;

// What every optimizer can do besides its update. All zero: none of it. Norms are taken over all
// gradients of the loss together, however they are sharded.
typedef struct shoal_training {
  double clip_norm;  // scales all gradients down so that their L2 norm is at most this; as in
                     // PyTorch, 1e-6 is added to the norm first
  double clip_max;   // the same for the largest absolute value of an element
  double average;    // decay of a moving average of each parameter, the state "name#average", which
                     // starts as the parameter after its first update
  // Clips before ranks sum their gradients, not behind: each of the n ranks along the axes `data`
  // and `node` of a plan scales its own part of the sum down, by its own norm, to at most limit /
  // n. Where ranks have equally many rows, each clips the mean gradient of its rows to the limit,
  // and these are averaged. What other axes cut counts with all its parts. A plan with several such
  // ranks computes something else than one device does, and says so (shoal_plan_approximate). On
  // one of them it is the same as clipping behind.
  bool clip_before;
  // A dynamic loss scale. The loss is multiplied by the f32 state "loss_scale", which starts as
  // `loss_scale`, before gradients are taken, and the gradients are divided by it. A step whose
  // gradients are not all finite leaves parameters, moments and averages as they were, and
  // multiplies the scale by scale_backoff (0: 0.5); scale_interval (0: 2000) finite steps in a row
  // multiply it by scale_growth (0: 2). A growth and a backoff of 1 make the scale a fixed one. The
  // state "updates" counts the updates that were made; optimizers that correct for the number of
  // steps use that count.
  // Graphs that compute in f16 get a scale of 65536 unless another is given; no_loss_scale: none.
  double loss_scale, scale_growth, scale_backoff;
  int64_t scale_interval;
  bool no_loss_scale;
  // Trains only states whose names match this pattern ("discriminator/*"); NULL: all. This is for
  // several losses that each train their own states, in one graph or in several.
  const char *only;
  // Gives this optimizer a learning rate, count of steps and loss scale of its own: the states
  // "name.lr", "name.step", "name.loss_scale" and "name.updates". NULL: the model's "lr", "step"
  // and so on. This is for losses that are minimised at different rates, or in graphs that do not
  // take turns.
  const char *name;
} shoal_training_t;

// -------------------------------------------------------------------------------------------------
// Recipes: an optimizer by name, with its schedule, clipping and parameter groups, as data.
// -------------------------------------------------------------------------------------------------

// The learning rate schedule: in step t, counted from 0, the rate is the state "lr" times a factor
// of t. t is counted by the state "step", which is saved: a resumed run goes on where it was.
typedef struct shoal_lr_schedule {
  // "constant" (or NULL): 1.
  // "linear": falls from 1 to `last_factor` at `steps`.
  // "cosine": the same along half a cosine.
  // "step": multiplied by `gamma` after every `decay_every` steps.
  // "one_cycle": as torch.optim.lr_scheduler.OneCycleLR: rises from 1 / div to 1 in the first
  //   `rise` of `steps` and falls to 1 / (div final_div) by the last step.
  // "wsd" (warm-up, stable, decay): 1, and in the last `decay_steps` falls to `last_factor`.
  const char *kind;
  int64_t warmup;  // the factor rises from `first_factor` to 1 in this many steps before the kind
                   // begins; "step" counts from there. An error with one_cycle
  double first_factor;  // with a warm-up: the factor of step 0
  int64_t steps;       // of the whole training, warm-up included; later steps keep the last factor.
                       // linear, cosine, one_cycle and wsd need it
  double last_factor;  // linear, cosine, wsd: the factor at the end
  int64_t decay_every;  // step, which needs it
  double gamma;         // step; 0: 0.1
  int64_t decay_steps;  // wsd; 0: a tenth of the steps
  const char *curve;    // one_cycle: "cosine" (NULL) or "linear"; wsd: "linear" (NULL), "cosine" or
                        // "sqrt", which is 1 - sqrt(progress)
  double rise;          // one_cycle: share of the steps in which it rises; 0: 0.3
  double div;           // one_cycle; 0: 25
  double final_div;     // one_cycle; 0: 1e4
  bool three_phases;    // one_cycle: falls to 1 / div in as many steps as it rose, then to the end
} shoal_lr_schedule_t;

// Parameters that are trained differently from the rest. A state belongs to the last group that it
// matches; a group that no state belongs to is an error. A zero field takes the recipe's value, or,
// where the group names an optimizer, that optimizer's default.
typedef struct shoal_parameter_group {
  const char *pattern;  // of state names, several with commas between them ("*/bias,*/gamma");
                        // '*' matches anything. NULL: all
  // Matches only states with at least min_dims and at most max_dims dims; 0: no limit. 2 and 2 are
  // matrices, 0 and 1 vectors and scalars.
  int32_t min_dims, max_dims;
  bool frozen;       // not trained: no gradients, no moments
  double lr_factor;  // multiplies the recipe's learning rate; 0: 1
  // With a name, the group has its own learning rate: the state "name.lr", which starts as `lr`.
  // The recipe's lr_schedule applies to it too.
  const char *name;
  double lr;
  shoal_value_t lr_value;  // used instead of that state; zero: none
  double weight_decay;
  bool no_decay;
  const char *optimizer;
  double momentum, beta1, beta2, eps;
} shoal_parameter_group_t;

typedef struct shoal_recipe {
  // "adamw" (or NULL), "adam", "sgd", "lion", "lamb", "adafactor", "muon". Muon trains matrices
  // only: AdamW trains all other parameters, with the recipe's betas, eps and weight_decay, and
  // with the state "adamw.lr", which starts as 1e-3, as its learning rate.
  const char *optimizer;
  // For the optimizers that have them; zero: the optimizer's default (shoal_sgd_t, shoal_adam_t and
  // the others below).
  double lr, weight_decay, momentum, beta1, beta2, eps;
  shoal_switch_t nesterov;         // sgd, by default off, and muon, by default on
  double dampening;                // sgd
  double eps2, beta2_decay, clip;  // adafactor; its eps1 is eps
  int64_t orthogonal_steps;        // muon, like the next two; see shoal_muon_t
  const char *adjust;
  bool rows_are_outputs;
  shoal_value_t lr_value;  // used instead of the state "lr"; zero: none
  shoal_lr_schedule_t lr_schedule;
  shoal_training_t training;
  const shoal_parameter_group_t *groups;
  int32_t group_count;
} shoal_recipe_t;

// Adds backward and update nodes for every trainable state that the graph reads and that is not
// frozen, and a node that counts the step. A NULL recipe is AdamW with its defaults. Where
// recipe.lr_schedule is not constant, the graph gets the f32 output "rate" ("name.rate" with
// training.name): the learning rate of the step, without the factors of groups. A loss that depends
// on none of the states to train is an error.
SHOAL_API void shoal_optimize_at(shoal_graph_t *graph, shoal_value_t loss,
                                 const shoal_recipe_t *recipe, const char *file, int line);
#define shoal_optimize(graph, loss, ...) shoal_optimize_at(graph, loss, __VA_ARGS__, SHOAL_HERE)

// Makes the graph read moving averages ("name#average", see training.average) instead of the
// parameters that have one, for evaluation with averaged weights. Call it before the layers of this
// graph are built and after the graph that trains; averages hold values from the first training
// step on. In a model that no graph trains, every parameter is taken to have an average, which must
// be loaded from a checkpoint (shoal_load).
//
//   shoal_graph_t *eval = shoal_model_graph(model, "eval");
//   shoal_use_averages(eval);
//   shoal_output(eval, "logits", network(eval));
SHOAL_API void shoal_use_averages_at(shoal_graph_t *graph, const char *file, int line);
#define shoal_use_averages(graph) shoal_use_averages_at(graph, SHOAL_HERE)

// -------------------------------------------------------------------------------------------------
// Optimizers one by one: each is a recipe without groups and with a constant learning rate.
// -------------------------------------------------------------------------------------------------

// The learning rate is a value of the graph: lr_value if it is given, otherwise the f32 scalar
// state "lr", which starts as `lr` and which shoal_session_set may change between steps.
typedef struct shoal_sgd {
  double lr, momentum, weight_decay;  // zeros: 1e-2, none, none
  shoal_switch_t nesterov;            // by default off; needs a momentum
  double dampening;                   // as PyTorch: the momentum adds (1 - dampening) times each
                                      // gradient after the first
  shoal_value_t lr_value;             // zero: the state "lr"
  shoal_training_t training;
} shoal_sgd_t;
typedef struct shoal_adam {
  double lr, beta1, beta2, eps;  // zeros: 1e-3, 0.9, 0.999, 1e-8
  double weight_decay;           // L2: this times the parameter is added to the gradient
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_adam_t;
typedef struct shoal_adamw {
  double lr, beta1, beta2, eps, weight_decay;  // zeros: 1e-3, 0.9, 0.999, 1e-8, 0 (PyTorch: 0.01)
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
// As torch.optim.Adafactor: second moments of parameters with two dims or more are kept as one
// vector of rows and one of columns. `clip` is PyTorch's d.
typedef struct shoal_adafactor {
  double lr, beta2_decay;   // zeros: 1e-2, -0.8
  double eps1, eps2, clip;  // zeros: the type's epsilon, 1e-3, 1
  double weight_decay;
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_adafactor_t;
// As torch.optim.Muon, but in the parameter's own precision (PyTorch: bf16). It trains matrices.
// AdamW trains all other parameters, and matrices whose names match `except` ("*embedding*"); its
// learning rate is the f32 scalar state "adamw.lr", or adamw.lr_value. adamw.training is not read.
typedef struct shoal_muon {
  double lr, momentum, weight_decay;  // zeros: 1e-3, 0.95, none
  shoal_switch_t nesterov;            // by default on
  int64_t orthogonal_steps;           // Newton-Schulz rounds that make the update orthogonal; 0: 5
  const char *adjust;     // how the rate depends on the shape, see `shoal ops muon_update`; NULL:
                          // "original"
  bool rows_are_outputs;  // weights are [out, in], not [in, out] as those of shoal_nn_linear
  const char *except;
  shoal_adamw_t adamw;
  shoal_value_t lr_value;
  shoal_training_t training;
} shoal_muon_t;

// Each is shoal_optimize with one optimizer; shoal_minimize is AdamW. NULL options are the
// defaults. Moments are states next to their parameter: "name#adamw.m", "name#adamw.v",
// "name#adam.m", "name#adam.v", "name#sgd.momentum", "name#lion.m", "name#lamb.m", "name#lamb.v",
// "name#adafactor.rows" and ".cols" or "name#adafactor.v", "name#muon.m".
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
