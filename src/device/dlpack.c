// Tensors as DLPack structures, see shoal/dlpack.h, and calls of kernel providers with them. In an
// export one block holds the structure, its shape and strides, and the allocator to free it with,
// since the deleter is called by another framework, whenever it likes.
#include "shoal/dlpack.h"

#include "base/arena.h"
#include "base/status.h"
#include "device/device.h"

// The ABI, as far as a compiler can check it on a 64-bit machine.
_Static_assert(sizeof(void *) != 8 || sizeof(shoal_dlpack_tensor_t) == 48, "DLTensor");
_Static_assert(sizeof(void *) != 8 || offsetof(shoal_dlpack_tensor_t, shape) == 24,
               "DLTensor.shape");
_Static_assert(sizeof(void *) != 8 || offsetof(shoal_dlpack_t, tensor) == 32,
               "DLManagedTensorVersioned");

typedef struct export_block {
  shoal_dlpack_t dlpack;  // first: the deleter gets its address
  shoal_allocator_t allocator;
  shoal_shape_t shape;
  int64_t strides[SHOAL_MAX_RANK];
} export_block_t;

static void free_block(shoal_dlpack_t *dlpack) {
  export_block_t *block = dlpack->manager;
  shoal_allocator_t allocator = block->allocator;
  allocator.free(allocator.self, block);
}

static const uint8_t element_kinds[SHOAL_DTYPE_COUNT] = {
    [SHOAL_F64] = SHOAL_DLPACK_FLOAT,      [SHOAL_F32] = SHOAL_DLPACK_FLOAT,
    [SHOAL_F16] = SHOAL_DLPACK_FLOAT,      [SHOAL_BF16] = SHOAL_DLPACK_BFLOAT,
    [SHOAL_I64] = SHOAL_DLPACK_INT,        [SHOAL_I32] = SHOAL_DLPACK_INT,
    [SHOAL_U8] = SHOAL_DLPACK_UINT,        [SHOAL_BOOL] = SHOAL_DLPACK_BOOL,
    [SHOAL_I8] = SHOAL_DLPACK_INT,         [SHOAL_F8_E4M3] = SHOAL_DLPACK_F8_E4M3FN,
    [SHOAL_F8_E5M2] = SHOAL_DLPACK_F8_E5M2};

// Borrows the tensor's shape.
static shoal_dlpack_tensor_t describe(const shoal_tensor_t *tensor, int32_t device_kind,
                                      int32_t device_id, int64_t *strides) {
  int64_t stride = 1;
  for (int32_t d = tensor->shape.rank - 1; d >= 0; --d) {
    strides[d] = stride;
    stride *= tensor->shape.dims[d] > 0 ? tensor->shape.dims[d] : 1;
  }
  return (shoal_dlpack_tensor_t){
      .data = tensor->data,
      .device_kind = device_kind,
      .device_id = device_id,
      .rank = tensor->shape.rank,
      .element_kind = element_kinds[tensor->dtype],
      .element_bits = (uint8_t)(8 * shoal_dtype_size(tensor->dtype)),
      .lanes = 1,
      .shape = (int64_t *)tensor->shape.dims,  // DLPack has no const; nobody writes it
      .strides = strides};
}

// ---- exports ------------------------------------------------------------------------

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
  block->shape = tensor->shape;
  const shoal_tensor_t own = {tensor->data, tensor->dtype, block->shape};
  block->dlpack = (shoal_dlpack_t){.major = SHOAL_DLPACK_MAJOR,
                                   .minor = SHOAL_DLPACK_MINOR,
                                   .manager = block,
                                   .deleter = free_block,
                                   .flags = read_only ? SHOAL_DLPACK_READ_ONLY : 0,
                                   .tensor = describe(&own, SHOAL_DLPACK_CPU, 0, block->strides)};
  block->dlpack.tensor.shape = block->shape.dims;
  *out_dlpack = &block->dlpack;
  return NULL;
}

// ---- kernel providers ---------------------------------------------------------------

shoal_status_t shoal_kernel_call_init(shoal_arena_t *arena, const shoal_call_t *call,
                                      const shoal_tensor_t *inputs, const shoal_tensor_t *outputs,
                                      const char *device_kind, int32_t dlpack_kind,
                                      int32_t device_id, shoal_kernel_call_t *out_call) {
  const int32_t count = call->input_count + call->output_count;
  shoal_dlpack_tensor_t *tensors = SHOAL_NEW(arena, shoal_dlpack_tensor_t, count);
  int64_t(*strides)[SHOAL_MAX_RANK] =
      shoal_arena_alloc(arena, (size_t)count, sizeof(int64_t[SHOAL_MAX_RANK]));
  if (!tensors || !strides) return SHOAL_OOM();
  for (int32_t k = 0; k < count; ++k) {
    const shoal_tensor_t *tensor =
        k < call->input_count ? &inputs[k] : &outputs[k - call->input_count];
    tensors[k] = describe(tensor, dlpack_kind, device_id, strides[k]);
  }
  *out_call = (shoal_kernel_call_t){.call = call,
                                    .inputs = inputs,
                                    .outputs = outputs,
                                    .dlpack_inputs = tensors,
                                    .dlpack_outputs = tensors + call->input_count,
                                    .device_kind = device_kind,
                                    .device_id = device_id};
  return NULL;
}

shoal_status_t shoal_provider_call(shoal_provider_fn_t provider, void *self,
                                   const shoal_call_t *call, const shoal_tensor_t *inputs,
                                   const shoal_tensor_t *outputs, shoal_allocator_t allocator) {
  shoal_arena_t arena;
  shoal_arena_init(allocator, &arena);
  shoal_kernel_call_t kernel;
  shoal_status_t status =
      shoal_kernel_call_init(&arena, call, inputs, outputs, "cpu", SHOAL_DLPACK_CPU, 0, &kernel);
  if (!status) status = provider(self, &kernel);
  shoal_arena_deinit(&arena);
  return status;
}
