// The mover of `local`: a thread that moves along what its rank has started while no thread of the
// rank waits in a call. Then it sleeps at the rank's bell, as a waiting thread does. While one
// waits, which moves everything itself, it looks by the clock and is not woken, so that starting
// and waiting do not pay for it.
#include "base/time.h"
#include "comm/backends/local/local.h"

// Between looks by the clock: from BUSY to WAITING, and to IDLE while nothing is under way.
#define BUSY_NS INT64_C(50000)
#define WAITING_NS INT64_C(5000000)
#define IDLE_NS INT64_C(10000000)

static void run(void *self) {
  shoal_local_world_t *world = self;
  shoal_hub_rank_t *own = &world->hub->ranks[world->base.rank];
  int64_t pause = BUSY_NS;
  while (!atomic_load(&world->mover_ends)) {
    const uint32_t stirred = atomic_load(&world->mover_bell);
    const uint32_t bell = atomic_load(&own->bell);
    const bool watched = atomic_load(&world->waiters) > 0;
    bool moved = false, pending = true;
    if (!watched) {
      atomic_store(&world->posted, false);
      pending = shoal_local_move_started(world, &moved);
      if (pending) atomic_store(&world->posted, true);
    }
    if (!watched && pending) {
      pause = BUSY_NS;
      atomic_fetch_add(&own->sleepers, 1);
      if (!atomic_load(&world->mover_ends)) {
        shoal_futex_wait(&own->bell, bell, shoal_time_ns() + WAITING_NS);
      }
      atomic_fetch_sub(&own->sleepers, 1);
      continue;
    }
    const int64_t most = pending ? WAITING_NS : IDLE_NS;
    pause = pause + pause / 4 < most ? pause + pause / 4 : most;
    atomic_store(&world->mover_naps, true);
    shoal_futex_wait(&world->mover_bell, stirred, shoal_time_ns() + pause);
    atomic_store(&world->mover_naps, false);
  }
}

void shoal_local_mover_start(shoal_local_world_t *world) {
  if (atomic_load_explicit(&world->mover_begun, memory_order_acquire)) return;
  shoal_mutex_lock(&world->mutex);
  if (!atomic_load(&world->mover_begun)) {
    shoal_status_t status = shoal_thread_start(run, world, &world->mover);
    world->has_mover = !status;
    shoal_status_free(status);
    atomic_store_explicit(&world->mover_begun, true, memory_order_release);
  }
  shoal_mutex_unlock(&world->mutex);
}

static void wake(shoal_local_world_t *world) {
  atomic_fetch_add(&world->mover_bell, 1);
  if (atomic_load(&world->mover_naps)) shoal_futex_wake(&world->mover_bell, 1);
}

void shoal_local_stir(shoal_world_t *base) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  atomic_store(&world->posted, true);
  wake(world);
}

void shoal_local_waits(shoal_local_world_t *world) {
  atomic_fetch_add(&world->waiters, 1);
}

void shoal_local_waits_no_more(shoal_local_world_t *world) {
  if (atomic_fetch_sub(&world->waiters, 1) == 1 && atomic_load(&world->posted)) wake(world);
}

void shoal_local_mover_stop(shoal_local_world_t *world) {
  if (!world->has_mover) return;
  atomic_store(&world->mover_ends, true);
  wake(world);
  shoal_hub_ring_bell(world->hub, world->base.rank);
  shoal_thread_join(&world->mover);
}
