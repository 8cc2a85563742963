// Shoal, launch: starting ranks on this machine.
//
// A program that was started by `shoal run`, mpirun, srun or torchrun is one rank already: it joins
// its world with shoal_world_join (comm.h). A program that was started alone can make its own ranks
// with shoal_launch_ranks, which runs one function on every rank and returns when all have
// returned:
//
//   static shoal_status_t train(void *self, shoal_world_t *world, int32_t rank) {
//     ...
//     return shoal_parallelize(model, &(shoal_parallelize_options_t){.world = world}, &session);
//   }
//   ...
//   status = shoal_launch_ranks(&(shoal_ranks_options_t){.ranks = 4}, train, &job, NULL);
//
// Ranks are threads of this process, or processes forked from it. Threads share all memory, so that
// `self` can take results back. A process works on its own copy of the memory: its status comes
// back, and what it wrote to files or sent to other ranks, but nothing that it stored behind
// `self`.
#ifndef SHOAL_LAUNCH_H_
#define SHOAL_LAUNCH_H_

#include "shoal/comm.h"

#ifdef __cplusplus
extern "C" {
#endif

#define SHOAL_LAUNCH_MAX_RANKS 128  // on one machine, as threads or processes

// What one rank does. `world` is the rank's own handle and is released by the caller when the
// function has returned; groups and sessions made of it must be gone by then.
typedef shoal_status_t (*shoal_rank_fn_t)(void *self, shoal_world_t *world, int32_t rank);

typedef struct shoal_ranks_options {
  shoal_allocator_t allocator;  // zero: the system's
  int32_t ranks;                // 1 to SHOAL_LAUNCH_MAX_RANKS
  bool processes;               // forked from this process; else threads of it
  int64_t timeout_ms;   // how long a rank waits without progress; 0: as in shoal_world_options_t
  const char *backend;  // of the world, as in shoal_world_options_t; NULL: chosen
  bool prefix;          // processes: "[rank] " in front of every line that they print
  int64_t grace_ms;     // processes: from the first failure until the rest is ended; 0: 5000
} shoal_ranks_options_t;

// Runs fn(self, world, rank) on every rank of a new world and waits until all have returned. Not
// collective: one thread of one process calls it.
//
// When a rank returns an error its world is aborted with it, so that ranks which wait for it return
// too. The result is OK if every rank returned OK. Else it is the error of the lowest rank that has
// one of its own: ABORTED, with which ranks return when another has failed, counts only if no rank
// returned anything else. "rank 2: " stands before the message, unless all ranks failed alike. A
// process that ends before it has returned fails with ABORTED, or with the code that its exit
// status stands for (shoal_code_exit), and with its last words on stderr.
//
// `out_statuses` (may be NULL) receives the status of each rank, owned by the caller; it has room
// for `ranks` of them. They are all OK when the ranks could not be started.
//
// Processes are forked without exec: the caller must have no other threads then. Signals that would
// end this process (SIGINT, SIGTERM, SIGHUP, SIGQUIT) are forwarded to them meanwhile.
// INVALID_ARGUMENT: the number of ranks. UNAVAILABLE: no more threads, processes or open files.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_launch_ranks(const shoal_ranks_options_t *options,
                                                           shoal_rank_fn_t fn, void *self,
                                                           shoal_status_t *out_statuses);

// Did a launcher - `shoal run`, mpirun, srun, torchrun - start this process as one of its ranks?
// Then shoal_world_join joins them, and shoal_launch_ranks would make ranks of its own beside them.
// *Not collective.*
SHOAL_API bool shoal_launched(void);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LAUNCH_H_
