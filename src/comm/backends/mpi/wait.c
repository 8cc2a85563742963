// Waiting in `mpi`: passes with growing pauses, so that a blocked rank leaves its core to others.
#include <sched.h>
#include <stdio.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define EAGER_PASSES 100                 // without a pause: a peer that computes alike is not far
#define FIRST_PAUSE_NS 20000             // then pauses that grow
#define LONGEST_PAUSE_NS 1000000         // to this
#define BRISK_PAUSE_NS 50000             // MPI's own collectives move only when they are looked at:
#define BRISK_NS INT64_C(50000000)       // no longer pauses than that, for so long
#define LEFT_AFTER_NS INT64_C(50000000)  // what a rank that left had sent before gets this long
#define TELL_AFTER_NS INT64_C(100000000)  // a wait that lasts is told

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
  shoal_stream_describe(&stream->base, shoal_mpi_plain_tag(stream, m->tag), what, sizeof what);
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

static void pause_after(int32_t idle, int64_t longest) {
  if (idle < EAGER_PASSES) {
    sched_yield();
    return;
  }
  int64_t pause = FIRST_PAUSE_NS;
  for (int32_t i = EAGER_PASSES; i < idle && pause < longest; i += 4) pause += pause / 4;
  shoal_time_sleep_ns(pause < longest ? pause : longest);
}

// ---- anything -------------------------------------------------------------------------

typedef struct patience {
  int64_t since;  // the last time that anything moved; 0: not looked yet
  uint64_t seen;
  int32_t idle;
  int32_t told;          // the wait that says so, once it has lasted; -1: none
  shoal_code_t verdict;  // why this wait must end; OK: it goes on
  char headline[400];
} patience_t;

// A rank that this wait needs has left, and nothing more came from it; or its time is up.
static void judge(shoal_mpi_world_t *world, const shoal_mpi_waiting_t *waiting, int64_t now,
                  patience_t *p) {
  const int64_t waited = now - p->since;
  if (waited <= LEFT_AFTER_NS && waited <= world->base.timeout_ms * 1000000) return;
  char waits[300];
  const int32_t missing = waiting->missing(waiting->self);
  waiting->describe(waiting->self, waits, sizeof waits);
  if (waited > world->base.timeout_ms * 1000000) {
    p->verdict = SHOAL_DEADLINE;
    snprintf(p->headline, sizeof p->headline, "no progress in %lld ms: %s",
             (long long)world->base.timeout_ms, waits);
  } else if (missing >= 0 && world->peers[missing].left) {
    p->verdict = SHOAL_ABORTED;
    snprintf(p->headline, sizeof p->headline, "rank %d has left; %s", missing, waits);
  } else if (waited > TELL_AFTER_NS) {
    const int32_t late = waiting->late ? waiting->late(waiting->self) : missing;
    p->told = shoal_wait_tell(&world->base, p->told, late, waits);
  }
}

// Asks the others first, which takes a moment: what was missing may come after all. Called without
// the mutex.
static void execute(shoal_mpi_world_t *world, const shoal_mpi_waiting_t *waiting, patience_t *p) {
  char message[SHOAL_FAILURE_TEXT];
  shoal_report(&world->base, p->headline, message, sizeof message);
  shoal_mutex_lock(&world->mutex);
  if (!waiting->is_done(waiting->self) && *waiting->moved == p->seen) {
    shoal_mpi_break(world, p->verdict, message);
  }
  p->verdict = SHOAL_OK;
  shoal_mutex_unlock(&world->mutex);
}

// One look; true when the wait is over.
static bool look(shoal_mpi_world_t *world, const shoal_mpi_waiting_t *waiting, patience_t *p) {
  const bool moved = shoal_mpi_progress(world);
  if (waiting->is_done(waiting->self)) return true;
  if (shoal_failure_is_set(&world->failure)) {
    waiting->abandon(waiting->self);
    return true;
  }
  p->idle = moved ? 0 : p->idle + 1;
  const int64_t now = shoal_time_ns();
  if (!p->since || *waiting->moved != p->seen) {
    p->since = now;
    p->seen = *waiting->moved;
  } else {
    judge(world, waiting, now, p);
  }
  return false;
}

shoal_status_t shoal_mpi_wait(shoal_mpi_world_t *world, const shoal_mpi_waiting_t *waiting) {
  patience_t patience = {.told = -1};
  atomic_fetch_add(&world->waiters, 1);
  for (;;) {
    shoal_mutex_lock(&world->mutex);
    const bool over = look(world, waiting, &patience);
    const bool done = over && waiting->is_done(waiting->self);
    shoal_mutex_unlock(&world->mutex);
    if (over) {
      atomic_fetch_sub(&world->waiters, 1);
      shoal_wait_clear(&world->base, patience.told);
      return done ? NULL : shoal_failure_status(&world->failure);
    }
    if (patience.verdict) execute(world, waiting, &patience);
    const bool brisk = waiting->is_brisk && shoal_time_ns() - patience.since < BRISK_NS;
    pause_after(patience.idle, brisk ? BRISK_PAUSE_NS : LONGEST_PAUSE_NS);
  }
}

// ---- exchanges ------------------------------------------------------------------------

typedef struct exchange_wait {
  shoal_mpi_world_t *world;
  shoal_mpi_stream_t *stream;
  shoal_exchange_t *exchange;
} exchange_wait_t;

static bool exchange_is_done(void *self) {
  return shoal_exchange_done(((const exchange_wait_t *)self)->exchange);
}

static void exchange_describe(void *self, char *buffer, size_t capacity) {
  const exchange_wait_t *w = self;
  describe(w->world, w->stream, w->exchange, buffer, capacity);
}

static int32_t exchange_missing(void *self) {
  const exchange_wait_t *w = self;
  shoal_direction_t direction;
  int64_t moved;
  const shoal_message_t *m = first_missing(w->world, w->stream, w->exchange, &direction, &moved);
  return m ? m->peer : -1;
}

static void exchange_abandon(void *self) {
  const exchange_wait_t *w = self;
  shoal_mpi_abandon(w->world, w->stream, w->exchange);
}

shoal_status_t shoal_mpi_exchange_wait(shoal_stream_t *base, shoal_exchange_t *exchange) {
  exchange_wait_t wait = {(shoal_mpi_world_t *)base->world, (shoal_mpi_stream_t *)base, exchange};
  return shoal_mpi_wait(wait.world, &(shoal_mpi_waiting_t){.self = &wait,
                                                           .is_done = exchange_is_done,
                                                           .describe = exchange_describe,
                                                           .missing = exchange_missing,
                                                           .abandon = exchange_abandon,
                                                           .moved = &wait.stream->moved});
}
