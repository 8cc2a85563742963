#!/usr/bin/env bash
# bench/simulate, small: every case runs, is measured and simulated, and the last line is the JSON object that is
# promised. No times are judged.
set -euo pipefail
cd "$(dirname "$0")/.."
ROUNDS=1 STEPS=3 BANDWIDTH=2e8 SHOAL_BIN=$SHOAL_BIN bench/simulate | tee /dev/stderr | tail -1 | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["bench"] == "simulate" and 0 < report["ratio"] <= 1, report
assert [r["case"] for r in report["results"]] == ["data", "tensor", "stages"], report
assert all(r["simulated_ms"] > 0 and r["measured_ms"] > 0 for r in report["results"]), report'
echo "bench_simulate: ok"
