// Files: read whole, written atomically. Errors are NOT_FOUND or IO and name the file.
#ifndef SHOAL_BASE_FILE_H_
#define SHOAL_BASE_FILE_H_

#include "base/arena.h"

// The file's bytes in the arena, with a NUL behind them that is not counted.
SHOAL_MUST_USE shoal_status_t shoal_file_read(const char *path, shoal_arena_t *arena,
                                              const char **out_data, int64_t *out_size);
// Writes a temporary file beside `path`, syncs it and renames it: readers see the old file or the
// new one.
SHOAL_MUST_USE shoal_status_t shoal_file_write(const char *path, const void *data, int64_t size);
// Makes the folder and its parents; an existing one is fine.
SHOAL_MUST_USE shoal_status_t shoal_file_make_folder(const char *path);

#endif  // SHOAL_BASE_FILE_H_
