#!/usr/bin/env bash
# labels: san
# Gradients that each rank clips before ranks sum them: proven on every kind of strategy, said to be approximate wherever a
# plan is shown, kept by plan files, and refused where it cannot hold. Limits are below the norms of all ranks.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
mlp="mlp --batch 7 --in-features 5 --hidden 8 --classes 3 --layers 2 --dtype f64"

clipped() {  # RANKS WORDS...
  for how in "--clip-norm 0.01" "--clip-max 0.001"; do
    proven $mlp -n "$1" --steps 2 --clip-before $how "${@:2}" || fail "$* $how"
  done
}
clipped 3 --strategy data
clipped 2 --strategy data --mesh data=2,micro=3
clipped 3 --strategy zero1
clipped 3 --strategy zero3
clipped 2 --strategy zero2 --mesh data=2,micro=2 --decide 'sync * last'
clipped 4 --strategy hybrid-zero --mesh node=2,data=2
clipped 4 --strategy tensor+zero1 --mesh data=2,tensor=2
clipped 4 --strategy pipeline --mesh pipe=2,data=2,micro=2
clipped 4 --strategy pipeline --mesh pipe=2,data=2 --decide 'stage update/gradients/weighted_sum_2 pipe0'  # with its summands
clipped 2 --strategy tensor
clipped 3 --strategy data --decide 'sync * dtype=bf16 bucket=100'
clipped 3 --strategy zero1 --loss-scale 1024 --average 0.9
proven mlp --batch 7 -n 3 --strategy zero1 --mixed --dtype f16 --clip-norm 0.01 --clip-before
proven mlp --batch 7 -n 2 --strategy data --mesh data=2,micro=2 --mixed --dtype bf16 --clip-max 0.01 --clip-before

line='^approximate: gradients are clipped before 2 ranks sum them$'
words="mlp -n 2 --strategy zero1 --clip-norm 1 --clip-before"
for command in "plan -o plan.json" explain "train --threads --steps 1"; do
  "$shoal" $command $words >out 2>&1
  grep -q "$line" out || { cat out >&2; fail "$command does not say it"; }
done
python3 -c 'import json; assert json.load(open("plan.json"))["resolved"]["approximate"] == ["gradients are clipped before 2 ranks sum them"]'
"$shoal" explain mlp -n 2 --plan plan.json --clip-norm 1 --clip-before >out 2>&1
grep -q "$line" out && ! grep -q 'completed anew' out || { cat out >&2; fail "the file's plan is another"; }
proven mlp -n 2 --plan plan.json --clip-norm 1 --clip-before
"$shoal" explain $words --why update/gradients/summands >out
grep -qF 'way: data={x:sum -> out:0}' out && grep -q 'each rank clips its own gradients, before ranks sum them' out || fail "$(cat out)"
# A rank's summand is its sum over all micro-batches: it is made once, behind them.
"$shoal" explain gpt2-tiny -n 4 --strategy pipeline --mesh pipe=2,data=2,micro=2 --clip-norm 1 --clip-before \
  --why 'update/gradients/summands*' >out
[ "$(grep -cF 'way: micro=whole' out)" -eq 28 ] && ! grep -qF 'way: micro={' out || fail "$(head -20 out)"
for how in "-n 1" "-n 2 --strategy tensor" "-n 2 --strategy data"; do  # on one rank it is the same; and without
  before="--clip-before"
  [ "$how" = "-n 2 --strategy data" ] && before=""
  "$shoal" plan mlp $how --clip-norm 1 $before >out 2>&1
  if grep approximate out; then fail "$how $before is exact"; fi
done
# A row for each rank, and nothing is exchanged for the norms: the gradients, and the loss.
"$shoal" explain mlp -n 2 --strategy data --clip-norm 1 --clip-before --show communication >out
grep -qE '^  update +all_reduce +data +4 +4 ' out && grep -qE '^  forward +all_reduce +data +1 ' out || fail "$(cat out)"
[ "$(grep -cE 'all_reduce +data +[0-9]' out)" -eq 2 ] || fail "$(cat out)"
# Norms and factors go from stage to stage, gradients do not, also where they are clipped behind the sum.
for before in "" --clip-before; do
  "$shoal" check $mlp -n 4 --strategy pipeline --mesh pipe=2,data=2 --clip-norm 1 $before --verbose >out 2>&1
  grep -q 'receive reshard' out || fail "$(tail -3 out)"
  if grep -E 'receive reshard.*"update/gradients/(mul|summands|weighted_sum)' out; then fail "gradients change stages"; fi
done
# What is clipped is still the gradient: it goes where the moments are, in the type that is asked for.
"$shoal" explain $words --compress bf16 --show communication >out
grep -qE '^  update +reduce_scatter +data +4 +4 +9610$' out || fail "$(cat out)"
"$shoal" plan $words --compress bf16 >out 2>&1
grep -q "$line" out && grep -q '^approximate: the gradients of 4 states are summed over ranks in bf16$' out || fail "$(cat out)"

"$shoal" rules summands >out
grep -qF 'claimed, where gradients are clipped before they are summed: {x:sum -> out:0}' out || fail "$(cat out)"

refused() {  # ERROR WORDS...
  "$shoal" explain "${@:2}" >out 2>&1 && fail "$* is not refused"
  grep -qE -- "$1" out || { cat out >&2; fail "$*: refused for another reason"; }
}
refused 'clip-before has no effect without --clip-norm or --clip-max' mlp -n 2 --clip-before
refused 'is exchanged in every micro-batch \(sync each\)' mlp -n 2 --strategy zero2 --mesh data=2,micro=2 --clip-norm 1 --clip-before
refused 'each rank clips its own summand' $words --decide 'way update/gradients/summands data=whole'
refused 'holds only along axes that cut the batch' mlp -n 2 --strategy tensor --clip-norm 1 --clip-before \
  --decide 'way update/gradients/summands tensor={x:sum -> out:0}'
cat >stages.json <<'JSON'
{"shoal_plan": 1, "intent": {"meshes": ["a!data=1,micro=2@0", "b!data=2,micro=2@1-2"],
 "layouts": {"x": "a!micro:0,data:0", "y": "b!micro:0,data:0"}, "stages": {"fc1/*": "a", "fc2/*": "b", "cross_entropy*": "b"}}}
JSON
refused "have 1 and 2 ranks with a summand" mlp -n 3 --plan stages.json --clip-norm 1 --clip-before
# A file that somebody edited: the way of a summand is no matter of taste.
sed 's/data={x:sum -> out:0}/data={x:0 -> out:1}/' plan.json >edited.json
cmp -s plan.json edited.json && fail "nothing was edited"
refused 'must have the way .x:sum -> out:0. along data' mlp -n 2 --plan edited.json --clip-norm 1 --clip-before
echo "clip before: all well"
