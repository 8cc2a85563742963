// Ops that read and write by index against naive models, with indices that occur more than once,
// and what they refuse.
#include "op_support.h"

// A tensor seen as [outer, size, inner] around dim 1 of [3, n, 2].
enum { OUTER = 3, ROWS = 4, COUNT = 9, INNER = 2 };

static const shoal_dtype_t DTYPES[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16,
                                       SHOAL_I64, SHOAL_I32, SHOAL_U8};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

static const shoal_attr_t AXIS = {"axis", SHOAL_ATTR_INT, {.i = 1}};

static int64_t index_at(const shoal_tensor_t *ids, int64_t i) {
  return shoal_dtype_load_int(ids->dtype, ids->data, i);
}

// Adds up in double, rounds once: half-size floats may differ by rounding.
static double tolerance(shoal_dtype_t dtype) {
  return shoal_dtype_is_float(dtype) && dtype != SHOAL_F64 ? 8 * shoal_dtype_epsilon(dtype) : 1e-14;
}

static void check_all(const shoal_tensor_t *out, const double *expected, const char *what) {
  for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
    check_near(at(out, i), expected[i], tolerance(out->dtype), what, i);
  }
}

static void gathers(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I32, SHOAL_SHAPE(3, 3), ROWS, 7), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], SHOAL_SHAPE(OUTER, ROWS, INNER), 9, 1);
    double expected[OUTER * COUNT * INNER];
    assert_ok(run_named(&b, "shoal.gather", TENSORS(x, ids), ATTRS(AXIS), out, NULL));
    assert_int_equal(out->shape.rank, 4);
    for (int64_t i = 0; i < OUTER * COUNT * INNER; ++i) {
      const int64_t o = i / (COUNT * INNER), row = index_at(&ids, i / INNER % COUNT);
      expected[i] = at(&x, (o * ROWS + row) * INNER + i % INNER);
    }
    check_all(out, expected, "gather");
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(OUTER, ROWS, INNER), 2, 1);
  shoal_dtype_store_int(SHOAL_I32, ids.data, 5, -1);
  assert_error(INVALID_ARGUMENT, "element 5 of ids is -1, which is not in [0, 4)",
               run_named(&b, "shoal.gather", TENSORS(x, ids), ATTRS(AXIS), out, NULL));
  assert_error(
      INVALID_ARGUMENT, "axis 3",
      run_named(&b, "shoal.gather", TENSORS(x, ids), ATTRS(shoal_attr_int("axis", 3)), out, NULL));
  assert_error(INVALID_ARGUMENT, "ids must be i64",
               run_named(&b, "shoal.gather", TENSORS(x, x), ATTRS(AXIS), out, NULL));
  bench_deinit(&b);
}

static void takes_along(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(OUTER, ROWS, INNER);
  const shoal_shape_t along = SHOAL_SHAPE(OUTER, COUNT, INNER);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I64, along, ROWS, 7), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], shape, 9, 1);
    shoal_tensor_t dy = random_tensor(&b, DTYPES[k], along, 9, 2);
    double taken[OUTER * COUNT * INNER], added[OUTER * ROWS * INNER] = {0};
    for (int64_t i = 0; i < OUTER * COUNT * INNER; ++i) {
      const int64_t from = (i / (COUNT * INNER) * ROWS + index_at(&ids, i)) * INNER + i % INNER;
      taken[i] = at(&x, from);
      added[from] += at(&dy, i);
    }
    assert_ok(run_named(&b, "shoal.take_along", TENSORS(x, ids), ATTRS(AXIS), out, NULL));
    check_all(out, taken, "take_along");
    if (!shoal_dtype_is_float(DTYPES[k])) continue;
    assert_ok(run_named(&b, "shoal.take_along_grad", TENSORS(ids, dy),
                        ATTRS(AXIS, shoal_attr_shape("shape", &shape)), out, NULL));
    check_all(out, added, "take_along_grad");
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(OUTER, ROWS, 3), 2, 1);
  assert_error(INVALID_ARGUMENT, "ids must have 3 elements along dim 2, not 2",
               run_named(&b, "shoal.take_along", TENSORS(x, ids), ATTRS(AXIS), out, NULL));
  bench_deinit(&b);
}

// scatter_add starts from zeros, index_put from x; writing, the last one wins.
static void scatters(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(OUTER, ROWS, INNER);
  const shoal_attr_t add = shoal_attr_int("add", 1);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_U8, SHOAL_SHAPE(COUNT), ROWS, 7), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], shape, 9, 1);
    shoal_tensor_t src = random_tensor(&b, DTYPES[k], SHOAL_SHAPE(OUTER, COUNT, INNER), 9, 2);
    double sums[OUTER * ROWS * INNER] = {0}, added[OUTER * ROWS * INNER];
    double written[OUTER * ROWS * INNER];
    for (int64_t i = 0; i < OUTER * ROWS * INNER; ++i) added[i] = written[i] = at(&x, i);
    for (int64_t i = 0; i < OUTER * COUNT * INNER; ++i) {
      const int64_t row = index_at(&ids, i / INNER % COUNT);
      const int64_t to = (i / (COUNT * INNER) * ROWS + row) * INNER + i % INNER;
      sums[to] += at(&src, i);
      added[to] += at(&src, i);
      written[to] = at(&src, i);
    }
    assert_ok(run_named(&b, "shoal.scatter_add", TENSORS(ids, src),
                        ATTRS(AXIS, shoal_attr_shape("shape", &shape)), out, NULL));
    check_all(out, sums, "scatter_add");
    assert_ok(run_named(&b, "shoal.index_put", TENSORS(x, ids, src), ATTRS(AXIS), out, NULL));
    check_all(out, written, "index_put");
    assert_ok(run_named(&b, "shoal.index_put", TENSORS(x, ids, src), ATTRS(AXIS, add), out, NULL));
    check_all(out, added, "index_put, added");
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1);
  shoal_tensor_t src = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(OUTER, COUNT, INNER), 2, 1);
  assert_error(INVALID_ARGUMENT, "x and values must have the same dtype, not f64 and f32",
               run_named(&b, "shoal.index_put", TENSORS(x, ids, src), ATTRS(AXIS), out, NULL));
  assert_error(INVALID_ARGUMENT, "src must have shape [3, 9]",
               run_named(&b, "shoal.scatter_add", TENSORS(ids, src),
                         ATTRS(AXIS, PAIR("shape", 3, 4)), out, NULL));
  shoal_dtype_store_int(SHOAL_U8, ids.data, 2, 200);
  assert_error(INVALID_ARGUMENT, "element 2 of ids is 200, which is not in [0, 4)",
               run_named(&b, "shoal.scatter_add", TENSORS(ids, src),
                         ATTRS(AXIS, shoal_attr_shape("shape", &shape)), out, NULL));
  shoal_tensor_t flags = random_tensor(&b, SHOAL_BOOL, SHOAL_SHAPE(OUTER, COUNT, INNER), 2, 1);
  assert_error(INVALID_ARGUMENT, "src must be numbers, not bool",
               run_named(&b, "shoal.scatter_add", TENSORS(ids, flags),
                         ATTRS(AXIS, shoal_attr_shape("shape", &shape)), out, NULL));
  bench_deinit(&b);
}

static void puts_along(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t along = SHOAL_SHAPE(OUTER, COUNT, INNER);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_I32, along, ROWS, 7), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], SHOAL_SHAPE(OUTER, ROWS, INNER), 9, 1);
    shoal_tensor_t src = random_tensor(&b, DTYPES[k], along, 9, 2);
    double added[OUTER * ROWS * INNER], written[OUTER * ROWS * INNER];
    for (int64_t i = 0; i < OUTER * ROWS * INNER; ++i) added[i] = written[i] = at(&x, i);
    for (int64_t i = 0; i < OUTER * COUNT * INNER; ++i) {
      const int64_t to = (i / (COUNT * INNER) * ROWS + index_at(&ids, i)) * INNER + i % INNER;
      added[to] += at(&src, i);
      written[to] = at(&src, i);
    }
    assert_ok(run_named(&b, "shoal.put_along", TENSORS(x, ids, src), ATTRS(AXIS), out, NULL));
    check_all(out, written, "put_along");
    assert_ok(run_named(&b, "shoal.put_along", TENSORS(x, ids, src),
                        ATTRS(AXIS, shoal_attr_int("add", 1)), out, NULL));
    check_all(out, added, "put_along, added");
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gathers),
      cmocka_unit_test(takes_along),
      cmocka_unit_test(scatters),
      cmocka_unit_test(puts_along),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
