// Element types: every f16 and bf16 bit pattern, rounding against exact arithmetic, access.
#include "base/dtype.h"

#include <math.h>

#include "unit/unit.h"

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void all_patterns_round_trip(void **state) {
  (void)state;
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    float half = shoal_f16_to_f32((uint16_t)bits), brain = shoal_bf16_to_f32((uint16_t)bits);
    if (isnan(half)) {
      assert_true(isnan(shoal_f16_to_f32(shoal_f32_to_f16(half))));
    } else {
      assert_int_equal(shoal_f32_to_f16(half), bits);
    }
    if (isnan(brain)) {
      assert_true(isnan(shoal_bf16_to_f32(shoal_f32_to_bf16(brain))));
    } else {
      assert_int_equal(shoal_f32_to_bf16(brain), bits);
    }
  }
  assert_true(shoal_f16_to_f32(0x3c00) == 1.0f && shoal_f16_to_f32(0x7bff) == 65504.0f);
  assert_true(shoal_f16_to_f32(1) == 0x1p-24f && shoal_f16_to_f32(0x0400) == 0x1p-14f);
  assert_true(isnan(shoal_bf16_to_f32(shoal_f32_to_bf16(float_of(0x7f800001)))));
  assert_true(isnan(shoal_f16_to_f32(shoal_f32_to_f16(float_of(0x7f800001)))));
}

// Conversions must give the nearest of the two neighbours, the even one on ties.
static void check_nearest(float value, uint16_t got, float (*back)(uint16_t)) {
  double exact = fabs((double)value);
  uint16_t magnitude = got & 0x7fff;
  double here = (double)back(magnitude);
  if (isinf(here)) return;  // checked at the boundary below
  double above = (double)back((uint16_t)(magnitude + 1));
  double distance = fabs(exact - here);
  if (!isinf(above)) {
    assert_true(distance < above - exact || (distance == above - exact && magnitude % 2 == 0));
  }
  if (magnitude) {
    double below = (double)back((uint16_t)(magnitude - 1));
    assert_true(distance < exact - below || (distance == exact - below && magnitude % 2 == 0));
  }
  assert_int_equal(got >> 15, bits_of(value) >> 31);
}

static void rounds_to_nearest_even(void **state) {
  (void)state;
  for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 4093) {
    float value = float_of((uint32_t)bits);
    if (!isfinite(value)) continue;
    check_nearest(value, shoal_f32_to_f16(value), shoal_f16_to_f32);
    check_nearest(value, shoal_f32_to_bf16(value), shoal_bf16_to_f32);
  }
  for (uint32_t half = 0; half < 0x7c00; ++half) {  // exact ties and their neighbours
    float here = shoal_f16_to_f32((uint16_t)half);
    float next = half == 0x7bff ? 65536.0f : shoal_f16_to_f32((uint16_t)(half + 1));
    float tie = 0.5f * (here + next);
    assert_int_equal(shoal_f32_to_f16(tie), half + (half & 1));
    assert_int_equal(shoal_f32_to_f16(nextafterf(tie, 0)), half);
    assert_int_equal(shoal_f32_to_f16(nextafterf(tie, INFINITY)), half + 1);
  }
  assert_int_equal(shoal_f32_to_f16(INFINITY), 0x7c00);
  assert_int_equal(shoal_f32_to_bf16(-INFINITY), 0xff80);
  assert_int_equal(shoal_f32_to_bf16(3.4028235e38f), 0x7f80);
}

static void load_and_store(void **state) {
  (void)state;
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    shoal_dtype_t dtype = (shoal_dtype_t)i, parsed;
    assert_true(shoal_dtype_parse(shoal_dtype_name(dtype), &parsed) && parsed == dtype);
    double memory[3] = {0};
    shoal_dtype_store(dtype, memory, 1, 1.0);
    assert_true(shoal_dtype_load(dtype, memory, 1) == 1.0);
    assert_true(shoal_dtype_load(dtype, memory, 0) == 0.0);
    assert_true(shoal_dtype_load(dtype, memory, 2) == 0.0);
    shoal_dtype_store_int(dtype, memory, 2, 1);
    assert_int_equal(shoal_dtype_load_int(dtype, memory, 2), 1);
    double epsilon = shoal_dtype_epsilon(dtype);
    if (shoal_dtype_is_float(dtype)) {
      shoal_dtype_store(dtype, memory, 0, 1 + epsilon);
      assert_true(shoal_dtype_load(dtype, memory, 0) == 1 + epsilon);
      shoal_dtype_store(dtype, memory, 0, 1 + epsilon / 2);
      assert_true(shoal_dtype_load(dtype, memory, 0) == 1);
    }
  }
  shoal_dtype_t dtype;
  assert_false(shoal_dtype_parse("float", &dtype));
  int64_t big = INT64_MAX - 1;
  int64_t integer;
  shoal_dtype_store_int(SHOAL_I64, &integer, 0, big);
  assert_true(shoal_dtype_load_int(SHOAL_I64, &integer, 0) == big);
  int32_t narrow;
  shoal_dtype_store(SHOAL_I32, &narrow, 0, -2.9);
  assert_int_equal(narrow, -2);
  shoal_dtype_store(SHOAL_I32, &narrow, 0, 1e300);
  assert_int_equal(narrow, INT32_MAX);
  shoal_dtype_store(SHOAL_I64, &integer, 0, 1e300);
  assert_true(integer == INT64_MAX);
  shoal_dtype_store(SHOAL_I64, &integer, 0, NAN);
  assert_true(integer == 0);
}

static void shapes(void **state) {
  (void)state;
  shoal_shape_t shape = SHOAL_SHAPE(64, 784), scalar = SHOAL_SCALAR;
  char text[64];
  assert_int_equal(shoal_shape_count(&shape), 64 * 784);
  assert_int_equal(shoal_shape_count(&scalar), 1);
  assert_int_equal(shoal_shape_format(&shape, text, sizeof text), 9);
  assert_string_equal(text, "[64, 784]");
  shoal_shape_format(&scalar, text, sizeof text);
  assert_string_equal(text, "[]");
  assert_true(shoal_shape_equal(&shape, &SHOAL_SHAPE(64, 784)));
  assert_false(shoal_shape_equal(&shape, &SHOAL_SHAPE(64, 784, 1)));
  assert_false(shoal_shape_equal(&shape, &SHOAL_SHAPE(64, 783)));
  int64_t bytes;
  assert_ok(shoal_dtype_bytes(SHOAL_BF16, 10, &bytes));
  assert_int_equal(bytes, 20);
  shape = SHOAL_SHAPE(INT64_MAX / 2, 3);
  assert_error(INVALID_ARGUMENT, "do not fit",
               shoal_dtype_bytes(SHOAL_F32, shoal_shape_count(&shape), &bytes));
  shape = SHOAL_SHAPE(INT64_MAX / 2, 3, 0);
  assert_int_equal(shoal_shape_count(&shape), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_patterns_round_trip),
      cmocka_unit_test(rounds_to_nearest_even),
      cmocka_unit_test(load_and_store),
      cmocka_unit_test(shapes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
