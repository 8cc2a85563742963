// Collectives that are MPI's own: reductions whose caller allows any order, of element types and
// operations that MPI has. What they join is the same on all ranks of a call, not the same bits
// every time.
//
// What only moves data stays composed: MPI_Ibcast, Iallgatherv and Ialltoallv were measured with 2
// and 4 ranks on one machine and both MPIs (docs/cluster.md has figures). Only Open MPI's
// Ialltoallv was faster, for large parts; but ranks know their own parts only, and could not decide
// alike.
//
// Before one starts, each rank compares the call with its neighbour's in the group: MPI itself
// would hang or mix up the data of ranks that call different things. Waiting moves everything else
// along, notices failures and the time limit. MPI cannot take a collective back: if it has not
// ended a moment after the world broke, this world calls MPI no more, so that nothing writes to
// the caller's memory.
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define LEAST_RANKS 3                        // two ranks have one order
#define LEAST_BYTES 4096                     // below, everyone sends to everyone at once
#define LINGER_NS (SHOAL_MPI_LINGER_NS / 4)  // less than the others wait for this rank
#define PIECE_BYTES (INT64_C(64) << 20)      // of a long one: what a timeout can see

typedef struct native_group {  // a group's backend_data
  bool ready;
  shoal_mpi_comm_t comm;
  int32_t counts[];  // one per rank
} native_group_t;

// ---- which ---------------------------------------------------------------------------

// Not u8: MPICH 4.0.2 compares MPI_UINT8_T as if it had a sign, Open MPI 4.1.4 adds it with
// saturation, where Shoal's integers wrap.
static bool find_type(shoal_dtype_t dtype, shoal_mpi_type_t *out_type) {
  switch (dtype) {
    case SHOAL_F32:
      *out_type = SHOAL_MPI_F32;
      return true;
    case SHOAL_F64:
      *out_type = SHOAL_MPI_F64;
      return true;
    case SHOAL_I32:
      *out_type = SHOAL_MPI_I32;
      return true;
    case SHOAL_I64:
      *out_type = SHOAL_MPI_I64;
      return true;
    default:
      return false;
  }
}

// MPI's max and min may lose a NaN, which Shoal's pass on: not of floats.
static bool find_op(shoal_dtype_t dtype, shoal_reduce_t reduce, shoal_mpi_op_t *out_op) {
  const bool is_real = dtype == SHOAL_F32 || dtype == SHOAL_F64;
  switch (reduce) {
    case SHOAL_REDUCE_SUM:
      *out_op = SHOAL_MPI_SUM;
      return true;
    case SHOAL_REDUCE_PROD:
      *out_op = SHOAL_MPI_PROD;
      return true;
    case SHOAL_REDUCE_MAX:
      *out_op = SHOAL_MPI_MAX;
      return !is_real;
    case SHOAL_REDUCE_MIN:
      *out_op = SHOAL_MPI_MIN;
      return !is_real;
    default:
      return false;
  }
}

static bool sends_parts(const shoal_collective_t *c) {
  return shoal_collective_facts[c->kind].sends == SHOAL_HOLDS_PARTS;
}

// Only what all ranks know alike may decide.
static bool is_native(const shoal_group_t *group, const shoal_collective_t *c,
                      shoal_mpi_native_t *out_native) {
  const shoal_mpi_world_t *world = (const shoal_mpi_world_t *)group->world;
  if (!c->any_order || c->bounded || group->size < LEAST_RANKS || !world->plugin->has_groups())
    return false;
  if (!find_type(c->dtype, &out_native->type)) return false;
  if (!find_op(c->dtype, c->reduce, &out_native->op)) return false;
  const int64_t total = shoal_collective_sent(group, c);  // all ranks send, and as much
  if (total * (int64_t)shoal_dtype_size(c->dtype) < LEAST_BYTES) return false;
  return !sends_parts(c) || total <= INT32_MAX;
}

// ---- a communicator per group ---------------------------------------------------------

static shoal_status_t open_group(shoal_group_t *group, native_group_t **out_native) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)group->world;
  shoal_allocator_t allocator = world->base.allocator;
  native_group_t *native = group->backend_data;
  if (!native) {
    const size_t bytes = sizeof *native + (size_t)group->size * sizeof *native->counts;
    native = allocator.alloc(allocator.self, bytes);
    if (!native) return SHOAL_OOM();
    memset(native, 0, bytes);
    group->backend_data = native;
  }
  *out_native = native;
  if (native->ready) return NULL;
  // MPI has no way to make one without blocking. All ranks are here, so it blocks for a moment
  // only; other threads may be making others meanwhile.
  SHOAL_RETURN_IF_ERROR(
      shoal_collective_composed[SHOAL_COLLECTIVE_BARRIER](group, &(shoal_collective_t){0}));
  const int32_t tag = (int32_t)(group->stream->id % (uint64_t)world->largest_tag);
  if (world->plugin->group_create(group->size, group->ranks, tag, &native->comm)) {
    return SHOAL_ERROR(ABORTED, "no communicator for a group of %d ranks: %s", group->size,
                       world->plugin->error);
  }
  native->ready = true;
  return NULL;
}

// Collective by the standard's word, local in fact; in a broken world MPI keeps it.
void shoal_mpi_group_free(shoal_group_t *group) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)group->world;
  native_group_t *native = group->backend_data;
  if (!native) return;
  if (native->ready && !shoal_failure_is_set(&world->failure)) {
    shoal_mutex_lock(&world->mutex);
    world->plugin->group_free(&native->comm);
    shoal_mutex_unlock(&world->mutex);
  }
  world->base.allocator.free(world->base.allocator.self, native);
  group->backend_data = NULL;
}

// ---- the same call everywhere ---------------------------------------------------------

static uint64_t hash_of(const shoal_group_t *group, const shoal_collective_t *c) {
  uint64_t hash = shoal_hash_int(SHOAL_HASH_START, c->count);
  for (int32_t i = 0; i < group->size && c->send_counts; ++i) {
    hash = shoal_hash_int(hash, c->send_counts[i]);
  }
  return hash;
}

static shoal_status_t compare(shoal_group_t *group, const shoal_collective_t *c) {
  const int32_t n = group->size, tag = shoal_collective_tag(c) | SHOAL_MPI_COMPARES;
  const int32_t after = group->ranks[(group->rank + 1) % n];
  const int32_t before = group->ranks[(group->rank + n - 1) % n];
  shoal_mpi_comparison_t own = {shoal_collective_sent(group, c), hash_of(group, c)};
  shoal_mpi_comparison_t theirs = own;  // so that who waits for it can tell
  const shoal_message_t send = {after, tag, sizeof own, &own};
  const shoal_message_t recv = {before, tag, sizeof theirs, &theirs};
  SHOAL_RETURN_IF_ERROR(shoal_stream_exchange(group->stream, 1, &send, 1, &recv));
  if (own.count == theirs.count && own.hash == theirs.hash) return NULL;
  return SHOAL_ERROR(MISMATCH, "rank %d joins %lld elements, rank %d joins %lld%s",
                     group->world->rank, (long long)own.count, before, (long long)theirs.count,
                     own.count == theirs.count ? ", in other parts" : "");
}

// ---- running --------------------------------------------------------------------------

typedef struct native_wait {
  shoal_group_t *group;
  const shoal_collective_t *collective;
  shoal_mpi_request_t request;
  uint64_t moved;
} native_wait_t;

static bool native_is_done(void *self) {
  native_wait_t *w = self;
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)w->group->world;
  bool done = true;
  if (w->request.active && world->plugin->test(&w->request, &done, NULL, NULL)) {
    char message[SHOAL_MPI_ERROR_BYTES + 64];
    snprintf(message, sizeof message, "rank %d in %s: %s", world->base.rank,
             shoal_collective_name(w->collective->kind), world->plugin->error);
    shoal_mpi_break(world, SHOAL_ABORTED, message);
    return false;
  }
  return done;
}

static void native_describe(void *self, char *buffer, size_t capacity) {
  const native_wait_t *w = self;
  char what[64];
  shoal_collective_describe(shoal_collective_tag(w->collective), what, sizeof what);
  snprintf(buffer, capacity, "rank %d waits for the other %d ranks in MPI's %s",
           w->group->world->rank, w->group->size - 1, what);
}

// Who of them is late MPI does not say; who left is late for ever.
static int32_t native_missing(void *self) {
  const native_wait_t *w = self;
  const shoal_mpi_world_t *world = (const shoal_mpi_world_t *)w->group->world;
  for (int32_t i = 0; i < w->group->size; ++i) {
    if (world->peers[w->group->ranks[i]].left) return w->group->ranks[i];
  }
  return -1;
}

static void native_abandon(void *self) {
  native_wait_t *w = self;
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)w->group->world;
  const int64_t deadline = shoal_time_ns() + LINGER_NS;
  bool done = false;
  while (w->request.active && shoal_time_ns() < deadline) {
    if (world->plugin->test(&w->request, &done, NULL, NULL)) break;
    shoal_mpi_news_are_out(world, &world->failed);
    shoal_time_sleep_ns(100000);
  }
  if (w->request.active) world->is_mute = true;
}

static shoal_status_t run_piece(native_group_t *native, native_wait_t *wait,
                                const shoal_mpi_native_t *call) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)wait->group->world;
  shoal_mutex_lock(&world->mutex);
  const bool failed =
      world->is_mute || world->plugin->native_start(&native->comm, call, &wait->request);
  if (failed) shoal_mpi_break(world, SHOAL_ABORTED, world->plugin->error);
  shoal_mutex_unlock(&world->mutex);
  if (failed) return shoal_failure_status(&world->failure);
  SHOAL_RETURN_IF_ERROR(shoal_mpi_wait(world, &(shoal_mpi_waiting_t){.self = wait,
                                                                     .is_done = native_is_done,
                                                                     .describe = native_describe,
                                                                     .missing = native_missing,
                                                                     .abandon = native_abandon,
                                                                     .moved = &wait->moved,
                                                                     .is_brisk = true}));
  ++wait->moved;
  return NULL;
}

// Everyone's elements, piece by piece; `recv` is NULL where nothing arrives.
static shoal_status_t reduce(native_group_t *native, native_wait_t *wait,
                             const shoal_collective_t *c, shoal_mpi_native_t *call) {
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  const bool to_root = shoal_collective_facts[c->kind].receiver == SHOAL_WHO_ROOT;
  const bool receives = !to_root || wait->group->rank == c->root;
  call->kind = to_root ? SHOAL_MPI_REDUCE : SHOAL_MPI_ALL_REDUCE;
  call->root = c->root;
  for (int64_t at = 0; at < c->count;) {
    const int64_t left = c->count - at, most = PIECE_BYTES / element;
    call->count = (int32_t)(left < most ? left : most);
    call->recv = receives ? (uint8_t *)c->recv + at * element : NULL;
    call->send = receives && c->send == c->recv ? NULL : (const uint8_t *)c->send + at * element;
    SHOAL_RETURN_IF_ERROR(run_piece(native, wait, call));
    at += call->count;
  }
  return NULL;
}

// MPI wants two buffers; where this rank's result goes into what it sends, a third one is between.
static shoal_status_t reduce_scatter(native_group_t *native, native_wait_t *wait,
                                     const shoal_collective_t *c, shoal_mpi_native_t *call) {
  shoal_group_t *group = wait->group;
  const int64_t element = (int64_t)shoal_dtype_size(c->dtype);
  const int64_t own = c->send_counts[group->rank] * element;
  for (int32_t i = 0; i < group->size; ++i) native->counts[i] = (int32_t)c->send_counts[i];
  const uint8_t *send = c->send, *recv = c->recv;
  const bool overlap = recv < send + shoal_collective_sent(group, c) * element && send < recv + own;
  if (overlap) SHOAL_RETURN_IF_ERROR(shoal_group_reserve(group, own));
  call->kind = SHOAL_MPI_REDUCE_SCATTER;
  call->counts = native->counts;
  call->send = send;
  uint64_t nothing;  // MPI looks at the address even so
  call->recv = overlap ? group->scratch : own > 0 ? c->recv : &nothing;
  SHOAL_RETURN_IF_ERROR(run_piece(native, wait, call));
  if (overlap && own > 0) memcpy(c->recv, group->scratch, (size_t)own);
  return NULL;
}

shoal_status_t shoal_mpi_native(shoal_group_t *group, const shoal_collective_t *c) {
  shoal_mpi_native_t call = {0};
  if (!is_native(group, c, &call)) return shoal_collective_composed[c->kind](group, c);
  native_group_t *native = NULL;
  SHOAL_RETURN_IF_ERROR(compare(group, c));
  SHOAL_RETURN_IF_ERROR(open_group(group, &native));
  native_wait_t wait = {.group = group, .collective = c};
  return sends_parts(c) ? reduce_scatter(native, &wait, c, &call) : reduce(native, &wait, c, &call);
}
