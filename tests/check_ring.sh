#!/usr/bin/env bash
# labels: san
# Ring attention, proven equal to one device: causal or not, with grouped queries, a window, dropout, masks that go round
# or are read in parts, uneven, chunked and empty parts, in all float types, on 2 to 5 ranks, in micro-batches, recomputed,
# beside other axes, in processes, from a plan file; and what is refused.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
way='{q:2 -> out:2, lse:2}'
back='{q:2, out:2, lse:2, dout:2 -> dq:2, dk:sum, dv:sum}'
ring=(--decide 'tile *attention ring' --steps 1)

cased() {  # WHAT SEED RANKS CASE
  check "$1" "seed=$2 ranks=$3 sgd; $4; decide way */attention context=$way; decide way *attention_grad context=$back; decide tile *attention* ring"
}
qkv='s0=f64[2,2,7,4]; s1=f64[2,2,11,4]; s2=f64[2,2,11,3]'
for ranks in 2 3 5; do
  cased "every query sees every key, $ranks ranks" 1 $ranks "$qkv; v0=attention(s0,s1,s2){causal=0}; v1=tanh(v0); mesh context=$ranks; pin s0 context:2; pin s1 context:2; pin s2 context:2"
done
cased "more ranks than keys" 2 5 \
  "s0=f32[1,1,7,4]; s1=f32[1,1,3,4]; s2=f32[1,1,3,4]; v0=attention(s0,s1,s2){causal=1}; v1=tanh(v0); mesh context=5; pin s0 context:2; pin s1 context:2; pin s2 context:2"
cased "parts by weights" 3 3 \
  "$qkv; v0=attention(s0,s1,s2){causal=1}; v1=tanh(v0); mesh context=3; pin s0 context:2; pin s1 context:2(1,0,3); pin s2 context:2(1,0,3)"
back='{q:2, out:2, lse:2, dout:2 -> dq:2, dk:sum, dv:sum, dbias:sum}'
cased "a bias that everybody has" 5 3 \
  "$qkv; s3=f64[1,2,1,11]; v0=attention(s0,s1,s2,s3){causal=1, with=\"bias\"}; v1=tanh(v0); mesh context=3; pin s0 context:2; pin s1 context:2; pin s2 context:2"

proven bert-tiny -n 3 --strategy context --set padded=yes --set layers=1 "${ring[@]}"  # its mask goes round, too
proven llama-tiny -n 2 --strategy context "${ring[@]}"
proven gpt2-tiny -n 3 --strategy context --dtype bf16 --set dropout=0.2 "${ring[@]}"
proven llama-tiny -n 4 --strategy zero1 --mesh data=2,context=2 --dtype f64 --set window=3 "${ring[@]}"
proven llama-tiny -n 5 --strategy context --set context=40 --set layers=1 "${ring[@]}"
proven gpt2-tiny -n 4 --strategy context --mesh context=2,tensor=2,micro=2 --set layers=1 --processes "${ring[@]}" --decide 'recompute block* yes'

"$shoal" plan llama-tiny -n 3 --strategy context --decide 'tile *attention ring' -o plan.json >/dev/null
grep -q '"ring"' plan.json || fail "the plan file does not say ring"
proven llama-tiny -n 3 --plan plan.json --steps 1
"$shoal" explain llama-tiny -n 3 --plan plan.json --pass ring >out
grep -q 'block0/attn/v/transpose\[context>2:2\]' out || { cat out; fail "nothing goes round"; }
grep -q 'block0/attn/v/transpose\[\]' out && { cat out; fail "values are gathered"; }
# What goes round is not gathered in tiles for another node.
proven gpt2-tiny -n 3 --strategy context --set layers=1 --dtype f64 --decide 'tile * auto 4' "${ring[@]}"

# What cannot go round is said, and `auto` gathers it.
"$shoal" check t5-tiny -n 2 --strategy context "${ring[@]}" >out 2>&1 && fail "a bias of relative positions goes round"
grep -q "'encoder/relative/transpose' is cut along context in another way" out || { cat out; fail "another reason"; }
"$shoal" check gpt2-tiny -n 2 --strategy data "${ring[@]}" >out 2>&1 && fail "a ring without keys"
grep -q "nothing is gathered in front of it" out || { cat out; fail "another reason"; }
proven t5-tiny -n 2 --strategy context --set layers=1 --decide 'tile *attention auto ring' --steps 1
