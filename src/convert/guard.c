// What is read and what may be written over: the folder of the input and the checkpoints of a
// training run are kept. And weights of two names, which must be one.
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/status.h"
#include "convert/convert_impl.h"
#include "op/type.h"
#include "run/checkpoint.h"

// ---- what to read ---------------------------------------------------------------------

shoal_status_t shoal_convert_latest(const char *in, shoal_arena_t *arena, const char **out_path) {
  struct stat info;
  const char *latest = NULL;
  int64_t step;
  *out_path = in;
  if (stat(in, &info) != 0 || !S_ISDIR(info.st_mode) || shoal_shards_complete(in)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(in, arena, &latest, &step));
  if (latest) *out_path = latest;
  return NULL;
}

// ---- what not to write over -----------------------------------------------------------

static bool is_same_folder(const char *in, const char *out) {
  struct stat a, b;
  char parent[PATH_MAX] = ".";
  if (stat(in, &a) != 0 || stat(out, &b) != 0) return false;
  const char *slash = strrchr(in, '/');
  if (!S_ISDIR(a.st_mode) && slash) {
    snprintf(parent, sizeof parent, "%.*s", slash == in ? 1 : (int)(slash - in), in);
  }
  if (!S_ISDIR(a.st_mode) && stat(parent, &a) != 0) return false;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Is there a tensor that belongs to training?
static shoal_status_t find_training(const char *folder, shoal_arena_t *arena, bool *out_found) {
  shoal_shards_t shards;
  SHOAL_RETURN_IF_ERROR(shoal_shards_open(folder, arena, &shards));
  for (int64_t i = 0; i < shards.count; ++i) {
    *out_found |= shoal_checkpoint_is_training(shards.tensors[i].tensor->name);
  }
  shoal_shards_close(&shards);
  return NULL;
}

shoal_status_t shoal_convert_check_output(const char *in, const char *out, shoal_arena_t *arena) {
  struct stat info;
  const char *latest = NULL;
  int64_t step;
  bool training = false;
  if (is_same_folder(in, out)) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name another folder to write",
                            "'%s' is the folder to read: it would be written over", out);
  }
  if (stat(out, &info) != 0 || !S_ISDIR(info.st_mode)) return NULL;
  SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(out, arena, &latest, &step));
  if (!latest && shoal_shards_complete(out))
    SHOAL_RETURN_IF_ERROR(find_training(out, arena, &training));
  if (!latest && !training) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "name another folder, or remove this one",
                          "'%s' holds %s of a training run, which %s not written over", out,
                          latest ? "checkpoints" : "a checkpoint", latest ? "are" : "is");
}

// ---- weights of two names -------------------------------------------------------------

enum { PIECE = 1 << 16 };

static shoal_status_t compare(const shoal_shard_tensor_t *first, const shoal_shard_tensor_t *again,
                              bool *out_same) {
  char x[PIECE], y[PIECE];
  const int64_t bytes = first->tensor->end - first->tensor->begin;
  *out_same = shoal_type_equal(&first->tensor->type, &again->tensor->type);
  for (int64_t at = 0; at < bytes && *out_same; at += PIECE) {
    const int64_t size = bytes - at < PIECE ? bytes - at : PIECE;
    SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(first->file, first->tensor->begin + at, size, x));
    SHOAL_RETURN_IF_ERROR(shoal_safetensors_read(again->file, again->tensor->begin + at, size, y));
    *out_same = memcmp(x, y, (size_t)size) == 0;
  }
  return NULL;
}

shoal_status_t shoal_convert_check_same(const shoal_shard_tensor_t *first,
                                        const shoal_shard_tensor_t *again) {
  bool same;
  SHOAL_RETURN_IF_ERROR(compare(first, again, &same));
  if (same) return NULL;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "of a model with a head of its own? Then set tied=false, or "
                          "\"tie_word_embeddings\": false in config.json",
                          "%s: '%s' is not the same as '%s', and the model has one weight for both",
                          again->file->path, again->tensor->name, first->tensor->name);
}
