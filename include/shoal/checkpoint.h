// Shoal, checkpoint: folders of checkpoints, as a training program keeps them.
//
// shoal_save (session.h) writes one checkpoint. A program that saves every so often writes to
// "FOLDER/step-N"; the calls below find the one to go on from and remove those that are no longer
// wanted. They are *Not collective*: one rank calls, and tells the others. Both block for as long
// as the file system takes.
#ifndef SHOAL_CHECKPOINT_H_
#define SHOAL_CHECKPOINT_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

// The newest complete "step-N" below `folder`; *out_path, in the arena, is NULL when there is none.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_latest(const char *folder,
                                                                shoal_arena_t *arena,
                                                                const char **out_path,
                                                                int64_t *out_step);
// Removes all but the `keep` newest "step-N" that are complete, and what failed saves before those
// left behind. A `keep` of 0 removes nothing.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_checkpoint_prune(const char *folder, int64_t keep,
                                                               shoal_allocator_t allocator);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_CHECKPOINT_H_
