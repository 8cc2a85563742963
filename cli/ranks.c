// See ranks.h.
#include "ranks.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/status.h"
#include "base/thread.h"

typedef struct rank_job {
  cli_rank_fn_t function;
  void *self;
  shoal_world_t *world;
  shoal_status_t status;
} rank_job_t;

static void run_thread(void *self) {
  rank_job_t *job = self;
  job->status = job->function(job->self, job->world);
}

static shoal_status_t run_threads(int32_t count, cli_rank_fn_t function, void *self, shoal_arena_t *arena) {
  shoal_world_t **worlds = SHOAL_NEW(arena, shoal_world_t *, count);
  rank_job_t *jobs = SHOAL_NEW(arena, rank_job_t, count);
  shoal_thread_t *threads = SHOAL_NEW(arena, shoal_thread_t, count);
  if (!worlds || !jobs || !threads) return SHOAL_OOM();
  SHOAL_RETURN_IF_ERROR(shoal_world_threads(NULL, count, worlds));
  shoal_status_t status = NULL;
  for (int32_t r = 0; r < count; ++r) {
    jobs[r] = (rank_job_t){function, self, worlds[r], NULL};
    if (!status) status = shoal_thread_start(run_thread, &jobs[r], &threads[r]);
    if (status) shoal_world_abort(worlds[r], shoal_status_clone(status));
  }
  for (int32_t r = 0; r < count; ++r) shoal_thread_join(&threads[r]);
  for (int32_t r = 0; r < count; ++r) {
    if (!status)
      status = jobs[r].status;
    else
      shoal_status_free(jobs[r].status);
    shoal_world_release(worlds[r]);
  }
  return status;
}

static shoal_status_t run_alone(cli_rank_fn_t function, void *self) {
  shoal_world_t *world = NULL;
  SHOAL_RETURN_IF_ERROR(shoal_world_join(NULL, &world));
  shoal_status_t status = function(self, world);
  shoal_world_release(world);
  return status;
}

shoal_status_t cli_ranks_run(int64_t count, bool threads, cli_rank_fn_t function, void *self) {
  if (count < 1 || count > 1024)
    return SHOAL_ERROR(INVALID_ARGUMENT, "-n %lld: between 1 and 1024 local ranks", (long long)count);
  if (getenv("SHOAL_RANK") || count == 1) return run_alone(function, self);
  (void)threads;
  shoal_arena_t arena;
  shoal_arena_init(shoal_allocator_system(), &arena);
  shoal_status_t status = run_threads((int32_t)count, function, self, &arena);
  shoal_arena_deinit(&arena);
  return status;
}
