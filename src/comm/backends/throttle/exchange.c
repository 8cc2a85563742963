// Streams and exchanges of `throttle`: an exchange becomes one of the world below, with a ticket
// behind every message. What that takes lies in *parcels*, which streams keep and use again: no
// allocation once as many are there as were ever in flight.
#include <stdio.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/time.h"
#include "comm/backends/throttle/throttle.h"

#define TOLD_NS INT64_C(100000000)  // sleeps that reports hear of

// Follows every message.
typedef struct ticket {
  uint64_t number;  // of the messages between two ranks on a stream, lost ones too
  shoal_throttle_times_t times;
} ticket_t;

typedef struct parcel {
  struct parcel *next;       // all of the stream
  struct parcel *next_free;  // those not in use
  int32_t capacity;          // messages
  shoal_exchange_t inner;
  uint64_t *expected;         // numbers, of receives
  ticket_t *tickets;          // of sends, then of receives
  shoal_message_t *messages;  // likewise, two each: the message and its ticket
} parcel_t;

typedef struct throttle_stream {
  shoal_stream_t base;
  shoal_stream_t *inner;
  shoal_mutex_t mutex;  // of all below, and of the order of messages
  parcel_t *parcels, *free;
  uint64_t *sent, *received;  // messages to and from each rank
} throttle_stream_t;

int64_t shoal_throttle_sent(const shoal_world_t *world) {
  return atomic_load(&((const shoal_throttle_world_t *)world)->sent);
}

// ---- streams --------------------------------------------------------------------------

shoal_status_t shoal_throttle_stream_create(shoal_world_t *world, uint64_t id,
                                            shoal_stream_t **out_stream) {
  shoal_world_t *inner = shoal_throttle_inner(world);
  const size_t n = (size_t)world->size;
  throttle_stream_t *stream =
      world->allocator.alloc(world->allocator.self, sizeof *stream + 2 * n * sizeof *stream->sent);
  if (!stream) return SHOAL_OOM();
  *stream = (throttle_stream_t){.base = {.world = world, .id = id}};
  stream->sent = (uint64_t *)(stream + 1);
  stream->received = stream->sent + n;
  for (size_t i = 0; i < 2 * n; ++i) stream->sent[i] = 0;
  shoal_status_t status = shoal_mutex_init(&stream->mutex);
  if (!status) {
    // The world below has streams of its own, 0 among them.
    const uint64_t inner_id =
        shoal_hash_int(shoal_hash_string(SHOAL_HASH_START, "throttle"), (int64_t)id);
    status = inner->ops->stream_create(inner, inner_id, &stream->inner);
    if (status) shoal_mutex_deinit(&stream->mutex);
  }
  if (status) {
    world->allocator.free(world->allocator.self, stream);
    return status;
  }
  *out_stream = &stream->base;
  return NULL;
}

void shoal_throttle_stream_free(shoal_stream_t *base) {
  throttle_stream_t *stream = (throttle_stream_t *)base;
  shoal_allocator_t allocator = base->world->allocator;
  shoal_world_t *inner = shoal_throttle_inner(base->world);
  inner->ops->stream_free(stream->inner);  // first: it may still know of exchanges in parcels
  while (stream->parcels) {
    parcel_t *next = stream->parcels->next;
    allocator.free(allocator.self, stream->parcels);
    stream->parcels = next;
  }
  shoal_mutex_deinit(&stream->mutex);
  allocator.free(allocator.self, stream);
}

// What the world below says in errors about a group's stream: once, but for the calls.
static void tell_inner(throttle_stream_t *stream) {
  atomic_store_explicit(&stream->inner->calls,
                        atomic_load_explicit(&stream->base.calls, memory_order_relaxed),
                        memory_order_relaxed);
  if (stream->inner->collective == stream->base.collective &&
      stream->inner->ranks[0] == stream->base.ranks[0]) {
    return;
  }
  snprintf(stream->inner->ranks, sizeof stream->inner->ranks, "%s", stream->base.ranks);
  stream->inner->collective = stream->base.collective;
  stream->inner->is_lane = stream->base.is_lane;
}

// ---- parcels. The stream's mutex is held. ---------------------------------------------

static parcel_t *create_parcel(throttle_stream_t *stream, int32_t count) {
  int32_t capacity = 4;
  while (capacity < count && capacity <= INT32_MAX / 2) capacity *= 2;
  if (capacity < count) return NULL;
  const size_t n = (size_t)capacity;
  shoal_allocator_t allocator = stream->base.world->allocator;
  parcel_t *parcel = allocator.alloc(
      allocator.self, sizeof *parcel + n * (sizeof *parcel->expected + sizeof *parcel->tickets +
                                            2 * sizeof *parcel->messages));
  if (!parcel) return NULL;
  *parcel = (parcel_t){.next = stream->parcels, .capacity = capacity};
  parcel->messages = (shoal_message_t *)(parcel + 1);
  parcel->tickets = (ticket_t *)(parcel->messages + 2 * n);
  parcel->expected = (uint64_t *)(parcel->tickets + n);
  stream->parcels = parcel;
  return parcel;
}

static parcel_t *take_parcel(throttle_stream_t *stream, int32_t count) {
  parcel_t **at = &stream->free;
  while (*at && (*at)->capacity < count) at = &(*at)->next_free;
  parcel_t *parcel = *at;
  if (!parcel) return create_parcel(stream, count);
  *at = parcel->next_free;
  return parcel;
}

static void give_parcel(throttle_stream_t *stream, parcel_t *parcel) {
  parcel->next_free = stream->free;
  stream->free = parcel;
}

// ---- starting -------------------------------------------------------------------------

static void add(shoal_message_t *messages, int32_t *count, const shoal_message_t *message,
                ticket_t *ticket) {
  messages[(*count)++] = *message;
  messages[(*count)++] =
      (shoal_message_t){message->peer, message->tag, (int64_t)sizeof *ticket, ticket};
}

// Books a message's time, and what faults do to it. False: it is lost.
static bool send(shoal_throttle_world_t *world, const shoal_message_t *message, int64_t now,
                 ticket_t *ticket) {
  const shoal_throttle_route_t *route = &world->routes[message->peer];
  ticket->times = shoal_throttle_book(world, route, route->out, message->bytes, now);
  if (message->peer == world->base.rank) return true;
  const int64_t number = atomic_fetch_add(&world->sent, 1) + 1;
  for (int32_t i = 0; i < world->fault_count; ++i) {
    const shoal_throttle_fault_t *fault = &world->faults[i];
    if (fault->message != number) continue;
    if (fault->delay_ns == SHOAL_THROTTLE_LOST) return false;
    ticket->times.delivered += fault->delay_ns;
  }
  return true;
}

static void pack(throttle_stream_t *stream, const shoal_exchange_t *exchange, parcel_t *parcel) {
  shoal_throttle_world_t *world = (shoal_throttle_world_t *)stream->base.world;
  const int64_t now = shoal_time_ns();
  shoal_message_t *sends = parcel->messages, *recvs = sends + 2 * exchange->send_count;
  int32_t send_count = 0, recv_count = 0;
  for (int32_t i = 0; i < exchange->send_count; ++i) {
    const shoal_message_t *message = &exchange->sends[i];
    ticket_t *ticket = &parcel->tickets[i];
    ticket->number = stream->sent[message->peer]++;
    if (send(world, message, now, ticket)) add(sends, &send_count, message, ticket);
  }
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const shoal_message_t *message = &exchange->recvs[i];
    parcel->expected[i] = stream->received[message->peer]++;
    add(recvs, &recv_count, message, &parcel->tickets[exchange->send_count + i]);
  }
  parcel->inner = (shoal_exchange_t){.world = world->inner,
                                     .send_count = send_count,
                                     .recv_count = recv_count,
                                     .sends = sends,
                                     .recvs = recvs,
                                     .private_data = stream->inner};
}

shoal_status_t shoal_throttle_exchange_start(shoal_stream_t *base, shoal_exchange_t *exchange) {
  throttle_stream_t *stream = (throttle_stream_t *)base;
  shoal_world_t *inner = shoal_throttle_inner(base->world);
  int32_t count;
  exchange->state = 0;  // the parcel
  if (exchange->send_count == 0 && exchange->recv_count == 0) return inner->ops->broken(inner);
  shoal_mutex_lock(&stream->mutex);
  parcel_t *parcel = NULL;
  if (!__builtin_add_overflow(exchange->send_count, exchange->recv_count, &count)) {
    parcel = take_parcel(stream, count);
  }
  shoal_status_t status = NULL;
  if (parcel) {
    tell_inner(stream);
    pack(stream, exchange, parcel);
    status = inner->ops->exchange_start(stream->inner, &parcel->inner);
    if (status) {
      give_parcel(stream, parcel);
    } else {
      exchange->state = (uint64_t)(uintptr_t)parcel;
    }
  }
  shoal_mutex_unlock(&stream->mutex);
  if (parcel) return status;
  status = SHOAL_OOM();  // peers will wait for this rank
  inner->ops->fail(inner, shoal_status_code(status), shoal_status_message(status));
  return status;
}

// ---- waiting --------------------------------------------------------------------------

static shoal_status_t fail(shoal_world_t *inner, shoal_code_t code, const char *message) {
  inner->ops->fail(inner, code, message);
  return inner->ops->broken(inner);
}

// The messages that came are those that were sent first.
static shoal_status_t check_numbers(throttle_stream_t *stream, const shoal_exchange_t *exchange,
                                    const parcel_t *parcel) {
  shoal_world_t *inner = shoal_throttle_inner(stream->base.world);
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const uint64_t expected = parcel->expected[i];
    const uint64_t came = parcel->tickets[exchange->send_count + i].number;
    if (came == expected) continue;
    const shoal_message_t *m = &exchange->recvs[i];
    char what[64], call[64], text[400];
    shoal_stream_describe(&stream->base, m->tag, what, sizeof what);
    shoal_stream_describe_call(&stream->base, call, sizeof call);
    snprintf(text, sizeof text,
             "rank %d expects message %llu from rank %d (%s, %lld bytes)%s, but message %llu came: "
             "%s",
             inner->rank, (unsigned long long)expected, m->peer, what, (long long)m->bytes, call,
             (unsigned long long)came, came > expected ? "one was lost" : "it came twice");
    return fail(inner, SHOAL_MISMATCH, text);
  }
  return NULL;
}

static shoal_status_t fail_late(throttle_stream_t *stream, const shoal_message_t *m) {
  shoal_world_t *inner = shoal_throttle_inner(stream->base.world);
  char what[64], text[400];
  shoal_stream_describe(&stream->base, m->tag, what, sizeof what);
  snprintf(
      text, sizeof text,
      "no progress in %lld ms: rank %d waits to receive %s, %lld bytes from rank %d, which are "
      "through their link but not delivered",
      (long long)inner->timeout_ms, inner->rank, what, (long long)m->bytes, m->peer);
  return fail(inner, SHOAL_DEADLINE, text);
}

// For reports, where it takes long: "rank 1 waits to receive tag 5, 64 bytes from rank 0, ...".
static int32_t tell(throttle_stream_t *stream, const shoal_message_t *m, bool recv, int64_t ns) {
  if (ns < TOLD_NS) return -1;
  char what[64], text[300];
  shoal_stream_describe(&stream->base, m->tag, what, sizeof what);
  snprintf(text, sizeof text, "rank %d waits to %s %s, %lld bytes %s rank %d: %lld ms on the link",
           stream->base.world->rank, recv ? "receive" : "send", what, (long long)m->bytes,
           recv ? "from" : "to", m->peer, (long long)(ns / 1000000));
  return shoal_wait_tell(stream->base.world, -1, m->peer, text);
}

// Sleeps until all sends are through and all receives delivered, if that is in time.
static shoal_status_t sleep_until_done(throttle_stream_t *stream, const shoal_exchange_t *exchange,
                                       const parcel_t *parcel) {
  shoal_throttle_world_t *world = (shoal_throttle_world_t *)stream->base.world;
  const ticket_t *tickets = parcel->tickets;
  const int64_t now = shoal_time_ns(), limit = world->base.timeout_ms * 1000000;
  int64_t until = now, give_up = INT64_MAX;
  const shoal_message_t *last = NULL, *late = NULL;
  for (int32_t i = 0; i < exchange->send_count; ++i) {
    if (tickets[i].times.through <= until) continue;
    until = tickets[i].times.through;
    last = &exchange->sends[i];
  }
  for (int32_t i = 0; i < exchange->recv_count; ++i) {
    const shoal_throttle_times_t times = tickets[exchange->send_count + i].times;
    const int64_t since = times.through > now ? times.through : now;
    if (times.delivered - since > limit && since + limit < give_up) {
      give_up = since + limit;
      late = &exchange->recvs[i];
    }
    if (times.delivered <= until) continue;
    until = times.delivered;
    last = &exchange->recvs[i];
  }
  if (!last) return NULL;
  const bool recv = last >= exchange->recvs && last < exchange->recvs + exchange->recv_count;
  const int32_t told = tell(stream, last, recv, until - now);
  shoal_status_t status = shoal_throttle_sleep(world, late ? give_up : until);
  shoal_wait_clear(&world->base, told);
  return late && !status ? fail_late(stream, late) : status;
}

shoal_status_t shoal_throttle_exchange_wait(shoal_stream_t *base, shoal_exchange_t *exchange) {
  throttle_stream_t *stream = (throttle_stream_t *)base;
  shoal_world_t *inner = shoal_throttle_inner(base->world);
  parcel_t *parcel = (parcel_t *)(uintptr_t)exchange->state;
  if (!parcel) return NULL;  // it was empty
  shoal_status_t status = inner->ops->exchange_wait(stream->inner, &parcel->inner);
  if (!status) status = check_numbers(stream, exchange, parcel);
  if (!status) status = sleep_until_done(stream, exchange, parcel);
  exchange->state = 0;
  shoal_mutex_lock(&stream->mutex);
  give_parcel(stream, parcel);
  shoal_mutex_unlock(&stream->mutex);
  return status;
}
