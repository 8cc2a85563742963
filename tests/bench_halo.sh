#!/usr/bin/env bash
# bench/halo, small: on three ranks overlapped and plain give the same bits (the program compares them), over a slow
# link and over memory, and the last line is the JSON object that is promised. No times are judged.
set -euo pipefail
cd "$(dirname "$0")/.."
[ -x "$SHOAL_BUILD_DIR/bench/halo_step" ] || { echo "bench_halo: halo_step is not built"; exit 1; }
RANKS=3 ROUNDS=2 SAMPLES=1 ROWS=50 COLUMNS=33 KERNEL=7 SHOAL_BIN=$SHOAL_BIN bench/halo | tee /dev/stderr |
  tail -1 | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["bench"] == "halo" and report["ratio"] > 0, report
assert [r["backend"] for r in report["results"]] == 3 * ["throttle"] + ["local"], report
assert all(r["rounds"] == 2 and r["recv_bytes"] in (3 * 33 * 4, 6 * 33 * 4) for r in report["results"]), report'
echo "bench_halo: ok"
