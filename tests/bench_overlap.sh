#!/usr/bin/env bash
# bench/overlap, small: its programs and their joined peers pass the check, run and give the same losses, and the last line is the
# JSON object that is promised. No times are judged.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=1 TURNS=1 STEPS=2 PAUSE_US=200 ONLY="2 ranks x1" SHOAL_BIN=$SHOAL_BIN bench/overlap | tee /dev/stderr | tail -1 | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["bench"] == "overlap" and len(report["results"]) == 3, report
# Whatever was measured: the simulator hides something, and nothing in the joined programs.
assert all(0.1 < r["allowed"] <= 1 and abs(r["allowed"] - r["s_share"]) < 0.02 for r in report["results"]), report'
echo "bench_overlap: ok"
