// Whole files. Everything handles short reads and writes, and EINTR.
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"

static shoal_status_t failed(const char *what, const char *path, int error) {
  shoal_code_t code = error == ENOENT ? SHOAL_NOT_FOUND : SHOAL_IO;
  return shoal_status_format(code, __FILE__, __LINE__, NULL, "%s '%s': %s", what, path,
                             strerror(error));
}

static shoal_status_t read_all(int file, const char *path, shoal_arena_t *arena,
                               const char **out_data, int64_t *out_size) {
  struct stat info;
  if (fstat(file, &info) != 0) return failed("cannot read", path, errno);
  if (S_ISDIR(info.st_mode)) return failed("cannot read", path, EISDIR);
  // Pipes and /proc files say 0: grow as it comes.
  size_t capacity = info.st_size > 0 ? (size_t)info.st_size + 1 : 65536, size = 0;
  char *data = shoal_arena_alloc(arena, capacity, 1);
  if (!data) return SHOAL_OOM();
  for (;;) {
    if (size + 1 >= capacity) {
      char probe;
      ssize_t got = read(file, &probe, 1);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) return failed("cannot read", path, errno);
      if (got == 0) break;
      char *grown = shoal_arena_alloc(arena, capacity * 2, 1);
      if (!grown) return SHOAL_OOM();
      memcpy(grown, data, size);
      grown[size++] = probe;
      data = grown;
      capacity *= 2;
    }
    ssize_t got = read(file, data + size, capacity - 1 - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("cannot read", path, errno);
    if (got == 0) break;
    size += (size_t)got;
  }
  data[size] = 0;
  *out_data = data;
  *out_size = (int64_t)size;
  return NULL;
}

shoal_status_t shoal_file_read(const char *path, shoal_arena_t *arena, const char **out_data,
                               int64_t *out_size) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return failed("cannot open", path, errno);
  shoal_status_t status = read_all(file, path, arena, out_data, out_size);
  close(file);
  return status;
}

static int write_all(int file, const char *data, int64_t size) {
  while (size > 0) {
    ssize_t done = write(file, data, (size_t)size);
    if (done < 0 && errno != EINTR) return errno;
    if (done > 0) {
      data += done;
      size -= done;
    }
  }
  return fsync(file) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
}

// A rename lasts only when its folder is synced too. Best effort: some file systems refuse it.
static void sync_folder(const char *path) {
  char folder[PATH_MAX];
  const char *slash = strrchr(path, '/');
  snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - path + 1) : 1, slash ? path : ".");
  int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (file < 0) return;
  fsync(file);
  close(file);
}

// Fifos, devices and symbolic links are what their maker wants written into: a rename would put a
// file in their place.
static bool is_replaced(const char *path) {
  struct stat info;
  return lstat(path, &info) != 0 || S_ISREG(info.st_mode) || S_ISDIR(info.st_mode);
}

static shoal_status_t write_into(const char *path, const void *data, int64_t size) {
  int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOCTTY | O_CLOEXEC, 0666);
  if (file < 0) return failed("cannot write", path, errno);
  int error = write_all(file, data, size);
  if (close(file) != 0 && !error) error = errno;
  return error ? failed("cannot write", path, error) : NULL;
}

shoal_status_t shoal_file_write(const char *path, const void *data, int64_t size) {
  if (!is_replaced(path)) return write_into(path, data, size);
  char temporary[PATH_MAX];
  // threads of one process may write the same file: the thread's id tells their temporaries apart
  int length =
      snprintf(temporary, sizeof temporary, "%s.tmp%d.%d", path, (int)getpid(), (int)gettid());
  if (length < 0 || (size_t)length >= sizeof temporary)
    return failed("cannot write", path, ENAMETOOLONG);
  int file = open(temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return failed("cannot write", path, errno);
  int error = write_all(file, data, size);
  if (close(file) != 0 && !error) error = errno;
  if (!error && rename(temporary, path) != 0) error = errno;
  if (error) {
    unlink(temporary);
    return failed("cannot write", path, error);
  }
  sync_folder(path);
  return NULL;
}

shoal_status_t shoal_file_make_folder(const char *path) {
  char part[PATH_MAX];
  size_t length = strlen(path);
  if (length >= sizeof part) return failed("cannot make folder", path, ENAMETOOLONG);
  memcpy(part, path, length + 1);
  for (size_t i = 1; i <= length; ++i) {
    if (part[i] != '/' && part[i]) continue;
    char kept = part[i];
    part[i] = 0;
    if (mkdir(part, 0777) != 0 && errno != EEXIST) return failed("cannot make folder", path, errno);
    part[i] = kept;
  }
  struct stat info;
  if (stat(path, &info) != 0) return failed("cannot make folder", path, errno);
  return S_ISDIR(info.st_mode) ? NULL : failed("cannot make folder", path, ENOTDIR);
}
