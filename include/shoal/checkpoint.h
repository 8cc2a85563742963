// Shoal, checkpoint: what of a model is saved and loaded, and folders of checkpoints, as a training
// program keeps them.
//
// shoal_save (session.h) writes one checkpoint. A program that saves every so often writes to
// "FOLDER/step-N"; the calls at the end see before the first step that it will be able to, find the
// checkpoint to go on from, and remove those that are no longer wanted. They are *Not collective*:
// one rank calls, and tells the others. All block for as long as the file system takes. A folder or
// path that is NULL or empty is INVALID_ARGUMENT.
#ifndef SHOAL_CHECKPOINT_H_
#define SHOAL_CHECKPOINT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Which states: for shoal_save_with and shoal_load_with (session.h)
// -------------------------------------------------------------------------------------------------

// A state belongs to the *weights*: parameters, running statistics, whatever a model needs to give
// its answers. Or it belongs to *training*: that is any name with a '#' ("fc1/weight#adamw.m"), and
// outside of scopes "lr", "step", "updates" and "loss_scale", also behind a dot ("adamw.lr").
SHOAL_API bool shoal_checkpoint_is_training(const char *name);

// What a load found. Names are the first few, ", " between them.
typedef struct shoal_load_report {
  int64_t loaded;    // states that were set
  int64_t cast;      // those among them that had another element type
  int64_t missing;   // states that the checkpoint lacks, which stay as they were
  int64_t extra;     // weights of the checkpoint that the model has no state for
  int64_t training;  // tensors of training that were passed over
  char missing_names[256], extra_names[256];
} shoal_load_report_t;

// All zero: the weights and nothing else, each of them, of the model's types.
typedef struct shoal_load_options {
  bool training;      // also what belongs to training: to go on as if never stopped
  bool keep_missing;  // a state that the checkpoint lacks stays as it is; else an error
  bool ignore_extra;  // weights that the model has no state for are passed over; else an error
  bool cast;          // another type of floats is converted; else an error that names both
  const char *only;   // patterns ("block*,head/*"): other names are not looked at; NULL: all
  shoal_load_report_t *report;  // is filled in, unless NULL
} shoal_load_options_t;

// All zero: the weights and nothing else, as they are.
typedef struct shoal_save_options {
  bool training;        // also what belongs to training
  const char *only;     // patterns: only states of such names; NULL: all
  const char *dtype;    // "bf16": the type that weights of floats are saved in; NULL: their own
  int64_t shard_bytes;  // a file gets no more, unless by a single tensor; 0: 5 GB (5e9)
} shoal_save_options_t;

// -------------------------------------------------------------------------------------------------
// Folders of a training run
// -------------------------------------------------------------------------------------------------

// Makes `folder` and its parents, and writes and removes a small file in it: what would keep a
// checkpoint from being saved - no right to write, a full disk - is an IO error now rather than
// after hours of training. A folder that holds a complete "step-N" is INVALID_ARGUMENT unless
// `used` says that this is meant: two runs in one folder would be taken for one.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prepare(const char *folder, bool used,
                                                                 shoal_allocator_t allocator);
// The newest complete "step-N" below `folder`; *out_path, in the arena, is NULL when there is none.
// A link to a folder counts; what saves or removes "step-N" takes away the link, and leaves alone
// what it leads to.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_latest(const char *folder,
                                                                shoal_arena_t *arena,
                                                                const char **out_path,
                                                                int64_t *out_step);
// Keeps the `keep` newest complete checkpoints "step-N" and removes older ones, and what earlier
// failed saves left. A `keep` of 0 removes nothing. Only files that shoal_save wrote are removed: a
// folder that has other files stays, with those files.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prune(const char *folder, int64_t keep,
                                                               shoal_allocator_t allocator);
// A note of a checkpoint's metadata ("step", "seed", or what shoal_session_note gave), in the
// arena; *out_text is NULL when it has none of that name. `path` is its folder or its .safetensors
// file.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_note(const char *path, const char *name,
                                                              shoal_arena_t *arena,
                                                              const char **out_text);
// Removes every "step-N" in the same way: for a run that starts anew in a used folder.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_clear(const char *folder,
                                                               shoal_allocator_t allocator);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CHECKPOINT_H_
