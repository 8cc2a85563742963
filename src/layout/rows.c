// Walking a piece row by row: its innermost dims that are dense on both sides make one row, so that
// most pieces are a few memory copies.
#include "layout/motion.h"

int64_t shoal_piece_count(const shoal_piece_t *piece) {
  int64_t count = 1;
  for (int32_t d = 0; d < piece->rank; ++d) count *= piece->size[d];
  return count;
}

void shoal_piece_rows(const shoal_piece_t *piece, shoal_row_fn_t fn, void *self) {
  if (shoal_piece_count(piece) == 0) return;
  int32_t outer = piece->rank;  // dims [0, outer) are walked, the rest is the row
  int64_t count = 1, src_stride = 1, dst_stride = 1;
  while (outer > 0 && piece->src_stride[outer - 1] == count &&
         piece->dst_stride[outer - 1] == count) {
    count *= piece->size[--outer];
  }
  if (count == 1 && outer > 0) {  // nothing is dense: the last dim is a strided row
    --outer;
    count = piece->size[outer];
    src_stride = piece->src_stride[outer];
    dst_stride = piece->dst_stride[outer];
  }
  int64_t at[SHOAL_MAX_RANK] = {0}, src = piece->src_offset, dst = piece->dst_offset;
  for (;;) {
    fn(self, src, dst, count, src_stride, dst_stride);
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
