#!/usr/bin/env bash
# The conformance suite of comm over Open MPI and MPICH at 1 to 4, 7 and 8 ranks; a whole program trains the
# same there as alone; a blocked rank leaves its core to others.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"

alone=$("$build/examples/mlp") || fail "mlp alone"
for family in $families; do
  for n in 1 2 3 4 7 8; do
    launch $family $n "$build/tests/comm_conformance_test" join >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family, $n ranks"; cat "$work/out" "$work/err" >&2; }
    [ "$(grep -c "of $n over mpi: well" "$work/out")" -eq $n ] || fail "$family: not $n ranks over mpi"
  done
  for n in 2 3; do
    over=$(launch $family $n "$build/examples/mlp" 2>"$work/err" </dev/null) ||
      { fail "mlp over $family, $n ranks"; cat "$work/err" >&2; }
    [ "$over" = "$alone" ] || fail "mlp over $family, $n ranks: $over, alone: $alone"
  done
  for n in 2 3; do  # threads of a rank, payloads of many chunks, joining again, nothing allocated once warm
    launch $family $n "$build/tests/comm_exchange_test" join >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family, $n ranks: exchanges"; cat "$work/out" "$work/err" >&2; }
  done
  for n in 1 2 5; do  # several values in one collective, or one message to each peer
    launch $family $n "$build/tests/run_bundle_test" join >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family, $n ranks: reshards of several values"; cat "$work/out" "$work/err" >&2; }
  done
  for lanes in threads late blocked; do
    launch $family 2 "$build/tests/comm_lane_test" join $lanes >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family: lanes, $lanes"; cat "$work/out" "$work/err" >&2; }
  done
  launch $family 2 "$build/tests/comm_exchange_test" join backlog >"$work/out" 2>"$work/err" </dev/null ||
    { fail "$family: backlog"; cat "$work/out" "$work/err" >&2; }
  for n in 2 4; do  # groups in other orders on every rank, also in MPI's own reductions
    launch $family $n "$build/tests/comm_async_test" join >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family, $n ranks: asynchronous"; cat "$work/out" "$work/err" >&2; }
  done
  launch $family 2 "$build/tests/comm_failure_test" join blocked >"$work/out" 2>"$work/err" </dev/null ||
    { fail "$family: blocked rank"; cat "$work/err" >&2; }
  grep 'of a core' "$work/out"
done
[ $failures -eq 0 ] && echo "mpi:$families: all well"
exit $((failures > 0))
