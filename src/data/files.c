// See files.h. Read with system calls, not mapped: a file that becomes shorter is an error here,
// and a signal there.
#include "data/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/status.h"

static shoal_status_t failed(const char *path, int error) {
  return shoal_status_format(error == ENOENT ? SHOAL_NOT_FOUND : SHOAL_IO, __FILE__, __LINE__, NULL,
                             "cannot read '%s': %s", path, strerror(error));
}

shoal_status_t shoal_data_file_open(const char *path, shoal_arena_t *arena,
                                    shoal_data_file_t *out_file) {
  *out_file = (shoal_data_file_t){.path = shoal_arena_strdup(arena, path), .descriptor = -1};
  if (!out_file->path) return SHOAL_OOM();
  out_file->descriptor = open(path, O_RDONLY | O_CLOEXEC);
  if (out_file->descriptor < 0) return failed(path, errno);
  struct stat info;
  int error = 0;
  if (fstat(out_file->descriptor, &info) != 0)
    error = errno;
  else if (!S_ISREG(info.st_mode))
    error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  if (error) {
    shoal_data_file_close(out_file);
    return failed(path, error);
  }
  out_file->size = (int64_t)info.st_size;
  return NULL;
}

void shoal_data_file_close(shoal_data_file_t *file) {
  if (file->path && file->descriptor >= 0) close(file->descriptor);
  file->descriptor = -1;
}

shoal_status_t shoal_data_file_read(const shoal_data_file_t *file, int64_t offset, int64_t bytes,
                                    void *out_data) {
  char *at = out_data;
  while (bytes > 0) {
    const ssize_t got = pread(file->descriptor, at, (size_t)bytes, (off_t)offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(file->path, errno);
    if (got == 0)
      return SHOAL_ERROR_HINT(IO,
                              "the file is truncated, or has become shorter since it was opened",
                              "'%s' ends at byte %lld; %lld more were expected", file->path,
                              (long long)offset, (long long)bytes);
    at += got;
    offset += got;
    bytes -= got;
  }
  return NULL;
}

shoal_status_t shoal_data_file_head(const shoal_data_file_t *file, int64_t capacity, void *out_data,
                                    int64_t *out_bytes) {
  *out_bytes = shoal_min64(capacity, file->size);
  return shoal_data_file_read(file, 0, *out_bytes, out_data);
}

static int by_bytes(const void *a, const void *b) {
  return strcmp(*(const char *const *)a, *(const char *const *)b);
}

shoal_status_t shoal_data_folder(const char *path, shoal_arena_t *arena,
                                 shoal_data_names_t *out_names) {
  *out_names = (shoal_data_names_t){0};
  DIR *folder = opendir(path);
  if (!folder) return failed(path, errno);
  bool complete = true;
  for (struct dirent *entry; complete && (entry = readdir(folder));) {
    if (entry->d_name[0] == '.') continue;
    const char *name = shoal_arena_strdup(arena, entry->d_name);
    complete = name && SHOAL_PUSH(arena, out_names, name);
  }
  closedir(folder);
  if (!complete) return SHOAL_OOM();
  if (out_names->count > 0)
    qsort(out_names->items, (size_t)out_names->count, sizeof *out_names->items, by_bytes);
  return NULL;
}

bool shoal_data_ends(const char *name, const char *end) {
  const size_t length = strlen(name), of_end = strlen(end);
  return length > of_end && strcasecmp(name + length - of_end, end) == 0;
}

// No zero byte, and none of the control characters that no text has.
static shoal_status_t is_text(const char *path, shoal_arena_t *arena, bool *out_is) {
  shoal_data_file_t file;
  unsigned char head[1024];
  int64_t got = 0;
  SHOAL_RETURN_IF_ERROR(shoal_data_file_open(path, arena, &file));
  shoal_status_t status = shoal_data_file_head(&file, sizeof head, head, &got);
  shoal_data_file_close(&file);
  *out_is = true;
  for (int64_t i = 0; i < got; ++i)
    *out_is = *out_is && (head[i] >= ' ' || (head[i] && strchr("\t\n\v\f\r\033", head[i])));
  return status;
}

shoal_status_t shoal_data_holds_texts(const char *path, const shoal_data_names_t *names,
                                      shoal_arena_t *arena, bool *out_holds) {
  bool all = true, any = false;
  for (int64_t i = 0; i < names->count && all; ++i) {
    const char *inner = shoal_arena_printf(arena, "%s/%s", path, names->items[i]);
    struct stat info;
    if (!inner) return SHOAL_OOM();
    if (stat(inner, &info) == 0 && S_ISDIR(info.st_mode)) continue;
    SHOAL_RETURN_IF_ERROR(is_text(inner, arena, &all));
    any = true;
  }
  *out_holds = all && any;
  return NULL;
}
