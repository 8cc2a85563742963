// Starting ranks on a cluster file's machines: host file, ssh configuration, and `mpirun` (Open MPI
// or MPICH, whichever is there). Both files are anonymous memory that mpirun reads through /proc:
// nothing is left behind.
#ifndef SHOAL_LAUNCH_CLUSTER_H_
#define SHOAL_LAUNCH_CLUSTER_H_

#include "cluster/cluster.h"
#include "launch/launch.h"

typedef struct shoal_launch_cluster_options {
  shoal_launch_options_t launch;  // size 0: every device of the cluster
  const char *mpi;                // "openmpi", "mpich"; NULL or "auto": the first that is there
  const char *mpi_options;        // more words for mpirun, split at blanks
  const char *ssh;                // how ssh is called; NULL: "ssh"
} shoal_launch_cluster_options_t;

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
// Runs it and waits. Signals are forwarded as shoal_launch_program does, SIGHUP and SIGQUIT as
// SIGTERM, SIGUSR2 not through Hydra, which would die of it; mpirun has a process group of its own.
// When it says that it ends the job - and lines have prefixes, so that no rank can have said it -
// it gets grace_ms to do so. Errors as shoal_launch_program's, with mpirun's exit code.
SHOAL_MUST_USE shoal_status_t shoal_launch_cluster(const shoal_launch_cluster_options_t *options,
                                                   const shoal_cluster_t *cluster,
                                                   char *const *program);

#endif  // SHOAL_LAUNCH_CLUSTER_H_
