// Events of the CPU device: a record raises a counter when its queue reaches it, an await waits for
// the number that the event had when the await was enqueued. So a queue only ever waits for work
// that is already enqueued: queues cannot wait for each other in a circle, and a queue that failed
// still passes its records.
#include "base/status.h"
#include "device/backends/cpu/cpu.h"

// ---- life ---------------------------------------------------------------------------

// An event's memory stays with the device: whoever waited for it may free it while the queue's
// thread, which has let the waiter go, still looks whether others sleep. Numbers go on from where
// they were.
shoal_status_t shoal_cpu_event_create(shoal_device_t *base, shoal_event_t **out_event) {
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base;
  shoal_mutex_lock(&device->lock);
  shoal_cpu_event_t *event = device->spare_events;
  if (event) device->spare_events = event->next;
  shoal_mutex_unlock(&device->lock);
  if (!event) {
    event = base->allocator.alloc(base->allocator.self, sizeof *event);
    if (!event) return SHOAL_OOM();
    *event = (shoal_cpu_event_t){0};
  }
  *out_event = &event->base;
  return NULL;
}

void shoal_cpu_event_free(shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  shoal_cpu_device_t *device = (shoal_cpu_device_t *)base->device;
  shoal_mutex_lock(&device->lock);
  event->next = device->spare_events;
  device->spare_events = event;
  shoal_mutex_unlock(&device->lock);
}

void shoal_cpu_events_free(shoal_cpu_device_t *device) {
  shoal_allocator_t allocator = device->base.allocator;
  while (device->spare_events) {
    shoal_cpu_event_t *event = device->spare_events;
    device->spare_events = event->next;
    allocator.free(allocator.self, event);
  }
}

// ---- the host's side ----------------------------------------------------------------

shoal_status_t shoal_cpu_record(shoal_queue_t *queue, shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  const uint64_t number = atomic_fetch_add(&event->recorded, 1) + 1;
  shoal_cpu_enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_RECORD,
                                                  .event = {.event = event, .number = number}});
  return NULL;
}

shoal_status_t shoal_cpu_await(shoal_queue_t *queue, shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  const uint64_t number = atomic_load(&event->recorded);
  if (shoal_counter_get(&event->done) >= number) return NULL;  // nothing to wait for any more
  shoal_cpu_enqueue(queue, &(shoal_cpu_command_t){.kind = SHOAL_CPU_AWAIT,
                                                  .event = {.event = event, .number = number}});
  return NULL;
}

shoal_status_t shoal_cpu_event_wait(shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  const shoal_cpu_device_t *device = (const shoal_cpu_device_t *)base->device;
  // Records that come later are not waited for.
  shoal_counter_wait(&event->done, atomic_load(&event->recorded), device->spin_ns);
  return NULL;
}

bool shoal_cpu_event_done(const shoal_event_t *base) {
  const shoal_cpu_event_t *event = (const shoal_cpu_event_t *)base;
  return shoal_counter_get(&event->done) >= atomic_load(&event->recorded);
}
