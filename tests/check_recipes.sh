#!/usr/bin/env bash
# Recipes compute on several ranks what they compute on one: a schedule, groups, one norm, averages and Muon with cut
# weights, rows, flat moments, micro-batches and two stages. A run that is resumed goes on with its schedule.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
sizes="--batch 5 --context 4 --vocabulary 11 --width 12 --heads 3 --layers 1 --dtype f64"
rate="--lr-schedule one_cycle --lr-schedule-steps 8 --weight-decay 0.1"
run() { proven gpt $sizes $rate "$@"; }
run -n 3 --strategy tensor --mesh tensor=3,micro=2 --clip-norm 0.5 --group '*/bias:lr_factor=0.5,weight_decay=0'
run -n 2 --strategy zero1 --optimizer muon --average 0.9 --group 'ln_*:optimizer=sgd'
cat > plan.json <<'JSON'
{"shoal_plan": 1, "intent": {"meshes": ["a!data=1,micro=2@0", "b!data=2,micro=2@1-2"],
 "layouts": {"ids": "a!micro:0,data:0", "labels": "b!micro:0,data:0"},
 "stages": {"wte/*": "a", "wpe/*": "a", "block0/attn/*": "a", "block0/mlp/*": "b", "ln_f/*": "b", "head/*": "b",
            "cross_entropy*": "b"}}}
JSON
run -n 3 --plan plan.json --clip-norm 0.5 --average 0.9

train() { "$shoal" train mlp --threads --lr-schedule wsd --lr-schedule-steps 8 --warmup 2 --log-every 1 "$@"; }
train --steps 8 > "whole"
train --steps 4 --save "run" > /dev/null
train --steps 8 --save "run" --resume > "rest"
last() { sed -n 's/^step 8 loss \([0-9.]*\) .* rate \([^ ]*\).*/\1 \2/p' "$1"; }
[ -n "$(last "whole")" ]
diff <(last "whole") <(last "rest")

# with --average a run is evaluated with averaged weights, and so is what it saved
"$shoal" train mlp --threads --steps 20 --average 0.8 --held-out 0.01 --save "average" > "log"
during=$(sed -n 's/^eval step 20 loss \([0-9.]*\) .*/\1/p' "log")
loss() { "$shoal" eval mlp --threads --load "average" --held-out 0.01 "$@" 2> "said" | awk '$1 == "loss" { printf "%.4f", $2 }'; }
[ -n "$during" ]
[ "$(loss -n 2)" = "$during" ]
grep -q "with the moving averages of 4 parameters" "said"
[ "$(loss --raw)" != "$during" ]
grep -q "with 4 parameters as they are" "said"
