// Device functions for other layers of the library, which are not public.
#ifndef SHOAL_DEVICE_DEVICE_H_
#define SHOAL_DEVICE_DEVICE_H_

#include "shoal/device.h"
#include "target/target.h"

// What lowering asks about this device. Borrows the device.
shoal_target_t shoal_device_target(const shoal_device_t *device);

// Whether host memory that it allocates is its allocator's: it has no use for page-locked memory.
bool shoal_device_host_is_plain(const shoal_device_t *device);

// A kernel call of these operands, with DLPack tensors of them in the arena. Those borrow the
// tensors' shapes. The device's own stream is the caller's to add.
SHOAL_MUST_USE shoal_status_t shoal_kernel_call_init(shoal_arena_t *arena, const shoal_call_t *call,
                                                     const shoal_tensor_t *inputs,
                                                     const shoal_tensor_t *outputs,
                                                     const char *device_kind, int32_t dlpack_kind,
                                                     int32_t device_id,
                                                     shoal_kernel_call_t *out_call);
// Calls a provider on host tensors, without a device: rules and reference runs ask it so.
SHOAL_MUST_USE shoal_status_t shoal_provider_call(shoal_provider_fn_t provider, void *self,
                                                  const shoal_call_t *call,
                                                  const shoal_tensor_t *inputs,
                                                  const shoal_tensor_t *outputs,
                                                  shoal_allocator_t allocator);

// How many rows a bounded operand has when its count is n: the first ones of its part.
int64_t shoal_bounded_rows(const shoal_bounded_t *bounded, int64_t n);

#endif  // SHOAL_DEVICE_DEVICE_H_
