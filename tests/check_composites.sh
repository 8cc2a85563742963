#!/usr/bin/env bash
# labels: san
# Composite ways, proven equal to the one op: found by completion and asked for, forward and backward, on 2, 3 and 5
# ranks with uneven and empty parts; and a plan file that holds one.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

for ranks in 2 3 5; do
  check "softmax along the cut dim, $ranks ranks" \
    "seed=1 ranks=$ranks sgd; i0=f64[3,17]; s0=f64[3,17]; v0=mul(i0,s0); v1=softmax(v0){axis=1}; v2=mul(v1,s0); mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:1"
  check "a loss over a cut vocabulary, $ranks ranks" \
    "seed=2 ranks=$ranks adamw; i0=f64[7,4]; i1=i32[7]<31; s0=f64[4,31]; v0=matmul(i0,s0); v1=cross_entropy(v0,i1); mesh tensor=$ranks; pin s0 tensor:1"
  check "a norm along the cut dim, $ranks ranks" \
    "seed=3 ranks=$ranks sgd; i0=f64[2,23]; s0=f64[23]; s1=f64[23]; s2=f64[2,23]; v0=add(i0,s2); v1=layer_norm(v0,s0,s1){eps=0.1}; mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:0; pin s1 tensor:0; pin s2 tensor:1"
  check "attention over cut keys, asked for, $ranks ranks" \
    "seed=4 ranks=$ranks sgd; i0=f64[1,2,3,4]; s0=f64[1,2,7,4]; s1=f64[1,2,7,4]; v0=attention(i0,s0,s1){causal=0}; mesh tensor=$ranks; pin s0 tensor:2; pin s1 tensor:2; decide way v0/attention tensor=composite; decide way grad/v0/attention/attention_grad tensor=composite"
  check "the index of the largest over a cut vocabulary, and how many are right, $ranks ranks" \
    "seed=6 ranks=$ranks sgd; i0=f64[7,4]; i1=i64[7]<31; s0=f64[4,31]; v0=matmul(i0,s0); v1=argmax(v0){axis=1}; v2=equal(v1,i1); v3=cast(v2){dtype=f64}; v4=reduce_mean(v3){dims=[0]}; v5=argmin(v0){axis=1, keep=1}; mesh tensor=$ranks; pin s0 tensor:1; decide way v1/argmax tensor=composite; decide way v5/argmin tensor=composite"
  check "variance and norm along the cut dim, $ranks ranks" \
    "seed=7 ranks=$ranks sgd; i0=f64[3,17]; s0=f64[3,17]; v0=mul(i0,s0); v1=variance(v0){dims=[1]}; v2=norm(v0){dims=[1]}; v3=norm(v0){dims=[1], p=3}; v4=mul(v1,v2); v5=mul(v4,v3); mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:1; decide way v1/variance tensor=composite; decide way v2/norm tensor=composite; decide way v3/norm tensor=composite"
  check "log-softmax and RMS norm along the cut dim, $ranks ranks" \
    "seed=8 ranks=$ranks sgd; i0=f64[2,23]; s0=f64[23]; s1=f64[2,23]; v0=add(i0,s1); v1=rms_norm(v0,s0){eps=0.1, with=\"gamma\"}; v2=rms_norm(v0); v3=log_softmax(v0){axis=1}; mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:0; pin s1 tensor:1; decide way v1/rms_norm tensor=composite; decide way v2/rms_norm tensor=composite; decide way v3/log_softmax tensor=composite"
done
check "half a number of ranks has nothing, and floats of 16 bits" \
  "seed=5 ranks=5 none; i0=bf16[4,2]; s0=bf16[4,2]; v0=mul(i0,s0); v1=softmax(v0){axis=1}; v2=log_sum_exp(v0){axis=1}; mesh tensor=5; pin i0 tensor:1; pin s0 tensor:1; decide way v1/softmax tensor=composite; decide way v2/log_sum_exp tensor=composite"

gpt="--batch 4 --context 6 --vocabulary 41 --width 12 --heads 3 --layers 1"
"$shoal" plan gpt $gpt -n 3 --strategy tensor -o made.json >/dev/null
grep -q '"node": "cross_entropy", "choice": "tensor=composite", "by": "completion"' made.json ||
  fail "the loss of a gpt is not composite"
"$shoal" check gpt $gpt -n 3 --plan made.json --threads >out 2>&1 || { cat out; fail "the plan file of a composite way"; }
! grep -q 'completed anew' out || fail "the plan file was not taken as it is"
"$shoal" check gpt $gpt -n 6 --strategy tensor --mesh data=2,tensor=3,micro=2 --threads >out 2>&1 ||
  { cat out; fail "batch and classes cut, in micro-batches"; }
# The model stays what it is.
"$shoal" explain gpt $gpt -n 3 --plan made.json --graph >cut.txt
"$shoal" explain gpt $gpt -n 1 --graph >whole.txt
cmp cut.txt whole.txt || fail "a composite way changed the model"
# An entry that cannot hold is refused.
sed 's/"node": "cross_entropy", "choice": "tensor=composite"/"node": "head\/einsum", "choice": "tensor=composite"/' \
  made.json >edited.json
if "$shoal" explain gpt $gpt -n 3 --plan edited.json >out 2>&1; then fail "a product is composite"; fi
grep -q "has no phases" out || { cat out; fail "another error"; }
