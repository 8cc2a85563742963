// Hashes of data: every byte of small data counts, the first and the last of large ones, and the
// size.
#include <stdlib.h>

#include "base/hash.h"
#include "unit.h"

enum { LIMIT = 1 << 16, LARGE = 5 * LIMIT + 13 };

static void test_every_byte_of_small_data(void **state) {
  (void)state;
  static unsigned char data[300];
  for (size_t size = 1; size <= sizeof data; size += 7) {
    const uint64_t hash = shoal_hash_sample(data, size);
    assert_int_not_equal(hash, shoal_hash_sample(data, size - 1));
    for (size_t i = 0; i < size; ++i) {
      data[i] = 0x80;
      assert_int_not_equal(hash, shoal_hash_sample(data, size));
      data[i] = 0;
    }
    assert_int_equal(hash, shoal_hash_sample(data, size));
  }
}

// Above the limit as much is looked at, from end to end.
static void test_large_data(void **state) {
  (void)state;
  unsigned char *data = calloc(LARGE, 1);
  assert_non_null(data);
  for (size_t size = LIMIT; size <= LARGE; size += LARGE - LIMIT) {
    const uint64_t hash = shoal_hash_sample(data, size);
    size_t noticed = 0;
    for (size_t i = 0; i < size; i += 31) {
      data[i] = 1;
      noticed += hash != shoal_hash_sample(data, size);
      data[i] = 0;
    }
    assert_in_range(noticed, LIMIT / 31 - 40, LIMIT / 31 + 40);
    for (int last = 0; last < 2; ++last) {
      unsigned char *byte = last ? &data[size - 1] : &data[0];
      *byte = 1;
      assert_int_not_equal(hash, shoal_hash_sample(data, size));
      *byte = 0;
    }
  }
  free(data);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_byte_of_small_data),
      cmocka_unit_test(test_large_data),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
