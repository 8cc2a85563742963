// Devices: argument checks and dispatch to a backend's ops table. No backend knows another.
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "device/device_impl.h"
#include "device/reduce.h"
#include "shoal/options.h"

static const shoal_device_ops_t *const backends[] = {
#define SHOAL_DEVICE_BACKEND(name) &shoal_device_##name,
#include "device/backends.inc"
#undef SHOAL_DEVICE_BACKEND
};
#define BACKEND_COUNT ((int64_t)(sizeof backends / sizeof backends[0]))

const char *shoal_device_kind_name(int64_t index) {
  return index >= 0 && index < BACKEND_COUNT ? backends[index]->kind : NULL;
}

static shoal_status_t find_backend(const char *kind, const shoal_device_ops_t **out_ops) {
  const char *names[BACKEND_COUNT];
  for (int64_t i = 0; i < BACKEND_COUNT; ++i) {
    names[i] = backends[i]->kind;
    if (!kind || strcmp(kind, names[i]) == 0) {
      *out_ops = backends[i];
      return NULL;
    }
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(kind, names, BACKEND_COUNT, "`shoal info` lists the devices", &hint),
      "there is no device kind '%s'", kind);
}

shoal_status_t shoal_device_create(const shoal_device_options_t *options,
                                   shoal_device_t **out_device) {
  shoal_device_options_t filled = options ? *options : (shoal_device_options_t){0};
  if (!filled.allocator.alloc) filled.allocator = shoal_allocator_system();
  const shoal_device_ops_t *ops;
  SHOAL_RETURN_IF_ERROR(find_backend(filled.kind, &ops));
  shoal_device_t *device;
  SHOAL_RETURN_IF_ERROR(ops->create(&filled, &device));
  device->ops = ops;
  device->allocator = filled.allocator;
  device->target = ops->target(device);
  *out_device = device;
  return NULL;
}

void shoal_device_free(shoal_device_t *device) {
  if (device) device->ops->free(device);
}

const char *shoal_device_kind(const shoal_device_t *device) {
  return device->ops->kind;
}

shoal_target_t shoal_device_target(const shoal_device_t *device) {
  return device->target;
}

// ---- memory -------------------------------------------------------------------------

shoal_status_t shoal_device_alloc(shoal_device_t *device, int64_t bytes,
                                  shoal_address_t *out_address) {
  if (bytes < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "cannot allocate %lld bytes", (long long)bytes);
  }
  return device->ops->alloc(device, bytes, out_address);
}

void shoal_device_release(shoal_device_t *device, shoal_address_t address) {
  if (address) device->ops->release(device, address);
}

shoal_status_t shoal_device_alloc_host(shoal_device_t *device, int64_t bytes, void **out_memory) {
  *out_memory = NULL;
  if (bytes < 0)
    return SHOAL_ERROR(INVALID_ARGUMENT, "cannot allocate %lld bytes", (long long)bytes);
  if (device->ops->alloc_host) return device->ops->alloc_host(device, bytes, out_memory);
  *out_memory = device->allocator.alloc(device->allocator.self, (size_t)bytes);
  if (*out_memory) return NULL;
  return SHOAL_ERROR(OUT_OF_MEMORY, "the host has no %lld bytes of memory", (long long)bytes);
}

bool shoal_device_host_is_plain(const shoal_device_t *device) {
  return !device->ops->alloc_host;
}

void shoal_device_release_host(shoal_device_t *device, void *memory) {
  if (!memory) return;
  if (device->ops->release_host)
    device->ops->release_host(device, memory);
  else
    device->allocator.free(device->allocator.self, memory);
}

int64_t shoal_device_touched(shoal_device_t *device, shoal_address_t address) {
  return device->ops->touched ? device->ops->touched(device, address) : -1;
}

void *shoal_device_view(shoal_device_t *device, shoal_address_t address, int64_t bytes) {
  if (device->target.blind || !device->ops->view) return NULL;
  return device->ops->view(device, address, bytes);
}

// ---- queues and events --------------------------------------------------------------

shoal_status_t shoal_queue_create(shoal_device_t *device, shoal_queue_t **out_queue) {
  SHOAL_RETURN_IF_ERROR(device->ops->queue_create(device, out_queue));
  (*out_queue)->device = device;
  (*out_queue)->on_error = NULL;
  return NULL;
}

void shoal_queue_free(shoal_queue_t *queue) {
  if (queue) queue->device->ops->queue_free(queue);
}

shoal_status_t shoal_queue_reserve(shoal_queue_t *queue, int64_t commands) {
  if (commands < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a queue of %lld commands", (long long)commands);
  }
  return queue->device->ops->queue_reserve ? queue->device->ops->queue_reserve(queue, commands)
                                           : NULL;
}

shoal_status_t shoal_event_create(shoal_device_t *device, shoal_event_t **out_event) {
  SHOAL_RETURN_IF_ERROR(device->ops->event_create(device, out_event));
  (*out_event)->device = device;
  return NULL;
}

void shoal_event_free(shoal_event_t *event) {
  if (event) event->device->ops->event_free(event);
}

static shoal_status_t check_event(const shoal_queue_t *queue, const shoal_event_t *event) {
  if (event && event->device == queue->device) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "the event is missing or belongs to another device");
}

shoal_status_t shoal_queue_record(shoal_queue_t *queue, shoal_event_t *event) {
  SHOAL_RETURN_IF_ERROR(check_event(queue, event));
  return queue->device->ops->record(queue, event);
}

shoal_status_t shoal_queue_await(shoal_queue_t *queue, shoal_event_t *event) {
  SHOAL_RETURN_IF_ERROR(check_event(queue, event));
  return queue->device->ops->await(queue, event);
}

shoal_status_t shoal_queue_wait(shoal_queue_t *queue) {
  return queue->device->ops->wait(queue);
}

shoal_status_t shoal_event_wait(shoal_event_t *event) {
  return event->device->ops->event_wait(event);
}

bool shoal_event_done(const shoal_event_t *event) {
  return event->device->ops->event_done(event);
}

bool shoal_queue_failed(const shoal_queue_t *queue) {
  return queue->device->ops->failed(queue);
}

void shoal_queue_on_error(shoal_queue_t *queue, shoal_queue_error_fn_t function, void *self) {
  queue->on_error = function;
  queue->on_error_self = self;
}

// ---- work ---------------------------------------------------------------------------

static shoal_status_t check_launch(const shoal_device_t *device, const shoal_launch_t *launch) {
  const shoal_call_t *call = launch ? &launch->call : NULL;
  if (!call || !call->op) return SHOAL_ERROR(INVALID_ARGUMENT, "a launch needs an op");
  if ((call->input_count > 0 && (!call->inputs || !launch->inputs)) ||
      (call->output_count > 0 && (!call->outputs || !launch->outputs))) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "launch of '%s' lacks types or addresses of its operands",
                       call->op->name);
  }
  if (!launch->provider && !shoal_target_has_kernel(&device->target, call->op)) {
    return SHOAL_ERROR_HINT(UNSUPPORTED, "give the launch a kernel provider",
                            "op '%s' has no kernel on device '%s'", call->op->name,
                            shoal_device_kind(device));
  }
  for (int32_t i = 0; i < launch->bounded_count; ++i) {
    const shoal_bounded_t *bounded = &launch->bounded[i];
    const int32_t k = bounded->operand - call->input_count;
    const bool known = bounded->operand >= 0 && k < call->output_count;
    const shoal_type_t *type = !known  ? NULL
                               : k < 0 ? &call->inputs[bounded->operand]
                                       : &call->outputs[k];
    if (!known || type->shape.rank < 1 || !bounded->part ||
        (bounded->dtype != SHOAL_I32 && bounded->dtype != SHOAL_I64)) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "launch of '%s': operand %d has no rows that an integer could count",
                         call->op->name, bounded->operand);
    }
  }
  return NULL;
}

int64_t shoal_bounded_rows(const shoal_bounded_t *bounded, int64_t n) {
  const shoal_dim_part_t *part = bounded->part;
  int64_t rows = 0;
  for (int32_t i = 0; i < part->held_count && part->held[i].start < n; ++i) {
    const int64_t left = n - part->held[i].start;
    rows += left < part->held[i].size ? left : part->held[i].size;
  }
  return rows;
}

shoal_status_t shoal_launch_prepare(shoal_device_t *device, shoal_arena_t *arena,
                                    shoal_launch_t *launch) {
  SHOAL_RETURN_IF_ERROR(check_launch(device, launch));
  if (!device->ops->prepare) return NULL;
  return device->ops->prepare(device, launch, arena, &launch->prepared);
}

shoal_status_t shoal_queue_launch(shoal_queue_t *queue, const shoal_launch_t *launch) {
  if (!launch || !launch->prepared) SHOAL_RETURN_IF_ERROR(check_launch(queue->device, launch));
  return queue->device->ops->launch(queue, launch);
}

static shoal_status_t check_copy(const shoal_copy_t *copy) {
  if (!copy || (copy->piece_count > 0 && !copy->pieces)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a copy needs its pieces");
  }
  if (shoal_dtype_size(copy->dtype) == 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "copy of an unknown element type %d", (int)copy->dtype);
  }
  if (copy->accumulate && !shoal_reduce_supported(copy->dtype, copy->reduce)) {
    return SHOAL_ERROR(UNSUPPORTED, "elements of %s cannot be joined by %s",
                       shoal_dtype_name(copy->dtype), shoal_reduce_name(copy->reduce));
  }
  const bool half = copy->dtype == SHOAL_BF16 || copy->dtype == SHOAL_F16;
  if ((copy->widen || copy->narrow) && (!half || copy->widen == copy->narrow)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a copy of %s cannot be widened%s",
                       shoal_dtype_name(copy->dtype), half ? " and narrowed at once" : "");
  }
  if (copy->narrow && copy->accumulate) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a copy that is narrowed is not joined");
  }
  if (!copy->src && (copy->accumulate || copy->widen || copy->narrow)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a copy that joins or converts needs a source");
  }
  for (int64_t i = 0; i < copy->piece_count; ++i) {
    if (copy->pieces[i].rank < 0 || copy->pieces[i].rank > SHOAL_MAX_RANK) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "piece %lld of a copy has %d dims", (long long)i,
                         copy->pieces[i].rank);
    }
  }
  return NULL;
}

shoal_status_t shoal_copy_prepare(shoal_device_t *device, shoal_arena_t *arena,
                                  shoal_copy_t *copy) {
  SHOAL_RETURN_IF_ERROR(check_copy(copy));
  if (!device->ops->prepare_copy) return NULL;
  return device->ops->prepare_copy(device, copy, arena, &copy->prepared);
}

shoal_status_t shoal_queue_copy(shoal_queue_t *queue, const shoal_copy_t *copy) {
  if (!copy || !copy->prepared) SHOAL_RETURN_IF_ERROR(check_copy(copy));
  return queue->device->ops->copy(queue, copy);
}

static shoal_status_t check_bytes(const void *host, int64_t bytes) {
  if (bytes >= 0 && (host || bytes == 0)) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "a transfer of %lld bytes needs host memory",
                     (long long)bytes);
}

shoal_status_t shoal_queue_upload(shoal_queue_t *queue, const void *host, shoal_address_t device,
                                  int64_t bytes) {
  SHOAL_RETURN_IF_ERROR(check_bytes(host, bytes));
  return queue->device->ops->upload(queue, host, device, bytes);
}

shoal_status_t shoal_queue_download(shoal_queue_t *queue, shoal_address_t device, void *host,
                                    int64_t bytes) {
  SHOAL_RETURN_IF_ERROR(check_bytes(host, bytes));
  return queue->device->ops->download(queue, device, host, bytes);
}

static shoal_status_t check_fill(const shoal_fill_t *fill) {
  if (fill && shoal_dtype_size(fill->dtype) > 0 && fill->count >= 0) return NULL;
  return SHOAL_ERROR(INVALID_ARGUMENT, "cannot fill %lld elements of %s",
                     fill ? (long long)fill->count : 0,
                     fill ? shoal_dtype_name(fill->dtype) : "nothing");
}

shoal_status_t shoal_fill_prepare(shoal_device_t *device, shoal_arena_t *arena,
                                  shoal_fill_t *fill) {
  SHOAL_RETURN_IF_ERROR(check_fill(fill));
  if (!device->ops->prepare_fill) return NULL;
  return device->ops->prepare_fill(device, fill, arena, &fill->prepared);
}

shoal_status_t shoal_queue_fill(shoal_queue_t *queue, const shoal_fill_t *fill) {
  if (!fill || !fill->prepared) SHOAL_RETURN_IF_ERROR(check_fill(fill));
  return queue->device->ops->fill(queue, fill);
}

shoal_status_t shoal_queue_call(shoal_queue_t *queue, shoal_status_t (*function)(void *self),
                                void *self) {
  if (!function) return SHOAL_ERROR(INVALID_ARGUMENT, "a call needs a function");
  return queue->device->ops->call(queue, function, self);
}
