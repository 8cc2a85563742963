// Queues of the CPU device: a ring of commands with one producer, the host thread that enqueues,
// and one consumer, the queue's own thread. Both ends are counters (base/thread.h): no locks, and
// system calls only where one of the two sleeps.
//
// The ring has a fixed size: the steady state allocates nothing, however far the host runs ahead.
// Where it is full the host waits until a command is done. That ends: the queue's thread waits for
// nothing but records of events, and those are enqueued already.
#include "base/status.h"
#include "device/backends/cpu/cpu.h"

#define FIRST_CAPACITY 1024  // commands

// ---- running commands ---------------------------------------------------------------

static void run(shoal_cpu_queue_t *queue, const shoal_cpu_command_t *command) {
  if (command->kind == SHOAL_CPU_RECORD) {
    shoal_counter_raise(&command->event.event->done, command->event.number);
  } else if (command->kind == SHOAL_CPU_AWAIT) {
    shoal_counter_wait(&command->event.event->done, command->event.number, queue->device->spin_ns);
  } else if (!queue->error) {
    shoal_status_t status = shoal_cpu_execute(queue, command);
    if (!status) return;
    queue->error = status;
    atomic_store(&queue->failed, true);
    // The host cannot take the status away meanwhile: this command is not finished.
    if (queue->base.on_error) queue->base.on_error(queue->base.on_error_self, status);
  }
}

static void work(void *self) {
  shoal_cpu_queue_t *queue = self;
  shoal_cpu_enter(queue);
  for (uint64_t done = 0;;) {
    shoal_counter_wait(&queue->enqueued, done + 1, queue->device->spin_ns);
    const uint64_t tail = shoal_counter_get(&queue->enqueued);
    while (done < tail) {
      const shoal_cpu_command_t *command = &queue->ring[done & (queue->capacity - 1)];
      if (command->kind == SHOAL_CPU_STOP) return;
      run(queue, command);
      shoal_counter_raise(&queue->finished, ++done);
    }
  }
}

// ---- the host's side ----------------------------------------------------------------

static void wait_until_finished(shoal_cpu_queue_t *queue, uint64_t count) {
  shoal_counter_wait(&queue->finished, count, queue->device->spin_ns);
  queue->head_seen = shoal_counter_get(&queue->finished);
}

void shoal_cpu_enqueue(shoal_queue_t *base, const shoal_cpu_command_t *command) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  if (!queue->ring) {
    shoal_cpu_queue_t *before = shoal_cpu_enter(queue);
    run(queue, command);
    shoal_cpu_enter(before);
    return;
  }
  if (queue->tail - queue->head_seen == queue->capacity) {
    wait_until_finished(queue, queue->tail - queue->capacity + 1);
  }
  queue->ring[queue->tail & (queue->capacity - 1)] = *command;
  shoal_counter_raise(&queue->enqueued, ++queue->tail);
}

shoal_status_t shoal_cpu_queue_wait(shoal_queue_t *base) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  if (queue->ring) wait_until_finished(queue, queue->tail);
  shoal_status_t status = queue->error;
  queue->error = NULL;
  atomic_store(&queue->failed, false);
  return status;
}

bool shoal_cpu_queue_failed(const shoal_queue_t *queue) {
  return atomic_load(&((const shoal_cpu_queue_t *)queue)->failed);
}

shoal_status_t shoal_cpu_queue_reserve(shoal_queue_t *base, int64_t commands) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  shoal_allocator_t allocator = queue->device->base.allocator;
  if (!queue->ring || (uint64_t)commands <= queue->capacity) return NULL;
  uint64_t capacity = queue->capacity;
  while (capacity < (uint64_t)commands) capacity *= 2;
  if (capacity > SIZE_MAX / sizeof *queue->ring) return SHOAL_OOM();
  shoal_cpu_command_t *ring =
      allocator.alloc(allocator.self, (size_t)capacity * sizeof *queue->ring);
  if (!ring) return SHOAL_OOM();
  wait_until_finished(queue,
                      queue->tail);  // the worker then looks at the ring after an enqueue only
  allocator.free(allocator.self, queue->ring);
  queue->ring = ring;
  queue->capacity = capacity;
  return NULL;
}

// ---- life ---------------------------------------------------------------------------

static void free_storage(shoal_cpu_queue_t *queue) {
  shoal_allocator_t allocator = queue->device->base.allocator;
  shoal_arena_deinit(&queue->scratch);
  allocator.free(allocator.self, queue->ring);
  allocator.free(allocator.self, queue);
}

shoal_status_t shoal_cpu_queue_create(shoal_device_t *device, shoal_queue_t **out_queue) {
  shoal_allocator_t allocator = device->allocator;
  shoal_cpu_queue_t *queue = allocator.alloc(allocator.self, sizeof *queue);
  if (!queue) return SHOAL_OOM();
  *queue = (shoal_cpu_queue_t){.device = (shoal_cpu_device_t *)device};
  shoal_arena_init(allocator, &queue->scratch);
  if (queue->device->concurrent) {
    queue->capacity = FIRST_CAPACITY;
    queue->ring = allocator.alloc(allocator.self, FIRST_CAPACITY * sizeof *queue->ring);
    shoal_status_t status =
        queue->ring ? shoal_thread_start(work, queue, &queue->thread) : SHOAL_OOM();
    if (status) {
      free_storage(queue);
      return status;
    }
  }
  *out_queue = &queue->base;
  return NULL;
}

void shoal_cpu_queue_free(shoal_queue_t *base) {
  shoal_cpu_queue_t *queue = (shoal_cpu_queue_t *)base;
  if (queue->ring) {  // what is enqueued still runs
    shoal_cpu_enqueue(base, &(shoal_cpu_command_t){.kind = SHOAL_CPU_STOP});
    shoal_thread_join(&queue->thread);
  }
  shoal_status_free(queue->error);
  free_storage(queue);
}
