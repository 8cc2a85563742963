#!/usr/bin/env bash
# Recipes compute on several ranks what they compute on one: a schedule, groups, one norm, averages and Muon with cut
# weights, rows, flat moments, micro-batches and two stages. A run that is resumed goes on with its schedule.
set -euo pipefail
shoal=${SHOAL_BIN:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
sizes="--batch 5 --context 4 --vocabulary 11 --width 12 --heads 3 --layers 1 --dtype f64"
rate="--schedule one_cycle --schedule-steps 8 --weight-decay 0.1"
run() {
  echo "shoal check $*"
  "$shoal" check gpt $sizes $rate "$@" | tail -1 | grep -q "^1 passed, 0 failed, 0 refused"
}
run -n 3 --strategy tensor --mesh tensor=3,micro=2 --clip-norm 0.5 --group '*/bias:rate=0.5,decay=0'
run -n 2 --strategy zero1 --optimizer muon --average 0.9 --group 'ln_*:optimizer=sgd'
cat > "$folder/plan.json" <<'JSON'
{"shoal_plan": 1, "intent": {"meshes": ["a!data=1,micro=2@0", "b!data=2,micro=2@1-2"],
 "layouts": {"ids": "a!micro:0,data:0", "labels": "b!micro:0,data:0"},
 "stages": {"wte/*": "a", "wpe/*": "a", "block0/attn/*": "a", "block0/mlp/*": "b", "ln_f/*": "b", "head/*": "b",
            "cross_entropy*": "b"}}}
JSON
run -n 3 --plan "$folder/plan.json" --clip-norm 0.5 --average 0.9

train() { "$shoal" train mlp --threads --schedule wsd --schedule-steps 8 --warmup 2 --log-every 1 "$@"; }
train --steps 8 > "$folder/whole"
train --steps 4 --save "$folder/run" > /dev/null
train --steps 8 --save "$folder/run" --resume > "$folder/rest"
last() { sed -n 's/^step 8 loss \([0-9.]*\) .* rate \([^ ]*\).*/\1 \2/p' "$1"; }
[ -n "$(last "$folder/whole")" ]
diff <(last "$folder/whole") <(last "$folder/rest")

# with --average a run is evaluated with averaged weights, and so is what it saved
"$shoal" train mlp --threads --steps 20 --average 0.8 --held-out 0.01 --save "$folder/average" > "$folder/log"
during=$(sed -n 's/^eval step 20 loss \([0-9.]*\) .*/\1/p' "$folder/log")
loss() { "$shoal" eval mlp --threads --load "$folder/average" --held-out 0.01 "$@" | awk '$1 == "loss" { printf "%.4f", $2 }'; }
[ -n "$during" ] && [ "$(loss --average 0.8)" = "$during" ] && [ "$(loss)" != "$during" ]
