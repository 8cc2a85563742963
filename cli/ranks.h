// Runs a function on local ranks: threads of this process, processes forked from it, or - when `shoal run`
// started this program - the one rank this process is.
#ifndef SHOAL_CLI_RANKS_H_
#define SHOAL_CLI_RANKS_H_

#include "shoal/comm.h"

typedef shoal_status_t (*cli_rank_fn_t)(void *self, shoal_world_t *world);

// Returns the lowest failing rank's error. `count` is ignored under `shoal run`; with --threads (variable
// SHOAL_THREADS) ranks are threads, as many as it says.
SHOAL_MUST_USE shoal_status_t cli_ranks_run(int64_t count, bool threads, cli_rank_fn_t function, void *self);

#endif  // SHOAL_CLI_RANKS_H_
