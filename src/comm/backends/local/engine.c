// The progress engine of `local`.
//
// Whoever waits moves everything of its rank forward: all streams, sends and receives. So two
// ranks that send each other more than a ring holds never block each other, and a send that was
// only started goes out while its rank waits for anything else.
//
// A sleeper reads its bell, looks for work, and sleeps only if the bell has not rung since: no
// wake-up is lost. Everything here runs under the world's mutex, except sleeping and ringing.
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/local/local.h"

#define SPINS 400  // looks at the bell before sleeping, where every rank has a core
#define SLICE_NS INT64_C(100000000)  // how often a sleeper looks whether its peers live

// What a pass over all streams did.
typedef struct pass {
  uint64_t ring[SHOAL_HUB_MAX_RANKS / 64];  // ranks for which something changed
  bool moved;
  const shoal_exchange_t *mine;  // finishing any other wakes its waiter, a thread of this rank
} pass_t;

static void mark(pass_t *pass, int32_t rank) {
  pass->ring[rank / 64] |= UINT64_C(1) << (rank % 64);
}

static void ring_marked(shoal_local_world_t *world, const pass_t *pass) {
  for (int32_t i = 0; i < world->base.size; ++i) {
    if (pass->ring[i / 64] >> (i % 64) & 1) shoal_hub_ring_bell(world->hub, i);
  }
}

// ---- bytes through a ring -------------------------------------------------------------

static void put(uint8_t *ring, uint32_t size, uint64_t at, const void *data, int64_t bytes) {
  const uint64_t from = at & (size - 1), first = size - from;
  if (bytes <= 0) return;
  if ((uint64_t)bytes <= first) {
    memcpy(ring + from, data, (size_t)bytes);
  } else {
    memcpy(ring + from, data, (size_t)first);
    memcpy(ring, (const uint8_t *)data + first, (size_t)bytes - (size_t)first);
  }
}

static void take(const uint8_t *ring, uint32_t size, uint64_t at, void *data, int64_t bytes) {
  const uint64_t from = at & (size - 1), first = size - from;
  if (bytes <= 0) return;
  if ((uint64_t)bytes <= first) {
    memcpy(data, ring + from, (size_t)bytes);
  } else {
    memcpy(data, ring + from, (size_t)first);
    memcpy((uint8_t *)data + first, ring, (size_t)bytes - (size_t)first);
  }
}

// A message is through: on to the next.
static void finish(shoal_local_world_t *world, shoal_local_stream_t *stream,
                   shoal_local_flow_t *flow, shoal_direction_t direction, int32_t peer,
                   pass_t *pass) {
  ++flow->sequence;
  flow->offset = 0;
  flow->pipe = -1;
  shoal_exchange_t *done = shoal_cursor_finish(&flow->cursor, direction, peer, &stream->pending);
  if (done && done != pass->mine) mark(pass, world->base.rank);
}

// ---- sending --------------------------------------------------------------------------

// The pipe bound to this stream, else one that is free to be; -1: all are in use by others.
static int find_pipe(shoal_local_world_t *world, shoal_local_stream_t *stream, int32_t peer) {
  shoal_local_stream_t **sending = world->sending + peer * SHOAL_HUB_PIPES;
  int free_pipe = -1;
  for (int i = 0; i < SHOAL_HUB_PIPES; ++i) {
    shoal_hub_pipe_t *pipe = shoal_hub_pipe(world->hub, world->base.rank, peer, i);
    const uint64_t tail = atomic_load_explicit(&pipe->tail, memory_order_relaxed);
    if (pipe->stream == stream->base.id && tail > 0) return i;
    if (free_pipe < 0 && !sending[i] &&
        atomic_load_explicit(&pipe->head, memory_order_acquire) == tail) {
      free_pipe = i;
    }
  }
  if (free_pipe >= 0) {
    shoal_hub_pipe(world->hub, world->base.rank, peer, free_pipe)->stream = stream->base.id;
    _Atomic uint32_t *used = shoal_hub_used(world->hub, world->base.rank, peer);
    if (atomic_load_explicit(used, memory_order_relaxed) <= (uint32_t)free_pipe) {
      atomic_store_explicit(used, (uint32_t)free_pipe + 1, memory_order_release);
    }
  }
  return free_pipe;
}

static void push(shoal_local_world_t *world, shoal_local_stream_t *stream, int32_t peer,
                 pass_t *pass) {
  shoal_local_flow_t *flow = &stream->sends[peer];
  const uint32_t size = world->hub->ring;
  while (flow->cursor.exchange) {
    const shoal_message_t *message = shoal_cursor_message(&flow->cursor, SHOAL_SEND);
    const bool begun = flow->pipe >= 0;
    const int index = begun ? flow->pipe : find_pipe(world, stream, peer);
    if (index < 0) return;
    shoal_hub_pipe_t *pipe = shoal_hub_pipe(world->hub, world->base.rank, peer, index);
    uint8_t *ring = shoal_hub_ring(world->hub, world->base.rank, peer, index);
    uint64_t tail = atomic_load_explicit(&pipe->tail, memory_order_relaxed);
    int64_t space =
        (int64_t)(size - (tail - atomic_load_explicit(&pipe->head, memory_order_acquire)));
    if (!begun) {
      shoal_hub_header_t header = {stream->base.id, flow->sequence, message->bytes, message->tag,
                                   SHOAL_HUB_CHECK};
      if (space < (int64_t)sizeof header) return;
      put(ring, size, tail, &header, sizeof header);
      tail += sizeof header;
      space -= (int64_t)sizeof header;
      flow->pipe = (int8_t)index;
      world->sending[peer * SHOAL_HUB_PIPES + index] = stream;
    }
    const int64_t left = message->bytes - flow->offset, bytes = left < space ? left : space;
    if (begun && bytes == 0) return;
    put(ring, size, tail, (const uint8_t *)message->data + flow->offset, bytes);
    atomic_store_explicit(&pipe->tail, tail + (uint64_t)bytes, memory_order_release);
    flow->offset += bytes;
    ++stream->moved;
    pass->moved = true;
    mark(pass, peer);
    if (flow->offset < message->bytes) return;  // the ring is full
    world->sending[peer * SHOAL_HUB_PIPES + index] = NULL;
    finish(world, stream, flow, SHOAL_SEND, peer, pass);
  }
}

// ---- receiving ------------------------------------------------------------------------

static shoal_local_stream_t *find_stream(shoal_local_world_t *world, uint64_t id) {
  shoal_local_stream_t *stream = world->streams;
  while (stream && stream->base.id != id) stream = stream->next;
  return stream;
}

// Reads the header at the front of a pipe if somebody expects its message. NULL: leave the pipe
// alone.
static shoal_local_stream_t *open_message(shoal_local_world_t *world, int32_t peer,
                                          const uint8_t *ring, uint64_t head) {
  shoal_hub_header_t header;
  take(ring, world->hub->ring, head, &header, sizeof header);
  shoal_local_stream_t *stream = find_stream(world, header.stream);
  if (!stream || !stream->recvs[peer].cursor.exchange) return NULL;
  shoal_local_flow_t *flow = &stream->recvs[peer];
  const shoal_message_t *expected = shoal_cursor_message(&flow->cursor, SHOAL_RECV);
  if (header.check != SHOAL_HUB_CHECK || header.sequence != flow->sequence ||
      header.tag != expected->tag || header.bytes != expected->bytes) {
    char message[SHOAL_FAILURE_TEXT];
    const shoal_came_t came = {header.tag, header.bytes, header.sequence};
    shoal_stream_describe_mismatch(&stream->base, expected, came, message, sizeof message);
    shoal_hub_fail(world->hub, SHOAL_MISMATCH, world->base.rank, message);
    return NULL;
  }
  return stream;
}

static void pull(shoal_local_world_t *world, int32_t peer, int index, pass_t *pass) {
  shoal_hub_pipe_t *pipe = shoal_hub_pipe(world->hub, peer, world->base.rank, index);
  const uint8_t *ring = shoal_hub_ring(world->hub, peer, world->base.rank, index);
  shoal_local_stream_t **receiving = &world->receiving[peer * SHOAL_HUB_PIPES + index];
  uint64_t head = atomic_load_explicit(&pipe->head, memory_order_relaxed);
  for (;;) {
    int64_t ready = (int64_t)(atomic_load_explicit(&pipe->tail, memory_order_acquire) - head);
    const bool begun = *receiving != NULL;
    if (!begun) {
      if (ready < (int64_t)sizeof(shoal_hub_header_t)) return;
      *receiving = open_message(world, peer, ring, head);
      if (!*receiving) return;
      head += sizeof(shoal_hub_header_t);
      ready -= (int64_t)sizeof(shoal_hub_header_t);
    }
    shoal_local_stream_t *stream = *receiving;
    shoal_local_flow_t *flow = &stream->recvs[peer];
    const shoal_message_t *message = shoal_cursor_message(&flow->cursor, SHOAL_RECV);
    const int64_t left = message->bytes - flow->offset, bytes = left < ready ? left : ready;
    if (begun && bytes == 0) return;
    take(ring, world->hub->ring, head, (uint8_t *)message->data + flow->offset, bytes);
    head += (uint64_t)bytes;
    atomic_store_explicit(&pipe->head, head, memory_order_release);
    flow->offset += bytes;
    ++stream->moved;
    pass->moved = true;
    mark(pass, peer);
    if (flow->offset < message->bytes) return;  // the rest is not here yet
    *receiving = NULL;
    finish(world, stream, flow, SHOAL_RECV, peer, pass);
  }
}

// ---- one pass -------------------------------------------------------------------------

static void progress(shoal_local_world_t *world, pass_t *pass) {
  if (shoal_failure_is_set(&world->hub->failure)) return;  // exchanges may be gone
  for (shoal_local_stream_t *c = world->streams; c; c = c->next) {
    if (!c->pending.first) continue;
    for (int32_t peer = 0; peer < world->base.size; ++peer) push(world, c, peer, pass);
  }
  for (int32_t peer = 0; peer < world->base.size; ++peer) {
    const int used = (int)atomic_load_explicit(shoal_hub_used(world->hub, peer, world->base.rank),
                                               memory_order_acquire);
    for (int pipe = 0; pipe < used; ++pipe) pull(world, peer, pipe, pass);
  }
}

shoal_status_t shoal_local_exchange_start(shoal_stream_t *base, shoal_exchange_t *exchange) {
  shoal_local_world_t *world = (shoal_local_world_t *)base->world;
  shoal_local_stream_t *stream = (shoal_local_stream_t *)base;
  SHOAL_RETURN_IF_ERROR(shoal_failure_status(&world->hub->failure));
  if (shoal_exchange_done(exchange)) return NULL;  // it is empty
  pass_t pass = {.mine = exchange};
  shoal_mutex_lock(&world->mutex);
  shoal_pending_add(&stream->pending, exchange);
  for (int32_t i = 0; i < exchange->send_count; ++i) {
    const int32_t peer = exchange->sends[i].peer;
    shoal_cursor_offer(&stream->sends[peer].cursor, SHOAL_SEND, peer, exchange);
  }
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const int32_t peer = exchange->recvs[i].peer;
    shoal_cursor_offer(&stream->recvs[peer].cursor, SHOAL_RECV, peer, exchange);
  }
  progress(world, &pass);
  const bool done = shoal_exchange_done(exchange);
  shoal_mutex_unlock(&world->mutex);
  ring_marked(world, &pass);
  // A collective waits right behind; what a caller has started may be left alone for long.
  if (!done && !base->collective) shoal_local_mover_start(world);
  return NULL;
}

// ---- waiting --------------------------------------------------------------------------

// The first message of the exchange that is still to come. Mutex held.
static const shoal_message_t *first_missing(shoal_local_stream_t *stream,
                                            const shoal_exchange_t *exchange,
                                            shoal_direction_t *out_direction, int64_t *out_moved) {
  for (int d = SHOAL_RECV; d >= SHOAL_SEND; --d) {
    const shoal_direction_t direction = (shoal_direction_t)d;
    const shoal_message_t *messages = shoal_exchange_messages(exchange, direction);
    for (int32_t i = 0; i < shoal_exchange_count(exchange, direction); ++i) {
      const shoal_local_flow_t *flow =
          &(direction == SHOAL_SEND ? stream->sends : stream->recvs)[messages[i].peer];
      if (!shoal_cursor_is_ahead(&flow->cursor, exchange, i)) continue;
      const bool current = flow->cursor.exchange == exchange && flow->cursor.index == i;
      *out_direction = direction;
      *out_moved = current ? flow->offset : 0;
      return &messages[i];
    }
  }
  return NULL;
}

// "rank 1 waits to receive tag 5, 64 bytes (16 there) from rank 0". Returns that rank. Mutex held.
static int32_t describe_wait(shoal_local_world_t *world, shoal_local_stream_t *stream,
                             const shoal_exchange_t *exchange, char *buffer, size_t capacity) {
  shoal_direction_t direction;
  int64_t moved;
  const shoal_message_t *m = first_missing(stream, exchange, &direction, &moved);
  if (!m) {
    snprintf(buffer, capacity, "rank %d waits", world->base.rank);
    return -1;
  }
  char what[80];
  if (stream->base.collective && m->tag == SHOAL_TAG_MEETING) {
    shoal_stream_describe(&stream->base, stream->meeting, what, sizeof what);
    snprintf(buffer, capacity, "rank %d waits in %s for rank %d", world->base.rank, what, m->peer);
    return m->peer;
  }
  shoal_stream_describe(&stream->base, m->tag, what, sizeof what);
  const int64_t more = exchange->send_count + exchange->recv_count -
                       exchange->progress[SHOAL_SEND] - exchange->progress[SHOAL_RECV] - 1;
  const bool recv = direction == SHOAL_RECV;
  int length = snprintf(buffer, capacity, "rank %d waits to %s %s, %lld bytes (%lld %s) %s rank %d",
                        world->base.rank, recv ? "receive" : "send", what, (long long)m->bytes,
                        (long long)moved, recv ? "there" : "taken", recv ? "from" : "to", m->peer);
  if (more > 0 && (size_t)length < capacity) {
    snprintf(buffer + length, capacity - (size_t)length, ", and for %lld more messages",
             (long long)more);
  }
  return m->peer;
}

static void fail_gone(shoal_local_world_t *world, int32_t peer, const char *waits) {
  char headline[400], message[SHOAL_FAILURE_TEXT];
  const bool ended = shoal_hub_state(world->hub, peer) == SHOAL_HUB_GONE;
  snprintf(headline, sizeof headline, "rank %d has %s; %s", peer, ended ? "ended" : "left", waits);
  shoal_report(&world->base, headline, message, sizeof message);
  shoal_hub_fail(world->hub, SHOAL_ABORTED, peer, message);
}

static void fail_late(shoal_local_world_t *world, const char *waits) {
  char headline[400], message[SHOAL_FAILURE_TEXT];
  snprintf(headline, sizeof headline, "no progress in %lld ms: %s",
           (long long)world->base.timeout_ms, waits);
  shoal_report(&world->base, headline, message, sizeof message);
  shoal_hub_fail(world->hub, SHOAL_DEADLINE, world->base.rank, message);
}

// A peer that this exchange needs has left or died: nothing will come any more. Mutex held, and a
// pass was made after its state was read.
static void check_left(shoal_local_world_t *world, shoal_local_stream_t *stream,
                       const shoal_exchange_t *exchange, const uint64_t *left) {
  shoal_direction_t direction;
  int64_t moved;
  const shoal_message_t *m = first_missing(stream, exchange, &direction, &moved);
  if (!m || !(left[m->peer / 64] >> (m->peer % 64) & 1)) return;
  char waits[300];
  describe_wait(world, stream, exchange, waits, sizeof waits);
  fail_gone(world, m->peer, waits);
}

static void read_left(shoal_local_world_t *world, uint64_t *out_left) {
  for (int32_t i = 0; i < world->base.size; ++i) {
    if (shoal_hub_has_left(world->hub, i, world->generation)) {
      out_left[i / 64] |= UINT64_C(1) << (i % 64);
    }
  }
}

// Until the bell has rung since `bell`, or a slice of time has passed.
static void sleep_at_bell(shoal_local_world_t *world, uint32_t bell, int64_t until) {
  shoal_hub_rank_t *own = &world->hub->ranks[world->base.rank];
  for (int i = 0; world->spin && i < SPINS; ++i) {
    if (atomic_load_explicit(&own->bell, memory_order_relaxed) != bell) return;
    shoal_local_pause();
  }
  atomic_fetch_add(&own->sleepers, 1);
  shoal_futex_wait(&own->bell, bell, until);
  atomic_fetch_sub(&own->sleepers, 1);
}

// *told: the wait that says so, once it has lasted.
static shoal_status_t wait_for_exchange(shoal_stream_t *base, shoal_exchange_t *exchange,
                                        int32_t *told) {
  shoal_local_world_t *world = (shoal_local_world_t *)base->world;
  shoal_local_stream_t *stream = (shoal_local_stream_t *)base;
  shoal_hub_rank_t *own = &world->hub->ranks[world->base.rank];
  const int64_t limit = base->world->timeout_ms * 1000000;
  int64_t deadline = 0, next_check = 0;
  uint64_t seen = 0;
  for (;;) {
    pass_t pass = {.mine = exchange};
    uint64_t left[SHOAL_HUB_MAX_RANKS / 64] = {0};
    read_left(world, left);
    const uint32_t bell = atomic_load(&own->bell);
    shoal_mutex_lock(&world->mutex);
    progress(world, &pass);
    const bool done = shoal_exchange_done(exchange);
    const bool broken = !done && shoal_failure_is_set(&world->hub->failure);
    if (broken) {  // the caller's storage goes away, and nothing moves any more
      shoal_pending_remove(&stream->pending, exchange);
    } else if (!done && !pass.moved) {
      check_left(world, stream, exchange, left);
    }
    const int64_t now = done || pass.moved ? 0 : shoal_time_ns();
    const bool stuck = now && deadline && stream->moved == seen && now >= deadline;
    const bool lasts = stuck || (now && deadline && now >= deadline - limit + SLICE_NS);
    char waits[300] = "";
    int32_t peer = -1;
    if (lasts && !broken) peer = describe_wait(world, stream, exchange, waits, sizeof waits);
    const uint64_t moved = stream->moved;
    shoal_mutex_unlock(&world->mutex);
    ring_marked(world, &pass);
    if (done) return NULL;
    if (broken) return shoal_failure_status(&world->hub->failure);
    if (pass.moved) continue;
    if (stuck) {
      fail_late(world, waits);
      continue;
    }
    if (lasts) *told = shoal_wait_tell(base->world, *told, peer, waits);
    if (!deadline || moved != seen) {
      deadline = now + limit;
      seen = moved;
    }
    if (!world->threads && now >= next_check) {
      if (next_check) shoal_hub_check_processes(world->hub, world->base.rank);
      next_check = now + SLICE_NS;
    }
    const int64_t slice = now + SLICE_NS;
    sleep_at_bell(world, bell, slice < deadline ? slice : deadline);
  }
}

shoal_status_t shoal_local_exchange_wait(shoal_stream_t *base, shoal_exchange_t *exchange) {
  int32_t told = -1;
  shoal_local_waits((shoal_local_world_t *)base->world);
  shoal_status_t status = wait_for_exchange(base, exchange, &told);
  shoal_local_waits_no_more((shoal_local_world_t *)base->world);
  shoal_wait_clear(base->world, told);
  return status;
}

// ---- waiting for anything else --------------------------------------------------------

bool shoal_local_move_started(shoal_local_world_t *world, bool *out_moved) {
  pass_t pass = {0};
  shoal_mutex_lock(&world->mutex);
  progress(world, &pass);
  bool pending = false;
  for (shoal_local_stream_t *s = world->streams; s && !pending; s = s->next) {
    pending = s->pending.first != NULL;
  }
  shoal_mutex_unlock(&world->mutex);
  ring_marked(world, &pass);
  *out_moved = pass.moved;
  return pending;
}

static void move_started(shoal_local_world_t *world) {
  bool moved;
  (void)shoal_local_move_started(world, &moved);
}

static void fail_waiting(shoal_local_world_t *world, shoal_local_describe_fn_t describe, void *self,
                         int32_t gone) {
  char waits[300];
  describe(self, waits, sizeof waits);
  if (gone >= 0) {
    fail_gone(world, gone, waits);
  } else {
    fail_late(world, waits);
  }
}

shoal_status_t shoal_local_wait_until(shoal_local_world_t *world, shoal_local_done_fn_t done,
                                      shoal_local_describe_fn_t describe, void *self) {
  shoal_hub_rank_t *own = &world->hub->ranks[world->base.rank];
  const int64_t limit = world->base.timeout_ms * 1000000;
  int64_t deadline = shoal_time_ns() + limit, next_check = 0;
  int32_t missing = -1, seen = -1, told = -1;
  bool is_done = false;
  // Registered before the condition is looked at: whoever makes it true from here on rings.
  shoal_local_waits(world);
  atomic_fetch_add(&own->sleepers, 1);
  while (!shoal_failure_is_set(&world->hub->failure)) {
    uint64_t left[SHOAL_HUB_MAX_RANKS / 64] = {0};
    read_left(world, left);
    const uint32_t bell = atomic_load(&own->bell);
    is_done = done(self, &missing);
    if (is_done) break;
    move_started(world);
    const int64_t now = shoal_time_ns();
    if (missing >= 0 && (left[missing / 64] >> (missing % 64) & 1)) {
      fail_waiting(world, describe, self, missing);
      break;
    }
    if (missing != seen) {  // another one came
      deadline = now + limit;
      seen = missing;
    }
    if (now >= deadline) {
      fail_waiting(world, describe, self, -1);
      break;
    }
    if (now >= deadline - limit + SLICE_NS) {
      char waits[300];
      describe(self, waits, sizeof waits);
      told = shoal_wait_tell(&world->base, told, missing, waits);
    }
    if (!world->threads && now >= next_check) {
      if (next_check) shoal_hub_check_processes(world->hub, world->base.rank);
      next_check = now + SLICE_NS;
    }
    const int64_t slice = now + SLICE_NS;
    shoal_futex_wait(&own->bell, bell, slice < deadline ? slice : deadline);
  }
  atomic_fetch_sub(&own->sleepers, 1);
  shoal_local_waits_no_more(world);
  shoal_wait_clear(&world->base, told);
  return is_done ? NULL : shoal_failure_status(&world->hub->failure);
}

static shoal_status_t rest(shoal_world_t *base, int64_t until_ns) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  shoal_hub_rank_t *own = &world->hub->ranks[base->rank];
  for (;;) {
    const uint32_t bell = atomic_load(&own->bell);
    if (shoal_failure_is_set(&world->hub->failure)) {
      return shoal_failure_status(&world->hub->failure);
    }
    move_started(world);
    if (shoal_time_ns() >= until_ns) return NULL;
    atomic_fetch_add(&own->sleepers, 1);
    shoal_futex_wait(&own->bell, bell, until_ns);
    atomic_fetch_sub(&own->sleepers, 1);
  }
}

shoal_status_t shoal_local_rest(shoal_world_t *base, int64_t until_ns) {
  shoal_local_waits((shoal_local_world_t *)base);
  shoal_status_t status = rest(base, until_ns);
  shoal_local_waits_no_more((shoal_local_world_t *)base);
  return status;
}
