#!/usr/bin/env bash
# labels: san
# Buckets by decision: reductions of gradients and gathers of states in fewer collectives, proven equal, and trained
# to the same bits as one by one. On 1 to 5 ranks, with values that are uneven, and empty on some of them.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
mlp="--batch 10 --in-features 7 --hidden 9 --classes 3 --layers 2"

decide() {  # FILE CHOICE: the plan of made.json with a decision about all states
  python3 - "$1" "$2" <<'PYTHON'
import json, sys
plan = json.load(open("made.json"))
plan.pop("resolved")
plan["intent"]["decisions"] = [{"kind": "sync", "pattern": "*", "choice": sys.argv[2]}]
json.dump(plan, open(sys.argv[1], "w"))
PYTHON
}
reshards() { "$shoal" explain mlp $mlp -n "$1" --plan "$2" --pass buckets | sed -n '/^graph train/,/^graph eval/p' |
  grep -c '^  reshard' || true; }

case_of() {  # RANKS MESH LAYOUTS BUCKET LEAST: how many reshards it spares at least
  "$shoal" plan mlp $mlp -n "$1" --strategy explicit --mesh "$2" --layouts "$3" -o made.json >/dev/null
  decide bucket.json "bucket=$4"
  for plan in made bucket; do
    rm -rf $plan.saved
    "$shoal" train mlp $mlp -n "$1" --plan $plan.json --threads --steps 3 --save $plan.saved >$plan.out 2>&1 ||
      { cat $plan.out >&2; fail "$*: $plan"; }
  done
  cmp made.saved/step-3/model.safetensors bucket.saved/step-3/model.safetensors || fail "$*: other bits"
  "$shoal" check mlp $mlp -n "$1" --plan bucket.json >check.out 2>&1 || { cat check.out >&2; fail "$*: not proven"; }
  spared=$(($(reshards "$1" made.json) - $(reshards "$1" bucket.json)))
  [ $spared -ge "$5" ] || fail "$*: spared $spared"
}

case_of 1 data=1 'x=data:0;y=data:0' 1K 0
case_of 2 data=2 'x=data:0;y=data:0' 1M 3
case_of 3 data=3 'x=data:0;y=data:0' 100 1
case_of 4 data=2,tensor=2 'x=data:0;y=data:0;fc1/weight=tensor:1;fc1/bias=tensor:0' mine 3
case_of 5 data=5 '*=data:flat;x=data:0;y=data:0;step=;lr=' 1M 4
case_of 3 data=3,micro=2 '*#adamw.*=data:flat;x=micro:0,data:0;y=micro:0,data:0' 300 1
"$shoal" explain mlp $mlp -n 3 --plan bucket.json --pass buckets >out
grep -q 'bucket of [2-9], [0-9]* bytes, closed: .* did not fit' out || fail "no bucket was full"
grep -q 'bucket of [2-9], [0-9]* bytes, closed: the segment ended' out || fail "no bucket ended with the segment"
echo "buckets: all well"
