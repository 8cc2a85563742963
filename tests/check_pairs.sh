#!/usr/bin/env bash
# labels: san
# Attention over cut keys, merged by log-sum-exp, forward and backward, proven equal to the one op: on 2, 3 and 5 ranks
# with uneven and empty parts, in all float types, over two axes, in micro-batches, recomputed and offloaded; what
# completion makes of it; and what is refused.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
way='{k:2, v:2 -> out:lse, lse:lse}'

for ranks in 2 3 5; do
  check "every query sees every key, $ranks ranks" \
    "seed=1 ranks=$ranks sgd; i0=f64[1,2,3,4]; s0=f64[1,2,7,4]; s1=f64[1,2,7,4]; v0=attention(i0,s0,s1){causal=0}; mesh context=$ranks; pin s0 context:2; pin s1 context:2; decide way v0/attention context=$way"
  check "most queries see no key of some rank, $ranks ranks" \
    "seed=2 ranks=$ranks adamw; i0=f32[2,1,7,4]; s0=f32[2,1,7,4]; s1=f32[2,1,7,4]; v0=attention(i0,s0,s1){causal=1}; v1=tanh(v0); mesh context=$ranks; pin s0 context:2; pin s1 context:2; decide way v0/attention context=$way"
  check "fewer keys and queries than ranks, floats of 16 bits, $ranks ranks" \
    "seed=3 ranks=$ranks sgd; i0=bf16[1,1,1,4]; s0=bf16[1,1,2,4]; s1=bf16[1,1,2,4]; v0=attention(i0,s0,s1){causal=0}; mesh context=$ranks; pin s0 context:2; pin s1 context:2; decide way v0/attention context=$way"
done
check "keys are cut by two axes" \
  "seed=4 ranks=6 sgd; i0=f64[2,2,7,4]; s0=f64[2,2,17,4]; s1=f64[2,2,17,4]; v0=attention(i0,s0,s1){causal=0}; mesh a=2,b=3; pin s0 a:2,b:2; pin s1 a:2,b:2; decide way v0/attention a=$way; decide way v0/attention b=$way"
check "keys and heads" \
  "seed=5 ranks=6 sgd; i0=f64[2,3,7,4]; s0=f64[2,3,17,4]; s1=f64[2,3,17,4]; v0=attention(i0,s0,s1){causal=0}; mesh a=2,b=3; pin s0 a:2,b:1; pin s1 a:2,b:1; decide way v0/attention a=$way"
check "keys, batch and uneven micro-batches" \
  "seed=6 ranks=6 sgd; i0=f32[7,2,5,4]; i1=f32[7,2,7,4]; s0=f32[1,2,7,4]; v0=mul(i1,s0); v1=attention(i0,v0,v0){causal=0}; mesh data=2,context=3,micro=3; pin i0 micro:0,data:0; pin i1 micro:0,data:0; decide way v1/attention context=$way"
chain="i0=f64[2,2,7,4]; s0=f64[2,2,7,4]; s1=f64[2,2,7,4]; v0=attention(i0,s0,s1){causal=1}; v1=mul(v0,s0); v2=mul(v1,v0); mesh context=3; pin s0 context:2; pin s1 context:2; decide way v0/attention context=$way"
check "recomputed" "seed=7 ranks=3 sgd; $chain; decide recompute v0* yes"
check "offloaded, the host cannot read the device" \
  "seed=8 ranks=3 sgd opaque; $chain; decide keep v0/attention.out host; decide keep v0/attention.lse file"
check "computed in tiles of queries, which are gathered" \
  "seed=9 ranks=2 none; i0=f32[3,1,8,3]; i1=f32[3,1,8,3]; v0=attention(i0,i1,i1){causal=1}; mesh context=2; pin i0 context:2; decide way */attention context=$way; decide tile v* auto 2"
check "copies are gathered again" "seed=9 ranks=3 sgd; $chain; decide keep v0/attention.out redo"
check "merged in the graph, the parts on other ranks" \
  "seed=12 ranks=6 sgd; i0=f32[3,5]; s0=f32[3,5,4]; s1=f32[3,5]; v0=add(s1,i0); v1=lse_merge(s0,v0); v2=tanh(v1); mesh a=2,b=3; pin s0 b:0,a:1; pin s1 b:0; decide way v1/lse_merge b={value:0, lse:0 -> out:lse, lse:lse}"

# Few queries, many keys: completion finds it cheaper than gathering keys, and than the phases of the composite way.
few="seed=10 ranks=3 sgd; i0=f64[2,2,3,4]; s0=f64[2,2,17,4]; s1=f64[2,2,17,4]; v0=attention(i0,s0,s1){causal=0}; mesh context=3; pin s0 context:2; pin s1 context:2"
"$shoal" check --case "$few" --verbose >out
grep -q 'shoal.lse_merge' out || { cat out; fail "completion does not merge pairs"; }
[ "$(grep -c 'reshard (.*, .*) -> (.*, .*) channel .*,.* "v0/attention' out)" -ge 1 ] ||
  { cat out; fail "the pair does not go in one instruction"; }

gpt="gpt --batch 4 --context 6 --vocabulary 41 --width 12 --heads 3 --layers 2 -n 2 --mesh data=1,tensor=2,micro=2 --strategy tensor"
decide=(--decide "way *attn/attention tensor=$way")
"$shoal" check $gpt "${decide[@]}" --processes
"$shoal" check $gpt "${decide[@]}" --decide 'recompute block* yes' --decide 'schedule train 1f1b'
"$shoal" plan $gpt "${decide[@]}" -o plan.json >/dev/null
grep -q 'out:lse, lse:lse' plan.json || fail "the plan file does not say how pairs are merged"
"$shoal" check gpt --batch 4 --context 6 --vocabulary 41 --width 12 --heads 3 --layers 2 -n 2 --plan plan.json >out 2>&1 ||
  { cat out; fail "the plan file"; }

# Parts of micro-batches never meet.
"$shoal" check --case "seed=11 ranks=1 sgd; i0=f64[4,2,7,4]; s0=f64[4,2,7,4]; v0=attention(i0,s0,s0){causal=1}; mesh context=1,micro=2; decide way v0/attention micro=$way" >out 2>&1 || true
grep -q "merged over micro-batches" out || { cat out; fail "another error"; }
