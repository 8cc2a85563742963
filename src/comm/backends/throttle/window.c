// Windows of `throttle`: those of the world below, on a group of its own, entered when a put was
// delivered and left when what was got has come.
#include "base/dtype.h"
#include "base/status.h"
#include "base/time.h"
#include "comm/backends/throttle/throttle.h"

typedef struct throttle_window {
  shoal_window_t base;
  shoal_group_t *group;
  shoal_window_t *inner;
} throttle_window_t;

static shoal_window_t *inner_of(shoal_window_t *window) {
  return ((throttle_window_t *)window)->inner;
}

static const shoal_window_ops_t *ops_of(const shoal_window_t *window) {
  return shoal_throttle_inner(window->group->world)->ops->windows;
}

static shoal_status_t create_window(shoal_group_t *group, const int64_t *shards,
                                    shoal_window_t **out_window) {
  shoal_world_t *inner = shoal_throttle_inner(group->world);
  shoal_allocator_t allocator = group->world->allocator;
  throttle_window_t *window = allocator.alloc(allocator.self, sizeof *window);
  shoal_status_t status = window ? NULL : SHOAL_OOM();
  if (!status) {
    *window = (throttle_window_t){0};
    status = shoal_group_create(inner, group->size, group->ranks, &window->group);
  }
  if (status) {  // the others are about to wait for this rank
    inner->ops->fail(inner, shoal_status_code(status), shoal_status_message(status));
  } else {
    status = shoal_window_create(window->group, shards[group->rank], &window->inner);
  }
  if (status) {
    if (window) shoal_group_free(window->group);
    allocator.free(allocator.self, window);
    return status;
  }
  *out_window = &window->base;
  return NULL;
}

static void free_window(shoal_window_t *base) {
  throttle_window_t *window = (throttle_window_t *)base;
  shoal_allocator_t allocator = base->group->world->allocator;
  shoal_window_free(window->inner);
  shoal_group_free(window->group);
  allocator.free(allocator.self, window);
}

static shoal_status_t put_add(shoal_window_t *window, int32_t owner, shoal_dtype_t dtype,
                              int64_t offset, int64_t count, const void *data) {
  shoal_throttle_world_t *world = (shoal_throttle_world_t *)window->group->world;
  const shoal_throttle_route_t *route = &world->routes[window->group->ranks[owner]];
  const int64_t bytes = count * (int64_t)shoal_dtype_size(dtype);
  const shoal_throttle_times_t times =
      shoal_throttle_book(world, route, route->out, bytes, shoal_time_ns());
  SHOAL_RETURN_IF_ERROR(shoal_throttle_sleep(world, times.delivered));
  return ops_of(window)->put_add(inner_of(window), owner, dtype, offset, count, data);
}

// The question takes a latency, and is too small to keep a link busy; the answer goes over the
// owner's.
static shoal_status_t get(shoal_window_t *window, int32_t owner, int64_t offset, int64_t bytes,
                          void *data, uint64_t *out_versions) {
  shoal_throttle_world_t *world = (shoal_throttle_world_t *)window->group->world;
  const shoal_throttle_route_t *route = &world->routes[window->group->ranks[owner]];
  SHOAL_RETURN_IF_ERROR(shoal_throttle_sleep(world, shoal_time_ns() + route->latency_ns));
  SHOAL_RETURN_IF_ERROR(
      ops_of(window)->get(inner_of(window), owner, offset, bytes, data, out_versions));
  const shoal_throttle_times_t times =
      shoal_throttle_book(world, route, route->in, bytes, shoal_time_ns());
  return shoal_throttle_sleep(world, times.delivered);
}

static shoal_status_t wait_for(shoal_window_t *window, int32_t owner, int32_t writer,
                               uint64_t version) {
  return ops_of(window)->wait(inner_of(window), owner, writer, version);
}

const shoal_window_ops_t shoal_throttle_windows = {
    .create = create_window,
    .free = free_window,
    .put_add = put_add,
    .get = get,
    .wait = wait_for,
};
