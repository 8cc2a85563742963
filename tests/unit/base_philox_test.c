// Philox against Random123's known-answer vectors; normals against bisection on erfc; moments.
#include "base/hash.h"
#include "base/philox.h"

#include <math.h>

#include "unit/unit.h"

static void known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], words[4];
  } cases[] = {
      // Random123 kat_vectors, philox4x32 10
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; ++i) {
    uint32_t words[4];
    shoal_philox4x32(cases[i].counter, cases[i].key, words);
    assert_memory_equal(words, cases[i].words, sizeof words);
  }
  // the third vector again, through seed, stream, step and index
  uint64_t key = UINT64_C(0x299f31d0a4093822), step = UINT64_C(0x0370734413198a2e);
  uint64_t block = UINT64_C(0x85a308d3243f6a88) & (UINT64_MAX >> 2);
  uint32_t expected[4];
  shoal_philox4x32((uint32_t[4]){(uint32_t)block, (uint32_t)(block >> 32), 0x13198a2e, 0x03707344},
                   cases[2].key, expected);
  for (uint64_t i = 0; i < 4; ++i) {
    assert_int_equal(shoal_philox_word(key ^ 99, 99, step, block * 4 + i), expected[i]);
  }
}

// Smallest x with Phi(x) >= p, for p < 1/2 measured in its own tail so that it stays accurate.
static double normal_by_bisection(double p) {
  double low = -10, high = 10;
  for (int i = 0; i < 100; ++i) {
    double middle = 0.5 * (low + high);
    if (0.5 * erfc(-middle / sqrt(2.0)) < p) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return 0.5 * (low + high);
}

static void normal_is_the_inverse_cdf(void **state) {
  (void)state;
  double worst = 0, previous = -10;
  for (uint64_t k = 0; k < (1 << 23); k += k < 2000 || k > (1 << 23) - 2000 ? 1 : 997) {
    uint32_t word = (uint32_t)(k << 9);
    double z = shoal_philox_normal(word), u = shoal_philox_uniform(word);
    assert_true(u > 0 && u < 1 && (double)(float)u == u);
    double tail = u < 0.5 ? u : 1 - u;
    double expected = normal_by_bisection(tail) * (u < 0.5 ? 1 : -1);
    worst = fmax(worst, fabs(z - expected));
    assert_true(z > previous);
    previous = z;
    // symmetric to the bit, and the low 9 bits of a word do not matter
    assert_true(shoal_philox_normal((uint32_t)(((1 << 23) - 1 - k) << 9)) == -z);
    assert_true(shoal_philox_normal(word | 511) == z);
  }
  printf("largest error of a normal %g\n", worst);
  assert_true(worst < 1e-12);
}

static void moments(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  double sum[5] = {0}, uniform = 0;
  uint64_t stream = shoal_hash_string(SHOAL_HASH_START, "dropout");
  for (uint64_t i = 0; i < N; ++i) {
    uint32_t word = shoal_philox_word(1234, stream, 7, i);
    double z = shoal_philox_normal(word), power = z;
    uniform += shoal_philox_uniform(word);
    for (int k = 1; k <= 4; ++k, power *= z) sum[k] += power / N;
  }
  double variance = sum[2] - sum[1] * sum[1];
  assert_true(fabs(uniform / N - 0.5) < 0.0015);
  assert_true(fabs(sum[1]) < 0.005);
  assert_true(fabs(variance - 1) < 0.007);
  assert_true(fabs(sum[3]) < 0.02);
  assert_true(fabs(sum[4] / (variance * variance) - 3) < 0.03);
}

// Bits that must never change: checkpoints and other devices rely on them.
static void golden_bits(void **state) {
  (void)state;
  static const uint32_t words[] = {0, 0x12345678, 0x7fffffff, 0x80000000, 0xdeadbeef, 0xffffffff};
  uint64_t hash = SHOAL_HASH_START;
  for (size_t i = 0; i < sizeof words / sizeof *words; ++i) {
    double z = shoal_philox_normal(words[i]);
    hash = shoal_hash_bytes(hash, &z, sizeof z);
  }
  assert_true(hash == UINT64_C(0xd41054108cb720ef));
}

static void hashes(void **state) {
  (void)state;
  // published FNV-1a 64 test vectors: "", "a", "foobar"
  assert_true(shoal_hash_bytes(SHOAL_HASH_START, "", 0) == UINT64_C(0xcbf29ce484222325));
  assert_true(shoal_hash_bytes(SHOAL_HASH_START, "a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
  assert_true(shoal_hash_bytes(SHOAL_HASH_START, "foobar", 6) == UINT64_C(0x85944171f73967e8));
  uint64_t one = shoal_hash_string(shoal_hash_string(SHOAL_HASH_START, "ab"), "c");
  uint64_t two = shoal_hash_string(shoal_hash_string(SHOAL_HASH_START, "a"), "bc");
  assert_true(one != two);
  assert_true(shoal_hash_int(SHOAL_HASH_START, -1) != shoal_hash_int(SHOAL_HASH_START, 1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(known_answers), cmocka_unit_test(normal_is_the_inverse_cdf),
      cmocka_unit_test(moments),       cmocka_unit_test(golden_bits),
      cmocka_unit_test(hashes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
