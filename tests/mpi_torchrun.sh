#!/usr/bin/env bash
# Ranks that only have torchrun's variables meet on this machine; what cannot be is refused with the remedy.
# labels: san
set -u
build=${SHOAL_BUILD_DIR:?}
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }

# torch PORT N COMMAND...: as `torchrun --nproc-per-node N` would start it
torch() {
  local port=$1 n=$2 pids= code=0
  shift 2
  for rank in $(seq $((n - 1)) -1 0); do
    RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=$n LOCAL_WORLD_SIZE=${LOCAL:-$n} MASTER_ADDR=127.0.0.1 \
      MASTER_PORT=$port "$@" >>"$work/out" 2>>"$work/err" &
    pids="$pids $!"
  done
  for pid in $pids; do wait "$pid" || code=$?; done
  return $code
}
port=$((20000 + $$ % 10000))

for n in 1 2 4; do
  : >"$work/out" >"$work/err"
  torch $port $n "$build/tests/comm_conformance_test" join || { fail "$n ranks"; cat "$work/err" >&2; }
  [ "$(grep -c "of $n over .*: well" "$work/out")" -eq $n ] || fail "not $n ranks"
done
grep -q 'of 4 over local: well' "$work/out" || fail "not over local"

# Two jobs at once do not see each other.
: >"$work/out" >"$work/err"
torch $((port + 1)) 2 "$build/tests/comm_conformance_test" join &
first=$!  # the next call starts jobs of its own
torch $((port + 2)) 3 "$build/tests/comm_conformance_test" join || fail "two jobs at once"
wait "$first" || fail "two jobs at once"
[ "$(grep -c ': well' "$work/out")" -eq 5 ] || fail "two jobs at once: not five ranks"

: >"$work/out" >"$work/err"
LOCAL=1 torch $port 2 "$build/tests/comm_conformance_test" join && fail "several machines are joined"
grep -q 'UNAVAILABLE: torchrun started 2 ranks on several machines' "$work/err" || fail "several machines"
grep -q 'hint: use `mpirun`' "$work/err" || fail "several machines: no remedy"

: >"$work/out" >"$work/err"
RANK=1 WORLD_SIZE=2 MASTER_PORT=$port SHOAL_TIMEOUT_MS=300 "$build/tests/comm_conformance_test" join \
  2>"$work/err" && fail "a rank joins alone"
grep -q 'DEADLINE: rank 1 of 2 waited in vain' "$work/err" || { fail "alone"; cat "$work/err" >&2; }
[ $failures -eq 0 ] && echo "torchrun's variables: all well"
exit $((failures > 0))
