// lse_merge: parts of an attention become one.
#include <math.h>

#include "op_support.h"

#define TOLERANCE 1e-12

// A part that has seen nothing counts for nothing, whatever it holds; NaN is kept.
static void parts_that_saw_nothing(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const double none = -INFINITY, lses[] = {0, none, 1, log(3), none, none};
  const double values[] = {1, 2, NAN, NAN, 5, 6, 3, 4, NAN, NAN, NAN, NAN};
  shoal_tensor_t value = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3, 2), 2, 1), out[2];
  shoal_tensor_t lse = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(2, 3), 2, 2);
  memcpy(value.data, values, sizeof values);
  memcpy(lse.data, lses, sizeof lses);
  assert_ok(run_named(&b, "shoal.lse_merge", TENSORS(value, lse), NO_ATTRS, out, NULL));
  const double merged[] = {2.5, 3.5, 0, 0, 5, 6};  // weights 1 and 3; none; the first alone
  for (int64_t i = 0; i < 6; ++i) check_near(at(&out[0], i), merged[i], TOLERANCE, "merged", i);
  check_near(at(&out[1], 0), log(4), TOLERANCE, "lse", 0);
  assert_true(at(&out[1], 1) == none && at(&out[1], 2) == 1);
  memcpy(lse.data, (double[]){0, none, 1, NAN, none, none}, sizeof lses);
  assert_ok(run_named(&b, "shoal.lse_merge", TENSORS(value, lse), NO_ATTRS, out, NULL));
  assert_true(isnan(at(&out[0], 0)) && isnan(at(&out[1], 0)) && at(&out[0], 4) == 5);
  bench_deinit(&b);
}

// Attention over all keys is what attention over the first two and over the others merges to, in
// any type that values may have.
static void attention_in_parts(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_dtype_t types[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16};
  const double allowed[] = {1e-12, 1e-5, 0.05, 0.01};
  const int64_t cuts[] = {0, 2, 7};
  for (int i = 0; i < 4; ++i) {
    const shoal_dtype_t dtype = types[i];
    const size_t size = shoal_dtype_size(dtype), wide = dtype == SHOAL_F64 ? 8 : 4;
    shoal_tensor_t q = random_tensor(&b, dtype, SHOAL_SHAPE(1, 1, 5, 4), 2, 1), whole[2];
    shoal_tensor_t k = random_tensor(&b, dtype, SHOAL_SHAPE(1, 1, 7, 4), 2, 2);
    shoal_tensor_t v = random_tensor(&b, dtype, SHOAL_SHAPE(1, 1, 7, 4), 2, 3);
    shoal_tensor_t values = random_tensor(&b, dtype, SHOAL_SHAPE(2, 1, 1, 5, 4), 2, 4);
    shoal_tensor_t lses = random_tensor(&b, dtype == SHOAL_F64 ? SHOAL_F64 : SHOAL_F32,
                                        SHOAL_SHAPE(2, 1, 1, 5), 2, 5);
    const shoal_attr_t causal = shoal_attr_int("causal", 0);
    assert_ok(run_named(&b, "shoal.attention", TENSORS(q, k, v), ATTRS(causal), whole, NULL));
    for (int p = 0; p < 2; ++p) {
      shoal_tensor_t some[2] = {k, v}, part[2];
      for (int s = 0; s < 2; ++s) {
        some[s].shape.dims[2] = cuts[p + 1] - cuts[p];
        some[s].data = (char *)some[s].data + (size_t)cuts[p] * 4 * size;
      }
      assert_ok(run_named(&b, "shoal.attention", TENSORS(q, some[0], some[1]), ATTRS(causal), part,
                          NULL));
      memcpy((char *)values.data + (size_t)p * 20 * size, part[0].data, 20 * size);
      memcpy((char *)lses.data + (size_t)p * 5 * wide, part[1].data, 5 * wide);
    }
    shoal_tensor_t merged[2];
    assert_ok(run_named(&b, "shoal.lse_merge", TENSORS(values, lses), NO_ATTRS, merged, NULL));
    for (int64_t n = 0; n < 20; ++n)
      check_near(at(&merged[0], n), at(&whole[0], n), allowed[i], "merged", n);
    for (int64_t n = 0; n < 5; ++n)
      check_near(at(&merged[1], n), at(&whole[1], n), allowed[i], "lse", n);
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(parts_that_saw_nothing),
      cmocka_unit_test(attention_in_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
