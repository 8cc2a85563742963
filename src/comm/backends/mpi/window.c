// Windows of `mpi`, the caller's side: a call is a packet to the owner of the shard, which answers
// when it is done; shard.c is that side. This rank's own shard is asked the same way, without
// messages.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "comm/backends/mpi/engine.h"
#include "device/reduce.h"

static shoal_mpi_world_t *world_of(const shoal_mpi_window_t *window) {
  return (shoal_mpi_world_t *)window->group->world;
}

// ---- creating and freeing -------------------------------------------------------------

static size_t aligned(size_t bytes) {
  return (bytes + 63) / 64 * 64;
}

// One block: the window, its versions, the shard, the staging.
static shoal_status_t allocate(shoal_group_t *group, int64_t bytes,
                               shoal_mpi_window_t **out_window) {
  const size_t head = aligned(sizeof(shoal_mpi_window_t));
  const size_t versions = aligned((size_t)group->size * sizeof(uint64_t));
  const size_t staging = bytes < SHOAL_MPI_STAGING ? (size_t)bytes : SHOAL_MPI_STAGING;
  if (bytes > INT64_MAX / 2) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a shard of %lld bytes", (long long)bytes);
  }
  const size_t total = head + versions + aligned((size_t)bytes) + staging;
  shoal_allocator_t allocator = group->world->allocator;
  uint8_t *block = allocator.alloc(allocator.self, total);
  if (!block) return SHOAL_OOM();
  memset(block, 0, total);
  shoal_mpi_window_t *window = (shoal_mpi_window_t *)(void *)block;
  window->group = group;
  window->bytes = bytes;
  window->versions = (uint64_t *)(void *)(block + head);
  window->data = block + head + versions;
  window->staging = window->data + aligned((size_t)bytes);
  *out_window = window;
  return NULL;
}

static void give_packets(shoal_mpi_world_t *world, shoal_mpi_packet_t *packets) {
  while (packets) {
    shoal_mpi_packet_t *next = packets->next;
    shoal_mpi_give_packet(world, packets);
    packets = next;
  }
}

static void free_window(shoal_window_t *base) {
  shoal_mpi_window_t *window = (shoal_mpi_window_t *)base;
  shoal_mpi_world_t *world = world_of(window);
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_window_t **at = &world->windows;
  while (*at != window) at = &(*at)->next;
  *at = window->next;
  give_packets(world, window->first);
  give_packets(world, window->awaits);
  const bool rests = shoal_mpi_rest(world, window);
  if (!rests) {
    window->next = world->graves;
    world->graves = window;
  }
  shoal_mutex_unlock(&world->mutex);
  if (rests) world->base.allocator.free(world->base.allocator.self, window);
}

static shoal_status_t create_window(shoal_group_t *group, const int64_t *shards,
                                    shoal_window_t **out_window) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)group->world;
  shoal_mpi_window_t *window = NULL;
  shoal_status_t status = allocate(group, shards[group->rank], &window);
  if (status) {  // the others are about to wait for this rank
    shoal_mpi_fail(&world->base, shoal_status_code(status), shoal_status_message(status));
    return status;
  }
  shoal_mutex_lock(&world->mutex);
  window->id = (uint64_t)world->base.rank << 32 | world->last_window++;
  shoal_mutex_unlock(&world->mutex);
  status = shoal_broadcast(group, &window->id, sizeof window->id, 0);
  if (!status) {
    shoal_mutex_lock(&world->mutex);
    window->next = world->windows;
    world->windows = window;
    shoal_mutex_unlock(&world->mutex);
    status = shoal_barrier(group);  // from here on anybody may call
    if (status) {
      free_window(&window->base);
      return status;
    }
  }
  if (status) {
    world->base.allocator.free(world->base.allocator.self, window);
    return status;
  }
  *out_window = &window->base;
  return NULL;
}

// ---- calls ----------------------------------------------------------------------------

shoal_mpi_call_t *shoal_mpi_find_call(shoal_mpi_world_t *world, uint64_t id) {
  shoal_mpi_call_t *call = world->calls;
  while (call && call->id != id) call = call->next;
  return call;
}

static void forget(shoal_mpi_world_t *world, const shoal_mpi_call_t *call) {
  shoal_mpi_call_t **at = &world->calls;
  while (*at && *at != call) at = &(*at)->next;
  if (*at) *at = call->next;
}

static bool call_is_done(void *self) {
  return ((const shoal_mpi_call_t *)self)->left == 0;
}

static int32_t call_missing(void *self) {
  const shoal_mpi_call_t *call = self;
  return call->window->group->ranks[call->owner];
}

// Once the owner has said who is behind, it is that rank that keeps this one waiting. That it may
// leave is the owner's to notice.
static int32_t call_late(void *self) {
  const shoal_mpi_call_t *call = self;
  return call->behind >= 0 ? call->window->group->ranks[call->behind] : call_missing(self);
}

static void call_describe(void *self, char *buffer, size_t capacity) {
  const shoal_mpi_call_t *call = self;
  const shoal_group_t *group = call->window->group;
  const int32_t me = group->world->rank, owner = group->ranks[call->owner];
  if (call->kind == SHOAL_MPI_PUT) {
    snprintf(buffer, capacity, "rank %d waits to add %lld bytes to the window shard of rank %d", me,
             (long long)call->bytes, owner);
  } else if (call->kind == SHOAL_MPI_GET) {
    snprintf(buffer, capacity, "rank %d waits for %lld bytes of the window shard of rank %d", me,
             (long long)call->bytes, owner);
  } else if (call->behind >= 0) {
    snprintf(buffer, capacity,
             "rank %d waits for version %llu of rank %d in the window shard of rank %d, which was "
             "at %llu",
             me, (unsigned long long)call->version, group->ranks[call->behind], owner,
             (unsigned long long)call->behind_at);
  } else {
    char who[32] = "all ranks";
    if (call->writer >= 0) snprintf(who, sizeof who, "rank %d", group->ranks[call->writer]);
    snprintf(buffer, capacity,
             "rank %d waits for version %llu of %s in the window shard of rank %d", me,
             (unsigned long long)call->version, who, owner);
  }
}

static void call_abandon(void *self) {
  shoal_mpi_call_t *call = self;
  shoal_mpi_world_t *world = world_of(call->window);
  forget(world, call);
  for (shoal_mpi_flight_t *flight = world->flights; flight; flight = flight->next) {
    if (flight->call == call) shoal_mpi_recall(world, flight);
  }
}

static shoal_status_t ask_other(shoal_mpi_world_t *world, shoal_mpi_call_t *call,
                                const shoal_mpi_header_t *header,
                                const shoal_mpi_window_head_t *head) {
  shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
  if (!flight) return SHOAL_OOM();
  int64_t behind = sizeof *head;
  flight->peer = call->window->group->ranks[call->owner];
  flight->packet.header = *header;
  memcpy(flight->packet.bytes, head, sizeof *head);
  const bool is_put = call->kind == SHOAL_MPI_PUT;
  const bool small = call->bytes <= SHOAL_MPI_INLINE - behind;
  if (is_put && small && call->bytes > 0) {
    memcpy(flight->packet.bytes + behind, call->data, (size_t)call->bytes);
    behind += call->bytes;
  } else if (is_put && !small) {
    flight->own = (shoal_message_t){.peer = flight->peer, .bytes = call->bytes, .data = call->data};
    flight->message = &flight->own;
    flight->most = SHOAL_MPI_STAGING;
    flight->call = call;
    flight->moved = &call->moved;
    ++call->left;
  }
  shoal_mpi_depart(world, flight, behind, is_put && !small);
  return NULL;
}

static shoal_status_t ask_self(shoal_mpi_world_t *world, const shoal_mpi_header_t *header,
                               const shoal_mpi_window_head_t *head) {
  shoal_mpi_packet_t *packet = shoal_mpi_take_packet(world);
  if (!packet) return SHOAL_OOM();
  packet->peer = world->base.rank;
  packet->header = *header;
  packet->header.check = SHOAL_MPI_CHECK;
  memcpy(packet->bytes, head, sizeof *head);
  shoal_mpi_shard_take(world, packet);
  return NULL;
}

// Asks, and waits for the answer.
static shoal_status_t run(shoal_mpi_call_t *call, shoal_dtype_t dtype, int64_t offset) {
  shoal_mpi_window_t *window = call->window;
  shoal_mpi_world_t *world = world_of(window);
  shoal_mutex_lock(&world->mutex);
  call->id = ++world->last_call;
  call->left = 1;
  call->behind = -1;
  call->next = world->calls;
  world->calls = call;
  const bool own = call->owner == window->group->rank;
  const shoal_mpi_header_t header = {.stream = window->id,
                                     .sequence = call->id,
                                     .bytes = call->bytes,
                                     .kind = call->kind,
                                     .tag = (int32_t)dtype};
  const shoal_mpi_window_head_t head = {
      .offset = offset,
      .version = call->version,
      .writer = call->kind == SHOAL_MPI_AWAIT ? call->writer : window->group->rank,
      .count = call->versions != NULL};
  shoal_status_t status =
      own ? ask_self(world, &header, &head) : ask_other(world, call, &header, &head);
  if (status) forget(world, call);
  shoal_mutex_unlock(&world->mutex);
  if (status) return status;
  status = shoal_mpi_wait(world, &(shoal_mpi_waiting_t){.self = call,
                                                        .is_done = call_is_done,
                                                        .describe = call_describe,
                                                        .missing = call_missing,
                                                        .late = call_late,
                                                        .abandon = call_abandon,
                                                        .moved = &call->moved});
  if (status) return status;  // abandoned
  shoal_mutex_lock(&world->mutex);
  forget(world, call);
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

// What came with an answer: versions, then bytes or their payload's tag.
void shoal_mpi_call_answer(shoal_mpi_world_t *world, const shoal_mpi_packet_t *packet) {
  const shoal_mpi_header_t *header = &packet->header;
  shoal_mpi_window_head_t head;
  memcpy(&head, packet->bytes, sizeof head);
  shoal_mpi_call_t *call = shoal_mpi_find_call(world, header->sequence);
  if (!call || shoal_failure_is_set(&world->failure)) return;
  ++call->moved;
  if (header->kind == SHOAL_MPI_BEHIND) {
    call->behind = head.writer;
    call->behind_at = head.version;
    return;
  }
  const uint8_t *at = packet->bytes + sizeof head;
  const size_t versions = (size_t)head.count * sizeof(uint64_t);
  if (call->versions) memcpy(call->versions + head.first, at, versions);
  if (header->kind == SHOAL_MPI_VERSIONS) return;
  if (header->payload) {
    shoal_mpi_flight_t *flight = shoal_mpi_take_flight(world);
    if (!flight) {
      shoal_mpi_break(world, SHOAL_OUT_OF_MEMORY, "out of memory for a part of a window");
      return;
    }
    flight->peer = packet->peer;
    flight->payload = header->payload;
    flight->own = (shoal_message_t){.peer = packet->peer, .bytes = call->bytes, .data = call->data};
    flight->message = &flight->own;
    flight->call = call;  // which is done when it lands
    flight->moved = &call->moved;
    shoal_mpi_expect_payload(world, flight);
    return;
  }
  if (call->kind == SHOAL_MPI_GET && call->bytes > 0) {
    memcpy(call->data, at + versions, (size_t)call->bytes);
  }
  --call->left;
}

// ---- put, get, wait -------------------------------------------------------------------

static shoal_status_t put_add(shoal_window_t *base, int32_t owner, shoal_dtype_t dtype,
                              int64_t offset, int64_t count, const void *data) {
  shoal_mpi_window_t *window = (shoal_mpi_window_t *)base;
  shoal_mpi_call_t call = {.window = window,
                           .kind = SHOAL_MPI_PUT,
                           .owner = owner,
                           .data = (void *)(uintptr_t)data,
                           .bytes = count * (int64_t)shoal_dtype_size(dtype)};
  SHOAL_RETURN_IF_ERROR(run(&call, dtype, offset));
  if (owner != base->group->rank) return NULL;
  shoal_mpi_world_t *world = world_of(window);
  if (count > 0) {
    shoal_reduce_into(dtype, SHOAL_REDUCE_SUM, count, data, 1, window->data + offset, 1);
  }
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_shard_release(world, window, true);
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

static shoal_status_t get(shoal_window_t *base, int32_t owner, int64_t offset, int64_t bytes,
                          void *data, uint64_t *out_versions) {
  shoal_mpi_window_t *window = (shoal_mpi_window_t *)base;
  shoal_mpi_call_t call = {.window = window,
                           .kind = SHOAL_MPI_GET,
                           .owner = owner,
                           .data = data,
                           .bytes = bytes,
                           .versions = out_versions};
  SHOAL_RETURN_IF_ERROR(run(&call, SHOAL_U8, offset));
  if (owner != base->group->rank) return NULL;
  shoal_mpi_world_t *world = world_of(window);
  if (bytes > 0) memcpy(data, window->data + offset, (size_t)bytes);
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_shard_release(world, window, false);
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

static shoal_status_t wait_for(shoal_window_t *base, int32_t owner, int32_t writer,
                               uint64_t version) {
  shoal_mpi_call_t call = {.window = (shoal_mpi_window_t *)base,
                           .kind = SHOAL_MPI_AWAIT,
                           .owner = owner,
                           .writer = writer,
                           .version = version};
  return run(&call, SHOAL_U8, 0);
}

const shoal_window_ops_t shoal_mpi_windows = {
    .create = create_window,
    .free = free_window,
    .put_add = put_add,
    .get = get,
    .wait = wait_for,
};
