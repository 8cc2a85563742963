// Checkpoints of one file or several: opening them, and finding a tensor among them. An index is
// trusted no more than a file: it may name files of its own folder only, and must agree with them.
#include "run/shards.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "base/status.h"

#define BAD(path, ...)                                                                    \
  shoal_status_annotate(                                                                  \
      SHOAL_ERROR_HINT(INVALID_ARGUMENT,                                                  \
                       "the checkpoint is damaged or incomplete: was every file copied?", \
                       __VA_ARGS__),                                                      \
      path)

static bool is_file(const char *path) {
  struct stat info;
  return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool ends_with(const char *text, const char *end) {
  const size_t length = strlen(text), tail = strlen(end);
  return length >= tail && strcmp(text + length - tail, end) == 0;
}

// ---- which files ----------------------------------------------------------------------

// The file or the index behind a path that users give.
static shoal_status_t resolve(const char *path, shoal_arena_t *arena, const char **out_path) {
  struct stat info;
  *out_path = path;
  if (stat(path, &info) != 0 || !S_ISDIR(info.st_mode)) {
    // What is not there is reported as the folder that it was taken for.
    if (stat(path, &info) == 0) return NULL;
    if (ends_with(path, ".safetensors") || ends_with(path, ".json")) return NULL;
  }
  const char *file = shoal_arena_printf(arena, "%s/" SHOAL_WEIGHTS_NAME, path);
  const char *index = shoal_arena_printf(arena, "%s/" SHOAL_WEIGHTS_INDEX, path);
  const char *pickle = shoal_arena_printf(arena, "%s/pytorch_model.bin", path);
  if (!file || !index || !pickle) return SHOAL_OOM();
  *out_path = !is_file(file) && is_file(index) ? index : file;
  if (!is_file(*out_path) && is_file(pickle)) {
    return SHOAL_ERROR_HINT(
        INVALID_ARGUMENT, "save it with save_pretrained(..., safe_serialization=True)",
        "'%s' has weights as a pickle, which may run code when it is read", path);
  }
  return NULL;
}

// A name of the same folder, and of nothing else.
static bool plain_name(const char *name) {
  return name[0] && name[0] != '.' && !strchr(name, '/') && !strchr(name, '\\');
}

static shoal_status_t open_file(const char *index, const char *name, shoal_arena_t *arena,
                                shoal_shards_t *shards) {
  const char *slash = strrchr(index, '/');
  const char *path =
      shoal_arena_printf(arena, "%.*s%s", slash ? (int)(slash + 1 - index) : 0, index, name);
  if (!path) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_open(path, arena, &shards->files[shards->file_count]));
  ++shards->file_count;
  return NULL;
}

static shoal_status_t open_files(const char *index, const shoal_json_t *map, shoal_arena_t *arena,
                                 shoal_shards_t *shards) {
  shoal_index_t seen;
  shoal_index_init(arena, &seen);
  for (int64_t i = 0; i < map->count; ++i) {
    const shoal_json_t *entry = &map->children[i];
    if (entry->kind != SHOAL_JSON_STRING || !plain_name(entry->string)) {
      return BAD(index, "%s is no name of a file in this folder", entry->path);
    }
    const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, entry->string);
    int64_t at = -1, known;
    while ((known = shoal_index_next(&seen, hash, &at)) >= 0 &&
           strcmp(map->children[known].string, entry->string) != 0) {
    }
    if (known >= 0) continue;
    if (!shoal_index_add(&seen, hash, i)) return SHOAL_OOM();
    SHOAL_RETURN_IF_ERROR(open_file(index, entry->string, arena, shards));
  }
  return NULL;
}

// ---- tensors --------------------------------------------------------------------------

const shoal_shard_tensor_t *shoal_shards_find(const shoal_shards_t *shards, const char *name) {
  const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, name);
  for (int64_t at = -1, n; (n = shoal_index_next(&shards->names, hash, &at)) >= 0;) {
    if (strcmp(shards->tensors[n].tensor->name, name) == 0) return &shards->tensors[n];
  }
  return NULL;
}

static shoal_status_t list_tensors(shoal_arena_t *arena, shoal_shards_t *shards) {
  int64_t count = 0;
  for (int64_t i = 0; i < shards->file_count; ++i) count += shards->files[i].count;
  shards->tensors = SHOAL_NEW(arena, shoal_shard_tensor_t, count);
  if (!shards->tensors) return SHOAL_OOM();
  shoal_index_init(arena, &shards->names);
  for (int64_t i = 0; i < shards->file_count; ++i) {
    const shoal_safetensors_t *file = &shards->files[i];
    for (int64_t t = 0; t < file->count; ++t) {
      const char *name = file->tensors[t].name;
      const shoal_shard_tensor_t *twin = shoal_shards_find(shards, name);
      if (twin) {
        return BAD(shards->path, "tensor '%s' lies in '%s' and in '%s'", name, twin->file->path,
                   file->path);
      }
      shards->tensors[shards->count] = (shoal_shard_tensor_t){&file->tensors[t], file};
      if (!shoal_index_add(&shards->names, shoal_hash_string(SHOAL_HASH_START, name),
                           shards->count)) {
        return SHOAL_OOM();
      }
      ++shards->count;
    }
  }
  return NULL;
}

// No tensor lies in two files, so as many entries that are right as there are tensors is all.
static shoal_status_t check_index(const char *path, const shoal_json_t *map,
                                  const shoal_shards_t *shards) {
  for (int64_t i = 0; i < map->count; ++i) {
    const shoal_json_t *entry = &map->children[i];
    const shoal_shard_tensor_t *found = shoal_shards_find(shards, entry->key);
    if (!found) return BAD(path, "tensor '%s' is not in '%s'", entry->key, entry->string);
    const char *slash = strrchr(found->file->path, '/');
    if (strcmp(slash ? slash + 1 : found->file->path, entry->string) != 0) {
      return BAD(path, "tensor '%s' is not in '%s' but in '%s'", entry->key, entry->string,
                 found->file->path);
    }
  }
  for (int64_t t = 0; t < shards->count && shards->count != map->count; ++t) {
    if (shoal_json_find(map, shards->tensors[t].tensor->name)) continue;
    return BAD(path, "tensor '%s' of '%s' is not listed", shards->tensors[t].tensor->name,
               shards->tensors[t].file->path);
  }
  return NULL;
}

static shoal_status_t open_index(const char *path, shoal_arena_t *arena, shoal_shards_t *shards) {
  const char *text;
  int64_t size;
  const shoal_json_t *json, *map;
  SHOAL_RETURN_IF_ERROR(shoal_file_read(path, arena, &text, &size));
  if ((int64_t)strlen(text) != size) return BAD(path, "the index contains a zero byte");
  SHOAL_RETURN_IF_ERROR(shoal_json_parse(path, text, arena, &json));
  if (json->kind != SHOAL_JSON_OBJECT) return BAD(path, "the index is no JSON object");
  SHOAL_RETURN_IF_ERROR(shoal_json_get_child(json, "weight_map", SHOAL_JSON_OBJECT, &map));
  shards->files = SHOAL_NEW(arena, shoal_safetensors_t, map->count);
  if (!shards->files) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(open_files(path, map, arena, shards));
  SHOAL_RETURN_IF_ERROR(list_tensors(arena, shards));
  return check_index(path, map, shards);
}

shoal_status_t shoal_shards_open(const char *path, shoal_arena_t *arena,
                                 shoal_shards_t *out_shards) {
  *out_shards = (shoal_shards_t){0};
  shoal_shards_t shards = {0};
  SHOAL_RETURN_IF_ERROR(resolve(path, arena, &shards.path));
  shoal_status_t status;
  if (ends_with(shards.path, ".json")) {
    status = open_index(shards.path, arena, &shards);
  } else {
    shards.files = SHOAL_NEW(arena, shoal_safetensors_t, 1);
    status = shards.files ? shoal_safetensors_open(shards.path, arena, shards.files) : SHOAL_OOM();
    if (!status) shards.file_count = 1;
    if (!status) status = list_tensors(arena, &shards);
  }
  if (status) {
    shoal_shards_close(&shards);
    return status;
  }
  *out_shards = shards;
  return NULL;
}

void shoal_shards_close(shoal_shards_t *shards) {
  for (int64_t i = 0; i < shards->file_count; ++i) shoal_safetensors_close(&shards->files[i]);
  shards->file_count = 0;
}
