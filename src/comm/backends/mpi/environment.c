// Which launcher started this process. Open MPI's and Hydra's variables come first: they are set by
// the innermost launcher, also inside a Slurm job.
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "comm/backends/mpi/mpi.h"

typedef struct launcher {
  const char *name, *family, *rank, *size;
  const char *also;  // must be set too; NULL: nothing
} launcher_t;

static const launcher_t launchers[] = {
    {"Open MPI", "openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", NULL},
    {"Slurm (pmi2)", "mpich", "PMI_RANK", "PMI_SIZE", "SLURM_STEP_ID"},
    {"MPICH", "mpich", "PMI_RANK", "PMI_SIZE", NULL},
    {"Slurm (pmix)", "openmpi", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "PMIX_RANK"},
};

static const launcher_t *find_launcher(void) {
  if (getenv("TORCHELASTIC_RUN_ID")) return NULL;  // torchrun inside an MPI job is the innermost
  for (size_t i = 0; i < sizeof launchers / sizeof *launchers; ++i) {
    const launcher_t *l = &launchers[i];
    if (getenv(l->size) && (!l->also || getenv(l->also))) return l;
  }
  return NULL;
}

bool shoal_mpi_launched(void) {
  return find_launcher() != NULL;
}

static shoal_status_t read_number(const char *launcher, const char *name, int32_t *out_value) {
  const char *text = getenv(name);
  char *end = NULL;
  const long value = text ? strtol(text, &end, 10) : -1;
  if (!text || !text[0] || *end || value < 0 || value > INT32_MAX) {
    return SHOAL_ERROR(INVALID_ARGUMENT, "%s started this process, but %s is %s%s", launcher, name,
                       text ? "no number: " : "not set", text ? text : "");
  }
  *out_value = (int32_t)value;
  return NULL;
}

shoal_status_t shoal_mpi_read_launch(shoal_mpi_launch_t *out_launch) {
  const launcher_t *l = find_launcher();
  if (!l) {
    return SHOAL_ERROR_HINT(UNAVAILABLE, "start it with `mpirun -n N PROGRAM`, or `srun -n N`",
                            "no MPI launcher started this process");
  }
  shoal_mpi_launch_t launch = {.launcher = l->name, .family = l->family};
  SHOAL_RETURN_IF_ERROR(read_number(l->name, l->rank, &launch.rank));
  SHOAL_RETURN_IF_ERROR(read_number(l->name, l->size, &launch.size));
  *out_launch = launch;
  return NULL;
}
