// Folders "step-N": can they be written, which there are, which is the newest, which to drop.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/status.h"
#include "run/checkpoint.h"
#include "run/shards.h"

#define PROBE ".shoal-"  // and six letters: a file written to see that it can be

typedef struct step {
  int64_t number;
  bool complete;  // has its file
  bool link;      // to a folder elsewhere, maybe another run's: read, never written or emptied
  const char *path;
} step_t;

typedef SHOAL_VEC(step_t) steps_t;

static shoal_status_t failed(const char *what, const char *path, int error) {
  return SHOAL_ERROR(IO, "cannot %s '%s': %s", what, path, strerror(error));
}

// "step-" and digits without a leading zero.
static bool parse_name(const char *name, int64_t *out_number) {
  if (strncmp(name, "step-", 5) != 0) return false;
  const char *digits = name + 5;
  if (!digits[0] || (digits[0] == '0' && digits[1]) || strlen(digits) > 18) return false;
  *out_number = 0;
  for (; *digits; ++digits) {
    if (*digits < '0' || *digits > '9') return false;
    *out_number = *out_number * 10 + (*digits - '0');
  }
  return true;
}

static int newest_first(const void *a, const void *b) {
  const step_t *x = a, *y = b;
  return (x->number < y->number) - (x->number > y->number);
}

static shoal_status_t add_step(const char *folder, const char *name, int64_t number,
                               shoal_arena_t *arena, steps_t *steps) {
  struct stat info;
  const char *path = shoal_arena_printf(arena, "%s/%s", folder, name);
  if (!path) return SHOAL_OOM();
  if (lstat(path, &info) != 0) return NULL;
  const bool link = S_ISLNK(info.st_mode);
  if (link && stat(path, &info) != 0) return NULL;
  if (!S_ISDIR(info.st_mode)) return NULL;
  step_t step = {
      .number = number, .complete = shoal_shards_complete(path), .link = link, .path = path};
  return SHOAL_PUSH(arena, steps, step) ? NULL : SHOAL_OOM();
}

static shoal_status_t list_steps(const char *folder, shoal_arena_t *arena, steps_t *steps) {
  DIR *entries = opendir(folder);
  if (!entries) return errno == ENOENT ? NULL : failed("read", folder, errno);
  shoal_status_t status = NULL;
  for (const struct dirent *entry; !status && (entry = readdir(entries));) {
    int64_t number;
    if (parse_name(entry->d_name, &number)) {
      status = add_step(folder, entry->d_name, number, arena, steps);
    }
  }
  closedir(entries);
  if (!status && steps->count > 0) {
    qsort(steps->items, (size_t)steps->count, sizeof *steps->items, newest_first);
  }
  return status;
}

shoal_status_t shoal_checkpoint_unlink(const char *path) {
  struct stat info;
  int64_t number;
  const char *slash = strrchr(path, '/');
  if (!parse_name(slash ? slash + 1 : path, &number)) return NULL;
  if (lstat(path, &info) != 0 || !S_ISLNK(info.st_mode)) return NULL;
  return unlink(path) != 0 && errno != ENOENT ? failed("remove", path, errno) : NULL;
}

// Removes what Shoal wrote; a folder with anything else in it stays.
static shoal_status_t remove_step(const step_t *step) {
  if (step->link) return shoal_checkpoint_unlink(step->path);
  SHOAL_RETURN_IF_ERROR(shoal_shards_remove(step->path));
  const bool stays = rmdir(step->path) != 0 && errno != ENOTEMPTY && errno != EEXIST;
  return stays ? failed("remove", step->path, errno) : NULL;
}

static shoal_status_t prune(const char *folder, int64_t keep, shoal_arena_t *arena) {
  steps_t steps = {0};
  SHOAL_RETURN_IF_ERROR(list_steps(folder, arena, &steps));
  int64_t kept = 0;
  for (int64_t i = 0; i < steps.count; ++i) {
    const step_t *step = &steps.items[i];
    // An incomplete one newer than all complete ones may be being written.
    if (step->complete ? kept++ < keep : kept == 0) continue;
    SHOAL_RETURN_IF_ERROR(remove_step(step));
  }
  return NULL;
}

static shoal_status_t clear(const char *folder, shoal_arena_t *arena) {
  steps_t steps = {0};
  SHOAL_RETURN_IF_ERROR(list_steps(folder, arena, &steps));
  SHOAL_RETURN_IF_ERROR(add_step(folder, "best", 0, arena, &steps));
  for (int64_t i = 0; i < steps.count; ++i) {
    SHOAL_RETURN_IF_ERROR(remove_step(&steps.items[i]));
  }
  return NULL;
}

// ---- behind a kill --------------------------------------------------------------------

static shoal_status_t sweep_step(const step_t *step) {
  if (step->link) return NULL;
  return step->complete ? shoal_shards_sweep(step->path) : remove_step(step);
}

// Files that `probe` was writing.
static shoal_status_t sweep_probes(const char *folder, shoal_arena_t *arena) {
  DIR *entries = opendir(folder);
  if (!entries) return errno == ENOENT ? NULL : failed("read", folder, errno);
  shoal_status_t status = NULL;
  for (const struct dirent *entry; !status && (entry = readdir(entries));) {
    if (strncmp(entry->d_name, PROBE, sizeof PROBE - 1) != 0) continue;
    const char *path = shoal_arena_printf(arena, "%s/%s", folder, entry->d_name);
    if (!path) status = SHOAL_OOM();
    if (path && unlink(path) != 0 && errno != ENOENT) status = failed("remove", path, errno);
  }
  closedir(entries);
  return status;
}

static shoal_status_t sweep(const char *folder, shoal_arena_t *arena) {
  steps_t steps = {0};
  SHOAL_RETURN_IF_ERROR(sweep_probes(folder, arena));
  SHOAL_RETURN_IF_ERROR(list_steps(folder, arena, &steps));
  SHOAL_RETURN_IF_ERROR(add_step(folder, "best", 0, arena, &steps));
  for (int64_t i = 0; i < steps.count; ++i) {
    SHOAL_RETURN_IF_ERROR(sweep_step(&steps.items[i]));
  }
  return NULL;
}

shoal_status_t shoal_checkpoint_sweep(const char *folder, shoal_allocator_t allocator) {
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_status_t status = sweep(folder, &arena);
  shoal_arena_deinit(&arena);
  return status;
}

// ---- folders --------------------------------------------------------------------------

static shoal_status_t check_folder(const char *folder) {
  if (folder && folder[0]) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "there is no folder: the path is %s",
                     folder ? "empty" : "NULL");
}

shoal_status_t shoal_checkpoint_clear(const char *folder, shoal_allocator_t allocator) {
  SHOAL_RETURN_IF_ERROR(check_folder(folder));
  shoal_arena_t arena;
  shoal_arena_init(allocator.alloc ? allocator : shoal_allocator_system(), &arena);
  shoal_status_t status = clear(folder, &arena);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_checkpoint_prune(const char *folder, int64_t keep,
                                      shoal_allocator_t allocator) {
  SHOAL_RETURN_IF_ERROR(check_folder(folder));
  if (keep <= 0) return NULL;
  shoal_arena_t arena;
  shoal_arena_init(allocator.alloc ? allocator : shoal_allocator_system(), &arena);
  shoal_status_t status = prune(folder, keep, &arena);
  shoal_arena_deinit(&arena);
  return status;
}

shoal_status_t shoal_checkpoint_latest(const char *folder, shoal_arena_t *arena,
                                       const char **out_path, int64_t *out_step) {
  steps_t steps = {0};
  *out_path = NULL;
  *out_step = -1;
  SHOAL_RETURN_IF_ERROR(check_folder(folder));
  SHOAL_RETURN_IF_ERROR(list_steps(folder, arena, &steps));
  for (int64_t i = 0; i < steps.count; ++i) {
    if (!steps.items[i].complete) continue;
    *out_path = steps.items[i].path;
    *out_step = steps.items[i].number;
    return NULL;
  }
  return NULL;
}

// ---- before the first step --------------------------------------------------------------

// More than a file system keeps beside its own records: a full disk shows.
enum { PROBE_BYTES = 65536 };

static int write_probe(int file) {
  static const char zeros[4096];
  for (int64_t left = PROBE_BYTES; left > 0;) {
    const ssize_t done = write(file, zeros, sizeof zeros);
    if (done < 0 && errno != EINTR) return errno;
    if (done > 0) left -= done;
  }
  return fsync(file) != 0 && errno != EINVAL && errno != EROFS ? errno : 0;
}

static shoal_status_t probe(const char *folder, shoal_arena_t *arena) {
  SHOAL_RETURN_IF_ERROR(shoal_file_make_folder(folder));
  char *path = shoal_arena_printf(arena, "%s/" PROBE "XXXXXX", folder);
  if (!path) return SHOAL_OOM();
  const int file = mkostemp(path, O_CLOEXEC);
  int error = file < 0 ? errno : write_probe(file);
  if (file >= 0) {
    if (close(file) != 0 && !error) error = errno;
    unlink(path);
  }
  return error ? failed("write into", folder, error) : NULL;
}

static shoal_status_t prepare(const char *folder, bool reuse, shoal_arena_t *arena) {
  const char *latest = NULL;
  int64_t step = 0;
  SHOAL_RETURN_IF_ERROR(probe(folder, arena));
  if (!reuse) SHOAL_RETURN_IF_ERROR(shoal_checkpoint_latest(folder, arena, &latest, &step));
  if (!latest) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' holds checkpoints of another run, up to step %lld",
                     folder, (long long)step);
}

shoal_status_t shoal_checkpoint_prepare(const char *folder, bool reuse,
                                        shoal_allocator_t allocator) {
  SHOAL_RETURN_IF_ERROR(check_folder(folder));
  shoal_arena_t arena;
  shoal_arena_init(allocator.alloc ? allocator : shoal_allocator_system(), &arena);
  shoal_status_t status = prepare(folder, reuse, &arena);
  shoal_arena_deinit(&arena);
  return status;
}
