#!/usr/bin/env bash
# labels: san
# `shoal train --times-out` writes what `shoal simulate --times` reads: the simulated computation is the measured one,
# to the digit, and links are the measured ones. No wall time is looked at.
set -euo pipefail
work=$(mktemp -d) && trap 'rm -rf "$work"' EXIT && cd "$work"
shoal=$SHOAL_BIN
fail() { echo "FAILED $*"; exit 1; }

train="--strategy data --mesh data=2,micro=3 --steps 3 --log-every 100"
for mode in 0 1; do
  SHOAL_DEVICE_CONCURRENT=$mode "$shoal" train mlp -n 2 $train --times-out times.json >out || fail "train: $(cat out)"
  "$shoal" simulate mlp -n 2 --strategy data --mesh data=2,micro=3 --times times.json --trace trace.json \
    --format json >simulated.json
  MODE=$mode python3 - <<'PYTHON'
import json, math, os
times = json.load(open("times.json"))
simulated = json.load(open("simulated.json"))
trace = json.load(open("trace.json"))["traceEvents"]
assert times["shoal_times"] == 1 and times["graph"] == "train" and times["ranks"] == 2 and times["steps"] == 2, times
assert times["overlap"] == (os.environ["MODE"] == "1"), times["overlap"]
assert times["link"]["latency"] > 0 and times["link"]["bandwidth"] > 0 and times["step_seconds"] > 0
entries = times["instructions"]
assert len(entries) > 20 and all(e["seconds"] >= 0 for e in entries)
spans = [t for t in trace if t["ph"] == "X"]
measured = sum(e["seconds"] * (3 if "loop" in e["segment"] else 1) for e in entries)
group = simulated["groups"][0]
busy = group["compute_seconds"] + group["copy_seconds"]
assert math.isclose(busy, measured, rel_tol=1e-9), (busy, measured)
assert group["comm_seconds"] > 0 and simulated["seconds"] >= group["compute_seconds"]
# One queue for all: everything follows one another, nothing is hidden, and runs in a row are like one alone. Several:
# nothing takes longer than that.
total = busy + group["comm_seconds"] + group["waiting_seconds"]
step, steps = simulated["step_seconds"], 1 + max(t["args"]["step"] for t in spans)
if os.environ["MODE"] == "0":
    assert math.isclose(simulated["seconds"], total, rel_tol=1e-9), (simulated["seconds"], total)
    assert steps == 1 and math.isclose(step, simulated["seconds"], rel_tol=1e-9), (steps, step, simulated["seconds"])
    assert math.isclose(group["hidden_share"], 0, abs_tol=1e-9), group
else:
    assert simulated["seconds"] <= total * (1 + 1e-9)
    assert steps == 3 and group["compute_seconds"] <= step * (1 + 1e-9) and step <= total * (1 + 1e-9), (steps, step)
exposed, communication = group["exposed_seconds"], group["communication_seconds"]
assert 0 <= exposed <= communication and group["comm_seconds"] <= communication * (1 + 1e-9)
assert math.isclose(group["hidden_share"], 1 - exposed / communication, abs_tol=1e-9), group
assert len(spans) > 10 and max(t["ts"] + t["dur"] for t in spans) <= steps * total * 1e6 * (1 + 1e-9)
PYTHON
done

# One rank has no link; a file that cannot be written is an error before the first step.
"$shoal" train mlp --steps 3 --times-out one.json >/dev/null
grep -q '"link"' one.json && fail "one rank has a link"
"$shoal" simulate mlp --times one.json >/dev/null
"$shoal" train mlp --steps 2 --times-out no/such/folder.json >out 2>err && fail "written to nowhere"
grep -q "step" out && fail "it is found out after the last step: $(cat out)"
grep -q "no/such" err || fail "$(cat err)"
