// The mover of `local`: a thread that moves along what its rank has started while the rank is busy
// with something else. It looks by the clock and is never woken, so that starting and waiting,
// which move everything themselves, do not pay for it.
#include "base/time.h"
#include "comm/backends/local/local.h"

// Between looks, each of which costs some 20 us: from BUSY, when something moved, to WAITING while
// something is under way, and to IDLE while nothing is.
#define BUSY_NS INT64_C(50000)
#define WAITING_NS INT64_C(5000000)
#define IDLE_NS INT64_C(10000000)

static void run(void *self) {
  shoal_local_world_t *world = self;
  const shoal_hub_rank_t *own = &world->hub->ranks[world->base.rank];
  int64_t pause = BUSY_NS;
  while (!atomic_load(&world->mover_ends)) {
    bool moved = false, pending = true;
    // A thread that waits moves everything.
    if (atomic_load(&own->sleepers) == 0) pending = shoal_local_move_started(world, &moved);
    const int64_t most = pending ? WAITING_NS : IDLE_NS;
    pause = moved ? BUSY_NS : pause + pause / 4;
    if (pause > most) pause = most;
    shoal_futex_wait(&world->mover_ends, 0, shoal_time_ns() + pause);
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

void shoal_local_mover_stop(shoal_local_world_t *world) {
  if (!world->has_mover) return;
  atomic_store(&world->mover_ends, 1);
  shoal_futex_wake(&world->mover_ends, 1);
  shoal_thread_join(&world->mover);
}
