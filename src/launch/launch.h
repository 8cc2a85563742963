// Starting local ranks as processes: a hub, one child per rank, their output with the rank in front
// of every line. Nothing is left behind: children die with their parent, and what they started with
// them (guard.h); the hub has no name.
#ifndef SHOAL_LAUNCH_LAUNCH_H_
#define SHOAL_LAUNCH_LAUNCH_H_

#include "cluster/cluster.h"
#include "shoal/launch.h"

typedef struct shoal_launch_options {
  shoal_allocator_t allocator;  // zero: the system's
  int32_t size;                 // ranks
  int64_t timeout_ms;           // SHOAL_TIMEOUT_MS of the children; 0: as it is
  int64_t grace_ms;             // from the first failure until the rest is ended; 0: 5000
  bool no_prefix;               // lines as they are, without "[rank] "
  bool no_pin;                  // ranks may run on any core
  const shoal_cluster_variable_t *variables;  // set for the children, beside those that are
  int64_t variable_count;
} shoal_launch_options_t;

// Forks `size` children that run child(self, rank) and end with what it returns. In a child,
// shoal_world_join joins the new world, whatever the parent had joined.
//
// Each rank keeps to its share of the cores, neighbours to neighbouring ones, unless there are
// fewer cores than ranks.
//
// Blocks until all have ended and their output is written: while its reader takes none the ranks
// wait, and in trouble it is waited for no longer than two seconds. When one ends abnormally the
// world is aborted, the others get grace_ms, then SIGTERM and SIGKILL. SIGINT, SIGQUIT, SIGTERM
// and, unless ignored, SIGHUP are forwarded and end the world; SIGUSR1 and SIGUSR2 are only
// forwarded, unless ignored. Returns OK if all ended with 0; else an error that names the first
// failing rank, why (signal, exit code) and its last words on stderr. Its code is the one whose
// shoal_code_exit the child ended with, ABORTED if there is none. *out_blamed (may be NULL) is the
// rank whose end was the cause of the error, -1 if it was none's. *Not collective.*
SHOAL_MUST_USE shoal_status_t shoal_launch_processes(const shoal_launch_options_t *options,
                                                     int (*child)(void *self, int rank), void *self,
                                                     int32_t *out_blamed);
// The same with a program instead of a function; argv is NULL-terminated and searched in PATH.
SHOAL_MUST_USE shoal_status_t shoal_launch_program(const shoal_launch_options_t *options,
                                                   char *const *argv);

// The status code that a child's end stands for: the one whose exit code it is, else ABORTED.
shoal_code_t shoal_launch_code(int wait_status);

#endif  // SHOAL_LAUNCH_LAUNCH_H_
