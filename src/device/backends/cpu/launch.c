// Kernels on the CPU device: operands are found once, then the kernel runs on them. Rows of bounded
// operands are counted each time.
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/backends/cpu/cpu.h"
#include "device/device.h"

struct shoal_prepared {
  shoal_call_t call;  // as the kernel gets it
  shoal_cpu_predicate_t predicate;
  int32_t place_count;
  shoal_cpu_place_t *places;  // of inputs, outputs, workspace, counts of bounded operands
  shoal_type_t *types;        // of the call, where rows are bounded: inputs, then outputs
  shoal_tensor_t *tensors;    // inputs, then outputs
  void *workspace;
  shoal_kernel_call_t kernel;  // where a provider is called; its shapes are the tensors'
};

// ---- preparing ----------------------------------------------------------------------

static shoal_status_t find_operands(shoal_cpu_device_t *device, const shoal_op_t *op,
                                    const char *side, int32_t count, const shoal_type_t *types,
                                    const shoal_address_t *addresses, shoal_cpu_place_t *places,
                                    shoal_tensor_t *tensors) {
  for (int32_t i = 0; i < count; ++i) {
    int64_t bytes;
    SHOAL_RETURN_IF_ERROR(
        shoal_dtype_bytes(types[i].dtype, shoal_shape_count(&types[i].shape), &bytes));
    shoal_status_t status = shoal_cpu_find(device, addresses[i], bytes, "memory", &places[i]);
    if (status) return shoal_status_annotatef(status, "%s %d of '%s'", side, i, op->name);
    tensors[i] = (shoal_tensor_t){places[i].data, types[i].dtype, types[i].shape};
  }
  return NULL;
}

// The call gets types of its own, whose rows may change.
static shoal_status_t prepare_bounded(shoal_cpu_device_t *device, const shoal_launch_t *launch,
                                      shoal_arena_t *arena, shoal_cpu_place_t *counts,
                                      shoal_prepared_t *prepared) {
  if (launch->bounded_count == 0) return NULL;
  const shoal_call_t *call = &launch->call;
  const int32_t inputs = call->input_count, operands = inputs + call->output_count;
  shoal_type_t *types = SHOAL_NEW(arena, shoal_type_t, operands);
  if (!types) return SHOAL_OOM();
  for (int32_t k = 0; k < operands; ++k) {
    types[k] = k < inputs ? call->inputs[k] : call->outputs[k - inputs];
  }
  prepared->types = types;
  prepared->call.inputs = types;
  prepared->call.outputs = types + inputs;
  for (int32_t i = 0; i < launch->bounded_count; ++i) {
    const shoal_bounded_t *bounded = &launch->bounded[i];
    SHOAL_RETURN_IF_ERROR(shoal_cpu_find(
        device, bounded->count, (int64_t)shoal_dtype_size(bounded->dtype), "count", &counts[i]));
  }
  return NULL;
}

shoal_status_t shoal_cpu_prepare(shoal_device_t *base, const shoal_launch_t *launch,
                                 shoal_arena_t *arena, const shoal_prepared_t **out_prepared) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  const shoal_call_t *call = &launch->call;
  const int32_t inputs = call->input_count, operands = inputs + call->output_count;
  const int32_t place_count = operands + 1 + launch->bounded_count;
  shoal_prepared_t *prepared = SHOAL_NEW(arena, shoal_prepared_t, 1);
  shoal_cpu_place_t *places = SHOAL_NEW(arena, shoal_cpu_place_t, place_count);
  shoal_tensor_t *tensors = SHOAL_NEW(arena, shoal_tensor_t, operands);
  if (!prepared || !places || !tensors) return SHOAL_OOM();
  *prepared = (shoal_prepared_t){
      .call = *call, .place_count = place_count, .places = places, .tensors = tensors};
  SHOAL_RETURN_IF_ERROR(find_operands(device, call->op, "input", inputs, call->inputs,
                                      launch->inputs, places, tensors));
  SHOAL_RETURN_IF_ERROR(find_operands(device, call->op, "output", call->output_count, call->outputs,
                                      launch->outputs, places + inputs, tensors + inputs));
  const int64_t scratch = launch->provider ? 0 : shoal_target_workspace(&base->target, call);
  SHOAL_RETURN_IF_ERROR(
      shoal_cpu_find(device, launch->workspace, scratch, "workspace", &places[operands]));
  prepared->workspace = scratch > 0 ? places[operands].data : NULL;
  SHOAL_RETURN_IF_ERROR(prepare_bounded(device, launch, arena, &places[operands + 1], prepared));
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find_predicate(device, launch->predicate, &prepared->predicate));
  if (launch->provider) {
    SHOAL_RETURN_IF_ERROR(shoal_kernel_call_init(arena, &prepared->call, tensors, tensors + inputs,
                                                 base->ops->kind, SHOAL_DLPACK_CPU, 0,
                                                 &prepared->kernel));
  }
  *out_prepared = prepared;
  return NULL;
}

// ---- running ------------------------------------------------------------------------

static shoal_status_t count_rows(const shoal_launch_t *launch, const shoal_prepared_t *prepared) {
  const shoal_cpu_place_t *counts =
      &prepared->places[prepared->place_count - launch->bounded_count];
  for (int32_t i = 0; i < launch->bounded_count; ++i) {
    const shoal_bounded_t *bounded = &launch->bounded[i];
    const int64_t n = bounded->dtype == SHOAL_I32 ? *(const int32_t *)counts[i].data
                                                  : *(const int64_t *)counts[i].data;
    if (n < 0 || n > bounded->whole) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "count '%s' is %lld; '%s' has room for %lld rows",
                         bounded->name, (long long)n,
                         launch->name ? launch->name : launch->call.op->name,
                         (long long)bounded->whole);
    }
    const int64_t rows = shoal_bounded_rows(bounded, n);
    prepared->types[bounded->operand].shape.dims[0] = rows;
    prepared->tensors[bounded->operand].shape.dims[0] = rows;
  }
  return NULL;
}

shoal_status_t shoal_cpu_launch(const shoal_launch_t *launch, const shoal_prepared_t *prepared) {
  if (!shoal_cpu_enabled(&prepared->predicate)) return NULL;
  for (int32_t i = 0; i < prepared->place_count; ++i) shoal_cpu_mark(&prepared->places[i]);
  if (launch->bounded_count > 0) SHOAL_RETURN_IF_ERROR(count_rows(launch, prepared));
  const shoal_call_t *call = &prepared->call;
  const shoal_tensor_t *inputs = prepared->tensors, *outputs = inputs + call->input_count;
  shoal_status_t status = launch->provider
                              ? launch->provider(launch->provider_self, &prepared->kernel)
                              : call->op->kernel(call, inputs, outputs, prepared->workspace);
  return status && launch->name ? shoal_status_annotatef(status, "'%s'", launch->name) : status;
}
