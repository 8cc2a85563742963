// Shoal, checkpoint: folders of checkpoints, as a training program keeps them.
//
// shoal_save (session.h) writes one checkpoint. A program that saves every so often writes to
// "FOLDER/step-N"; the calls below see before the first step that it will be able to, find the
// checkpoint to go on from, and remove those that are no longer wanted. They are *Not collective*:
// one rank calls, and tells the others. All block for as long as the file system takes. A folder or
// path that is NULL or empty is INVALID_ARGUMENT.
#ifndef SHOAL_CHECKPOINT_H_
#define SHOAL_CHECKPOINT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// Makes `folder` and its parents, and writes and removes a small file in it: what would keep a
// checkpoint from being saved - no right to write, a full disk - is an IO error now rather than
// after hours of training. A folder that holds a complete "step-N" is INVALID_ARGUMENT unless
// `used` says that this is meant: two runs in one folder would be taken for one.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prepare(const char *folder, bool used,
                                                                 shoal_allocator_t allocator);
// The newest complete "step-N" below `folder`; *out_path, in the arena, is NULL when there is none.
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
