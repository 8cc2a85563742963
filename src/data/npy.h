// .npy files, as numpy.save writes them (format 1.0, 2.0 and 3.0): numbers in C order, read at any
// place. https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
#ifndef SHOAL_DATA_NPY_H_
#define SHOAL_DATA_NPY_H_

#include "data/files.h"

typedef struct shoal_npy {
  shoal_data_file_t file;
  char kind;            // 'f', 'i', 'u' or 'b', as numpy has it
  int32_t width;        // bytes of an element
  bool swapped;         // big-endian
  bool as_stored;       // read without a look at each element
  shoal_dtype_t dtype;  // that elements are read as: of integers that Shoal lacks, the next larger
  shoal_shape_t shape;
  int64_t count;   // of elements
  int64_t offset;  // of the first, in bytes
} shoal_npy_t;

// Does a file begin as these do?
bool shoal_npy_is(const void *head, int64_t bytes);
// Opens one and checks its header. Errors name the file, what is wrong and what to do.
SHOAL_MUST_USE shoal_status_t shoal_npy_open(const char *path, shoal_arena_t *arena,
                                             shoal_npy_t *out_npy);
void shoal_npy_close(shoal_npy_t *npy);
// Elements [at, at + count) as `dtype`. `raw` has room for them as they are stored.
SHOAL_MUST_USE shoal_status_t shoal_npy_read(const shoal_npy_t *npy, int64_t at, int64_t count,
                                             void *raw, void *out_data);

#endif  // SHOAL_DATA_NPY_H_
