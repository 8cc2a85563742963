#!/usr/bin/env bash
# Ranks that are stuck over MPI: every one of them gets the report of who waits in what for whom.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"

for family in $families; do
  for case in circle:2 absent:3 chain:3 order:2 window:2 versions:3 threads:3 left:3; do
    n=${case#*:}
    launch $family $n "$build/tests/comm_report_test" join "${case%:*}" >"$work/out" 2>"$work/err" </dev/null
    [ "$(grep -c ': well' "$work/out")" -eq "$n" ] ||
      { fail "$family: ${case%:*}"; cat "$work/out" "$work/err" >&2; }
  done
  # A process that is stopped cannot answer; the job ends all the same.
  launch $family 2 timeout -k 1 60 "$build/tests/comm_report_test" join stopped >"$work/out" 2>"$work/err" </dev/null &&
    fail "$family: a job with a stopped rank ends with 0"
  grep -q 'DEADLINE: no progress in 600 ms: rank 0 waits .* from rank 1' "$work/err" &&
    grep -q 'rank 1 does not answer' "$work/err" || { fail "$family: stopped"; cat "$work/err" >&2; }
done
[ $failures -eq 0 ] && echo "mpi:$families: all reported"
exit $((failures > 0))
