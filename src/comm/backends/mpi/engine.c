// The progress engine of `mpi`: packets out and in, payloads, news. match.c gives messages to those
// who expect them, wait.c waits, life.c starts and ends it.
//
// Whoever waits moves everything of its rank forward; a thread does so, seldom, while nobody waits.
// All of this runs under the world's mutex. No allocation once the pools have grown to what a
// program has in flight.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define CHUNK_BYTES (INT64_C(64) << 20)  // of a payload in one request: what a timeout can see
#define PACKETS_AT_ONCE 64               // taken in one pass

enum { PACKETS, PAYLOADS };  // communicators

// ---- news -----------------------------------------------------------------------------

void shoal_mpi_send_news(shoal_mpi_world_t *world, shoal_mpi_news_t *news, shoal_mpi_kind_t kind,
                         int32_t tag, const char *text) {
  shoal_mpi_packet_t *packet = &news->packet;
  packet->header = (shoal_mpi_header_t){.kind = kind, .tag = tag, .check = SHOAL_MPI_CHECK};
  packet->header.bytes =
      snprintf((char *)packet->bytes, sizeof packet->bytes, "%s", text ? text : "") + 1;
  if (packet->header.bytes > SHOAL_MPI_INLINE) packet->header.bytes = SHOAL_MPI_INLINE;
  for (int32_t i = 0; i < world->base.size; ++i) {
    if (i == world->base.rank) continue;
    // Who left a world that is well hears nothing more: its MPI would wonder at the message.
    if (world->peers[i].left && !shoal_failure_is_set(&world->failure)) continue;
    // What does not go out is told by the launcher, when this process ends.
    (void)world->plugin->send(&world->comms[PACKETS], i, 0, &packet->header,
                              (int64_t)sizeof packet->header + packet->header.bytes,
                              &news->requests[i]);
  }
}

bool shoal_mpi_news_are_out(shoal_mpi_world_t *world, shoal_mpi_news_t *news) {
  bool all = true;
  for (int32_t i = 0; i < world->base.size; ++i) {
    bool done = true;
    if (news->requests[i].active &&
        world->plugin->test(&news->requests[i], &done, NULL, NULL) == 0 && !done) {
      all = false;
    }
  }
  return all;
}

void shoal_mpi_break(shoal_mpi_world_t *world, shoal_code_t code, const char *message) {
  if (!shoal_failure_set(&world->failure, code, world->base.rank, message)) return;
  world->plugin->give_up();
  shoal_mpi_send_news(world, &world->failed, SHOAL_MPI_FAILED, (int32_t)code, message);
}

void shoal_mpi_fail(shoal_world_t *base, shoal_code_t code, const char *message) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base;
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_break(world, code, message);
  shoal_mutex_unlock(&world->mutex);
}

static void break_by_mpi(shoal_mpi_world_t *world, int32_t peer) {
  char message[SHOAL_MPI_ERROR_BYTES + 64];
  snprintf(message, sizeof message, "rank %d, with rank %d: %s", world->base.rank, peer,
           world->plugin->error);
  shoal_mpi_break(world, SHOAL_ABORTED, message);
}

// ---- pools ----------------------------------------------------------------------------

shoal_mpi_packet_t *shoal_mpi_take_packet(shoal_mpi_world_t *world) {
  shoal_mpi_packet_t *packet = world->free_packets;
  if (packet) {
    world->free_packets = packet->next;
  } else {
    packet = world->base.allocator.alloc(world->base.allocator.self, sizeof *packet);
  }
  if (packet) packet->next = NULL;
  return packet;
}

void shoal_mpi_give_packet(shoal_mpi_world_t *world, shoal_mpi_packet_t *packet) {
  packet->next = world->free_packets;
  world->free_packets = packet;
}

shoal_mpi_flight_t *shoal_mpi_take_flight(shoal_mpi_world_t *world) {
  shoal_mpi_flight_t *flight = world->free_flights;
  if (flight) {
    world->free_flights = flight->next;
  } else {
    flight = world->base.allocator.alloc(world->base.allocator.self, sizeof *flight);
    if (!flight) return NULL;
  }
  memset(flight, 0, offsetof(shoal_mpi_flight_t, packet));
  flight->next = world->flights;
  world->flights = flight;
  return flight;
}

// ---- payloads -------------------------------------------------------------------------

static bool start_chunk(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight) {
  const int64_t left = flight->message->bytes - flight->offset;
  const int64_t most = flight->most ? flight->most : CHUNK_BYTES;
  uint8_t *data =
      flight->staging ? flight->staging : (uint8_t *)flight->message->data + flight->offset;
  flight->chunk = left < most ? left : most;
  shoal_mpi_comm_t *comm = &world->comms[PAYLOADS];
  const int failed = flight->direction == SHOAL_SEND
                         ? world->plugin->send(comm, flight->peer, flight->payload, data,
                                               flight->chunk, &flight->payload_request)
                         : world->plugin->receive(comm, flight->peer, flight->payload, data,
                                                  flight->chunk, &flight->payload_request);
  if (failed) break_by_mpi(world, flight->peer);
  return !failed;
}

// Moves one flight along; true when it has arrived.
static bool step_flight(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight, bool *moved) {
  bool done = true;
  if (flight->header_request.active) {
    if (world->plugin->test(&flight->header_request, &done, NULL, NULL)) goto failed;
    if (done) *moved = true;
  }
  while (flight->payload_request.active) {
    bool chunk_done = false;
    if (world->plugin->test(&flight->payload_request, &chunk_done, NULL, NULL)) goto failed;
    if (!chunk_done) return false;
    *moved = true;
    if (!flight->moved) return done;  // given up: no more chunks
    ++*flight->moved;
    if (flight->staging) shoal_mpi_shard_chunk(flight);
    flight->offset += flight->chunk;
    if (flight->offset < flight->message->bytes && !start_chunk(world, flight)) return false;
  }
  return done;
failed:
  break_by_mpi(world, flight->peer);
  return false;
}

// ---- sending --------------------------------------------------------------------------

void shoal_mpi_depart(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight, int64_t behind,
                      bool has_payload) {
  shoal_mpi_header_t *header = &flight->packet.header;
  flight->direction = SHOAL_SEND;
  if (has_payload) {
    shoal_mpi_peer_t *peer = &world->peers[flight->peer];
    flight->payload = 1 + peer->payloads++ % (world->largest_tag - 1);
    if (peer->payloads == INT32_MAX) peer->payloads = 0;
  }
  header->payload = flight->payload;
  header->check = SHOAL_MPI_CHECK;
  if (world->plugin->send(&world->comms[PACKETS], flight->peer, 0, header,
                          (int64_t)sizeof *header + behind, &flight->header_request)) {
    break_by_mpi(world, flight->peer);
  } else if (has_payload) {
    start_chunk(world, flight);
  }
}

static shoal_status_t start_send(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream,
                                 shoal_exchange_t *exchange, const shoal_message_t *message) {
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) return SHOAL_OOM();
  flight->moved = &stream->moved;
  flight->stream = stream;
  flight->exchange = exchange;
  flight->message = message;
  flight->peer = message->peer;
  const bool small = message->bytes <= SHOAL_MPI_INLINE;
  flight->packet.header = (shoal_mpi_header_t){.stream = stream->base.id,
                                               .sequence = stream->sent[message->peer]++,
                                               .bytes = message->bytes,
                                               .tag = message->tag,
                                               .kind = SHOAL_MPI_MESSAGE};
  const int64_t behind = small ? message->bytes : 0;
  if (behind > 0) memcpy(flight->packet.bytes, message->data, (size_t)behind);
  shoal_mpi_depart(world, flight, behind, !small);
  return NULL;
}

// ---- receiving ------------------------------------------------------------------------

void shoal_mpi_expect_payload(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight) {
  flight->direction = SHOAL_RECV;
  start_chunk(world, flight);
}

shoal_status_t shoal_mpi_expect_packet(shoal_mpi_world_t *world) {
  if (!world->incoming) world->incoming = shoal_mpi_take_packet(world);
  if (!world->incoming) return SHOAL_OOM();
  if (world->plugin->receive(&world->comms[PACKETS], -1, 0, &world->incoming->header,
                             (int64_t)(sizeof(shoal_mpi_header_t) + SHOAL_MPI_INLINE),
                             &world->incoming_request)) {
    return SHOAL_ERROR(ABORTED, "%s", world->plugin->error);
  }
  return NULL;
}

static void take_in(shoal_mpi_world_t *world, int32_t rank, shoal_mpi_packet_t *packet) {
  switch ((shoal_mpi_kind_t)packet->header.kind) {
    case SHOAL_MPI_FAILED:
      packet->bytes[SHOAL_MPI_INLINE - 1] = 0;
      if (shoal_failure_set(&world->failure, (shoal_code_t)packet->header.tag, rank,
                            (const char *)packet->bytes)) {
        world->plugin->give_up();
      }
      shoal_mpi_give_packet(world, packet);
      break;
    case SHOAL_MPI_LEFT:
      world->peers[rank].left = true;
      shoal_mpi_give_packet(world, packet);
      break;
    case SHOAL_MPI_ASK:
    case SHOAL_MPI_ACCOUNT:
      packet->peer = rank;
      shoal_mpi_survey_take(world, packet);
      shoal_mpi_give_packet(world, packet);
      break;
    case SHOAL_MPI_PUT:
    case SHOAL_MPI_GET:
    case SHOAL_MPI_AWAIT:
      packet->peer = rank;
      shoal_mpi_shard_take(world, packet);
      break;
    case SHOAL_MPI_VERSIONS:
    case SHOAL_MPI_ANSWER:
    case SHOAL_MPI_BEHIND:
      packet->peer = rank;
      shoal_mpi_call_answer(world, packet);
      shoal_mpi_give_packet(world, packet);
      break;
    default:
      shoal_mpi_take_message(world, rank, packet);
  }
}

static bool receive_packets(shoal_mpi_world_t *world) {
  bool moved = false;
  for (int i = 0; i < PACKETS_AT_ONCE && world->incoming_request.active; ++i) {
    bool done = false;
    int32_t peer = -1;
    int64_t bytes = 0;
    if (world->plugin->test(&world->incoming_request, &done, &peer, &bytes)) {
      break_by_mpi(world, peer);
      break;
    }
    if (!done) break;
    moved = true;
    shoal_mpi_packet_t *packet = world->incoming;
    world->incoming = NULL;
    take_in(world, peer, packet);
    shoal_status_t status = shoal_mpi_expect_packet(world);
    if (status) {
      shoal_mpi_break(world, shoal_status_code(status), shoal_status_message(status));
      shoal_status_free(status);
    }
  }
  return moved;
}

// ---- one pass -------------------------------------------------------------------------

// What follows when a flight, off the list already, has arrived.
static void land(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight) {
  if (flight->call) {
    --flight->call->left;
    ++flight->call->moved;
  } else if (flight->window) {
    shoal_mpi_shard_landed(world, flight);
  } else if (flight->stream && flight->direction == SHOAL_RECV) {
    shoal_mpi_finish_receive(flight->stream, flight->peer);
    shoal_mpi_match(world, flight->stream, flight->peer);
  } else if (flight->stream) {
    shoal_exchange_t *exchange = flight->exchange;
    ++exchange->progress[SHOAL_SEND];
    ++flight->stream->moved;
    if (shoal_exchange_done(exchange)) shoal_pending_remove(&flight->stream->pending, exchange);
  }
  flight->next = world->free_flights;
  world->free_flights = flight;
}

bool shoal_mpi_progress(shoal_mpi_world_t *world) {
  if (world->is_mute) return false;
  bool moved = receive_packets(world);
  if (shoal_failure_is_set(&world->failure)) {  // exchanges may be gone
    shoal_mpi_news_are_out(world, &world->failed);
    return moved;
  }
  shoal_mpi_flight_t **at = &world->flights;
  while (*at) {
    shoal_mpi_flight_t *flight = *at;
    if (!step_flight(world, flight, &moved)) {
      if (shoal_failure_is_set(&world->failure)) break;
      at = &flight->next;
      continue;
    }
    *at = flight->next;
    const bool is_send = flight->direction == SHOAL_SEND && !flight->window;
    land(world, flight);
    if (!is_send) at = &world->flights;  // there may be new ones in front, where `at` can be
  }
  if (world->windows) shoal_mpi_shards_step(world);
  return moved;
}

shoal_status_t shoal_mpi_exchange_start(shoal_stream_t *base, shoal_exchange_t *exchange) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base->world;
  shoal_mpi_stream_t *stream = (shoal_mpi_stream_t *)base;
  SHOAL_RETURN_IF_ERROR(shoal_failure_status(&world->failure));
  if (shoal_exchange_done(exchange)) return NULL;  // it is empty
  shoal_status_t status = NULL;
  shoal_mutex_lock(&world->mutex);
  shoal_pending_add(&stream->pending, exchange);
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const int32_t peer = exchange->recvs[i].peer;
    shoal_cursor_offer(&stream->receivers[peer].cursor, SHOAL_RECV, peer, exchange);
  }
  for (int32_t i = 0; i < exchange->send_count && !status; ++i) {
    status = start_send(world, stream, exchange, &exchange->sends[i]);
  }
  if (status) {  // some may be out: this rank cannot take part any more
    shoal_mpi_break(world, shoal_status_code(status), shoal_status_message(status));
    shoal_mpi_abandon(world, stream, exchange);
  } else {
    for (int32_t i = 0; i < exchange->recv_count; ++i)
      shoal_mpi_match(world, stream, exchange->recvs[i].peer);
    shoal_mpi_progress(world);
  }
  shoal_mutex_unlock(&world->mutex);
  return status;
}

// Until MPI has let go of the payload's memory, or the deadline.
static bool settle(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight, int64_t deadline) {
  bool done = !flight->payload_request.active;
  while (!done && world->plugin->test(&flight->payload_request, &done, NULL, NULL) == 0 && !done &&
         shoal_time_ns() < deadline) {
    shoal_time_sleep_ns(100000);
  }
  return !flight->payload_request.active;
}

// A receive that is on its way would still write to the caller's memory: it is cancelled, and if
// its bytes are coming already they get a moment to arrive.
void shoal_mpi_recall(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight) {
  flight->exchange = NULL;
  flight->stream = NULL;
  flight->call = NULL;
  flight->moved = NULL;
  if (flight->direction != SHOAL_RECV || !flight->payload_request.active || world->is_mute) return;
  world->plugin->cancel(&flight->payload_request);
  settle(world, flight, shoal_time_ns() + SHOAL_MPI_LINGER_NS);
}

void shoal_mpi_abandon(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream,
                       shoal_exchange_t *exchange) {
  shoal_pending_remove(&stream->pending, exchange);
  for (shoal_mpi_flight_t *flight = world->flights; flight; flight = flight->next) {
    if (flight->exchange == exchange) shoal_mpi_recall(world, flight);
  }
}

bool shoal_mpi_rest(shoal_mpi_world_t *world, const shoal_mpi_window_t *window) {
  const int64_t deadline = shoal_time_ns() + SHOAL_MPI_LINGER_NS;
  bool rests = true;
  for (shoal_mpi_flight_t *flight = world->flights; flight; flight = flight->next) {
    if (flight->window != window) continue;
    if (world->is_mute) {
      rests = rests && !flight->payload_request.active;
      continue;
    }
    if (flight->payload_request.active && flight->direction == SHOAL_RECV) {
      world->plugin->cancel(&flight->payload_request);
    }
    rests = settle(world, flight, deadline) && rests;
    flight->window = NULL;
    flight->moved = NULL;
    flight->staging = NULL;
  }
  return rests;
}
