// One save of a checkpoint, from its beginning to its end.
//
//   checkpoint.c   begins it: which states, into which files
//   saving.c       takes the states' own parts, writes them, ends it: now, or beside the runs
#ifndef SHOAL_RUN_SAVING_H_
#define SHOAL_RUN_SAVING_H_

#include "run/owned.h"
#include "run/shards.h"
#include "shoal/checkpoint.h"

typedef struct shoal_saving {
  shoal_runner_t *runner;
  shoal_arena_t arena;
  shoal_save_options_t options;
  const char *path;
  bool leads;  // this is rank 0
  bool casts;  // weights of floats, to dtype
  shoal_dtype_t dtype;
  int64_t count;  // states that are saved
  int64_t *states;
  shoal_safetensor_t *tensors;
  shoal_owned_t *owned;
  char **packed;  // own elements of each, as they are written; NULL: not taken yet
  SHOAL_VEC(shoal_safetensors_note_t) notes;
  shoal_shard_writer_t writer;
  char *part, *own;  // the largest part, and the largest that is written of one
  int64_t *words;    // for the sums of all ranks
  int64_t at, done;  // the state that is being written, and how many of its own elements are
  // Beside the runs:
  shoal_group_t *group;
  shoal_thread_t thread;
  shoal_status_t status;  // of this rank, when it has ended
  atomic_bool failed;     // on any rank
} shoal_saving_t;

// Bytes of memory that this rank's own elements of a state take as they are written.
int64_t shoal_saving_bytes(const shoal_saving_t *saving, int64_t i);
// Takes what the states hold now, writes it and publishes the checkpoint, or abandons it.
// *Collective*; errors are agreed.
SHOAL_MUST_USE shoal_status_t shoal_saving_run(shoal_saving_t *saving);
// The same beside the runs: returns when the states are taken. The runner owns the saving then.
SHOAL_MUST_USE shoal_status_t shoal_saving_start(shoal_saving_t *saving);
void shoal_saving_free(shoal_saving_t *saving);  // NULL is allowed

#endif  // SHOAL_RUN_SAVING_H_
