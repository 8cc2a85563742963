// Reductions and scans against loops written out: where extremes lie (ties, NaN), any and all,
// variance, norms, running sums and products; gradients where zeros would divide.
#include "op_support.h"

static shoal_tensor_t filled(bench_t *b, shoal_dtype_t dtype, shoal_shape_t shape,
                             const double *values) {
  shoal_tensor_t tensor = new_tensor(b, dtype, shape, 0);
  for (int64_t i = 0; i < shoal_shape_count(&shape); ++i)
    shoal_dtype_store(dtype, tensor.data, i, values[i]);
  return tensor;
}

static void check_all(const shoal_tensor_t *out, const double *expected, int64_t count,
                      double tolerance, const char *what) {
  assert_int_equal(shoal_shape_count(&out->shape), count);
  for (int64_t i = 0; i < count; ++i) {
    const double value = at(out, i);
    if (isnan(expected[i]) ? isnan(value) : value == expected[i]) continue;
    check_near(value, expected[i], tolerance, what, i);
  }
}

// ---- where extremes lie -------------------------------------------------------------------------

static void arguments(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {
      1,         3,   3,        2,    // the first of equals
      5,         NAN, 7,        NAN,  // NaN is the extreme, the first of them
      -1,        -1,  -1,       -1,   //
      -INFINITY, 0,   INFINITY, -INFINITY};
  static const double most[] = {1, 1, 0, 2}, least[] = {0, 1, 0, 0};
  shoal_tensor_t rows = filled(&b, SHOAL_F64, SHOAL_SHAPE(4, 4), x), out[1];
  assert_ok(
      run_named(&b, "shoal.argmax", TENSORS(rows), ATTRS(shoal_attr_int("axis", 1)), out, NULL));
  assert_int_equal(out->dtype, SHOAL_I64);
  check_all(out, most, 4, 0, "argmax");
  assert_ok(
      run_named(&b, "shoal.argmin", TENSORS(rows), ATTRS(shoal_attr_int("axis", -1)), out, NULL));
  check_all(out, least, 4, 0, "argmin");
  // Every dtype, along a dim in the middle, against a loop.
  for (int32_t d = 0; d <= SHOAL_BOOL; ++d) {
    const shoal_dtype_t dtype = (shoal_dtype_t)d;
    shoal_tensor_t t = random_tensor(&b, dtype, SHOAL_SHAPE(2, 5, 3), 4, 7), lo[1];
    const shoal_attr_t attrs[] = {shoal_attr_int("axis", 1), shoal_attr_int("keep", 1)};
    assert_ok(run_named(&b, "shoal.argmax", TENSORS(t), 2, attrs, out, NULL));
    assert_ok(run_named(&b, "shoal.argmin", TENSORS(t), 2, attrs, lo, NULL));
    assert_int_equal(out->shape.rank, 3);
    for (int64_t o = 0; o < 6; ++o) {
      int64_t high = 0, low = 0;
      for (int64_t i = 1; i < 5; ++i) {
        const int64_t from = o / 3 * 15 + o % 3;
        if (at(&t, from + 3 * i) > at(&t, from + 3 * high)) high = i;
        if (at(&t, from + 3 * i) < at(&t, from + 3 * low)) low = i;
      }
      assert_true(at(out, o) == (double)high && at(lo, o) == (double)low);
    }
  }
  const shoal_tensor_t none = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3, 0), 0);
  assert_error(
      INVALID_ARGUMENT, "dim 1 has no elements",
      run_named(&b, "shoal.argmax", TENSORS(none), ATTRS(shoal_attr_int("axis", 1)), out, NULL));
  bench_deinit(&b);
}

// ---- any and all --------------------------------------------------------------------------------

static void any_and_all(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_attr_t dims = shoal_attr_ints("dims", 1, (const int64_t[]){1});
  static const double x[] = {0, 0, 0, 0, 1, 0, 1, 1, 1};
  static const double any[] = {0, 1, 1}, all[] = {0, 0, 1};
  shoal_tensor_t out[1];
  shoal_tensor_t t = filled(&b, SHOAL_BOOL, SHOAL_SHAPE(3, 3), x);
  assert_ok(run_named(&b, "shoal.reduce_any", TENSORS(t), ATTRS(dims), out, NULL));
  check_all(out, any, 3, 0, "reduce_any");
  assert_ok(run_named(&b, "shoal.reduce_all", TENSORS(t), ATTRS(dims), out, NULL));
  check_all(out, all, 3, 0, "reduce_all");
  // Nothing is all, and not any.
  shoal_tensor_t none = new_tensor(&b, SHOAL_BOOL, SHOAL_SHAPE(2, 0), 0);
  assert_ok(run_named(&b, "shoal.reduce_any", TENSORS(none), ATTRS(dims), out, NULL));
  check_all(out, (const double[]){0, 0}, 2, 0, "reduce_any");
  assert_ok(run_named(&b, "shoal.reduce_all", TENSORS(none), ATTRS(dims), out, NULL));
  check_all(out, (const double[]){1, 1}, 2, 0, "reduce_all");
  assert_error(INVALID_ARGUMENT, "x must be bool",
               run_named(&b, "shoal.reduce_any", TENSORS(scalar_int(&b, 1)),
                         ATTRS(shoal_attr_ints("dims", 0, NULL)), out, NULL));
  bench_deinit(&b);
}

// ---- variance and norms -------------------------------------------------------------------------

static void variances(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(3, 4, 5), 2, 9), out[1];
  const shoal_attr_t dims = shoal_attr_ints("dims", 2, (const int64_t[]){0, 2});
  for (int correction = 0; correction < 3; ++correction) {
    assert_ok(run_named(&b, "shoal.variance", TENSORS(x),
                        ATTRS(dims, shoal_attr_real("correction", correction)), out, NULL));
    for (int64_t r = 0; r < 4; ++r) {
      double sum = 0, squares = 0;
      for (int64_t i = 0; i < 60; ++i) sum += i / 5 % 4 == r ? at(&x, i) : 0;
      for (int64_t i = 0; i < 60; ++i) squares += i / 5 % 4 == r ? pow(at(&x, i) - sum / 15, 2) : 0;
      check_near(at(out, r), squares / (15 - correction), 1e-13, "variance", r);
    }
  }
  // Far from 0 the squares would swallow it.
  static const double far[] = {1e9 + 1, 1e9 + 2, 1e9 + 3};
  const shoal_attr_t row = shoal_attr_ints("dims", 1, (const int64_t[]){0});
  shoal_tensor_t away = filled(&b, SHOAL_F64, SHOAL_SHAPE(3), far);
  assert_ok(run_named(&b, "shoal.variance", TENSORS(away), ATTRS(row), out, NULL));
  check_near(at(out, 0), 1, 1e-15, "variance", 0);
  shoal_tensor_t one = filled(&b, SHOAL_F64, SHOAL_SHAPE(1), far);
  assert_ok(run_named(&b, "shoal.variance", TENSORS(one), ATTRS(row), out, NULL));
  assert_true(isnan(at(out, 0)));
  bench_deinit(&b);
}

static void norms(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {3, -4, 0, -1};
  static const double p[] = {2, 1, INFINITY, -INFINITY, 0, 3, 0.5, -1};
  const double expected[] = {sqrt(26), 8, 4, 0, 3, cbrt(27 + 64 + 1), pow(sqrt(3) + 2 + 1, 2), 0};
  shoal_tensor_t t = filled(&b, SHOAL_F64, SHOAL_SHAPE(4), x), out[1];
  const shoal_attr_t dims = shoal_attr_ints("dims", 1, (const int64_t[]){0});
  for (int k = 0; k < 8; ++k) {
    assert_ok(run_named(&b, "shoal.norm", TENSORS(t), ATTRS(dims, shoal_attr_real("p", p[k])), out,
                        NULL));
    check_near(at(out, 0), expected[k], 1e-14, "norm", k);
  }
  shoal_tensor_t lost = filled(&b, SHOAL_F64, SHOAL_SHAPE(2, 2), (const double[]){NAN, 1, 2, NAN});
  const shoal_attr_t rows = shoal_attr_ints("dims", 1, (const int64_t[]){1});
  for (int k = 0; k < 4; ++k) {
    assert_ok(run_named(&b, "shoal.norm", TENSORS(lost), ATTRS(rows, shoal_attr_real("p", p[k])),
                        out, NULL));
    assert_true(isnan(at(out, 0)) && isnan(at(out, 1)));
  }
  assert_error(
      INVALID_ARGUMENT, "p is NaN",
      run_named(&b, "shoal.norm", TENSORS(t), ATTRS(dims, shoal_attr_real("p", NAN)), out, NULL));
  bench_deinit(&b);
}

// ---- products and scans -------------------------------------------------------------------------

static void products(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {2, 3, 0, 4, 0, 5, 1, -2};
  const shoal_attr_t rows = shoal_attr_ints("dims", 1, (const int64_t[]){1});
  const shoal_attr_t both = shoal_attr_ints("dims", 2, (const int64_t[]){0, 1});
  shoal_tensor_t t = filled(&b, SHOAL_F64, SHOAL_SHAPE(4, 2), x), out[1];
  assert_ok(run_named(&b, "shoal.reduce_prod", TENSORS(t), ATTRS(rows), out, NULL));
  check_all(out, (const double[]){6, 0, 0, -2}, 4, 0, "reduce_prod");
  // One zero: only its own gradient is not 0. Two zeros: none is.
  static const double dy[] = {1, 1, 10, 10, 2, 2, 3, 3};
  shoal_tensor_t g = filled(&b, SHOAL_F64, SHOAL_SHAPE(4, 2), dy);
  assert_ok(run_named(&b, "shoal.reduce_prod_grad", TENSORS(t, g), ATTRS(rows), out, NULL));
  check_all(out, (const double[]){3, 2, 40, 0, 10, 0, -6, 3}, 8, 0, "reduce_prod_grad");
  assert_ok(run_named(&b, "shoal.reduce_prod_grad", TENSORS(t, g), ATTRS(both), out, NULL));
  check_all(out, (const double[]){0, 0, 0, 0, 0, 0, 0, 0}, 8, 0, "reduce_prod_grad");
  shoal_tensor_t odd =
      filled(&b, SHOAL_I32, SHOAL_SHAPE(2, 2), (const double[]){65536, 65537, 3, -5});
  assert_ok(run_named(&b, "shoal.reduce_prod", TENSORS(odd), ATTRS(rows), out, NULL));
  check_all(out, (const double[]){65536, -15}, 2, 0, "reduce_prod");  // wraps
  shoal_tensor_t bits = filled(&b, SHOAL_BOOL, SHOAL_SHAPE(2, 2), (const double[]){1, 1, 1, 0});
  assert_ok(run_named(&b, "shoal.reduce_prod", TENSORS(bits), ATTRS(rows), out, NULL));
  check_all(out, (const double[]){1, 0}, 2, 0, "reduce_prod");
  bench_deinit(&b);
}

static void scans(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t d = 0; d < SHOAL_BOOL; ++d) {
    const shoal_dtype_t dtype = (shoal_dtype_t)d;
    shoal_tensor_t x = random_tensor(&b, dtype, SHOAL_SHAPE(2, 5, 3), 4, 3), out[1];
    for (int mode = 0; mode < 4; ++mode) {
      const bool reverse = mode & 1, exclusive = mode & 2;
      assert_ok(run_named(&b, "shoal.cumsum", TENSORS(x),
                          ATTRS(shoal_attr_int("axis", 1), shoal_attr_int("reverse", reverse),
                                shoal_attr_int("exclusive", exclusive)),
                          out, NULL));
      for (int64_t o = 0; o < 30; ++o) {
        double sum = 0;
        const int64_t own = o / 3 % 5;
        for (int64_t i = 0; i < 5; ++i) {
          const bool before = reverse ? i > own : i < own;
          if (before || (i == own && !exclusive)) sum += at(&x, o + (i - own) * 3);
        }
        check_near(at(out, o), sum, 4 * shoal_dtype_epsilon(dtype) + 1e-15, "cumsum", o);
      }
    }
    assert_ok(
        run_named(&b, "shoal.cumprod", TENSORS(x), ATTRS(shoal_attr_int("axis", 1)), out, NULL));
    for (int64_t o = 0; o < 30; ++o) {
      double product = 1;
      for (int64_t i = 0; i <= o / 3 % 5; ++i) product *= at(&x, o + (i - o / 3 % 5) * 3);
      check_near(at(out, o), product, 4 * shoal_dtype_epsilon(dtype) + 1e-15, "cumprod", o);
    }
  }
  // A zero in the middle: what is behind it moves with it alone.
  static const double x[] = {2, 0, 3, 4}, dy[] = {1, 10, 100, 1000};
  shoal_tensor_t t = filled(&b, SHOAL_F64, SHOAL_SHAPE(4), x), out[1];
  shoal_tensor_t g = filled(&b, SHOAL_F64, SHOAL_SHAPE(4), dy);
  assert_ok(run_named(&b, "shoal.cumprod_grad", TENSORS(t, g), ATTRS(shoal_attr_int("axis", 0)),
                      out, NULL));
  check_all(out, (const double[]){1, 2 * (10 + 3 * (100 + 4 * 1000)), 0, 0}, 4, 0, "cumprod_grad");
  assert_error(INVALID_ARGUMENT, "not bool",
               run_named(&b, "shoal.cumsum", TENSORS(new_tensor(&b, SHOAL_BOOL, SHOAL_SHAPE(2), 0)),
                         ATTRS(shoal_attr_int("axis", 0)), out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arguments), cmocka_unit_test(any_and_all), cmocka_unit_test(variances),
      cmocka_unit_test(norms),     cmocka_unit_test(products),    cmocka_unit_test(scans),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
