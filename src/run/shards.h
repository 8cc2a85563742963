// The files of a checkpoint as one: model.safetensors, or shards listed by an index
// (model.safetensors.index.json: "weight_map" from tensor to file), as Hugging Face has them.
#ifndef SHOAL_RUN_SHARDS_H_
#define SHOAL_RUN_SHARDS_H_

#include <limits.h>

#include "base/index.h"
#include "run/safetensors.h"

#define SHOAL_WEIGHTS_NAME "model.safetensors"
#define SHOAL_WEIGHTS_INDEX SHOAL_WEIGHTS_NAME ".index.json"
#define SHOAL_SHARD_BYTES INT64_C(5000000000)  // a file, unless asked otherwise

// ---- reading --------------------------------------------------------------------------

typedef struct shoal_shard_tensor {
  const shoal_safetensor_t *tensor;
  const shoal_safetensors_t *file;
} shoal_shard_tensor_t;

typedef struct shoal_shards {
  const char *path;  // of the file or the index, for messages
  int64_t file_count;
  shoal_safetensors_t *files;
  int64_t count;
  shoal_shard_tensor_t *tensors;  // file by file, in the order of their bytes
  shoal_index_t names;
} shoal_shards_t;

// Opens a folder, a .safetensors file or an index. Every tensor lies in exactly one file, the one
// that the index says; else the checkpoint is damaged. All but descriptors lives in the arena.
SHOAL_MUST_USE shoal_status_t shoal_shards_open(const char *path, shoal_arena_t *arena,
                                                shoal_shards_t *out_shards);
void shoal_shards_close(shoal_shards_t *shards);
const shoal_shard_tensor_t *shoal_shards_find(const shoal_shards_t *shards,
                                              const char *name);  // or NULL

// ---- writing --------------------------------------------------------------------------

// Writes tensors one after the other. The checkpoint that was in the folder stays readable until
// `finish` replaces it by a single rename or unlink; whoever does not get there calls `abandon`.
typedef struct shoal_shard_writer {
  const char *folder;
  shoal_arena_t *arena;
  shoal_safetensor_t *tensors;
  const shoal_safetensors_note_t *notes;
  int64_t note_count;
  int64_t count, at;   // tensors; the next to be written
  int64_t *firsts;     // first tensor of each shard, and `count` behind the last
  int64_t shards;      // 1: model.safetensors
  int64_t shard;       // being written
  int64_t generation;  // of shard names: none of an earlier save is overwritten
  int64_t total;       // bytes of tensors
  bool made_folder;
  int file;
  char path[PATH_MAX];  // of the file being written
} shoal_shard_writer_t;

// `tensors` (names and types) are borrowed, and get their ranges as their shard is begun. Makes the
// folder.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_begin(const char *folder, int64_t count,
                                                       shoal_safetensor_t *tensors,
                                                       int64_t note_count,
                                                       const shoal_safetensors_note_t *notes,
                                                       int64_t shard_bytes, shoal_arena_t *arena,
                                                       shoal_shard_writer_t *out_writer);
// The next tensor's bytes, all of them.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_add(shoal_shard_writer_t *writer,
                                                     const void *data);
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_finish(shoal_shard_writer_t *writer);
// Removes what was written. A writer that was never begun (all zero but `file` -1) is allowed.
void shoal_shard_writer_abandon(shoal_shard_writer_t *writer);

// Says whether the folder has a complete checkpoint.
bool shoal_shards_complete(const char *folder);
// Removes all that a save wrote into the folder, but not the folder.
SHOAL_MUST_USE shoal_status_t shoal_shards_remove(const char *folder);

#endif  // SHOAL_RUN_SHARDS_H_
