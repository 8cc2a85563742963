// Fast loops over op/reduce.h's meaning, in host memory: what accumulating copies and host-side
// collectives compute.
//
// Floats are joined in their own type, bf16 and f16 through f32. Integers wrap. For bool, sum and
// max are "or", prod and min are "and". max and min pass NaN on. lse joins logarithms of floats.
#ifndef SHOAL_DEVICE_REDUCE_H_
#define SHOAL_DEVICE_REDUCE_H_

#include "op/reduce.h"

// lse: floats only. i8 and f8, which are for storage, are not joined at all.
bool shoal_reduce_supported(shoal_dtype_t dtype, shoal_reduce_t reduce);

// dst[i * dst_stride] = reduce(dst[i * dst_stride], src[i * src_stride]), strides in elements.
void shoal_reduce_into(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, const void *src,
                       int64_t src_stride, void *dst, int64_t dst_stride);
// out[i] = reduce over sources[0][i], sources[1][i] ... in that order; bf16 and f16 are rounded
// once, at the end. `out` may be one of the sources. n >= 1.
void shoal_reduce_all(shoal_dtype_t dtype, shoal_reduce_t reduce, int64_t count, int32_t n,
                      const void *const *sources, void *out);

#endif  // SHOAL_DEVICE_REDUCE_H_
