// Windows on shared memory: a shard is a block that all ranks can address, with a lock in front.
// Who writes or reads holds the lock: so a write and its version are seen together, and a read is
// never torn. Waiting for a version holds nothing.
//
// Between processes a rank may die with the lock held. The world is broken then, by the launcher or
// by whoever waits and sees it, and every wait ends.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "comm/backends/local/local.h"
#include "device/reduce.h"

#define SPINS 200

typedef struct shard {
  alignas(64) _Atomic int32_t holder;       // group rank + 1; 0: free
  alignas(64) _Atomic uint64_t versions[];  // of the group's ranks; then, aligned, the data
} shard_t;

typedef struct local_window {
  shoal_window_t base;
  shard_t *own;
  shard_t *shards[];  // of all, in this process
} local_window_t;

static int64_t head_bytes(int32_t n) {
  return ((int64_t)sizeof(shard_t) + n * (int64_t)sizeof(uint64_t) + 63) / 64 * 64;
}

static shoal_status_t create_window(shoal_group_t *group, const int64_t *shards,
                                    shoal_window_t **out_window) {
  shoal_local_world_t *world = (shoal_local_world_t *)group->world;
  shoal_allocator_t allocator = world->base.allocator;
  const int32_t n = group->size;
  int64_t place = SHOAL_PLACE_PRIVATE, bytes = 0;
  void *memory = NULL;
  local_window_t *window =
      allocator.alloc(allocator.self, sizeof *window + (size_t)n * sizeof *window->shards);
  int64_t *table = allocator.alloc(allocator.self, 2 * (size_t)n * sizeof *table);
  shoal_status_t status = window && table ? NULL : SHOAL_OOM();
  if (!status && __builtin_add_overflow(shards[group->rank], head_bytes(n), &bytes)) {
    status = SHOAL_ERROR(INVALID_ARGUMENT, "a shard of %lld bytes", (long long)shards[group->rank]);
  }
  if (!status) status = shoal_local_alloc(&world->base, bytes, &memory);
  if (!status) place = shoal_local_place(world, memory, bytes);
  if (status) {  // the others are about to wait for this rank
    world->base.ops->fail(&world->base, shoal_status_code(status), shoal_status_message(status));
  }
  for (int32_t i = 0; i < n && !status; ++i) table[n + i] = 1;
  if (!status) status = shoal_all_gather(group, SHOAL_I64, table + n, &place, table);
  if (!status) {
    *window = (local_window_t){.own = memory};
    for (int32_t i = 0; i < n; ++i) window->shards[i] = shoal_local_at(world, table[i]);
    *out_window = &window->base;
  } else {
    shoal_local_release(&world->base, memory);
    allocator.free(allocator.self, window);
  }
  allocator.free(allocator.self, table);
  return status;
}

static void free_window(shoal_window_t *base) {
  local_window_t *window = (local_window_t *)base;
  shoal_world_t *world = base->group->world;
  // In a broken world somebody may still be at it: then the shard goes with the world.
  if (!shoal_failure_is_set(&((shoal_local_world_t *)world)->hub->failure)) {
    shoal_local_release(world, window->own);
  }
  world->allocator.free(world->allocator.self, window);
}

// ---- the lock -------------------------------------------------------------------------

typedef struct locking {
  const shoal_window_t *window;
  shard_t *shard;
  int32_t owner;
} locking_t;

static bool try_lock(void *self, int32_t *out_missing) {
  const locking_t *l = self;
  int32_t holder = 0;
  if (atomic_compare_exchange_strong(&l->shard->holder, &holder, l->window->group->rank + 1)) {
    return true;
  }
  *out_missing = l->window->group->ranks[holder - 1];
  if (*out_missing == l->window->group->world->rank) *out_missing = -1;  // another thread
  return false;
}

static void describe_lock(void *self, char *buffer, size_t capacity) {
  const locking_t *l = self;
  snprintf(buffer, capacity, "rank %d waits for the window shard of rank %d",
           l->window->group->world->rank, l->window->group->ranks[l->owner]);
}

static shoal_status_t lock(shoal_window_t *window, int32_t owner, shard_t **out_shard) {
  locking_t locking = {window, ((local_window_t *)window)->shards[owner], owner};
  shoal_local_world_t *world = (shoal_local_world_t *)window->group->world;
  *out_shard = locking.shard;
  int32_t missing;
  for (int i = 0; i < (world->spin ? SPINS : 1); ++i) {
    if (try_lock(&locking, &missing)) return NULL;
    shoal_local_pause();
  }
  return shoal_local_wait_until(world, try_lock, describe_lock, &locking);
}

// Wakes those who wait for the lock or for a version. In a broken world the shard's owner may have
// given it back meanwhile.
static shoal_status_t unlock(const shoal_window_t *window, shard_t *shard) {
  const shoal_group_t *group = window->group;
  shoal_hub_t *hub = ((shoal_local_world_t *)group->world)->hub;
  atomic_store(&shard->holder, 0);
  for (int32_t i = 0; i < group->size; ++i) {
    if (atomic_load(&hub->ranks[group->ranks[i]].sleepers) > 0) {
      shoal_hub_ring_bell(hub, group->ranks[i]);
    }
  }
  return shoal_failure_status(&hub->failure);
}

// ---- put, get, wait -------------------------------------------------------------------

static shoal_status_t put_add(shoal_window_t *window, int32_t owner, shoal_dtype_t dtype,
                              int64_t offset, int64_t count, const void *data) {
  shard_t *shard;
  SHOAL_RETURN_IF_ERROR(lock(window, owner, &shard));
  uint8_t *to = (uint8_t *)shard + head_bytes(window->group->size) + offset;
  if (count > 0) shoal_reduce_into(dtype, SHOAL_REDUCE_SUM, count, data, 1, to, 1);
  atomic_fetch_add(&shard->versions[window->group->rank], 1);
  return unlock(window, shard);
}

static shoal_status_t get(shoal_window_t *window, int32_t owner, int64_t offset, int64_t bytes,
                          void *data, uint64_t *out_versions) {
  shard_t *shard;
  SHOAL_RETURN_IF_ERROR(lock(window, owner, &shard));
  const uint8_t *from = (const uint8_t *)shard + head_bytes(window->group->size) + offset;
  if (bytes > 0) memcpy(data, from, (size_t)bytes);
  for (int32_t i = 0; i < window->group->size && out_versions; ++i) {
    out_versions[i] = atomic_load(&shard->versions[i]);
  }
  return unlock(window, shard);
}

typedef struct awaiting {
  const shoal_window_t *window;
  shard_t *shard;
  int32_t at, end, owner;
  uint64_t version;
} awaiting_t;

static bool has_version(void *self, int32_t *out_missing) {
  awaiting_t *a = self;
  for (; a->at < a->end; ++a->at) {
    if (atomic_load(&a->shard->versions[a->at]) < a->version) {
      *out_missing = a->window->group->ranks[a->at];
      return false;
    }
  }
  return true;
}

static void describe_version(void *self, char *buffer, size_t capacity) {
  const awaiting_t *a = self;
  snprintf(buffer, capacity,
           "rank %d waits for version %llu of rank %d in the window shard of rank %d, which is at "
           "%llu",
           a->window->group->world->rank, (unsigned long long)a->version,
           a->window->group->ranks[a->at], a->window->group->ranks[a->owner],
           (unsigned long long)atomic_load(&a->shard->versions[a->at]));
}

static shoal_status_t wait_for(shoal_window_t *window, int32_t owner, int32_t writer,
                               uint64_t version) {
  awaiting_t awaiting = {.window = window,
                         .shard = ((local_window_t *)window)->shards[owner],
                         .at = writer < 0 ? 0 : writer,
                         .end = writer < 0 ? window->group->size : writer + 1,
                         .owner = owner,
                         .version = version};
  int32_t missing;
  if (has_version(&awaiting, &missing)) return NULL;
  return shoal_local_wait_until((shoal_local_world_t *)window->group->world, has_version,
                                describe_version, &awaiting);
}

const shoal_window_ops_t shoal_local_windows = {
    .create = create_window,
    .free = free_window,
    .put_add = put_add,
    .get = get,
    .wait = wait_for,
};
