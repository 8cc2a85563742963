// `local`: ranks on one machine, as threads of one process or as processes that inherited a hub
// from `shoal run`. Joining, leaving, streams; engine.c moves the bytes.
#include "comm/backends/local/local.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

// ---- joining --------------------------------------------------------------------------

static bool local_detect(void) {
  return getenv("SHOAL_LOCAL_FD") || getenv("SHOAL_SIZE") || getenv("SHOAL_RANK");
}

static shoal_status_t read_variable(const char *name, int32_t *out_value) {
  const char *text = getenv(name);
  char *end = NULL;
  long value = text ? strtol(text, &end, 10) : -1;
  if (!text || !text[0] || *end || value < 0 || value > INT32_MAX) {
    return SHOAL_ERROR_HINT(INVALID_ARGUMENT, "start the program with `shoal run -n N -- program`",
                            "%s is %s%s%s, not a number", name, text ? "'" : "not set",
                            text ? text : "", text ? "'" : "");
  }
  *out_value = (int32_t)value;
  return NULL;
}

static void local_world_free(shoal_world_t *base);

static shoal_status_t world_create(const shoal_world_options_t *options, shoal_hub_t *hub,
                                   int32_t rank, bool threads, shoal_local_world_t **out_world) {
  shoal_allocator_t allocator = options->allocator;
  const size_t pipes = (size_t)hub->size * SHOAL_HUB_PIPES;
  shoal_local_world_t *world =
      allocator.alloc(allocator.self, sizeof *world + 2 * pipes * sizeof(void *));
  if (!world) return SHOAL_OOM();
  *world = (shoal_local_world_t){.base = {.ops = &shoal_comm_local,
                                          .allocator = allocator,
                                          .references = 1,
                                          .rank = rank,
                                          .size = hub->size,
                                          .timeout_ms = options->timeout_ms,
                                          .recorder = shoal_hub_recorder(hub, rank)},
                                 .hub = hub,
                                 .threads = threads,
                                 .spin = hub->size <= sysconf(_SC_NPROCESSORS_ONLN)};
  world->sending = (shoal_local_stream_t **)(world + 1);
  world->receiving = world->sending + pipes;
  memset(world->sending, 0, 2 * pipes * sizeof(void *));
  shoal_status_t status = shoal_local_table_init(getenv("SHOAL_COMM_TABLE"), &world->table);
  if (!status) status = shoal_mutex_init(&world->mutex);
  if (!status) {
    status = shoal_mutex_init(&world->heap_lock);
    if (status) shoal_mutex_deinit(&world->mutex);
  }
  if (status) {
    allocator.free(allocator.self, world);
    return status;
  }
  *out_world = world;
  return NULL;
}

static shoal_status_t local_join(const shoal_world_options_t *options, shoal_world_t **out_world) {
  int32_t fd = -1, rank = 0, size = 0;
  SHOAL_RETURN_IF_ERROR(read_variable("SHOAL_RANK", &rank));
  SHOAL_RETURN_IF_ERROR(read_variable("SHOAL_SIZE", &size));
  SHOAL_RETURN_IF_ERROR(read_variable("SHOAL_LOCAL_FD", &fd));
  if (rank >= size) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "SHOAL_RANK is %d but SHOAL_SIZE is %d", rank, size);
  }
  shoal_hub_t *hub = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_hub_open(fd, size, &hub));
  if (shoal_hub_state(hub, rank) == SHOAL_HUB_JOINED &&
      atomic_load(&hub->ranks[rank].pid) != getpid()) {
    shoal_hub_close(hub);
    return SHOAL_ERROR(INVALID_ARGUMENT, "another process is rank %d already", rank);
  }
  shoal_local_world_t *world = NULL;
  shoal_status_t status = world_create(options, hub, rank, false, &world);
  if (status) {
    shoal_hub_close(hub);
    return status;
  }
  shoal_hub_set_process(hub, rank, getpid());
  world->generation = shoal_hub_join(hub, rank);
  *out_world = &world->base;
  return NULL;
}

static shoal_status_t local_threads(const shoal_world_options_t *options, int32_t n,
                                    shoal_world_t **out_worlds) {
  shoal_hub_t *hub = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_hub_create(n, NULL, &hub));
  atomic_store(&hub->references, 1);  // this function's
  shoal_status_t status = NULL;
  for (int32_t i = 0; i < n && !status; ++i) {
    shoal_local_world_t *world = NULL;
    status = world_create(options, hub, i, true, &world);
    if (status) {
      while (i > 0) local_world_free(out_worlds[--i]);
      break;
    }
    atomic_fetch_add(&hub->references, 1);
    world->generation = shoal_hub_join(hub, i);
    out_worlds[i] = &world->base;
  }
  if (atomic_fetch_sub(&hub->references, 1) == 1) shoal_hub_close(hub);
  return status;
}

static void local_world_free(shoal_world_t *base) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  shoal_local_mover_stop(world);
  shoal_local_heap_deinit(world);
  shoal_hub_leave(world->hub, base->rank, SHOAL_HUB_LEFT);
  if (!world->threads || atomic_fetch_sub(&world->hub->references, 1) == 1) {
    shoal_hub_close(world->hub);
  }
  shoal_mutex_deinit(&world->heap_lock);
  shoal_mutex_deinit(&world->mutex);
  shoal_allocator_t allocator = base->allocator;
  allocator.free(allocator.self, world);
}

// ---- failing --------------------------------------------------------------------------

static void local_fail(shoal_world_t *base, shoal_code_t code, const char *message) {
  shoal_hub_fail(((shoal_local_world_t *)base)->hub, code, base->rank, message);
}

static shoal_status_t local_broken(shoal_world_t *base) {
  return shoal_failure_status(&((shoal_local_world_t *)base)->hub->failure);
}

// ---- streams -------------------------------------------------------------------------

static shoal_status_t local_stream_create(shoal_world_t *base, uint64_t id,
                                          shoal_stream_t **out_stream) {
  shoal_local_world_t *world = (shoal_local_world_t *)base;
  const size_t n = (size_t)base->size;
  shoal_local_stream_t *stream = base->allocator.alloc(
      base->allocator.self, sizeof *stream + 2 * n * sizeof(shoal_local_flow_t));
  if (!stream) return SHOAL_OOM();
  *stream = (shoal_local_stream_t){.base = {.world = base, .id = id}};
  stream->sends = (shoal_local_flow_t *)(stream + 1);
  stream->recvs = stream->sends + n;
  for (size_t i = 0; i < 2 * n; ++i) stream->sends[i] = (shoal_local_flow_t){.pipe = -1};
  shoal_mutex_lock(&world->mutex);
  stream->next = world->streams;
  world->streams = stream;
  shoal_mutex_unlock(&world->mutex);
  *out_stream = &stream->base;
  return NULL;
}

static void local_stream_free(shoal_stream_t *base) {
  shoal_local_world_t *world = (shoal_local_world_t *)base->world;
  shoal_mutex_lock(&world->mutex);
  shoal_local_stream_t **at = &world->streams;
  while (*at && &(*at)->base != base) at = &(*at)->next;
  if (*at) *at = (*at)->next;
  // Only a broken world has messages half through.
  for (int32_t i = 0; i < base->world->size * SHOAL_HUB_PIPES; ++i) {
    if (world->sending[i] && &world->sending[i]->base == base) world->sending[i] = NULL;
    if (world->receiving[i] && &world->receiving[i]->base == base) world->receiving[i] = NULL;
  }
  shoal_mutex_unlock(&world->mutex);
  shoal_allocator_t allocator = base->world->allocator;
  allocator.free(allocator.self, base);
}

// Everybody's records lie in the hub: they can be read even when their rank cannot speak any more.
static void local_survey(shoal_world_t *base, shoal_account_t *out_accounts) {
  shoal_hub_t *hub = ((shoal_local_world_t *)base)->hub;
  for (int32_t i = 0; i < base->size; ++i) {
    static const shoal_presence_t presence[] = {[SHOAL_HUB_ABSENT] = SHOAL_PRESENCE_AWAITED,
                                                [SHOAL_HUB_JOINED] = SHOAL_PRESENCE_HERE,
                                                [SHOAL_HUB_LEFT] = SHOAL_PRESENCE_LEFT,
                                                [SHOAL_HUB_GONE] = SHOAL_PRESENCE_GONE};
    shoal_account_take(shoal_hub_recorder(hub, i), &out_accounts[i]);
    out_accounts[i].presence = (int32_t)presence[shoal_hub_state(hub, i)];
  }
}

const shoal_comm_ops_t shoal_comm_local = {
    .name = "local",
    .detect = local_detect,
    .join = local_join,
    .threads = local_threads,
    .world_free = local_world_free,
    .fail = local_fail,
    .broken = local_broken,
    .survey = local_survey,
    .stream_create = local_stream_create,
    .stream_free = local_stream_free,
    .exchange_start = shoal_local_exchange_start,
    .exchange_wait = shoal_local_exchange_wait,
    .stir = shoal_local_stir,
    .rest = shoal_local_rest,
    .group_free = shoal_meet_close,
#define SHOAL_COLLECTIVE(id, ...) .collective[SHOAL_COLLECTIVE_##id] = shoal_local_collective,
#include "shoal/collectives.inc"
#undef SHOAL_COLLECTIVE
    .alloc = shoal_local_alloc,
    .release = shoal_local_release,
    .windows = &shoal_local_windows,
};
