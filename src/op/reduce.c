// Joining unreduced parts, element by element. Not fast: backends have their own loops.
#include "op/reduce.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

static const struct {
  const char *name;
  double real;
  int64_t integer;
} kinds[] = {
#define SHOAL_REDUCE_KIND(id, text, real_identity, integer_identity) \
  [SHOAL_REDUCE_##id] = {text, real_identity, integer_identity},
#include "op/reduce.inc"
#undef SHOAL_REDUCE_KIND
};
#define KIND_COUNT (sizeof kinds / sizeof kinds[0])

const char *shoal_reduce_name(shoal_reduce_t reduce) {
  return (size_t)reduce < KIND_COUNT ? kinds[reduce].name : "?";
}

bool shoal_reduce_parse(const char *name, shoal_reduce_t *out_reduce) {
  for (size_t i = 0; i < KIND_COUNT; ++i) {
    if (strcmp(name, kinds[i].name) != 0) continue;
    *out_reduce = (shoal_reduce_t)i;
    return true;
  }
  return false;
}

void shoal_reduce_fill(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t count, void *data) {
  if (reduce == SHOAL_REDUCE_SUM) {
    memset(data, 0, (size_t)count * shoal_dtype_size(dtype));
    return;
  }
  int64_t integer = kinds[reduce].integer;
  const int64_t low = dtype == SHOAL_I64 ? INT64_MIN : dtype == SHOAL_I32 ? INT32_MIN : 0;
  const int64_t high = dtype == SHOAL_I64   ? INT64_MAX
                       : dtype == SHOAL_I32 ? INT32_MAX
                       : dtype == SHOAL_U8  ? UINT8_MAX
                                            : 1;
  integer = integer < low ? low : integer > high ? high : integer;
  for (int64_t i = 0; i < count; ++i) {
    if (shoal_dtype_is_float(dtype)) {
      shoal_dtype_store(dtype, data, i, kinds[reduce].real);
    } else {
      shoal_dtype_store_int(dtype, data, i, integer);
    }
  }
}

static double join_reals(shoal_reduce_t reduce, double a, double b) {
  switch (reduce) {
    case SHOAL_REDUCE_SUM:
      return a + b;
    case SHOAL_REDUCE_MAX:
      return a > b || isnan(a) ? a : b;
    case SHOAL_REDUCE_MIN:
      return a < b || isnan(a) ? a : b;
    case SHOAL_REDUCE_PROD:
      return a * b;
    case SHOAL_REDUCE_LSE: {
      const double high = a > b ? a : b, low = a > b ? b : a;
      return isinf(high) ? high : high + log1p(exp(low - high));
    }
  }
  return a;
}

static int64_t join_integers(shoal_reduce_t reduce, int64_t a, int64_t b) {
  switch (reduce) {
    case SHOAL_REDUCE_SUM:
      return (int64_t)((uint64_t)a + (uint64_t)b);
    case SHOAL_REDUCE_MAX:
      return a > b ? a : b;
    case SHOAL_REDUCE_MIN:
      return a < b ? a : b;
    case SHOAL_REDUCE_PROD:
      return (int64_t)((uint64_t)a * (uint64_t)b);
    case SHOAL_REDUCE_LSE:
      break;
  }
  return a;
}

void shoal_reduce_join(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t count, const void *more,
                       void *data) {
  if (reduce == SHOAL_REDUCE_SUM && dtype == SHOAL_F32) {
    const float *b = more;
    float *a = data;
    for (int64_t i = 0; i < count; ++i) a[i] += b[i];
  } else if (shoal_dtype_is_float(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store(
          dtype, data, i,
          join_reals(reduce, shoal_dtype_load(dtype, data, i), shoal_dtype_load(dtype, more, i)));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store_int(dtype, data, i,
                            join_integers(reduce, shoal_dtype_load_int(dtype, data, i),
                                          shoal_dtype_load_int(dtype, more, i)));
    }
  }
}
