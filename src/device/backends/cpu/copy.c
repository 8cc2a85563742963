// Copies and fills of the CPU device: where their bytes are is found once, then they run.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/backends/cpu/cpu.h"
#include "device/reduce.h"
#include "layout/motion.h"

// ---- copies -------------------------------------------------------------------------

// One side of a block: all that it spans. Offsets of the piece count from `low`.
typedef struct side {
  shoal_cpu_place_t place;
  int64_t low;  // elements
} side_t;

typedef struct block {
  const shoal_piece_t *piece;
  side_t src, dst;
} block_t;

struct shoal_prepared_copy {
  shoal_cpu_predicate_t predicate;
  int64_t block_count;  // empty pieces have none
  block_t *blocks;
};

static shoal_status_t find_side(shoal_cpu_device_t *device, const shoal_piece_t *piece,
                                shoal_address_t base, int64_t offset, const int64_t *strides,
                                int64_t element, const char *what, side_t *out_side) {
  int64_t low = offset, high = offset;
  for (int32_t d = 0; d < piece->rank; ++d) {
    const int64_t reach = (piece->size[d] - 1) * strides[d];
    *(reach < 0 ? &low : &high) += reach;
  }
  out_side->low = low;
  return shoal_cpu_find(device, base + (uint64_t)(low * element), (high - low + 1) * element, what,
                        &out_side->place);
}

static int64_t src_element(const shoal_copy_t *copy) {
  return (int64_t)(copy->narrow ? sizeof(float) : shoal_dtype_size(copy->dtype));
}

static int64_t dst_element(const shoal_copy_t *copy) {
  return (int64_t)(copy->widen ? sizeof(float) : shoal_dtype_size(copy->dtype));
}

static bool is_empty(const shoal_piece_t *piece) {
  for (int32_t d = 0; d < piece->rank; ++d) {
    if (piece->size[d] <= 0) return true;
  }
  return false;
}

shoal_status_t shoal_cpu_prepare_copy(shoal_device_t *base, const shoal_copy_t *copy,
                                      shoal_arena_t *arena,
                                      const shoal_prepared_copy_t **out_prepared) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  shoal_prepared_copy_t *prepared = SHOAL_NEW(arena, shoal_prepared_copy_t, 1);
  block_t *blocks = SHOAL_NEW(arena, block_t, copy->piece_count);
  if (!prepared || !blocks) return SHOAL_OOM();
  prepared->blocks = blocks;
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find_predicate(device, copy->predicate, &prepared->predicate));
  for (int64_t i = 0; i < copy->piece_count; ++i) {
    const shoal_piece_t *piece = &copy->pieces[i];
    if (is_empty(piece)) continue;
    block_t *block = &blocks[prepared->block_count++];
    block->piece = piece;
    if (copy->src) {
      SHOAL_RETURN_IF_ERROR(find_side(device, piece, copy->src, piece->src_offset,
                                      piece->src_stride, src_element(copy), "source of a copy",
                                      &block->src));
    }
    SHOAL_RETURN_IF_ERROR(find_side(device, piece, copy->dst, piece->dst_offset, piece->dst_stride,
                                    dst_element(copy), "destination of a copy", &block->dst));
  }
  *out_prepared = prepared;
  return NULL;
}

typedef struct copier {
  const shoal_copy_t *copy;
  const block_t *block;
} copier_t;

static const void *src_at(const copier_t *copier, int64_t offset) {
  const side_t *side = &copier->block->src;
  return (const uint8_t *)side->place.data + (offset - side->low) * src_element(copier->copy);
}

static void *dst_at(const copier_t *copier, int64_t offset) {
  const side_t *side = &copier->block->dst;
  return (uint8_t *)side->place.data + (offset - side->low) * dst_element(copier->copy);
}

// Without a source.
static void identity_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                         int64_t dst_stride) {
  (void)src, (void)src_stride;
  const shoal_copy_t *copy = ((const copier_t *)self)->copy;
  const int64_t step = dst_stride == 1 ? count : 1;
  for (int64_t i = 0; i < count; i += step) {
    shoal_reduce_fill(copy->dtype, copy->reduce, step, dst_at(self, dst + i * dst_stride));
  }
}

// One side is bf16 or f16, the other f32: some elements at a time.
static void widen_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                      int64_t dst_stride) {
  enum { BLOCK = 256 };
  const shoal_copy_t *copy = ((const copier_t *)self)->copy;
  const bool bf16 = copy->dtype == SHOAL_BF16;
  float block[BLOCK];
  for (int64_t done = 0; done < count; done += BLOCK) {
    const int64_t size = count - done < BLOCK ? count - done : BLOCK;
    const uint16_t *from = src_at(self, src + done * src_stride);
    float *to = dst_at(self, dst + done * dst_stride);
    for (int64_t i = 0; i < size; ++i) {
      const uint16_t half = from[i * src_stride];
      block[i] = bf16 ? shoal_bf16_to_f32(half) : shoal_f16_to_f32(half);
    }
    if (copy->accumulate) {
      shoal_reduce_into(SHOAL_F32, copy->reduce, size, block, 1, to, dst_stride);
    } else {
      for (int64_t i = 0; i < size; ++i) to[i * dst_stride] = block[i];
    }
  }
}

static void narrow_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                       int64_t dst_stride) {
  const bool bf16 = ((const copier_t *)self)->copy->dtype == SHOAL_BF16;
  const float *from = src_at(self, src);
  uint16_t *to = dst_at(self, dst);
  for (int64_t i = 0; i < count; ++i) {
    const float value = from[i * src_stride];
    to[i * dst_stride] = bf16 ? shoal_f32_to_bf16(value) : shoal_f32_to_f16(value);
  }
}

static void copy_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  const shoal_copy_t *copy = ((const copier_t *)self)->copy;
  const int64_t element = dst_element(copy);
  const uint8_t *from = src_at(self, src);
  uint8_t *to = dst_at(self, dst);
  if (copy->accumulate) {
    shoal_reduce_into(copy->dtype, copy->reduce, count, from, src_stride, to, dst_stride);
  } else if (src_stride == 1 && dst_stride == 1) {
    memmove(to, from, (size_t)(count * element));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      memmove(to + i * dst_stride * element, from + i * src_stride * element, (size_t)element);
    }
  }
}

void shoal_cpu_copy(const shoal_copy_t *copy, const shoal_prepared_copy_t *prepared) {
  if (!shoal_cpu_enabled(&prepared->predicate)) return;
  for (int64_t i = 0; i < prepared->block_count; ++i) {
    const block_t *block = &prepared->blocks[i];
    shoal_cpu_mark(&block->src.place);  // without a source there is nothing to mark
    shoal_cpu_mark(&block->dst.place);
    copier_t copier = {copy, block};
    shoal_piece_rows(block->piece,
                     !copy->src     ? identity_row
                     : copy->widen  ? widen_row
                     : copy->narrow ? narrow_row
                                    : copy_row,
                     &copier);
  }
}

// ---- fills --------------------------------------------------------------------------

struct shoal_prepared_fill {
  shoal_cpu_predicate_t predicate;
  shoal_cpu_place_t place;
};

shoal_status_t shoal_cpu_prepare_fill(shoal_device_t *base, const shoal_fill_t *fill,
                                      shoal_arena_t *arena,
                                      const shoal_prepared_fill_t **out_prepared) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  shoal_prepared_fill_t *prepared = SHOAL_NEW(arena, shoal_prepared_fill_t, 1);
  if (!prepared) return SHOAL_OOM();
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(fill->dtype, fill->count, &bytes));
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find_predicate(device, fill->predicate, &prepared->predicate));
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find(device, fill->dst, bytes, "fill", &prepared->place));
  *out_prepared = prepared;
  return NULL;
}

void shoal_cpu_fill(const shoal_fill_t *fill, const shoal_prepared_fill_t *prepared) {
  if (!shoal_cpu_enabled(&prepared->predicate) || fill->count == 0) return;
  shoal_cpu_mark(&prepared->place);
  enum { MOST = 32768 };  // stays in the first cache while it is copied on
  const size_t element = shoal_dtype_size(fill->dtype), bytes = (size_t)fill->count * element;
  uint8_t *at = prepared->place.data;
  shoal_dtype_store(fill->dtype, at, 0, fill->value);
  for (size_t filled = element, more; filled < bytes; filled += more) {
    more = filled < MOST ? filled : MOST;
    if (more > bytes - filled) more = bytes - filled;
    memcpy(at + filled, at, more);
  }
}
