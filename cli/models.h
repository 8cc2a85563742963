// Zoo models by name, with their settings as options: what `train`, `plan`, `check`, `simulate` and
// `explain` share.
#ifndef SHOAL_CLI_MODELS_H_
#define SHOAL_CLI_MODELS_H_

#include "recipe.h"
#include "shoal/options.h"
#include "shoal/zoo.h"

enum { CLI_SETTING_LIMIT = 128 };  // distinct settings of all families

// A setting of some family that stands on the command line as a flag of its own.
typedef union cli_setting {
  shoal_words_t words;  // given so many times; the last counts
  unsigned char flag;   // of a setting that is true or false: 0, 1, or 2 when it was not given
} cli_setting_t;

typedef struct cli_model_options {
  const char *known;  // settings that a checkpoint tells, in front of those that are given; or NULL
  shoal_words_t set;  // NAME=VALUE
  const char *config;
  int64_t batch;
  const char *dtype;
  double lr, eps;
  bool sgd, mixed;
  int64_t seed;
  cli_recipe_options_t recipe;
  cli_setting_t settings[CLI_SETTING_LIMIT];
} cli_model_options_t;

// Rows for an option table of a struct that has a `cli_model_options_t model` member; cli_options
// adds one for each setting that a family has, which the help does not list.
#define CLI_MODEL_OPTION(type, kind_, field, value_, doc_, ...)                              \
  {                                                                                          \
    .name = #field, .kind = SHOAL_OPTION_##kind_,                                            \
    .offset = offsetof(type, model) + offsetof(cli_model_options_t, field), .value = value_, \
    .doc = doc_, __VA_ARGS__                                                                 \
  }
#define CLI_RECIPE_OPTION(type, kind_, field, value_, doc_, ...)              \
  {                                                                           \
    .name = #field, .kind = SHOAL_OPTION_##kind_,                             \
    .offset = offsetof(type, model) + offsetof(cli_model_options_t, recipe) + \
              offsetof(cli_recipe_options_t, field),                          \
    .value = value_, .doc = doc_, __VA_ARGS__                                 \
  }
// What the model is: every command that builds one.
#define CLI_MODEL_OPTIONS(type)                                                           \
  CLI_MODEL_OPTION(type, STRINGS, set, NULL,                                              \
                   "a setting that `shoal models MODEL` lists; may be repeated; also as " \
                   "--NAME VALUE",                                                        \
                   .no_environment = true, .heading = "Model", .argument = "NAME=VALUE"), \
      CLI_MODEL_OPTION(type, STRING, config, NULL, "YAML of settings, NAME: VALUE each",  \
                       .argument = "FILE"),                                               \
      CLI_MODEL_OPTION(type, INT, batch, NULL, "rows of a batch", .positive = true),      \
      CLI_MODEL_OPTION(type, STRING, dtype, NULL, "f64, f32 (the default), bf16 or f16",  \
                       .argument = "NAME"),                                               \
      CLI_MODEL_OPTION(type, BOOL, mixed, NULL,                                           \
                       "keep parameters in f32 and compute in bf16 or f16")
#define CLI_SEED_OPTION(type) \
  CLI_MODEL_OPTION(type, INT, seed, "1", "of initial values, dropout and the order of the data")
// How it is trained: those that build the step of training.
#define CLI_TRAINING_OPTIONS(type)                                                                \
  CLI_MODEL_OPTION(type, REAL, lr, NULL, "learning rate", .positive = true, .heading = "Recipe"), \
      CLI_MODEL_OPTION(type, REAL, eps, NULL, "the optimizer's epsilon", .positive = true),       \
      CLI_MODEL_OPTION(type, BOOL, sgd, NULL, "SGD instead of AdamW: --optimizer sgd"),           \
      CLI_RECIPE_OPTIONS(type, CLI_RECIPE_OPTION)

// The table with a row for each setting of the families in front of its last row, if it has the
// rows of CLI_MODEL_OPTIONS; else as it is.
SHOAL_MUST_USE shoal_status_t cli_model_table(const shoal_option_t *table, int64_t count,
                                              shoal_arena_t *arena, void *options,
                                              const shoal_option_t **out_table, int64_t *out_count);
// "--tied no" as "--tied=no": flags take no word, but settings that are yes or no do, like others.
SHOAL_MUST_USE shoal_status_t cli_model_words(const shoal_option_t *table, int64_t count,
                                              shoal_arena_t *arena, int *argc, char ***argv);
// The model of that name with its settings; NOT_FOUND suggests the nearest. The caller frees it.
// The recipe may be NULL: the one that the options say.
SHOAL_MUST_USE shoal_status_t cli_zoo_create(const char *name, const cli_model_options_t *options,
                                             const shoal_recipe_t *recipe, shoal_zoo_t **out_zoo);
// The type it computes in, wherever that was said.
SHOAL_MUST_USE shoal_status_t cli_model_dtype(const char *name, const cli_model_options_t *options,
                                              const char **out_dtype);
// Builds its graphs for training and evaluation.
SHOAL_MUST_USE shoal_status_t cli_model_create(const char *name, const cli_model_options_t *options,
                                               shoal_allocator_t allocator,
                                               shoal_model_t **out_model);

#endif  // SHOAL_CLI_MODELS_H_
