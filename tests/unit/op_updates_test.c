// Moving averages, sums of squares and loss scales, against computations by hand. (What optimizers
// compute over several steps: nn_optimizer_test.)
#include "op_support.h"

static shoal_tensor_t real(bench_t *b, shoal_dtype_t dtype, double value) {
  shoal_tensor_t tensor = new_tensor(b, dtype, SHOAL_SCALAR, 0);
  shoal_dtype_store(dtype, tensor.data, 0, value);
  return tensor;
}

static double first(shoal_tensor_t tensor) {
  return shoal_dtype_load(tensor.dtype, tensor.data, 0);
}

static void moving_average(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t out[1];
  assert_ok(
      run_named(&b, "shoal.ema_update",
                TENSORS(real(&b, SHOAL_F64, 8), real(&b, SHOAL_F64, 16), real(&b, SHOAL_F32, 0.75)),
                NO_ATTRS, out, NULL));
  assert_true(first(out[0]) == 10);
  bench_deinit(&b);
}

// A bf16 sum of 300 ones would stop at 256.
static void squares_of_halves(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t x = new_tensor(&b, SHOAL_BF16, SHOAL_SHAPE(3, 100), 0), out[1];
  for (int i = 0; i < 300; ++i) shoal_dtype_store(SHOAL_BF16, x.data, i, i % 2 ? 1 : -1);
  assert_ok(run_named(&b, "shoal.sum_squares", TENSORS(x), NO_ATTRS, out, NULL));
  assert_int_equal(out[0].dtype, SHOAL_F32);
  assert_true(first(out[0]) == 300);
  bench_deinit(&b);
}

static void loss_scale(void **state) {
  (void)state;
  static const struct {
    double scale;
    int64_t good;
    bool finite;
    double new_scale;
    int64_t new_good;
  } steps
      [] =
          {
              {8, 0, true, 8, 1},       {8, 1, true, 8, 2},  {8, 2, true, 32, 0},
              {8, 2, false, 2, 0},      {8, 0, false, 2, 0}, {8, 9, true, 32, 0},
              {2e38, 2, true, 2e38, 0},  // four times that is no f32: it stays
          };
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; ++i) {
    shoal_tensor_t finite = new_tensor(&b, SHOAL_BOOL, SHOAL_SCALAR, steps[i].finite), out[2];
    assert_ok(run_named(&b, "shoal.loss_scale_update",
                        TENSORS(real(&b, SHOAL_F32, steps[i].scale),
                                real(&b, SHOAL_I64, (double)steps[i].good), finite),
                        ATTRS(shoal_attr_real("growth", 4), shoal_attr_real("backoff", 0.25),
                              shoal_attr_int("interval", 3)),
                        out, NULL));
    assert_true(first(out[0]) == (float)steps[i].new_scale);
    assert_int_equal(shoal_dtype_load_int(SHOAL_I64, out[1].data, 0), steps[i].new_good);
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(moving_average),
      cmocka_unit_test(squares_of_halves),
      cmocka_unit_test(loss_scale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
