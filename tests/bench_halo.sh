#!/usr/bin/env bash
# bench/halo, small: split, joined and whole programs of the planned step pass the check, run and give the same losses;
# on three ranks the primitive gives the same bits overlapped and plain (the program compares them), over a slow link and
# over memory; and the last line is the JSON object that is promised. No times are judged.
set -euo pipefail
cd "$(dirname "$0")/.."
for program in halo_step halo_plan overlap_step; do
  [ -x "$SHOAL_BUILD_DIR/bench/$program" ] || { echo "bench_halo: $program is not built"; exit 1; }
done
ROUNDS=1 TURNS=1 STEPS=2 PAUSE_US=100 LAYERS=3 ONLY="2 ranks x1" SHOAL_BIN=$SHOAL_BIN bench/halo | tee /dev/stderr |
  tail -1 | python3 -c 'import json, sys
report = json.load(sys.stdin)
assert report["bench"] == "halo" and len(report["results"]) == 1 and report["primitive"] is None, report
# Whatever was measured: the simulator hides something.
result = report["results"][0]
assert 0 < result["allowed"] <= 1 and result["s_share"] > 0 and result["whole_ms"] > 0, report'
ONLY=primitive RANKS=3 PRIMITIVE_ROUNDS=2 SAMPLES=1 ROWS=50 COLUMNS=33 KERNEL=7 SHOAL_BIN=$SHOAL_BIN bench/halo |
  tee /dev/stderr | tail -1 | python3 -c 'import json, sys
report = json.load(sys.stdin)
primitive = report["primitive"]
assert report["bench"] == "halo" and report["results"] == [] and primitive["ratio"] > 0, report
assert [r["backend"] for r in primitive["results"]] == 3 * ["throttle"] + ["local"], report
assert all(r["rounds"] == 2 and r["recv_bytes"] in (3 * 33 * 4, 6 * 33 * 4) for r in primitive["results"]), report'
echo "bench_halo: ok"
