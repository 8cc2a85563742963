// Trials: the parts of an output against the whole.
//
// Floats are equal up to a tolerance that is relative to the largest magnitude of the whole output;
// infinities and NaN must be the same on both sides; integers are equal. Elements of a part are
// compared as soon as it was executed, so that a wrong candidate costs one part; only partial
// outputs have to wait for the last one.
#include <math.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "op/reduce.h"
#include "rules/trial.h"

static double tolerance(shoal_dtype_t dtype) {
  switch (dtype) {
    case SHOAL_F64:
      return 1e-9;
    case SHOAL_F32:
      return 1e-4;
    case SHOAL_F16:
      return 16 * 0x1p-10;
    case SHOAL_BF16:
      return 8 * 0x1p-7;
    default:
      return 0;
  }
}

double trial_largest(const shoal_tensor_t *tensor) {
  double largest = 1e-6;
  for (int64_t i = 0; i < shoal_shape_count(&tensor->shape); ++i) {
    double value = fabs(shoal_dtype_load(tensor->dtype, tensor->data, i));
    if (isfinite(value) && value > largest) largest = value;
  }
  return largest;
}

// Not finite, or too far apart.
static bool same_double(double a, double b, double limit) {
  if (fabs(a - b) <= limit) return true;
  return isnan(b) ? isnan(a) : a == b;  // infinities
}

bool trial_same(const trial_t *trial, int32_t output, const void *made, const void *expected,
                int64_t count) {
  const shoal_dtype_t dtype = trial->types[trial->input_count + output].dtype;
  const double limit = tolerance(dtype) * trial->largest[trial->set][output];
  if (dtype == SHOAL_F64) {
    const double *a = made, *b = expected;
    for (int64_t i = 0; i < count; ++i) {
      if (!same_double(a[i], b[i], limit)) return false;
    }
  } else if (shoal_dtype_is_float(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      double a = shoal_dtype_load(dtype, made, i), b = shoal_dtype_load(dtype, expected, i);
      if (!same_double(a, b, limit)) return false;
    }
  } else {
    return memcmp(made, expected, (size_t)count * shoal_dtype_size(dtype)) == 0;
  }
  return true;
}

// ---- one part ----------------------------------------------------------------------------------

bool trial_part_holds(trial_t *trial, const shoal_way_t *way, int32_t output,
                      const shoal_way_operand_t *form, const deal_t *deal, int64_t index,
                      const trial_part_t *part, shoal_arena_t *arena) {
  const int32_t operand = trial->input_count + output;
  const shoal_tensor_t *whole = trial_whole(trial, operand), *made = &part->tensors[operand];
  if (form->kind == SHOAL_OPERAND_PARTIAL) return shoal_shape_equal(&made->shape, &whole->shape);
  if (form->kind == SHOAL_OPERAND_WHOLE) {
    return shoal_shape_equal(&made->shape, &whole->shape) &&
           trial_same(trial, output, made->data, whole->data, shoal_shape_count(&whole->shape));
  }
  const shoal_boxes_t *boxes = trial_boxes(trial, way, operand, form, deal, index, arena);
  if (!boxes) return false;
  shoal_shape_t shape = shoal_boxes_shape(boxes);
  if (!shoal_shape_equal(&shape, &made->shape)) return false;
  const int64_t count = shoal_shape_count(&shape);
  if (count == 0) return true;
  void *expected = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(whole->dtype));
  return trial_allocated(trial, expected) &&
         trial_passed(trial, shoal_boxes_pack(boxes, shoal_dtype_size(whole->dtype), whole->data,
                                              expected)) &&
         trial_same(trial, output, made->data, expected, count);
}

// ---- all parts ---------------------------------------------------------------------------------

// joined[i] = joined[i] with part[i]; the loops that nearly all trials are made of have no switch
// inside.
static void join_doubles(shoal_reduce_t reduce, int64_t count, const double *part, double *joined) {
  switch (reduce) {
    case SHOAL_REDUCE_SUM:
      for (int64_t i = 0; i < count; ++i) joined[i] += part[i];
      return;
    case SHOAL_REDUCE_PROD:
      for (int64_t i = 0; i < count; ++i) joined[i] *= part[i];
      return;
    case SHOAL_REDUCE_MAX:  // a NaN stays, wherever it was
      for (int64_t i = 0; i < count; ++i) {
        joined[i] = part[i] <= joined[i] || joined[i] != joined[i] ? joined[i] : part[i];
      }
      return;
    case SHOAL_REDUCE_MIN:
      for (int64_t i = 0; i < count; ++i) {
        joined[i] = part[i] >= joined[i] || joined[i] != joined[i] ? joined[i] : part[i];
      }
      return;
    case SHOAL_REDUCE_LSE:
      for (int64_t i = 0; i < count; ++i) {
        joined[i] = shoal_reduce_reals(reduce, joined[i], part[i]);
      }
  }
}

static bool partial_joins(trial_t *trial, int32_t output, shoal_reduce_t reduce, const deal_t *deal,
                          const trial_part_t *parts, shoal_arena_t *arena) {
  const int32_t operand = trial->input_count + output;
  const shoal_tensor_t *whole = trial_whole(trial, operand);
  const shoal_dtype_t dtype = whole->dtype;
  if (dtype == SHOAL_BOOL && reduce == SHOAL_REDUCE_SUM) return false;  // a bool has no sum
  if (shoal_dtype_is_storage(dtype)) return false;                      // i8 and f8 are not joined
  int64_t count = shoal_shape_count(&whole->shape);
  void *joined = shoal_arena_copy(arena, parts[0].tensors[operand].data, (size_t)count,
                                  shoal_dtype_size(dtype));
  if (!trial_allocated(trial, joined)) return false;
  for (int64_t p = 1; p < deal->parts; ++p) {
    const void *part = parts[p].tensors[operand].data;
    if (dtype == SHOAL_F64)
      join_doubles(reduce, count, part, joined);
    else
      shoal_reduce_join(dtype, reduce, count, part, joined);
  }
  return trial_same(trial, output, joined, whole->data, count);
}

static int64_t owned_count(const shoal_boxes_t *boxes) {
  if (boxes->flat) return boxes->to - boxes->from;
  int64_t count = 1;
  for (int32_t d = 0; d < boxes->whole.rank; ++d) count *= boxes->dims[d].own_size;
  return count;
}

bool trial_parts_join(trial_t *trial, const shoal_way_t *way, int32_t output,
                      const shoal_way_operand_t *form, const deal_t *deal,
                      const trial_part_t *parts, shoal_arena_t *arena) {
  const int32_t operand = trial->input_count + output;
  if (form->kind == SHOAL_OPERAND_WHOLE) return true;
  if (form->kind == SHOAL_OPERAND_PARTIAL && form->reduce == SHOAL_REDUCE_LSE) {
    return trial_pair_joins(trial, output, deal, parts, arena);
  }
  if (form->kind == SHOAL_OPERAND_PARTIAL) {
    return partial_joins(trial, output, form->reduce, deal, parts, arena);
  }
  int64_t owned = 0;
  for (int64_t p = 0; p < deal->parts; ++p) {
    const shoal_boxes_t *boxes = trial_boxes(trial, way, operand, form, deal, p, arena);
    if (!boxes) return false;
    owned += owned_count(boxes);
  }
  return owned == shoal_shape_count(&trial->types[operand].shape);
}
