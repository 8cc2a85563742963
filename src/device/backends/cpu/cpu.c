// The CPU's ops table: creation, and commands for the queues. See cpu.h for the modes.
#include "device/backends/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>

#include "base/status.h"

// What the environment says; NULL: nothing, or "0".
static const char *asked_for(const char *variable) {
  const char *value = getenv(variable);
  return value && value[0] && strcmp(value, "0") != 0 ? value : NULL;
}

static shoal_status_t cpu_create(const shoal_device_options_t *options,
                                 shoal_device_t **out_device) {
  shoal_cpu_device_t *device = options->allocator.alloc(options->allocator.self, sizeof *device);
  if (!device) return SHOAL_OOM();
  *device = (shoal_cpu_device_t){.pages = options->pages, .spin_ns = shoal_counter_spin()};
  const char *opaque = asked_for("SHOAL_DEVICE_OPAQUE");
  device->blind = options->blind || (opaque && strcmp(opaque, "blind") == 0);
  device->opaque = options->opaque || opaque || device->blind;
  const char *concurrent = getenv("SHOAL_DEVICE_CONCURRENT");
  device->concurrent = concurrent && concurrent[0] ? asked_for("SHOAL_DEVICE_CONCURRENT") != NULL
                                                   : options->concurrent;
  device->concurrent |= device->opaque;
  shoal_status_t status = shoal_mutex_init(&device->lock);
  if (status) {
    options->allocator.free(options->allocator.self, device);
    return status;
  }
  *out_device = &device->base;
  return NULL;
}

static void cpu_free(shoal_device_t *base) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  while (device->allocations) shoal_cpu_release(base, device->allocations->address);
  shoal_cpu_events_free(device);
  shoal_mutex_deinit(&device->lock);
  shoal_allocator_t allocator = base->allocator;
  allocator.free(allocator.self, device);
}

static shoal_target_t cpu_target(const shoal_device_t *device) {
  shoal_target_t target = shoal_target_cpu();
  target.overlaps = ((const shoal_cpu_device_t *)device)->concurrent;
  target.blind = ((const shoal_cpu_device_t *)device)->blind;
  return target;
}

static shoal_status_t enqueue(shoal_queue_t *queue, const shoal_cpu_command_t *command) {
  shoal_cpu_enqueue(queue, command);
  return NULL;
}

static shoal_status_t cpu_launch(shoal_queue_t *queue, const shoal_launch_t *launch) {
  return enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_LAUNCH, .launch = launch});
}

static shoal_status_t cpu_copy(shoal_queue_t *queue, const shoal_copy_t *copy) {
  return enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_COPY, .copy = copy});
}

static shoal_status_t cpu_upload(shoal_queue_t *queue, const void *host, shoal_address_t device,
                                 int64_t bytes) {
  return enqueue(
      queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_UPLOAD,
                                    .transfer = {.address = device, .from = host, .bytes = bytes}});
}

static shoal_status_t cpu_download(shoal_queue_t *queue, shoal_address_t device, void *host,
                                   int64_t bytes) {
  return enqueue(
      queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_DOWNLOAD,
                                    .transfer = {.address = device, .to = host, .bytes = bytes}});
}

static shoal_status_t cpu_fill(shoal_queue_t *queue, const shoal_fill_t *fill) {
  return enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_FILL, .fill = *fill});
}

static shoal_status_t cpu_call(shoal_queue_t *queue, shoal_status_t (*function)(void *self),
                               void *self) {
  return enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_CALL, .call = {function, self}});
}

const shoal_device_ops_t shoal_device_cpu = {
    .kind = "cpu",
    .create = cpu_create,
    .free = cpu_free,
    .target = cpu_target,
    .alloc = shoal_cpu_alloc,
    .release = shoal_cpu_release,
    .touched = shoal_cpu_touched,
    .view = shoal_cpu_view,
    .queue_create = shoal_cpu_queue_create,
    .queue_free = shoal_cpu_queue_free,
    .queue_reserve = shoal_cpu_queue_reserve,
    .event_create = shoal_cpu_event_create,
    .event_free = shoal_cpu_event_free,
    .record = shoal_cpu_record,
    .await = shoal_cpu_await,
    .wait = shoal_cpu_queue_wait,
    .failed = shoal_cpu_queue_failed,
    .event_wait = shoal_cpu_event_wait,
    .event_done = shoal_cpu_event_done,
    .prepare = shoal_cpu_prepare,
    .prepare_copy = shoal_cpu_prepare_copy,
    .prepare_fill = shoal_cpu_prepare_fill,
    .launch = cpu_launch,
    .copy = cpu_copy,
    .upload = cpu_upload,
    .download = cpu_download,
    .fill = cpu_fill,
    .call = cpu_call,
};
