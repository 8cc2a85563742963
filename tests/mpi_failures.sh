#!/usr/bin/env bash
# What goes wrong over MPI ends, soon and with a name: mismatches, aborts, time limits, ranks that leave or
# are killed, a missing plug-in, the wrong launcher.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
tests=$build/tests

for family in $families; do
  # Every rank sees the named error; a job whose world is broken need not end with 0.
  for case in mismatch:{tags,bytes,large,collective,order,abort3,late3,less3,few3} \
    failure:{abort,deadline,send,leave,agree}; do
    n=2
    [[ $case == *3 ]] && n=3
    launch $family $n "$tests/comm_${case%:*}_test" join ${case#*:} >"$work/out" 2>"$work/err" </dev/null
    [ "$(grep -c ': well' "$work/out")" -eq $n ] ||
      { fail "$family: $case"; cat "$work/out" "$work/err" >&2; }
  done

  # Ranks that are fed, set or call something else.
  for case in batches calls; do
    launch $family 2 "$tests/session_agree_test" join $case >"$work/out" 2>"$work/err" </dev/null
    [ "$(grep -c ': well' "$work/out")" -eq 2 ] ||
      { fail "$family: $case"; cat "$work/out" "$work/err" >&2; }
  done

  # A rank that dies takes the job with it, and no rank is left.
  for signal in KILL SEGV; do
    marker=shoal-mpi-$$-$family-$signal
    start=$SECONDS
    : >"$work/out"  # or the loop below sees the one before
    launch $family 3 bash -c 'exec -a "$0" "$@"' "$marker" "$tests/comm_failure_test" join sleep \
      >"$work/out" 2>"$work/err" </dev/null &
    job=$!
    for _ in $(seq 100); do [ "$(grep -c 'up . pid [0-9]' "$work/out")" -eq 3 ] && break; sleep 0.1; done
    kill -$signal "$(grep -om1 'up 1 pid [0-9]*' "$work/out" | cut -d' ' -f4)"
    wait $job && fail "$family: a job with a killed rank ends with 0"
    [ $((SECONDS - start)) -lt 30 ] || fail "$family: SIG$signal: $((SECONDS - start)) s to the end"
    for _ in $(seq 50); do pgrep -f "^$marker" >/dev/null || break; sleep 0.1; done
    pgrep -f "^$marker" >/dev/null && fail "$family: SIG$signal leaves ranks behind"
  done

  # A rank that never calls MPI_Init holds up the others for the time limit only.
  start=$SECONDS
  SHOAL_TIMEOUT_MS=2000 launch $family 2 bash -c \
    '[ ${OMPI_COMM_WORLD_RANK:-$PMI_RANK} = 1 ] && exec sleep 100; exec "$0" join' \
    "$tests/comm_conformance_test" >"$work/out" 2>"$work/err" </dev/null && fail "$family: joins without rank 1"
  grep -q 'DEADLINE: rank 0 of 2 waited 5000 ms' "$work/err" ||
    { fail "$family: rank 1 never joins"; cat "$work/out" "$work/err" >&2; }
  [ $((SECONDS - start)) -lt 50 ] || fail "$family: $((SECONDS - start)) s until a rank that never joins is noticed"

  SHOAL_MPI_PLUGIN=/there/is/none.so launch $family 2 "$tests/comm_conformance_test" join \
    >"$work/out" 2>"$work/err" </dev/null && fail "$family: joins without a plug-in"
  grep -q 'UNAVAILABLE.*as rank . of 2.*cannot be loaded' "$work/err" ||
    { fail "$family: missing plug-in"; cat "$work/err" >&2; }
  grep -q 'bootstrap --optional' "$work/err" || fail "$family: no remedy for a missing plug-in"
done

# The other MPI's plug-in makes singletons; that must not pass for a world.
if [ "$families" = " openmpi mpich" ]; then
  SHOAL_MPI_PLUGIN=$build/libshoal_mpi_mpich.so launch openmpi 2 "$tests/comm_conformance_test" join \
    >"$work/out" 2>"$work/err" </dev/null && fail "MPICH under mpirun.openmpi"
  grep -q 'Open MPI started this process as rank . of 2, but MPICH.*rank 0 of 1' "$work/err" ||
    { fail "MPICH under mpirun.openmpi"; cat "$work/err" >&2; }
fi
[ $failures -eq 0 ] && echo "mpi:$families: fails well"
exit $((failures > 0))
