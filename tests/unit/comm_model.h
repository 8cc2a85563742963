// What collectives compute, by a serial model, and the buffers it is compared with. Each rank has
// different data.
#ifndef SHOAL_TESTS_UNIT_COMM_MODEL_H_
#define SHOAL_TESTS_UNIT_COMM_MODEL_H_

#include <math.h>
#include <stdlib.h>

#include "base/dtype.h"
#include "base/hash.h"
#include "comm/comm_impl.h"
#include "comm_ranks.h"
#include "op/reduce.h"

// Element i of what `rank` contributes to test `salt`. Floats need all their bits, so that a wrong
// order of summation shows.
static void fill(shoal_dtype_t dtype, int32_t rank, int64_t salt, int64_t count, void *data) {
  const uint64_t start = shoal_hash_int(shoal_hash_int(SHOAL_HASH_START, rank), salt);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t hash = shoal_hash_int(start, i);
    hash ^= hash >> 29;
    if (shoal_dtype_is_float(dtype)) {
      shoal_dtype_store(dtype, data, i, 0.75 + (double)(hash % 100003) / 100003.0);
    } else {
      shoal_dtype_store_int(dtype, data, i, (int64_t)(hash % 200) - (dtype == SHOAL_U8 ? 0 : 100));
    }
  }
}

// Ranks' elements joined in order: floats of 2 and 4 bytes in f32, rounded at the end.
static void model_reduce(shoal_dtype_t dtype, shoal_reduce_t reduce, int32_t n,
                         const int32_t *ranks, int64_t salt, int64_t count, void *out) {
  uint8_t *one = out;
  int64_t element = (int64_t)shoal_dtype_size(dtype);
  double *sums = malloc((size_t)(count + 1) * sizeof *sums);
  void *data = malloc((size_t)(count * element + 1));
  for (int32_t r = 0; r < n; ++r) {
    fill(dtype, ranks[r], salt, count, data);
    for (int64_t i = 0; i < count; ++i) {
      if (!shoal_dtype_is_float(dtype)) {
        if (r == 0) shoal_dtype_store_int(dtype, one, i, shoal_dtype_load_int(dtype, data, i));
        if (r > 0) {
          shoal_reduce_join(dtype, reduce, 1, (uint8_t *)data + i * element, one + i * element);
        }
        continue;
      }
      double a = sums[i], b = shoal_dtype_load(dtype, data, i), c = 0;
      if (r == 0)
        c = b;
      else if (reduce == SHOAL_REDUCE_SUM)
        c = a + b;
      else if (reduce == SHOAL_REDUCE_PROD)
        c = a * b;
      else if (reduce == SHOAL_REDUCE_MAX)
        c = a > b ? a : b;
      else
        c = a < b ? a : b;
      sums[i] = dtype == SHOAL_F64 ? c : (double)(float)c;
      shoal_dtype_store(dtype, out, i, sums[i]);
    }
  }
  free(data);
  free(sums);
}

// Buffers of a rank's case
// --------------------------------------------------------------------------------

#define CAPACITY 4000  // elements
typedef struct buffers {
  double send[CAPACITY], recv[CAPACITY], want[CAPACITY];
} buffers_t;

static const shoal_dtype_t dtypes[] = {SHOAL_F64, SHOAL_F32, SHOAL_BF16, SHOAL_F16,
                                       SHOAL_I64, SHOAL_I32, SHOAL_U8,   SHOAL_BOOL};
static const shoal_reduce_t reduces[] = {SHOAL_REDUCE_SUM, SHOAL_REDUCE_MAX, SHOAL_REDUCE_MIN,
                                         SHOAL_REDUCE_PROD};
static const int64_t sizes[] = {0, 1, 5, 1100};

// Counts per group rank: uneven, with zeros, by pattern.
static int64_t count_of(int pattern, int32_t i) {
  switch (pattern) {
    case 0:
      return 0;
    case 1:
      return 3;
    case 2:
      return (i * 7 + 2) % 5;  // 2 4 1 3 0 ...
    case 3:
      return i == 0 ? 0 : i * 31;
    default:
      return i % 2 ? 17 : 400;
  }
}
#define PATTERNS 5

static shoal_status_t compare(const buffers_t *b, shoal_dtype_t dtype, int64_t count) {
  const size_t element = shoal_dtype_size(dtype);
  for (int64_t i = 0; i < count; ++i) {
    if (memcmp((const uint8_t *)b->recv + (size_t)i * element,
               (const uint8_t *)b->want + (size_t)i * element, element) != 0) {
      return SHOAL_ERROR(MISMATCH, "element %lld of %lld %s is %.17g, not %.17g", (long long)i,
                         (long long)count, shoal_dtype_name(dtype),
                         shoal_dtype_load(dtype, b->recv, i), shoal_dtype_load(dtype, b->want, i));
    }
  }
  return NULL;
}

#endif  // SHOAL_TESTS_UNIT_COMM_MODEL_H_
