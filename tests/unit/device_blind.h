// Devices in the three ways in which communication may be enqueued on them, for the tests of comm
// and of primitives.
#ifndef SHOAL_TESTS_UNIT_DEVICE_BLIND_H_
#define SHOAL_TESTS_UNIT_DEVICE_BLIND_H_

#include <stdlib.h>

#include "comm/comm_impl.h"
#include "comm_ranks.h"
#include "shoal/device.h"

// Native is played by host calls that a backend of the test's enqueues itself.
static const char *const way_names[] = {"native", "viewed", "bounced"};

static inline bool native_enqueues(const shoal_world_t *world, const shoal_device_t *device) {
  (void)world, (void)device;
  return true;
}

static inline shoal_status_t native_collective(void *self) {
  shoal_work_t *work = self;
  shoal_collective_t c = work->collective;
  c.send = shoal_device_view(work->device, work->send, 1);
  c.recv = shoal_device_view(work->device, work->recv, 1);
  if (c.kind == SHOAL_COLLECTIVE_BROADCAST) c.send = c.recv;
  return shoal_collective_run(work->group, &c);
}

static inline shoal_status_t native_exchange(void *self) {
  shoal_work_t *work = self;
  for (int32_t i = 0; i < work->send_count; ++i) {
    work->sends[i].data = shoal_device_view(work->device, work->send_at[i], work->sends[i].bytes);
  }
  for (int32_t i = 0; i < work->recv_count; ++i) {
    work->recvs[i].data = shoal_device_view(work->device, work->recv_at[i], work->recvs[i].bytes);
  }
  shoal_exchange_t e;
  SHOAL_RETURN_IF_ERROR(shoal_lane_exchange_start(work->lane, work->send_count, work->sends,
                                                  work->recv_count, work->recvs, &e));
  return shoal_exchange_wait(&e);
}

static inline shoal_status_t native_collective_enqueue(shoal_work_t *work, shoal_queue_t *queue) {
  return shoal_queue_call(queue, native_collective, work);
}

static inline shoal_status_t native_exchange_enqueue(shoal_work_t *work, shoal_queue_t *queue) {
  return shoal_queue_call(queue, native_exchange, work);
}

// A device with a thread per queue, on which this world's works go `way`. Until restore_world, the
// world has ops of its own.
typedef struct way_world {
  shoal_comm_ops_t ops;
  const shoal_comm_ops_t *before;
} way_world_t;

SHOAL_MUST_USE static inline shoal_status_t make_way(shoal_world_t *world, shoal_work_way_t way,
                                                     shoal_allocator_t allocator,
                                                     shoal_device_t **out_device) {
  const shoal_device_options_t options = {
      .opaque = true, .blind = way == SHOAL_WORK_BOUNCED, .allocator = allocator};
  SHOAL_RETURN_IF_ERROR(shoal_device_create(&options, out_device));
  way_world_t *own = malloc(sizeof *own);
  *own = (way_world_t){.ops = *world->ops, .before = world->ops};
  if (way == SHOAL_WORK_NATIVE) {
    own->ops.enqueues = native_enqueues;
    own->ops.collective_enqueue = native_collective_enqueue;
    own->ops.exchange_enqueue = native_exchange_enqueue;
  }
  world->ops = &own->ops;
  return NULL;
}

static inline void restore_world(shoal_world_t *world) {
  way_world_t *own = (way_world_t *)(uintptr_t)world->ops;
  world->ops = own->before;
  free(own);
}

#endif  // SHOAL_TESTS_UNIT_DEVICE_BLIND_H_
