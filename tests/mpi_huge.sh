#!/usr/bin/env bash
# Messages and reductions over 2 GiB between two ranks over Open MPI and MPICH, MPI's own reductions too: counts that an
# int does not hold.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
for family in $families; do
  for kind in m r a; do
    launch $family 2 "$build/tests/comm_huge_test" join $kind >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family, $kind"; cat "$work/out" "$work/err" >&2; }
    [ "$(grep -c "of 2 over mpi: well" "$work/out")" -eq 2 ] || fail "$family: not 2 ranks over mpi"
  done
done
[ $failures -eq 0 ] && echo "mpi:$families: all well"
exit $((failures > 0))
