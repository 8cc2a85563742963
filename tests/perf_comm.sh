#!/usr/bin/env bash
# `shoal perf comm`: every collective prints a line, JSON parses, the table shows what was overridden, and
# wrong arguments are refused. No times are judged.
# labels: san
set -euo pipefail
fail() { echo "perf_comm: $*" >&2; exit 1; }
small=(--sizes 1K:64K:8 --samples 1 --sample-ms 0)

text=$("$SHOAL_BIN" perf comm -n 2 "${small[@]}")
for name in barrier broadcast reduce all_reduce gather scatter all_gather reduce_scatter all_to_all scan exscan; do
  grep -q "^$name " <<<"$text" || fail "no line for $name"
done
for options in "--threads" "--private" "--cold" "--dtype bf16"; do
  # shellcheck disable=SC2086
  "$SHOAL_BIN" perf comm -n 3 "${small[@]}" --collective all_reduce,all_to_all $options --format json |
    python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["ranks"] == 3 and len(report["results"]) == 6, report
assert all(row["us"] > 0 for row in report["results"])' || fail "JSON with $options"
done
SHOAL_COMM_TABLE='all_reduce,n<=4,bytes<=64K=bounce/32K' "$SHOAL_BIN" perf comm --table |
  head -1 | grep -q '^all_reduce,n<=4,bytes<=65536=bounce/32K   # SHOAL_COMM_TABLE$' || fail "the table"
refused() {
  local part=$1
  shift
  if message=$("$@" 2>&1); then fail "$* succeeded"; fi
  grep -q -- "$part" <<<"$message" || fail "$*: $message"
}
refused "'comm'" "$SHOAL_BIN" perf
refused "did you mean 'all_reduce'" "$SHOAL_BIN" perf comm --collective all_redusce
refused "no sizes" "$SHOAL_BIN" perf comm --sizes 4M:1K:2
refused "algorithms are" env SHOAL_COMM_TABLE='*=fast' "$SHOAL_BIN" perf comm -n 2 "${small[@]}"
echo "perf_comm: ok"
