// A scratch file: room on disk that is gone with the process. It has no name from the start, so
// that a killed process leaves nothing behind, and all of its space is reserved when it is made:
// later writes do not run out of disk. Read and written with system calls, not mapped: the pages of
// a mapping would count as the process's memory.
//
// Where the file system allows it, long ranges go past the page cache (direct I/O): what is in a
// file to make room in memory would lie there a second time otherwise, and pass it once more on its
// way. Direct are the whole blocks of a range whose memory is as far from a block's start as its
// place in the file is; the rest of it, and other ranges, pass the page cache.
#ifndef SHOAL_BASE_SCRATCH_H_
#define SHOAL_BASE_SCRATCH_H_

#include "shoal/base.h"

typedef struct shoal_scratch {
  const char *folder;  // borrowed
  int64_t bytes;       // 0: there is none
  int file;
  int direct;  // the same file for direct I/O; -1: it is not to be had
} shoal_scratch_t;

#define SHOAL_SCRATCH_BLOCK 4096        // to which direct I/O is aligned, in memory and file
#define SHOAL_SCRATCH_LEAST (64 << 10)  // bytes from which direct I/O is worth its calls

// In `folder`, which must outlive it. IO names the folder, what is needed and what is free.
SHOAL_MUST_USE shoal_status_t shoal_scratch_init(const char *folder, int64_t bytes,
                                                 shoal_scratch_t *out_scratch);
void shoal_scratch_deinit(shoal_scratch_t *scratch);  // all-zero is allowed
// From any thread; blocks. Ranges lie inside the file.
SHOAL_MUST_USE shoal_status_t shoal_scratch_read(const shoal_scratch_t *scratch, int64_t offset,
                                                 int64_t bytes, void *data);
SHOAL_MUST_USE shoal_status_t shoal_scratch_write(const shoal_scratch_t *scratch, int64_t offset,
                                                  int64_t bytes, const void *data);
// Does the range go past the page cache, but perhaps for its ends, from or to memory that lies as
// it does?
bool shoal_scratch_is_direct(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes);
// Does the range move from or to this memory as it would from or to the best: past the page cache
// if it is for that? Else a copy through memory that lies as the range does keeps it out of there.
bool shoal_scratch_suits(const shoal_scratch_t *scratch, int64_t offset, int64_t bytes,
                         const void *data);

#endif  // SHOAL_BASE_SCRATCH_H_
