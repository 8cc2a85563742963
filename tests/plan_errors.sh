#!/usr/bin/env bash
# labels: san
# Plan files that are wrong: one clear error, the same on every rank, before anything runs. A resolved part of another
# model (a stale hash) is not used, and that is said.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
intent() { printf '{"shoal_plan": 1, "intent": {%s}}\n' "$1" >plan.json; }
# refused CODE MESSAGE HINT: by three ranks as processes, each with its own error
refused() {
  "$shoal" run -n 3 -- "$shoal" train mlp --plan plan.json --steps 1 >out 2>err && fail "plan.json is taken: $(cat plan.json)"
  for rank in 0 1 2; do
    sed -n "s/^\[$rank\] //p" err >err.$rank
    [ "$(grep -c '^shoal: error:' err.$rank)" = 1 ] || fail "rank $rank: not one error: $(cat err)"
    cmp -s err.0 err.$rank || fail "ranks differ: $(cat err)"
  done
  grep -qF "shoal: error: $1: " err.0 && grep -qF -- "$2" err.0 || fail "no $1 '$2' in: $(cat err.0)"
  grep '^hint: ' err.0 | grep -qF -- "$3" || [ -z "$3" ] || fail "no hint '$3' in: $(cat err.0)"
}

intent '"meshes": ["data=3"], "layouts": {"fc9/weight": "data:0"}'
refused NOT_FOUND "'fc9/weight' matches no state, input or value" "did you mean 'fc1/weight'?"
intent '"meshes": ["data=3"], "layouts": {"fc1/weight": "data:7"}'
refused INVALID_ARGUMENT "there is no dim 7" "from 0 to 1"
intent '"meshes": ["data=3"], "layouts": {"fc1/weight": "data:0,data:1"}'
refused INVALID_ARGUMENT "axis 'data'" ""
intent '"meshes": ["data=1,data=3"]'
refused INVALID_ARGUMENT "axis 'data' is there twice" ""
intent '"meshes": ["data=2,tensor=2"]'
refused INVALID_ARGUMENT "mesh 'data=2,tensor=2' has 4 ranks, the world has 3" "product of the axes"
intent '"meshes": ["data=3"], "layouts": {"fc1/weight": "tenser:0"}'
refused NOT_FOUND "no axis 'tenser'" ""
intent '"meshes": ["data=3"], "stages": {"fc1/*": "data"}'
refused INVALID_ARGUMENT "asks for mesh 'data'" ""
intent '"meshes": ["data=3"], "decisions": [{"kind": "schedule", "pattern": "train", "choice": "zb-h1"}]'
refused INVALID_ARGUMENT "leave nothing to schedule" "pipe=2"

"$shoal" plan mlp -n 3 --strategy data -o whole.json >out
for share in 3 2; do  # truncated, in the intent and in the resolved part
  head -c $(($(wc -c <whole.json) / share)) whole.json >plan.json
  refused INVALID_ARGUMENT "while planning: plan.json:" ""
done
# Whatever the resolved part says, a hash of another model keeps it from being used.
sed 's/"model": "[0-9a-f]*"/"model": "0123456789abcdef"/' whole.json >plan.json
! cmp -s whole.json plan.json || fail "a plan file has no hash of its model: $(head -c 400 whole.json)"
"$shoal" train mlp -n 3 --plan plan.json --steps 1 >out 2>err || { cat err; fail "a stale plan is not completed anew"; }
grep -q "made for another model.*completed anew" err || { cat err; fail "a stale hash is not said"; }
