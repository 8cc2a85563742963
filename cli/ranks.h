// Runs a function on local ranks: threads of this process, processes forked from it, or - when a
// launcher (`shoal run`, mpirun, srun, torchrun) started this program - the one rank this process
// is.
#ifndef SHOAL_CLI_RANKS_H_
#define SHOAL_CLI_RANKS_H_

#include "shoal/launch.h"

typedef struct cli_ranks {
  int64_t count;
  bool given;    // by the user: else a launcher's number of ranks goes before it
  bool threads;  // ignored under a launcher
} cli_ranks_t;

// Is there -n, --ranks or SHOAL_RANKS?
bool cli_ranks_given(int argc, char **argv);
// Runs it as shoal_launch_ranks does, and returns what that returns. Under a launcher the ranks are
// its own, and another `count` that was given is an error; under `shoal run --threads` (variable
// SHOAL_THREADS) threads, as many as it says.
SHOAL_MUST_USE shoal_status_t cli_ranks_run(const cli_ranks_t *ranks, shoal_rank_fn_t function,
                                            void *self);
// Under `shoal run --threads`: makes `ranks` threads, as many as it says; else leaves them as they
// are.
SHOAL_MUST_USE shoal_status_t cli_ranks_threads(cli_ranks_t *ranks, bool *out_told);
// Under a launcher: its world, if that is as large as was asked for.
SHOAL_MUST_USE shoal_status_t cli_ranks_join(const cli_ranks_t *ranks, shoal_world_t **out_world);

#endif  // SHOAL_CLI_RANKS_H_
