// Shoal, checkpoint: which states of a model are saved and loaded, and the folder of checkpoints
// that a training run keeps.
//
// shoal_save (session.h) writes one checkpoint. A program that saves regularly writes to
// "FOLDER/step-N". The functions at the end check before the first step that this will be possible,
// find the checkpoint to resume from, and remove old ones. They are *Not collective*: one rank
// calls them and tells the others. Those that take a folder or path block until the file system has
// answered, and return INVALID_ARGUMENT if it is NULL or empty.
#ifndef SHOAL_CHECKPOINT_H_
#define SHOAL_CHECKPOINT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// -------------------------------------------------------------------------------------------------
// Which states: for shoal_save_with and shoal_load_with (session.h)
// -------------------------------------------------------------------------------------------------

// Whether a state of this name belongs to *training*: moments, averages, learning rates, counters.
// All other states are *weights*: parameters, running statistics, whatever a model needs to compute
// its outputs. A name belongs to training if it has a '#' ("fc1/weight#adamw.m"), or if it is, or
// ends after a dot with, "lr", "step", "updates" or "loss_scale" ("adamw.lr") and has no scope.
SHOAL_API bool shoal_checkpoint_is_training(const char *name);

// What a load found. Lists of names hold the first few, with ", " between them.
typedef struct shoal_load_report {
  int64_t loaded;      // states that were set
  int64_t cast;        // of these, states whose tensor had another element type
  int64_t averages;    // and parameters whose moving average the checkpoint has, too
  int64_t missing;     // states that the checkpoint lacks, which stay as they were
  int64_t extra;       // weights of the checkpoint that the model has no state for
  int64_t training;    // tensors of training that were skipped
  int64_t bytes_read;  // of tensors, by this rank: its parts, and once more what it checks of them
  char missing_names[256], extra_names[256];
} shoal_load_report_t;

// All zero: loads the weights only, and requires all of them with the model's element types.
typedef struct shoal_load_options {
  bool training;      // also loads what belongs to training, to resume as if never stopped
  bool keep_missing;  // a state that the checkpoint lacks stays as it is; otherwise an error. An
                      // average is set to its parameter
  bool ignore_extra;  // weights that the model has no state for are skipped; otherwise an error
  bool cast;          // floats of another type are converted; otherwise an error that names both
  bool averages;      // parameters with a moving average ("name#average") in the checkpoint get it
  const char *only;   // loads only states that match these patterns ("block*,head/*"); NULL: all
  shoal_load_report_t *report;  // filled in, unless NULL
} shoal_load_options_t;

// All zero: saves the weights only, in their own element types.
typedef struct shoal_save_options {
  bool training;        // also saves what belongs to training
  const char *only;     // saves only states that match these patterns; NULL: all
  const char *dtype;    // saves floats among the weights in this type ("bf16"); NULL: their own
  int64_t shard_bytes;  // largest size of a file, unless one tensor is larger; 0: 5e9
  bool async;           // returns at once and writes while runs go on; see shoal_save_with
} shoal_save_options_t;

// -------------------------------------------------------------------------------------------------
// Folders of a training run
// -------------------------------------------------------------------------------------------------

// Creates `folder` and its parents, and writes and removes a small file in it, so that a missing
// right to write or a full disk is an IO error now and not after hours of training. A folder that
// holds a complete "step-N" already is INVALID_ARGUMENT, because two runs in one folder would be
// taken for one; `reuse` allows it, for a run that resumes or overwrites.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prepare(const char *folder, bool reuse,
                                                                 shoal_allocator_t allocator);
// Finds the complete "step-N" in `folder` with the largest N. *out_path is in the arena, or NULL
// where there is none. A symbolic link to a checkpoint counts; saving over it or pruning removes
// the link only, not what it points to.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_latest(const char *folder,
                                                                shoal_arena_t *arena,
                                                                const char **out_path,
                                                                int64_t *out_step);
// Keeps the `keep` newest complete checkpoints "step-N" and removes older ones, and what failed
// saves left behind. A `keep` of 0 removes nothing. Only files that shoal_save wrote are removed: a
// checkpoint's folder with other files in it stays, with those files.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prune(const char *folder, int64_t keep,
                                                               shoal_allocator_t allocator);
// Reads a note from a checkpoint's metadata: "step", "seed", or one that shoal_session_note gave.
// `path` is the checkpoint's folder or its .safetensors file. *out_text is in the arena, or NULL
// where there is no note of that name.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_note(const char *path, const char *name,
                                                              shoal_arena_t *arena,
                                                              const char **out_text);
// Removes every "step-N", and "best", as shoal_checkpoint_prune does, for a run that starts anew in
// a used folder.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_clear(const char *folder,
                                                               shoal_allocator_t allocator);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CHECKPOINT_H_
