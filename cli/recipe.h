// How a model is trained, as options: what every command that builds a zoo model shares.
#ifndef SHOAL_CLI_RECIPE_H_
#define SHOAL_CLI_RECIPE_H_

#include "shoal/optimize.h"
#include "shoal/options.h"

typedef struct cli_recipe_options {
  const char *optimizer, *schedule, *curve;
  double weight_decay, momentum, beta1, beta2, clip_norm, clip_max, average, loss_scale;
  double last_factor, gamma;
  int64_t warmup, schedule_steps, decay_every, decay_steps;
  bool nesterov;
  shoal_words_t group, freeze;
} cli_recipe_options_t;

// Rows for an option table, made by ROW(type, kind, field, default, doc, ...).
#define CLI_RECIPE_OPTIONS(type, ROW)                                                           \
  ROW(type, STRING, optimizer, NULL, "adamw (the default), adam, sgd, lion, lamb ..."),         \
      ROW(type, REAL, weight_decay, NULL, "what is taken off parameters, times the rate"),      \
      ROW(type, REAL, momentum, NULL, "of sgd and muon"),                                       \
      ROW(type, BOOL, nesterov, NULL, "sgd: look ahead along the momentum"),                    \
      ROW(type, REAL, beta1, NULL, "decay of the first moment", .positive = true),              \
      ROW(type, REAL, beta2, NULL, "decay of the second moment", .positive = true),             \
      ROW(type, REAL, clip_norm, NULL, "largest norm of all gradients", .positive = true),      \
      ROW(type, REAL, clip_max, NULL, "largest element of gradients", .positive = true),        \
      ROW(type, STRING, schedule, NULL,                                                         \
          "how the rate changes: constant, linear, cosine, step, one_cycle, wsd"),              \
      ROW(type, INT, warmup, NULL, "steps in which the rate rises from 0"),                     \
      ROW(type, INT, schedule_steps, NULL, "steps of the whole schedule (train: --steps)"),     \
      ROW(type, REAL, last_factor, NULL, "linear, cosine, wsd: share of the rate at last"),     \
      ROW(type, INT, decay_every, NULL, "step: steps between falls", .positive = true),         \
      ROW(type, REAL, gamma, NULL, "step: factor of a fall (0.1)", .positive = true),           \
      ROW(type, INT, decay_steps, NULL, "wsd: steps of the fall at the end"),                   \
      ROW(type, STRING, curve, NULL, "one_cycle: cosine, linear; wsd: linear, cosine, sqrt"),   \
      ROW(type, REAL, average, NULL, "decay of a moving average of the parameters"),            \
      ROW(type, REAL, loss_scale, NULL, "first loss scale, which then follows overflows"),      \
      ROW(type, STRINGS, group, NULL,                                                           \
          "'PATTERN:rate=0.1,decay=0,optimizer=sgd,frozen': other parameters; may be repeated", \
          .no_environment = true),                                                              \
      ROW(type, STRINGS, freeze, NULL, "PATTERN of parameters not to train",                    \
          .no_environment = true)

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
