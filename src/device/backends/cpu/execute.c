// What one command does. Every operand is resolved, hence checked and marked, before it is used.
#include <stdio.h>
#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "device/backends/cpu/cpu.h"
#include "device/reduce.h"
#include "layout/motion.h"

// A predicate names the address of a bool in device memory.
static shoal_status_t enabled(shoal_cpu_queue_t *queue, const shoal_address_t *predicate,
                              bool *out_enabled) {
  *out_enabled = true;
  if (!predicate) return NULL;
  void *flag;
  SHOAL_RETURN_IF_ERROR(shoal_cpu_resolve(queue->device, *predicate, 1, "predicate", &flag));
  *out_enabled = *(const uint8_t *)flag != 0;
  return NULL;
}

// ---- kernels ------------------------------------------------------------------------

// A launch whose operands have been found: inputs, then outputs, then workspace and predicate.
struct shoal_prepared {
  int32_t place_count;
  shoal_cpu_place_t *places;
  shoal_tensor_t *tensors;  // inputs, then outputs
  void *workspace;
  const uint8_t *predicate;  // NULL: always
};

static shoal_status_t find_operands(shoal_cpu_device_t *device, const shoal_op_t *op,
                                    const char *side, int32_t count, const shoal_type_t *types,
                                    const shoal_address_t *addresses, shoal_cpu_place_t *places,
                                    shoal_tensor_t *tensors) {
  char what[128];
  for (int32_t i = 0; i < count; ++i) {
    int64_t bytes;
    SHOAL_RETURN_IF_ERROR(
        shoal_dtype_bytes(types[i].dtype, shoal_shape_count(&types[i].shape), &bytes));
    snprintf(what, sizeof what, "%s %d of '%s'", side, i, op->name);
    SHOAL_RETURN_IF_ERROR(shoal_cpu_find(device, addresses[i], bytes, what, &places[i]));
    tensors[i] = (shoal_tensor_t){places[i].data, types[i].dtype, types[i].shape};
  }
  return NULL;
}

// Fills a prepared launch that has room for the call's operands and two places more.
static shoal_status_t find_all(shoal_cpu_device_t *device, const shoal_launch_t *launch,
                               shoal_prepared_t *prepared) {
  const shoal_call_t *call = &launch->call;
  const int32_t inputs = call->input_count, operands = inputs + call->output_count;
  shoal_cpu_place_t *places = prepared->places;
  prepared->place_count = operands + 2;
  SHOAL_RETURN_IF_ERROR(find_operands(device, call->op, "input", inputs, call->inputs,
                                      launch->inputs, places, prepared->tensors));
  SHOAL_RETURN_IF_ERROR(find_operands(device, call->op, "output", call->output_count, call->outputs,
                                      launch->outputs, places + inputs,
                                      prepared->tensors + inputs));
  const int64_t scratch = launch->provider ? 0 : shoal_target_workspace(&device->base.target, call);
  SHOAL_RETURN_IF_ERROR(
      shoal_cpu_find(device, launch->workspace, scratch, "workspace", &places[operands]));
  prepared->workspace = scratch > 0 ? places[operands].data : NULL;
  shoal_cpu_place_t *predicate = &places[operands + 1];
  SHOAL_RETURN_IF_ERROR(shoal_cpu_find(device, launch->predicate ? *launch->predicate : 0,
                                       launch->predicate != NULL, "predicate", predicate));
  prepared->predicate = launch->predicate ? predicate->data : NULL;
  return NULL;
}

shoal_status_t shoal_cpu_prepare(shoal_device_t *device, const shoal_launch_t *launch,
                                 shoal_arena_t *arena, const shoal_prepared_t **out_prepared) {
  const int32_t operands = launch->call.input_count + launch->call.output_count;
  shoal_prepared_t *prepared = SHOAL_NEW(arena, shoal_prepared_t, 1);
  if (!prepared) return SHOAL_OOM();
  prepared->places = SHOAL_NEW(arena, shoal_cpu_place_t, operands + 2);
  prepared->tensors = SHOAL_NEW(arena, shoal_tensor_t, operands);
  if (!prepared->places || !prepared->tensors) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(find_all((shoal_cpu_device_t *)device, launch, prepared));
  *out_prepared = prepared;
  return NULL;
}

// Room for `count` operands of launches that were not prepared; grows while warming up.
static shoal_status_t reserve(shoal_cpu_queue_t *queue, int64_t count) {
  if (count <= queue->operand_capacity) return NULL;
  shoal_allocator_t allocator = queue->device->base.allocator;
  shoal_tensor_t *tensors = allocator.alloc(allocator.self, (size_t)count * sizeof *tensors);
  shoal_cpu_place_t *places = allocator.alloc(allocator.self, (size_t)(count + 2) * sizeof *places);
  if (!tensors || !places) {
    allocator.free(allocator.self, tensors);
    allocator.free(allocator.self, places);
    return SHOAL_OOM();
  }
  allocator.free(allocator.self, queue->tensors);
  allocator.free(allocator.self, queue->places);
  queue->tensors = tensors;
  queue->places = places;
  queue->operand_capacity = count;
  return NULL;
}

static shoal_status_t execute_prepared(const shoal_launch_t *launch,
                                       const shoal_prepared_t *prepared) {
  const shoal_call_t *call = &launch->call;
  if (prepared->predicate) {
    shoal_cpu_mark(&prepared->places[prepared->place_count - 1]);
    if (!*prepared->predicate) return NULL;
  }
  for (int32_t i = 0; i < prepared->place_count - 1; ++i) shoal_cpu_mark(&prepared->places[i]);
  const shoal_tensor_t *inputs = prepared->tensors, *outputs = inputs + call->input_count;
  if (launch->provider) return launch->provider(launch->provider_self, call, inputs, outputs);
  return call->op->kernel(call, inputs, outputs, prepared->workspace);
}

static shoal_status_t execute_launch(shoal_cpu_queue_t *queue, const shoal_launch_t *launch) {
  if (launch->prepared) return execute_prepared(launch, launch->prepared);
  bool run;
  SHOAL_RETURN_IF_ERROR(enabled(queue, launch->predicate, &run));
  if (!run) return NULL;
  const shoal_call_t *call = &launch->call;
  SHOAL_RETURN_IF_ERROR(reserve(queue, (int64_t)call->input_count + call->output_count));
  shoal_prepared_t found = {.places = queue->places, .tensors = queue->tensors};
  SHOAL_RETURN_IF_ERROR(find_all(queue->device, launch, &found));
  return execute_prepared(launch, &found);
}

// ---- copies -------------------------------------------------------------------------

// Elements the block spans on one side: the lowest and the highest offset.
static void span_of(const shoal_piece_t *piece, int64_t offset, const int64_t *strides,
                    int64_t *out_low, int64_t *out_high) {
  *out_low = *out_high = offset;
  for (int32_t d = 0; d < piece->rank; ++d) {
    int64_t reach = (piece->size[d] - 1) * strides[d];
    *(reach < 0 ? out_low : out_high) += reach;
  }
}

// Resolves what the block spans on one side; *offset then counts from there.
static shoal_status_t resolve_side(shoal_cpu_queue_t *queue, const shoal_piece_t *piece,
                                   shoal_address_t base, const int64_t *strides, int64_t element,
                                   const char *what, int64_t *offset, uint8_t **out_data) {
  int64_t low, high;
  span_of(piece, *offset, strides, &low, &high);
  void *data;
  SHOAL_RETURN_IF_ERROR(shoal_cpu_resolve(queue->device, base + (uint64_t)(low * element),
                                          (high - low + 1) * element, what, &data));
  *offset -= low;
  *out_data = data;
  return NULL;
}

typedef struct copier {
  const shoal_copy_t *copy;
  int64_t src_element, dst_element;
  uint8_t *src, *dst;  // what the block spans on the two sides; src NULL: there is none
} copier_t;

static void fill_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  (void)src, (void)src_stride;
  const copier_t *copier = self;
  const shoal_copy_t *copy = copier->copy;
  const int64_t step = dst_stride == 1 ? count : 1;
  uint8_t *to = copier->dst + dst * copier->dst_element;
  for (int64_t i = 0; i < count; i += step) {
    shoal_reduce_fill(copy->dtype, copy->reduce, step, to + i * dst_stride * copier->dst_element);
  }
}

// One side is bf16 or f16, the other f32: some elements at a time.
static void widen_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                      int64_t dst_stride) {
  enum { BLOCK = 256 };
  const copier_t *copier = self;
  const shoal_copy_t *copy = copier->copy;
  const bool bf16 = copy->dtype == SHOAL_BF16;
  float block[BLOCK];
  for (int64_t done = 0; done < count; done += BLOCK) {
    const int64_t size = count - done < BLOCK ? count - done : BLOCK;
    const uint16_t *from = (const uint16_t *)(const void *)copier->src + src + done * src_stride;
    float *to = (float *)(void *)copier->dst + dst + done * dst_stride;
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
  const copier_t *copier = self;
  const bool bf16 = copier->copy->dtype == SHOAL_BF16;
  const float *from = (const float *)(const void *)copier->src + src;
  uint16_t *to = (uint16_t *)(void *)copier->dst + dst;
  for (int64_t i = 0; i < count; ++i) {
    const float value = from[i * src_stride];
    to[i * dst_stride] = bf16 ? shoal_f32_to_bf16(value) : shoal_f32_to_f16(value);
  }
}

static void copy_row(void *self, int64_t src, int64_t dst, int64_t count, int64_t src_stride,
                     int64_t dst_stride) {
  const copier_t *copier = self;
  const shoal_copy_t *copy = copier->copy;
  const int64_t element = copier->dst_element;
  const uint8_t *from = copier->src + src * element;
  uint8_t *to = copier->dst + dst * element;
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

static shoal_status_t copy_piece(shoal_cpu_queue_t *queue, const shoal_copy_t *copy,
                                 const shoal_piece_t *piece) {
  for (int32_t d = 0; d < piece->rank; ++d) {
    if (piece->size[d] <= 0) return NULL;
  }
  const int64_t element = (int64_t)shoal_dtype_size(copy->dtype);
  copier_t copier = {.copy = copy,
                     .src_element = copy->narrow ? (int64_t)sizeof(float) : element,
                     .dst_element = copy->widen ? (int64_t)sizeof(float) : element};
  shoal_piece_t block = *piece;
  if (copy->src) {
    SHOAL_RETURN_IF_ERROR(resolve_side(queue, piece, copy->src, piece->src_stride,
                                       copier.src_element, "source of a copy", &block.src_offset,
                                       &copier.src));
  }
  SHOAL_RETURN_IF_ERROR(resolve_side(queue, piece, copy->dst, piece->dst_stride, copier.dst_element,
                                     "destination of a copy", &block.dst_offset, &copier.dst));
  shoal_piece_rows(&block,
                   !copy->src     ? fill_row
                   : copy->widen  ? widen_row
                   : copy->narrow ? narrow_row
                                  : copy_row,
                   &copier);
  return NULL;
}

static shoal_status_t execute_copy(shoal_cpu_queue_t *queue, const shoal_copy_t *copy) {
  bool run;
  SHOAL_RETURN_IF_ERROR(enabled(queue, copy->predicate, &run));
  for (int64_t i = 0; run && i < copy->piece_count; ++i) {
    SHOAL_RETURN_IF_ERROR(copy_piece(queue, copy, &copy->pieces[i]));
  }
  return NULL;
}

// ---- the rest -----------------------------------------------------------------------

static shoal_status_t execute_transfer(shoal_cpu_queue_t *queue,
                                       const shoal_cpu_command_t *command) {
  const bool up = command->kind == SHOAL_CPU_UPLOAD;
  const size_t bytes = (size_t)command->transfer.bytes;
  void *data;
  SHOAL_RETURN_IF_ERROR(shoal_cpu_resolve(queue->device, command->transfer.address,
                                          command->transfer.bytes, up ? "upload" : "download",
                                          &data));
  if (bytes == 0) return NULL;
  memcpy(up ? data : command->transfer.to, up ? command->transfer.from : data, bytes);
  return NULL;
}

static shoal_status_t execute_fill(shoal_cpu_queue_t *queue, const shoal_cpu_command_t *command) {
  const shoal_dtype_t dtype = command->fill.dtype;
  const int64_t count = command->fill.count, element = (int64_t)shoal_dtype_size(dtype);
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, count, &bytes));
  void *data;
  SHOAL_RETURN_IF_ERROR(
      shoal_cpu_resolve(queue->device, command->fill.address, bytes, "fill", &data));
  if (count == 0) return NULL;
  uint8_t *at = data;
  shoal_dtype_store(dtype, at, 0, command->fill.value);
  for (int64_t i = 1; i < count; ++i) memcpy(at + i * element, at, (size_t)element);
  return NULL;
}

shoal_status_t shoal_cpu_execute(shoal_cpu_queue_t *queue, const shoal_cpu_command_t *command) {
  switch (command->kind) {
    case SHOAL_CPU_LAUNCH:
      return execute_launch(queue, command->launch);
    case SHOAL_CPU_COPY:
      return execute_copy(queue, command->copy);
    case SHOAL_CPU_UPLOAD:
    case SHOAL_CPU_DOWNLOAD:
      return execute_transfer(queue, command);
    case SHOAL_CPU_FILL:
      return execute_fill(queue, command);
    case SHOAL_CPU_CALL:
      return command->call.function(command->call.self);
    case SHOAL_CPU_RECORD:
    case SHOAL_CPU_AWAIT:
    case SHOAL_CPU_STOP:
      break;
  }
  return NULL;
}
