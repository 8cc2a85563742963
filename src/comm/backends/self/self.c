// A world of one rank: the smallest backend, and the one to copy. Messages to oneself are matched
// and copied; collectives are composed. Threads may share it, so a wait may be ended by another
// thread.
#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/comm_impl.h"
#include "comm/pending.h"
#include "device/reduce.h"

typedef struct self_world {
  shoal_world_t base;
  shoal_mutex_t mutex;
  shoal_cond_t changed;
  shoal_failure_t failure;
} self_world_t;

typedef struct self_stream {
  shoal_stream_t base;
  shoal_pending_t pending;
  shoal_cursor_t sends, recvs;
} self_stream_t;

static bool self_detect(void) {
  return true;
}

static shoal_status_t self_threads(const shoal_world_options_t *options, int32_t n,
                                   shoal_world_t **out_worlds) {
  if (n != 1) return SHOAL_ERROR(INVALID_ARGUMENT, "backend 'self' has one rank, not %d", n);
  shoal_allocator_t allocator = options->allocator;
  self_world_t *world = allocator.alloc(allocator.self, sizeof *world);
  if (!world) return SHOAL_OOM();
  *world = (self_world_t){.base = {.ops = &shoal_comm_self,
                                   .allocator = allocator,
                                   .references = 1,
                                   .size = 1,
                                   .timeout_ms = options->timeout_ms}};
  shoal_status_t status = shoal_mutex_init(&world->mutex);
  if (!status) {
    status = shoal_cond_init(&world->changed);
    if (status) shoal_mutex_deinit(&world->mutex);
  }
  if (status) {
    allocator.free(allocator.self, world);
    return status;
  }
  out_worlds[0] = &world->base;
  return NULL;
}

static shoal_status_t self_join(const shoal_world_options_t *options, shoal_world_t **out_world) {
  return self_threads(options, 1, out_world);
}

static void self_world_free(shoal_world_t *base) {
  self_world_t *world = (self_world_t *)base;
  shoal_cond_deinit(&world->changed);
  shoal_mutex_deinit(&world->mutex);
  shoal_allocator_t allocator = base->allocator;
  allocator.free(allocator.self, world);
}

static void self_fail(shoal_world_t *base, shoal_code_t code, const char *message) {
  self_world_t *world = (self_world_t *)base;
  shoal_mutex_lock(&world->mutex);
  shoal_failure_set(&world->failure, code, 0, message);
  shoal_cond_broadcast(&world->changed);
  shoal_mutex_unlock(&world->mutex);
}

static shoal_status_t self_broken(shoal_world_t *base) {
  return shoal_failure_status(&((self_world_t *)base)->failure);
}

static shoal_status_t self_stream_create(shoal_world_t *world, uint64_t id,
                                         shoal_stream_t **out_stream) {
  self_stream_t *stream = world->allocator.alloc(world->allocator.self, sizeof *stream);
  if (!stream) return SHOAL_OOM();
  *stream = (self_stream_t){.base = {.world = world, .id = id}};
  *out_stream = &stream->base;
  return NULL;
}

static void self_stream_free(shoal_stream_t *stream) {
  shoal_allocator_t allocator = stream->world->allocator;
  allocator.free(allocator.self, stream);
}

// Moves all it can; called with the mutex held.
static void progress(self_world_t *world, self_stream_t *stream) {
  while (stream->sends.exchange && stream->recvs.exchange) {
    const shoal_message_t *send = shoal_cursor_message(&stream->sends, SHOAL_SEND);
    const shoal_message_t *recv = shoal_cursor_message(&stream->recvs, SHOAL_RECV);
    if (send->tag != recv->tag || send->bytes != recv->bytes) {
      char message[200];
      snprintf(message, sizeof message,
               "rank 0 expects tag %d, %lld bytes from rank 0, but rank 0 sent tag %d, %lld bytes",
               recv->tag, (long long)recv->bytes, send->tag, (long long)send->bytes);
      shoal_failure_set(&world->failure, SHOAL_MISMATCH, 0, message);
      shoal_cond_broadcast(&world->changed);
      return;
    }
    if (send->bytes > 0) memmove(recv->data, send->data, (size_t)send->bytes);
    shoal_cursor_finish(&stream->sends, SHOAL_SEND, 0, &stream->pending);
    shoal_cursor_finish(&stream->recvs, SHOAL_RECV, 0, &stream->pending);
    shoal_cond_broadcast(&world->changed);
  }
}

static shoal_status_t self_exchange_start(shoal_stream_t *base, shoal_exchange_t *exchange) {
  self_world_t *world = (self_world_t *)base->world;
  self_stream_t *stream = (self_stream_t *)base;
  SHOAL_RETURN_IF_ERROR(self_broken(base->world));
  if (shoal_exchange_done(exchange)) return NULL;  // it is empty
  shoal_mutex_lock(&world->mutex);
  shoal_pending_add(&stream->pending, exchange);
  shoal_cursor_offer(&stream->sends, SHOAL_SEND, 0, exchange);
  shoal_cursor_offer(&stream->recvs, SHOAL_RECV, 0, exchange);
  progress(world, stream);
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

static shoal_status_t self_exchange_wait(shoal_stream_t *base, shoal_exchange_t *exchange) {
  self_world_t *world = (self_world_t *)base->world;
  self_stream_t *stream = (self_stream_t *)base;
  const int64_t deadline = shoal_time_ns() + base->world->timeout_ms * 1000000;
  shoal_mutex_lock(&world->mutex);
  while (!shoal_exchange_done(exchange) && !shoal_failure_is_set(&world->failure)) {
    if (!shoal_cond_wait_until(&world->changed, &world->mutex, deadline)) {
      char message[160];
      snprintf(message, sizeof message,
               "rank 0 waited %lld ms for a message between itself and itself: %lld of %d sent, "
               "%lld of %d received",
               (long long)base->world->timeout_ms, (long long)exchange->progress[SHOAL_SEND],
               exchange->send_count, (long long)exchange->progress[SHOAL_RECV],
               exchange->recv_count);
      shoal_failure_set(&world->failure, SHOAL_DEADLINE, 0, message);
      shoal_cond_broadcast(&world->changed);
    }
  }
  const bool done = shoal_exchange_done(exchange);
  if (!done) {  // the caller's storage goes away; nothing moves in a broken world
    shoal_pending_remove(&stream->pending, exchange);
    stream->sends.exchange = stream->recvs.exchange = NULL;
  }
  shoal_mutex_unlock(&world->mutex);
  return done ? NULL : self_broken(base->world);
}

// ---- windows: one shard, one writer ----------------------------------------------------

typedef struct self_window {
  shoal_window_t base;
  uint64_t version;
  uint8_t *data;
} self_window_t;

static shoal_status_t self_window_create(shoal_group_t *group, const int64_t *shards,
                                         shoal_window_t **out_window) {
  shoal_allocator_t allocator = group->world->allocator;
  const size_t bytes = (size_t)shards[0];
  self_window_t *window = allocator.alloc(allocator.self, sizeof *window);
  uint8_t *data = allocator.alloc(allocator.self, bytes + 1);
  if (!window || !data) {
    allocator.free(allocator.self, data);
    allocator.free(allocator.self, window);
    return SHOAL_OOM();
  }
  memset(data, 0, bytes);
  *window = (self_window_t){.data = data};
  *out_window = &window->base;
  return NULL;
}

static void self_window_free(shoal_window_t *base) {
  shoal_allocator_t allocator = base->group->world->allocator;
  allocator.free(allocator.self, ((self_window_t *)base)->data);
  allocator.free(allocator.self, base);
}

static shoal_status_t self_window_put_add(shoal_window_t *base, int32_t owner, shoal_dtype_t dtype,
                                          int64_t offset, int64_t count, const void *data) {
  (void)owner;
  self_window_t *window = (self_window_t *)base;
  self_world_t *world = (self_world_t *)base->group->world;
  shoal_mutex_lock(&world->mutex);
  if (count > 0) {
    shoal_reduce_into(dtype, SHOAL_REDUCE_SUM, count, data, 1, window->data + offset, 1);
  }
  ++window->version;
  shoal_cond_broadcast(&world->changed);
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

static shoal_status_t self_window_get(shoal_window_t *base, int32_t owner, int64_t offset,
                                      int64_t bytes, void *data, uint64_t *out_versions) {
  (void)owner;
  self_window_t *window = (self_window_t *)base;
  self_world_t *world = (self_world_t *)base->group->world;
  shoal_mutex_lock(&world->mutex);
  if (bytes > 0) memcpy(data, window->data + offset, (size_t)bytes);
  if (out_versions) out_versions[0] = window->version;
  shoal_mutex_unlock(&world->mutex);
  return NULL;
}

static shoal_status_t self_window_wait(shoal_window_t *base, int32_t owner, int32_t writer,
                                       uint64_t version) {
  (void)owner, (void)writer;
  self_window_t *window = (self_window_t *)base;
  self_world_t *world = (self_world_t *)base->group->world;
  const int64_t deadline = shoal_time_ns() + world->base.timeout_ms * 1000000;
  shoal_mutex_lock(&world->mutex);
  while (window->version < version && !shoal_failure_is_set(&world->failure)) {
    if (shoal_cond_wait_until(&world->changed, &world->mutex, deadline)) continue;
    char message[160];
    snprintf(
        message, sizeof message,
        "no progress in %lld ms: rank 0 waits for version %llu of its window, which is at %llu",
        (long long)world->base.timeout_ms, (unsigned long long)version,
        (unsigned long long)window->version);
    shoal_failure_set(&world->failure, SHOAL_DEADLINE, 0, message);
    shoal_cond_broadcast(&world->changed);
  }
  const bool done = window->version >= version;
  shoal_mutex_unlock(&world->mutex);
  return done ? NULL : self_broken(&world->base);
}

static const shoal_window_ops_t windows = {
    .create = self_window_create,
    .free = self_window_free,
    .put_add = self_window_put_add,
    .get = self_window_get,
    .wait = self_window_wait,
};

const shoal_comm_ops_t shoal_comm_self = {
    .name = "self",
    .detect = self_detect,
    .join = self_join,
    .threads = self_threads,
    .world_free = self_world_free,
    .fail = self_fail,
    .broken = self_broken,
    .stream_create = self_stream_create,
    .stream_free = self_stream_free,
    .exchange_start = self_exchange_start,
    .exchange_wait = self_exchange_wait,
    .windows = &windows,
};
