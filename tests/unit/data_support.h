// Files for tests of data sets: a folder of the test's own, emptied and removed at the end.
#ifndef SHOAL_TESTS_DATA_SUPPORT_H_
#define SHOAL_TESTS_DATA_SUPPORT_H_

#include "base/failing.h"
#include "shoal/data.h"
#include "unit/folder.h"

static inline const char *write_file(const char *name, const void *data, size_t size) {
  const char *path = in_folder(name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(data, 1, size, file), size);
  fclose(file);
  return path;
}

// Opens the data set with every allocation failing in turn: OUT_OF_MEMORY and no leak. Then reads
// all samples twice: the second time nothing is allocated.
static inline void assert_allocations(const char *path, shoal_dataset_options_t options) {
  for (int64_t at = 1;; ++at) {
    shoal_failing_t failing = {.fail_at = at};
    options.allocator = shoal_allocator_failing(&failing);
    shoal_dataset_t *dataset = NULL;
    static char room[4][1 << 16];
    void *const columns[] = {room[0], room[1], room[2], room[3]};
    shoal_status_t status = shoal_dataset_open(path, &options, &dataset);
    int64_t calls = 0;
    for (int time = 0; !status && time < 2; ++time) {
      calls = failing.calls;
      for (int64_t i = 0; !status && i < shoal_dataset_count(dataset); ++i)
        status = shoal_dataset_read(dataset, &(shoal_sample_t){.index = i}, columns);
    }
    const bool failed = status;
    if (failed && shoal_status_code(status) != SHOAL_OUT_OF_MEMORY)
      fail_msg("%s", shoal_status_message(status));
    shoal_status_free(status);
    if (!failed) assert_int_equal(failing.calls, calls);
    shoal_dataset_free(dataset);
    assert_int_equal(failing.live_blocks, 0);
    if (!failed) return;
  }
}

#endif  // SHOAL_TESTS_DATA_SUPPORT_H_
