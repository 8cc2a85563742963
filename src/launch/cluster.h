// Starting ranks on a cluster file's machines: host file, ssh configuration, and `mpirun` (Open MPI
// or MPICH, whichever is there). Both files are anonymous memory that mpirun reads through /proc:
// nothing is left behind.
#ifndef SHOAL_LAUNCH_CLUSTER_H_
#define SHOAL_LAUNCH_CLUSTER_H_

#include "cluster/cluster.h"
#include "launch/launch.h"

// What mpirun is called with, and what it reads; in the arena. When the only node is this machine
// and no MPI was asked for: the program, its local ranks and their variables.
typedef struct shoal_launch_command {
  const char **argv;  // NULL-terminated
  const char *hosts, *ssh_config, *ssh_script;
  const char *family;   // "openmpi", "mpich"
  int32_t local_ranks;  // 0: mpirun
  const shoal_cluster_variable_t *variables;
  int64_t variable_count;
} shoal_launch_command_t;

// Composes the call for a cluster whose nodes have addresses (else INVALID_ARGUMENT); its files
// will be at these paths.
SHOAL_MUST_USE shoal_status_t shoal_launch_cluster_command(
    const shoal_launch_cluster_options_t *options, const shoal_cluster_t *cluster,
    char *const *program, const char *hosts_path, const char *ssh_path, const char *config_path,
    shoal_arena_t *arena, shoal_launch_command_t *out_command);

#endif  // SHOAL_LAUNCH_CLUSTER_H_
