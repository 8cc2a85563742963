// Joining unreduced parts, element by element. Not fast: backends have their own loops.
#include "op/reduce.h"

#include <math.h>
#include <string.h>

#include "base/dtype.h"

static const struct {
  double real;
  int64_t integer;
} identities[] = {
#define SHOAL_REDUCE_KIND(id, name, real_identity, integer_identity) \
  [SHOAL_REDUCE_##id] = {real_identity, integer_identity},
#include "shoal/reduce.inc"
#undef SHOAL_REDUCE_KIND
};

double shoal_reduce_identity(shoal_reduce_t reduce) {
  return identities[reduce].real;
}

void shoal_reduce_fill(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, void *data) {
  if (count == 0) return;  // there may be no data
  if (reduce == SHOAL_REDUCE_SUM) {
    memset(data, 0, (size_t)count * shoal_dtype_size(dtype));
    return;
  }
  int64_t integer = identities[reduce].integer;
  const int64_t low = dtype == SHOAL_I64   ? INT64_MIN
                      : dtype == SHOAL_I32 ? INT32_MIN
                      : dtype == SHOAL_I8  ? INT8_MIN
                                           : 0;
  const int64_t high = dtype == SHOAL_I64   ? INT64_MAX
                       : dtype == SHOAL_I32 ? INT32_MAX
                       : dtype == SHOAL_U8  ? UINT8_MAX
                       : dtype == SHOAL_I8  ? INT8_MAX
                                            : 1;
  integer = integer < low ? low : integer > high ? high : integer;
  for (int64_t i = 0; i < count; ++i) {
    if (shoal_dtype_is_real(dtype)) {
      shoal_dtype_store(dtype, data, i, identities[reduce].real);
    } else {
      shoal_dtype_store_int(dtype, data, i, integer);
    }
  }
}

double shoal_reduce_reals(shoal_reduce_t reduce, double a, double b) {
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
      if (isnan(a) || isnan(b)) return a + b;  // also beside an infinity
      const double high = a > b ? a : b, low = a > b ? b : a;
      return isinf(high) ? high : high + log1p(exp(low - high));
    }
  }
  return a;
}

int64_t shoal_reduce_integers(shoal_reduce_t reduce, int64_t a, int64_t b) {
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

void shoal_reduce_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, const void *more,
                       void *data) {
  if (reduce == SHOAL_REDUCE_SUM && dtype == SHOAL_F32) {
    const float *b = more;
    float *a = data;
    for (int64_t i = 0; i < count; ++i) a[i] += b[i];
  } else if (shoal_dtype_is_float(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store(dtype, data, i,
                        shoal_reduce_reals(reduce, shoal_dtype_load(dtype, data, i),
                                           shoal_dtype_load(dtype, more, i)));
    }
  } else {
    for (int64_t i = 0; i < count; ++i) {
      shoal_dtype_store_int(dtype, data, i,
                            shoal_reduce_integers(reduce, shoal_dtype_load_int(dtype, data, i),
                                                  shoal_dtype_load_int(dtype, more, i)));
    }
  }
}
