// See scratch.h.
#include "base/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#define HINT "name another folder with offload_dir (--offload-dir, SHOAL_OFFLOAD_DIR)"

// Some file systems cannot make a file without a name: there it has one for a moment.
static int open_unnamed(const char *folder) {
  int file = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return file;
  char path[PATH_MAX];
  const int length = snprintf(path, sizeof path, "%s/shoal-XXXXXX", folder);
  if (length < 0 || (size_t)length >= sizeof path) {
    errno = ENAMETOOLONG;
    return -1;
  }
  file = mkostemp(path, O_CLOEXEC);
  if (file >= 0) unlink(path);
  return file;
}

static int reserve(int file, int64_t bytes) {
  int error;
  do {
    error = posix_fallocate(file, 0, (off_t)bytes);
  } while (error == EINTR);
  return error;
}

static shoal_status_t no_room(const char *folder, int64_t bytes, int error) {
  struct statvfs info;
  if (statvfs(folder, &info) != 0) {
    return SHOAL_ERROR_HINT(IO, HINT, "cannot reserve %lld bytes in folder '%s': %s",
                            (long long)bytes, folder, strerror(error));
  }
  const unsigned long long available = (unsigned long long)info.f_bavail * info.f_frsize;
  return SHOAL_ERROR_HINT(IO, HINT,
                          "cannot reserve %lld bytes in folder '%s', which has %llu free: %s",
                          (long long)bytes, folder, available, strerror(error));
}

shoal_status_t shoal_scratch_init(const char *folder, int64_t bytes, shoal_scratch_t *out_scratch) {
  *out_scratch = (shoal_scratch_t){.folder = folder};
  if (bytes == 0) return NULL;
  const int file = open_unnamed(folder);
  if (file < 0) {
    return SHOAL_ERROR_HINT(IO, HINT, "cannot make a file of %lld bytes in folder '%s': %s",
                            (long long)bytes, folder, strerror(errno));
  }
  const int error = reserve(file, bytes);
  if (error) {
    close(file);
    return no_room(folder, bytes, error);
  }
  out_scratch->file = file;
  out_scratch->bytes = bytes;
  return NULL;
}

void shoal_scratch_deinit(shoal_scratch_t *scratch) {
  if (scratch->bytes > 0) close(scratch->file);
  *scratch = (shoal_scratch_t){0};
}

static shoal_status_t failed(const shoal_scratch_t *scratch, const char *what, int error) {
  return SHOAL_ERROR(IO, "cannot %s the scratch file in folder '%s': %s", what, scratch->folder,
                     error ? strerror(error) : "it is too short");
}

shoal_status_t shoal_scratch_read(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                                  void *data) {
  char *to = data;
  while (bytes > 0) {
    const ssize_t done = pread(scratch->file, to, (size_t)bytes, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed(scratch, "read", done < 0 ? errno : 0);
    to += done;
    offset += done;
    bytes -= done;
  }
  return NULL;
}

shoal_status_t shoal_scratch_write(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                                   const void *data) {
  const char *from = data;
  while (bytes > 0) {
    const ssize_t done = pwrite(scratch->file, from, (size_t)bytes, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(scratch, "write", errno);
    from += done;
    offset += done;
    bytes -= done;
  }
  return NULL;
}
