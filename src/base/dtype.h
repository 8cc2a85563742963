// Element access by type. Conversions round to nearest even; narrow floats go through f32.
#ifndef SHOAL_BASE_DTYPE_H_
#define SHOAL_BASE_DTYPE_H_

#include "shoal/base.h"

float shoal_bf16_to_f32(uint16_t bits);
uint16_t shoal_f32_to_bf16(float value);
float shoal_f16_to_f32(uint16_t bits);
uint16_t shoal_f32_to_f16(float value);
// f8.c: as the OCP's 8-bit formats, and as torch.float8_e4m3fn and float8_e5m2.
float shoal_f8_e4m3_to_f32(uint8_t bits);
uint8_t shoal_f32_to_f8_e4m3(float value);  // beyond 448, when rounded: NaN
float shoal_f8_e5m2_to_f32(uint8_t bits);
uint8_t shoal_f32_to_f8_e5m2(float value);  // beyond 57344, when rounded: infinite

// Floats and f8: the types that shoal_dtype_load reads without loss and load_int would truncate.
bool shoal_dtype_is_real(shoal_dtype_t dtype);

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
