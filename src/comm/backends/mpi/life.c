// The life of `mpi`'s engine: what it needs beforehand, the thread that moves things along while
// nobody waits, and leaving.
#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/engine.h"

#define GOODBYE_NS INT64_C(100000000)  // how long leaving waits for others who leave, too
#define POOL_LEAST 16                  // packets and flights made beforehand,
#define POOL_MOST 256                  // and two for every rank up to this

// ---- while it lives ------------------------------------------------------------

#define BUSY_NS 200000    // between passes while something is on its way
#define IDLE_NS 10000000  // and while nothing is,
#define SERVE_NS 50000    // but with windows, which others use while this rank computes: from this
#define SERVE_MOST_NS 1000000  // to this, while nobody does

static void run_progress(void *self) {
  shoal_mpi_world_t *world = self;
  int64_t serve = SERVE_MOST_NS;
  while (!atomic_load(&world->ending)) {
    bool busy = false, serves = false;
    if (atomic_load(&world->waiters) == 0) {
      shoal_mutex_lock(&world->mutex);
      const bool moved = shoal_mpi_progress(world);
      serve = moved ? SERVE_NS : serve + serve / 16;
      if (serve > SERVE_MOST_NS) serve = SERVE_MOST_NS;
      serves = world->windows != NULL;
      busy = world->flights != NULL;
      for (shoal_mpi_stream_t *s = world->streams; s && !busy; s = s->next) busy = s->pending.first;
      shoal_mutex_unlock(&world->mutex);
    }
    int64_t pause = busy ? BUSY_NS : IDLE_NS;
    if (serves && serve < pause) pause = serve;
    shoal_time_sleep_ns(pause);
  }
}

// ---- starting -------------------------------------------------------------------------

// How much is in flight at once depends on who comes first; this much needs no allocation later.
static shoal_status_t fill_pools(shoal_mpi_world_t *world) {
  int32_t left = POOL_LEAST + 2 * world->base.size;
  if (left > POOL_MOST) left = POOL_MOST;
  shoal_mpi_packet_t *packets = NULL, *packet;
  for (; left > 0 && (packet = shoal_mpi_take_packet(world)); --left) {
    packet->next = packets;
    packets = packet;
    if (!shoal_mpi_take_flight(world)) break;
  }
  world->free_packets = packets;
  world->free_flights = world->flights;
  world->flights = NULL;
  return left == 0 ? NULL : SHOAL_OOM();
}

static void drain_pools(shoal_mpi_world_t *world) {
  shoal_allocator_t allocator = world->base.allocator;
  while (world->free_packets) {
    shoal_mpi_packet_t *next = world->free_packets->next;
    allocator.free(allocator.self, world->free_packets);
    world->free_packets = next;
  }
  while (world->free_flights) {
    shoal_mpi_flight_t *next = world->free_flights->next;
    allocator.free(allocator.self, world->free_flights);
    world->free_flights = next;
  }
}

shoal_status_t shoal_mpi_engine_start(shoal_mpi_world_t *world) {
  shoal_status_t status = fill_pools(world);
  if (!status) status = shoal_mpi_expect_packet(world);
  if (!status) status = shoal_thread_start(run_progress, world, &world->progress);
  // After an error MPI may still have the incoming packet; the rest goes.
  if (status) drain_pools(world);
  return status;
}

// ---- leaving --------------------------------------------------------------------------

static bool others_left(const shoal_mpi_world_t *world) {
  for (int32_t i = 0; i < world->base.size; ++i) {
    if (i != world->base.rank && !world->peers[i].left) return false;
  }
  return true;
}

static bool all_is_out(shoal_mpi_world_t *world) {
  if (!shoal_mpi_news_are_out(world, &world->left) ||
      !shoal_mpi_news_are_out(world, &world->failed))
    return false;
  for (const shoal_mpi_flight_t *f = world->flights; f; f = f->next) {
    if (f->header_request.active || f->payload_request.active) return false;
  }
  return true;
}

// Returns false if MPI may still use the world's memory. In a broken world the others get the time
// to say why, too: a launcher may end them all when the first one ends.
static bool linger(shoal_mpi_world_t *world) {
  const int64_t deadline = shoal_time_ns() + SHOAL_MPI_LINGER_NS;
  const int64_t patience = shoal_failure_is_set(&world->failure) ? SHOAL_MPI_LINGER_NS : GOODBYE_NS;
  const int64_t goodbye = shoal_time_ns() + patience - patience / 10;
  bool out = false, cancelled = false;
  do {
    if (!cancelled) shoal_mpi_progress(world);
    out = all_is_out(world) && (others_left(world) || shoal_time_ns() > goodbye);
    if (out && !cancelled && world->incoming_request.active) {
      world->plugin->cancel(&world->incoming_request);
      cancelled = true;
    }
    bool done = false;
    if (cancelled && world->incoming_request.active) {
      (void)world->plugin->test(&world->incoming_request, &done, NULL, NULL);
    }
    if (out && !world->incoming_request.active) return true;
    shoal_time_sleep_ns(100000);
  } while (shoal_time_ns() < deadline);
  return false;
}

bool shoal_mpi_engine_stop(shoal_mpi_world_t *world) {
  atomic_store(&world->ending, true);
  shoal_thread_join(&world->progress);
  if (world->is_mute) {  // it can only give the others the time that linger gives
    shoal_time_sleep_ns(SHOAL_MPI_LINGER_NS);
    return false;
  }
  shoal_mpi_send_news(world, &world->left, SHOAL_MPI_LEFT, 0, NULL);
  if (!linger(world)) {
    world->plugin->give_up();
    return false;
  }
  for (int32_t i = 0; i < world->base.size; ++i) {
    while (world->peers[i].strays.first) {
      shoal_mpi_packet_t *packet = world->peers[i].strays.first;
      world->peers[i].strays.first = packet->next;
      shoal_mpi_give_packet(world, packet);
    }
  }
  if (world->incoming) shoal_mpi_give_packet(world, world->incoming);
  while (world->flights) {
    shoal_mpi_flight_t *next = world->flights->next;
    world->flights->next = world->free_flights;
    world->free_flights = world->flights;
    world->flights = next;
  }
  drain_pools(world);
  while (world->graves) {
    shoal_mpi_window_t *next = world->graves->next;
    world->base.allocator.free(world->base.allocator.self, world->graves);
    world->graves = next;
  }
  return true;
}
