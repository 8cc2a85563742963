// The lock of a folder of checkpoints: FOLDER/.shoal.lock, locked as a whole (flock) for as long as
// a run uses the folder. The system lets go of it however the process ends, so a lock is never left
// behind; the file may be, and means nothing then. It says who has the lock, for messages. File
// systems that know no such locks are used without.
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "run/checkpoint.h"

static shoal_status_t in_use(const char *folder, int file) {
  char who[320] = "";
  const ssize_t length = pread(file, who, sizeof who - 1, 0);
  who[length > 0 ? length : 0] = 0;
  who[strcspn(who, "\n")] = 0;
  return SHOAL_ERROR_HINT(INVALID_ARGUMENT,
                          "wait until it has ended, or end it; or save into another folder",
                          "'%s' is in use by another run%s%s", folder, who[0] ? ": " : "", who);
}

static void sign(int file) {
  char host[256] = "", text[320];
  gethostname(host, sizeof host - 1);
  const int length = snprintf(text, sizeof text, "process %ld on %s\n", (long)getpid(), host);
  // Of use to people only: a disk that is full is found where something is saved.
  if (ftruncate(file, 0) == 0) (void)!pwrite(file, text, (size_t)length, 0);
}

// The file was removed by its last owner between opening and locking it.
static bool is_gone(int file, const char *path) {
  struct stat here, there;
  return fstat(file, &here) != 0 || stat(path, &there) != 0 || here.st_ino != there.st_ino ||
         here.st_dev != there.st_dev;
}

bool shoal_checkpoint_lock_path(const char *folder, char out_path[PATH_MAX]) {
  const int length = snprintf(out_path, PATH_MAX, "%s/.shoal.lock", folder);
  return length > 0 && length < PATH_MAX;
}

shoal_status_t shoal_checkpoint_lock(const char *folder, shoal_checkpoint_lock_t *out_lock) {
  out_lock->file = -1;
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(folder));
  if (!shoal_checkpoint_lock_path(folder, out_lock->path)) {
    return SHOAL_ERROR(IO, "cannot use '%s': %s", folder, strerror(ENAMETOOLONG));
  }
  for (;;) {
    const int file = open(out_lock->path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
      return SHOAL_ERROR(IO, "cannot write into '%s': %s", folder, strerror(errno));
    }
    const bool locked = flock(file, LOCK_EX | LOCK_NB) == 0;
    const bool taken = !locked && errno == EWOULDBLOCK;
    if (locked && is_gone(file, out_lock->path)) {
      close(file);
      continue;
    }
    shoal_status_t status = taken ? in_use(folder, file) : NULL;
    if (!taken) sign(file);
    if (taken) close(file);
    if (!taken) out_lock->file = file;
    return status;
  }
}

void shoal_checkpoint_unlock(shoal_checkpoint_lock_t *lock) {
  if (lock->file < 0) return;
  unlink(lock->path);
  close(lock->file);
  lock->file = -1;
}
