// `throttle`: joining, leaving, and the ops table. What it does and how it is set: throttle.h.
#include "comm/backends/throttle/throttle.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/status.h"
#include "comm/backends/local/local.h"

#define VARIABLE "SHOAL_COMM_THROTTLE"

static bool throttle_detect(void) {
  const char *text = getenv(VARIABLE);
  return text && text[0];
}

// "local" of "throttle:local", or NULL.
static const char *inner_name(const shoal_world_options_t *options) {
  const char *colon = options->backend ? strchr(options->backend, ':') : NULL;
  return colon ? colon + 1 : NULL;
}

// ---- one world ------------------------------------------------------------------------

static shoal_status_t check_ranks(const shoal_throttle_settings_t *settings, int32_t size) {
  const int32_t described = settings->cluster ? shoal_cluster_ranks(settings->cluster) : 0;
  if (described > 0 && size > described) {
    return SHOAL_ERROR(INVALID_ARGUMENT,
                       "a world of %d ranks, but the cluster file of " VARIABLE " describes %d",
                       size, described);
  }
  // Alone there is nothing to lose or delay: a program may have such a world beside its real one.
  for (int32_t i = 0; size > 1 && i < settings->fault_count; ++i) {
    if (settings->faults[i].rank >= size) {
      return SHOAL_ERROR(INVALID_ARGUMENT, VARIABLE " has a fault of rank %d in a world of %d",
                         settings->faults[i].rank, size);
    }
  }
  return NULL;
}

// Wraps a complete world, which stays the caller's on an error. The table is set later.
static shoal_status_t wrap(const shoal_throttle_settings_t *settings, shoal_world_t *inner,
                           shoal_throttle_world_t **out_world) {
  SHOAL_RETURN_IF_ERROR(check_ranks(settings, inner->size));
  shoal_allocator_t allocator = inner->allocator;
  shoal_throttle_world_t *world =
      allocator.alloc(allocator.self, sizeof *world + (size_t)inner->size * sizeof *world->routes);
  if (!world) return SHOAL_OOM();
  *world = (shoal_throttle_world_t){.base = {.ops = &shoal_comm_throttle,
                                             .allocator = allocator,
                                             .references = 1,
                                             .rank = inner->rank,
                                             .size = inner->size,
                                             .timeout_ms = inner->timeout_ms,
                                             .recorder = inner->recorder},
                                    .inner = inner};
  for (int32_t i = 0; i < settings->fault_count; ++i) {
    if (settings->faults[i].rank == inner->rank) {
      world->faults[world->fault_count++] = settings->faults[i];
    }
  }
  shoal_throttle_routes_init(settings, world);
  *out_world = world;
  return NULL;
}

static shoal_status_t create_table(shoal_world_t *world, shoal_throttle_table_t **out_table) {
  const size_t bytes = (size_t)shoal_throttle_table_bytes(world->size);
  shoal_throttle_table_t *table = world->allocator.alloc(world->allocator.self, bytes);
  if (!table) return SHOAL_OOM();
  memset(table, 0, bytes);
  atomic_store(&table->references, 1);
  *out_table = table;
  return NULL;
}

static void release_table(shoal_world_t *world, shoal_throttle_table_t *table) {
  if (!table || atomic_fetch_sub(&table->references, 1) != 1) return;
  world->allocator.free(world->allocator.self, table);
}

static void throttle_world_free(shoal_world_t *base) {
  shoal_throttle_world_t *world = (shoal_throttle_world_t *)base;
  shoal_allocator_t allocator = base->allocator;
  if (!world->table_is_inners) release_table(base, world->table);
  shoal_world_destroy(world->inner);
  allocator.free(allocator.self, world);
}

// ---- ranks as threads -----------------------------------------------------------------

static shoal_status_t wrap_threads(const shoal_throttle_settings_t *settings, int32_t n,
                                   shoal_world_t **worlds) {
  shoal_throttle_table_t *table = NULL;
  SHOAL_RETURN_IF_ERROR(create_table(worlds[0], &table));
  shoal_status_t status = NULL;
  shoal_world_t *first = worlds[0];
  for (int32_t i = 0; i < n && !status; ++i) {
    shoal_throttle_world_t *world;
    status = wrap(settings, worlds[i], &world);
    if (status) break;
    world->table = table;
    atomic_fetch_add(&table->references, 1);
    worlds[i] = &world->base;
  }
  release_table(first, table);
  return status;
}

static shoal_status_t throttle_threads(const shoal_world_options_t *options, int32_t n,
                                       shoal_world_t **out_worlds) {
  const char *name = inner_name(options);
  const shoal_comm_ops_t *ops;
  SHOAL_RETURN_IF_ERROR(shoal_comm_find(name ? name : "local", true, &ops));
  if (!ops->threads) {
    return SHOAL_ERROR(UNSUPPORTED, "backend '%s' has no threads as ranks", ops->name);
  }
  shoal_arena_t arena;
  shoal_arena_init(options->allocator, &arena);
  shoal_throttle_settings_t settings;
  bool made = false;
  shoal_status_t status = shoal_throttle_settings_read(getenv(VARIABLE), &arena, &settings);
  if (!status) status = ops->threads(options, n, out_worlds);
  if (!status) {
    made = true;
    for (int32_t i = 0; i < n && !status; ++i) status = shoal_world_complete(out_worlds[i]);
  }
  if (!status) status = wrap_threads(&settings, n, out_worlds);
  for (int32_t i = 0; i < n && status && made; ++i) {  // wrapped or not
    shoal_world_destroy(out_worlds[i]);
    out_worlds[i] = NULL;
  }
  shoal_cluster_free(settings.cluster);
  shoal_arena_deinit(&arena);
  return status;
}

// ---- ranks as processes ---------------------------------------------------------------

// What all ranks must have alike, and where rank 0 has put the table.
typedef struct hello {
  uint64_t machine, settings;
  int64_t table;
} hello_t;

// The machine, or rather the run of its kernel, whose clock it is.
static uint64_t this_machine(void) {
  char text[256] = "";
  const int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, text, sizeof text - 1) <= 0) gethostname(text, sizeof text - 1);
  if (fd >= 0) close(fd);
  return shoal_hash_string(SHOAL_HASH_START, text);
}

static shoal_status_t check_hellos(const shoal_world_t *world, const hello_t *hellos) {
  const hello_t *own = &hellos[world->rank];
  for (int32_t i = 0; i < world->size; ++i) {
    if (hellos[i].machine != own->machine) {
      return SHOAL_ERROR_HINT(UNSUPPORTED, "unset " VARIABLE,
                              "throttle needs one clock, but ranks %d and %d are on two machines",
                              world->rank, i);
    }
    if (hellos[i].settings != own->settings) {
      return SHOAL_ERROR(INVALID_ARGUMENT,
                         "rank %d has another " VARIABLE " than rank %d, or reads another file", i,
                         world->rank);
    }
  }
  return NULL;
}

// All ranks compare settings; those that share memory share rank 0's table. *Collective*.
static shoal_status_t meet(shoal_throttle_world_t *world, uint64_t settings) {
  shoal_world_t *inner = world->inner;
  const bool shares = inner->ops == &shoal_comm_local;
  const int64_t bytes = shoal_throttle_table_bytes(inner->size);
  shoal_allocator_t allocator = inner->allocator;
  const size_t n = (size_t)inner->size;
  hello_t *hellos = allocator.alloc(allocator.self, n * (sizeof *hellos + sizeof(int64_t)));
  if (!hellos) return SHOAL_OOM();
  int64_t *counts = (int64_t *)(hellos + n);
  for (size_t i = 0; i < n; ++i) counts[i] = (int64_t)sizeof(hello_t);
  hello_t own = {.machine = this_machine(), .settings = settings};
  void *memory = NULL;
  shoal_status_t status = NULL;
  if (!shares) {
    status = create_table(&world->base, &world->table);
  } else if (inner->rank == 0) {
    status = shoal_comm_alloc(inner, bytes, &memory);  // zeroed, and freed with the world below
    own.table = shoal_local_place((shoal_local_world_t *)inner, memory, bytes);
  }
  if (!status) status = shoal_all_gather(inner->all, SHOAL_U8, counts, &own, hellos);
  if (!status) status = check_hellos(inner, hellos);
  if (!status && shares) {
    world->table = shoal_local_at((shoal_local_world_t *)inner, hellos[0].table);
    world->table_is_inners = true;
  }
  allocator.free(allocator.self, hellos);
  return status;
}

static shoal_status_t join_over(shoal_world_t *inner, shoal_throttle_world_t **out_world) {
  shoal_arena_t arena;
  shoal_arena_init(inner->allocator, &arena);
  shoal_throttle_settings_t settings = {0};
  shoal_throttle_world_t *world = NULL;
  shoal_status_t status = shoal_world_complete(inner);
  if (!status) status = shoal_throttle_settings_read(getenv(VARIABLE), &arena, &settings);
  if (!status) status = wrap(&settings, inner, &world);
  if (!status) status = meet(world, settings.hash);
  shoal_cluster_free(settings.cluster);
  shoal_arena_deinit(&arena);
  if (!status) {
    *out_world = world;
    return NULL;
  }
  // Others may be waiting in `meet`.
  inner->ops->fail(inner, shoal_status_code(status), shoal_status_message(status));
  if (world) {
    throttle_world_free(&world->base);
  } else {
    shoal_world_destroy(inner);
  }
  return status;
}

static shoal_status_t throttle_join(const shoal_world_options_t *options,
                                    shoal_world_t **out_world) {
  const shoal_comm_ops_t *ops;
  SHOAL_RETURN_IF_ERROR(shoal_comm_find(inner_name(options), true, &ops));
  shoal_world_t *inner;
  SHOAL_RETURN_IF_ERROR(ops->join(options, &inner));
  shoal_throttle_world_t *world;
  SHOAL_RETURN_IF_ERROR(join_over(inner, &world));
  *out_world = &world->base;
  return NULL;
}

// ---- what the world below does --------------------------------------------------------

static void throttle_fail(shoal_world_t *world, shoal_code_t code, const char *message) {
  shoal_world_t *inner = shoal_throttle_inner(world);
  inner->ops->fail(inner, code, message);
}

static shoal_status_t throttle_broken(shoal_world_t *world) {
  shoal_world_t *inner = shoal_throttle_inner(world);
  return inner->ops->broken(inner);
}

static void throttle_survey(shoal_world_t *world, shoal_account_t *out_accounts) {
  shoal_world_t *inner = shoal_throttle_inner(world);
  if (inner->ops->survey) {
    inner->ops->survey(inner, out_accounts);
  } else {
    shoal_account_take(world->recorder, &out_accounts[world->rank]);
  }
}

static shoal_status_t throttle_alloc(shoal_world_t *world, int64_t bytes, void **out_memory) {
  return shoal_comm_alloc(shoal_throttle_inner(world), bytes, out_memory);
}

static void throttle_release(shoal_world_t *world, void *memory) {
  shoal_comm_release(shoal_throttle_inner(world), memory);
}

static void throttle_stir(shoal_world_t *world) {
  shoal_world_stir(shoal_throttle_inner(world));
}

const shoal_comm_ops_t shoal_comm_throttle = {
    .name = "throttle",
    .wraps = true,
    .detect = throttle_detect,
    .join = throttle_join,
    .threads = throttle_threads,
    .world_free = throttle_world_free,
    .fail = throttle_fail,
    .broken = throttle_broken,
    .survey = throttle_survey,
    .stream_create = shoal_throttle_stream_create,
    .stream_free = shoal_throttle_stream_free,
    .exchange_start = shoal_throttle_exchange_start,
    .exchange_wait = shoal_throttle_exchange_wait,
    .stir = throttle_stir,
    .alloc = throttle_alloc,
    .release = throttle_release,
    .windows = &shoal_throttle_windows,
};
