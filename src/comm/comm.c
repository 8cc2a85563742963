// Worlds: joining, agreeing, aborting. Checks and dispatch; backends do the work.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "base/text.h"
#include "comm/backends/mpi/mpi.h"
#include "comm/comm_impl.h"
#include "shoal/options.h"

#define DEFAULT_TIMEOUT_MS 300000
#define LONGEST_TIMEOUT_MS (INT64_C(1) << 40)  // 34 years: in nanoseconds it still fits

static const shoal_comm_ops_t *const backends[] = {
#define SHOAL_COMM_BACKEND(name) &shoal_comm_##name,
#include "comm/backends.inc"
#undef SHOAL_COMM_BACKEND
};
#define BACKEND_COUNT ((int64_t)(sizeof backends / sizeof backends[0]))

// The environment's world, one per process: the library's only process-wide variable.
static struct {
  pthread_mutex_t lock;
  shoal_world_t *world;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

// ---- joining --------------------------------------------------------------------------

static shoal_status_t fill_options(const shoal_world_options_t *given,
                                   shoal_world_options_t *out_options) {
  shoal_world_options_t options = given ? *given : (shoal_world_options_t){0};
  if (!options.allocator.alloc) options.allocator = shoal_allocator_system();
  const char *text = getenv("SHOAL_TIMEOUT_MS");
  if (options.timeout_ms == 0 && text && text[0]) {
    char *end;
    options.timeout_ms = strtoll(text, &end, 10);
    if (*end || options.timeout_ms <= 0) {
      return SHOAL_ERROR(INVALID_ARGUMENT, "SHOAL_TIMEOUT_MS is '%s', not a positive number", text);
    }
  }
  if (options.timeout_ms == 0) options.timeout_ms = DEFAULT_TIMEOUT_MS;
  if (options.timeout_ms > LONGEST_TIMEOUT_MS) options.timeout_ms = LONGEST_TIMEOUT_MS;
  if (options.timeout_ms < 0) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "a timeout of %lld ms", (long long)options.timeout_ms);
  }
  *out_options = options;
  return NULL;
}

// "throttle:local" is throttle's.
static bool has_name(const shoal_comm_ops_t *ops, const char *name) {
  const size_t length = strlen(ops->name);
  return strncmp(name, ops->name, length) == 0 &&
         (!name[length] || (ops->wraps && name[length] == ':'));
}

shoal_status_t shoal_comm_find(const char *name, bool wrapped, const shoal_comm_ops_t **out_ops) {
  const char *names[BACKEND_COUNT];
  int64_t count = 0;
  for (int64_t i = 0; i < BACKEND_COUNT; ++i) {
    if (wrapped && backends[i]->wraps) continue;
    names[count++] = backends[i]->name;
    if (name ? has_name(backends[i], name) : backends[i]->detect()) {
      *out_ops = backends[i];
      return NULL;
    }
  }
  shoal_hint_t hint;
  return SHOAL_ERROR_HINT(
      NOT_FOUND,
      shoal_did_you_mean(name ? name : "", names, count, "`shoal info` lists the backends", &hint),
      "there is no communication backend '%s'", name ? name : "");
}

// By which names a user knows them; `family` is an MPI's, whose plug-in may be missing.
static const struct {
  const char *name, *family;
  bool is_planned;
} known[] = {{"self"},
             {"local"},
             {"throttle"},
             {"mpi-openmpi", .family = "openmpi"},
             {"mpi-mpich", .family = "mpich"},
             {"nccl", .is_planned = true}};

const char *shoal_comm_backend(int64_t index, bool *out_available) {
  if (index < 0 || index >= (int64_t)(sizeof known / sizeof *known)) return NULL;
  const char *family = known[index].family;
  if (out_available)
    *out_available = !known[index].is_planned && (!family || shoal_mpi_has_plugin(family));
  return known[index].name;
}

void shoal_world_destroy(shoal_world_t *world) {
  shoal_recorder_t *recorder = world->private_recorder;
  shoal_allocator_t allocator = world->allocator;
  shoal_group_free(world->all);
  if (world->stream) world->ops->stream_free(world->stream);
  while (world->stream_counts) {
    shoal_stream_count_t *next = world->stream_counts->next;
    world->allocator.free(world->allocator.self, world->stream_counts);
    world->stream_counts = next;
  }
  if (world->lock_ready) {
    shoal_mutex_deinit(&world->flights);
    shoal_mutex_deinit(&world->lock);
  }
  world->ops->world_free(world);
  allocator.free(allocator.self, recorder);  // last: a backend's threads may still write to it
}

// What every world has, whatever its backend.
shoal_status_t shoal_world_complete(shoal_world_t *world) {
  SHOAL_RETURN_IF_ERROR(shoal_mutex_init(&world->lock));
  shoal_status_t status = shoal_mutex_init(&world->flights);
  if (status) {
    shoal_mutex_deinit(&world->lock);
    return status;
  }
  world->lock_ready = true;
  if (!world->recorder) {
    shoal_recorder_t *recorder = world->allocator.alloc(world->allocator.self, sizeof *recorder);
    if (!recorder) return SHOAL_OOM();
    memset(recorder, 0, sizeof *recorder);
    world->recorder = world->private_recorder = recorder;
  }
  SHOAL_RETURN_IF_ERROR(world->ops->stream_create(world, 0, &world->stream));
  return shoal_group_create(world, world->size, NULL, &world->all);
}

// `shoal run --threads` started this process alone: it is no rank of the many asked for.
static shoal_status_t refuse_threads(void) {
  const char *threads = getenv("SHOAL_THREADS");
  if (!threads || strtoll(threads, NULL, 10) <= 1) return NULL;
  return SHOAL_ERROR_HINT(UNSUPPORTED, "use shoal_launch_ranks, or processes: leave --threads away",
                          "started by `shoal run --threads` (SHOAL_THREADS is %s) this program is "
                          "to make its ranks itself, but joins a world as one process",
                          threads);
}

static shoal_status_t join(const shoal_world_options_t *given, shoal_world_t **out_world) {
  shoal_world_options_t options;
  SHOAL_RETURN_IF_ERROR(fill_options(given, &options));
  if (!options.backend) SHOAL_RETURN_IF_ERROR(refuse_threads());
  const shoal_comm_ops_t *ops;
  SHOAL_RETURN_IF_ERROR(shoal_comm_find(options.backend, false, &ops));
  shoal_world_t *world;
  SHOAL_RETURN_IF_ERROR(ops->join(&options, &world));
  world->joined = true;
  shoal_status_t status = shoal_world_complete(world);
  if (status) {
    shoal_world_destroy(world);
    return status;
  }
  *out_world = world;
  return NULL;
}

shoal_status_t shoal_world_join(const shoal_world_options_t *options, shoal_world_t **out_world) {
  shoal_status_t status = NULL;
  pthread_mutex_lock(&process.lock);
  if (process.world) {
    shoal_world_retain(process.world);
  } else {
    status = join(options, &process.world);
  }
  if (!status) *out_world = process.world;
  pthread_mutex_unlock(&process.lock);
  return status;
}

void shoal_world_forget_joined(void) {
  pthread_mutex_init(&process.lock, NULL);
  process.world = NULL;
}

shoal_status_t shoal_world_threads(const shoal_world_options_t *given, int32_t n,
                                   shoal_world_t **out_worlds) {
  shoal_world_options_t options;
  SHOAL_RETURN_IF_ERROR(fill_options(given, &options));
  const shoal_comm_ops_t *ops;
  const char *name = options.backend;
  if (!name) name = shoal_comm_throttle.detect() ? "throttle" : "local";
  SHOAL_RETURN_IF_ERROR(shoal_comm_find(name, false, &ops));
  if (!ops->threads) {
    return SHOAL_ERROR(UNSUPPORTED, "backend '%s' has no threads as ranks", ops->name);
  }
  if (n < 1) return SHOAL_ERROR(INVALID_ARGUMENT, "a world of %d ranks", n);
  SHOAL_RETURN_IF_ERROR(ops->threads(&options, n, out_worlds));
  shoal_status_t status = NULL;
  for (int32_t i = 0; i < n && !status; ++i) status = shoal_world_complete(out_worlds[i]);
  for (int32_t i = 0; i < n && status; ++i) {
    shoal_world_destroy(out_worlds[i]);
    out_worlds[i] = NULL;
  }
  return status;
}

void shoal_world_retain(shoal_world_t *world) {
  atomic_fetch_add(&world->references, 1);
}

void shoal_world_release(shoal_world_t *world) {
  if (!world) return;
  const bool joined = world->joined;
  if (joined) pthread_mutex_lock(&process.lock);  // against a join in between
  if (atomic_fetch_sub(&world->references, 1) == 1) {
    if (joined && process.world == world) process.world = NULL;
    shoal_world_destroy(world);
  }
  if (joined) pthread_mutex_unlock(&process.lock);
}

int32_t shoal_world_rank(const shoal_world_t *world) {
  return world->rank;
}

int32_t shoal_world_size(const shoal_world_t *world) {
  return world->size;
}

const char *shoal_world_backend(const shoal_world_t *world) {
  return world->ops->name;
}

// ---- memory ---------------------------------------------------------------------------

shoal_status_t shoal_comm_alloc(shoal_world_t *world, int64_t bytes, void **out_memory) {
  if (bytes < 0) return SHOAL_ERROR(INVALID_ARGUMENT, "%lld bytes", (long long)bytes);
  if (world->ops->alloc) return world->ops->alloc(world, bytes, out_memory);
  void *memory = world->allocator.alloc(world->allocator.self, (size_t)bytes + (bytes == 0));
  if (!memory) return SHOAL_OOM();
  memset(memory, 0, (size_t)bytes);
  *out_memory = memory;
  return NULL;
}

void shoal_comm_release(shoal_world_t *world, void *memory) {
  if (!memory) return;
  if (world->ops->release) {
    world->ops->release(world, memory);
  } else {
    world->allocator.free(world->allocator.self, memory);
  }
}

// ---- agreeing and aborting ------------------------------------------------------------

enum { PACKED = 2048 };  // bytes of a status that travels

// Which rank failed first in rank order, and how: size when none did.
static shoal_status_t lowest_failing(shoal_world_t *world, shoal_status_t status, int64_t *out_rank,
                                     char out_packed[PACKED]) {
  int64_t lowest = status ? world->rank : world->size;
  const char *label = shoal_comm_label_of_thread();
  shoal_comm_label("agreeing on whether all is well");
  shoal_status_t broken =
      shoal_all_reduce(world->all, SHOAL_I64, SHOAL_REDUCE_MIN, 1, &lowest, &lowest);
  shoal_comm_label(label);
  SHOAL_RETURN_IF_ERROR(broken);
  *out_rank = lowest;
  if (lowest == world->size) return NULL;
  shoal_status_pack(lowest == world->rank ? status : NULL, out_packed, PACKED);
  SHOAL_RETURN_IF_ERROR(shoal_broadcast(world->all, out_packed, PACKED, (int32_t)lowest));
  // A failed rank often ends next, and a launcher then breaks the world: nobody leaves before all
  // know. Whatever happens here, this rank knows already.
  shoal_status_free(shoal_barrier(world->all));
  return NULL;
}

// Ranks that do the same work fail alike: then there is nobody to point at. What travelled may have
// been cut.
static bool is_same(shoal_status_t status, shoal_status_t theirs) {
  const char *message = shoal_status_message(theirs);
  return status && shoal_status_code(status) == shoal_status_code(theirs) &&
         strncmp(shoal_status_message(status), message, strlen(message)) == 0;
}

shoal_status_t shoal_world_agree(shoal_world_t *world, shoal_status_t status) {
  int64_t rank;
  char packed[PACKED];
  shoal_status_t broken = lowest_failing(world, status, &rank, packed);
  if (broken) {
    // What this rank failed by is often what broke the world, with the place added: once is enough.
    if (status && strstr(shoal_status_message(status), shoal_status_message(broken))) {
      shoal_status_free(broken);
      return status;
    }
    if (status) {
      broken = shoal_status_annotatef(broken, "this rank failed too (%s: %s)",
                                      shoal_code_name(shoal_status_code(status)),
                                      shoal_status_message(status));
    }
    shoal_status_free(status);
    return broken;
  }
  if (rank == world->rank || rank == world->size) return status;
  shoal_status_t theirs = shoal_status_unpack(packed, sizeof packed);
  const bool same = is_same(status, theirs);
  shoal_status_free(same ? theirs : status);
  return same ? status : shoal_status_annotatef(theirs, "rank %d", (int)rank);
}

void shoal_world_abort(shoal_world_t *world, shoal_status_t reason) {
  char message[SHOAL_FAILURE_TEXT];
  snprintf(message, sizeof message, "rank %d aborted: %s: %s", world->rank,
           shoal_code_name(shoal_status_code(reason)), shoal_status_message(reason));
  world->ops->fail(world, SHOAL_ABORTED, message);
}
