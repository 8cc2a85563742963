// Shoal, convert: weights on disk, between Shoal's names and Hugging Face's.
//
// A model of the zoo carries a map from its states to the tensors of another library: names,
// transposed products, fused queries, keys and values, tied weights (zoo.h). Converting follows it
// from file to file, one state at a time, so memory is needed for the largest one. It needs no
// session: a converted checkpoint loads with shoal_load_with on any mesh, and the other way round
// what shoal_save wrote on any mesh converts. Both ways are exact, and each undoes the other.
//
// All functions are *Not collective* and block for as long as the file system takes.
#ifndef SHOAL_CONVERT_H_
#define SHOAL_CONVERT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// What was converted; names are the first few.
typedef struct shoal_convert_report {
  char model[64];      // of the zoo
  char settings[512];  // what the input said about it, for shoal_zoo_create
  bool to_shoal;
  int64_t tensors, bytes;  // written
  int64_t ignored;         // tensors of the input that are no weights: masks, positions, moments
  char ignored_names[256];
} shoal_convert_report_t;

typedef struct shoal_convert_options {
  const char *to;                  // "shoal" or "hf"; NULL: the other one of what the input is
  const char *model;               // a model of the zoo; NULL: as the input says
  const char *settings;            // "width=64 ...", on top of what the input says
  const char *dtype;               // of floats, "bf16"; NULL: as they are
  int64_t shard_bytes;             // a file gets no more, unless by a single tensor; 0: 5 GB (5e9)
  shoal_convert_report_t *report;  // is filled in, unless NULL
  shoal_allocator_t allocator;     // zero: the system's
} shoal_convert_options_t;

// Converts the checkpoint in folder `in` (or a .safetensors file, or the newest "step-N" of a
// folder) to folder `out`. A folder that holds what training goes on from, or the input, is not
// written over: INVALID_ARGUMENT. The model is named by options, else by config.json beside Hugging
// Face's weights or by the notes of a checkpoint that was converted before. config.json and files
// of a tokenizer are copied along; where there is none, a config.json is written for Hugging Face.
// A tensor that is missing, that the model has no place for, that has another shape, or that has
// two names and differs is INVALID_ARGUMENT and named, as is a config.json that asks for what the
// model of the zoo does not do; nothing is written then. NULL options are defaults.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_convert(const char *in, const char *out,
                                                      const shoal_convert_options_t *options);

// The model that a Hugging Face folder, or its config.json, is about: the name of a family of the
// zoo and its settings, in the arena.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_convert_config(const char *path, shoal_arena_t *arena,
                                                             const char **out_model,
                                                             const char **out_settings);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CONVERT_H_
