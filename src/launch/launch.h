// Starts local ranks as processes: one shared-memory hub, one child per rank, and their output with
// the rank in front of every line. Nothing is left behind: children, and the processes they
// started, die with their parent (guard.h), and the hub has no name in the file system.
#ifndef SHOAL_LAUNCH_LAUNCH_H_
#define SHOAL_LAUNCH_LAUNCH_H_

#include "cluster/cluster.h"
#include "shoal/launch.h"

// Forks `ranks` children that run child(self, rank) and end with what it returns. In a child,
// shoal_world_join joins the new world, whatever the parent had joined.
//
// All else is as shoal_launch_program says (shoal/launch.h). *out_blamed (may be NULL) is the
// rank whose end was the cause of the error, -1 if it was none's. *Not collective.*
SHOAL_MUST_USE shoal_status_t shoal_launch_processes(const shoal_launch_options_t *options,
                                                     int (*child)(void *self, int rank), void *self,
                                                     int32_t *out_blamed);
// shoal_launch_program with variables that are set for the children, beside those that are.
SHOAL_MUST_USE shoal_status_t shoal_launch_program_with(const shoal_launch_options_t *options,
                                                        const shoal_cluster_variable_t *variables,
                                                        int64_t variable_count, char *const *argv);

// The status code that a child's end stands for: the one whose exit code it is, else ABORTED.
shoal_code_t shoal_launch_code(int wait_status);

#endif  // SHOAL_LAUNCH_LAUNCH_H_
