// Strided copies and sums on host memory, row by row.
#include <string.h>

#include "base/dtype.h"
#include "device/reduce.h"
#include "primitive/carrier.h"

typedef struct copier {
  shoal_dtype_t dtype;
  shoal_reduce_t reduce;
  bool add;
  size_t element;
  const char *src;
  char *dst;
} copier_t;

// ---- copy and zero --------------------------------------------------------------------

static void copy_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  const copier_t *copier = self;
  const size_t element = copier->element;
  const char *from = copier->src + (size_t)src * element;
  char *to = copier->dst + (size_t)dst * element;
  if (src_stride == 1 && dst_stride == 1) {
    memcpy(to, from, (size_t)count * element);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    memcpy(to, from, element);
    from += (size_t)src_stride * element;
    to += (size_t)dst_stride * element;
  }
}

bool shoal_piece_stays(const shoal_piece_t *piece) {
  if (piece->src_offset != piece->dst_offset) return false;
  for (int32_t d = 0; d < piece->rank; ++d) {
    if (piece->src_stride[d] != piece->dst_stride[d]) return false;
  }
  return true;
}

void shoal_pieces_copy(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces,
                       const void *src, void *dst) {
  copier_t copier = {.element = shoal_dtype_size(dtype), .src = src, .dst = dst};
  for (int64_t i = 0; i < count; ++i) {
    if (src == dst && shoal_piece_stays(&pieces[i])) continue;
    shoal_piece_rows(&pieces[i], copy_row, &copier);
  }
}

static void zero_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  (void)src, (void)src_stride;
  const copier_t *copier = self;
  const size_t element = copier->element;
  if (dst_stride == 1) {
    memset(copier->dst + (size_t)dst * element, 0, (size_t)count * element);
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    memset(copier->dst + (size_t)(dst + i * dst_stride) * element, 0, element);
  }
}

void shoal_pieces_zero(shoal_dtype_t dtype, int64_t count, const shoal_piece_t *pieces, void *dst) {
  copier_t copier = {.element = shoal_dtype_size(dtype), .dst = dst};
  for (int64_t i = 0; i < count; ++i) shoal_piece_rows(&pieces[i], zero_row, &copier);
}

// ---- join -----------------------------------------------------------------------------

static void join_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  const copier_t *copier = self;
  shoal_reduce_into(copier->dtype, copier->reduce, count,
                    copier->src + (size_t)src * copier->element, src_stride,
                    copier->dst + (size_t)dst * copier->element, dst_stride);
}

void shoal_pieces_join(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count,
                       const shoal_piece_t *pieces, const void *src, void *dst) {
  copier_t copier = {.dtype = dtype, .reduce = reduce, .element = shoal_dtype_size(dtype)};
  copier.src = src;
  copier.dst = dst;
  for (int64_t i = 0; i < count; ++i) shoal_piece_rows(&pieces[i], join_row, &copier);
}

enum { BLOCK = 256 };  // elements widened at a time

static void widen_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                      int64_t dst_stride) {
  const copier_t *copier = self;
  const uint16_t *from = (const uint16_t *)(const void *)copier->src + src;
  float *to = (float *)(void *)copier->dst + dst, block[BLOCK];
  for (int64_t done = 0; done < count; done += BLOCK) {
    const int64_t size = count - done < BLOCK ? count - done : BLOCK;
    if (copier->dtype == SHOAL_BF16) {
      for (int64_t i = 0; i < size; ++i) block[i] = shoal_bf16_to_f32(from[i * src_stride]);
    } else {
      for (int64_t i = 0; i < size; ++i) block[i] = shoal_f16_to_f32(from[i * src_stride]);
    }
    if (copier->add) {
      shoal_reduce_into(SHOAL_F32, copier->reduce, size, block, 1, to, dst_stride);
    } else {
      for (int64_t i = 0; i < size; ++i) to[i * dst_stride] = block[i];
    }
    from += size * src_stride;
    to += size * dst_stride;
  }
}

void shoal_pieces_widen(shoal_dtype_t dtype, shoal_reduce_t reduce, bool add, int64_t count,
                        const shoal_piece_t *pieces, const void *src, float *dst) {
  copier_t copier = {.dtype = dtype, .reduce = reduce, .add = add, .src = src, .dst = (char *)dst};
  for (int64_t i = 0; i < count; ++i) shoal_piece_rows(&pieces[i], widen_row, &copier);
}
