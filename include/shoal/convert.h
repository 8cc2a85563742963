// Shoal, convert: weights on disk, between Shoal's names and Hugging Face's.
//
// A family of the zoo can have a map from its states to the tensors of another library (zoo.h):
// names, transposed weights, fused queries, keys and values, tied weights. Converting follows this
// map from file to file, one state at a time, so it needs memory for the largest state only. It
// needs no session: a converted checkpoint loads with shoal_load_with on any mesh, and what
// shoal_save wrote on any mesh can be converted. Unless options.dtype says otherwise, values are
// exact both ways, and converting back gives the same tensors.
//
// All functions are *Not collective* and block until the file system has answered.
#ifndef SHOAL_CONVERT_H_
#define SHOAL_CONVERT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// What was converted. Lists of names hold the first few.
typedef struct shoal_convert_report {
  char model[64];      // its name in the zoo
  char settings[512];  // its settings, for shoal_zoo_create
  bool to_shoal;
  int64_t tensors, bytes;  // written
  int64_t averages;        // of these, weights whose moving average the input has, too
  int64_t ignored;         // tensors of the input that are not weights: masks, positions, moments
  char ignored_names[256];
} shoal_convert_report_t;

typedef struct shoal_convert_options {
  const char *to;        // "shoal" or "hf"; NULL: the one that the input is not
  const char *model;     // a model of the zoo; NULL: the one that the input names
  const char *settings;  // "width=64 ...", which win over those of the input
  bool raw;             // parameters themselves, where a Shoal checkpoint has their moving averages
  const char *dtype;    // casts floats to this type ("bf16"); NULL: as they are
  int64_t shard_bytes;  // largest size of a file, unless one tensor is larger; 0: 5e9
  shoal_convert_report_t *report;  // filled in, unless NULL
  shoal_allocator_t allocator;     // zero: the system's
} shoal_convert_options_t;

// Converts the checkpoint `in` to the folder `out`. `in` is a folder, a .safetensors file, or a
// folder of a training run, whose newest "step-N" is taken. The model is options.model, else the
// one that config.json beside Hugging Face's weights describes, or that the notes of a Shoal
// checkpoint name (it was converted, or trained by name). config.json and the files of a tokenizer
// are copied; where there is no config.json, one is written for Hugging Face. NULL options are the
// defaults.
//
// INVALID_ARGUMENT: `out` is the input or holds checkpoints of training, which are not overwritten;
// the model is not known; or a tensor, which the message names, is missing, has no place in the
// model, has another shape, or has two names with different values. UNSUPPORTED: config.json asks
// for something that the zoo's model does not compute, or the family has no map of names. All of
// these are found before anything is written.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_convert(const char *in, const char *out,
                                                      const shoal_convert_options_t *options);

// Reads which model a Hugging Face folder, or its config.json, describes: the name of a family of
// the zoo and its settings (for shoal_zoo_create), in the arena. NOT_FOUND: there is no such file,
// or the zoo has no such model; INVALID_ARGUMENT: the file is damaged; UNSUPPORTED: as above.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_convert_config(const char *path, shoal_arena_t *arena,
                                                             const char **out_model,
                                                             const char **out_settings);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CONVERT_H_
