#!/usr/bin/env bash
# `shoal slurm-watch` against a private Slurm: a job that fails twice is submitted three times; the limit
# holds; a cancelled job stays cancelled; a job Slurm does not take is an error.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/slurm_lib.sh"
slurm_up 1 4
watch() { timeout -k 5 120 "$shoal" slurm-watch --poll 0.2 --backoff 0.2 "$@" >"$work/out" 2>"$work/err" </dev/null; }
show() { cat "$work/out" "$work/err" >&2; }

cat >"$work/flaky.sbatch" <<X
#!/bin/sh
#SBATCH -n 1 -o $work/flaky.out --open-mode=append
echo "attempt \$SHOAL_ATTEMPT \$1"
[ "\$SHOAL_ATTEMPT" -ge 2 ] || exit 3
X
watch "$work/flaky.sbatch" word || { fail "a job that succeeds at last"; show; }
[ "$(cat "$work/flaky.out")" = "$(printf 'attempt %d word\n' 0 1 2)" ] || { fail "attempts"; cat "$work/flaky.out" >&2; }
grep -q 'ended as FAILED, exit code 3:0; again in 0.2 s' "$work/out" || { fail "first pause"; show; }
grep -q 'again in 0.4 s' "$work/out" || { fail "second pause"; show; }
grep -q 'COMPLETED' "$work/out" || { fail "no end"; show; }

watch --retries 1 "$work/flaky.sbatch" && fail "the limit does not hold"
grep -q 'ABORTED: job [0-9]* ended as FAILED, exit code 3:0, after 2 attempts' "$work/err" || { fail "limit"; show; }

printf '#!/bin/sh\nsleep 60\n' >"$work/long.sbatch"
: >"$work/out"
(cd "$work" && watch "$work/long.sbatch") &
for _ in $(seq 100); do grep -q RUNNING "$work/out" 2>/dev/null && break; sleep 0.1; done
timeout 5 scancel "$(grep -om1 'job [0-9]*' "$work/out" | cut -d' ' -f2)"
wait $! && fail "a cancelled job is a success"
grep -q 'was cancelled' "$work/err" || { fail "cancelled"; show; }
[ "$(grep -c submitted "$work/out")" -eq 1 ] || { fail "a cancelled job is submitted again"; show; }

watch "$work/none.sbatch" && fail "a job that is not there"
grep -q "sbatch did not take" "$work/err" || { fail "sbatch's error"; show; }
[ $failures -eq 0 ] && echo "slurm-watch: all well"
exit $((failures > 0))
