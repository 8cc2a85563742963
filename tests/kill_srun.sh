#!/usr/bin/env bash
# Killed ranks under a real, private Slurm: `srun -K` ends the step, non-zero, soon, and nothing is left. Without
# an MPI the ranks meet by themselves, and see by themselves that one died: there it works without -K too.
# labels: slow
. "${SHOAL_SOURCE_DIR:?}/tests/kill_lib.sh"
. "${SHOAL_SOURCE_DIR:?}/tests/slurm_lib.sh"
slurm_up 1 8
for kind in mpich:pmi2 openmpi:pmix none:none; do
  IFS=: read -r family mpi <<<"$kind"
  [ $family = none ] || [ -e "$build/libshoal_mpi_$family.so" ] || { echo "without $family: no plug-in"; continue; }
  timeout 10 srun --mpi=list 2>&1 | grep -qw "$mpi" || { echo "without $family: srun has no $mpi"; continue; }
  bad_exit=-K
  [ $family = none ] && bad_exit=
  kill_ranks --count 5 --sizes 2,3 --command "srun --mpi=$mpi $bad_exit -n {n}" || fail "$family"
done
exit $((failures > 0))
