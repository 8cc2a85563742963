// Ops that change shapes against naive models, in every dtype that elements can be moved in, and
// what they refuse.
#include "op_support.h"

// Coordinates of element i of a shape, and back.
static void unravel(const shoal_shape_t *shape, int64_t i, int64_t *out_at) {
  for (int32_t d = shape->rank - 1; d >= 0; --d) {
    out_at[d] = i % shape->dims[d];
    i /= shape->dims[d];
  }
}

static int64_t ravel(const shoal_shape_t *shape, const int64_t *at) {
  int64_t i = 0;
  for (int32_t d = 0; d < shape->rank; ++d) i = i * shape->dims[d] + at[d];
  return i;
}

static const shoal_dtype_t DTYPES[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16,
                                       SHOAL_I64, SHOAL_I32, SHOAL_U8,   SHOAL_BOOL};
enum { DTYPE_COUNT = sizeof DTYPES / sizeof *DTYPES };

static void check_all(const shoal_tensor_t *out, const double *expected, const char *what) {
  for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
    check_near(at(out, i), expected[i], 0, what, i);
  }
}

static void pads_with_a_value(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], SHOAL_SHAPE(2, 3), 2, 1), out[1];
    assert_ok(run_named(
        &b, "shoal.pad", TENSORS(x),
        ATTRS(PAIR("start", 1, 0), PAIR("shape", 4, 5), shoal_attr_real("value", 1)), out, NULL));
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        const bool inside = i >= 1 && i < 3 && j < 3;
        check_near(at(out, i * 5 + j), inside ? at(&x, (i - 1) * 3 + j) : 1, 0, "pad", i * 5 + j);
      }
    }
  }
  bench_deinit(&b);
}

static void stacks(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  for (int32_t k = 0; k < DTYPE_COUNT * 3; ++k) {
    const int32_t axis = k % 3;
    shoal_tensor_t xs[4], out[1];
    for (int32_t i = 0; i < 4; ++i) {
      xs[i] = random_tensor(&b, DTYPES[k / 3], SHOAL_SHAPE(2, 3), 2, (uint64_t)i);
    }
    assert_ok(
        run_named(&b, "shoal.stack", 4, xs, ATTRS(shoal_attr_int("axis", axis - 3)), out, NULL));
    for (int64_t i = 0; i < 24; ++i) {
      int64_t to[3], from[2];
      unravel(&out->shape, i, to);
      for (int32_t d = 0, n = 0; d < 3; ++d) {
        if (d != axis) from[n++] = to[d];
      }
      check_near(at(out, i), at(&xs[to[axis]], from[0] * 3 + from[1]), 0, "stack", i);
    }
  }
  shoal_tensor_t one = scalar_int(&b, 7), two = scalar_int(&b, 9), out[1];
  assert_ok(
      run_named(&b, "shoal.stack", TENSORS(one, two), ATTRS(shoal_attr_int("axis", 0)), out, NULL));
  check_all(out, (const double[]){7, 9}, "stack of scalars");
  shoal_tensor_t other = random_tensor(&b, SHOAL_I64, SHOAL_SHAPE(2), 9, 1);
  assert_error(INVALID_ARGUMENT, "input 1 differs",
               run_named(&b, "shoal.stack", TENSORS(one, other), ATTRS(shoal_attr_int("axis", 0)),
                         out, NULL));
  assert_error(INVALID_ARGUMENT, "axis 2",
               run_named(&b, "shoal.stack", TENSORS(other, other), ATTRS(shoal_attr_int("axis", 2)),
                         out, NULL));
  bench_deinit(&b);
}

static void flips_and_rolls(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(4, 3, 5);
  const shoal_attr_t dims = PAIR("dims", -1, 0);
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    shoal_tensor_t x = random_tensor(&b, DTYPES[k], shape, 2, 1), flipped[1], rolled[1];
    assert_ok(run_named(&b, "shoal.flip", TENSORS(x), ATTRS(dims), flipped, NULL));
    assert_ok(
        run_named(&b, "shoal.roll", TENSORS(x), ATTRS(dims, PAIR("shifts", -2, 3)), rolled, NULL));
    for (int64_t i = 0; i < 60; ++i) {
      int64_t to[3];
      unravel(&shape, i, to);
      const int64_t flip[3] = {3 - to[0], to[1], 4 - to[2]};
      const int64_t roll[3] = {(to[0] + 1) % 4, to[1], (to[2] + 2) % 5};
      check_near(at(flipped, i), at(&x, ravel(&shape, flip)), 0, "flip", i);
      check_near(at(rolled, i), at(&x, ravel(&shape, roll)), 0, "roll", i);
    }
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[1];
  assert_error(INVALID_ARGUMENT, "named twice",
               run_named(&b, "shoal.flip", TENSORS(x), ATTRS(PAIR("dims", 0, -3)), out, NULL));
  assert_error(
      INVALID_ARGUMENT, "the shift 5 is not smaller than the 5 elements of dim 2",
      run_named(&b, "shoal.roll", TENSORS(x), ATTRS(dims, PAIR("shifts", 5, 0)), out, NULL));
  assert_error(INVALID_ARGUMENT, "1 shifts for 2 dims",
               run_named(&b, "shoal.roll", TENSORS(x),
                         ATTRS(dims, shoal_attr_ints("shifts", 1, (int64_t[]){1})), out, NULL));
  bench_deinit(&b);
}

static void triangles_and_diagonals(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(4, 2, 5);
  for (int32_t k = 0; k < DTYPE_COUNT * 13; ++k) {
    const int64_t offset = k % 13 - 6;
    shoal_tensor_t x = random_tensor(&b, DTYPES[k / 13], shape, 2, 1), lower[1], upper[1], band[1];
    const shoal_attr_t at_diagonal = shoal_attr_int("diagonal", offset);
    assert_ok(run_named(&b, "shoal.triangle", TENSORS(x), ATTRS(at_diagonal), lower, NULL));
    assert_ok(run_named(&b, "shoal.triangle", TENSORS(x),
                        ATTRS(at_diagonal, shoal_attr_int("upper", 1)), upper, NULL));
    const shoal_attr_t of[] = {shoal_attr_int("offset", offset), shoal_attr_int("rows", 0),
                               shoal_attr_int("columns", 2), shoal_attr_shape("shape", &shape)};
    assert_ok(run_named(&b, "shoal.diagonal", TENSORS(x), 3, of, band, NULL));
    shoal_tensor_t back[1];
    assert_ok(run_named(&b, "shoal.diagonal_grad", TENSORS(*band), 4, of, back, NULL));
    int64_t found = 0;
    for (int64_t i = 0; i < 40; ++i) {
      int64_t to[3];
      unravel(&shape, i, to);
      check_near(at(lower, i), to[2] - to[1] <= offset ? at(&x, i) : 0, 0, "lower", i);
      check_near(at(upper, i), to[2] - to[1] >= offset ? at(&x, i) : 0, 0, "upper", i);
      const bool on = to[2] - to[0] == offset;
      check_near(at(back, i), on ? at(&x, i) : 0, 0, "diagonal_grad", i);
      const int64_t t = offset > 0 ? to[0] : to[2], length = band->shape.dims[1];
      if (on) check_near(at(band, to[1] * length + t), at(&x, i), 0, "diagonal", i);
      found += on;
    }
    assert_int_equal(found, shoal_shape_count(&band->shape));
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[1];
  assert_error(
      INVALID_ARGUMENT, "the same dim",
      run_named(&b, "shoal.diagonal", TENSORS(x), ATTRS(shoal_attr_int("rows", 2)), out, NULL));
  shoal_tensor_t row = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(3), 2, 1);
  assert_error(INVALID_ARGUMENT, "rows and columns",
               run_named(&b, "shoal.triangle", TENSORS(row), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

static void one_hots(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  shoal_tensor_t ids = random_tensor(&b, SHOAL_U8, SHOAL_SHAPE(3, 4), 6, 1), out[1];
  for (int k = 0; k < DTYPE_COUNT; ++k) {
    assert_ok(run_named(&b, "shoal.one_hot", TENSORS(ids),
                        ATTRS(shoal_attr_int("classes", 6), shoal_attr_dtype("dtype", DTYPES[k])),
                        out, NULL));
    for (int64_t i = 0; i < 72; ++i) {
      check_near(at(out, i), at(&ids, i / 6) == (double)(i % 6), 0, "one_hot", i);
    }
  }
  shoal_dtype_store_int(SHOAL_U8, ids.data, 7, 6);
  assert_error(INVALID_ARGUMENT, "element 7 of ids is 6, which is not in [0, 6)",
               run_named(&b, "shoal.one_hot", TENSORS(ids),
                         ATTRS(shoal_attr_int("classes", 6), shoal_attr_dtype("dtype", SHOAL_F32)),
                         out, NULL));
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(pads_with_a_value), cmocka_unit_test(stacks),
      cmocka_unit_test(flips_and_rolls),   cmocka_unit_test(triangles_and_diagonals),
      cmocka_unit_test(one_hots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
