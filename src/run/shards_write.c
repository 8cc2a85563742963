// Writing a checkpoint of one file or several so that readers see the old one or the new one.
//
// One file: written beside its name, then renamed. Several: written under names that the checkpoint
// in the folder does not use ("model-", else "model.2-" ...), where nobody looks; the rename of the
// index makes them the checkpoint. What the old one had and the new one does not use goes last. A
// folder with both reads model.safetensors, so its removal is the moment where an index follows it.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/json.h"
#include "base/status.h"
#include "op/type.h"
#include "run/shards.h"

static shoal_status_t failed(const char *what, const char *path, int error) {
  return SHOAL_ERROR(IO, "cannot %s '%s': %s", what, path, strerror(error));
}

static shoal_status_t join(char out[PATH_MAX], const char *folder, const char *name) {
  const int length = snprintf(out, PATH_MAX, "%s/%s", folder, name);
  return length < 0 || length >= PATH_MAX ? failed("use", folder, ENAMETOOLONG) : NULL;
}

// ---- names ----------------------------------------------------------------------------

static void shard_name(const shoal_shard_writer_t *writer, int64_t shard, char out[NAME_MAX + 1]) {
  char generation[32] = "";
  if (writer->generation > 1) {
    snprintf(generation, sizeof generation, ".%lld", (long long)writer->generation);
  }
  snprintf(out, NAME_MAX + 1, "model%s-%05lld-of-%05lld.safetensors", generation,
           (long long)shard + 1, (long long)writer->shards);
}

// The generation of a shard's name, and 0 for any other name.
static int64_t generation_of(const char *name) {
  long long generation = 1;
  int end = 0;
  if (strncmp(name, "model.", 6) == 0) {
    if (sscanf(name, "model.%9lld-%*5[0-9]-of-%*5[0-9].safetensors%n", &generation, &end) < 1)
      return 0;
  } else {
    (void)!sscanf(name, "model-%*5[0-9]-of-%*5[0-9].safetensors%n", &end);
  }
  return end > 0 && !name[end] ? generation : 0;
}

// Removes the shards in a folder but those of generation `keep`; *out_newest is the highest.
static shoal_status_t sweep(const char *folder, bool removes, int64_t keep, int64_t *out_newest) {
  DIR *entries = opendir(folder);
  *out_newest = 0;
  if (!entries) return errno == ENOENT ? NULL : failed("read", folder, errno);
  shoal_status_t status = NULL;
  for (const struct dirent *entry; !status && (entry = readdir(entries));) {
    const int64_t generation = generation_of(entry->d_name);
    if (generation > *out_newest) *out_newest = generation;
    if (!removes || generation == 0 || generation == keep) continue;
    char path[PATH_MAX];
    status = join(path, folder, entry->d_name);
    if (!status && unlink(path) != 0 && errno != ENOENT) status = failed("remove", path, errno);
  }
  closedir(entries);
  return status;
}

static shoal_status_t remove_named(const char *folder, const char *name) {
  char path[PATH_MAX];
  SHOAL_RETURN_IF_ERROR(join(path, folder, name));
  return unlink(path) != 0 && errno != ENOENT ? failed("remove", path, errno) : NULL;
}

bool shoal_shards_complete(const char *folder) {
  static const char *const names[] = {SHOAL_WEIGHTS_NAME, SHOAL_WEIGHTS_INDEX};
  for (int i = 0; i < 2; ++i) {
    char path[PATH_MAX];
    struct stat info;
    shoal_status_t status = join(path, folder, names[i]);
    const bool there = !status && stat(path, &info) == 0;
    shoal_status_free(status);
    if (there) return true;
  }
  return false;
}

shoal_status_t shoal_shards_remove(const char *folder) {
  int64_t newest;
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_NAME));
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_INDEX));
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_NAME ".tmp"));
  return sweep(folder, true, 0, &newest);
}

// ---- files ----------------------------------------------------------------------------

static shoal_status_t write_all(shoal_shard_writer_t *writer, const char *data, int64_t bytes) {
  while (bytes > 0) {
    const ssize_t done = write(writer->file, data, (size_t)bytes);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write", writer->path, errno);
    data += done;
    bytes -= done;
  }
  return NULL;
}

static shoal_status_t begin_file(shoal_shard_writer_t *writer) {
  char name[NAME_MAX + 1] = SHOAL_WEIGHTS_NAME ".tmp";
  if (writer->shards > 1) shard_name(writer, writer->shard, name);
  SHOAL_RETURN_IF_ERROR(join(writer->path, writer->folder, name));
  writer->file = open(writer->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (writer->file < 0) return failed("write", writer->path, errno);
  const int64_t first = writer->firsts[writer->shard], last = writer->firsts[writer->shard + 1];
  const char *header;
  int64_t size;
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_header(writer->tensors + first, last - first,
                                                 writer->notes, writer->note_count, writer->arena,
                                                 &header, &size));
  return write_all(writer, header, size);
}

static shoal_status_t end_file(shoal_shard_writer_t *writer) {
  if (fsync(writer->file) != 0 && errno != EINVAL && errno != EROFS) {
    return failed("write", writer->path, errno);
  }
  const int file = writer->file;
  writer->file = -1;
  return close(file) != 0 ? failed("write", writer->path, errno) : NULL;
}

// ---- the writer -----------------------------------------------------------------------

static shoal_status_t plan(shoal_shard_writer_t *writer, int64_t shard_bytes) {
  writer->firsts = SHOAL_NEW(writer->arena, int64_t, writer->count + 2);
  if (!writer->firsts) return SHOAL_OOM();
  int64_t held = 0;
  writer->shards = 1;
  for (int64_t i = 0; i < writer->count; ++i) {
    const int64_t bytes = shoal_type_bytes(&writer->tensors[i].type);
    if (__builtin_add_overflow(writer->total, bytes, &writer->total)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "the tensors are too large for a checkpoint");
    }
    if (held > 0 && held > shard_bytes - bytes) {
      writer->firsts[writer->shards++] = i;
      held = 0;
    }
    held += bytes;
  }
  writer->firsts[writer->shards] = writer->count;
  if (writer->shards > 99999) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "allow larger files",
                            "%lld bytes a file make %lld files", (long long)shard_bytes,
                            (long long)writer->shards);
  }
  return NULL;
}

shoal_status_t shoal_shard_writer_begin(const char *folder, int64_t count,
                                        shoal_safetensor_t *tensors, int64_t note_count,
                                        const shoal_safetensors_note_t *notes, int64_t shard_bytes,
                                        shoal_arena_t *arena, shoal_shard_writer_t *out_writer) {
  *out_writer = (shoal_shard_writer_t){.folder = folder,
                                       .arena = arena,
                                       .tensors = tensors,
                                       .notes = notes,
                                       .note_count = note_count,
                                       .count = count,
                                       .file = -1};
  SHOAL_RETURN_IF_ERROR(plan(out_writer, shard_bytes > 0 ? shard_bytes : SHOAL_SHARD_BYTES));
  struct stat info;
  out_writer->made_folder = stat(folder, &info) != 0;
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(folder));
  int64_t newest;
  SHOAL_RETURN_IF_ERROR(sweep(folder, false, 0, &newest));
  out_writer->generation = newest + 1;
  return begin_file(out_writer);
}

shoal_status_t shoal_shard_writer_add(shoal_shard_writer_t *writer, const void *data) {
  const shoal_safetensor_t *tensor = &writer->tensors[writer->at];
  SHOAL_RETURN_IF_ERROR(write_all(writer, data, tensor->end - tensor->begin));
  ++writer->at;
  if (writer->at < writer->firsts[writer->shard + 1] || writer->at == writer->count) return NULL;
  SHOAL_RETURN_IF_ERROR(end_file(writer));
  ++writer->shard;
  return begin_file(writer);
}

static shoal_status_t write_index(shoal_shard_writer_t *writer) {
  char path[PATH_MAX];
  SHOAL_RETURN_IF_ERROR(join(path, writer->folder, SHOAL_WEIGHTS_INDEX));
  shoal_text_t text;
  shoal_text_init(writer->arena->allocator, &text);
  shoal_json_writer_t w;
  shoal_json_writer_init(&text, &w);
  shoal_json_begin(&w, NULL, '{', false);
  shoal_json_begin(&w, "metadata", '{', true);
  shoal_json_int(&w, "total_size", writer->total);
  shoal_json_end(&w, '}');
  shoal_json_begin(&w, "weight_map", '{', false);
  for (int64_t s = 0; s < writer->shards; ++s) {
    char name[NAME_MAX + 1];
    shard_name(writer, s, name);
    for (int64_t t = writer->firsts[s]; t < writer->firsts[s + 1]; ++t) {
      shoal_json_string(&w, writer->tensors[t].name, name);
    }
  }
  shoal_json_end(&w, '}');
  shoal_json_end(&w, '}');
  shoal_status_t status = shoal_text_status(&text);
  if (!status) status = shoal_file_write(path, text.data, (int64_t)text.length);
  shoal_text_deinit(&text);
  return status;
}

shoal_status_t shoal_shard_writer_finish(shoal_shard_writer_t *writer) {
  SHOAL_RETURN_IF_ERROR(end_file(writer));
  if (writer->shards > 1) {
    SHOAL_RETURN_IF_ERROR(write_index(writer));
    SHOAL_RETURN_IF_ERROR(remove_named(writer->folder, SHOAL_WEIGHTS_NAME));
    SHOAL_RETURN_IF_ERROR(remove_named(writer->folder, SHOAL_WEIGHTS_NAME ".tmp"));
  } else {
    char final[PATH_MAX];
    SHOAL_RETURN_IF_ERROR(join(final, writer->folder, SHOAL_WEIGHTS_NAME));
    if (rename(writer->path, final) != 0) return failed("write", final, errno);
    SHOAL_RETURN_IF_ERROR(remove_named(writer->folder, SHOAL_WEIGHTS_INDEX));
  }
  writer->path[0] = 0;  // published: nothing to abandon
  const int folder = open(writer->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder >= 0) {
    fsync(folder);  // best effort: some file systems refuse it
    close(folder);
  }
  int64_t newest;
  return sweep(writer->folder, true, writer->shards > 1 ? writer->generation : 0, &newest);
}

void shoal_shard_writer_abandon(shoal_shard_writer_t *writer) {
  if (writer->file >= 0) close(writer->file);
  writer->file = -1;
  if (!writer->path[0]) return;
  unlink(writer->path);
  for (int64_t s = 0; s < writer->shard; ++s) {
    char name[NAME_MAX + 1];
    shard_name(writer, s, name);
    shoal_status_free(remove_named(writer->folder, name));
  }
  if (writer->made_folder) rmdir(writer->folder);  // only if it is empty
}
