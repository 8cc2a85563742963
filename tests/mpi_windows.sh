#!/usr/bin/env bash
# Windows over Open MPI and MPICH: the cases of comm_window_test, an owner that does not call Shoal, nothing
# allocated once warm, waits that nobody ends, ranks that leave.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
export SHOAL_TEST_FILE=$work/flag

# All N ranks must say "well". A job whose world is broken on purpose need not end with 0.
check() {
  local family=$1 n=$2 case=$3
  rm -f "$SHOAL_TEST_FILE"
  launch $family $n "$build/tests/comm_window_test" join $case >"$work/out" 2>"$work/err" </dev/null
  [ "$(grep -c "of $n over mpi: well" "$work/out")" -eq $n ] ||
    { fail "$family, $n ranks: $case"; cat "$work/out" "$work/err" >&2; }
}

for family in $families; do
  for n in 1 2 3 4 7 8; do
    for case in writers stale users; do check $family $n $case; done
  done
  for n in 2 5; do
    for case in large steady; do check $family $n $case; done
  done
  check $family 2 absent
  grep 'of a core' "$work/out"
  for case in wrong leaves owner writer; do check $family 2 $case; done
done
[ $failures -eq 0 ] && echo "mpi:$families: windows are well"
exit $((failures > 0))
