// Scratch files: ranges of all sizes at all places, in memory that lies as in the file or not, hold
// what was written last, whether they go past the page cache or through it, also where ranges of
// both kinds share a block.
#include "base/scratch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"
#include "unit/random.h"
#include "unit/unit.h"

enum { FILE_BYTES = 1 << 20, BLOCK = SHOAL_SCRATCH_BLOCK };

static char shadow[FILE_BYTES], raw[FILE_BYTES + 3 * BLOCK];

// Memory that is `shift` bytes from where a block starts.
static char *memory_at(int64_t shift) {
  return raw + (BLOCK - (uintptr_t)raw % BLOCK) + shift;
}

static void write_and_read(const char *folder, bool direct) {
  shoal_scratch_t scratch;
  random_t random = {17};
  assert_ok(shoal_scratch_init(folder, FILE_BYTES, &scratch));
  if (!direct && scratch.direct >= 0) {
    close(scratch.direct);
    scratch.direct = -1;
  }
  memset(shadow, 0, sizeof shadow);
  for (int i = 0; i < 120; ++i) {
    const int64_t offset = draw(&random, FILE_BYTES / 64) * 64;
    const int64_t most = draw(&random, 2) ? 256 << 10 : 3 * BLOCK;
    int64_t bytes = 1 + draw(&random, most);
    if (offset + bytes > FILE_BYTES) bytes = FILE_BYTES - offset;
    const bool fits = draw(&random, 4) > 0;
    char *data = memory_at(fits ? offset % BLOCK : draw(&random, BLOCK));
    if (draw(&random, 2)) {
      for (int64_t k = 0; k < bytes; ++k) data[k] = (char)(i * 31 + k * 7);
      memcpy(shadow + offset, data, (size_t)bytes);
      assert_ok(shoal_scratch_write(&scratch, offset, bytes, data));
    } else {
      memset(data, 1, (size_t)bytes + 1);
      assert_ok(shoal_scratch_read(&scratch, offset, bytes, data));
      if (memcmp(data, shadow + offset, (size_t)bytes) != 0 || data[bytes] != 1)
        fail_msg("turn %d: %lld bytes at %lld are not what was written", i, (long long)bytes,
                 (long long)offset);
    }
  }
  shoal_scratch_deinit(&scratch);
}

static void test_ranges(void **state) {
  (void)state;
  write_and_read("/tmp", true);
  write_and_read("/tmp", false);
  if (access("/dev/shm", W_OK) == 0) write_and_read("/dev/shm", true);
}

static bool has_direct(const char *folder) {
  char path[64];
  snprintf(path, sizeof path, "%s/shoal-direct-XXXXXX", folder);
  const int file = mkstemp(path);
  assert_true(file >= 0);
  const int direct = open(path, O_RDWR | O_DIRECT);
  unlink(path);
  close(file);
  if (direct >= 0) close(direct);
  return direct >= 0;
}

// Whole blocks of long ranges go by the descriptor for direct I/O, if the file system allows one.
static void test_direct(void **state) {
  (void)state;
  shoal_scratch_t scratch;
  assert_ok(shoal_scratch_init("/tmp", FILE_BYTES, &scratch));
  if (!has_direct("/tmp")) {
    shoal_scratch_deinit(&scratch);
    skip();
  }
  assert_true(scratch.direct >= 0);
  assert_true(fcntl(scratch.direct, F_GETFL) & O_DIRECT);
  char *data = memory_at(192);
  memset(data, 5, 128 << 10);
  shoal_scratch_t broken = scratch;
  broken.direct = open("/dev/null", O_RDONLY);
  assert_error(IO, "cannot write", shoal_scratch_write(&broken, 192, 128 << 10, data));
  assert_ok(shoal_scratch_write(&broken, 192, 32 << 10, data));   // too short to be worth it
  assert_ok(shoal_scratch_write(&broken, 256, 128 << 10, data));  // lies otherwise in memory
  assert_error(IO, "too short", shoal_scratch_read(&broken, 192, 128 << 10, data));
  close(broken.direct);
  shoal_scratch_deinit(&scratch);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_ranges), cmocka_unit_test(test_direct)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
