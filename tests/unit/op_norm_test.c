// Softmax, norms and what is close to them, against formulas written out naively in double.
#include "op_support.h"

#define ROWS 5
#define WIDTH 7

static const shoal_dtype_t FLOATS[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16};
#define FLOAT_COUNT 4

static double tolerance_of(shoal_dtype_t dtype) {
  return dtype == SHOAL_F64 ? 1e-13 : 8 * shoal_dtype_epsilon(dtype);
}

// ---- log-softmax --------------------------------------------------------------------------------

static void log_softmax_values(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < FLOAT_COUNT; ++k) {
    for (int64_t axis = 0; axis < 2; ++axis) {
      shoal_tensor_t x = random_tensor(&b, FLOATS[k], SHOAL_SHAPE(ROWS, WIDTH), 2, 3);
      shoal_tensor_t dy = random_tensor(&b, FLOATS[k], SHOAL_SHAPE(ROWS, WIDTH), 2, 4), y[1], dx[1];
      const shoal_attr_t along = shoal_attr_int("axis", axis);
      double total[WIDTH] = {0}, sum[WIDTH] = {0};
      for (int64_t i = 0; i < ROWS * WIDTH; ++i) {
        total[axis ? i / WIDTH : i % WIDTH] += exp(at(&x, i));
        sum[axis ? i / WIDTH : i % WIDTH] += at(&dy, i);
      }
      assert_ok(run_named(&b, "shoal.log_softmax", TENSORS(x), ATTRS(along), y, NULL));
      assert_ok(run_named(&b, "shoal.log_softmax_grad", TENSORS(y[0], dy), ATTRS(along), dx, NULL));
      for (int64_t i = 0; i < ROWS * WIDTH; ++i) {
        const int64_t of = axis ? i / WIDTH : i % WIDTH;
        const double want = at(&x, i) - log(total[of]);
        check_near(at(y, i), want, 4 * tolerance_of(FLOATS[k]), "log_softmax", i);
        check_near(at(dx, i), at(&dy, i) - exp(at(y, i)) * sum[of], 4 * tolerance_of(FLOATS[k]),
                   "log_softmax_grad", i);
      }
    }
  }
  bench_deinit(&b);
}

// Large numbers do not overflow, an element of -inf stays, a row of them is NaN like its softmax.
static void log_softmax_extremes(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_attr_t along = shoal_attr_int("axis", 1);
  shoal_tensor_t x = new_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3, 2), 0), y[1];
  static const float values[] = {1e30f, -1e30f, -INFINITY, 5, -INFINITY, -INFINITY};
  memcpy(x.data, values, sizeof values);
  assert_ok(run_named(&b, "shoal.log_softmax", TENSORS(x), ATTRS(along), y, NULL));
  assert_true(at(y, 0) == 0 && at(y, 1) == -2e30f && at(y, 2) == -INFINITY && at(y, 3) == 0);
  assert_true(isnan(at(y, 4)) && isnan(at(y, 5)));
  bench_deinit(&b);
}

// ---- RMS norm -----------------------------------------------------------------------------------

static void rms_norm_values(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < FLOAT_COUNT; ++k) {
    const shoal_dtype_t dtype = FLOATS[k];
    const double tolerance = tolerance_of(dtype);
    shoal_tensor_t x = random_tensor(&b, dtype, SHOAL_SHAPE(ROWS, WIDTH), 2, 1);
    shoal_tensor_t gamma = random_tensor(&b, dtype, SHOAL_SHAPE(WIDTH), 2, 2), plain[2], scaled[2];
    const shoal_attr_t eps = shoal_attr_real("eps", 0.01),
                       with = shoal_attr_string("with", "gamma");
    assert_ok(run_named(&b, "shoal.rms_norm", TENSORS(x), ATTRS(eps), plain, NULL));
    assert_ok(run_named(&b, "shoal.rms_norm", TENSORS(x, gamma), ATTRS(eps, with), scaled, NULL));
    assert_int_equal(plain[1].dtype, dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32);
    for (int64_t r = 0; r < ROWS; ++r) {
      double squares = 0;
      for (int64_t i = 0; i < WIDTH; ++i) squares += at(&x, r * WIDTH + i) * at(&x, r * WIDTH + i);
      const double rstd = 1 / sqrt(squares / WIDTH + 0.01);
      check_near(at(&plain[1], r), rstd, 8 * shoal_dtype_epsilon(plain[1].dtype), "rstd", r);
      for (int64_t i = 0; i < WIDTH; ++i) {
        const double want = at(&x, r * WIDTH + i) * rstd;
        check_near(at(plain, r * WIDTH + i), want, tolerance, "rms_norm", r * WIDTH + i);
        check_near(at(scaled, r * WIDTH + i), want * at(&gamma, i), tolerance, "with gamma",
                   r * WIDTH + i);
      }
    }
  }
  bench_deinit(&b);
}

static void rms_norm_refuses(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(ROWS, WIDTH), 2, 1), out[2];
  shoal_tensor_t wide = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(WIDTH), 2, 1);
  shoal_tensor_t shorter = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(ROWS), 2, 1);
  shoal_tensor_t scalar = random_tensor(&b, SHOAL_F32, SHOAL_SCALAR, 2, 1);
  const shoal_attr_t with = shoal_attr_string("with", "gamma");
  assert_error(INVALID_ARGUMENT, "x and gamma must have the same dtype",
               run_named(&b, "shoal.rms_norm", TENSORS(x, wide), ATTRS(with), out, NULL));
  assert_error(INVALID_ARGUMENT, "gamma",
               run_named(&b, "shoal.rms_norm", TENSORS(x, shorter), ATTRS(with), out, NULL));
  assert_error(INVALID_ARGUMENT, "x needs a last dim",
               run_named(&b, "shoal.rms_norm", TENSORS(scalar), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

// ---- batch norm and group norm ------------------------------------------------------------------

// Channels of x [N, C, S] in `groups`; 0: batch norm.
static void channel_norm(bench_t *b, shoal_dtype_t dtype, int64_t groups) {
  enum { N = 3, C = 4, S = 5 };
  shoal_tensor_t x = random_tensor(b, dtype, SHOAL_SHAPE(N, C, S), 2, 1), out[3];
  shoal_tensor_t gamma = random_tensor(b, dtype, SHOAL_SHAPE(C), 2, 2);
  shoal_tensor_t beta = random_tensor(b, dtype, SHOAL_SHAPE(C), 2, 3);
  const shoal_attr_t eps = shoal_attr_real("eps", 0.01), count = shoal_attr_int("groups", groups);
  const shoal_attr_t with = shoal_attr_string("with", "gamma,beta"), attrs[] = {eps, with, count};
  assert_ok(run_named(b, groups ? "shoal.group_norm" : "shoal.batch_norm", TENSORS(x, gamma, beta),
                      groups ? 3 : 2, attrs, out, NULL));
  const int64_t stats = groups ? N * groups : C;
  double mean[N * C] = {0}, variance[N * C] = {0};
  const double size = (double)(N * C * S / stats);
#define STAT(i) (groups ? (i) / (C * S) * groups + (i) / S % C / (C / groups) : (i) / S % C)
  for (int64_t i = 0; i < N * C * S; ++i) mean[STAT(i)] += at(&x, i) / size;
  for (int64_t i = 0; i < N * C * S; ++i) {
    variance[STAT(i)] += pow(at(&x, i) - mean[STAT(i)], 2) / size;
  }
  for (int64_t k = 0; k < stats; ++k) {
    check_near(at(&out[1], k), mean[k], 8 * shoal_dtype_epsilon(out[1].dtype), "mean", k);
    check_near(at(&out[2], k), variance[k], 8 * shoal_dtype_epsilon(out[2].dtype), "variance", k);
  }
  for (int64_t i = 0; i < N * C * S; ++i) {
    const int64_t c = i / S % C;
    const double h = (at(&x, i) - mean[STAT(i)]) / sqrt(variance[STAT(i)] + 0.01);
    check_near(at(out, i), h * at(&gamma, c) + at(&beta, c), 2 * tolerance_of(dtype), "y", i);
  }
#undef STAT
}

static void channel_norm_values(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < FLOAT_COUNT; ++k) {
    for (int64_t groups = 0; groups <= 4; groups += groups ? groups : 1) {
      channel_norm(&b, FLOATS[k], groups);
    }
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F32, SHOAL_SHAPE(3, 4, 5), 2, 1), out[3];
  assert_error(
      INVALID_ARGUMENT, "4 channels are no multiple of 3 groups",
      run_named(&b, "shoal.group_norm", TENSORS(x), ATTRS(shoal_attr_int("groups", 3)), out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(log_softmax_values),  cmocka_unit_test(log_softmax_extremes),
      cmocka_unit_test(rms_norm_values),     cmocka_unit_test(rms_norm_refuses),
      cmocka_unit_test(channel_norm_values),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
