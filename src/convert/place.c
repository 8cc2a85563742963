// Where a tensor of theirs lies in a state of ours (shoal_zoo_name_t): a part along one dim,
// perhaps without that dim, perhaps with the last two dims swapped. Both directions read the same
// view, so that each undoes the other.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "convert/convert_impl.h"

shoal_status_t shoal_convert_place(const shoal_zoo_name_t *entry, const shoal_shape_t *ours,
                                   shoal_convert_view_t *out_view) {
  int64_t dims[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK], stride = 1;
  int32_t rank = ours->rank;
  for (int32_t d = rank - 1; d >= 0; --d) {
    dims[d] = ours->dims[d];
    strides[d] = stride;
    stride *= dims[d];
  }
  *out_view = (shoal_convert_view_t){0};
  const int32_t axis = entry->axis;
  if (entry->size > 0) {
    if (axis < 0 || axis >= rank || entry->from < 0 || entry->from > dims[axis] - entry->size) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' is no part of '%s' along dim %d", entry->theirs,
                         entry->ours, axis);
    }
    out_view->offset = entry->from * strides[axis];
    dims[axis] = entry->size;
  }
  if (entry->dropped) {
    if (axis < 0 || axis >= rank || dims[axis] != 1) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' keeps dim %d of '%s': it is not 1", entry->theirs,
                         axis, entry->ours);
    }
    memmove(&dims[axis], &dims[axis + 1], (size_t)(rank - axis - 1) * sizeof *dims);
    memmove(&strides[axis], &strides[axis + 1], (size_t)(rank - axis - 1) * sizeof *strides);
    --rank;
  }
  if (entry->transposed) {
    if (rank < 2) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "'%s' cannot be '%s' transposed: it is no matrix",
                         entry->theirs, entry->ours);
    }
    const int64_t dim = dims[rank - 1], step = strides[rank - 1];
    dims[rank - 1] = dims[rank - 2], strides[rank - 1] = strides[rank - 2];
    dims[rank - 2] = dim, strides[rank - 2] = step;
  }
  out_view->shape.rank = rank;
  for (int32_t d = 0; d < rank; ++d) {
    out_view->shape.dims[d] = dims[d];
    out_view->strides[d] = strides[d];
  }
  return NULL;
}

// One element, by number.
static void move(shoal_dtype_t from_dtype, const char *from, int64_t source, shoal_dtype_t to_dtype,
                 char *to, int64_t target) {
  if (from_dtype == to_dtype) {
    const size_t size = shoal_dtype_size(to_dtype);
    memcpy(to + (size_t)target * size, from + (size_t)source * size, size);
  } else {
    shoal_dtype_store(to_dtype, to, target, shoal_dtype_load(from_dtype, from, source));
  }
}

void shoal_convert_copy(const shoal_convert_view_t *view, bool back, shoal_dtype_t from_dtype,
                        const void *from, shoal_dtype_t to_dtype, void *to) {
  const int64_t count = shoal_shape_count(&view->shape);
  int32_t rank = view->shape.rank;
  int64_t at[SHOAL_MAX_RANK] = {0}, ours = view->offset, run = 1;
  // Rows that lie together in both are moved at once.
  if (from_dtype == to_dtype && rank > 0 && view->strides[rank - 1] == 1) {
    run = view->shape.dims[--rank];
  }
  const size_t size = shoal_dtype_size(to_dtype);
  for (int64_t theirs = 0; theirs < count; theirs += run) {
    const int64_t source = back ? ours : theirs, target = back ? theirs : ours;
    if (run > 1) {
      memcpy((char *)to + (size_t)target * size, (const char *)from + (size_t)source * size,
             (size_t)run * size);
    } else {
      move(from_dtype, from, source, to_dtype, to, target);
    }
    for (int32_t d = rank - 1; d >= 0; --d) {
      ours += view->strides[d];
      if (++at[d] < view->shape.dims[d]) break;
      ours -= at[d] * view->strides[d];
      at[d] = 0;
    }
  }
}
