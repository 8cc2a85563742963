// `mpi`: joining, leaving, streams; engine.c moves the messages, window.c has the windows.
#include "comm/backends/mpi/mpi.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"

static bool mpi_detect(void) {
  return shoal_mpi_launched();
}

// ---- joining --------------------------------------------------------------------------

// Processes under another MPI's launcher are N worlds of one rank each, and do not say so.
static shoal_status_t check_launch(const shoal_mpi_launch_t *launch,
                                   const shoal_mpi_plugin_t *plugin,
                                   const shoal_mpi_start_t *start) {
  if (start->rank == launch->rank && start->size == launch->size) return NULL;
  return SHOAL_ERROR_HINT(
      UNAVAILABLE,
      "launch with the MPI of the plug-in: mpirun.openmpi or mpiexec.hydra; under Slurm "
      "--mpi=pmix for Open MPI, --mpi=pmi2 for MPICH",
      "%s started this process as rank %d of %d, but %s says that it is rank %d of %d",
      launch->launcher, launch->rank, launch->size, plugin->library, start->rank, start->size);
}

static shoal_status_t world_create(const shoal_world_options_t *options,
                                   const shoal_mpi_plugin_t *plugin, const shoal_mpi_start_t *start,
                                   shoal_mpi_world_t **out_world) {
  shoal_allocator_t allocator = options->allocator;
  const size_t n = (size_t)start->size;
  const size_t bytes =
      sizeof(shoal_mpi_world_t) + n * (sizeof(shoal_mpi_peer_t) + 2 * sizeof(shoal_mpi_request_t));
  shoal_mpi_world_t *world = allocator.alloc(allocator.self, bytes);
  if (!world) return SHOAL_OOM();
  memset(world, 0, bytes);
  world->base.ops = &shoal_comm_mpi;
  world->base.allocator = allocator;
  world->base.references = 1;
  world->base.rank = start->rank;
  world->base.size = start->size;
  world->base.timeout_ms = options->timeout_ms;
  world->plugin = plugin;
  world->largest_tag = start->largest_tag;
  world->peers = (shoal_mpi_peer_t *)(world + 1);
  world->failed.requests = (shoal_mpi_request_t *)(world->peers + n);
  world->left.requests = world->failed.requests + n;
  shoal_status_t status = shoal_mutex_init(&world->mutex);
  if (status) {
    allocator.free(allocator.self, world);
    return status;
  }
  *out_world = world;
  return NULL;
}

static void world_destroy(shoal_mpi_world_t *world) {
  shoal_allocator_t allocator = world->base.allocator;
  shoal_mutex_deinit(&world->mutex);
  allocator.free(allocator.self, world);
}

// Communicators of this world's own: what an earlier world left behind cannot reach it. Here the
// ranks meet. After an error the world's memory may still be MPI's to write.
static shoal_status_t meet(shoal_mpi_world_t *world, int64_t timeout_ms) {
  const int64_t deadline = shoal_time_ns() + timeout_ms * 1000000;
  int64_t pause = 10000;
  for (int i = 0; i < 2; ++i) {
    bool ready = false;
    if (world->plugin->comm_start(&world->comms[i])) goto failed;
    for (;;) {
      if (world->plugin->comm_test(&world->comms[i], &ready)) goto failed;
      if (ready) break;
      if (shoal_time_ns() > deadline) {
        return SHOAL_ERROR(DEADLINE, "rank %d waited %lld ms for all %d ranks to join",
                           world->base.rank, (long long)timeout_ms, world->base.size);
      }
      shoal_time_sleep_ns(pause);
      if (pause < 1000000) pause += pause / 2;
    }
  }
  return NULL;
failed:
  return SHOAL_ERROR(ABORTED, "rank %d cannot join: %s", world->base.rank, world->plugin->error);
}

static shoal_status_t mpi_join(const shoal_world_options_t *options, shoal_world_t **out_world) {
  shoal_mpi_launch_t launch;
  const shoal_mpi_plugin_t *plugin;
  shoal_mpi_start_t start;
  int64_t timeout_ms = options->timeout_ms;
  if (timeout_ms < SHOAL_MPI_START_LEAST_MS) timeout_ms = SHOAL_MPI_START_LEAST_MS;
  SHOAL_RETURN_IF_ERROR(shoal_mpi_read_launch(&launch));
  SHOAL_RETURN_IF_ERROR(shoal_mpi_load(&launch, &plugin));
  SHOAL_RETURN_IF_ERROR(shoal_mpi_start(&launch, plugin, options->allocator, timeout_ms, &start));
  SHOAL_RETURN_IF_ERROR(check_launch(&launch, plugin, &start));
  shoal_mpi_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(world_create(options, plugin, &start, &world));
  shoal_status_t status = meet(world, timeout_ms);
  if (status) {  // `world` stays: MPI may still write its communicators
    plugin->give_up();
    return status;
  }
  status = shoal_mpi_engine_start(world);
  if (status) {
    plugin->give_up();
    world_destroy(world);
    return status;
  }
  *out_world = &world->base;
  return NULL;
}

static void mpi_world_free(shoal_world_t *base) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base;
  if (shoal_mpi_engine_stop(world)) world_destroy(world);
}

static shoal_status_t mpi_broken(shoal_world_t *base) {
  return shoal_failure_status(&((shoal_mpi_world_t *)base)->failure);
}

// ---- streams --------------------------------------------------------------------------

static shoal_status_t mpi_stream_create(shoal_world_t *base, uint64_t id,
                                        shoal_stream_t **out_stream) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base;
  const size_t n = (size_t)base->size;
  const size_t bytes =
      sizeof(shoal_mpi_stream_t) + n * (sizeof(shoal_mpi_receiver_t) + sizeof(uint64_t));
  shoal_mpi_stream_t *stream = base->allocator.alloc(base->allocator.self, bytes);
  if (!stream) return SHOAL_OOM();
  memset(stream, 0, bytes);
  stream->base.world = base;
  stream->base.id = id;
  stream->receivers = (shoal_mpi_receiver_t *)(stream + 1);
  stream->sent = (uint64_t *)(stream->receivers + n);
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_stream_open(world, stream);
  shoal_mutex_unlock(&world->mutex);
  *out_stream = &stream->base;
  return NULL;
}

static void mpi_stream_free(shoal_stream_t *base) {
  shoal_mpi_world_t *world = (shoal_mpi_world_t *)base->world;
  shoal_mutex_lock(&world->mutex);
  shoal_mpi_stream_close(world, (shoal_mpi_stream_t *)base);
  shoal_mutex_unlock(&world->mutex);
  shoal_allocator_t allocator = base->world->allocator;
  allocator.free(allocator.self, base);
}

const shoal_comm_ops_t shoal_comm_mpi = {
    .name = "mpi",
    .detect = mpi_detect,
    .join = mpi_join,
    .world_free = mpi_world_free,
    .fail = shoal_mpi_fail,
    .broken = mpi_broken,
    .survey = shoal_mpi_survey,
    .stream_create = mpi_stream_create,
    .stream_free = mpi_stream_free,
    .exchange_start = shoal_mpi_exchange_start,
    .exchange_wait = shoal_mpi_exchange_wait,
    .group_free = shoal_mpi_group_free,
    .collective = {[SHOAL_COLLECTIVE_REDUCE] = shoal_mpi_native,
                   [SHOAL_COLLECTIVE_ALL_REDUCE] = shoal_mpi_native,
                   [SHOAL_COLLECTIVE_REDUCE_SCATTER] = shoal_mpi_native},
    .windows = &shoal_mpi_windows,
};
