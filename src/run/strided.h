// Strided copies on host memory: what a reshard does between a rank's part and its messages.
// Pieces count in elements; empty pieces are allowed. Nothing here allocates.
#ifndef SHOAL_RUN_STRIDED_H_
#define SHOAL_RUN_STRIDED_H_

#include "shoal/layout.h"

int64_t shoal_strided_count(const shoal_piece_t *piece);  // elements

// dst = src. Pieces that do not move (same memory, same place) are left alone.
void shoal_strided_copy(shoal_dtype_t dtype, int64_t piece_count, const shoal_piece_t *pieces,
                        const void *src, void *dst);
// dst = dst joined with src, rounded to the dtype.
void shoal_strided_join(shoal_reduce_t reduce, shoal_dtype_t dtype, int64_t piece_count,
                        const shoal_piece_t *pieces, const void *src, void *dst);
// The same from bf16 or f16 into f32, so that a chain of joins rounds once, at the end.
void shoal_strided_join_wide(shoal_reduce_t reduce, shoal_dtype_t dtype, bool accumulate,
                             int64_t piece_count, const shoal_piece_t *pieces, const void *src,
                             float *dst);

#endif  // SHOAL_RUN_STRIDED_H_
