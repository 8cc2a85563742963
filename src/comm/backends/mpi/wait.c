// Waiting in `mpi`: passes with growing pauses, so that a blocked rank leaves its core to others.
#include <sched.h>
#include <stdio.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define EAGER_PASSES 100                 // without a pause: a peer that computes alike is not far
#define FIRST_PAUSE_NS 20000             // then pauses that grow
#define LONGEST_PAUSE_NS 1000000         // to this
#define LEFT_AFTER_NS INT64_C(50000000)  // what a rank that left had sent before gets this long

// The first message of the exchange that is still to come, and how many of its bytes are.
static const shoal_message_t *first_missing(const shoal_mpi_world_t *world,
                                            const shoal_mpi_stream_t *stream,
                                            const shoal_exchange_t *exchange,
                                            shoal_direction_t *out_direction, int64_t *out_moved) {
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const shoal_mpi_receiver_t *receiver = &stream->receivers[exchange->recvs[i].peer];
    if (!shoal_cursor_is_ahead(&receiver->cursor, exchange, i)) continue;
    const shoal_mpi_flight_t *flight = receiver->flight;
    *out_direction = SHOAL_RECV;
    *out_moved = flight && flight->message == &exchange->recvs[i] ? flight->offset : 0;
    return &exchange->recvs[i];
  }
  const shoal_mpi_flight_t *oldest = NULL;  // the list is newest first
  for (const shoal_mpi_flight_t *f = world->flights; f; f = f->next) {
    if (f->exchange == exchange && f->direction == SHOAL_SEND) oldest = f;
  }
  if (!oldest) return NULL;
  *out_direction = SHOAL_SEND;
  *out_moved = oldest->offset;
  return oldest->message;
}

// "rank 1 waits to receive tag 5, 64 bytes (16 there) from rank 0".
static void describe(const shoal_mpi_world_t *world, const shoal_mpi_stream_t *stream,
                     const shoal_exchange_t *exchange, char *buffer, size_t capacity) {
  shoal_direction_t direction;
  int64_t moved;
  const shoal_message_t *m = first_missing(world, stream, exchange, &direction, &moved);
  if (!m) {
    snprintf(buffer, capacity, "rank %d waits", world->base.rank);
    return;
  }
  char what[64];
  shoal_stream_describe(&stream->base, m->tag, what, sizeof what);
  const int64_t more = exchange->send_count + exchange->recv_count -
                       exchange->progress[SHOAL_SEND] - exchange->progress[SHOAL_RECV] - 1;
  const bool recv = direction == SHOAL_RECV;
  const int length =
      snprintf(buffer, capacity, "rank %d waits to %s %s, %lld bytes (%lld %s) %s rank %d",
               world->base.rank, recv ? "receive" : "send", what, (long long)m->bytes,
               (long long)moved, recv ? "there" : "taken", recv ? "from" : "to", m->peer);
  if (more > 0 && (size_t)length < capacity) {
    snprintf(buffer + length, capacity - (size_t)length, ", and for %lld more messages",
             (long long)more);
  }
}

// A peer that this exchange needs has left, and nothing more came from it.
static void check_left(shoal_mpi_world_t *world, const shoal_mpi_stream_t *stream,
                       const shoal_exchange_t *exchange) {
  shoal_direction_t direction;
  int64_t moved;
  const shoal_message_t *m = first_missing(world, stream, exchange, &direction, &moved);
  if (!m || !world->peers[m->peer].left) return;
  char waits[300], message[400];
  describe(world, stream, exchange, waits, sizeof waits);
  snprintf(message, sizeof message, "rank %d has left; %s", m->peer, waits);
  shoal_mpi_break(world, SHOAL_ABORTED, message);
}

static void pause_after(int32_t idle) {
  if (idle < EAGER_PASSES) {
    sched_yield();
    return;
  }
  int64_t pause = FIRST_PAUSE_NS;
  for (int32_t i = EAGER_PASSES; i < idle && pause < LONGEST_PAUSE_NS; i += 4) pause += pause / 4;
  shoal_time_sleep_ns(pause < LONGEST_PAUSE_NS ? pause : LONGEST_PAUSE_NS);
}

static void break_by_deadline(shoal_mpi_world_t *world, const shoal_mpi_stream_t *stream,
                              const shoal_exchange_t *exchange) {
  char waits[300], message[400];
  describe(world, stream, exchange, waits, sizeof waits);
  snprintf(message, sizeof message, "no progress in %lld ms: %s", (long long)world->base.timeout_ms,
           waits);
  shoal_mpi_break(world, SHOAL_DEADLINE, message);
}

// One look; true when the wait is over.
static bool look(shoal_mpi_world_t *world, shoal_mpi_stream_t *stream, shoal_exchange_t *exchange,
                 int64_t *since, uint64_t *seen, int32_t *idle) {
  const bool moved = shoal_mpi_progress(world);
  if (shoal_exchange_done(exchange)) return true;
  if (shoal_failure_is_set(&world->failure)) {
    shoal_mpi_abandon(world, stream, exchange);
    return true;
  }
  *idle = moved ? 0 : *idle + 1;
  const int64_t now = shoal_time_ns();
  if (!*since || stream->moved != *seen) {
    *since = now;
    *seen = stream->moved;
  } else if (now - *since > world->base.timeout_ms * 1000000) {
    break_by_deadline(world, stream, exchange);
  } else if (now - *since > LEFT_AFTER_NS) {
    check_left(world, stream, exchange);
  }
  return false;
}

shoal_status_t shoal_mpi_exchange_wait(shoal_stream_t *base, shoal_exchange_t *exchange) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base->world;
  shoal_mpi_stream_t *stream = (shoal_mpi_stream_t *)base;
  int64_t since = 0;
  uint64_t seen = 0;
  int32_t idle = 0;
  atomic_fetch_add(&world->waiters, 1);
  for (;;) {
    shoal_mutex_lock(&world->mutex);
    const bool over = look(world, stream, exchange, &since, &seen, &idle);
    const bool done = over && shoal_exchange_done(exchange);
    shoal_mutex_unlock(&world->mutex);
    if (over) {
      atomic_fetch_sub(&world->waiters, 1);
      return done ? NULL : shoal_failure_status(&world->failure);
    }
    pause_after(idle);
  }
}
