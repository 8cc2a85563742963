// Files that are read at any place and stay open. Errors name the file.
#ifndef SHOAL_DATA_FILES_H_
#define SHOAL_DATA_FILES_H_

#include "base/arena.h"

typedef struct shoal_data_file {
  const char *path;  // in the arena it was opened with
  int descriptor;    // -1: not open
  int64_t size;
} shoal_data_file_t;

// A plain file, for reading. NOT_FOUND or IO.
SHOAL_MUST_USE shoal_status_t shoal_data_file_open(const char *path, shoal_arena_t *arena,
                                                   shoal_data_file_t *out_file);
void shoal_data_file_close(shoal_data_file_t *file);
// All of it or an error, of any thread; where the file has become shorter, too.
SHOAL_MUST_USE shoal_status_t shoal_data_file_read(const shoal_data_file_t *file, int64_t offset,
                                                   int64_t bytes, void *out_data);
// The first bytes, as many as there are, up to `capacity`.
SHOAL_MUST_USE shoal_status_t shoal_data_file_head(const shoal_data_file_t *file, int64_t capacity,
                                                   void *out_data, int64_t *out_bytes);

// Names in a folder, sorted by their bytes; those that begin with a dot are left out.
typedef SHOAL_VEC(const char *) shoal_data_names_t;
SHOAL_MUST_USE shoal_status_t shoal_data_folder(const char *path, shoal_arena_t *arena,
                                                shoal_data_names_t *out_names);
bool shoal_data_ends(const char *name, const char *end);  // ".npy", in any case

// Does the folder hold plain files, and each begin like a text? Sub-folders are not looked at.
SHOAL_MUST_USE shoal_status_t shoal_data_holds_texts(const char *path,
                                                     const shoal_data_names_t *names,
                                                     shoal_arena_t *arena, bool *out_holds);

#endif  // SHOAL_DATA_FILES_H_
