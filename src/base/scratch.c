// See scratch.h.
#include "base/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
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

// The same file once more: flags of direct I/O belong to an open file. File systems that have none
// (tmpfs) refuse to open it so, some only to read it.
static int open_direct(int file, int64_t bytes) {
  char path[40], probe[2 * SHOAL_SCRATCH_BLOCK];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file);
  const int direct = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
  char *block = probe + (SHOAL_SCRATCH_BLOCK - (uintptr_t)probe % SHOAL_SCRATCH_BLOCK);
  if (direct < 0) return -1;
  if (bytes < SHOAL_SCRATCH_BLOCK || pread(direct, block, SHOAL_SCRATCH_BLOCK, 0) > 0)
    return direct;
  close(direct);
  return -1;
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
  out_scratch->direct = open_direct(file, bytes);
  out_scratch->bytes = bytes;
  return NULL;
}

void shoal_scratch_deinit(shoal_scratch_t *scratch) {
  if (scratch->bytes > 0 && scratch->direct >= 0) close(scratch->direct);
  if (scratch->bytes > 0) close(scratch->file);
  *scratch = (shoal_scratch_t){0};
}

static shoal_status_t failed(const shoal_scratch_t *scratch, const char *what, int error) {
  return SHOAL_ERROR(IO, "cannot %s the scratch file in folder '%s': %s", what, scratch->folder,
                     error ? strerror(error) : "it is too short");
}

static shoal_status_t read_through(const shoal_scratch_t *scratch, int file, int64_t offset,
                                   int64_t bytes, char *to) {
  while (bytes > 0) {
    const ssize_t done = pread(file, to, (size_t)bytes, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return failed(scratch, "read", done < 0 ? errno : 0);
    to += done;
    offset += done;
    bytes -= done;
  }
  return NULL;
}

static shoal_status_t write_through(const shoal_scratch_t *scratch, int file, int64_t offset,
                                    int64_t bytes, const char *from) {
  while (bytes > 0) {
    const ssize_t done = pwrite(file, from, (size_t)bytes, (off_t)offset);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return failed(scratch, "write", errno);
    from += done;
    offset += done;
    bytes -= done;
  }
  return NULL;
}

// How much of a range comes before its whole blocks, and how many bytes these have; 0: it is not
// for direct I/O.
static int64_t whole_blocks(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                            const void *data, int64_t *out_head) {
  const int64_t block = SHOAL_SCRATCH_BLOCK, head = (block - offset % block) % block;
  *out_head = 0;
  if (scratch->direct < 0 || bytes < head + SHOAL_SCRATCH_LEAST ||
      ((uintptr_t)data + (uintptr_t)head) % block)
    return 0;
  *out_head = head;
  return (bytes - head) / block * block;
}

bool shoal_scratch_is_direct(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes) {
  const uintptr_t like = (uintptr_t)offset % SHOAL_SCRATCH_BLOCK;  // an address like the range's
  int64_t head;
  return whole_blocks(scratch, offset, bytes, (const void *)like, &head) > 0;
}

bool shoal_scratch_suits(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                         const void *data) {
  const uintptr_t block = SHOAL_SCRATCH_BLOCK;
  if ((uintptr_t)data % block == (uintptr_t)offset % block) return true;
  return !shoal_scratch_is_direct(scratch, offset, bytes);
}

shoal_status_t shoal_scratch_read(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                                  void *data) {
  char *to = data;
  int64_t head;
  const int64_t body = whole_blocks(scratch, offset, bytes, data, &head), done = head + body;
  SHOAL_RETURN_IF_ERROR(read_through(scratch, scratch->file, offset, head, to));
  SHOAL_RETURN_IF_ERROR(read_through(scratch, scratch->direct, offset + head, body, to + head));
  return read_through(scratch, scratch->file, offset + done, bytes - done, to + done);
}

shoal_status_t shoal_scratch_write(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                                   const void *data) {
  const char *from = data;
  int64_t head;
  const int64_t body = whole_blocks(scratch, offset, bytes, data, &head), done = head + body;
  SHOAL_RETURN_IF_ERROR(write_through(scratch, scratch->file, offset, head, from));
  SHOAL_RETURN_IF_ERROR(write_through(scratch, scratch->direct, offset + head, body, from + head));
  return write_through(scratch, scratch->file, offset + done, bytes - done, from + done);
}
