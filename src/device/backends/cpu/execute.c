// What one command does. Every operand is found, hence checked, and marked before it is used.
#include <string.h>

#include "base/status.h"
#include "device/backends/cpu/cpu.h"

shoal_status_t shoal_cpu_find_predicate(shoal_cpu_device_t *device, const shoal_address_t *address,
                                        shoal_cpu_predicate_t *out_predicate) {
  out_predicate->is_there = address != NULL;
  return shoal_cpu_find(device, address ? *address : 0, address != NULL, "predicate",
                        &out_predicate->place);
}

bool shoal_cpu_enabled(const shoal_cpu_predicate_t *predicate) {
  if (!predicate->is_there) return true;
  shoal_cpu_mark(&predicate->place);
  return *(const uint8_t *)predicate->place.data != 0;
}

// ---- prepared, if only now ----------------------------------------------------------

static shoal_status_t execute_launch(shoal_cpu_queue_t *queue, const shoal_launch_t *launch) {
  const shoal_prepared_t *prepared = launch->prepared;
  if (!prepared) {
    shoal_arena_clear(&queue->scratch);
    SHOAL_RETURN_IF_ERROR(
        shoal_cpu_prepare(&queue->device->base, launch, &queue->scratch, &prepared));
  }
  return shoal_cpu_launch(launch, prepared);
}

static shoal_status_t execute_copy(shoal_cpu_queue_t *queue, const shoal_copy_t *copy) {
  const shoal_prepared_copy_t *prepared = copy->prepared;
  if (!prepared) {
    shoal_arena_clear(&queue->scratch);
    SHOAL_RETURN_IF_ERROR(
        shoal_cpu_prepare_copy(&queue->device->base, copy, &queue->scratch, &prepared));
  }
  shoal_cpu_copy(copy, prepared);
  return NULL;
}

static shoal_status_t execute_fill(shoal_cpu_queue_t *queue, const shoal_fill_t *fill) {
  const shoal_prepared_fill_t *prepared = fill->prepared;
  if (!prepared) {
    shoal_arena_clear(&queue->scratch);
    SHOAL_RETURN_IF_ERROR(
        shoal_cpu_prepare_fill(&queue->device->base, fill, &queue->scratch, &prepared));
  }
  shoal_cpu_fill(fill, prepared);
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
      return execute_fill(queue, &command->fill);
    case SHOAL_CPU_CALL:
      return command->call.function(command->call.self);
    case SHOAL_CPU_RECORD:
    case SHOAL_CPU_AWAIT:
    case SHOAL_CPU_STOP:
      break;
  }
  return NULL;
}
