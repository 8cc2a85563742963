#!/usr/bin/env bash
# Programs that know nothing of `throttle`, with every world throttled by SHOAL_COMM_THROTTLE: the suites of
# exchanges, asynchronous collectives, windows and reports; `shoal train` through a slow link, with a message
# delayed, and with one lost. No times are judged but those the link must have.
# labels: san
set -euo pipefail
fail() { echo "comm_throttled: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

cat >tiny.yml <<'EOF'
shoal_cluster: 1
link: {latency: 1.0e-6, bandwidth: 1.0e9}
EOF
for suite in exchange async window report; do
  test=$SHOAL_BUILD_DIR/tests/comm_${suite}_test
  [ -x "$test" ] || continue # without cmocka
  SHOAL_COMM_THROTTLE=tiny.yml "$test" >"$suite.log" 2>&1 || { tail -30 "$suite.log"; fail "comm_${suite}_test"; }
done

# The link's bandwidth is a ceiling: 1 MiB at 100 MB/s takes 10.5 ms.
cat >slow.yml <<'EOF'
shoal_cluster: 1
link: {latency: 1.0e-4, bandwidth: 1.0e8}
EOF
SHOAL_COMM_THROTTLE=slow.yml "$SHOAL_BIN" perf comm -n 2 --sizes 1M --samples 3 --sample-ms 0 \
  --collective all_gather,broadcast --format json |
  python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["backend"] == "throttle", report
for row in report["results"]: assert row["us"] > {"broadcast": 10400, "all_gather": 5200}[row["collective"]], row' ||
  fail "perf comm is faster than the link"

train=("$SHOAL_BIN" train mlp -n 2 --steps 3 --log-every 1 --strategy data --lr 0.05)
"${train[@]}" >plain.txt 2>plain.err || { cat plain.err; fail "train"; }
losses() { grep -oE 'step [0-9]+.*loss [0-9.]+' "$1" || { cat "$1"; fail "no losses in $1"; }; }
losses plain.txt >plain.losses
for settings in slow.yml slow.yml,delay=9@1:80ms,delay=12@0:30ms; do
  SHOAL_COMM_THROTTLE=$settings "${train[@]}" >slow.txt 2>slow.err || { cat slow.err; fail "train with $settings"; }
  losses slow.txt | diff plain.losses - || fail "other losses with $settings"
done
if SHOAL_COMM_THROTTLE=lose=9@1 SHOAL_TIMEOUT_MS=1000 "${train[@]}" >lost.txt 2>&1; then
  fail "a message was lost, and nobody noticed"
fi
grep -qE "MISMATCH.* expects |DEADLINE.* waits to " lost.txt || { cat lost.txt; fail "no named error"; }

refused() {
  local settings=$1 part=$2
  if SHOAL_COMM_THROTTLE=$settings "${train[@]}" >refused.txt 2>&1; then fail "$settings was taken"; fi
  grep -qF -- "$part" refused.txt || { cat refused.txt; fail "$settings: no '$part'"; }
}
refused nowhere.yml nowhere.yml
refused tiny.yml,loose=3@1 "did you mean 'lose'"
printf 'shoal_cluster: 1\nlink:\n  latency: 1.0e-6\n  bandwith: 1.0e9\n' >typo.yml
refused typo.yml "did you mean 'bandwidth'"
echo "comm_throttled: ok"
