// Element type and shape together.
#include "op/type.h"

#include <stdio.h>

#include "base/dtype.h"
#include "base/status.h"

shoal_status_t shoal_type_check(const shoal_type_t *type) {
  if ((unsigned)type->dtype >= SHOAL_DTYPE_COUNT) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "unknown element type (%d)", (int)type->dtype);
  }
  if (type->shape.rank < 0 || type->shape.rank > SHOAL_MAX_RANK) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a tensor has 0 to %d dims, not %d", SHOAL_MAX_RANK,
                       (int)type->shape.rank);
  }
  int64_t bytes = 64;  // more than an element has
  for (int32_t d = 0; d < type->shape.rank; ++d) {
    int64_t length = type->shape.dims[d];
    if (length < 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "dim %d is negative (%lld)", (int)d, (long long)length);
    }
    // an empty dim does not excuse the others: strides must not overflow either
    if (__builtin_mul_overflow(bytes, length ? length : 1, &bytes)) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "dim %d is %lld: the tensor's size does not fit 64 bits",
                         (int)d, (long long)length);
    }
  }
  return NULL;
}

int64_t shoal_type_bytes(const shoal_type_t *type) {
  return shoal_shape_count(&type->shape) * (int64_t)shoal_dtype_size(type->dtype);
}

bool shoal_type_equal(const shoal_type_t *a, const shoal_type_t *b) {
  return a->dtype == b->dtype && shoal_shape_equal(&a->shape, &b->shape);
}

const char *shoal_type_format(const shoal_type_t *type, char *buffer, size_t capacity) {
  int length = snprintf(buffer, capacity, "%s", shoal_dtype_name(type->dtype));
  if (length > 0 && (size_t)length < capacity) {
    shoal_shape_format(&type->shape, buffer + length, capacity - (size_t)length);
  }
  return buffer;
}
