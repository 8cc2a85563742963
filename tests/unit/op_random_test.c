// Draws against the distributions that they were asked for.
#include <math.h>

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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bernoulli),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
