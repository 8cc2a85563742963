// Element-wise ops where finite differences see no mistake: comparisons, logic, bits, signs and
// zeros, rounding, remainders, NaN and infinities; for all dtypes, against definitions written out.
#include "op_support.h"

// Runs a call of operands with these elements, in a row.
static shoal_tensor_t run_on(bench_t *b, const char *op, shoal_dtype_t dtype, int32_t operands,
                             int64_t count, const double *const *values, int32_t attr_count,
                             const shoal_attr_t *attrs) {
  shoal_tensor_t in[3], out[1];
  for (int32_t k = 0; k < operands; ++k) {
    in[k] = new_tensor(b, dtype, SHOAL_SHAPE(count), 0);
    for (int64_t i = 0; i < count; ++i) shoal_dtype_store(dtype, in[k].data, i, values[k][i]);
  }
  assert_ok(run_named(b, op, operands, in, attr_count, attrs, out, NULL));
  return out[0];
}

// Same number, NaN like NaN, and the sign of a zero counts.
static void check_same(double value, double expected, const char *what, int64_t i) {
  const bool same =
      isnan(expected) ? isnan(value) : value == expected && !signbit(value) == !signbit(expected);
  if (!same) fail_msg("%s[%lld] is %g, expected %g", what, (long long)i, value, expected);
}

// ---- comparison and logic -----------------------------------------------------------------------

static bool related(const char *op, double a, double b) {
  if (strcmp(op, "shoal.less") == 0) return a < b;
  if (strcmp(op, "shoal.less_equal") == 0) return a <= b;
  if (strcmp(op, "shoal.greater") == 0) return a > b;
  if (strcmp(op, "shoal.greater_equal") == 0) return a >= b;
  if (strcmp(op, "shoal.equal") == 0) return a == b;
  return a != b;
}

static void comparisons(void **state) {
  (void)state;
  static const char *const ops[] = {"shoal.less",          "shoal.less_equal", "shoal.greater",
                                    "shoal.greater_equal", "shoal.equal",      "shoal.not_equal"};
  static const double pool[] = {0, 1, 2, 3, -1, -2, -0.0, 0.5, -0.5, INFINITY, -INFINITY, NAN};
  bench_t b;
  bench_init(&b);
  for (int32_t d = 0; d < SHOAL_DTYPE_COUNT; ++d) {
    const shoal_dtype_t dtype = (shoal_dtype_t)d;
    if (dtype > SHOAL_BOOL) continue;
    const int64_t n = shoal_dtype_is_float(dtype)                ? 12
                      : dtype == SHOAL_I64 || dtype == SHOAL_I32 ? 6
                      : dtype == SHOAL_U8                        ? 4
                                                                 : 2;
    double x[144], y[144];
    for (int64_t i = 0; i < n * n; ++i) x[i] = pool[i / n], y[i] = pool[i % n];
    for (size_t k = 0; k < sizeof ops / sizeof *ops; ++k) {
      shoal_tensor_t out =
          run_on(&b, ops[k], dtype, 2, n * n, (const double *const[]){x, y}, NO_ATTRS);
      assert_int_equal(out.dtype, SHOAL_BOOL);
      for (int64_t i = 0; i < n * n; ++i)
        check_same(at(&out, i), related(ops[k], x[i], y[i]), ops[k], i);
    }
  }
  // Integers beside each other that doubles cannot tell apart.
  shoal_tensor_t big = scalar_int(&b, (INT64_C(1) << 53) + 1),
                 even = scalar_int(&b, INT64_C(1) << 53);
  shoal_tensor_t out[1];
  assert_ok(run_named(&b, "shoal.greater", TENSORS(big, even), NO_ATTRS, out, NULL));
  assert_true(at(out, 0) == 1);
  bench_deinit(&b);
}

static void logic_and_bits(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double p[] = {0, 0, 1, 1}, q[] = {0, 1, 0, 1};
  static const struct {
    const char *op;
    double expected[4];
  } table[] = {{"shoal.logical_and", {0, 0, 0, 1}}, {"shoal.logical_or", {0, 1, 1, 1}},
               {"shoal.logical_xor", {0, 1, 1, 0}}, {"shoal.bitwise_and", {0, 0, 0, 1}},
               {"shoal.bitwise_or", {0, 1, 1, 1}},  {"shoal.bitwise_xor", {0, 1, 1, 0}}};
  for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
    shoal_tensor_t out =
        run_on(&b, table[k].op, SHOAL_BOOL, 2, 4, (const double *const[]){p, q}, NO_ATTRS);
    for (int64_t i = 0; i < 4; ++i) check_same(at(&out, i), table[k].expected[i], table[k].op, i);
  }
  static const char *const nots[] = {"shoal.logical_not", "shoal.bitwise_not"};
  for (int k = 0; k < 2; ++k) {
    shoal_tensor_t out =
        run_on(&b, nots[k], SHOAL_BOOL, 1, 4, (const double *const[]){p}, NO_ATTRS);
    for (int64_t i = 0; i < 4; ++i) check_same(at(&out, i), p[i] == 0, nots[k], i);
  }
  // Bits of signed and unsigned integers.
  static const shoal_dtype_t dtypes[] = {SHOAL_I64, SHOAL_I32, SHOAL_U8};
  for (int d = 0; d < 3; ++d) {
    const bool bytes = dtypes[d] == SHOAL_U8;
    const double x[] = {0, 5, 12, bytes ? 255 : -1, bytes ? 200 : -6, 77};
    const double y[] = {9, 3, 10, 7, 12, bytes ? 254 : -2};
    const double *const operands[] = {x, y};
    shoal_tensor_t both = run_on(&b, "shoal.bitwise_and", dtypes[d], 2, 6, operands, NO_ATTRS);
    shoal_tensor_t either = run_on(&b, "shoal.bitwise_or", dtypes[d], 2, 6, operands, NO_ATTRS);
    shoal_tensor_t one = run_on(&b, "shoal.bitwise_xor", dtypes[d], 2, 6, operands, NO_ATTRS);
    shoal_tensor_t none = run_on(&b, "shoal.bitwise_not", dtypes[d], 1, 6, operands, NO_ATTRS);
    for (int64_t i = 0; i < 6; ++i) {
      const int64_t u = (int64_t)x[i], v = (int64_t)y[i];
      check_same(at(&both, i), (double)(u & v), "bitwise_and", i);
      check_same(at(&either, i), (double)(u | v), "bitwise_or", i);
      check_same(at(&one, i), (double)(u ^ v), "bitwise_xor", i);
      check_same(at(&none, i), (double)(bytes ? ~u & 255 : ~u), "bitwise_not", i);
    }
  }
  bench_deinit(&b);
}

static void shifts(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {1, 3, -3, -3, 5, -5, 1, -1, 7},
                      by[] = {4, 0, 1, 31, 32, 40, -1, -1, 2};
  static const double left[] = {16, 3, -6, -2147483648.0, 0, 0, 0, 0, 28};
  static const double right[] = {0, 3, -2, -1, 0, -1, 0, -1, 1};
  const double *const operands[] = {x, by};
  shoal_tensor_t l = run_on(&b, "shoal.shift_left", SHOAL_I32, 2, 9, operands, NO_ATTRS);
  shoal_tensor_t r = run_on(&b, "shoal.shift_right", SHOAL_I32, 2, 9, operands, NO_ATTRS);
  for (int64_t i = 0; i < 9; ++i) {
    check_same(at(&l, i), left[i], "shift_left", i);
    check_same(at(&r, i), right[i], "shift_right", i);
  }
  shoal_tensor_t wide = run_on(&b, "shoal.shift_left", SHOAL_I64, 2, 9, operands, NO_ATTRS);
  check_same(at(&wide, 4), 5 * 0x1p32, "shift_left", 4);
  static const double bytes[] = {200, 200, 1}, most[] = {1, 7, 8};
  shoal_tensor_t out = run_on(&b, "shoal.shift_left", SHOAL_U8, 2, 3,
                              (const double *const[]){bytes, most}, NO_ATTRS);
  check_same(at(&out, 0), 144, "shift_left", 0);
  check_same(at(&out, 1), 0, "shift_left", 1);
  check_same(at(&out, 2), 0, "shift_left", 2);
  bench_deinit(&b);
}

// ---- arithmetic ---------------------------------------------------------------------------------

// Python's // and %, and torch's: the remainder has the divisor's sign.
static void division_rounds_down(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {7, 7, -7, -7, 6, -6, 0, -0.0, 1, -1},
                      y[] = {3, -3, 3, -3, 3, 3, 5, 5, 8, 8};
  static const double quotient[] = {2, -3, -3, 2, 2, -2, 0, -0.0, 0, -1};
  static const double rest[] = {1, -2, 2, -1, 0, -0.0, 0, -0.0, 1, 7};
  const double *const operands[] = {x, y};
  static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16,
                                         SHOAL_F16, SHOAL_I64, SHOAL_I32};
  for (int d = 0; d < 6; ++d) {
    const bool integers = d >= 4;
    shoal_tensor_t q = run_on(&b, "shoal.floor_div", dtypes[d], 2, 10, operands, NO_ATTRS);
    shoal_tensor_t r = run_on(&b, "shoal.remainder", dtypes[d], 2, 10, operands, NO_ATTRS);
    for (int64_t i = 0; i < 10; ++i) {  // integers have no -0
      check_same(at(&q, i), integers ? quotient[i] + 0.0 : quotient[i], "floor_div", i);
      check_same(at(&r, i), integers ? rest[i] + 0.0 : rest[i], "remainder", i);
    }
  }
  static const double a[] = {1, -1, 0, INFINITY, 5, 5, -5, NAN};
  static const double c[] = {0, 0, 0, 2, INFINITY, -INFINITY, INFINITY, 3};
  static const double aq[] = {INFINITY, -INFINITY, NAN, NAN, 0, -1, -1, NAN};
  static const double ar[] = {NAN, NAN, NAN, NAN, 5, -INFINITY, INFINITY, NAN};
  shoal_tensor_t q =
      run_on(&b, "shoal.floor_div", SHOAL_F64, 2, 8, (const double *const[]){a, c}, NO_ATTRS);
  shoal_tensor_t r =
      run_on(&b, "shoal.remainder", SHOAL_F64, 2, 8, (const double *const[]){a, c}, NO_ATTRS);
  for (int64_t i = 0; i < 8; ++i) {
    check_same(at(&q, i), aq[i], "floor_div", i);
    check_same(at(&r, i), ar[i], "remainder", i);
  }
  // The least integer by -1 wraps; a 0 among the divisors is named.
  shoal_tensor_t least = scalar_int(&b, INT64_MIN), minus = scalar_int(&b, -1), out[1];
  assert_ok(run_named(&b, "shoal.floor_div", TENSORS(least, minus), NO_ATTRS, out, NULL));
  assert_true(*(int64_t *)out->data == INT64_MIN);
  assert_ok(run_named(&b, "shoal.remainder", TENSORS(least, minus), NO_ATTRS, out, NULL));
  assert_true(*(int64_t *)out->data == 0);
  static const char *const ops[] = {"shoal.floor_div", "shoal.remainder"};
  for (int k = 0; k < 2; ++k)
    assert_error(INVALID_ARGUMENT, "element 0 of b is 0",
                 run_named(&b, ops[k], TENSORS(least, scalar_int(&b, 0)), NO_ATTRS, out, NULL));
  bench_deinit(&b);
}

static void powers_and_mixes(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {-2, -2, 0, NAN, 1, -8, 0}, y[] = {3, 0.5, 0, 0, NAN, 2, -1};
  static const double expected[] = {-8, NAN, 1, 1, 1, 64, INFINITY};
  shoal_tensor_t out =
      run_on(&b, "shoal.pow", SHOAL_F64, 2, 7, (const double *const[]){x, y}, NO_ATTRS);
  for (int64_t i = 0; i < 7; ++i) check_same(at(&out, i), expected[i], "pow", i);
  // Both ends to the bit, where b - a loses all of a.
  static const double from[] = {1, 1e-9}, to[] = {1e17, -3}, ends[] = {0, 0}, full[] = {1, 1};
  out =
      run_on(&b, "shoal.lerp", SHOAL_F64, 3, 2, (const double *const[]){from, to, ends}, NO_ATTRS);
  for (int64_t i = 0; i < 2; ++i) check_same(at(&out, i), from[i], "lerp", i);
  out =
      run_on(&b, "shoal.lerp", SHOAL_F64, 3, 2, (const double *const[]){from, to, full}, NO_ATTRS);
  for (int64_t i = 0; i < 2; ++i) check_same(at(&out, i), to[i], "lerp", i);
  static const double u[] = {1000, INFINITY, -INFINITY, -INFINITY},
                      v[] = {1000, INFINITY, -INFINITY, 2};
  out = run_on(&b, "shoal.logaddexp", SHOAL_F64, 2, 4, (const double *const[]){u, v}, NO_ATTRS);
  check_near(at(&out, 0), 1000 + log(2), 1e-15, "logaddexp", 0);
  check_same(at(&out, 1), INFINITY, "logaddexp", 1);
  check_same(at(&out, 2), -INFINITY, "logaddexp", 2);
  check_same(at(&out, 3), 2, "logaddexp", 3);
  bench_deinit(&b);
}

// ---- one operand --------------------------------------------------------------------------------

static void rounding(void **state) {
  (void)state;
  static const double x[] = {
      0.5, 1.5, 2.5,  -0.5, -1.5, -2.5,  0.3,      -0.3,      0.7, -0.7,
      2,   -2,  -0.0, 0,    3.25, 1e300, INFINITY, -INFINITY, NAN, 4503599627370495.5};
  static const struct {
    const char *op;
    double expected[20];
  } table[] = {
      {"shoal.round", {0, 2,  2,    -0.0, -2, -2,    0,        -0.0,      1,   -1,
                       2, -2, -0.0, 0,    3,  1e300, INFINITY, -INFINITY, NAN, 4503599627370496.0}},
      {"shoal.floor", {0, 1,  2,    -1, -2, -3,    0,        -1,        0,   -1,
                       2, -2, -0.0, 0,  3,  1e300, INFINITY, -INFINITY, NAN, 4503599627370495.0}},
      {"shoal.ceil", {1, 2,  3,    -0.0, -1, -2,    1,        -0.0,      1,   -0.0,
                      2, -2, -0.0, 0,    4,  1e300, INFINITY, -INFINITY, NAN, 4503599627370496.0}},
      {"shoal.trunc", {0, 1,  2,    -0.0, -1, -2,    0,        -0.0,      0,   -0.0,
                       2, -2, -0.0, 0,    3,  1e300, INFINITY, -INFINITY, NAN, 4503599627370495.0}},
  };
  bench_t b;
  bench_init(&b);
  for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
    shoal_tensor_t out =
        run_on(&b, table[k].op, SHOAL_F64, 1, 20, (const double *const[]){x}, NO_ATTRS);
    for (int64_t i = 0; i < 20; ++i) check_same(at(&out, i), table[k].expected[i], table[k].op, i);
    out = run_on(&b, table[k].op, SHOAL_BF16, 1, 15, (const double *const[]){x}, NO_ATTRS);
    for (int64_t i = 0; i < 15; ++i) check_same(at(&out, i), table[k].expected[i], table[k].op, i);
  }
  bench_deinit(&b);
}

static void signs_and_tests(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {2.5, -2.5, 0, -0.0, INFINITY, -INFINITY, NAN};
  static const struct {
    const char *op;
    double expected[7];
  } table[] = {
      {"shoal.abs", {2.5, 2.5, 0, 0, INFINITY, INFINITY, NAN}},
      {"shoal.sign", {1, -1, 0, 0, 1, -1, 0}},
      {"shoal.is_nan", {0, 0, 0, 0, 0, 0, 1}},
      {"shoal.is_inf", {0, 0, 0, 0, 1, 1, 0}},
      {"shoal.is_finite", {1, 1, 1, 1, 0, 0, 0}},
      {"shoal.reciprocal", {0.4, -0.4, INFINITY, -INFINITY, 0, -0.0, NAN}},
  };
  const double *const operands[] = {x};
  for (size_t k = 0; k < sizeof table / sizeof *table; ++k) {
    shoal_tensor_t out = run_on(&b, table[k].op, SHOAL_F64, 1, 7, operands, NO_ATTRS);
    for (int64_t i = 0; i < 7; ++i) check_same(at(&out, i), table[k].expected[i], table[k].op, i);
  }
  static const double n[] = {3, -3, 0, -2147483648.0};
  static const char *const ops[] = {"shoal.abs", "shoal.sign", "shoal.neg", "shoal.relu"};
  static const double expected[][4] = {
      {3, 3, 0, -2147483648.0}, {1, -1, 0, -1}, {-3, 3, 0, -2147483648.0}, {3, 0, 0, 0}};
  for (int k = 0; k < 4; ++k) {
    shoal_tensor_t out = run_on(&b, ops[k], SHOAL_I32, 1, 4, (const double *const[]){n}, NO_ATTRS);
    for (int64_t i = 0; i < 4; ++i) check_same(at(&out, i), expected[k][i], ops[k], i);
  }
  bench_deinit(&b);
}

static void clamps(void **state) {
  (void)state;
  bench_t b;
  bench_init(&b);
  static const double x[] = {-2, -0.5, 0.1, 0.5, 2, NAN, INFINITY, -INFINITY};
  static const double kept[] = {-0.5, -0.5, 0.1, 0.5, 0.5, NAN, 0.5, -0.5};
  static const double ones[] = {1, 1, 1, 1, 1, 1, 1, 1}, passes[] = {0, 0, 1, 0, 0, 0, 0, 0};
  const double *const operands[] = {x, ones};
  shoal_tensor_t out = run_on(&b, "shoal.clamp", SHOAL_F64, 1, 8, operands,
                              ATTRS(shoal_attr_real("min", -0.5), shoal_attr_real("max", 0.5)));
  for (int64_t i = 0; i < 8; ++i) check_same(at(&out, i), kept[i], "clamp", i);
  out = run_on(&b, "shoal.clamp_grad", SHOAL_F64, 2, 8, operands,
               ATTRS(shoal_attr_real("min", -0.5), shoal_attr_real("max", 0.5)));
  for (int64_t i = 0; i < 8; ++i) check_same(at(&out, i), passes[i], "clamp_grad", i);
  // 0.1 is no number of f32: x at the bound is not beyond it.
  out =
      run_on(&b, "shoal.clamp_grad", SHOAL_F32, 2, 3, operands, ATTRS(shoal_attr_real("min", 0.1)));
  assert_true(at(&out, 2) == 0);
  out = run_on(&b, "shoal.clamp", SHOAL_F64, 1, 5, operands,
               ATTRS(shoal_attr_real("min", 1), shoal_attr_real("max", -1)));
  for (int64_t i = 0; i < 5; ++i) check_same(at(&out, i), -1, "clamp with min > max", i);
  shoal_tensor_t large = scalar_int(&b, INT64_MAX), same[1];
  assert_ok(
      run_named(&b, "shoal.clamp", TENSORS(large), ATTRS(shoal_attr_real("min", 3)), same, NULL));
  assert_true(*(int64_t *)same->data == INT64_MAX);
  assert_ok(
      run_named(&b, "shoal.clamp", TENSORS(large), ATTRS(shoal_attr_real("max", -3)), same, NULL));
  assert_true(*(int64_t *)same->data == -3);
  bench_deinit(&b);
}

// ---- what is refused ----------------------------------------------------------------------------

static void refused(void **state) {
  (void)state;
  static const struct {
    const char *op, *text, *message;
  } bad[] = {
      {"shoal.less", "f32[3], f64[3]", "a and b must have the same dtype"},
      {"shoal.less", "f32[3], f32[4]", "can't be broadcast"},
      {"shoal.logical_and", "i32[3], i32[3]", "must be bool"},
      {"shoal.bitwise_or", "f32[3], f32[3]", "must be an integer or bool"},
      {"shoal.shift_left", "bool[3], bool[3]", "must be i64, i32 or u8"},
      {"shoal.remainder", "bool[3], bool[3]", "not bool"},
      {"shoal.pow", "i32[3], i32[3]", "must be a float"},
      {"shoal.lerp", "f32[3], f32[3], f32[4]", "can't be broadcast"},
      {"shoal.abs", "bool[3]", "not bool"},
      {"shoal.neg", "bool[3]", "not bool"},
      {"shoal.sin", "i32[3]", "must be a float"},
      {"shoal.is_nan", "i32[3]", "must be a float"},
      {"shoal.clamp", "i32[3] ; min=0.5", "min is 0.5, and x has integers"},
      {"shoal.clamp", "f32[3] ; max=nan", "max is NaN"},
      {"shoal.clamp_grad", "f32[3], f32[4]", "dy must have shape [3]"},
  };
  bench_t b;
  bench_init(&b);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; ++i) {
    const shoal_op_t *op = bench_op(&b, bad[i].op);
    shoal_case_t c;
    shoal_type_t out[1];
    assert_ok(shoal_case_parse(op, bad[i].text, &b.arena, &c));
    const shoal_call_t call = {op, c.input_count, op->output_count, c.inputs, NULL, c.attrs};
    assert_error(INVALID_ARGUMENT, bad[i].message, shoal_op_infer(&call, out));
  }
  bench_deinit(&b);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(comparisons),      cmocka_unit_test(logic_and_bits),
      cmocka_unit_test(shifts),           cmocka_unit_test(division_rounds_down),
      cmocka_unit_test(powers_and_mixes), cmocka_unit_test(rounding),
      cmocka_unit_test(signs_and_tests),  cmocka_unit_test(clamps),
      cmocka_unit_test(refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
