// Data sets as options: what `train` and `eval` learn from and are measured on.
#ifndef SHOAL_CLI_DATA_H_
#define SHOAL_CLI_DATA_H_

#include "shoal/options.h"
#include "shoal/train.h"
#include "shoal/zoo.h"

typedef struct cli_data_options {
  const char *data, *eval_data, *kind, *tokenizer, *mean, *deviation;
  double held_out;
  bool test, flip, random_crop;
  int64_t pad, resize;
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
                  "file or folder: text, tokens, .npy, MNIST, CIFAR, images; made up without, " \
                  "but for models of texts",                                                    \
                  .argument = "FILE", .heading = "Data"),                                       \
      CLI_DATA_OPTION(type, STRING, kind, NULL, "what the files are, where that is not clear",  \
                      .argument = "NAME"),                                                      \
      CLI_DATA_OPTION(                                                                          \
          type, STRING, tokenizer, NULL,                                                        \
          "of text, which every rank encodes: a tokenizer.json; bytes are tokens without",      \
          .argument = "FILE"),                                                                  \
      CLI_DATA_OPTION(type, BOOL, test, NULL, "MNIST, CIFAR: the part to test on"),             \
      CLI_DATA_OPTION(type, INT, resize, NULL,                                                  \
                      "images: the shorter side before cropping (0: it just fits)"),            \
      CLI_DATA_OPTION(type, STRING, mean, NULL,                                                 \
                      "images: taken off pixels of 0 to 1; one for all channels, or three",     \
                      .argument = "X,X,X"),                                                     \
      CLI_DATA_OPTION(type, STRING, deviation, NULL,                                            \
                      "images: what is left is divided by; one, or three", .argument = "X,X,X")
// How samples of images vary: in training alone.
#define CLI_VARY_OPTIONS(type)                                                          \
  CLI_DATA_OPTION(type, BOOL, flip, NULL, "images: left and right, every second time"), \
      CLI_DATA_OPTION(type, BOOL, random_crop, NULL,                                    \
                      "images: from anywhere, with --pad or --resize"),                 \
      CLI_DATA_OPTION(type, INT, pad, NULL, "images: black pixels around, before cropping")

// Opens what the options say for the model, or made-up data where they say nothing and the model
// does not learn from text. *out_held_out: from eval_data, or that share of the data; NULL without.
SHOAL_MUST_USE shoal_status_t cli_data_open(const shoal_zoo_t *zoo,
                                            const cli_data_options_t *options, uint64_t seed,
                                            shoal_arena_t *arena, shoal_dataset_t **out_data,
                                            shoal_dataset_t **out_held_out);

#endif  // SHOAL_CLI_DATA_H_
