// Trials: outputs that come in pairs. A value and the logarithms of what it was divided by (an
// attention over some of the keys) are merged together, as shoal.lse_merge does.
#include <math.h>

#include "base/dtype.h"
#include "base/status.h"
#include "rules/trial.h"

int32_t trial_partner(const trial_t *trial, int32_t output) {
  if (trial->output_count != 2) return -1;
  const shoal_type_t *value = &trial->types[trial->input_count], *lse = value + 1;
  if (!shoal_dtype_is_float(value->dtype) || !shoal_dtype_is_float(lse->dtype)) return -1;
  const int32_t rank = value->shape.rank, own = lse->shape.rank;
  if (rank < 1 || (own != rank - 1 && (own != rank || lse->shape.dims[rank - 1] != 1))) return -1;
  for (int32_t d = 0; d < rank - 1; ++d)
    if (value->shape.dims[d] != lse->shape.dims[d]) return -1;
  return 1 - output;
}

static double load(const shoal_tensor_t *tensor, int64_t index) {
  return shoal_dtype_load(tensor->dtype, tensor->data, index);
}

// Merges a row of the parts of both; one of the two is wanted. value, lse: numbers of the operands.
static void merge_row(int64_t part_count, const trial_part_t *parts, int32_t value, int32_t lse,
                      int64_t row, int64_t length, double *out_value, double *out_lse) {
  double most = -INFINITY, sum = 0;
  for (int64_t p = 0; p < part_count; ++p) most = fmax(most, load(&parts[p].tensors[lse], row));
  for (int64_t j = 0; out_value && j < length; ++j) out_value[j] = 0;
  for (int64_t p = 0; p < part_count && most > -INFINITY; ++p) {
    const double w = exp(load(&parts[p].tensors[lse], row) - most);
    sum += w;
    for (int64_t j = 0; out_value && w > 0 && j < length; ++j)
      out_value[j] += w * load(&parts[p].tensors[value], row * length + j);
  }
  for (int64_t j = 0; out_value && sum > 0 && j < length; ++j) out_value[j] /= sum;
  if (out_lse) *out_lse = most > -INFINITY ? most + log(sum) : most;
}

bool trial_pair_joins(trial_t *trial, int32_t output, const deal_t *deal, const trial_part_t *parts,
                      shoal_arena_t *arena) {
  const int32_t value = trial->input_count, lse = value + 1, partner = trial_partner(trial, output);
  const shoal_tensor_t *whole = trial_whole(trial, value + output);
  if (partner < 0) return false;
  for (int64_t p = 0; p < deal->parts; ++p) {
    const shoal_shape_t *other = &parts[p].tensors[value + partner].shape;
    if (!shoal_shape_equal(other, &trial->types[value + partner].shape)) return false;
  }
  const int64_t count = shoal_shape_count(&whole->shape);
  const shoal_shape_t *shape = &trial->types[value].shape;
  const int64_t length = shape->dims[shape->rank - 1];
  const int64_t rows = shoal_shape_count(&trial->types[lse].shape);
  double *row = SHOAL_NEW(arena, double, length);
  void *joined = shoal_arena_alloc(arena, (size_t)count, shoal_dtype_size(whole->dtype));
  if (!trial_allocated(trial, row) || !trial_allocated(trial, joined)) return false;
  for (int64_t r = 0; r < rows; ++r) {
    double log_sum = 0;
    merge_row(deal->parts, parts, value, lse, r, length, output == 0 ? row : NULL,
              output == 0 ? NULL : &log_sum);
    if (output == 1) shoal_dtype_store(whole->dtype, joined, r, log_sum);
    for (int64_t j = 0; output == 0 && j < length; ++j)
      shoal_dtype_store(whole->dtype, joined, r * length + j, row[j]);
  }
  return trial_same(trial, output, joined, whole->data, count);
}
