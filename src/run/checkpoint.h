// Checkpoints: a folder with model.safetensors, or shards and an index, in one-device shapes and
// names whatever the layout. Scalar i64 states (step, cursor) are also written as notes into the
// header's metadata.
//
//   checkpoint.c   saves states
//   restore.c      loads them
//   shards.c       the files of a checkpoint, read and written as one
//   steps.c        folders "step-N"
#ifndef SHOAL_RUN_CHECKPOINT_H_
#define SHOAL_RUN_CHECKPOINT_H_

#include "base/arena.h"
#include "run/run.h"
#include "run/safetensors.h"
#include "shoal/checkpoint.h"

// Says whether the call means a state or tensor of this name.
bool shoal_checkpoint_means(bool training, const char *only, const char *name);

// Removes a link that is called "step-N", so that what is saved there does not go into the folder
// of another run.
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_unlink(const char *path);

// Writes the states that the options mean: rank 0 gathers and writes them one at a time. The
// checkpoint appears under its name only when it is complete and on the disk; a failed save leaves
// the one before it whole. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_save(shoal_runner_t *runner, const char *path,
                                                    const shoal_save_options_t *options,
                                                    const shoal_safetensors_note_t *notes,
                                                    int64_t note_count);
// Sets the states that the options mean from a checkpoint made on any mesh; `path` is its folder, a
// .safetensors file or an index. Every rank reads its own part. Nothing is set unless all headers
// fit the program: tensors that are missing, unknown, or of another type are named. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_load(shoal_runner_t *runner, const char *path,
                                                    const shoal_load_options_t *options);

#endif  // SHOAL_RUN_CHECKPOINT_H_
