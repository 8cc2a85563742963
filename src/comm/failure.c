// Why a world is broken: written once, by whoever comes first, read by every rank. Also the texts
// that errors share.
#include <stdio.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/comm_impl.h"
#include "op/reduce.h"

// While it is being written the state also has the rank in it, from bit 2 up: who writes may be
// killed before the rest is there.
static uint32_t writing_state(int32_t rank) {
  return 1u | (uint32_t)(rank + 1) << 2;
}

bool shoal_failure_set(shoal_failure_t *failure, shoal_code_t code, int32_t rank,
                       const char *message) {
  uint32_t fine = 0;
  if (!atomic_compare_exchange_strong(&failure->state, &fine, writing_state(rank))) return false;
  failure->code = (int32_t)code;
  failure->rank = rank;
  snprintf(failure->message, sizeof failure->message, "%s", message);
  atomic_store_explicit(&failure->state, 2, memory_order_release);
  return true;
}

shoal_status_t shoal_failure_status(const shoal_failure_t *failure) {
  if (!shoal_failure_is_set(failure)) return NULL;
  // The writer may have died in between: do not wait for it long.
  for (int i = 0; i < 100; ++i) {
    if (atomic_load_explicit(&failure->state, memory_order_acquire) == 2) {
      return shoal_status_create((shoal_code_t)failure->code, __FILE__, __LINE__, failure->message,
                                 NULL);
    }
    shoal_time_sleep_ns(1000000);
  }
  return SHOAL_ERROR(ABORTED, "rank %d failed; who was about to say why has died",
                     (int32_t)(atomic_load(&failure->state) >> 2) - 1);
}

// ---- texts ----------------------------------------------------------------------------

const shoal_collective_facts_t shoal_collective_facts[] = {
#define SHOAL_COLLECTIVE(id, name, joins, sends, sender, receives, receiver, traffic) \
  [SHOAL_COLLECTIVE_##id] = {name,                                                    \
                             SHOAL_JOINS_##joins,                                     \
                             SHOAL_HOLDS_##sends,                                     \
                             SHOAL_HOLDS_##receives,                                  \
                             SHOAL_WHO_##sender,                                      \
                             SHOAL_WHO_##receiver},
#include "shoal/collectives.inc"
#undef SHOAL_COLLECTIVE
};

const char *shoal_collective_name(shoal_collective_kind_t kind) {
  return (unsigned)kind < SHOAL_COLLECTIVE_COUNT ? shoal_collective_facts[kind].name : "?";
}

// Bits 0-5 kind, 6 any order, 7 bounded, 8-11 dtype, 12-15 reduction, 16-30 root.
int32_t shoal_collective_tag(const shoal_collective_t *collective) {
  return (int32_t)((uint32_t)collective->kind | (uint32_t)collective->any_order << 6 |
                   (uint32_t)collective->bounded << 7 | (uint32_t)collective->dtype << 8 |
                   (uint32_t)collective->reduce << 12 |
                   ((uint32_t)collective->root & 0x7fff) << 16);
}

void shoal_stream_describe(const shoal_stream_t *stream, int32_t tag, char *buffer,
                           size_t capacity) {
  if (stream->collective) {
    shoal_collective_describe(tag, buffer, capacity);
  } else {
    snprintf(buffer, capacity, "tag %d", tag);
  }
}

void shoal_stream_describe_call(const shoal_stream_t *stream, char *buffer, size_t capacity) {
  const unsigned long long call = atomic_load_explicit(&stream->calls, memory_order_relaxed);
  buffer[0] = 0;
  if (stream->collective) {
    snprintf(buffer, capacity, " in call %llu of ranks %s", call, stream->ranks);
  } else if (stream->is_lane) {
    snprintf(buffer, capacity, " on lane '%s'", stream->ranks);
  } else if (stream->ranks[0]) {
    snprintf(buffer, capacity, " in the group of ranks %s", stream->ranks);
  }
}

void shoal_stream_describe_mismatch(const shoal_stream_t *stream, const shoal_message_t *expected,
                                    shoal_came_t came, char *buffer, size_t capacity) {
  char want[80], have[80], call[64];
  shoal_stream_describe(stream, expected->tag, want, sizeof want);
  shoal_stream_describe(stream, came.tag, have, sizeof have);
  shoal_stream_describe_call(stream, call, sizeof call);
  snprintf(buffer, capacity,
           "rank %d expects %s, %lld bytes from rank %d%s, but rank %d sent %s, %lld bytes "
           "(message %llu between them)",
           stream->world->rank, want, (long long)expected->bytes, expected->peer, call,
           expected->peer, have, (long long)came.bytes, (unsigned long long)came.sequence);
}

void shoal_collective_describe(int32_t tag, char *buffer, size_t capacity) {
  const shoal_collective_kind_t kind = (shoal_collective_kind_t)(tag & 0x3f);
  if (tag == SHOAL_TAG_MEETING) {
    snprintf(buffer, capacity, "the group's first meeting");
    return;
  }
  int length =
      snprintf(buffer, capacity, "%s%s", tag & 0x80 ? "bounded " : "", shoal_collective_name(kind));
  if (kind == SHOAL_COLLECTIVE_BARRIER || kind >= SHOAL_COLLECTIVE_COUNT ||
      (size_t)length >= capacity)
    return;
  if (kind != SHOAL_COLLECTIVE_BROADCAST) {
    length += snprintf(buffer + length, capacity - (size_t)length, " of %s",
                       shoal_dtype_name((shoal_dtype_t)(tag >> 8 & 0xf)));
  }
  if (shoal_collective_is_reduction(kind) && (size_t)length < capacity) {
    length += snprintf(buffer + length, capacity - (size_t)length, " by %s",
                       shoal_reduce_name((shoal_reduce_t)(tag >> 12 & 0xf)));
  }
  if (tag & 0x40 && (size_t)length < capacity) {
    length += snprintf(buffer + length, capacity - (size_t)length, " in any order");
  }
  if (shoal_collective_has_root(kind) && (size_t)length < capacity) {
    snprintf(buffer + length, capacity - (size_t)length, " %s group rank %d",
             shoal_collective_facts[kind].sender == SHOAL_WHO_ROOT ? "from" : "to", tag >> 16);
  }
}
