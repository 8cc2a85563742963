// A scratch file: room on disk that is gone with the process. It has no name from the start, so
// that a killed process leaves nothing behind, and all of its space is reserved when it is made:
// later writes do not run out of disk. Read and written with system calls, not mapped: the pages of
// a mapping would count as the process's memory.
#ifndef SHOAL_BASE_SCRATCH_H_
#define SHOAL_BASE_SCRATCH_H_

#include "shoal/base.h"

typedef struct shoal_scratch {
  const char *folder;  // borrowed
  int64_t bytes;       // 0: there is none
  int file;
} shoal_scratch_t;

// In `folder`, which must outlive it. IO names the folder, what is needed and what is free.
SHOAL_MUST_USE shoal_status_t shoal_scratch_init(const char *folder, int64_t bytes,
                                                 shoal_scratch_t *out_scratch);
void shoal_scratch_deinit(shoal_scratch_t *scratch);  // all-zero is allowed
// From any thread; blocks. Ranges lie inside the file.
SHOAL_MUST_USE shoal_status_t shoal_scratch_read(const shoal_scratch_t *scratch, int64_t offset,
                                                 int64_t bytes, void *data);
SHOAL_MUST_USE shoal_status_t shoal_scratch_write(const shoal_scratch_t *scratch, int64_t offset,
                                                  int64_t bytes, const void *data);

#endif  // SHOAL_BASE_SCRATCH_H_
