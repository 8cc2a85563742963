// Element types: one table of names and sizes, bit conversions, access by index.
#include "base/dtype.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"

static const struct {
  const char *name;
  size_t size;
  bool is_float, is_storage;
  double epsilon;
} dtypes[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F64] = {"f64", 8, true, false, 0x1p-52},
    [SHOAL_F32] = {"f32", 4, true, false, 0x1p-23},
    [SHOAL_BF16] = {"bf16", 2, true, false, 0x1p-7},
    [SHOAL_F16] = {"f16", 2, true, false, 0x1p-10},
    [SHOAL_I64] = {"i64", 8, false, false, 0},
    [SHOAL_I32] = {"i32", 4, false, false, 0},
    [SHOAL_U8] = {"u8", 1, false, false, 0},
    [SHOAL_BOOL] = {"bool", 1, false, false, 0},
    [SHOAL_I8] = {"i8", 1, false, true, 0},
    [SHOAL_F8_E4M3] = {"f8_e4m3", 1, false, true, 0},
    [SHOAL_F8_E5M2] = {"f8_e5m2", 1, false, true, 0},
};

static bool known(shoal_dtype_t dtype) {
  return (unsigned)dtype < SHOAL_DTYPE_COUNT;
}

static const char *const memory_names[] = {
    [SHOAL_MEMORY_DEVICE] = "device", [SHOAL_MEMORY_HOST] = "host", [SHOAL_MEMORY_FILE] = "file"};

const char *shoal_memory_kind_name(shoal_memory_kind_t memory) {
  return (unsigned)memory < SHOAL_MEMORY_COUNT ? memory_names[memory] : "?";
}

bool shoal_memory_kind_parse(const char *name, shoal_memory_kind_t *out_memory) {
  for (int kind = 0; kind < SHOAL_MEMORY_COUNT; ++kind) {
    if (strcmp(name, memory_names[kind]) != 0) continue;
    *out_memory = (shoal_memory_kind_t)kind;
    return true;
  }
  return false;
}

const char *shoal_dtype_name(shoal_dtype_t dtype) {
  return known(dtype) ? dtypes[dtype].name : "?";
}

size_t shoal_dtype_size(shoal_dtype_t dtype) {
  return known(dtype) ? dtypes[dtype].size : 0;
}

bool shoal_dtype_is_float(shoal_dtype_t dtype) {
  return known(dtype) && dtypes[dtype].is_float;
}

bool shoal_dtype_is_storage(shoal_dtype_t dtype) {
  return known(dtype) && dtypes[dtype].is_storage;
}

bool shoal_dtype_is_real(shoal_dtype_t dtype) {
  return shoal_dtype_is_float(dtype) || dtype == SHOAL_F8_E4M3 || dtype == SHOAL_F8_E5M2;
}

double shoal_dtype_epsilon(shoal_dtype_t dtype) {
  return known(dtype) ? dtypes[dtype].epsilon : 0;
}

bool shoal_dtype_parse(const char *name, shoal_dtype_t *out_dtype) {
  for (int i = 0; i < SHOAL_DTYPE_COUNT; ++i) {
    if (strcmp(name, dtypes[i].name) == 0) {
      *out_dtype = (shoal_dtype_t)i;
      return true;
    }
  }
  return false;
}

int64_t shoal_shape_count(const shoal_shape_t *shape) {
  int64_t count = 1;
  for (int32_t d = 0; d < shape->rank; ++d) {
    if (shape->dims[d] == 0) return 0;
  }
  for (int32_t d = 0; d < shape->rank; ++d) {
    // saturates: shoal_dtype_bytes then refuses it
    if (__builtin_mul_overflow(count, shape->dims[d], &count)) return INT64_MAX;
  }
  return count;
}

bool shoal_shape_equal(const shoal_shape_t *a, const shoal_shape_t *b) {
  if (a->rank != b->rank) return false;
  for (int32_t d = 0; d < a->rank; ++d) {
    if (a->dims[d] != b->dims[d]) return false;
  }
  return true;
}

int shoal_shape_format(const shoal_shape_t *shape, char *buffer, size_t capacity) {
  char text[SHOAL_MAX_RANK * 24 + 4];
  int length = snprintf(text, sizeof text, "[");
  for (int32_t d = 0; d < shape->rank && d < SHOAL_MAX_RANK; ++d) {
    length += snprintf(text + length, sizeof text - (size_t)length, "%s%lld", d ? ", " : "",
                       (long long)shape->dims[d]);
  }
  return snprintf(buffer, capacity, "%s]", text);
}

size_t shoal_tensor_bytes(const shoal_tensor_t *tensor) {
  return (size_t)shoal_shape_count(&tensor->shape) * shoal_dtype_size(tensor->dtype);
}

shoal_status_t shoal_dtype_bytes(shoal_dtype_t dtype, int64_t count, int64_t *out_bytes) {
  int64_t bytes;
  if (count < 0 || __builtin_mul_overflow(count, (int64_t)shoal_dtype_size(dtype), &bytes)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld elements of %s do not fit in memory",
                       (long long)count, shoal_dtype_name(dtype));
  }
  *out_bytes = bytes;
  return NULL;
}

// ---- half-size floats ---------------------------------------------------------------------------

static uint32_t bits_of(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

float shoal_bf16_to_f32(uint16_t bits) {
  return float_of((uint32_t)bits << 16);
}

uint16_t shoal_f32_to_bf16(float value) {
  uint32_t bits = bits_of(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(bits >> 16 | 0x40u);  // quiet NaN
  return (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1)) >> 16);
}

float shoal_f16_to_f32(uint16_t bits) {
  uint32_t sign = (uint32_t)(bits & 0x8000u) << 16, exponent = bits >> 10 & 31,
           fraction = bits & 1023;
  if (exponent == 31) return float_of(sign | 0x7f800000u | fraction << 13);
  if (exponent) return float_of(sign | (exponent + 112) << 23 | fraction << 13);
  float magnitude = (float)fraction * 0x1p-24f;  // exact
  return sign ? -magnitude : magnitude;
}

uint16_t shoal_f32_to_f16(float value) {
  uint32_t bits = bits_of(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return (uint16_t)(sign | 0x7e00u | (magnitude >> 13 & 1023));
  if (magnitude >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u);  // rounds to 65536 or more
  if (magnitude < 0x38800000u) {
    // Subnormal: in units of 2^-24. Adding 0.5 puts those units at the end of the f32 fraction,
    // where the addition itself rounds to nearest even.
    uint32_t sum = bits_of(float_of(magnitude) + 0.5f);
    return (uint16_t)(sign | (sum - 0x3f000000u));
  }
  uint32_t rounded = magnitude + 0xfffu + (magnitude >> 13 & 1);
  return (uint16_t)(sign | ((rounded >> 13) - (112u << 10)));
}

// ---- access -------------------------------------------------------------------------------------

// Truncates; out of range saturates, NaN gives 0.
static int64_t int_of(double value, int64_t low, int64_t high) {
  if (isnan(value)) return 0;
  if (value <= (double)low) return low;
  if (value >= (double)high) return high;
  return (int64_t)value;
}

double shoal_dtype_load(shoal_dtype_t dtype, const void *data, int64_t index) {
  switch (dtype) {
    case SHOAL_F64:
      return ((const double *)data)[index];
    case SHOAL_F32:
      return (double)((const float *)data)[index];
    case SHOAL_BF16:
      return (double)shoal_bf16_to_f32(((const uint16_t *)data)[index]);
    case SHOAL_F16:
      return (double)shoal_f16_to_f32(((const uint16_t *)data)[index]);
    case SHOAL_I64:
      return (double)((const int64_t *)data)[index];
    case SHOAL_I32:
      return (double)((const int32_t *)data)[index];
    case SHOAL_U8:
    case SHOAL_BOOL:
      return (double)((const uint8_t *)data)[index];
    case SHOAL_I8:
      return (double)((const int8_t *)data)[index];
    case SHOAL_F8_E4M3:
      return (double)shoal_f8_e4m3_to_f32(((const uint8_t *)data)[index]);
    case SHOAL_F8_E5M2:
      return (double)shoal_f8_e5m2_to_f32(((const uint8_t *)data)[index]);
    case SHOAL_DTYPE_COUNT:
      break;
  }
  return 0;
}

void shoal_dtype_store(shoal_dtype_t dtype, void *data, int64_t index, double value) {
  switch (dtype) {
    case SHOAL_F64:
      ((double *)data)[index] = value;
      break;
    case SHOAL_F32:
      ((float *)data)[index] = (float)value;
      break;
    case SHOAL_BF16:
      ((uint16_t *)data)[index] = shoal_f32_to_bf16((float)value);
      break;
    case SHOAL_F16:
      ((uint16_t *)data)[index] = shoal_f32_to_f16((float)value);
      break;
    case SHOAL_I64:
      ((int64_t *)data)[index] = int_of(value, INT64_MIN, INT64_MAX);
      break;
    case SHOAL_I32:
      ((int32_t *)data)[index] = (int32_t)int_of(value, INT32_MIN, INT32_MAX);
      break;
    case SHOAL_U8:
      ((uint8_t *)data)[index] = (uint8_t)int_of(value, 0, 255);
      break;
    case SHOAL_BOOL:
      ((uint8_t *)data)[index] = value != 0;
      break;
    case SHOAL_I8:
      ((int8_t *)data)[index] = (int8_t)int_of(value, INT8_MIN, INT8_MAX);
      break;
    case SHOAL_F8_E4M3:
      ((uint8_t *)data)[index] = shoal_f32_to_f8_e4m3((float)value);
      break;
    case SHOAL_F8_E5M2:
      ((uint8_t *)data)[index] = shoal_f32_to_f8_e5m2((float)value);
      break;
    case SHOAL_DTYPE_COUNT:
      break;
  }
}

int64_t shoal_dtype_load_int(shoal_dtype_t dtype, const void *data, int64_t index) {
  switch (dtype) {
    case SHOAL_I64:
      return ((const int64_t *)data)[index];
    case SHOAL_I32:
      return ((const int32_t *)data)[index];
    case SHOAL_U8:
    case SHOAL_BOOL:
      return ((const uint8_t *)data)[index];
    case SHOAL_I8:
      return ((const int8_t *)data)[index];
    default:
      return int_of(shoal_dtype_load(dtype, data, index), INT64_MIN, INT64_MAX);
  }
}

void shoal_dtype_store_int(shoal_dtype_t dtype, void *data, int64_t index, int64_t value) {
  switch (dtype) {
    case SHOAL_F64:
      ((double *)data)[index] = (double)value;
      break;
    case SHOAL_F32:
      ((float *)data)[index] = (float)value;
      break;
    case SHOAL_BF16:
      ((uint16_t *)data)[index] = shoal_f32_to_bf16((float)value);
      break;
    case SHOAL_F16:
      ((uint16_t *)data)[index] = shoal_f32_to_f16((float)value);
      break;
    case SHOAL_I64:
      ((int64_t *)data)[index] = value;
      break;
    case SHOAL_I32:
      ((int32_t *)data)[index] = (int32_t)value;
      break;  // wraps
    case SHOAL_U8:
      ((uint8_t *)data)[index] = (uint8_t)value;
      break;  // wraps
    case SHOAL_BOOL:
      ((uint8_t *)data)[index] = value != 0;
      break;
    case SHOAL_I8:
      ((int8_t *)data)[index] = (int8_t)value;
      break;  // wraps
    case SHOAL_F8_E4M3:
      ((uint8_t *)data)[index] = shoal_f32_to_f8_e4m3((float)value);
      break;
    case SHOAL_F8_E5M2:
      ((uint8_t *)data)[index] = shoal_f32_to_f8_e5m2((float)value);
      break;
    case SHOAL_DTYPE_COUNT:
      break;
  }
}
