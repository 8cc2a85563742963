// Strided copies. A piece is walked row by row: its innermost dims that are dense on both sides
// make one row, so that most pieces are a few memory copies.
#include "run/strided.h"

#include <string.h>

#include "base/dtype.h"
#include "device/reduce.h"

typedef struct row {
  int64_t count;                   // elements
  int64_t src_stride, dst_stride;  // 1 when dense
} row_t;

typedef void (*row_fn_t)(void *self, const row_t *row, int64_t src, int64_t dst);

int64_t shoal_strided_count(const shoal_piece_t *piece) {
  int64_t count = 1;
  for (int32_t d = 0; d < piece->rank; ++d) count *= piece->size[d];
  return count;
}

static void walk(const shoal_piece_t *piece, row_fn_t fn, void *self) {
  if (shoal_strided_count(piece) == 0) return;
  // Dims [0, outer) are walked, the rest is the row.
  int32_t outer = piece->rank;
  row_t row = {1, 1, 1};
  while (outer > 0 && piece->src_stride[outer - 1] == row.count &&
         piece->dst_stride[outer - 1] == row.count) {
    row.count *= piece->size[--outer];
  }
  if (row.count == 1 && outer > 0) {  // nothing is dense: the last dim is a strided row
    --outer;
    row = (row_t){piece->size[outer], piece->src_stride[outer], piece->dst_stride[outer]};
  }
  int64_t at[SHOAL_MAX_RANK] = {0}, src = piece->src_offset, dst = piece->dst_offset;
  for (;;) {
    fn(self, &row, src, dst);
    int32_t d = outer - 1;
    for (; d >= 0; --d) {
      src += piece->src_stride[d];
      dst += piece->dst_stride[d];
      if (++at[d] < piece->size[d]) break;
      src -= piece->src_stride[d] * piece->size[d];
      dst -= piece->dst_stride[d] * piece->size[d];
      at[d] = 0;
    }
    if (d < 0) return;
  }
}

// ---- copy -----------------------------------------------------------------------------

typedef struct copier {
  size_t element;
  const char *src;
  char *dst;
} copier_t;

static void copy_row(void *self, const row_t *row, int64_t src, int64_t dst) {
  const copier_t *copier = self;
  const size_t element = copier->element;
  const char *from = copier->src + (size_t)src * element;
  char *to = copier->dst + (size_t)dst * element;
  if (row->src_stride == 1 && row->dst_stride == 1) {
    memcpy(to, from, (size_t)row->count * element);
    return;
  }
  const size_t from_step = (size_t)row->src_stride * element;
  const size_t to_step = (size_t)row->dst_stride * element;
  for (int64_t i = 0; i < row->count; ++i, from += from_step, to += to_step) {
    memcpy(to, from, element);
  }
}

static bool stays(const shoal_piece_t *piece) {
  if (piece->src_offset != piece->dst_offset) return false;
  for (int32_t d = 0; d < piece->rank; ++d) {
    if (piece->src_stride[d] != piece->dst_stride[d]) return false;
  }
  return true;
}

void shoal_strided_copy(shoal_dtype_t dtype, int64_t piece_count, const shoal_piece_t *pieces,
                        const void *src, void *dst) {
  copier_t copier = {shoal_dtype_size(dtype), src, dst};
  for (int64_t i = 0; i < piece_count; ++i) {
    if (src == dst && stays(&pieces[i])) continue;
    walk(&pieces[i], copy_row, &copier);
  }
}

// ---- join -----------------------------------------------------------------------------

typedef struct joiner {
  shoal_reduce_t reduce;
  shoal_dtype_t dtype;
  bool accumulate;
  const char *src;
  char *dst;
} joiner_t;

static void join_row(void *self, const row_t *row, int64_t src, int64_t dst) {
  const joiner_t *joiner = self;
  const size_t element = shoal_dtype_size(joiner->dtype);
  shoal_reduce_into(joiner->dtype, joiner->reduce, row->count, joiner->src + (size_t)src * element,
                    row->src_stride, joiner->dst + (size_t)dst * element, row->dst_stride);
}

void shoal_strided_join(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t piece_count,
                        const shoal_piece_t *pieces, const void *src, void *dst) {
  joiner_t joiner = {.reduce = reduce, .dtype = dtype, .src = src, .dst = dst};
  for (int64_t i = 0; i < piece_count; ++i) walk(&pieces[i], join_row, &joiner);
}

static void join_wide_row(void *self, const row_t *row, int64_t src, int64_t dst) {
  const joiner_t *joiner = self;
  float *to = (float *)(void *)joiner->dst + dst;
  for (int64_t i = 0; i < row->count; ++i, to += row->dst_stride) {
    const float value =
        (float)shoal_dtype_load(joiner->dtype, joiner->src, src + i * row->src_stride);
    if (joiner->accumulate) {
      shoal_reduce_into(SHOAL_F32, joiner->reduce, 1, &value, 1, to, 1);
    } else {
      *to = value;
    }
  }
}

void shoal_strided_join_wide(shoal_reduce_t reduce, shoal_dtype_t dtype, bool accumulate,
                             int64_t piece_count, const shoal_piece_t *pieces, const void *src,
                             float *dst) {
  joiner_t joiner = {reduce, dtype, accumulate, src, (char *)dst};
  for (int64_t i = 0; i < piece_count; ++i) walk(&pieces[i], join_wide_row, &joiner);
}
