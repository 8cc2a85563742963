// Queues and events of the CPU device.
//
// An await waits for the latest record of its event that was enqueued before it, as on CUDA. So a
// queue only ever waits for work that is already enqueued: queues cannot wait for each other in a
// circle, and a queue that failed still passes its records.
//
// The ring grows to the number of commands enqueued between two waits of the host (whatever part of
// them is already done: growth must not depend on timing), then stays: the steady state allocates
// nothing.
#include <string.h>

#include "base/status.h"
#include "device/backends/cpu/cpu.h"

#define FIRST_CAPACITY 1024   // commands
#define EAGER_CAPACITY 65536  // beyond this the ring grows only when it is really full

// ---- events -------------------------------------------------------------------------

shoal_status_t shoal_cpu_event_create(shoal_device_t *device, shoal_event_t **out_event) {
  shoal_cpu_event_t *event = device->allocator.alloc(device->allocator.self, sizeof *event);
  if (!event) return SHOAL_OOM();
  *event = (shoal_cpu_event_t){0};
  shoal_status_t status = shoal_mutex_init(&event->lock);
  if (!status) {
    status = shoal_cond_init(&event->fired);
    if (status) shoal_mutex_deinit(&event->lock);
  }
  if (status) {
    device->allocator.free(device->allocator.self, event);
    return status;
  }
  *out_event = &event->base;
  return NULL;
}

void shoal_cpu_event_free(shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  shoal_cond_deinit(&event->fired);
  shoal_mutex_deinit(&event->lock);
  shoal_allocator_t allocator = base->device->allocator;
  allocator.free(allocator.self, event);
}

static void fire(shoal_cpu_event_t *event, uint64_t number) {
  shoal_mutex_lock(&event->lock);
  if (event->done < number) event->done = number;
  shoal_cond_broadcast(&event->fired);
  shoal_mutex_unlock(&event->lock);
}

static void await(shoal_cpu_event_t *event, uint64_t number) {
  shoal_mutex_lock(&event->lock);
  while (event->done < number) shoal_cond_wait(&event->fired, &event->lock);
  shoal_mutex_unlock(&event->lock);
}

shoal_status_t shoal_cpu_event_wait(shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  shoal_mutex_lock(&event->lock);
  const uint64_t number = event->recorded;  // later records are not waited for
  shoal_mutex_unlock(&event->lock);
  await(event, number);
  return NULL;
}

bool shoal_cpu_event_done(const shoal_event_t *base) {
  shoal_cpu_event_t *event = (shoal_cpu_event_t *)base;
  shoal_mutex_lock(&event->lock);
  const bool done = event->done >= event->recorded;
  shoal_mutex_unlock(&event->lock);
  return done;
}

// ---- running commands ---------------------------------------------------------------

static void run(shoal_cpu_queue_t *queue, const shoal_cpu_command_t *command) {
  if (command->kind == SHOAL_CPU_RECORD) {
    fire(command->event.event, command->event.number);
  } else if (command->kind == SHOAL_CPU_AWAIT) {
    await(command->event.event, command->event.number);
  } else {
    shoal_mutex_lock(&queue->lock);
    bool failed = queue->error != NULL;
    shoal_mutex_unlock(&queue->lock);
    if (failed) return;
    shoal_status_t status = shoal_cpu_execute(queue, command);
    if (!status) return;
    shoal_mutex_lock(&queue->lock);
    queue->error = status;
    shoal_mutex_unlock(&queue->lock);
    // The host cannot take the status away meanwhile: this command is not finished.
    if (queue->base.on_error) queue->base.on_error(queue->base.on_error_self, status);
  }
}

static void work(void *self) {
  shoal_cpu_queue_t *queue = self;
  shoal_mutex_lock(&queue->lock);
  for (;;) {
    while (queue->head == queue->tail && !queue->stop) {
      shoal_cond_wait(&queue->work, &queue->lock);
    }
    if (queue->head == queue->tail) break;
    shoal_cpu_command_t command = queue->ring[queue->head & (queue->capacity - 1)];
    shoal_mutex_unlock(&queue->lock);
    run(queue, &command);
    shoal_mutex_lock(&queue->lock);
    if (++queue->head == queue->tail) shoal_cond_broadcast(&queue->idle);
  }
  shoal_mutex_unlock(&queue->lock);
}

// ---- the ring -----------------------------------------------------------------------

// Called with the lock held.
static shoal_status_t make_room(shoal_cpu_queue_t *queue) {
  const bool full = queue->tail - queue->head == queue->capacity;
  const bool warming = queue->since_wait >= queue->capacity && queue->capacity < EAGER_CAPACITY;
  if (!full && !warming) return NULL;
  shoal_allocator_t allocator = queue->device->base.allocator;
  const int64_t capacity = queue->capacity * 2;
  shoal_cpu_command_t *ring = allocator.alloc(allocator.self, (size_t)capacity * sizeof *ring);
  if (!ring) return full ? SHOAL_OOM() : NULL;
  for (int64_t i = queue->head; i < queue->tail; ++i) {
    ring[i & (capacity - 1)] = queue->ring[i & (queue->capacity - 1)];
  }
  allocator.free(allocator.self, queue->ring);
  queue->ring = ring;
  queue->capacity = capacity;
  return NULL;
}

shoal_status_t shoal_cpu_enqueue(shoal_queue_t *base, const shoal_cpu_command_t *given) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  shoal_cpu_command_t command = *given;
  if (command.kind == SHOAL_CPU_RECORD || command.kind == SHOAL_CPU_AWAIT) {
    shoal_cpu_event_t *event = command.event.event;
    shoal_mutex_lock(&event->lock);
    if (command.kind == SHOAL_CPU_RECORD) ++event->recorded;
    command.event.number = event->recorded;
    shoal_mutex_unlock(&event->lock);
  }
  if (!queue->ring) {
    run(queue, &command);
    return NULL;
  }
  shoal_mutex_lock(&queue->lock);
  shoal_status_t status = make_room(queue);
  if (!status) {
    queue->ring[queue->tail++ & (queue->capacity - 1)] = command;
    ++queue->since_wait;
    shoal_cond_signal(&queue->work);
  }
  shoal_mutex_unlock(&queue->lock);
  // The record will never be enqueued: do not let anybody wait for it.
  if (status && command.kind == SHOAL_CPU_RECORD) fire(command.event.event, command.event.number);
  return status;
}

shoal_status_t shoal_cpu_queue_wait(shoal_queue_t *base) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  shoal_mutex_lock(&queue->lock);
  while (queue->head != queue->tail) shoal_cond_wait(&queue->idle, &queue->lock);
  queue->since_wait = 0;
  shoal_status_t status = queue->error;
  queue->error = NULL;
  shoal_mutex_unlock(&queue->lock);
  return status;
}

bool shoal_cpu_queue_failed(const shoal_queue_t *base) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  shoal_mutex_lock(&queue->lock);
  const bool failed = queue->error != NULL;
  shoal_mutex_unlock(&queue->lock);
  return failed;
}

// ---- life ---------------------------------------------------------------------------

static void free_storage(shoal_cpu_queue_t *queue) {
  shoal_allocator_t allocator = queue->device->base.allocator;
  allocator.free(allocator.self, queue->tensors);
  allocator.free(allocator.self, queue->places);
  allocator.free(allocator.self, queue->ring);
  allocator.free(allocator.self, queue);
}

shoal_status_t shoal_cpu_queue_create(shoal_device_t *device, shoal_queue_t **out_queue) {
  shoal_allocator_t allocator = device->allocator;
  shoal_cpu_queue_t *queue = allocator.alloc(allocator.self, sizeof *queue);
  if (!queue) return SHOAL_OOM();
  *queue = (shoal_cpu_queue_t){.device = (shoal_cpu_device_t *)device};
  shoal_status_t status = NULL;
  if (queue->device->concurrent) {
    queue->capacity = FIRST_CAPACITY;
    queue->ring = allocator.alloc(allocator.self, FIRST_CAPACITY * sizeof *queue->ring);
    if (!queue->ring) SHOAL_GOTO_IF_ERROR(status, no_lock, SHOAL_OOM());
  }
  SHOAL_GOTO_IF_ERROR(status, no_lock, shoal_mutex_init(&queue->lock));
  SHOAL_GOTO_IF_ERROR(status, no_work, shoal_cond_init(&queue->work));
  SHOAL_GOTO_IF_ERROR(status, no_idle, shoal_cond_init(&queue->idle));
  if (queue->ring) {
    SHOAL_GOTO_IF_ERROR(status, no_thread, shoal_thread_start(work, queue, &queue->thread));
  }
  *out_queue = &queue->base;
  return NULL;

no_thread:
  shoal_cond_deinit(&queue->idle);
no_idle:
  shoal_cond_deinit(&queue->work);
no_work:
  shoal_mutex_deinit(&queue->lock);
no_lock:
  free_storage(queue);
  return status;
}

void shoal_cpu_queue_free(shoal_queue_t *base) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  shoal_mutex_lock(&queue->lock);
  queue->stop = true;  // what is enqueued still runs
  shoal_cond_signal(&queue->work);
  shoal_mutex_unlock(&queue->lock);
  shoal_thread_join(&queue->thread);
  shoal_status_free(queue->error);
  shoal_cond_deinit(&queue->idle);
  shoal_cond_deinit(&queue->work);
  shoal_mutex_deinit(&queue->lock);
  free_storage(queue);
}
