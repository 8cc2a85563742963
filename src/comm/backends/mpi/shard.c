// Windows of `mpi`, the owner's side: this rank's shard, served by whoever moves the world along -
// a thread that waits for something, else the progress thread. The world's mutex is held.
//
// Calls are served in the order in which they arrive. A put of many chunks is added as they come,
// while nobody else may read or write: so it is seen with its version or not at all, and needs one
// chunk of memory. A get sends from the shard itself, which no put changes meanwhile.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"
#include "device/reduce.h"

#define TELL_AFTER_NS INT64_C(50000000)  // who waits this long for a version hears who is behind
#define VERSIONS_AT_ONCE \
  ((int32_t)((SHOAL_MPI_INLINE - sizeof(shoal_mpi_window_head_t)) / sizeof(uint64_t)))

static shoal_mpi_window_head_t *head_of(shoal_mpi_packet_t *packet) {
  return (shoal_mpi_window_head_t *)(void *)packet->bytes;
}

static shoal_mpi_window_t *find_window(shoal_mpi_world_t *world, uint64_t id) {
  shoal_mpi_window_t *window = world->windows;
  while (window && window->id != id) window = window->next;
  return window;
}

// ---- answers --------------------------------------------------------------------------

// A packet back to a caller on another rank; NULL: the world is broken now.
static shoal_mpi_flight_t *reply(shoal_mpi_world_t *world, const shoal_mpi_window_t *window,
                                 int32_t peer, uint64_t call, shoal_mpi_kind_t kind) {
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) {
    shoal_mpi_break(world, SHOAL_OUT_OF_MEMORY, "out of memory for an answer of a window");
    return NULL;
  }
  flight->peer = peer;
  flight->packet.header =
      (shoal_mpi_header_t){.stream = window->id, .sequence = call, .kind = kind};
  *head_of(&flight->packet) = (shoal_mpi_window_head_t){0};
  return flight;
}

// The call of `peer` is done; of this rank itself: it may go on.
static void answer(shoal_mpi_world_t *world, const shoal_mpi_window_t *window, int32_t peer,
                   uint64_t id) {
  if (peer == world->base.rank) {
    shoal_mpi_call_t *call = shoal_mpi_find_call(world, id);
    if (call) --call->left;
    return;
  }
  shoal_mpi_flight_t *flight = reply(world, window, peer, id, SHOAL_MPI_ANSWER);
  if (flight) shoal_mpi_depart(world, flight, sizeof(shoal_mpi_window_head_t), false);
}

// Versions go behind the flight's head; returns the bytes behind its header.
static int64_t add_versions(shoal_mpi_flight_t *flight, const shoal_mpi_window_t *window,
                            int32_t first, int32_t count) {
  shoal_mpi_window_head_t *head = head_of(&flight->packet);
  head->first = first;
  head->count = count;
  memcpy(head + 1, window->versions + first, (size_t)count * sizeof *window->versions);
  return (int64_t)sizeof *head + count * (int64_t)sizeof *window->versions;
}

// Versions and bytes of one moment: no put is served before all of it is on its way.
static void answer_get(shoal_mpi_world_t *world, shoal_mpi_window_t *window,
                       shoal_mpi_packet_t *packet) {
  const shoal_mpi_window_head_t *head = head_of(packet);
  const int32_t wanted = head->count ? window->group->size : 0;
  const int64_t bytes = packet->header.bytes;
  const uint64_t id = packet->header.sequence;
  shoal_mpi_flight_t *flight;
  int32_t first = 0;
  for (; wanted - first > VERSIONS_AT_ONCE; first += VERSIONS_AT_ONCE) {
    flight = reply(world, window, packet->peer, id, SHOAL_MPI_VERSIONS);
    if (!flight) return;
    shoal_mpi_depart(world, flight, add_versions(flight, window, first, VERSIONS_AT_ONCE), false);
  }
  flight = reply(world, window, packet->peer, id, SHOAL_MPI_ANSWER);
  if (!flight) return;
  int64_t behind = add_versions(flight, window, first, wanted - first);
  flight->packet.header.bytes = bytes;
  if (bytes <= SHOAL_MPI_INLINE - behind) {
    memcpy(flight->packet.bytes + behind, window->data + head->offset, (size_t)bytes);
    shoal_mpi_depart(world, flight, behind + bytes, false);
    return;
  }
  flight->own =
      (shoal_message_t){.peer = packet->peer, .bytes = bytes, .data = window->data + head->offset};
  flight->message = &flight->own;
  flight->window = window;
  flight->moved = &window->moved;
  ++window->readers;
  shoal_mpi_depart(world, flight, behind, true);
}

// ---- versions -------------------------------------------------------------------------

// The first group rank whose version is not yet there; -1: all are.
static int32_t first_behind(const shoal_mpi_window_t *window, const shoal_mpi_window_head_t *head) {
  const int32_t end = head->writer < 0 ? window->group->size : head->writer + 1;
  for (int32_t i = head->writer < 0 ? 0 : head->writer; i < end; ++i) {
    if (window->versions[i] < head->version) return i;
  }
  return -1;
}

static void raise_version(shoal_mpi_world_t *world, shoal_mpi_window_t *window, int32_t writer) {
  ++window->versions[writer];
  shoal_mpi_packet_t **at = &window->awaits;
  while (*at) {
    shoal_mpi_packet_t *packet = *at;
    if (first_behind(window, head_of(packet)) >= 0) {
      at = &packet->next;
      continue;
    }
    *at = packet->next;
    answer(world, window, packet->peer, packet->header.sequence);
    shoal_mpi_give_packet(world, packet);
  }
}

// Says who is behind, which also counts as progress of the wait when it is another one than before.
static void tell_behind(shoal_mpi_world_t *world, const shoal_mpi_window_t *window,
                        shoal_mpi_packet_t *packet, int32_t behind) {
  packet->told = behind;
  packet->time = shoal_time_ns();
  const shoal_mpi_window_head_t head = {.writer = behind, .version = window->versions[behind]};
  if (packet->peer == world->base.rank) {
    shoal_mpi_packet_t own = {
        .header = {.kind = SHOAL_MPI_BEHIND, .sequence = packet->header.sequence}};
    *head_of(&own) = head;
    shoal_mpi_call_answer(world, &own);
    return;
  }
  shoal_mpi_flight_t *flight =
      reply(world, window, packet->peer, packet->header.sequence, SHOAL_MPI_BEHIND);
  if (!flight) return;
  *head_of(&flight->packet) = head;
  shoal_mpi_depart(world, flight, sizeof head, false);
}

static void look_after(shoal_mpi_world_t *world, shoal_mpi_window_t *window) {
  const shoal_group_t *group = window->group;
  for (shoal_mpi_packet_t *p = window->awaits; p; p = p->next) {
    const shoal_mpi_window_head_t *head = head_of(p);
    const int32_t behind = first_behind(window, head);
    const int32_t rank = group->ranks[behind];
    if (world->peers[rank].left) {  // a put is over before its rank leaves
      char message[300];
      snprintf(message, sizeof message,
               "rank %d has left; rank %d waits for version %llu of it in the window shard of rank "
               "%d, which is at %llu",
               rank, p->peer, (unsigned long long)head->version, world->base.rank,
               (unsigned long long)window->versions[behind]);
      shoal_mpi_break(world, SHOAL_ABORTED, message);
      return;
    }
    if (p->told != behind && shoal_time_ns() - p->time > TELL_AFTER_NS) {
      tell_behind(world, window, p, behind);
    }
  }
}

void shoal_mpi_shards_step(shoal_mpi_world_t *world) {
  for (shoal_mpi_window_t *w = world->windows; w && !shoal_failure_is_set(&world->failure);
       w = w->next) {
    look_after(world, w);
  }
}

// ---- puts and gets --------------------------------------------------------------------

static void start_put(shoal_mpi_world_t *world, shoal_mpi_window_t *window,
                      shoal_mpi_packet_t *packet) {
  const shoal_mpi_header_t *header = &packet->header;
  const shoal_mpi_window_head_t *head = head_of(packet);
  if (!header->payload) {
    const shoal_dtype_t dtype = (shoal_dtype_t)header->tag;
    const int64_t count = header->bytes / (int64_t)shoal_dtype_size(dtype);
    if (count > 0) {
      shoal_reduce_into(dtype, SHOAL_REDUCE_SUM, count, head + 1, 1, window->data + head->offset,
                        1);
    }
    raise_version(world, window, head->writer);
    answer(world, window, packet->peer, header->sequence);
    return;
  }
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) {
    shoal_mpi_break(world, SHOAL_OUT_OF_MEMORY, "out of memory for a put into a window");
    return;
  }
  flight->packet.header = *header;
  *head_of(&flight->packet) = *head;
  flight->peer = packet->peer;
  flight->payload = header->payload;
  flight->own = (shoal_message_t){.peer = packet->peer, .bytes = header->bytes};
  flight->message = &flight->own;
  flight->window = window;
  flight->staging = window->staging;
  flight->most = SHOAL_MPI_STAGING;
  flight->moved = &window->moved;
  window->is_written = true;
  shoal_mpi_expect_payload(world, flight);
}

// The chunk that came is added; the next one may overwrite it.
void shoal_mpi_shard_chunk(shoal_mpi_flight_t *flight) {
  const shoal_dtype_t dtype = (shoal_dtype_t)flight->packet.header.tag;
  uint8_t *to = flight->window->data + head_of(&flight->packet)->offset + flight->offset;
  shoal_reduce_into(dtype, SHOAL_REDUCE_SUM, flight->chunk / (int64_t)shoal_dtype_size(dtype),
                    flight->staging, 1, to, 1);
}

// This rank's own call: it may now do it itself, without the mutex; release follows.
static void let(shoal_mpi_world_t *world, shoal_mpi_window_t *window, shoal_mpi_packet_t *packet) {
  shoal_mpi_call_t *call = shoal_mpi_find_call(world, packet->header.sequence);
  if (!call) return;  // given up: the world is broken
  if (packet->header.kind == SHOAL_MPI_PUT) {
    window->is_written = true;
  } else {
    ++window->readers;
    if (call->versions) {
      memcpy(call->versions, window->versions,
             (size_t)window->group->size * sizeof *window->versions);
    }
  }
  --call->left;
}

// Whoever's turn it is.
static void serve(shoal_mpi_world_t *world, shoal_mpi_window_t *window) {
  while (window->first && !shoal_failure_is_set(&world->failure)) {
    shoal_mpi_packet_t *packet = window->first;
    const bool is_put = packet->header.kind == SHOAL_MPI_PUT;
    if (window->is_written || (is_put && window->readers > 0)) return;
    window->first = packet->next;
    if (!window->first) window->last = NULL;
    if (packet->peer == world->base.rank) {
      let(world, window, packet);
    } else if (is_put) {
      start_put(world, window, packet);
    } else {
      answer_get(world, window, packet);
    }
    shoal_mpi_give_packet(world, packet);
  }
}

void shoal_mpi_shard_release(shoal_mpi_world_t *world, shoal_mpi_window_t *window, bool is_put) {
  if (is_put) {
    window->is_written = false;
    raise_version(world, window, window->group->rank);
  } else {
    --window->readers;
  }
  serve(world, window);
}

void shoal_mpi_shard_landed(shoal_mpi_world_t *world, shoal_mpi_flight_t *flight) {
  shoal_mpi_window_t *window = flight->window;
  if (flight->direction == SHOAL_RECV) {
    window->is_written = false;
    raise_version(world, window, head_of(&flight->packet)->writer);
    answer(world, window, flight->peer, flight->packet.header.sequence);
  } else {
    --window->readers;
  }
  serve(world, window);
}

// ---- taking calls ---------------------------------------------------------------------

// A peer has checked its call; this is for one that runs another version, or for torn memory.
static bool is_sound(const shoal_mpi_window_t *window, const shoal_mpi_packet_t *packet) {
  const shoal_mpi_header_t *header = &packet->header;
  const shoal_mpi_window_head_t *head =
      head_of((shoal_mpi_packet_t *)(uintptr_t)(const void *)packet);
  if (!window || header->check != SHOAL_MPI_CHECK) return false;
  if (header->kind == SHOAL_MPI_AWAIT) {
    return head->writer >= -1 && head->writer < window->group->size;
  }
  if (header->kind == SHOAL_MPI_PUT &&
      (head->writer < 0 || head->writer >= window->group->size ||
       !shoal_reduce_supported((shoal_dtype_t)header->tag, SHOAL_REDUCE_SUM))) {
    return false;
  }
  return header->bytes >= 0 && head->offset >= 0 && header->bytes <= window->bytes &&
         head->offset <= window->bytes - header->bytes;
}

void shoal_mpi_shard_take(shoal_mpi_world_t *world, shoal_mpi_packet_t *packet) {
  shoal_mpi_window_t *window = find_window(world, packet->header.stream);
  if (!shoal_failure_is_set(&world->failure) && !is_sound(window, packet)) {
    char message[160];
    snprintf(message, sizeof message, "rank %d sent rank %d a call on a window that cannot be",
             packet->peer, world->base.rank);
    shoal_mpi_break(world, SHOAL_MISMATCH, message);
  }
  if (shoal_failure_is_set(&world->failure)) {
    shoal_mpi_give_packet(world, packet);
    return;
  }
  packet->next = NULL;
  packet->told = -1;
  if (packet->header.kind == SHOAL_MPI_AWAIT) {
    if (first_behind(window, head_of(packet)) < 0) {
      answer(world, window, packet->peer, packet->header.sequence);
      shoal_mpi_give_packet(world, packet);
    } else {
      packet->time = shoal_time_ns();
      packet->next = window->awaits;
      window->awaits = packet;
    }
    return;
  }
  if (window->last) {
    window->last->next = packet;
  } else {
    window->first = packet;
  }
  window->last = packet;
  serve(world, window);
}
