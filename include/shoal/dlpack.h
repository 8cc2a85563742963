// Shoal, dlpack: tensors for other frameworks, without a copy.
//
// The structures follow the DLPack ABI, version 1.0
// (https://dmlc.github.io/dlpack/latest/c_api.html), written here so that no header of it is
// needed. In Python a pointer to one goes into a capsule called "dltensor_versioned";
// python/shoal_ctypes.py does it for numpy.
#ifndef SHOAL_DLPACK_H_
#define SHOAL_DLPACK_H_

#include "shoal/base.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_DLPACK_MAJOR 1
#define SHOAL_DLPACK_MINOR 0
#define SHOAL_DLPACK_READ_ONLY 1u  // of flags

enum { SHOAL_DLPACK_CPU = 1, SHOAL_DLPACK_CUDA = 2 };  // device kinds
enum {                                                 // element kinds
  SHOAL_DLPACK_INT = 0,
  SHOAL_DLPACK_UINT = 1,
  SHOAL_DLPACK_FLOAT = 2,
  SHOAL_DLPACK_BFLOAT = 4,
  SHOAL_DLPACK_BOOL = 6,
  SHOAL_DLPACK_F8_E4M3FN = 10,
  SHOAL_DLPACK_F8_E5M2 = 12
};

typedef struct shoal_dlpack_tensor {
  void *data;
  int32_t device_kind, device_id;
  int32_t rank;
  uint8_t element_kind, element_bits;
  uint16_t lanes;
  int64_t *shape;
  int64_t *strides;  // in elements
  uint64_t byte_offset;
} shoal_dlpack_tensor_t;

typedef struct shoal_dlpack {
  uint32_t major, minor;
  void *manager;
  void (*deleter)(struct shoal_dlpack *self);  // called once, by whoever holds it last
  uint64_t flags;
  shoal_dlpack_tensor_t tensor;
} shoal_dlpack_t;

// Describes a host tensor. Its elements stay where they are and whose they are: what is made must
// not be used after them (a kernel provider's: after it returned). *out_dlpack is the caller's
// until its deleter is called. Not collective, does not block.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_tensor_to_dlpack(const shoal_tensor_t *tensor,
                                                               bool read_only,
                                                               shoal_allocator_t allocator,
                                                               shoal_dlpack_t **out_dlpack);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_DLPACK_H_
