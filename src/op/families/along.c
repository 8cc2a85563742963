// What ops share that read and write by index.
#include "op/families/along.h"

shoal_status_t shoal_check_replaced(const shoal_call_t *call, const shoal_shape_t *shape,
                                    int32_t axis, const shoal_shape_t *ids,
                                    shoal_shape_t *out_shape) {
  REQUIRE(call, shape->rank - 1 + ids->rank <= SHOAL_MAX_RANK,
          "the result would have %d dims, more than %d", shape->rank - 1 + ids->rank,
          SHOAL_MAX_RANK);
  shoal_shape_t made = {0};
  for (int32_t d = 0; d < axis; ++d) made.dims[made.rank++] = shape->dims[d];
  for (int32_t d = 0; d < ids->rank; ++d) made.dims[made.rank++] = ids->dims[d];
  for (int32_t d = axis + 1; d < shape->rank; ++d) made.dims[made.rank++] = shape->dims[d];
  *out_shape = made;
  return NULL;
}

shoal_status_t shoal_check_along(const shoal_call_t *call, int32_t ids, const shoal_shape_t *shape,
                                 int32_t axis) {
  const shoal_shape_t *mine = &call->inputs[ids].shape;
  const char *name = call->op->inputs[ids];
  REQUIRE_HINT(call, mine->rank == shape->rank, "to index whole rows, use shoal_gather",
               "%s must have %d dims, not %d", name, shape->rank, mine->rank);
  for (int32_t d = 0; d < shape->rank; ++d) {
    REQUIRE(call, d == axis || mine->dims[d] == shape->dims[d],
            "%s must have %lld elements along dim %d, not %lld", name, (long long)shape->dims[d], d,
            (long long)mine->dims[d]);
  }
  return NULL;
}

shoal_status_t shoal_check_dims(const shoal_call_t *call, int32_t attr, const shoal_shape_t *shape,
                                shoal_place_t *out_place) {
  SHOAL_RETURN_IF_ERROR(shoal_check_place(call, attr, shape, out_place));
  REQUIRE(call, !out_place->flat, "a flat part has no dims");
  return NULL;
}

shoal_status_t shoal_check_number(const shoal_call_t *call, int32_t input) {
  const shoal_dtype_t dtype = call->inputs[input].dtype;
  REQUIRE_HINT(call, shoal_dtype_is_float(dtype) || shoal_is_integer(dtype),
               "cast it first (shoal_cast)", "%s must be numbers, not %s", call->op->inputs[input],
               shoal_dtype_name(dtype));
  return NULL;
}

#define ADD(type)                                               \
  do {                                                          \
    const type *restrict a = (const type *)x + from;            \
    type *restrict b = (type *)out + to;                        \
    for (int64_t i = 0; i < n; ++i) b[i] = (type)(b[i] + a[i]); \
  } while (0)

void shoal_add_run(shoal_dtype_t dtype, const void *x, int64_t from, void *out, int64_t to,
                   int64_t n) {
  switch (dtype) {
    case SHOAL_F64:
      ADD(double);
      break;
    case SHOAL_F32:
      ADD(float);
      break;
    case SHOAL_I64:
      ADD(uint64_t);
      break;
    case SHOAL_I32:
      ADD(uint32_t);
      break;
    case SHOAL_U8:
      ADD(uint8_t);
      break;
    default:
      break;
  }
}

void shoal_copy_run(size_t element, const void *x, int64_t from, void *out, int64_t to, int64_t n) {
  if (n == 0) return;
  char *target = (char *)out + (size_t)to * element;
  if (from < 0) {
    memset(target, 0, (size_t)n * element);
  } else {
    memcpy(target, (const char *)x + (size_t)from * element, (size_t)n * element);
  }
}
