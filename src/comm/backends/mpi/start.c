// Starting MPI with a time limit. MPI_Init waits for all ranks, for ever if one never calls it, and
// cannot be interrupted: so a thread calls it, and is left behind when the time is over. Then this
// process has no MPI any more: it is not finalised at exit, and joining again is refused.
#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "base/time.h"
#include "comm/backends/mpi/mpi.h"

typedef struct starting {
  shoal_mutex_t mutex;
  shoal_cond_t changed;
  shoal_thread_t thread;
  const shoal_mpi_plugin_t *plugin;
  shoal_mpi_start_t start;
  int failed;
  bool done;
} starting_t;

static void run(void *self) {
  starting_t *s = self;
  shoal_mpi_start_t start = {0};
  const int failed = s->plugin->init(&start.rank, &start.size, &start.largest_tag);
  shoal_mutex_lock(&s->mutex);
  s->start = start;
  s->failed = failed;
  s->done = true;
  shoal_cond_broadcast(&s->changed);
  shoal_mutex_unlock(&s->mutex);
}

static shoal_status_t wait(starting_t *s, const shoal_mpi_launch_t *launch, int64_t timeout_ms) {
  const int64_t deadline = shoal_time_ns() + timeout_ms * 1000000;
  shoal_mutex_lock(&s->mutex);
  bool in_time = true;
  while (!s->done && in_time) in_time = shoal_cond_wait_until(&s->changed, &s->mutex, deadline);
  const bool done = s->done;
  shoal_mutex_unlock(&s->mutex);
  if (done) return NULL;
  return SHOAL_ERROR_HINT(
      DEADLINE, "look for a rank that ended or hangs before it joins; this process must be ended",
      "rank %d of %d waited %lld ms for MPI to start, which takes all ranks (%s)", launch->rank,
      launch->size, (long long)timeout_ms, launch->launcher);
}

shoal_status_t shoal_mpi_start(const shoal_mpi_launch_t *launch, const shoal_mpi_plugin_t *plugin,
                               shoal_allocator_t allocator, int64_t timeout_ms,
                               shoal_mpi_start_t *out_start) {
  starting_t *s = allocator.alloc(allocator.self, sizeof *s);
  if (!s) return SHOAL_OOM();
  memset(s, 0, sizeof *s);
  s->plugin = plugin;
  shoal_status_t status = shoal_mutex_init(&s->mutex);
  if (status) goto free_it;
  status = shoal_cond_init(&s->changed);
  if (status) goto free_mutex;
  status = shoal_thread_start(run, s, &s->thread);
  if (status) goto free_cond;
  status = wait(s, launch, timeout_ms);
  if (status) {  // the thread still has `s`
    plugin->give_up();
    pthread_detach(s->thread.handle);
    return status;
  }
  shoal_thread_join(&s->thread);
  *out_start = s->start;
  if (s->failed) status = SHOAL_ERROR(UNAVAILABLE, "MPI does not start: %s", plugin->error);
free_cond:
  shoal_cond_deinit(&s->changed);
free_mutex:
  shoal_mutex_deinit(&s->mutex);
free_it:
  allocator.free(allocator.self, s);
  return status;
}
