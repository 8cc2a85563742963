// Draws against the distributions that they were asked for.
#include <math.h>

#include "base/philox.h"
#include "op_support.h"

// As many ones as the probabilities ask for; what is no probability is taken for the nearest one.
static void bernoulli(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  enum { N = 20000 };
  static const double kinds[] = {0.125, 0.75, -1, 2, 0, NAN}, ones[] = {0.125, 0.75, 0, 1, 0, 0};
  enum { KINDS = sizeof kinds / sizeof *kinds };
  shoal_tensor_t p = new_tensor(&b, SHOAL_F64, SHOAL_SHAPE(N, KINDS), 0), out[1], other[1];
  for (int64_t i = 0; i < N * KINDS; ++i) ((double *)p.data)[i] = kinds[i % KINDS];
  assert_ok(run_named(&b, "shoal.bernoulli", TENSORS(p, scalar_int(&b, 3)),
                      ATTRS(shoal_attr_int("key", 7)), out, NULL));
  double sums[KINDS] = {0};
  for (int64_t i = 0; i < N * KINDS; ++i) {
    assert_true(at(out, i) == 0 || at(out, i) == 1);
    sums[i % KINDS] += at(out, i);
  }
  for (int32_t k = 0; k < KINDS; ++k) {
    const double limit = ones[k] > 0 && ones[k] < 1 ? 0.015 : 0;  // four standard deviations
    if (fabs(sums[k] / N - ones[k]) > limit) fail_msg("p=%g gave %g", kinds[k], sums[k] / N);
  }
  assert_ok(run_named(&b, "shoal.bernoulli", TENSORS(p, scalar_int(&b, 4)),
                      ATTRS(shoal_attr_int("key", 7)), other, NULL));
  assert_true(memcmp(out->data, other->data, N * KINDS * sizeof(double)) != 0);
  bench_deinit(&b);
}

enum { ROWS = 20000, CLASSES = 4 };
static const double CHANCES[CLASSES] = {0.5, 0.125, 0, 0.375};

// Draws from rows that are all alike; one class is impossible.
static const int64_t *draws(bench_t *b, int64_t samples, bool replacement) {
  shoal_tensor_t x = new_tensor(b, SHOAL_F64, SHOAL_SHAPE(ROWS, CLASSES), 0), out[1];
  for (int64_t i = 0; i < ROWS * CLASSES; ++i) ((double *)x.data)[i] = log(CHANCES[i % CLASSES]);
  assert_ok(run_named(b, "shoal.multinomial", TENSORS(x, scalar_int(b, 3)),
                      ATTRS(shoal_attr_int("samples", samples), shoal_attr_int("key", 7),
                            shoal_attr_int("replacement", replacement)),
                      out, NULL));
  assert_int_equal(shoal_shape_count(&out->shape), ROWS * samples);
  return out->data;
}

// How often `class` is drawn as sample `at`, as a share of all rows.
static double share(const int64_t *drawn, int64_t samples, int64_t at, int64_t class) {
  int64_t count = 0;
  for (int64_t row = 0; row < ROWS; ++row) count += drawn[row * samples + at] == class;
  return (double)count / ROWS;
}

static void multinomial(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t *again = draws(&b, 2, true), *apart = draws(&b, 3, false);
  for (int64_t class = 0; class < CLASSES; ++class) {
    const double chance = CHANCES[class];
    check_near(share(again, 2, 0, class), chance, 0.015, "first draw", class);
    check_near(share(again, 2, 1, class), chance, 0.015, "second draw", class);
    check_near(share(apart, 3, 0, class), chance, 0.015, "first without replacement", class);
    double second = 0;  // given that another class came first
    for (int64_t first = 0; first < CLASSES; ++first) {
      if (first != class) second += CHANCES[first] * chance / (1 - CHANCES[first]);
    }
    check_near(share(apart, 3, 1, class), second, 0.015, "second without replacement", class);
  }
  int64_t both = 0;
  for (int64_t row = 0; row < ROWS; ++row) {
    const int64_t *set = apart + row * 3;
    assert_true(set[0] != set[1] && set[0] != set[2] && set[1] != set[2]);
    assert_true(set[0] != 2 && set[1] != 2 && set[2] != 2);  // three others are possible
    both += again[row * 2] == 0 && again[row * 2 + 1] == 0;
  }
  check_near((double)both / ROWS, 0.25, 0.015, "independent draws", 0);
  bench_deinit(&b);
}

// NaN comes first; -inf only if nothing else is left.
static void multinomial_extremes(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(4), 0), out[1];
  memcpy(x.data, (const float[]){-INFINITY, 1, NAN, -INFINITY}, 4 * sizeof(float));
  assert_ok(run_named(&b, "shoal.multinomial", TENSORS(x, scalar_int(&b, 1)),
                      ATTRS(shoal_attr_int("samples", 4), shoal_attr_int("key", 7)), out, NULL));
  static const int64_t expected[] = {2, 1, 0, 3};
  assert_memory_equal(out->data, expected, sizeof expected);
  bench_deinit(&b);
}

static void normal(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t n = 40000;
  shoal_tensor_t step = scalar_int(&b, 3), out[1];
  const shoal_attr_t shape = shoal_attr_ints("shape", 2, (const int64_t[]){200, 200});
  assert_ok(run_named(&b, "shoal.random_normal", TENSORS(step),
                      ATTRS(shape, shoal_attr_int("key", 99), shoal_attr_dtype("dtype", SHOAL_F64),
                            shoal_attr_real("mean", 2), shoal_attr_real("std", 0.5)),
                      out, NULL));
  double sum = 0, squares = 0;
  for (int64_t i = 0; i < n; ++i) {
    assert_true(at(out, i) ==
                2 + 0.5 * shoal_philox_normal(shoal_philox_word(99, 0, 3, (uint64_t)i)));
    sum += at(out, i) - 2;
    squares += (at(out, i) - 2) * (at(out, i) - 2);
  }
  assert_true(fabs(sum / (double)n) < 0.01 && fabs(squares / (double)n - 0.25) < 0.01);
  bench_deinit(&b);
}

// What is kept is larger by what is dropped; another step drops others, and a p of 1 all.
static void dropout(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const int64_t n = 40000;
  shoal_tensor_t step = scalar_int(&b, 3), out[1];
  shoal_tensor_t x = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(200, 200), 0);
  for (int64_t i = 0; i < n; ++i) ((float *)x.data)[i] = 1;
  assert_ok(run_named(&b, "shoal.dropout", TENSORS(x, step),
                      ATTRS(shoal_attr_real("p", 0.25), shoal_attr_int("key", 99)), out, NULL));
  int64_t kept = 0;
  for (int64_t i = 0; i < n; ++i) {
    if (at(out, i) == 0) continue;
    check_near(at(out, i), 4.0 / 3, 1e-6, "dropout", i);
    ++kept;
  }
  assert_true(fabs((double)kept / (double)n - 0.75) < 0.01);
  shoal_tensor_t other[1];
  assert_ok(run_named(&b, "shoal.dropout", TENSORS(x, scalar_int(&b, 4)),
                      ATTRS(shoal_attr_real("p", 0.25), shoal_attr_int("key", 99)), other, NULL));
  assert_true(memcmp(out->data, other->data, (size_t)n * 4) != 0);  // another step, other numbers
  assert_ok(run_named(&b, "shoal.dropout", TENSORS(x, step),
                      ATTRS(shoal_attr_real("p", 1), shoal_attr_int("key", 99)), out, NULL));
  for (int64_t i = 0; i < n; ++i) assert_true(at(out, i) == 0);
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bernoulli),
      cmocka_unit_test(normal),
      cmocka_unit_test(dropout),
      cmocka_unit_test(multinomial),
      cmocka_unit_test(multinomial_extremes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
