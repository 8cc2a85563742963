// Communication on a device's queue, on device memory: prepared once, at load, then enqueued any
// number of times without an allocation.
//
// There are three ways, chosen when a work is prepared. *Native*: the backend has a slot for it and
// enqueues it itself (NCCL on a CUDA stream). *Viewed*: one host call on the queue, which works on
// the host's view of the device's memory. *Bounced*, where the device has no view: downloads into
// host memory, a host call, uploads.
#ifndef SHOAL_COMM_ENQUEUE_H_
#define SHOAL_COMM_ENQUEUE_H_

#include "shoal/comm.h"
#include "shoal/device.h"

typedef enum shoal_work_way {
  SHOAL_WORK_NATIVE,
  SHOAL_WORK_VIEWED,
  SHOAL_WORK_BOUNCED
} shoal_work_way_t;

typedef struct shoal_work {
  // What it does, the caller's to fill in; everything that is pointed to stays until it is freed.
  shoal_world_t *world;
  const char *label;  // for reports, as shoal_comm_label's; may be NULL
  const char *what;   // errors of the host call are annotated with it; NULL: with nothing
  // A collective of `group`; its own `send` and `recv` are not used,
  shoal_group_t *group;
  shoal_collective_t collective;
  shoal_address_t send, recv;
  // or, where there is no group, messages on a lane (NULL: the world's order). Their data is filled
  // in here.
  shoal_lane_t *lane;
  int32_t send_count, recv_count;
  shoal_message_t *sends, *recvs;
  const shoal_address_t *send_at, *recv_at;
  // Messages that are only sent may be *posted*: the queue goes on at once, and the next enqueueing
  // of this work first waits, on the queue, until the sends before it are through. Natively they
  // take their turn on the queue.
  bool posts;

  // Filled in by shoal_work_prepare:
  shoal_work_way_t way;
  int64_t bounce_bytes;  // of host memory, at `bounce`; 0 unless it is bounced
  // The caller's to set, before it is enqueued. Works of one queue may share it, unless they post;
  // memory of shoal_comm_alloc spares a copy.
  char *bounce;
  // Private:
  shoal_device_t *device;
  const char *bounced;  // where the messages' data was pointed to
  shoal_exchange_t exchange;
  bool under_way;        // posted, and not waited for yet; the queue's thread only
  shoal_event_t *event;  // native
  uint64_t record;       // native: of the latest enqueueing
  shoal_queue_t *queue;  // native: in flight there
  bool in_flight;
  struct shoal_work *next;  // native: in flight, oldest first
} shoal_work_t;

// The way of all works of a world on a device.
shoal_work_way_t shoal_work_way(const shoal_world_t *world, const shoal_device_t *device);
// Chooses the way. `device` is borrowed.
SHOAL_MUST_USE shoal_status_t shoal_work_prepare(shoal_device_t *device, shoal_work_t *work);
// Once nothing of it is enqueued or under way any more. A zeroed work is allowed.
void shoal_work_deinit(shoal_work_t *work);
// The most commands that enqueueing takes on a queue: see shoal_queue_reserve.
int64_t shoal_work_commands(const shoal_work_t *work);
// *Collective* over the ranks that take part: on one lane, ranks enqueue in the same order.
SHOAL_MUST_USE shoal_status_t shoal_work_enqueue(shoal_work_t *work, shoal_queue_t *queue);
// Waits until what was posted is through. On the queue, or when the queue is idle.
SHOAL_MUST_USE shoal_status_t shoal_work_wait(shoal_work_t *work);

// Says that the exchanges which were started will not be waited for soon.
void shoal_world_stir(shoal_world_t *world);

// ---- records --------------------------------------------------------------------------

// Work whose host call runs later: counted in reports until it begins.
void shoal_record_enqueued(shoal_world_t *world);
void shoal_record_begun(shoal_world_t *world);
// Completes the records of native work whose events have fired.
void shoal_record_settle(shoal_world_t *world);

#endif  // SHOAL_COMM_ENQUEUE_H_
