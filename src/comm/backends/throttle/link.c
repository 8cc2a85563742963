// When messages get through links, and sleeping until then; the model is in throttle.h.
#include "base/time.h"
#include "cluster/cluster.h"
#include "comm/backends/throttle/throttle.h"

#define SLICE_NS INT64_C(5000000)  // how often a sleeper looks whether the world broke

#define LONGEST_NS 1e17  // three years: what a file says may be absurd, sums must not be

static int64_t to_ns(double ns) {
  return ns < LONGEST_NS ? (int64_t)(ns + 0.5) : (int64_t)LONGEST_NS;
}

int64_t shoal_throttle_table_bytes(int32_t size) {
  return (int64_t)sizeof(shoal_throttle_table_t) + 2 * size * (int64_t)sizeof(int64_t);
}

static int32_t link_of(const shoal_cluster_t *cluster, int32_t size, int32_t rank, bool inside) {
  return inside ? size + shoal_cluster_port(cluster, rank) : shoal_cluster_card(cluster, rank);
}

void shoal_throttle_routes_init(const shoal_throttle_settings_t *settings,
                                shoal_throttle_world_t *world) {
  const int32_t me = world->base.rank, size = world->base.size;
  for (int32_t i = 0; i < size; ++i) {
    world->routes[i] = (shoal_throttle_route_t){0};
    if (!settings->cluster) continue;
    const shoal_cluster_link_t link = shoal_cluster_between(settings->cluster, me, i);
    if (link.bandwidth <= 0) continue;
    const bool inside = shoal_cluster_level(settings->cluster, me, i) == SHOAL_CLUSTER_NODE;
    world->routes[i] = (shoal_throttle_route_t){.latency_ns = to_ns(link.latency * 1e9),
                                                .ns_per_byte = 1e9 / link.bandwidth,
                                                .out = link_of(settings->cluster, size, me, inside),
                                                .in = link_of(settings->cluster, size, i, inside)};
  }
}

shoal_throttle_times_t shoal_throttle_book(shoal_throttle_world_t *world,
                                           const shoal_throttle_route_t *route, int32_t link,
                                           int64_t bytes, int64_t now) {
  if (route->ns_per_byte == 0) return (shoal_throttle_times_t){now, now};
  const int64_t takes = to_ns((double)bytes * route->ns_per_byte);
  _Atomic int64_t *busy = &world->table->busy[link];
  int64_t before = atomic_load(busy), through;
  do {
    through = (before > now ? before : now) + takes;
    if (through > INT64_MAX / 2) through = INT64_MAX / 2;
  } while (!atomic_compare_exchange_weak(busy, &before, through));
  return (shoal_throttle_times_t){through, through + route->latency_ns};
}

shoal_status_t shoal_throttle_sleep(shoal_throttle_world_t *world, int64_t until) {
  shoal_world_t *inner = world->inner;
  if (shoal_time_ns() >= until) return NULL;
  if (inner->ops->rest) return inner->ops->rest(inner, until);
  for (;;) {
    shoal_status_t broken = inner->ops->broken(inner);
    const int64_t left = until - shoal_time_ns();
    if (broken || left <= 0) return broken;
    shoal_time_sleep_ns(left < SLICE_NS ? left : SLICE_NS);
  }
}
