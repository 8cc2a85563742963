// Element access by type. Conversions round to nearest even; f16 and bf16 go through f32.
#ifndef SHOAL_BASE_DTYPE_H_
#define SHOAL_BASE_DTYPE_H_

#include "shoal/base.h"

float shoal_bf16_to_f32(uint16_t bits);
uint16_t shoal_f32_to_bf16(float value);
float shoal_f16_to_f32(uint16_t bits);
uint16_t shoal_f32_to_f16(float value);

// i64 does not fit a double: integer elements have their own pair (floats are truncated).
int64_t shoal_dtype_load_int(shoal_dtype_t dtype, const void *data, int64_t index);
void shoal_dtype_store_int(shoal_dtype_t dtype, void *data, int64_t index, int64_t value);
double shoal_dtype_epsilon(shoal_dtype_t dtype);  // 2^-52, 2^-23, 2^-7, 2^-10; 0 for integers

// Bytes of `count` elements, or a status when that overflows.
SHOAL_MUST_USE shoal_status_t shoal_dtype_bytes(shoal_dtype_t dtype, int64_t count,
                                                int64_t *out_bytes);
size_t shoal_tensor_bytes(const shoal_tensor_t *tensor);  // of all its elements
// "[64, 784]"
int shoal_shape_format(const shoal_shape_t *shape, char *buffer, size_t capacity);

#endif  // SHOAL_BASE_DTYPE_H_
