// Works on a queue: the host calls and bounce buffers of backends that cannot enqueue, and the
// records of those that can.
#include "comm/enqueue.h"

#include <string.h>

#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "device/device.h"

enum { ALIGNMENT = 64 };  // of buffers in the bounce memory

static int64_t aligned(int64_t bytes) {
  return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

// ---- where buffers lie ----------------------------------------------------------------

// Bytes of a collective's buffers on this rank.
typedef struct buffers {
  int64_t sent, received;
  bool same;  // one buffer is both
} buffers_t;

static buffers_t buffers_of(const shoal_work_t *work) {
  const int64_t element = (int64_t)shoal_dtype_size(work->collective.dtype);
  const int64_t sent = shoal_collective_sent(work->group, &work->collective) * element;
  const int64_t received = shoal_collective_received(work->group, &work->collective) * element;
  const bool broadcast = work->collective.kind == SHOAL_COLLECTIVE_BROADCAST;
  return (buffers_t){sent, received, broadcast || (work->send == work->recv && sent == received)};
}

static int64_t bounce_bytes(const shoal_work_t *work) {
  if (work->group) {
    const buffers_t b = buffers_of(work);
    if (b.same) return aligned(b.sent > b.received ? b.sent : b.received);
    return aligned(b.sent) + aligned(b.received);
  }
  int64_t bytes = 0;
  for (int32_t i = 0; i < work->send_count; ++i) bytes += aligned(work->sends[i].bytes);
  for (int32_t i = 0; i < work->recv_count; ++i) bytes += aligned(work->recvs[i].bytes);
  return bytes;
}

// The host's pointer to device memory; NULL where there are no bytes.
static shoal_status_t view(shoal_work_t *work, shoal_address_t address, int64_t bytes,
                           void **out_data) {
  *out_data = NULL;
  if (bytes == 0) return NULL;
  *out_data = shoal_device_view(work->device, address, bytes);
  if (*out_data) return NULL;
  return SHOAL_ERROR(UNSUPPORTED, "the host cannot read memory of device '%s'",
                     shoal_device_kind(work->device));
}

// Points the messages' data to the view.
static shoal_status_t view_messages(shoal_work_t *work) {
  for (int32_t i = 0; i < work->send_count; ++i) {
    SHOAL_RETURN_IF_ERROR(view(work, work->send_at[i], work->sends[i].bytes, &work->sends[i].data));
  }
  for (int32_t i = 0; i < work->recv_count; ++i) {
    SHOAL_RETURN_IF_ERROR(view(work, work->recv_at[i], work->recvs[i].bytes, &work->recvs[i].data));
  }
  return NULL;
}

// Points them, once, to the bounce memory: sends, then receives.
static void bounce_messages(shoal_work_t *work) {
  char *at = work->bounce;
  if (work->bounced == at) return;
  work->bounced = at;
  for (int32_t i = 0; i < work->send_count; ++i) {
    work->sends[i].data = at;
    at += aligned(work->sends[i].bytes);
  }
  for (int32_t i = 0; i < work->recv_count; ++i) {
    work->recvs[i].data = at;
    at += aligned(work->recvs[i].bytes);
  }
}

// ---- the host's calls -----------------------------------------------------------------

static shoal_status_t run_collective(shoal_work_t *work) {
  const buffers_t b = buffers_of(work);
  shoal_collective_t collective = work->collective;
  void *send = work->bounce, *recv = b.same ? work->bounce : work->bounce + aligned(b.sent);
  if (work->way == SHOAL_WORK_VIEWED) {
    SHOAL_RETURN_IF_ERROR(view(work, work->send, b.sent, &send));
    SHOAL_RETURN_IF_ERROR(view(work, work->recv, b.received, &recv));
    if (collective.kind == SHOAL_COLLECTIVE_BROADCAST) {
      send = recv = work->group->rank == collective.root ? send : recv;
    }
  }
  collective.send = send;
  collective.recv = recv;
  return shoal_collective_run(work->group, &collective);
}

shoal_status_t shoal_work_wait(shoal_work_t *work) {
  if (!work->under_way) return NULL;
  work->under_way = false;
  return shoal_exchange_wait(&work->exchange);
}

static shoal_status_t run_messages(shoal_work_t *work) {
  SHOAL_RETURN_IF_ERROR(shoal_work_wait(work));
  if (work->way == SHOAL_WORK_VIEWED) SHOAL_RETURN_IF_ERROR(view_messages(work));
  SHOAL_RETURN_IF_ERROR(
      work->lane ? shoal_lane_exchange_start(work->lane, work->send_count, work->sends,
                                             work->recv_count, work->recvs, &work->exchange)
                 : shoal_exchange_start(work->world, work->send_count, work->sends,
                                        work->recv_count, work->recvs, &work->exchange));
  work->under_way = true;
  if (!work->posts) return shoal_work_wait(work);
  shoal_world_stir(work->world);
  return NULL;
}

static shoal_status_t call(shoal_work_t *work, shoal_status_t (*function)(shoal_work_t *work)) {
  shoal_comm_label(work->label);
  shoal_status_t status = function(work);
  shoal_comm_label(NULL);
  return work->what ? shoal_status_annotate(status, work->what) : status;
}

static shoal_status_t run(void *self) {
  shoal_work_t *work = self;
  shoal_record_begun(work->world);
  return call(work, work->group ? run_collective : run_messages);
}

// Before a posted work's bounce memory is written again.
static shoal_status_t run_wait(void *self) {
  return call(self, shoal_work_wait);
}

// ---- bounced --------------------------------------------------------------------------

static shoal_status_t download(shoal_queue_t *queue, shoal_address_t from, void *to,
                               int64_t bytes) {
  return bytes == 0 ? NULL : shoal_queue_download(queue, from, to, bytes);
}

static shoal_status_t upload(shoal_queue_t *queue, const void *from, shoal_address_t to,
                             int64_t bytes) {
  return bytes == 0 ? NULL : shoal_queue_upload(queue, from, to, bytes);
}

static shoal_status_t enqueue_call(shoal_work_t *work, shoal_queue_t *queue) {
  shoal_record_enqueued(work->world);
  shoal_status_t status = shoal_queue_call(queue, run, work);
  if (status) shoal_record_begun(work->world);
  return status;
}

static shoal_status_t bounce_collective(shoal_work_t *work, shoal_queue_t *queue) {
  const buffers_t b = buffers_of(work);
  char *recv = b.same ? work->bounce : work->bounce + aligned(b.sent);
  SHOAL_RETURN_IF_ERROR(download(queue, work->send, work->bounce, b.sent));
  // What a bounded call does not write stays as it is.
  if (work->collective.bounded) {
    SHOAL_RETURN_IF_ERROR(download(queue, work->recv, recv, b.received));
  }
  SHOAL_RETURN_IF_ERROR(enqueue_call(work, queue));
  return upload(queue, recv, work->recv, b.received);
}

static shoal_status_t bounce_exchange(shoal_work_t *work, shoal_queue_t *queue) {
  if (work->posts) SHOAL_RETURN_IF_ERROR(shoal_queue_call(queue, run_wait, work));
  for (int32_t i = 0; i < work->send_count; ++i) {
    const shoal_message_t *m = &work->sends[i];
    SHOAL_RETURN_IF_ERROR(download(queue, work->send_at[i], m->data, m->bytes));
  }
  SHOAL_RETURN_IF_ERROR(enqueue_call(work, queue));
  for (int32_t i = 0; i < work->recv_count; ++i) {
    const shoal_message_t *m = &work->recvs[i];
    SHOAL_RETURN_IF_ERROR(upload(queue, m->data, work->recv_at[i], m->bytes));
  }
  return NULL;
}

// ---- native ---------------------------------------------------------------------------

// The oldest on each queue runs; those behind it are enqueued. Lock held.
static void settle(shoal_world_t *world) {
  shoal_work_t **at = &world->in_flight;
  while (*at) {
    shoal_work_t *work = *at;
    if (shoal_event_done(work->event)) {
      *at = work->next;
      work->in_flight = false;
      shoal_record_end(world, work->record, false);
      continue;
    }
    bool first = true;
    for (const shoal_work_t *w = world->in_flight; w != work; w = w->next) {
      first &= w->queue != work->queue;
    }
    if (first) shoal_record_run(world, work->record);
    at = &work->next;
  }
}

void shoal_record_settle(shoal_world_t *world) {
  if (!world->lock_ready) return;  // it is being joined
  shoal_mutex_lock(&world->flights);
  settle(world);
  shoal_mutex_unlock(&world->flights);
}

static uint64_t record(shoal_work_t *work) {
  if (work->group) {
    const buffers_t b = buffers_of(work);
    return shoal_record_enqueue(work->world, SHOAL_RECORD_COLLECTIVE, work->group->stream,
                                shoal_collective_tag(&work->collective), -1,
                                b.sent > b.received ? b.sent : b.received);
  }
  const shoal_message_t *first = work->recv_count > 0 ? work->recvs : work->sends;
  int64_t bytes = 0;
  for (int32_t i = 0; i < work->send_count; ++i) bytes += work->sends[i].bytes;
  for (int32_t i = 0; i < work->recv_count; ++i) bytes += work->recvs[i].bytes;
  return shoal_record_enqueue(
      work->world, work->lane ? SHOAL_RECORD_LANE_EXCHANGE : SHOAL_RECORD_EXCHANGE,
      work->lane ? work->lane->stream : NULL, first->tag, first->peer, bytes);
}

static shoal_status_t enqueue_native(shoal_work_t *work, shoal_queue_t *queue) {
  shoal_world_t *world = work->world;
  const char *label = shoal_comm_label_of_thread();
  if (work->group) atomic_fetch_add_explicit(&work->group->stream->calls, 1, memory_order_relaxed);
  shoal_comm_label(work->label);
  shoal_mutex_lock(&world->flights);
  settle(world);
  // One that is still in flight, from the step before, keeps its record until both are done.
  if (!work->in_flight) {
    work->record = record(work);
    work->queue = queue;
    work->in_flight = true;
    work->next = NULL;
    shoal_work_t **at = &world->in_flight;
    while (*at) at = &(*at)->next;
    *at = work;
  }
  shoal_mutex_unlock(&world->flights);
  shoal_comm_label(label);
  SHOAL_RETURN_IF_ERROR(work->group ? world->ops->collective_enqueue(work, queue)
                                    : world->ops->exchange_enqueue(work, queue));
  return shoal_queue_record(queue, work->event);
}

// ---- all three ------------------------------------------------------------------------

shoal_work_way_t shoal_work_way(const shoal_world_t *world, const shoal_device_t *device) {
  if (world->ops->enqueues && world->ops->enqueues(world, device)) return SHOAL_WORK_NATIVE;
  return shoal_device_target(device).blind ? SHOAL_WORK_BOUNCED : SHOAL_WORK_VIEWED;
}

shoal_status_t shoal_work_prepare(shoal_device_t *device, shoal_work_t *work) {
  if (!work->group && work->posts && work->recv_count > 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "what receives cannot be posted");
  }
  work->device = device;
  work->way = shoal_work_way(work->world, device);
  work->bounce_bytes = work->way == SHOAL_WORK_BOUNCED ? bounce_bytes(work) : 0;
  return work->way == SHOAL_WORK_NATIVE ? shoal_event_create(device, &work->event) : NULL;
}

void shoal_work_deinit(shoal_work_t *work) {
  if (!work->event) return;
  shoal_mutex_lock(&work->world->flights);
  shoal_work_t **at = &work->world->in_flight;
  while (*at && *at != work) at = &(*at)->next;
  if (*at) {
    *at = work->next;
    shoal_record_end(work->world, work->record, !shoal_event_done(work->event));
  }
  shoal_mutex_unlock(&work->world->flights);
  shoal_event_free(work->event);
  work->event = NULL;
}

int64_t shoal_work_commands(const shoal_work_t *work) {
  if (work->way == SHOAL_WORK_VIEWED) return 1;
  if (work->way == SHOAL_WORK_NATIVE) return 2;
  return 2 + (work->group ? 3 : work->send_count + work->recv_count);
}

shoal_status_t shoal_work_enqueue(shoal_work_t *work, shoal_queue_t *queue) {
  if (!work->group && work->send_count + work->recv_count == 0) return NULL;
  if (work->way == SHOAL_WORK_NATIVE) return enqueue_native(work, queue);
  if (work->way == SHOAL_WORK_VIEWED) return enqueue_call(work, queue);
  if (work->bounce_bytes > 0 && !work->bounce) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a work without its %lld bytes of host memory",
                       (long long)work->bounce_bytes);
  }
  if (work->group) return bounce_collective(work, queue);
  bounce_messages(work);
  return bounce_exchange(work, queue);
}
