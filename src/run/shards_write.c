// Writing a checkpoint of one file or several so that readers see the old one or the new one.
//
// One file: written beside its name, then renamed. Several: written under names that the checkpoint
// in the folder does not use ("model-", else "model.2-" ...), where nobody looks; the rename of the
// index makes them the checkpoint. What the old one had and the new one does not use goes last. A
// folder with both reads model.safetensors, so its removal is the moment where an index follows it.
//
// Every rank writes with pwrite where its parts lie; the ranks need not wait for each other until
// the headers, which are written last: a file without one is nobody's checkpoint.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/dtype.h"
#include "base/file.h"
#include "base/hash.h"
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
    const bool there = !status && stat(path, &info) == 0 && S_ISREG(info.st_mode);
    shoal_status_free(status);
    if (there) return true;
  }
  return false;
}

// model.safetensors.tmp, and model.safetensors.index.json.tmp with numbers behind it.
shoal_status_t shoal_shards_sweep(const char *folder) {
  static const char index[] = SHOAL_WEIGHTS_INDEX ".tmp";
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_NAME ".tmp"));
  DIR *entries = opendir(folder);
  if (!entries) return errno == ENOENT ? NULL : failed("read", folder, errno);
  shoal_status_t status = NULL;
  for (const struct dirent *entry; !status && (entry = readdir(entries));) {
    if (strncmp(entry->d_name, index, sizeof index - 1) == 0)
      status = remove_named(folder, entry->d_name);
  }
  closedir(entries);
  return status;
}

shoal_status_t shoal_shards_remove(const char *folder) {
  int64_t newest;
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_NAME));
  SHOAL_RETURN_IF_ERROR(remove_named(folder, SHOAL_WEIGHTS_INDEX));
  SHOAL_RETURN_IF_ERROR(shoal_shards_sweep(folder));
  return sweep(folder, true, 0, &newest);
}

// ---- files ----------------------------------------------------------------------------

static shoal_status_t write_at(const shoal_shard_writer_t *writer, int64_t at, const void *data,
                               int64_t bytes) {
  const char *from = data;
  while (bytes > 0) {
    const ssize_t done = pwrite(writer->file, from, (size_t)bytes, (off_t)at);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed("write", writer->path, errno);
    from += done;
    at += done;
    bytes -= done;
  }
  return NULL;
}

static shoal_status_t sync_file(const shoal_shard_writer_t *writer) {
  if (fsync(writer->file) == 0 || errno == EINVAL || errno == EROFS) return NULL;
  return failed("write", writer->path, errno);
}

static shoal_status_t close_file(shoal_shard_writer_t *writer) {
  if (writer->file < 0) return NULL;
  shoal_status_t status = sync_file(writer);
  const int file = writer->file;
  writer->file = -1;
  if (close(file) != 0 && !status) status = failed("write", writer->path, errno);
  return status;
}

// Opens a shard's file; one that is open already is closed, with what was written to it on the
// disk.
static shoal_status_t open_file(shoal_shard_writer_t *writer, int64_t shard, int flags) {
  SHOAL_RETURN_IF_ERROR(close_file(writer));
  char name[NAME_MAX + 1] = SHOAL_WEIGHTS_NAME ".tmp";
  if (writer->shards > 1) shard_name(writer, shard, name);
  SHOAL_RETURN_IF_ERROR(join(writer->path, writer->folder, name));
  writer->shard = shard;
  writer->file = open(writer->path, flags | O_CLOEXEC, 0666);
  return writer->file < 0 ? failed("write", writer->path, errno) : NULL;
}

// ---- headers --------------------------------------------------------------------------

static bool is_ours(const shoal_shard_writer_t *writer) {
  for (int64_t i = 0; i < writer->note_count; ++i)
    if (strcmp(writer->notes[i].key, SHOAL_CHECKPOINT_NOTE) == 0) return true;
  return false;
}

// The shard's notes, with checksums if it is to have any.
static shoal_status_t list_notes(const shoal_shard_writer_t *writer, int64_t shard,
                                 shoal_arena_t *arena, const shoal_safetensors_note_t **out_notes,
                                 int64_t *out_count) {
  enum { STRIDE = SHOAL_CHECKSUM_STRIDE };
  const int64_t first = writer->firsts[shard], count = writer->firsts[shard + 1] - first;
  *out_notes = writer->notes;
  *out_count = writer->note_count;
  if (!is_ours(writer)) return NULL;
  shoal_safetensors_note_t *notes =
      SHOAL_NEW(arena, shoal_safetensors_note_t, writer->note_count + 2);
  char *sums = shoal_arena_alloc(arena, (size_t)count * STRIDE + 1, 1);
  if (!notes || !sums) return SHOAL_OOM();
  if (writer->note_count > 0)
    memcpy(notes, writer->notes, (size_t)writer->note_count * sizeof *notes);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t sum =
        shoal_safetensors_sum(&writer->tensors[first + i], writer->sums[first + i]);
    snprintf(sums + i * STRIDE, STRIDE + 1, "%016llx%s", (unsigned long long)sum,
             i + 1 < count ? " " : "");
  }
  if (count > 0) notes[(*out_count)++] = (shoal_safetensors_note_t){SHOAL_SUMS_NOTE, sums};
  notes[(*out_count)++] = (shoal_safetensors_note_t){SHOAL_HEADER_NOTE, "0000000000000000"};
  *out_notes = notes;
  return NULL;
}

// A shard's header, as long with any checksums. Sets the ranges of its tensors.
static shoal_status_t make_header(const shoal_shard_writer_t *writer, int64_t shard,
                                  shoal_arena_t *arena, const char **out_data, int64_t *out_size) {
  const int64_t first = writer->firsts[shard], count = writer->firsts[shard + 1] - first;
  const shoal_safetensors_note_t *notes;
  int64_t note_count;
  SHOAL_RETURN_IF_ERROR(list_notes(writer, shard, arena, &notes, &note_count));
  SHOAL_RETURN_IF_ERROR(shoal_safetensors_header(writer->tensors + first, count, notes, note_count,
                                                 arena, out_data, out_size));
  if (!is_ours(writer)) return NULL;
  const char *text = *out_data + sizeof(uint64_t);
  const size_t size = (size_t)*out_size - sizeof(uint64_t);
  const char *place = shoal_safetensors_header_place(text, size);
  if (!place) return SHOAL_ERROR(INTERNAL, "the header has no room for its checksum");
  char *data = shoal_arena_copy(arena, *out_data, (size_t)*out_size, 1);
  char digits[SHOAL_CHECKSUM_DIGITS + 1];
  if (!data) return SHOAL_OOM();
  snprintf(digits, sizeof digits, "%016llx",
           (unsigned long long)shoal_safetensors_header_sum(text, size));
  memcpy(data + (place - *out_data), digits, SHOAL_CHECKSUM_DIGITS);
  *out_data = data;
  return NULL;
}

static int64_t size_of(const shoal_shard_writer_t *writer, int64_t shard) {
  int64_t size = writer->header_sizes[shard];
  for (int64_t t = writer->firsts[shard]; t < writer->firsts[shard + 1]; ++t)
    size += shoal_type_bytes(&writer->tensors[t].type);
  return size;
}

// ---- begin ----------------------------------------------------------------------------

static shoal_status_t plan(shoal_shard_writer_t *writer, int64_t shard_bytes) {
  if (shard_bytes <= 0) shard_bytes = SHOAL_SHARD_BYTES;
  writer->firsts = SHOAL_NEW(writer->arena, int64_t, writer->count + 2);
  writer->sums = SHOAL_NEW(writer->arena, uint64_t, writer->count);
  if (!writer->firsts || !writer->sums) return SHOAL_OOM();
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
  writer->header_sizes = SHOAL_NEW(writer->arena, int64_t, writer->shards);
  return writer->header_sizes ? NULL : SHOAL_OOM();
}

// Takes the room on the disk where the file system can, so that a full one shows now.
static shoal_status_t reserve(const shoal_shard_writer_t *writer, int64_t size) {
  if (fallocate(writer->file, 0, 0, (off_t)size) == 0) return NULL;
  if (errno != EOPNOTSUPP && errno != ENOSYS && errno != EINVAL && errno != EINTR)
    return failed("write", writer->path, errno);
  return ftruncate(writer->file, (off_t)size) == 0 ? NULL : failed("write", writer->path, errno);
}

static shoal_status_t make_files(shoal_shard_writer_t *writer) {
  shoal_status_t status = NULL;
  for (int64_t s = 0; s < writer->shards && !status; ++s) {
    shoal_arena_t scratch;
    shoal_arena_init(writer->arena->allocator, &scratch);
    const char *header;
    status = make_header(writer, s, &scratch, &header, &writer->header_sizes[s]);
    shoal_arena_deinit(&scratch);
    if (!status) status = open_file(writer, s, O_RDWR | O_CREAT | O_TRUNC);
    if (writer->file >= 0) writer->made = s + 1;
    if (!status) status = write_at(writer, 0, writer->mark, sizeof writer->mark);
    if (!status) status = reserve(writer, size_of(writer, s));
  }
  return status;
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
                                       .leads = true,
                                       .file = -1};
  SHOAL_RETURN_IF_ERROR(plan(out_writer, shard_bytes));
  struct stat info;
  out_writer->made_folder = stat(folder, &info) != 0;
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(folder));
  int64_t newest;
  SHOAL_RETURN_IF_ERROR(sweep(folder, false, 0, &newest));
  out_writer->generation = newest + 1;
  if (getrandom(out_writer->mark, sizeof out_writer->mark, 0) != sizeof out_writer->mark)
    return failed("make a mark for", folder, errno);
  return make_files(out_writer);
}

// ---- join -----------------------------------------------------------------------------

enum { WORD_GENERATION, WORD_MARK, WORD_SIZES = WORD_MARK + 2 };

shoal_status_t shoal_shard_writer_words(int64_t count, const shoal_safetensor_t *tensors,
                                        int64_t shard_bytes, shoal_arena_t *arena,
                                        int64_t *out_count) {
  shoal_shard_writer_t writer = {
      .arena = arena, .tensors = (shoal_safetensor_t *)tensors, .count = count, .file = -1};
  SHOAL_RETURN_IF_ERROR(plan(&writer, shard_bytes));
  *out_count = WORD_SIZES + writer.shards;
  return NULL;
}

void shoal_shard_writer_tell(const shoal_shard_writer_t *writer, int64_t *out_words) {
  out_words[WORD_GENERATION] = writer->generation;
  memcpy(out_words + WORD_MARK, writer->mark, sizeof writer->mark);
  for (int64_t s = 0; s < writer->shards; ++s) out_words[WORD_SIZES + s] = writer->header_sizes[s];
}

// A file of this name may have been left by a save that was killed.
static shoal_status_t check_mark(shoal_shard_writer_t *writer) {
  uint64_t mark[2] = {0};
  shoal_status_t status = open_file(writer, 0, O_RDWR);
  const bool there = !status && pread(writer->file, mark, sizeof mark, 0) == sizeof mark;
  if (there && memcmp(mark, writer->mark, sizeof mark) == 0) return NULL;
  if (status && access(writer->path, F_OK) == 0) return status;
  shoal_status_free(status);
  char host[256] = "?";
  gethostname(host, sizeof host - 1);
  return SHOAL_ERROR_HINT(NOT_FOUND,
                          "save into a folder that all machines share (NFS, Lustre): every rank "
                          "writes its part of the checkpoint",
                          "on %s there is no '%s' that rank 0 has made: the ranks do not share "
                          "this file system",
                          host, writer->path);
}

shoal_status_t shoal_shard_writer_join(const char *folder, int64_t count,
                                       shoal_safetensor_t *tensors, int64_t shard_bytes,
                                       const int64_t *words, shoal_arena_t *arena,
                                       shoal_shard_writer_t *out_writer) {
  *out_writer = (shoal_shard_writer_t){
      .folder = folder, .arena = arena, .tensors = tensors, .count = count, .file = -1};
  SHOAL_RETURN_IF_ERROR(plan(out_writer, shard_bytes));
  out_writer->generation = words[WORD_GENERATION];
  memcpy(out_writer->mark, words + WORD_MARK, sizeof out_writer->mark);
  for (int64_t s = 0; s < out_writer->shards; ++s) {
    int64_t at = out_writer->header_sizes[s] = words[WORD_SIZES + s];
    for (int64_t t = out_writer->firsts[s]; t < out_writer->firsts[s + 1]; ++t) {
      tensors[t].begin = at;
      tensors[t].end = at += shoal_type_bytes(&tensors[t].type);
    }
  }
  return check_mark(out_writer);
}

// ---- put ------------------------------------------------------------------------------

static int64_t shard_of(const shoal_shard_writer_t *writer, int64_t tensor) {
  int64_t shard = writer->file >= 0 && writer->firsts[writer->shard] <= tensor ? writer->shard : 0;
  while (writer->firsts[shard + 1] <= tensor) ++shard;
  return shard;
}

shoal_status_t shoal_shard_writer_put(shoal_shard_writer_t *writer, int64_t tensor, int64_t offset,
                                      const void *data, int64_t bytes) {
  if (bytes == 0) return NULL;
  const int64_t shard = shard_of(writer, tensor);
  if (writer->file < 0 || shard != writer->shard)
    SHOAL_RETURN_IF_ERROR(open_file(writer, shard, O_RDWR));
  SHOAL_RETURN_IF_ERROR(write_at(writer, writer->tensors[tensor].begin + offset, data, bytes));
  writer->sums[tensor] = shoal_parts_sum(writer->sums[tensor], offset, data, (size_t)bytes);
  return NULL;
}

shoal_status_t shoal_shard_writer_add(shoal_shard_writer_t *writer, const void *data) {
  const shoal_safetensor_t *tensor = &writer->tensors[writer->at];
  return shoal_shard_writer_put(writer, writer->at++, 0, data, tensor->end - tensor->begin);
}

shoal_status_t shoal_shard_writer_flush(shoal_shard_writer_t *writer) {
  return writer->file < 0 ? NULL : sync_file(writer);
}

// ---- finish ---------------------------------------------------------------------------

static shoal_status_t write_headers(shoal_shard_writer_t *writer) {
  shoal_status_t status = NULL;
  for (int64_t s = 0; s < writer->shards && !status; ++s) {
    shoal_arena_t scratch;
    shoal_arena_init(writer->arena->allocator, &scratch);
    const char *header;
    int64_t size;
    status = make_header(writer, s, &scratch, &header, &size);
    if (!status && size != writer->header_sizes[s])
      status = SHOAL_ERROR(INTERNAL, "the header of '%s' has changed its size", writer->path);
    if (!status) status = open_file(writer, s, O_RDWR);
    if (!status) status = write_at(writer, 0, header, size);
    shoal_arena_deinit(&scratch);
  }
  return status ? status : close_file(writer);
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
  SHOAL_RETURN_IF_ERROR(write_headers(writer));
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
  writer->made = 0;  // published: nothing to abandon
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
  for (int64_t s = 0; s < writer->made; ++s) {
    char name[NAME_MAX + 1] = SHOAL_WEIGHTS_NAME ".tmp";
    if (writer->shards > 1) shard_name(writer, s, name);
    shoal_status_free(remove_named(writer->folder, name));
  }
  if (writer->made_folder) rmdir(writer->folder);  // only if it is empty
  writer->made = 0;
}
