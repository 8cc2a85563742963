// 8-bit floats and i8: all 256 patterns of both formats against arithmetic, rounding against a
// search for the nearest number, access by type.
#include <math.h>

#include "base/dtype.h"
#include "unit/unit.h"

// A format by its description, not by its bits in f32. Codes from `beyond` on are no numbers; as if
// it were one, `beyond` itself has the value that decides where the range ends.
typedef struct format {
  shoal_dtype_t dtype;
  int fraction_bits, bias, beyond, overflow;
  float (*decode)(uint8_t bits);
  uint8_t (*encode)(float value);
} format_t;

static const format_t formats[] = {
    {SHOAL_F8_E4M3, 3, 7, 0x7f, 0x7f, shoal_f8_e4m3_to_f32, shoal_f32_to_f8_e4m3},
    {SHOAL_F8_E5M2, 2, 15, 0x7c, 0x7c, shoal_f8_e5m2_to_f32, shoal_f32_to_f8_e5m2},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static double magnitude_of(const format_t *f, int code) {
  const int exponent = code >> f->fraction_bits, fraction = code & ((1 << f->fraction_bits) - 1);
  const double unit = ldexp(1, -f->fraction_bits);
  if (exponent == 0) return ldexp(fraction * unit, 1 - f->bias);
  return ldexp(1 + fraction * unit, exponent - f->bias);
}

// The nearest number's code, the even one of two; by search.
static uint8_t nearest(const format_t *f, double value) {
  const int sign = signbit(value) ? 0x80 : 0;
  const double magnitude = fabs(value);
  if (isnan(value)) return (uint8_t)(sign | 0x7f);
  if (magnitude >= magnitude_of(f, f->beyond)) return (uint8_t)(sign | f->overflow);
  int best = 0;
  for (int code = 1; code <= f->beyond; ++code) {
    const double here = fabs(magnitude_of(f, code) - magnitude);
    const double before = fabs(magnitude_of(f, best) - magnitude);
    if (here < before || (here == before && code % 2 == 0)) best = code;
  }
  return (uint8_t)(sign | (best == f->beyond ? f->overflow : best));
}

static void check_encode(const format_t *f, float value) {
  const uint8_t got = f->encode(value), want = nearest(f, (double)value);
  if (got != want)
    fail_msg("%s of %a is %02x, not %02x", shoal_dtype_name(f->dtype), (double)value, got, want);
}

static void decodes_all_patterns(void **state) {
  (void)state;
  for (int k = 0; k < FORMATS; ++k) {
    const format_t *f = &formats[k];
    int nans = 0, infinities = 0;
    for (int bits = 0; bits < 256; ++bits) {
      const float got = f->decode((uint8_t)bits);
      assert_true(shoal_dtype_load(f->dtype, (uint8_t[]){(uint8_t)bits}, 0) == (double)got ||
                  isnan(got));
      assert_int_equal(signbit(got) != 0, bits >> 7);
      nans += isnan(got) != 0;
      infinities += isinf(got) != 0;
      if (isfinite(got)) {
        assert_true(fabs((double)got) == magnitude_of(f, bits & 0x7f));
        assert_int_equal(f->encode(got), bits);
      } else {
        assert_true((bits & 0x7f) >= f->beyond);
        assert_int_equal(f->encode(got), isnan(got) ? (bits & 0x80) | 0x7f : bits);
      }
    }
    assert_int_equal(nans, k == 0 ? 2 : 6);
    assert_int_equal(infinities, k == 0 ? 0 : 2);
  }
  assert_true(shoal_f8_e4m3_to_f32(0x7e) == 448 && shoal_f8_e4m3_to_f32(1) == 0x1p-9f);
  assert_true(shoal_f8_e5m2_to_f32(0x7b) == 57344 && shoal_f8_e5m2_to_f32(1) == 0x1p-16f);
}

static void rounds_halfway_points(void **state) {
  (void)state;
  for (int k = 0; k < FORMATS; ++k) {
    const format_t *f = &formats[k];
    for (int code = 0; code < f->beyond; ++code) {
      const float here = (float)magnitude_of(f, code), next = (float)magnitude_of(f, code + 1);
      const float tie = 0.5f * (here + next);  // exact
      const uint8_t above = (uint8_t)(code + 1 == f->beyond ? f->overflow : code + 1);
      assert_int_equal(f->encode(tie), code % 2 ? above : code);
      assert_int_equal(f->encode(nextafterf(tie, 0)), code);
      assert_int_equal(f->encode(nextafterf(tie, INFINITY)), above);
      for (int sign = -1; sign <= 1; sign += 2) {
        const float s = (float)sign;
        check_encode(f, s * tie);
        check_encode(f, s * nextafterf(tie, 0));
        check_encode(f, s * nextafterf(tie, INFINITY));
        check_encode(f, s * nextafterf(here, INFINITY));
        check_encode(f, s * nextafterf(next, 0));
      }
    }
  }
  assert_int_equal(shoal_f32_to_f8_e4m3(464), 0x7e);  // halfway to 480: the even one
  assert_int_equal(shoal_f32_to_f8_e4m3(-465), 0xff);
  assert_int_equal(shoal_f32_to_f8_e4m3(INFINITY), 0x7f);
  assert_int_equal(shoal_f32_to_f8_e5m2(61439), 0x7b);
  assert_int_equal(shoal_f32_to_f8_e5m2(61440), 0x7c);
  assert_int_equal(shoal_f32_to_f8_e5m2(-INFINITY), 0xfc);
}

// All bf16, and a few of all f32.
static void rounds_to_nearest_even(void **state) {
  (void)state;
  for (int k = 0; k < FORMATS; ++k) {
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      check_encode(&formats[k], shoal_bf16_to_f32((uint16_t)bits));
    }
    for (uint64_t bits = 0; bits < UINT64_C(1) << 32; bits += 123457) {
      const uint32_t low = (uint32_t)bits;
      float value;
      memcpy(&value, &low, sizeof value);
      check_encode(&formats[k], value);
    }
  }
}

static void stores_integers(void **state) {
  (void)state;
  int8_t narrow[3] = {0};
  shoal_dtype_store(SHOAL_I8, narrow, 1, -2.9);
  assert_int_equal(narrow[1], -2);
  assert_true(shoal_dtype_load(SHOAL_I8, narrow, 1) == -2);
  shoal_dtype_store(SHOAL_I8, narrow, 1, 1e9);
  assert_int_equal(narrow[1], 127);
  shoal_dtype_store(SHOAL_I8, narrow, 1, NAN);
  assert_int_equal(narrow[1], 0);
  shoal_dtype_store_int(SHOAL_I8, narrow, 1, 300);  // wraps
  assert_int_equal(shoal_dtype_load_int(SHOAL_I8, narrow, 1), 44);
  assert_int_equal(narrow[0], 0);
  assert_int_equal(narrow[2], 0);
  uint8_t bits = 0;
  shoal_dtype_store_int(SHOAL_F8_E5M2, &bits, 0, -3);
  assert_true(shoal_dtype_load(SHOAL_F8_E5M2, &bits, 0) == -3);
  shoal_dtype_store(SHOAL_F8_E4M3, &bits, 0, 0.625);
  assert_true(shoal_dtype_load(SHOAL_F8_E4M3, &bits, 0) == 0.625);
  assert_int_equal(shoal_dtype_load_int(SHOAL_F8_E4M3, &bits, 0), 0);
}

static void says_what_is_for_storage(void **state) {
  (void)state;
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    const shoal_dtype_t dtype = (shoal_dtype_t)i;
    const bool storage = dtype == SHOAL_I8 || dtype == SHOAL_F8_E4M3 || dtype == SHOAL_F8_E5M2;
    assert_true(shoal_dtype_is_storage(dtype) == storage);
    assert_false(storage && shoal_dtype_is_float(dtype));
    assert_true(shoal_dtype_is_real(dtype) ==
                (shoal_dtype_is_float(dtype) || (storage && dtype != SHOAL_I8)));
    if (storage) assert_int_equal(shoal_dtype_size(dtype), 1);
  }
  assert_false(shoal_dtype_is_storage(SHOAL_DTYPE_COUNT));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(decodes_all_patterns),     cmocka_unit_test(rounds_halfway_points),
      cmocka_unit_test(rounds_to_nearest_even),   cmocka_unit_test(stores_integers),
      cmocka_unit_test(says_what_is_for_storage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
