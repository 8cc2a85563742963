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
  assert_error(INVALID_ARGUMENT, "xs[1] and xs[0] must have the same shape",
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
  static const int64_t far[] = {INT64_MIN, INT64_MAX, 5, -4};
  for (int32_t k = 0; k < 4; ++k) {  // diagonals that pass the matrices by
    assert_ok(run_named(&b, "shoal.diagonal", TENSORS(x), ATTRS(shoal_attr_int("offset", far[k])),
                        out, NULL));
    assert_int_equal(out->shape.dims[out->shape.rank - 1], 0);
  }
  shoal_tensor_t row = random_tensor(&b, SHOAL_F64, SHOAL_SHAPE(3), 2, 1);
  assert_error(INVALID_ARGUMENT, "rows and columns",
               run_named(&b, "shoal.triangle", TENSORS(row), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

// Which of n elements stands at i of the border, by walking.
static int64_t border(const char *mode, int64_t i, int64_t n) {
  for (int64_t way = 1; i < 0 || i >= n;) {
    if (strcmp(mode, "replicate") == 0) return i < 0 ? 0 : n - 1;
    if (strcmp(mode, "circular") == 0) {
      i += i < 0 ? n : -n;
    } else {
      i = i < 0 ? -i : 2 * (n - 1) - i;
    }
    assert_true(++way < 9);
  }
  return i;
}

static void borders(void **state) {
  (void)state;
  static const char *const modes[] = {"reflect", "replicate", "circular"};
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(3, 4);
  const shoal_attr_t before = PAIR("before", 2, 3), after = PAIR("after", 0, 3);
  for (int32_t k = 0; k < DTYPE_COUNT * 3; ++k) {
    const char *mode = modes[k % 3];
    const shoal_attr_t how = shoal_attr_string("mode", mode);
    shoal_tensor_t x = random_tensor(&b, DTYPES[k / 3], shape, 2, 1), out[1], back[1];
    assert_ok(run_named(&b, "shoal.edges", TENSORS(x), ATTRS(before, after, how), out, NULL));
    double sums[12] = {0};
    assert_int_equal(shoal_shape_count(&out->shape), 5 * 10);
    for (int64_t i = 0; i < 50; ++i) {
      const int64_t from = border(mode, i / 10 - 2, 3) * 4 + border(mode, i % 10 - 3, 4);
      check_near(at(out, i), at(&x, from), 0, mode, i);
      sums[from] += at(out, i);
    }
    if (!shoal_dtype_is_float(DTYPES[k / 3])) continue;
    assert_ok(
        run_named(&b, "shoal.edges_grad", TENSORS(*out), ATTRS(before, after, how), back, NULL));
    const double tolerance = 8 * shoal_dtype_epsilon(DTYPES[k / 3]);
    for (int64_t i = 0; i < 12; ++i) check_near(at(back, i), sums[i], tolerance, mode, i);
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[1];
  const shoal_attr_t none = PAIR("after", 0, 0);
  assert_error(INVALID_ARGUMENT, "mode 'refelct' is none of reflect",
               run_named(&b, "shoal.edges", TENSORS(x),
                         ATTRS(before, none, shoal_attr_string("mode", "refelct")), out, NULL));
  assert_error(INVALID_ARGUMENT, "a border of 4 elements along dim 1 cannot be made of 4 (reflect)",
               run_named(&b, "shoal.edges", TENSORS(x),
                         ATTRS(PAIR("before", 0, 4), none, shoal_attr_string("mode", "reflect")),
                         out, NULL));
  assert_error(INVALID_ARGUMENT, "to leave some out, slice",
               run_named(&b, "shoal.edges", TENSORS(x),
                         ATTRS(PAIR("before", 0, -1), none, shoal_attr_string("mode", "circular")),
                         out, NULL));
  bench_deinit(&b);
}

static void strides(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(7, 5);
  for (int32_t k = 0; k < DTYPE_COUNT * 4; ++k) {
    const int64_t step = 1 + k % 4, start = step - 1, rows = (7 - start + step - 1) / step;
    const shoal_attr_t from = PAIR("start", start, 1), by = PAIR("step", step, 3);
    shoal_tensor_t x = random_tensor(&b, DTYPES[k / 4], shape, 2, 1), out[1], back[1];
    assert_ok(run_named(&b, "shoal.stride", TENSORS(x), ATTRS(from, by), out, NULL));
    assert_ok(run_named(&b, "shoal.stride_grad", TENSORS(*out),
                        ATTRS(from, by, shoal_attr_shape("shape", &shape)), back, NULL));
    assert_int_equal(out->shape.dims[0], rows);
    assert_int_equal(out->shape.dims[1], 2);
    for (int64_t i = 0; i < 35; ++i) {
      const int64_t row = i / 5 - start, column = i % 5 - 1;
      const bool on = row >= 0 && row % step == 0 && column >= 0 && column % 3 == 0;
      check_near(at(back, i), on ? at(&x, i) : 0, 0, "stride_grad", i);
      if (on) check_near(at(out, row / step * 2 + column / 3), at(&x, i), 0, "stride", i);
    }
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[1];
  assert_error(INVALID_ARGUMENT, "along dim 0, start 2 is not in [0, 2)",
               run_named(&b, "shoal.stride", TENSORS(x),
                         ATTRS(PAIR("start", 2, 0), PAIR("step", 2, 1)), out, NULL));
  assert_error(
      INVALID_ARGUMENT, "dim 1 has 5 steps, not 4",
      run_named(&b, "shoal.stride", TENSORS(x),
                ATTRS(PAIR("start", 0, 0), PAIR("step", 1, 1), PAIR("shape", 7, 4)), out, NULL));
  bench_deinit(&b);
}

static void unfolds(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  const shoal_shape_t shape = SHOAL_SHAPE(2, 9, 3);
  const shoal_attr_t size = shoal_attr_int("size", 4), axis = shoal_attr_int("axis", -2);
  for (int32_t k = 0; k < DTYPE_COUNT * 3; ++k) {
    const int64_t step = 1 + k % 3, windows = 5 / step + 1;
    const shoal_attr_t by = shoal_attr_int("step", step);
    shoal_tensor_t x = random_tensor(&b, DTYPES[k / 3], shape, 2, 1), out[1], back[1];
    assert_ok(run_named(&b, "shoal.unfold", TENSORS(x), ATTRS(axis, size, by), out, NULL));
    assert_int_equal(shoal_shape_count(&out->shape), 2 * windows * 3 * 4);
    double sums[54] = {0};
    for (int64_t i = 0; i < shoal_shape_count(&out->shape); ++i) {
      int64_t to[4];
      unravel(&out->shape, i, to);
      const int64_t from = (to[0] * 9 + to[1] * step + to[3]) * 3 + to[2];
      check_near(at(out, i), at(&x, from), 0, "unfold", i);
      sums[from] += at(out, i);
    }
    if (!shoal_dtype_is_float(DTYPES[k / 3])) continue;
    assert_ok(run_named(&b, "shoal.fold", TENSORS(*out),
                        ATTRS(axis, size, by, shoal_attr_shape("shape", &shape)), back, NULL));
    const double tolerance = 8 * shoal_dtype_epsilon(DTYPES[k / 3]);
    for (int64_t i = 0; i < 54; ++i) check_near(at(back, i), sums[i], tolerance, "fold", i);
  }
  shoal_tensor_t x = random_tensor(&b, SHOAL_F64, shape, 2, 1), out[1];
  assert_error(
      INVALID_ARGUMENT, "a window of 4 elements does not fit into the 3 of dim 2",
      run_named(&b, "shoal.unfold", TENSORS(x),
                ATTRS(shoal_attr_int("axis", 2), size, shoal_attr_int("step", 1)), out, NULL));
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
      cmocka_unit_test(one_hots),          cmocka_unit_test(borders),
      cmocka_unit_test(strides),           cmocka_unit_test(unfolds),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
