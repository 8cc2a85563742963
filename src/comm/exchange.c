// Exchanges of messages, and lanes: orders of messages apart from the world's. Checks and dispatch;
// backends do the work.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "comm/comm_impl.h"

// ---- lanes ----------------------------------------------------------------------------

shoal_status_t shoal_lane_create(shoal_world_t *world, const char *name, shoal_lane_t **out_lane) {
  if (!name || !name[0]) return SHOAL_ERROR(INVALID_ARGUMENT, "a lane has no name");
  shoal_lane_t *lane = world->allocator.alloc(world->allocator.self, sizeof *lane);
  if (!lane) return SHOAL_OOM();
  *lane = (shoal_lane_t){.world = world};
  uint64_t id = shoal_hash_string(shoal_hash_string(SHOAL_HASH_START, "lane"), name), ordinal = 0;
  shoal_status_t status = shoal_world_count(world, id, &ordinal);
  if (!status) {
    id = shoal_hash_int(id, (int64_t)ordinal);
    status = world->ops->stream_create(world, id ? id : 1, &lane->stream);  // 0 is the world's
  }
  if (status) {
    world->allocator.free(world->allocator.self, lane);
    return status;
  }
  shoal_stream_t *stream = lane->stream;
  stream->is_lane = true;
  snprintf(stream->ranks, sizeof stream->ranks, "%s", name);
  if (ordinal > 0) {
    snprintf(stream->ranks, sizeof stream->ranks, "%.16s #%u", name, (unsigned)(ordinal % 1000));
  }
  *out_lane = lane;
  return NULL;
}

void shoal_lane_free(shoal_lane_t *lane) {
  if (!lane) return;
  shoal_world_t *world = lane->world;
  world->ops->stream_free(lane->stream);
  world->allocator.free(world->allocator.self, lane);
}

// ---- exchanges ------------------------------------------------------------------------

static shoal_status_t check_messages(const shoal_world_t *world, const char *verb, int32_t count,
                                     const shoal_message_t *messages) {
  if (count < 0 || (count > 0 && !messages)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%d messages to %s", count, verb);
  }
  for (int32_t i = 0; i < count; ++i) {
    const shoal_message_t *m = &messages[i];
    if (m->peer < 0 || m->peer >= world->size || m->bytes < 0 || (m->bytes > 0 && !m->data)) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "message %d to %s has peer %d of %d, %lld bytes, and %s data", i, verb,
                         m->peer, world->size, (long long)m->bytes, m->data ? "some" : "no");
    }
  }
  return NULL;
}

static shoal_status_t start(shoal_stream_t *stream, int32_t send_count,
                            const shoal_message_t *sends, int32_t recv_count,
                            const shoal_message_t *recvs, shoal_exchange_t *out_exchange) {
  *out_exchange = (shoal_exchange_t){.world = stream->world,
                                     .send_count = send_count,
                                     .recv_count = recv_count,
                                     .sends = sends,
                                     .recvs = recvs,
                                     .private_data = stream};
  return stream->world->ops->exchange_start(stream, out_exchange);
}

// The checks, the record, and the start, on the world's own stream or a lane's.
static shoal_status_t start_checked(shoal_stream_t *stream, int32_t send_count,
                                    const shoal_message_t *sends, int32_t recv_count,
                                    const shoal_message_t *recvs, shoal_exchange_t *out_exchange) {
  shoal_world_t *world = stream->world;
  SHOAL_RETURN_IF_ERROR(check_messages(world, "send", send_count, sends));
  SHOAL_RETURN_IF_ERROR(check_messages(world, "receive", recv_count, recvs));
  const shoal_message_t *first = recv_count > 0 ? recvs : send_count > 0 ? sends : NULL;
  int64_t bytes = 0;
  for (int32_t i = 0; i < send_count; ++i) bytes += sends[i].bytes;
  for (int32_t i = 0; i < recv_count; ++i) bytes += recvs[i].bytes;
  uint64_t record = 0;  // of an empty exchange
  if (first) {
    record = shoal_record_begin(
        world, stream->is_lane ? SHOAL_RECORD_LANE_EXCHANGE : SHOAL_RECORD_EXCHANGE,
        stream->is_lane ? stream : NULL, first->tag, first->peer, bytes);
  }
  shoal_status_t status = start(stream, send_count, sends, recv_count, recvs, out_exchange);
  out_exchange->record = record;
  if (status && record) shoal_record_end(world, record, true);
  return status;
}

shoal_status_t shoal_exchange_start(shoal_world_t *world, int32_t send_count,
                                    const shoal_message_t *sends, int32_t recv_count,
                                    const shoal_message_t *recvs, shoal_exchange_t *out_exchange) {
  return start_checked(world->stream, send_count, sends, recv_count, recvs, out_exchange);
}

shoal_status_t shoal_lane_exchange_start(shoal_lane_t *lane, int32_t send_count,
                                         const shoal_message_t *sends, int32_t recv_count,
                                         const shoal_message_t *recvs,
                                         shoal_exchange_t *out_exchange) {
  return start_checked(lane->stream, send_count, sends, recv_count, recvs, out_exchange);
}

shoal_status_t shoal_exchange_wait(shoal_exchange_t *exchange) {
  shoal_stream_t *stream = exchange->private_data;
  shoal_status_t status = stream->world->ops->exchange_wait(stream, exchange);
  if (exchange->record) shoal_record_end(stream->world, exchange->record, status != NULL);
  return status;
}

void shoal_world_stir(shoal_world_t *world) {
  if (world->ops->stir) world->ops->stir(world);
}

shoal_status_t shoal_stream_exchange(shoal_stream_t *stream, int32_t send_count,
                                     const shoal_message_t *sends, int32_t recv_count,
                                     const shoal_message_t *recvs) {
  shoal_exchange_t exchange;
  SHOAL_RETURN_IF_ERROR(start(stream, send_count, sends, recv_count, recvs, &exchange));
  return shoal_exchange_wait(&exchange);
}
