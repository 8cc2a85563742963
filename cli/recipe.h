// How a model is trained, as options: what every command that builds a zoo model shares.
#ifndef SHOAL_CLI_RECIPE_H_
#define SHOAL_CLI_RECIPE_H_

#include "shoal/optimize.h"
#include "shoal/options.h"

typedef struct cli_recipe_options {
  const char *optimizer, *lr_schedule, *curve;
  double weight_decay, momentum, beta1, beta2, clip_norm, clip_max, average, loss_scale;
  double last_factor, gamma;
  int64_t warmup, lr_schedule_steps, decay_every, decay_steps;
  int nesterov;  // shoal_switch_t
  bool clip_before;
  shoal_words_t group, freeze;
} cli_recipe_options_t;

extern const char *const cli_switch[];  // names of shoal_switch_t

// Rows for an option table, made by ROW(type, kind, field, default, doc, ...).
#define CLI_RECIPE_OPTIONS(type, ROW)                                                              \
  ROW(type, STRING, optimizer, NULL, "adamw (the default), adam, sgd, lion, lamb ...",             \
      .argument = "NAME"),                                                                         \
      ROW(type, REAL, weight_decay, NULL, "what is taken off parameters, times the rate"),         \
      ROW(type, REAL, momentum, NULL, "of sgd and muon"),                                          \
      ROW(type, ENUM, nesterov, NULL,                                                              \
          "look ahead along the momentum: on, off (sgd: off, muon: on)", .choices = cli_switch),   \
      ROW(type, REAL, beta1, NULL, "decay of the first moment", .positive = true),                 \
      ROW(type, REAL, beta2, NULL, "decay of the second moment", .positive = true),                \
      ROW(type, REAL, clip_norm, NULL, "largest norm of all gradients", .positive = true),         \
      ROW(type, REAL, clip_max, NULL, "largest element of gradients", .positive = true),           \
      ROW(type, BOOL, clip_before, NULL,                                                           \
          "each rank clips its own gradients, before ranks sum them"),                             \
      ROW(type, STRING, lr_schedule, NULL,                                                         \
          "how the rate changes: constant, linear, cosine, step, one_cycle, wsd",                  \
          .argument = "NAME"),                                                                     \
      ROW(type, INT, warmup, NULL, "steps in which the rate rises from 0"),                        \
      ROW(type, INT, lr_schedule_steps, NULL, "steps of the whole schedule (train: --steps)"),     \
      ROW(type, REAL, last_factor, NULL, "linear, cosine, wsd: share of the rate at last"),        \
      ROW(type, INT, decay_every, NULL, "step: steps between falls", .positive = true),            \
      ROW(type, REAL, gamma, NULL, "step: factor of a fall (0.1)", .positive = true),              \
      ROW(type, INT, decay_steps, NULL, "wsd: steps of the fall at the end"),                      \
      ROW(type, STRING, curve, NULL, "one_cycle: cosine, linear; wsd: linear, cosine, sqrt",       \
          .argument = "NAME"),                                                                     \
      ROW(type, REAL, average, NULL, "decay of a moving average of the parameters"),               \
      ROW(type, REAL, loss_scale, NULL, "first loss scale, which then follows overflows"),         \
      ROW(type, STRINGS, group, NULL,                                                              \
          "how some parameters are trained: '*/bias:lr_factor=0.1,weight_decay=0,optimizer=sgd', " \
          "'fc1/*:frozen'; may be repeated",                                                       \
          .no_environment = true, .argument = "WORD"),                                             \
      ROW(type, STRINGS, freeze, NULL, "parameters not to train; may be repeated",                 \
          .no_environment = true, .argument = "PATTERN")

// Has a schedule that ends, and whose end is not given, end with this step.
void cli_recipe_end(cli_recipe_options_t *recipe, int64_t steps);
struct cli_model_options;
// The recipe that the options of a model say. Lies in the arena.
SHOAL_MUST_USE shoal_status_t cli_recipe_make(const struct cli_model_options *options,
                                              shoal_arena_t *arena, shoal_recipe_t *out_recipe);
// An option as a word "name=value", in the arena; NULL: no memory.
const char *cli_option_word(const shoal_option_t *row, const void *options, shoal_arena_t *arena);
// All of it as such words, NULL-terminated, in the arena, with the rows of a batch and with `more`,
// NULL-terminated too: what checkpoints keep.
SHOAL_MUST_USE shoal_status_t cli_recipe_settings(const struct cli_model_options *options,
                                                  int64_t batch, const char *const *more,
                                                  shoal_arena_t *arena,
                                                  const char *const **out_settings);

#endif  // SHOAL_CLI_RECIPE_H_
