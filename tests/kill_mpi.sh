#!/usr/bin/env bash
# Killed ranks under mpirun and mpiexec.hydra: the job ends, non-zero, soon, and nothing is left.
# labels: slow
. "${SHOAL_SOURCE_DIR:?}/tests/kill_lib.sh"
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
for family in $families; do
  if [ $family = openmpi ]; then
    kill_ranks --count 20 --sizes 2,3 --command 'mpirun.openmpi --oversubscribe --bind-to none -np {n}'
  else
    kill_ranks --count 15 --sizes 2,3 --command 'mpiexec.hydra -n {n}'
  fi || fail "$family"
done
exit $((failures > 0))
