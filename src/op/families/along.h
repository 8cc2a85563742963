// A tensor seen around one of its dims, and rows that are added up: what ops share that read and
// write by index.
#ifndef SHOAL_OP_ALONG_H_
#define SHOAL_OP_ALONG_H_

#include "op/families/family.h"
#include "op/families/kernel.h"

// [outer, size, inner]
typedef struct shoal_along {
  int64_t outer, size, inner;
} shoal_along_t;

static inline shoal_along_t shoal_along_of(const shoal_shape_t *shape, int32_t axis) {
  return (shoal_along_t){.outer = shoal_shape_product(shape, 0, axis),
                         .size = shape->dims[axis],
                         .inner = shoal_shape_product(shape, axis + 1, shape->rank)};
}

// The shape with the dims of `ids` in the place of dim `axis`; refuses too many dims.
SHOAL_MUST_USE shoal_status_t shoal_check_replaced(const shoal_call_t *call,
                                                   const shoal_shape_t *shape, int32_t axis,
                                                   const shoal_shape_t *ids,
                                                   shoal_shape_t *out_shape);
// Input `ids` has the shape of `shape`, but for dim `axis`.
SHOAL_MUST_USE shoal_status_t shoal_check_along(const shoal_call_t *call, int32_t ids,
                                                const shoal_shape_t *shape, int32_t axis);
// The place of an operand that has to have dims: flat parts are refused.
SHOAL_MUST_USE shoal_status_t shoal_check_dims(const shoal_call_t *call, int32_t attr,
                                               const shoal_shape_t *shape,
                                               shoal_place_t *out_place);
// An operand that can be added up: any number but bool.
SHOAL_MUST_USE shoal_status_t shoal_check_number(const shoal_call_t *call, int32_t input);

// out[to ..] += x[from ..], n elements of f64, f32 or integers, which wrap.
void shoal_add_run(shoal_dtype_t dtype, const void *x, int64_t from, void *out, int64_t to,
                   int64_t n);
// out[to ..] = x[from ..]; from < 0: zeros.
void shoal_copy_run(size_t element, const void *x, int64_t from, void *out, int64_t to, int64_t n);

#endif  // SHOAL_OP_ALONG_H_
