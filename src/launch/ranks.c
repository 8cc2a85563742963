// shoal_launch_ranks: a function on N ranks of this machine, as threads or processes, with one
// meaning of the result for both. What a process returns travels through memory that it shares with
// its parent.
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/thread.h"
#include "launch/launch.h"

enum { PACKED = 16384 };  // bytes of a status on its way from a process

// What one rank runs, and what became of it.
typedef struct task {
  const shoal_ranks_options_t *options;
  shoal_rank_fn_t fn;
  void *self;
  shoal_world_t *world;  // threads
  shoal_thread_t thread;
  shoal_status_t status;
} task_t;

// Also what a process of one rank does: the others, which may wait for this one, are told.
static shoal_status_t run_in_world(shoal_rank_fn_t fn, void *self, shoal_world_t *world) {
  shoal_status_t status = fn(self, world, shoal_world_rank(world));
  if (status) shoal_world_abort(world, status);
  shoal_world_release(world);
  return status;
}

// ---- the outcome ------------------------------------------------------------------------

// Ranks that agree on an error say the same, but for "rank 2: " in front of it.
static bool is_alike(shoal_status_t a, shoal_status_t b) {
  const char *x = shoal_status_message(a), *y = shoal_status_message(b);
  return shoal_status_code(a) == shoal_status_code(b) && (strstr(x, y) || strstr(y, x));
}

// A copy of the lowest rank's error that is its own; of what others quote, if there is no such.
static shoal_status_t outcome(const task_t *tasks, int32_t count) {
  int32_t first = -1;
  for (int32_t r = count - 1; r >= 0; --r) {
    const shoal_code_t code = shoal_status_code(tasks[r].status);
    const bool echo = code == SHOAL_ABORTED;
    if (code == SHOAL_OK) continue;
    if (first < 0 || !echo || shoal_status_code(tasks[first].status) == SHOAL_ABORTED) first = r;
  }
  if (first < 0) return NULL;
  bool alike = true;
  for (int32_t r = 0; r < count; ++r) alike &= is_alike(tasks[r].status, tasks[first].status);
  shoal_status_t status = shoal_status_clone(tasks[first].status);
  char name[24];
  snprintf(name, sizeof name, "rank %d", first);
  const char *message = shoal_status_message(status), *after = message + strlen(name);
  const bool named = strncmp(message, name, strlen(name)) == 0 && (*after == ',' || *after == ':');
  return alike || named ? status : shoal_status_annotate(status, name);
}

// ---- threads ----------------------------------------------------------------------------

static void thread_main(void *self) {
  task_t *task = self;
  task->status = run_in_world(task->fn, task->self, task->world);
}

static shoal_status_t run_threads(const shoal_ranks_options_t *options, shoal_arena_t *arena,
                                  task_t *tasks) {
  shoal_world_t **worlds = SHOAL_NEW(arena, shoal_world_t *, options->ranks);
  if (!worlds) return SHOAL_OOM();
  const shoal_world_options_t world = {.allocator = options->allocator,
                                       .backend = options->backend,
                                       .timeout_ms = options->timeout_ms};
  SHOAL_RETURN_IF_ERROR(shoal_world_threads(&world, options->ranks, worlds));
  shoal_status_t status = NULL;
  for (int32_t r = 0; r < options->ranks; ++r) {
    tasks[r].world = worlds[r];
    if (!status) status = shoal_thread_start(thread_main, &tasks[r], &tasks[r].thread);
    if (!status) continue;
    shoal_world_abort(worlds[r], status);  // its thread is missing
    shoal_world_release(worlds[r]);
  }
  for (int32_t r = 0; r < options->ranks; ++r) shoal_thread_join(&tasks[r].thread);
  return status ? status : outcome(tasks, options->ranks);
}

// ---- processes --------------------------------------------------------------------------

// What a process leaves for its parent, in shared memory.
typedef struct slot {
  bool returned;
  char status[PACKED];
} slot_t;

typedef struct process_job {
  const task_t *task;
  slot_t *slots;  // by rank
} process_job_t;

static int process_main(void *self, int rank) {
  const process_job_t *job = self;
  const shoal_ranks_options_t *options = job->task->options;
  const shoal_world_options_t join = {.allocator = options->allocator,
                                      .backend = options->backend,
                                      .timeout_ms = options->timeout_ms};
  shoal_world_t *world = NULL;
  shoal_status_t status = shoal_world_join(&join, &world);
  if (!status) status = run_in_world(job->task->fn, job->task->self, world);
  slot_t *slot = &job->slots[rank];
  shoal_status_pack(status, slot->status, sizeof slot->status);
  slot->returned = true;
  const int code = shoal_code_exit(shoal_status_code(status));
  shoal_status_free(status);
  return code;
}

static shoal_status_t run_processes(const shoal_ranks_options_t *options, task_t *tasks) {
  const size_t bytes = (size_t)options->ranks * sizeof(slot_t);
  slot_t *slots =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (slots == MAP_FAILED) return SHOAL_OOM();
  const shoal_launch_options_t launch = {.allocator = options->allocator,
                                         .ranks = options->ranks,
                                         .timeout_ms = options->timeout_ms,
                                         .grace_ms = options->grace_ms,
                                         .no_prefix = !options->prefix};
  process_job_t job = {tasks, slots};
  int32_t blamed = -1;
  shoal_status_t status = shoal_launch_processes(&launch, process_main, &job, &blamed);
  bool died = false;
  for (int32_t r = 0; r < options->ranks; ++r) {
    if (slots[r].returned) {
      tasks[r].status = shoal_status_unpack(slots[r].status, sizeof slots[r].status);
    } else if (r == blamed) {
      died = true;
      tasks[r].status = shoal_status_clone(status);
    } else if (status && blamed >= 0) {
      tasks[r].status = SHOAL_ERROR(ABORTED, "rank %d ended before it had returned", r);
    }
  }
  munmap(slots, bytes);
  // The launcher's own words name the rank that died, and how; else the ranks know better.
  shoal_status_t theirs = died ? NULL : outcome(tasks, options->ranks);
  if (!theirs) return status;
  shoal_status_free(status);
  return theirs;
}

// -----------------------------------------------------------------------------------------

shoal_status_t shoal_launch_ranks(const shoal_ranks_options_t *given, shoal_rank_fn_t fn,
                                  void *self, shoal_status_t *out_statuses) {
  shoal_ranks_options_t options = given ? *given : (shoal_ranks_options_t){0};
  if (!options.allocator.alloc) options.allocator = shoal_allocator_system();
  if (options.ranks < 1 || options.ranks > SHOAL_LAUNCH_MAX_RANKS)
    return SHOAL_ERROR(INVALID_ARGUMENT, "%d local ranks: from 1 to %d can be started",
                       options.ranks, SHOAL_LAUNCH_MAX_RANKS);
  for (int32_t r = 0; out_statuses && r < options.ranks; ++r) out_statuses[r] = NULL;
  shoal_arena_t arena;
  shoal_arena_init(options.allocator, &arena);
  shoal_status_t status = NULL;
  task_t *tasks = SHOAL_NEW(&arena, task_t, options.ranks);
  if (!tasks) status = SHOAL_OOM();
  for (int32_t r = 0; tasks && r < options.ranks; ++r)
    tasks[r] = (task_t){.options = &options, .fn = fn, .self = self};
  if (tasks)
    status =
        options.processes ? run_processes(&options, tasks) : run_threads(&options, &arena, tasks);
  for (int32_t r = 0; tasks && r < options.ranks; ++r) {
    if (out_statuses)
      out_statuses[r] = tasks[r].status;
    else
      shoal_status_free(tasks[r].status);
  }
  shoal_arena_deinit(&arena);
  return status;
}
