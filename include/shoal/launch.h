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

#include "shoal/cluster.h"
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

// Says whether a launcher (`shoal run`, mpirun, srun, torchrun) started this process as one of its
// ranks. If so, shoal_world_join joins them, and shoal_launch_ranks would make further ranks of its
// own. *Not collective.*
SHOAL_API bool shoal_launched(void);

// -------------------------------------------------------------------------------------------------
// Programs as ranks: what `shoal run` does.
// -------------------------------------------------------------------------------------------------

typedef struct shoal_launch_options {
  shoal_allocator_t allocator;  // zero: the system's
  int32_t ranks;                // on one machine at most SHOAL_LAUNCH_MAX_RANKS
  int64_t timeout_ms;           // SHOAL_TIMEOUT_MS of the ranks; 0: as it is
  int64_t grace_ms;             // from the first failure until the rest is ended; 0: 5000
  bool no_prefix;               // lines as they are, without "[rank] "
  bool no_pin;                  // ranks may run on any core
} shoal_launch_options_t;

// Starts a program as `ranks` processes of this machine, each of which joins the new world with
// shoal_world_join. `argv` is NULL-terminated; the program is searched in PATH. *Not collective.*
//
// Each rank keeps to its share of the cores, neighbours to neighbouring ones, unless there are
// fewer cores than ranks. Blocks until all have ended and their output is written: while its reader
// takes none the ranks wait, and in trouble it is waited for no longer than two seconds.
//
// When a rank ends abnormally the world is aborted; the others get grace_ms, then SIGTERM and
// SIGKILL. SIGINT, SIGQUIT, SIGTERM and, unless ignored, SIGHUP are forwarded and end the world;
// SIGUSR1 and SIGUSR2 are only forwarded, unless ignored. Returns OK if all ended with 0; else an
// error that names the first failing rank, why (signal, exit code) and its last words on stderr.
// Its code is the one whose shoal_code_exit the rank ended with, ABORTED if there is none.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_launch_program(const shoal_launch_options_t *options,
                                                             char *const *argv);

typedef struct shoal_launch_cluster_options {
  shoal_launch_options_t launch;  // ranks 0: every device of the cluster
  const char *mpi;                // "openmpi", "mpich"; NULL or "auto": the first that is there
  const char *mpi_options;        // more words for mpirun, split at blanks
  const char *ssh;                // how ssh is called; NULL: "ssh"
} shoal_launch_cluster_options_t;

// Starts a program on the machines of a cluster, by mpirun (Open MPI or MPICH) over ssh; without
// either when the only node is this machine and no MPI was asked for. INVALID_ARGUMENT: the nodes
// have no addresses, or fewer devices than ranks. UNAVAILABLE: there is no mpirun. *Not
// collective*; blocks until mpirun has ended.
//
// Signals are forwarded as above, SIGHUP and SIGQUIT as SIGTERM, SIGUSR2 not through MPICH's Hydra,
// which would die of it. When mpirun says that it ends the job - and lines have prefixes, so that
// no rank can have said it - it gets grace_ms to do so. Errors are as above, with mpirun's exit
// code.
SHOAL_API SHOAL_MUST_USE shoal_status_t
shoal_launch_cluster(const shoal_launch_cluster_options_t *options, const shoal_cluster_t *cluster,
                     char *const *argv);
// What that would call, and the files it would read, as text in the arena; starts nothing.
SHOAL_API SHOAL_MUST_USE shoal_status_t shoal_launch_cluster_print(
    const shoal_launch_cluster_options_t *options, const shoal_cluster_t *cluster,
    char *const *argv, shoal_arena_t *arena, const char **out_text);

#ifdef __cplusplus
}
#endif
#endif  // SHOAL_LAUNCH_H_
