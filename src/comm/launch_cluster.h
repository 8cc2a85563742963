// Starting ranks on a cluster file's machines: host file, ssh configuration, and `mpirun` (Open MPI
// or MPICH, whichever is there). Both files are anonymous memory that mpirun reads through /proc:
// nothing is left behind.
#ifndef SHOAL_COMM_LAUNCH_CLUSTER_H_
#define SHOAL_COMM_LAUNCH_CLUSTER_H_

#include "cluster/nodes.h"
#include "comm/launch.h"

typedef struct shoal_launch_cluster_options {
  shoal_launch_options_t launch;  // size 0: every device of the cluster; grace is mpirun's business
  const char *mpi;                // "openmpi", "mpich"; NULL or "auto": the first that is there
  const char *mpi_options;        // more words for mpirun, split at blanks
  const char *ssh;                // how ssh is called; NULL: "ssh"
} shoal_launch_cluster_options_t;

// What mpirun is called with, and what it reads; in the arena.
typedef struct shoal_launch_command {
  const char **argv;  // NULL-terminated
  const char *hosts, *ssh_config, *ssh_script;
} shoal_launch_command_t;

// Composes the call, whose files will be at these paths.
SHOAL_MUST_USE shoal_status_t shoal_launch_cluster_command(
    const shoal_launch_cluster_options_t *options, const shoal_cluster_nodes_t *nodes,
    char *const *program, const char *hosts_path, const char *ssh_path, const char *config_path,
    shoal_arena_t *arena, shoal_launch_command_t *out_command);
// Runs it and waits. Signals are forwarded. Errors as shoal_launch_program's, with mpirun's exit
// code.
SHOAL_MUST_USE shoal_status_t shoal_launch_cluster(const shoal_launch_cluster_options_t *options,
                                                   const shoal_cluster_nodes_t *nodes,
                                                   char *const *program);

#endif  // SHOAL_COMM_LAUNCH_CLUSTER_H_
