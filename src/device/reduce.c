// Element-wise reductions: one loop per (type, reduction), made by the macros below.
#include "device/reduce.h"

#include <math.h>

#include "base/dtype.h"

bool shoal_reduce_supported(shoal_dtype_t dtype, shoal_reduce_t reduce) {
  if ((unsigned)dtype >= SHOAL_DTYPE_COUNT || (unsigned)reduce > SHOAL_REDUCE_PROD) return false;
  if (shoal_dtype_is_storage(dtype)) return false;
  return reduce != SHOAL_REDUCE_LSE || shoal_dtype_is_float(dtype);
}

// ---- scalar operations, one set per accumulator type --------------------------------

#define FLOAT_OPS(suffix, type)                                                        \
  static inline type sum_##suffix(type a, type b) {                                    \
    return a + b;                                                                      \
  }                                                                                    \
  static inline type prod_##suffix(type a, type b) {                                   \
    return a * b;                                                                      \
  }                                                                                    \
  static inline type max_##suffix(type a, type b) {                                    \
    return a > b || a != a ? a : b;                                                    \
  }                                                                                    \
  static inline type min_##suffix(type a, type b) {                                    \
    return a < b || a != a ? a : b;                                                    \
  }                                                                                    \
  static inline type lse_##suffix(type a, type b) {                                    \
    const type high = max_##suffix(a, b), low = min_##suffix(a, b);                    \
    return isinf(high) ? high : (type)(high + (type)log1p(exp((double)(low - high)))); \
  }

// Unsigned arithmetic: signed overflow wraps instead of being undefined.
#define INT_OPS(suffix, type, wide)                  \
  static inline type sum_##suffix(type a, type b) {  \
    return (type)((wide)a + (wide)b);                \
  }                                                  \
  static inline type prod_##suffix(type a, type b) { \
    return (type)((wide)a * (wide)b);                \
  }                                                  \
  static inline type max_##suffix(type a, type b) {  \
    return a > b ? a : b;                            \
  }                                                  \
  static inline type min_##suffix(type a, type b) {  \
    return a < b ? a : b;                            \
  }                                                  \
  static inline type lse_##suffix(type a, type b) {  \
    return (void)b, a;                               \
  }

FLOAT_OPS(f64, double)
FLOAT_OPS(f32, float)
INT_OPS(i64, int64_t, uint64_t)
INT_OPS(i32, int32_t, uint32_t)
INT_OPS(u8, uint8_t, uint32_t)

static inline uint8_t max_flag(uint8_t a, uint8_t b) {
  return a || b;
}
static inline uint8_t min_flag(uint8_t a, uint8_t b) {
  return a && b;
}
#define sum_flag max_flag
#define prod_flag min_flag
#define lse_flag lse_u8
#define sum_bf16 sum_f32
#define prod_bf16 prod_f32
#define max_bf16 max_f32
#define min_bf16 min_f32
#define lse_bf16 lse_f32
#define sum_f16 sum_f32
#define prod_f16 prod_f32
#define max_f16 max_f32
#define min_f16 min_f32
#define lse_f16 lse_f32

#define SAME(x) (x)

// X(dtype, suffix, stored type, accumulator, load, store)
#define DTYPES(X)                                                            \
  X(SHOAL_F64, f64, double, double, SAME, SAME)                              \
  X(SHOAL_F32, f32, float, float, SAME, SAME)                                \
  X(SHOAL_BF16, bf16, uint16_t, float, shoal_bf16_to_f32, shoal_f32_to_bf16) \
  X(SHOAL_F16, f16, uint16_t, float, shoal_f16_to_f32, shoal_f32_to_f16)     \
  X(SHOAL_I64, i64, int64_t, int64_t, SAME, SAME)                            \
  X(SHOAL_I32, i32, int32_t, int32_t, SAME, SAME)                            \
  X(SHOAL_U8, u8, uint8_t, uint8_t, SAME, SAME)                              \
  X(SHOAL_BOOL, flag, uint8_t, uint8_t, SAME, SAME)

// ---- loops --------------------------------------------------------------------------

// Accumulators are kept in a small array: sources are read one after the other, in order.
#define BLOCK 256

#define LOOPS(suffix, name, stored, accumulator, load, store)                                 \
  static void into_##name##_##suffix(int64_t count, const stored *src, int64_t src_stride,    \
                                     stored *dst, int64_t dst_stride) {                       \
    for (int64_t i = 0; i < count; ++i) {                                                     \
      stored *at = dst + i * dst_stride;                                                      \
      *at = store(name##_##suffix(load(*at), load(src[i * src_stride])));                     \
    }                                                                                         \
  }                                                                                           \
  static void all_##name##_##suffix(int64_t count, int32_t n, const void *const *sources,     \
                                    stored *out) {                                            \
    accumulator sums[BLOCK];                                                                  \
    for (int64_t from = 0; from < count; from += BLOCK) {                                     \
      int64_t size = count - from < BLOCK ? count - from : BLOCK;                             \
      const stored *first = (const stored *)sources[0] + from;                                \
      for (int64_t i = 0; i < size; ++i) sums[i] = load(first[i]);                            \
      for (int32_t s = 1; s < n; ++s) {                                                       \
        const stored *next = (const stored *)sources[s] + from;                               \
        for (int64_t i = 0; i < size; ++i) sums[i] = name##_##suffix(sums[i], load(next[i])); \
      }                                                                                       \
      for (int64_t i = 0; i < size; ++i) out[from + i] = store(sums[i]);                      \
    }                                                                                         \
  }

#define DTYPE_LOOPS(dtype, suffix, stored, accumulator, load, store) \
  LOOPS(suffix, sum, stored, accumulator, load, store)               \
  LOOPS(suffix, max, stored, accumulator, load, store)               \
  LOOPS(suffix, min, stored, accumulator, load, store)               \
  LOOPS(suffix, prod, stored, accumulator, load, store)              \
  LOOPS(suffix, lse, stored, accumulator, load, store)
DTYPES(DTYPE_LOOPS)

// ---- dispatch -----------------------------------------------------------------------

// One switch over reductions inside one over types; CALL(name, suffix) is the loop to run.
#define REDUCE_CASES(suffix, CALL) \
  switch (reduce) {                \
    case SHOAL_REDUCE_SUM:         \
      CALL(sum, suffix);           \
      break;                       \
    case SHOAL_REDUCE_MAX:         \
      CALL(max, suffix);           \
      break;                       \
    case SHOAL_REDUCE_MIN:         \
      CALL(min, suffix);           \
      break;                       \
    case SHOAL_REDUCE_PROD:        \
      CALL(prod, suffix);          \
      break;                       \
    case SHOAL_REDUCE_LSE:         \
      CALL(lse, suffix);           \
      break;                       \
  }

void shoal_reduce_into(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, const void *src,
                       int64_t src_stride, void *dst, int64_t dst_stride) {
#define INTO(name, suffix) into_##name##_##suffix(count, src, src_stride, dst, dst_stride)
#define INTO_CASE(id, suffix, stored, accumulator, load, store) \
  case id:                                                      \
    REDUCE_CASES(suffix, INTO) break;
  switch (dtype) {
    DTYPES(INTO_CASE)
    case SHOAL_I8:
    case SHOAL_F8_E4M3:
    case SHOAL_F8_E5M2:  // not supported
    case SHOAL_DTYPE_COUNT:
      break;
  }
}

void shoal_reduce_all(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, int32_t n,
                      const void *const *sources, void *out) {
#define ALL(name, suffix) all_##name##_##suffix(count, n, sources, out)
#define ALL_CASE(id, suffix, stored, accumulator, load, store) \
  case id:                                                     \
    REDUCE_CASES(suffix, ALL) break;
  switch (dtype) {
    DTYPES(ALL_CASE)
    case SHOAL_I8:
    case SHOAL_F8_E4M3:
    case SHOAL_F8_E5M2:  // not supported
    case SHOAL_DTYPE_COUNT:
      break;
  }
}
