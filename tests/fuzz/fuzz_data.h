// What the entries of data sets share: bytes as a file, and reading whatever opens.
#ifndef SHOAL_TESTS_FUZZ_DATA_H_
#define SHOAL_TESTS_FUZZ_DATA_H_

#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "shoal/data.h"

// The bytes as a file in memory; close it when done.
static inline int fuzz_file(const uint8_t *data, size_t size, char path[64]) {
  const int file = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(file >= 0 && write(file, data, size) == (ssize_t)size, "no file in memory");
  snprintf(path, 64, "/proc/self/fd/%d", file);
  return file;
}

// Opens it and reads the first and the last sample, varied and not.
static inline void fuzz_dataset(const char *kind, const char *path) {
  shoal_dataset_t *dataset = NULL;
  const shoal_dataset_options_t options = {
      .allocator = fuzz_allocator(), .kind = kind, .length = 3, .flip = true};
  if (!fuzz_ok(shoal_dataset_open(path, &options, &dataset))) return;
  shoal_arena_t *arena = fuzz_arena();
  void *columns[SHOAL_MAX_COLUMNS];
  bool room = true;
  for (int32_t i = 0; i < shoal_dataset_column_count(dataset); ++i) {
    const shoal_column_t *column = shoal_dataset_column(dataset, i);
    columns[i] = shoal_arena_alloc(arena, (size_t)shoal_shape_count(&column->shape),
                                   shoal_dtype_size(column->dtype));
    room = room && columns[i];
  }
  for (int k = 0; room && k < 2; ++k) {
    const shoal_sample_t sample = {.index = k ? shoal_dataset_count(dataset) - 1 : 0, .varied = k};
    fuzz_ok(shoal_dataset_read(dataset, &sample, columns));
  }
  shoal_dataset_free(dataset);
  shoal_arena_free(arena);
}

#endif  // SHOAL_TESTS_FUZZ_DATA_H_
