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

// Writes tensors, one after the other or in parts, and from several ranks at once. The checkpoint
// that was in the folder stays readable until `finish` replaces it by a single rename or unlink;
// whoever does not get there calls `abandon`.
//
// The rank that began it *leads*: it makes the files, and at the end writes their headers, when all
// others have put and flushed what they have. Until then a file begins with the writer's mark.
typedef struct shoal_shard_writer {
  const char *folder;
  shoal_arena_t *arena;
  shoal_safetensor_t *tensors;
  const shoal_safetensors_note_t *notes;
  int64_t note_count;
  int64_t count, at;      // tensors; the next that `add` writes
  int64_t *firsts;        // first tensor of each shard, and `count` behind the last
  int64_t *header_sizes;  // of each shard
  int64_t shards;         // 1: model.safetensors
  int64_t generation;     // of shard names: none of an earlier save is overwritten
  int64_t total;          // bytes of tensors
  uint64_t mark[2];       // random: whoever sees it sees the files that the leader made
  uint64_t *sums;         // of each tensor: of the parts that were put
  bool leads, made_folder;
  int64_t made;  // files that exist
  int64_t shard;
  int file;             // of that shard; -1: none is open
  char path[PATH_MAX];  // of the file that was opened last
} shoal_shard_writer_t;

// Files with the note "shoal_checkpoint", which Shoal's own have, get checksums.
// `tensors` (names and types) are borrowed and get their ranges. Makes the folder, and files of
// full size.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_begin(const char *folder, int64_t count,
                                                       shoal_safetensor_t *tensors,
                                                       int64_t note_count,
                                                       const shoal_safetensors_note_t *notes,
                                                       int64_t shard_bytes, shoal_arena_t *arena,
                                                       shoal_shard_writer_t *out_writer);
// How many words `tell` writes for these tensors; all ranks get the same number.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_words(int64_t count,
                                                       const shoal_safetensor_t *tensors,
                                                       int64_t shard_bytes, shoal_arena_t *arena,
                                                       int64_t *out_count);
// What the leader tells the other ranks, which join with it. NOT_FOUND: this rank does not see the
// leader's files.
void shoal_shard_writer_tell(const shoal_shard_writer_t *writer, int64_t *out_words);
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_join(const char *folder, int64_t count,
                                                      shoal_safetensor_t *tensors,
                                                      int64_t shard_bytes, const int64_t *words,
                                                      shoal_arena_t *arena,
                                                      shoal_shard_writer_t *out_writer);
// Bytes [offset, offset + bytes) of a tensor. Every byte is put once, by one rank; tensors in
// ascending order spare opening files again.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_put(shoal_shard_writer_t *writer, int64_t tensor,
                                                     int64_t offset, const void *data,
                                                     int64_t bytes);
// The next tensor's bytes, all of them.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_add(shoal_shard_writer_t *writer,
                                                     const void *data);
// Brings to the disk what was put so far.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_flush(shoal_shard_writer_t *writer);
// The leader: all is put and flushed, and `sums` are those of all ranks. Publishes the checkpoint.
SHOAL_MUST_USE shoal_status_t shoal_shard_writer_finish(shoal_shard_writer_t *writer);
// The leader removes what was written, others let go of it. A writer that was never begun (all zero
// but `file` -1) is allowed, and one that has finished.
void shoal_shard_writer_abandon(shoal_shard_writer_t *writer);

// Says whether the folder has a complete checkpoint: one file, or the index of several, or links to
// such files. Folders of these names are none.
bool shoal_shards_complete(const char *folder);
// Removes files that a save was writing when it was killed.
SHOAL_MUST_USE shoal_status_t shoal_shards_sweep(const char *folder);
// Removes all that a save wrote into the folder, but not the folder.
SHOAL_MUST_USE shoal_status_t shoal_shards_remove(const char *folder);

#endif  // SHOAL_RUN_SHARDS_H_
