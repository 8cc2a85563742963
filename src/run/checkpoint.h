// Checkpoints: a folder with model.safetensors, or shards and an index, in one-device shapes and
// names whatever the layout. Scalar i64 states (step, cursor) are also written as notes into the
// header's metadata.
//
//   checkpoint.c   saves states
//   restore.c      loads them
//   checksum.c     of tensors in files
//   shards.c       the files of a checkpoint, read and written as one
//   steps.c        folders "step-N"
//   lock.c         who uses a folder of them
#ifndef SHOAL_RUN_CHECKPOINT_H_
#define SHOAL_RUN_CHECKPOINT_H_

#include "base/arena.h"
#include "run/run.h"
#include "run/safetensors.h"
#include "run/shards.h"
#include "shoal/checkpoint.h"

// Says whether the call means a state or tensor of this name.
bool shoal_checkpoint_means(bool training, const char *only, const char *name);
// The moving average of a parameter in a checkpoint; NULL: it has none. The arena is for the name.
const shoal_shard_tensor_t *shoal_checkpoint_average(const shoal_shards_t *shards, const char *name,
                                                     shoal_arena_t *arena);

// Removes a link that is called "step-N", so that what is saved there does not go into the folder
// of another run.
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_unlink(const char *path);

// A run's claim to a folder of checkpoints, until it is unlocked or the process ends. `file` -1:
// none.
typedef struct shoal_checkpoint_lock {
  int file;
  char path[PATH_MAX];
} shoal_checkpoint_lock_t;

// Makes the folder and locks it. INVALID_ARGUMENT: another run has it, by process and host. Not
// collective.
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_lock(const char *folder,
                                                    shoal_checkpoint_lock_t *out_lock);
// The file that is locked; false: the path is too long.
bool shoal_checkpoint_lock_path(const char *folder, char out_path[PATH_MAX]);
void shoal_checkpoint_unlock(shoal_checkpoint_lock_t *lock);

// Removes what a save that was killed has left in a folder that is locked: files that were being
// written, and "step-N" and "best" without a complete checkpoint.
SHOAL_MUST_USE shoal_status_t shoal_checkpoint_sweep(const char *folder,
                                                     shoal_allocator_t allocator);

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
