// Errors that stick. Whoever meets one - the host, a queue's thread in the middle of a run -
// breaks the world with it at once, so that no rank waits for what will not come. From then on
// every call returns it, on every rank.
#include "base/status.h"
#include "run/run_impl.h"

void shoal_run_break(shoal_runner_t *runner, shoal_status_t status) {
  if (!status) return;
  // Who comes second waits here for the first: what its queue passes on afterwards, the host finds
  // together with `failed`. And once that is seen, nobody waits in the world any more.
  shoal_mutex_lock(&runner->error_lock);
  const bool first = !runner->error;
  if (first) {
    runner->error = status;
    if (shoal_world_size(runner->world) > 1) shoal_world_abort(runner->world, status);
    atomic_store(&runner->failed, true);
  }
  shoal_mutex_unlock(&runner->error_lock);
  if (!first) shoal_status_free(status);
}

void shoal_run_break_alike(shoal_runner_t *runner, shoal_status_t status, bool hangs) {
  if (!status) return;
  if (!runner->broken) runner->broken = shoal_status_clone(status);
  if (hangs) {
    // Nobody is torn from finding the same error: all have it before the world breaks.
    shoal_status_free(shoal_barrier(runner->everyone));
    shoal_run_break(runner, status);
  } else {
    shoal_status_free(status);
    atomic_store(&runner->failed, true);
  }
}

void shoal_run_queue_failed(void *self, shoal_status_t status) {
  shoal_run_break(self, shoal_status_clone(status));
}

// Every rank, this one too, returns what broke the world. Where nobody came, each says in which
// instruction it waited.
static shoal_status_t world_error(shoal_runner_t *runner) {
  shoal_mutex_lock(&runner->error_lock);
  shoal_status_t mine = shoal_status_clone(runner->error);
  shoal_mutex_unlock(&runner->error_lock);
  if (shoal_world_size(runner->world) == 1) return mine;
  if (shoal_status_code(mine) != SHOAL_DEADLINE) {
    shoal_status_free(mine);
    mine = NULL;
  }
  return shoal_world_agree(runner->world, mine);
}

shoal_status_t shoal_run_broken(shoal_runner_t *runner) {
  if (!atomic_load(&runner->failed)) return NULL;
  if (!runner->broken) runner->broken = world_error(runner);
  return shoal_status_clone(runner->broken);
}

shoal_status_t shoal_runner_agree(shoal_runner_t *runner, shoal_status_t status) {
  shoal_status_t broken = shoal_run_broken(runner);
  if (!broken) return shoal_world_agree(runner->world, status);
  shoal_status_free(status);
  return broken;
}

shoal_status_t shoal_run_finish(shoal_runner_t *runner, shoal_status_t status) {
  shoal_run_break(runner, status);
  return shoal_runner_agree(runner, NULL);
}
