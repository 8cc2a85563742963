#!/usr/bin/env bash
# `shoal train`, `check` and `perf` under mpirun: one job on the launcher's ranks, not one per rank; another
# number of ranks than the launcher's is an error, under `shoal run` as well. And a program whose ranks send
# each other as many rows as counts say, and one whose ranks merge pairs.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
show() { cat "$work/out" "$work/err" >&2; }

# refused COMMAND...: INVALID_ARGUMENT that names both numbers
refused() {
  "$@" >"$work/out" 2>"$work/err" </dev/null && fail "$*: is accepted"
  grep -q 'INVALID_ARGUMENT: -n 3, but a launcher started this command on 2 ranks' "$work/err" ||
    { fail "$*"; show; }
}

for family in $families; do
  for n in "" "-n 2"; do
    launch $family 2 "$shoal" train mlp --steps 2 $n >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family: train $n"; show; }
    [ "$(grep -c '^plan: strategy auto, ranks 2' "$work/out")" -eq 1 ] || { fail "$family: train $n"; show; }
    [ "$(grep -c '^report: loss' "$work/out")" -eq 1 ] || { fail "$family: train $n reports"; show; }
  done
  for kind in gpt:tensor mlp:data; do
    IFS=: read -r model strategy <<<"$kind"
    [ $kind-$family = gpt:tensor-mpich ] && continue  # time
    launch $family 2 "$shoal" check $model --strategy $strategy >"$work/out" 2>"$work/err" </dev/null ||
      { fail "$family: check $strategy"; show; }
    grep -q "^passed: $model f32 $strategy on 2 ranks over mpi.* parts compared" "$work/out" ||
      { fail "$family: check $strategy"; show; }
    [ "$(grep -c '^1 passed' "$work/out")" -eq 1 ] || { fail "$family: check $strategy is not one check"; show; }
  done
  # attention over cut keys: pairs are exchanged and merged
  launch $family 2 "$shoal" check gpt --batch 2 --context 5 --vocabulary 11 --width 6 --heads 3 --layers 1 --strategy tensor \
    --mesh data=1,tensor=2 --decide 'way *attn/attention tensor={k:2, v:2 -> out:lse, lse:lse}' \
    >"$work/out" 2>"$work/err" </dev/null || { fail "$family: check of pairs"; show; }
  grep -q "^passed: gpt f32 tensor on 2 ranks over mpi" "$work/out" || { fail "$family: check of pairs"; show; }
  launch $family 2 "$shoal" perf comm --collective all_reduce --sizes 8K --samples 2 >"$work/out" 2>"$work/err" </dev/null ||
    { fail "$family: perf"; show; }
  [ "$(grep -c '^2 ranks, backend mpi' "$work/out")" -eq 1 ] || { fail "$family: perf"; show; }
  launch $family 2 "$build/examples/experts" >"$work/out" 2>"$work/err" </dev/null || { fail "$family: experts"; show; }
  grep -q '^rank 0 of 2 sent [1-9][0-9]* bytes of tokens' "$work/out" || { fail "$family: experts"; show; }
  "$build/examples/experts" | grep loss | diff - <(grep loss "$work/out") || fail "$family: losses of experts"
  launch $family 2 "$build/examples/experts" overflow >"$work/out" 2>"$work/err" </dev/null &&
    fail "$family: experts overflow"
  [ "$(grep -c "'dispatch/bound'.*group \[3, 1\] has 13 rows, and dim 2 has room" "$work/err")" -ge 2 ] ||
    { fail "$family: experts overflow"; show; }
  for command in "train mlp --steps 2" "check mlp" "perf comm"; do
    refused launch $family 2 "$shoal" $command -n 3
  done
  launch $family 2 "$shoal" check --random 2 >"$work/out" 2>"$work/err" </dev/null && fail "$family: check --random"
  grep -q "UNSUPPORTED: random cases and mutations run on ranks of their own" "$work/err" ||
    { fail "$family: check --random"; show; }
done
for command in "train mlp --steps 2" "check mlp" "perf comm"; do
  refused "$shoal" run --no-prefix -n 2 -- "$shoal" $command -n 3
done
"$shoal" run --no-prefix -n 2 -- "$shoal" check mlp >"$work/out" 2>"$work/err" || { fail "check under shoal run"; show; }
grep -q "^passed: mlp f32 auto on 2 ranks over local" "$work/out" || { fail "check under shoal run"; show; }
[ $failures -eq 0 ] && echo "mpi:$families: the commands join"
exit $((failures > 0))
