// Zoo models by name, with their sizes as options: what `train`, `plan`, `check` and `explain`
// share.
#ifndef SHOAL_CLI_MODELS_H_
#define SHOAL_CLI_MODELS_H_

#include "shoal/nn.h"
#include "shoal/options.h"

typedef struct cli_model_options {
  int64_t batch, context, vocabulary, width, heads, layers;  // gpt
  int64_t in_features, hidden, classes;                      // mlp
  int64_t channels, size;                                    // cnn
  const char *dtype;
  double dropout, lr, eps;
  bool tied, sgd;
  int64_t model_seed;
} cli_model_options_t;

// Rows for an option table of a struct that has a `cli_model_options_t model` member.
#define CLI_MODEL_OPTION(type, kind_, field, value_, doc_, ...)                              \
  {                                                                                          \
    .name = #field, .kind = SHOAL_OPTION_##kind_,                                            \
    .offset = offsetof(type, model) + offsetof(cli_model_options_t, field), .value = value_, \
    .doc = doc_, __VA_ARGS__                                                                 \
  }
#define CLI_MODEL_OPTIONS(type)                                                                   \
  CLI_MODEL_OPTION(type, INT, batch, NULL, "rows of a batch", .positive = true),                  \
      CLI_MODEL_OPTION(type, INT, context, NULL, "gpt: tokens per row", .positive = true),        \
      CLI_MODEL_OPTION(type, INT, vocabulary, NULL, "gpt: size of the vocabulary",                \
                       .positive = true),                                                         \
      CLI_MODEL_OPTION(type, INT, width, NULL, "gpt: width of the model", .positive = true),      \
      CLI_MODEL_OPTION(type, INT, heads, NULL, "gpt: attention heads", .positive = true),         \
      CLI_MODEL_OPTION(type, INT, layers, NULL, "gpt: blocks; mlp: hidden layers",                \
                       .positive = true),                                                         \
      CLI_MODEL_OPTION(type, INT, in_features, NULL, "mlp: inputs", .positive = true),            \
      CLI_MODEL_OPTION(type, INT, hidden, NULL, "mlp: width of hidden layers", .positive = true), \
      CLI_MODEL_OPTION(type, INT, classes, NULL, "mlp, cnn: classes", .positive = true),          \
      CLI_MODEL_OPTION(type, INT, channels, NULL, "cnn: input channels", .positive = true),       \
      CLI_MODEL_OPTION(type, INT, size, NULL, "cnn: height and width", .no_environment = true,    \
                       .positive = true),                                                         \
      CLI_MODEL_OPTION(type, STRING, dtype, "f32", "f64, f32, bf16 or f16"),                      \
      CLI_MODEL_OPTION(type, REAL, dropout, NULL, "probability of dropping an activation"),       \
      CLI_MODEL_OPTION(type, REAL, lr, NULL, "learning rate", .positive = true),                  \
      CLI_MODEL_OPTION(type, REAL, eps, NULL, "the optimizer's epsilon", .positive = true),       \
      CLI_MODEL_OPTION(type, BOOL, tied, NULL, "gpt: the head reads the embedding"),              \
      CLI_MODEL_OPTION(type, BOOL, sgd, NULL, "mlp: SGD instead of AdamW"),                       \
      CLI_MODEL_OPTION(type, INT, model_seed, "1", "seed of initial values and dropout")

// Builds model `name` (mlp, gpt, cnn); NOT_FOUND suggests the nearest.
SHOAL_MUST_USE shoal_status_t cli_model_create(const char *name, const cli_model_options_t *options,
                                               shoal_allocator_t allocator,
                                               shoal_model_t **out_model);

#endif  // SHOAL_CLI_MODELS_H_
