#!/usr/bin/env bash
# `shoal run`: ranks and environment, prefixes, exit codes, last words, signals, no orphans, nothing left.
# labels: san
set -u
shoal=${SHOAL_BIN:?}
failures=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }
# run NAME EXPECTED_CODE ARGS...: stdout and stderr go to $work/out and $work/err
run() {
  local name=$1 expected=$2
  shift 2
  "$shoal" run "$@" >"$work/out" 2>"$work/err" </dev/null
  local code=$?
  [ $code -eq "$expected" ] || { fail "$name: exit code $code, not $expected"; cat "$work/err" >&2; }
}
has() { grep -qF -- "$2" "$work/$1" || { fail "$1 lacks '$2':"; cat "$work/$1" >&2; }; }

# Every rank gets its number; lines carry it, on both streams; a line without an end gets one.
run environment 0 -n 3 -- sh -c 'echo "$SHOAL_RANK of $SHOAL_SIZE"; echo "talk $SHOAL_RANK" >&2; printf end'
for i in 0 1 2; do
  has out "[$i] $i of 3"
  has err "[$i] talk $i"
  has out "[$i] end"
done
[ "$(wc -l <"$work/out")" -eq 6 ] || fail "environment: not six lines"
run timeout 0 -n 1 --timeout-ms 1234 --no-prefix -- sh -c 'echo $SHOAL_TIMEOUT_MS'
[ "$(cat "$work/out")" = 1234 ] || fail "--timeout-ms does not arrive"
run threads 0 -n 4 --threads -- sh -c 'echo threads $SHOAL_THREADS; env | grep -c SHOAL_RANK || true'
has out "threads 4"
has out "0"
"$shoal" run -n 4 --threads -- "$shoal" train mlp --steps 2 >"$work/out" 2>"$work/err" || fail "train as threads: $?"
run check_threads 0 -n 2 --threads -- "$shoal" check mlp
has out "on 2 threads"
run no_threads 6 -n 4 --threads -- "$(dirname "$shoal")/examples/mlp"
has err "shoal run --threads"
has err "shoal: error: UNSUPPORTED: "
has err "hint: "
# Each rank keeps to its share of the cores, unless there are too few, or it is told not to.
cores=$(nproc)
if [ "$cores" -ge 2 ] && command -v taskset >/dev/null; then
  run pinned 0 -n 2 --no-prefix -- sh -c 'taskset -cp $$ | sed "s/.*: //"'
  [ "$(sort -u "$work/out" | wc -l)" -eq 2 ] || fail "two ranks on the same cores"
  run unpinned 0 -n 2 --no-pin --no-prefix -- nproc
  [ "$(sort -u "$work/out")" = "$cores" ] || fail "--no-pin: $(cat "$work/out") of $cores cores"
  run crowded 0 -n $((cores + 1)) --no-prefix -- nproc
  [ "$(sort -u "$work/out")" = "$cores" ] || fail "more ranks than cores are pinned"
fi
SHOAL_RANKS=3 SHOAL_NO_PREFIX=1 run variables 0 -- sh -c 'echo $SHOAL_SIZE'
[ "$(grep -c '^3$' "$work/out")" -eq 3 ] || fail "SHOAL_RANKS is not read"
cat >"$work/alone.yml" <<X
nodes:
  - address: localhost
    cpus: [0, 1, 2]
X
run cluster 0 --cluster "$work/alone.yml" -- sh -c 'echo $SHOAL_SIZE'
has out "[2] 3"
# One node that is this machine needs no MPI; all else of the file holds, and --dry-run says what happens.
cat >"$work/here.yml" <<X
nodes:
  - address: $(hostname)
    cpus: [0, 1]
    ssh_config: conf
ssh:
  conf: {username: me, python_venv: "export SHOAL_TEST_VENV=in", shared_envs: {SHOAL_TEST_SHARED: both}}
X
run here 0 --cluster "$work/here.yml" -- sh -c 'echo $SHOAL_SIZE $SHOAL_TEST_VENV $SHOAL_TEST_SHARED'
has out "[1] 2 in both"
run here_dry 0 --cluster "$work/here.yml" --dry-run -- ./prog
has out "local ranks: 2"
has out "SHOAL_TEST_SHARED=both"
for dry in '' --dry-run; do
  run here_ranks 2 --cluster "$work/here.yml" -n 50 $dry -- true
  has err "50 ranks, but the cluster has 2 devices"
  run here_mpi 5 --cluster "$work/here.yml" --mpi nonsense $dry -- true
  has err "no launcher of nonsense"
done
if command -v mpirun.openmpi mpiexec.hydra >/dev/null; then  # a documentation address is no machine
  sed "s/address: .*/address: 192.0.2.1/" "$work/here.yml" >"$work/away.yml"
  run away_dry 0 --cluster "$work/away.yml" --dry-run -- true
  has out "HOSTS:"
fi
run cluster_error 2 --cluster "$work/out" -- true
has err "$work/out"

run long 0 -n 2 -- sh -c 'head -c 20000 /dev/zero | tr "\0" x; echo'
[ "$(tr -cd x <"$work/out" | wc -c)" -eq 40000 ] || fail "long lines lose bytes"

# Failures: which rank, why, its last words; the code of the status the rank ended with.
run exit_code 8 -n 3 --grace-ms 100 -- sh -c 'if [ $SHOAL_RANK = 1 ]; then echo "my last words" >&2; exit 8; fi; exec sleep 60'
has err "rank 1 ended with exit code 8"
has err "my last words"
has err "MISMATCH"
run unknown_code 9 -n 2 --grace-ms 10 -- sh -c 'if [ $SHOAL_RANK = 0 ]; then exit 42; fi; exec sleep 60'
has err "rank 0 ended with exit code 42"
run killed 9 -n 3 --grace-ms 10 -- sh -c 'if [ $SHOAL_RANK = 2 ]; then kill -9 $$; fi; exec sleep 60'
has err "rank 2 was killed by signal 9 (SIGKILL)"
run stubborn 9 -n 2 --grace-ms 10 -- sh -c 'trap "" TERM; if [ $SHOAL_RANK = 0 ]; then exit 1; fi; sleep 60'
has err "rank 0 ended with exit code 1"
run no_program 3 -n 2 -- ./there-is-no-such-program
has err "cannot run './there-is-no-such-program'"

# Bad usage stops before anything runs.
run nothing 2 -n 2
has err "no program"
for n in -1 0 2x ''; do
  run no_ranks 2 -n "$n" -- true
  has err "-n: '$n' is not a whole number from 1 on"
done
run negative 2 -n 2 --grace-ms -1 -- true
has err "negative"
run auto 0 -n auto --no-prefix -- sh -c 'echo $SHOAL_SIZE'
[ "$(sort -u "$work/out")" = "$(getconf _NPROCESSORS_ONLN)" ] || fail "-n auto: $(cat "$work/out")"
run bad_option 2 --rangs 2 -- true
has err "ranks"
run before 2 -n 2 true
run too_many 6 -n 129 -- true
has err "1 to 128 ranks, not 129"

# No orphans: what the ranks started ends with them, also when the launcher itself is killed.
marker="shoal-run-test-$$"
alive() { pgrep -f "$marker" >/dev/null; }
gone() { for _ in $(seq 100); do alive || return 0; sleep 0.1; done; return 1; }
run children 9 -n 2 --grace-ms 10 -- \
  bash -c "bash -c 'exec -a $marker sleep 60' & sleep 0.2; [ \$SHOAL_RANK = 0 ] && exit 1; wait"
gone || fail "children of ranks outlive them"

# start COMMAND...: in the background, as $launcher, until two ranks have said "up"
start() {
  : >"$work/out"  # or the loop below sees the one before
  "$@" >"$work/out" 2>"$work/err" </dev/null &
  launcher=$!
  for _ in $(seq 100); do [ "$(grep -c up "$work/out")" -eq 2 ] && break; sleep 0.1; done
}
for signal in INT TERM HUP QUIT; do
  start "$shoal" run -n 2 --grace-ms 10 -- bash -c "echo up; exec -a $marker sleep 60"
  # A shell without job control starts background jobs with SIGINT ignored; the launcher still sees it.
  kill -$signal $launcher
  wait $launcher
  code=$?
  [ $code -eq 9 ] || fail "SIG$signal: exit code $code, not 9"
  has err "interrupted by SIG$signal"
  gone || fail "SIG$signal leaves ranks behind"
done

# Signals that are messages reach the ranks, and end nothing; what nohup ignores stays ignored.
cat >"$work/listen" <<'X'
trap 'echo heard; exit 0' USR1
echo up
for _ in $(seq 600); do sleep 0.1; done
X
start nohup "$shoal" run -n 2 -- bash "$work/listen"
kill -HUP $launcher
kill -USR1 $launcher
wait $launcher || fail "SIGUSR1: exit code $?"
[ "$(grep -c heard "$work/out")" -eq 2 ] || fail "SIGUSR1 does not reach the ranks"

# Without its guard the launcher does what it does.
start "$shoal" run -n 2 -- bash "$work/listen"
kill -KILL "$(pgrep -P $launcher shoal-guard)" || fail "there is no guard"
kill -USR1 $launcher
wait $launcher || fail "without its guard: exit code $?"

# Also behind a shell, which alone is the launcher's child.
for behind in '' '; true'; do
  start "$shoal" run -n 2 -- bash -c "bash -c 'echo up; exec -a $marker sleep 60'$behind"
  kill -KILL $launcher
  wait $launcher 2>/dev/null
  gone || fail "ranks outlive a killed launcher"
done

# A process that gets away with a rank's pipe and writes on does not hold up the launcher.
run runaway 0 -n 2 --no-prefix -- bash -c 'setsid timeout 5 yes & sleep 0.2; exit 0'

# Too few open files: an error before anything runs, if the hard limit is the reason; else the soft one is raised.
(ulimit -n 40; timeout -k 5 60 "$shoal" run -n 20 -- bash -c "exec -a $marker sleep 60") >"$work/out" 2>"$work/err"
code=$?
[ $code -eq 5 ] || { fail "ulimit -n 40: exit code $code, not 5"; cat "$work/err" >&2; }
has err "ulimit -n"
gone || fail "ulimit -n leaves ranks behind"
(ulimit -S -n 40; timeout -k 5 60 "$shoal" run -n 20 --no-prefix -- sh -c 'ulimit -n') >"$work/out" 2>"$work/err" ||
  { fail "ulimit -S -n 40: exit code $?"; cat "$work/err" >&2; }
[ "$(grep -cx 40 "$work/out")" -eq 20 ] || fail "the ranks' own limit of open files is another"

# SIGCHLD may be ignored by whoever starts the launcher.
ignoring() {
  timeout -k 5 60 python3 -c '
import os, signal, sys
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
os.execv(sys.argv[1], sys.argv[1:])' "$shoal" "$@"
}
ignoring run -n 2 -- true || fail "SIGCHLD ignored: exit code $?"
ignoring run -n 2 -- sh -c 'exit 8' 2>"$work/err"
code=$?
[ $code -eq 8 ] || fail "SIGCHLD ignored: exit code $code, not 8"
ignoring train mlp -n 2 --steps 2 >"$work/out" 2>"$work/err" || fail "SIGCHLD ignored: train ends with $?"

# A reader that takes nothing holds up the ranks, not the launcher.
mkfifo "$work/fifo"
exec 7<>"$work/fifo"  # a reader that never reads
stuck() {
  timeout -k 5 60 "$shoal" run "$@" 1>"$work/fifo" 7>&- 2>"$work/err" </dev/null &
  launcher=$!
}
up() { for _ in $(seq 300); do [ -e "$work/up" ] && return; sleep 0.1; done; fail "nobody is up"; }
stuck -n 2 --grace-ms 10 -- bash -c "timeout 1 yes; touch $work/up; exec -a $marker yes"
up
kill -TERM $launcher
wait $launcher
code=$?
[ $code -eq 9 ] || { fail "SIGTERM with a stuck reader: exit code $code, not 9"; cat "$work/err" >&2; }
gone || fail "a stuck reader keeps ranks alive"
stuck -n 2 --grace-ms 10 -- bash -c "[ \$SHOAL_RANK = 1 ] && sleep 1 && exit 8; exec -a $marker yes"
wait $launcher
code=$?
[ $code -eq 8 ] || { fail "a death with a stuck reader: exit code $code, not 8"; cat "$work/err" >&2; }
gone || fail "a stuck reader keeps survivors alive"
exec 7>&-
# One that is only late gets everything.
"$shoal" run -n 2 --no-prefix -- sh -c 'seq 30000; seq 30000 >&2' 2>&1 | (sleep 2; sort -n | uniq -c | awk '$1 == 4' | wc -l) >"$work/out"
[ "$(cat "$work/out")" -eq 30000 ] || fail "a late reader gets $(cat "$work/out") of 30000 lines"

# A grace of for ever is not none.
run grace 8 -n 2 --grace-ms 9223372036854775807 -- \
  sh -c 'if [ $SHOAL_RANK = 0 ]; then exit 8; fi; sleep 2; echo survived'
has out "[1] survived"

# Closed standard streams are no descriptors for the launcher's own files.
"$shoal" train mlp -n 2 --steps 2 --save "$work/closed" <&- >&- 2>&-
code=$?
[ $code -eq 5 ] && fail "with all standard streams closed: exit code $code"
[ -s "$work/closed/step-2/model.safetensors" ] || fail "with all standard streams closed nothing is trained"

[ $failures -eq 0 ] && echo "shoal run: all well"
exit $((failures > 0))
