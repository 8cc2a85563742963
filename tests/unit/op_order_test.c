// sort, top_k and segments against naive models, with ties, NaN and empty segments.
#include "op_support.h"

static const shoal_dtype_t DTYPES[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16,
                                       SHOAL_I64, SHOAL_I32, SHOAL_U8};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

// How many of the n numbers x, `stride` apart, come before number i: those that are smaller (or
// larger), and equal ones with a smaller index.
static int64_t rank_of(const shoal_tensor_t *x, int64_t first, int64_t stride, int64_t n, int64_t i,
                       bool descending) {
  int64_t before = 0;
  const double mine = at(x, first + i * stride);
  for (int64_t k = 0; k < n; ++k) {
    const double other = at(x, first + k * stride);
    const bool same = other == mine || (isnan(other) && isnan(mine));
    const bool less = other < mine || (isnan(mine) && !isnan(other));
    before += same ? k < i : less != descending;
  }
  return before;
}

// x [3, 9, 2] with few different numbers, sorted along dim 1.
static void check_order(bench_t *b, shoal_tensor_t x, int64_t k, bool descending) {
  shoal_tensor_t sorted[2], top[2];
  const shoal_attr_t axis = shoal_attr_int("axis", 1);
  assert_ok(run_named(b, "shoal.sort", TENSORS(x),
                      ATTRS(axis, shoal_attr_int("descending", descending)), sorted, NULL));
  assert_ok(run_named(b, "shoal.top_k", TENSORS(x),
                      ATTRS(axis, shoal_attr_int("k", k), shoal_attr_int("largest", descending)),
                      top, NULL));
  const int64_t n = x.shape.dims[1];
  for (int64_t row = 0; row < 6; ++row) {
    const int64_t first = row / 2 * n * 2 + row % 2, in_top = row / 2 * k * 2 + row % 2;
    for (int64_t i = 0; i < n; ++i) {
      const int64_t rank = rank_of(&x, first, 2, n, i, descending);
      assert_int_equal(((int64_t *)sorted[1].data)[first + rank * 2], i);
      const double value = at(&x, first + i * 2), found = at(&sorted[0], first + rank * 2);
      assert_true(value == found || (isnan(value) && isnan(found)));
      if (rank >= k) continue;
      assert_int_equal(((int64_t *)top[1].data)[in_top + rank * 2], i);
      const double best = at(&top[0], in_top + rank * 2);
      assert_true(value == best || (isnan(value) && isnan(best)));
    }
  }
}

static void orders(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < DTYPE_COUNT * 2; ++k) {
    const shoal_dtype_t dtype = DTYPES[k / 2];
    shoal_tensor_t x = random_tensor(&b, dtype, SHOAL_SHAPE(3, 9, 2), 4, 1);
    for (int64_t i = 0; i < 54; ++i) {  // ties
      shoal_dtype_store(dtype, x.data, i, floor(at(&x, i) * 3));
    }
    check_order(&b, x, 1 + k % 9, k % 2);
    if (shoal_dtype_is_float(dtype)) {
      const double special[] = {NAN, -INFINITY, INFINITY, NAN};
      for (int64_t i = 0; i < 4; ++i) shoal_dtype_store(dtype, x.data, 7 * i, special[i]);
      check_order(&b, x, 9, k % 2);
    }
    check_order(&b, random_tensor(&b, dtype, SHOAL_SHAPE(3, 200, 2), 50, 2), 70, k % 2);
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(3, 4), 2, 1), out[2];
  assert_error(INVALID_ARGUMENT, "k is 5, and dim 1 has 4 elements",
               run_named(&b, "shoal.top_k", TENSORS(x),
                         ATTRS(shoal_attr_int("axis", 1), shoal_attr_int("k", 5)), out, NULL));
  shoal_tensor_t flags = random_tensor(&b, SHOAL_BOOL, SHOAL_SHAPE(3, 4), 2, 1);
  assert_error(
      INVALID_ARGUMENT, "x must be numbers, not bool",
      run_named(&b, "shoal.sort", TENSORS(flags), ATTRS(shoal_attr_int("axis", 1)), out, NULL));
  bench_deinit(&b);
}

enum { ROWS = 11, SEGMENTS = 5, WIDTH = 3 };

static void segments(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_attr_t count = shoal_attr_int("segments", SEGMENTS);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(ROWS), SEGMENTS - 1, 7), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    const shoal_dtype_t dtype = DTYPES[k];
    const bool floats = shoal_dtype_is_float(dtype);
    const double tolerance = dtype == SHOAL_F64 || !floats ? 1e-14 : 8 * shoal_dtype_epsilon(dtype);
    shoal_tensor_t x = random_tensor(&b, dtype, SHOAL_SHAPE(ROWS, WIDTH), 9, 1);
    double sum[SEGMENTS * WIDTH] = {0}, most[SEGMENTS * WIDTH], total[SEGMENTS * WIDTH] = {0};
    for (int64_t i = 0; i < SEGMENTS * WIDTH; ++i) most[i] = -INFINITY;
    for (int64_t i = 0; i < ROWS * WIDTH; ++i) {
      const int64_t to = ((int32_t *)ids.data)[i / WIDTH] * WIDTH + i % WIDTH;
      sum[to] += at(&x, i);
      most[to] = fmax(most[to], at(&x, i));
      total[to] += exp(at(&x, i));
    }
    assert_ok(run_named(&b, "shoal.segment_sum", TENSORS(x, ids), ATTRS(count), out, NULL));
    for (int64_t i = 0; i < SEGMENTS * WIDTH; ++i) {
      check_near(at(out, i), sum[i], tolerance, "segment_sum", i);
    }
    if (!floats) continue;
    assert_ok(run_named(&b, "shoal.segment_max", TENSORS(x, ids), ATTRS(count), out, NULL));
    for (int64_t i = 0; i < SEGMENTS * WIDTH; ++i) assert_true(at(out, i) == most[i]);
    assert_ok(run_named(&b, "shoal.segment_softmax", TENSORS(x, ids), ATTRS(count), out, NULL));
    for (int64_t i = 0; i < ROWS * WIDTH; ++i) {
      const int64_t of = ((int32_t *)ids.data)[i / WIDTH] * WIDTH + i % WIDTH;
      check_near(at(out, i), exp(at(&x, i)) / total[of], tolerance, "segment_softmax", i);
    }
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(ROWS, WIDTH), 2, 1);
  ((double *)x.data)[0] = NAN;
  assert_ok(run_named(&b, "shoal.segment_max", TENSORS(x, ids), ATTRS(count), out, NULL));
  assert_true(isnan(at(out, ((int32_t *)ids.data)[0] * WIDTH)));
  ((int32_t *)ids.data)[3] = SEGMENTS;
  static const char *const ops[] = {"shoal.segment_sum", "shoal.segment_max",
                                    "shoal.segment_softmax"};
  for (int i = 0; i < 3; ++i) {
    assert_error(INVALID_ARGUMENT, "element 3 of ids is 5, which is not in [0, 5)",
                 run_named(&b, ops[i], TENSORS(x, ids), ATTRS(count), out, NULL));
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(orders), cmocka_unit_test(segments)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
