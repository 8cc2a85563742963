// Checkpoints: a folder with model.safetensors, in one-device shapes and names whatever the layout.
// Scalar i64 states (step, cursor) are also written as notes into the header's metadata.
#ifndef SHOAL_RUN_CHECKPOINT_H_
#define SHOAL_RUN_CHECKPOINT_H_

#include "base/arena.h"
#include "run/run.h"
#include "run/safetensors.h"
#include "shoal/checkpoint.h"

// Writes all saved states: rank 0 gathers and writes them one at a time. The file appears under its
// name only when it is complete and on the disk; a failed save leaves the one before it whole.
// *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_save(shoal_runner_t *runner, const char *path,
                                                    const shoal_safetensors_note_t *notes,
                                                    int64_t note_count);
// Sets all saved states from a checkpoint made on any mesh; `path` is its folder, or a .safetensors
// file. Every rank reads its own part. Nothing is set unless the whole header fits the program:
// tensors that are missing, unknown, or of another type are named. *Collective.*
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_load(shoal_runner_t *runner, const char *path);

#endif  // SHOAL_RUN_CHECKPOINT_H_
