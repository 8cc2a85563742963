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

// In any pieces; every byte counts, and how many there are.
static void test_checksum(void **state) {
  (void)state;
  static unsigned char data[300];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (unsigned char)(i * 7);
  shoal_checksum_t whole, parts;
  for (size_t size = 0; size <= sizeof data; size += 13) {
    shoal_checksum_init(&whole);
    shoal_checksum_add(&whole, data, size);
    const uint64_t value = shoal_checksum_value(&whole);
    for (size_t piece = 1; piece <= size; piece += 9) {
      shoal_checksum_init(&parts);
      for (size_t at = 0; at < size; at += piece)
        shoal_checksum_add(&parts, data + at, size - at < piece ? size - at : piece);
      assert_int_equal(shoal_checksum_value(&parts), value);
    }
    for (size_t i = 0; i < size; ++i) {
      data[i] ^= 0x10;
      shoal_checksum_init(&parts);
      shoal_checksum_add(&parts, data, size);
      assert_int_not_equal(shoal_checksum_value(&parts), value);
      data[i] ^= 0x10;
    }
    shoal_checksum_add(&whole, "", 1);
    assert_int_not_equal(shoal_checksum_value(&whole), value);
  }
}

// Cut anywhere, added in any order and joined, parts have the sum of the whole; every bit counts,
// and so do two that a sum of words would lose.
static void test_parts(void **state) {
  (void)state;
  static unsigned char data[203];
  for (size_t i = 0; i < sizeof data; ++i) data[i] = (unsigned char)(i * 11 + 3);
  for (int64_t offset = 0; offset < 5; ++offset) {
    const uint64_t whole = shoal_parts_sum(0, offset, data, sizeof data);
    for (size_t piece = 1; piece <= sizeof data; piece += 6) {
      uint64_t even = 0, odd = 0;
      for (size_t n = (sizeof data + piece - 1) / piece; n-- > 0;) {
        const size_t at = n * piece;
        const size_t size = sizeof data - at < piece ? sizeof data - at : piece;
        uint64_t *sum = n % 2 ? &odd : &even;
        *sum = shoal_parts_sum(*sum, offset + (int64_t)at, data + at, size);
      }
      assert_int_equal(shoal_parts_sum_join(odd, even), whole);
    }
    for (size_t i = 0; i < sizeof data; ++i) {
      data[i] ^= 0x80;
      assert_int_not_equal(shoal_parts_sum(0, offset, data, sizeof data), whole);
      data[(i + 64) % sizeof data] ^= 0x80;
      assert_int_not_equal(shoal_parts_sum(0, offset, data, sizeof data), whole);
      data[i] ^= 0x80;
      data[(i + 64) % sizeof data] ^= 0x80;
    }
    assert_int_not_equal(shoal_parts_sum(0, offset + 4, data, sizeof data), whole);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_byte_of_small_data),
      cmocka_unit_test(test_large_data),
      cmocka_unit_test(test_checksum),
      cmocka_unit_test(test_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
