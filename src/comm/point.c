// Point to point on groups: one message between two of a group's ranks. Checks, ranks, and the
// group's stream for them; exchanges do the work.
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "comm/pending.h"

// Made when it is first needed: its id follows from the group's, so that no rank asks another.
static shoal_status_t users_stream(shoal_group_t *group, shoal_stream_t **out_stream) {
  shoal_world_t *world = group->world;
  shoal_stream_t *stream = atomic_load_explicit(&group->users, memory_order_acquire);
  shoal_status_t status = NULL;
  if (!stream) {
    const uint64_t hash = shoal_hash_string(SHOAL_HASH_START, "users' messages");
    const uint64_t id = shoal_hash_int(hash, (int64_t)group->stream->id);
    shoal_mutex_lock(&world->lock);
    stream = atomic_load_explicit(&group->users, memory_order_relaxed);
    if (!stream) {
      status = world->ops->stream_create(world, id ? id : 1, &stream);  // 0 is the world's
      if (!status) {
        memcpy(stream->ranks, group->stream->ranks, sizeof stream->ranks);
        atomic_store_explicit(&group->users, stream, memory_order_release);
      }
    }
    shoal_mutex_unlock(&world->lock);
  }
  *out_stream = stream;
  return status;
}

static shoal_status_t start(shoal_group_t *group, shoal_direction_t direction, int32_t rank,
                            int32_t tag, int64_t bytes, void *data,
                            shoal_exchange_t *out_exchange) {
  shoal_world_t *world = group->world;
  const char *verb = direction == SHOAL_SEND ? "send to" : "receive from";
  if (group->rank < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "rank %d is not in the group", world->rank);
  }
  if (rank < 0 || rank >= group->size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "cannot %s group rank %d in a group of %d", verb, rank,
                       group->size);
  }
  if (bytes < 0 || (bytes > 0 && !data)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld bytes and %s data to %s group rank %d",
                       (long long)bytes, data ? "some" : "no", verb, rank);
  }
  shoal_stream_t *stream;
  SHOAL_RETURN_IF_ERROR(users_stream(group, &stream));
  const int32_t peer = group->ranks[rank];
  shoal_exchange_t *e = out_exchange;
  *e = (shoal_exchange_t){.world = world,
                          .send_count = direction == SHOAL_SEND,
                          .recv_count = direction == SHOAL_RECV,
                          .sends = &e->own,
                          .recvs = &e->own,
                          .private_data = stream,
                          .own = {peer, tag, bytes, data}};
  const uint64_t record =
      shoal_record_begin(world, SHOAL_RECORD_EXCHANGE, group->stream, tag, peer, bytes);
  shoal_status_t status = world->ops->exchange_start(stream, e);
  e->record = record;
  if (status) shoal_record_end(world, record, true);
  return status;
}

shoal_status_t shoal_send_start(shoal_group_t *group, int32_t to, int32_t tag, int64_t bytes,
                                const void *data, shoal_exchange_t *out_exchange) {
  return start(group, SHOAL_SEND, to, tag, bytes, (void *)data, out_exchange);
}

shoal_status_t shoal_recv_start(shoal_group_t *group, int32_t from, int32_t tag, int64_t bytes,
                                void *data, shoal_exchange_t *out_exchange) {
  return start(group, SHOAL_RECV, from, tag, bytes, data, out_exchange);
}

shoal_status_t shoal_send(shoal_group_t *group, int32_t to, int32_t tag, int64_t bytes,
                          const void *data) {
  shoal_exchange_t e;
  SHOAL_RETURN_IF_ERROR(start(group, SHOAL_SEND, to, tag, bytes, (void *)data, &e));
  return shoal_exchange_wait(&e);
}

shoal_status_t shoal_recv(shoal_group_t *group, int32_t from, int32_t tag, int64_t bytes,
                          void *data) {
  shoal_exchange_t e;
  SHOAL_RETURN_IF_ERROR(start(group, SHOAL_RECV, from, tag, bytes, data, &e));
  return shoal_exchange_wait(&e);
}
