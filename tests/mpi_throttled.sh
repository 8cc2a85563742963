#!/usr/bin/env bash
# `throttle` over MPI: the conformance suite through links, no faster than the link, and messages lost or delayed.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
printf 'shoal_cluster: 1\nlink: {latency: 1.0e-6, bandwidth: 1.0e9}\n' >"$work/tiny.yml"
printf 'shoal_cluster: 1\nlink: {latency: 1.0e-4, bandwidth: 1.0e8}\n' >"$work/slow.yml"

for family in $families; do
  for suite in conformance exchange; do
    SHOAL_COMM_THROTTLE=$work/tiny.yml launch $family 3 "$build/tests/comm_${suite}_test" join \
      >"$work/out" 2>"$work/err" </dev/null || { fail "$family: $suite"; cat "$work/out" "$work/err" >&2; }
    [ "$(grep -c 'of 3 over throttle: well' "$work/out")" -ge 3 ] || fail "$family: $suite: not over throttle"
  done
  SHOAL_COMM_THROTTLE=$work/slow.yml launch $family 2 "$shoal" perf comm --sizes 1M --samples 3 --sample-ms 0 \
    --collective broadcast --format json >"$work/out" 2>"$work/err" </dev/null || { fail "perf"; cat "$work/err" >&2; }
  python3 -c 'import json, sys
row, = json.load(open(sys.argv[1]))["results"]
assert row["us_min"] >= 10485, row' "$work/out" || fail "$family: faster than the link"
  for fault in lose=1@0 lose=17@1 lose=40@2 delay=1@0:20ms delay=17@1:20ms delay=40@2:20ms; do
    timeout_ms=60000
    case $fault in lose*) timeout_ms=500 ;; esac
    # A broken world does not finalize MPI, so the launcher may fail; what the ranks say counts.
    SHOAL_TIMEOUT_MS=$timeout_ms SHOAL_COMM_THROTTLE=$fault launch $family 3 "$build/tests/comm_fault_test" join \
      ${fault%%=*} >"$work/out" 2>"$work/err" </dev/null
    [ "$(grep -c 'of 3 over throttle: well' "$work/out")" -eq 3 ] ||
      { fail "$family: $fault"; cat "$work/out" "$work/err" >&2; }
  done
done
[ $failures -eq 0 ] && echo "mpi throttled:$families: all well"
exit $((failures > 0))
