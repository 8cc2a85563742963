// A folder of the test's own, with a group set-up and tear-down that make and remove it.
#ifndef SHOAL_TESTS_FOLDER_H_
#define SHOAL_TESTS_FOLDER_H_

#include <ftw.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/unit.h"

static char folder[64];

static inline int make_folder(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "/tmp/shoal_unit_XXXXXX");
  return mkdtemp(folder) ? 0 : -1;
}

static inline int remove_one(const char *path, const struct stat *info, int kind,
                             struct FTW *place) {
  (void)info;
  (void)kind;
  (void)place;
  return remove(path);
}

static inline int remove_folder(void **state) {
  (void)state;
  return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

// The path of a file in the folder; 64 of them can be held at once.
static inline const char *in_folder(const char *name) {
  static char paths[64][256];
  static int next;
  char *path = paths[next++ % 64];
  snprintf(path, sizeof paths[0], "%s/%s", folder, name);
  return path;
}

#endif  // SHOAL_TESTS_FOLDER_H_
