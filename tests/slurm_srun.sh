#!/usr/bin/env bash
# A real, private Slurm: `srun -n 4` of the conformance suite and of a whole program, over MPICH (pmi2), Open
# MPI (pmix) and, without an MPI, on one node; a dead rank ends the step; the wrong launch is named.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/slurm_lib.sh"
slurm_up 1 8
run() { timeout -k 5 120 srun "$@" >"$work/out" 2>"$work/err" </dev/null; }
show() { cat "$work/out" "$work/err" >&2; }

alone=$("$build/examples/mlp") || fail "mlp alone"
ran=
for kind in mpich:pmi2:mpi openmpi:pmix:mpi none:none:local; do
  IFS=: read -r family mpi backend <<<"$kind"
  if [ $family != none ] && [ ! -e "$build/libshoal_mpi_$family.so" ]; then
    echo "without $family: the build has no plug-in for it"
    continue
  fi
  timeout 10 srun --mpi=list 2>&1 | grep -qw "$mpi" || { echo "without $family: srun has no $mpi"; continue; }
  ran="$ran $family"
  run --mpi=$mpi -n 4 "$build/tests/comm_conformance_test" join || { fail "$family: conformance"; show; }
  [ "$(grep -c "of 4 over $backend: well" "$work/out")" -eq 4 ] || { fail "$family: not 4 ranks over $backend"; show; }
  run --mpi=$mpi -n 2 "$build/examples/mlp" || { fail "$family: mlp"; show; }
  [ "$(cat "$work/out")" = "$alone" ] || { fail "$family: mlp differs"; show; }
  run --mpi=$mpi -n 2 "$shoal" train mlp --steps 2 || { fail "$family: shoal train"; show; }
  [ "$(grep -c '^plan: strategy auto, ranks 2' "$work/out")" -eq 1 ] || { fail "$family: shoal train is not one job of 2"; show; }

  # A killed rank ends the step, non-zero, soon.
  start=$SECONDS
  : >"$work/out"
  timeout -k 5 100 srun --mpi=$mpi -K -n 3 "$build/tests/comm_failure_test" join sleep >"$work/out" 2>"$work/err" </dev/null &
  job=$!
  for _ in $(seq 100); do [ "$(grep -c 'up . pid [0-9]' "$work/out")" -eq 3 ] && break; sleep 0.1; done
  kill -9 "$(grep -om1 'up 1 pid [0-9]*' "$work/out" | cut -d' ' -f4)"
  wait $job && fail "$family: a step with a killed rank ends with 0"
  [ $((SECONDS - start)) -lt 30 ] || fail "$family: $((SECONDS - start)) s to the end of a killed rank's step"
done

# MPICH's plug-in under --mpi=pmix: singletons, which must be named.
if [ -e "$build/libshoal_mpi_mpich.so" ] && [ -e "$build/libshoal_mpi_openmpi.so" ]; then
  SHOAL_MPI_PLUGIN=$build/libshoal_mpi_mpich.so run --mpi=pmix -n 2 "$build/tests/comm_conformance_test" join &&
    fail "MPICH under pmix joins"
  grep -q 'UNAVAILABLE: Slurm (pmix) started this process as rank . of 2, but MPICH' "$work/err" ||
    { fail "MPICH under pmix"; show; }
fi
# Inside a batch script itself nothing was launched: a world of one rank.
printf '#!/bin/sh\n"%s" join\n' "$build/tests/comm_conformance_test" >"$work/job.sh"
timeout 60 sbatch -W -n 4 -o "$work/batch" "$work/job.sh" >/dev/null || { fail "batch script"; cat "$work/batch" >&2; }
grep -q 'rank 0 of 1 over self: well' "$work/batch" || { fail "a batch script is not one rank"; cat "$work/batch" >&2; }
[ $failures -eq 0 ] && echo "slurm:$ran: all well"
exit $((failures > 0))
