// Windows as users call them: checks and dispatch; what they are is said in shoal/comm.h.
#include "base/dtype.h"
#include "base/status.h"
#include "comm/comm_impl.h"
#include "device/reduce.h"

shoal_status_t shoal_window_create(shoal_group_t *group, int64_t bytes,
                                   shoal_window_t **out_window) {
  shoal_world_t *world = group->world;
  if (!world->ops->windows) {
    return SHOAL_ERROR(UNSUPPORTED, "backend '%s' has no windows", world->ops->name);
  }
  if (bytes < 0) bytes = -1;  // everyone must hear of it
  shoal_allocator_t allocator = world->allocator;
  int64_t *shards = allocator.alloc(allocator.self, 2 * (size_t)group->size * sizeof *shards);
  if (!shards) {
    world->ops->fail(world, SHOAL_OUT_OF_MEMORY, "no memory for a window");
    return SHOAL_OOM();
  }
  int64_t *ones = shards + group->size;
  for (int32_t i = 0; i < group->size; ++i) ones[i] = 1;
  shoal_status_t status = shoal_all_gather(group, SHOAL_I64, ones, &bytes, shards);
  for (int32_t i = 0; i < group->size && !status; ++i) {
    if (shards[i] < 0) {
      status = SHOAL_ERROR(INVALID_ARGUMENT, "group rank %d has a shard of negative size", i);
    }
  }
  shoal_window_t *window = NULL;
  if (!status) status = world->ops->windows->create(group, shards, &window);
  if (status) {
    allocator.free(allocator.self, shards);
    return status;
  }
  window->group = group;
  window->shards = shards;
  *out_window = window;
  return NULL;
}

void shoal_window_free(shoal_window_t *window) {
  if (!window) return;
  shoal_world_t *world = window->group->world;
  int64_t *shards = window->shards;
  shoal_status_free(shoal_barrier(window->group));  // nobody writes to a shard that is gone
  world->ops->windows->free(window);
  world->allocator.free(world->allocator.self, shards);
}

int64_t shoal_window_bytes(const shoal_window_t *window, int32_t owner) {
  return owner < 0 || owner >= window->group->size ? 0 : window->shards[owner];
}

static shoal_status_t check(shoal_window_t *window, int32_t owner, int64_t offset, int64_t bytes,
                            const void *data) {
  const shoal_group_t *group = window->group;
  if (owner < 0 || owner >= group->size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "owner %d in a window of %d ranks", owner, group->size);
  }
  if (offset < 0 || bytes < 0 || bytes > window->shards[owner] ||
      offset > window->shards[owner] - bytes || (bytes > 0 && !data)) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%lld bytes at %lld of a shard of %lld", (long long)bytes,
                       (long long)offset, (long long)window->shards[owner]);
  }
  return group->world->ops->broken(group->world);
}

shoal_status_t shoal_window_put_add(shoal_window_t *window, int32_t owner, shoal_dtype_t dtype,
                                    int64_t offset, int64_t count, const void *data) {
  if (!shoal_reduce_supported(dtype, SHOAL_REDUCE_SUM)) {
    return (unsigned)dtype < SHOAL_DTYPE_COUNT
               ? SHOAL_ERROR(UNSUPPORTED, "elements of %s cannot be joined by sum",
                             shoal_dtype_name(dtype))
               : SHOAL_ERROR(INVALID_ARGUMENT, "unknown element type %d", (int)dtype);
  }
  int64_t bytes;
  SHOAL_RETURN_IF_ERROR(shoal_dtype_bytes(dtype, count, &bytes));
  if (offset % (int64_t)shoal_dtype_size(dtype) != 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "offset %lld is no multiple of an element of %s",
                       (long long)offset, shoal_dtype_name(dtype));
  }
  SHOAL_RETURN_IF_ERROR(check(window, owner, offset, bytes, data));
  shoal_world_t *world = window->group->world;
  const uint64_t record =
      shoal_record_begin(world, SHOAL_RECORD_PUT_ADD, window->group->stream, 0, owner, bytes);
  shoal_status_t status = world->ops->windows->put_add(window, owner, dtype, offset, count, data);
  shoal_record_end(world, record, status != NULL);
  return status;
}

shoal_status_t shoal_window_get(shoal_window_t *window, int32_t owner, int64_t offset,
                                int64_t bytes, void *data, uint64_t *out_versions) {
  SHOAL_RETURN_IF_ERROR(check(window, owner, offset, bytes, data));
  shoal_world_t *world = window->group->world;
  const uint64_t record =
      shoal_record_begin(world, SHOAL_RECORD_GET, window->group->stream, 0, owner, bytes);
  shoal_status_t status =
      world->ops->windows->get(window, owner, offset, bytes, data, out_versions);
  shoal_record_end(world, record, status != NULL);
  return status;
}

shoal_status_t shoal_window_wait(shoal_window_t *window, int32_t owner, int32_t writer,
                                 uint64_t version) {
  SHOAL_RETURN_IF_ERROR(check(window, owner, 0, 0, NULL));
  if (writer < -1 || writer >= window->group->size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "writer %d in a window of %d ranks", writer,
                       window->group->size);
  }
  shoal_world_t *world = window->group->world;
  const uint64_t record =
      shoal_record_begin(world, SHOAL_RECORD_WAIT, window->group->stream, 0, owner, 0);
  shoal_status_t status = world->ops->windows->wait(window, owner, writer, version);
  shoal_record_end(world, record, status != NULL);
  return status;
}
