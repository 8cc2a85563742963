// Data sets as options: what `train` and `eval` learn from and are measured on.
#ifndef SHOAL_CLI_DATA_H_
#define SHOAL_CLI_DATA_H_

#include "shoal/options.h"
#include "shoal/train.h"
#include "shoal/zoo.h"

typedef struct cli_data_options {
  const char *data, *eval_data, *kind, *tokenizer;
  double held_out;
  bool test, flip, random_crop;
  int64_t pad;
} cli_data_options_t;

// Rows for an option table of a struct that has a `cli_data_options_t input` member.
#define CLI_DATA_OPTION(type, kind_, field, value_, doc_, ...)                              \
  {                                                                                         \
    .name = #field, .kind = SHOAL_OPTION_##kind_,                                           \
    .offset = offsetof(type, input) + offsetof(cli_data_options_t, field), .value = value_, \
    .doc = doc_, __VA_ARGS__                                                                \
  }
#define CLI_DATA_OPTIONS(type)                                                                  \
  CLI_DATA_OPTION(type, STRING, data, NULL,                                                     \
                  "file or folder: text, tokens, .npy, MNIST, CIFAR, images; made up without",  \
                  .heading = "Data"),                                                           \
      CLI_DATA_OPTION(type, STRING, kind, NULL, "what the files are, where that is not clear"), \
      CLI_DATA_OPTION(type, STRING, tokenizer, NULL,                                            \
                      "of text: a tokenizer.json; bytes are tokens without"),                   \
      CLI_DATA_OPTION(type, BOOL, test, NULL, "MNIST, CIFAR: the part to test on"),             \
      CLI_DATA_OPTION(type, BOOL, flip, NULL, "images: left and right, every second time"),     \
      CLI_DATA_OPTION(type, BOOL, random_crop, NULL, "images: from anywhere"),                  \
      CLI_DATA_OPTION(type, INT, pad, NULL, "images: black pixels around, before cropping")

// Opens what the options say for the model, or made-up data where they say nothing and the model
// does not learn from text. *out_held_out: from eval_data, or that share of the data; NULL without.
SHOAL_MUST_USE shoal_status_t cli_data_open(const shoal_zoo_t *zoo,
                                            const cli_data_options_t *options, uint64_t seed,
                                            shoal_arena_t *arena, shoal_dataset_t **out_data,
                                            shoal_dataset_t **out_held_out);

#endif  // SHOAL_CLI_DATA_H_
