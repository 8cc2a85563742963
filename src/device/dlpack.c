// Tensors as DLPack structures; see shoal/dlpack.h. One block holds the structure, its shape and
// strides, and the allocator to free it with, since the deleter is called by another framework,
// whenever it likes.
#include "shoal/dlpack.h"

#include "base/status.h"

// The ABI, as far as a compiler can check it on a 64-bit machine.
_Static_assert(sizeof(void *) != 8 || sizeof(shoal_dlpack_tensor_t) == 48, "DLTensor");
_Static_assert(sizeof(void *) != 8 || offsetof(shoal_dlpack_tensor_t, shape) == 24,
               "DLTensor.shape");
_Static_assert(sizeof(void *) != 8 || offsetof(shoal_dlpack_t, tensor) == 32,
               "DLManagedTensorVersioned");

typedef struct export_block {
  shoal_dlpack_t dlpack;  // first: the deleter gets its address
  shoal_allocator_t allocator;
  int64_t shape[SHOAL_MAX_RANK], strides[SHOAL_MAX_RANK];
} export_block_t;

static void free_block(shoal_dlpack_t *dlpack) {
  export_block_t *block = dlpack->manager;
  shoal_allocator_t allocator = block->allocator;
  allocator.free(allocator.self, block);
}

static const uint8_t element_kinds[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F64] = SHOAL_DLPACK_FLOAT, [SHOAL_F32] = SHOAL_DLPACK_FLOAT,
    [SHOAL_F16] = SHOAL_DLPACK_FLOAT, [SHOAL_BF16] = SHOAL_DLPACK_BFLOAT,
    [SHOAL_I64] = SHOAL_DLPACK_INT,   [SHOAL_I32] = SHOAL_DLPACK_INT,
    [SHOAL_U8] = SHOAL_DLPACK_UINT,   [SHOAL_BOOL] = SHOAL_DLPACK_BOOL};

shoal_status_t shoal_tensor_to_dlpack(const shoal_tensor_t *tensor, bool read_only,
                                      shoal_allocator_t allocator, shoal_dlpack_t **out_dlpack) {
  *out_dlpack = NULL;
  if ((unsigned)tensor->dtype >= SHOAL_DTYPE_COUNT || tensor->shape.rank < 0 ||
      tensor->shape.rank > SHOAL_MAX_RANK) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "not a tensor: dtype %d, rank %d", (int)tensor->dtype,
                       (int)tensor->shape.rank);
  }
  if (!allocator.alloc) allocator = shoal_allocator_system();
  export_block_t *block = allocator.alloc(allocator.self, sizeof *block);
  if (!block) return SHOAL_OOM();
  *block = (export_block_t){.allocator = allocator};
  int64_t stride = 1;
  for (int32_t d = tensor->shape.rank - 1; d >= 0; --d) {
    block->shape[d] = tensor->shape.dims[d];
    block->strides[d] = stride;
    stride *= tensor->shape.dims[d] > 0 ? tensor->shape.dims[d] : 1;
  }
  block->dlpack = (shoal_dlpack_t){
      .major = SHOAL_DLPACK_MAJOR,
      .minor = SHOAL_DLPACK_MINOR,
      .manager = block,
      .deleter = free_block,
      .flags = read_only ? SHOAL_DLPACK_READ_ONLY : 0,
      .tensor = {.data = tensor->data,
                 .device_kind = SHOAL_DLPACK_CPU,
                 .rank = tensor->shape.rank,
                 .element_kind = element_kinds[tensor->dtype],
                 .element_bits = (uint8_t)(8 * shoal_dtype_size(tensor->dtype)),
                 .lanes = 1,
                 .shape = block->shape,
                 .strides = block->strides},
  };
  *out_dlpack = &block->dlpack;
  return NULL;
}
