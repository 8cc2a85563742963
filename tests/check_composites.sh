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
    "seed=3 ranks=$ranks sgd; i0=f64[2,23]; s0=f64[23]; s1=f64[23]; s2=f64[2,23]; v0=add(i0,s2); v1=layer_norm(v0,s0,s1){eps=0.1, with=\"gamma,beta\"}; mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:0; pin s1 tensor:0; pin s2 tensor:1"
  check "attention over cut keys, asked for, $ranks ranks" \
    "seed=4 ranks=$ranks sgd; i0=f64[1,2,3,4]; s0=f64[1,2,7,4]; s1=f64[1,2,7,4]; v0=attention(i0,s0,s1){causal=0}; mesh tensor=$ranks; pin s0 tensor:2; pin s1 tensor:2; decide way v0/attention tensor=composite; decide way grad/v0/attention/attention_grad tensor=composite"
  check "the index of the largest over a cut vocabulary, and how many are right, $ranks ranks" \
    "seed=6 ranks=$ranks none; i0=f64[7,4]; i1=i64[7]<31; s0=f64[4,31]; v0=matmul(i0,s0); v1=argmax(v0){axis=1}; v2=equal(v1,i1); v3=cast(v2){dtype=f64}; v4=reduce_mean(v3){dims=[0]}; v5=argmin(v0){axis=1, keep=1}; mesh tensor=$ranks; pin s0 tensor:1; decide way v1/argmax tensor=composite; decide way v5/argmin tensor=composite"
  check "variance and norm along the cut dim, $ranks ranks" \
    "seed=7 ranks=$ranks sgd; i0=f64[3,17]; s0=f64[3,17]; v0=mul(i0,s0); v1=variance(v0){dims=[1]}; v2=norm(v0){dims=[1]}; v3=norm(v0){dims=[1], p=3}; v4=mul(v1,v2); v5=mul(v4,v3); mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:1; decide way v1/variance tensor=composite; decide way v2/norm tensor=composite; decide way v3/norm tensor=composite"
  check "layer norm without gamma or beta, over two dims, $ranks ranks" \
    "seed=13 ranks=$ranks sgd; i0=f64[2,3,17]; s0=f64[2,3,17]; s1=f64[17]; s2=f64[3,17]; v0=add(i0,s0); v1=layer_norm(v0){eps=0.1}; v2=layer_norm(v0,s1){eps=0.1, with=\"beta\"}; v3=layer_norm(v0,s2,s2){eps=0.1, dims=2, with=\"gamma,beta\"}; v4=layer_norm(v0){eps=0.1, dims=2}; mesh tensor=$ranks; pin i0 tensor:2; pin s0 tensor:2; pin s1 tensor:0; pin s2 tensor:1; decide way v1/layer_norm tensor=composite; decide way v2/layer_norm tensor=composite; decide way v3/layer_norm tensor=composite; decide way v4/layer_norm tensor=composite"
  check "log-sum-exp over two dims, $ranks ranks" \
    "seed=14 ranks=$ranks sgd; i0=f64[2,3,17]; s0=f64[2,3,17]; v0=add(i0,s0); v1=log_sum_exp(v0){dims=[0,2]}; v2=log_sum_exp(v0){dims=[2,1], keep=1}; mesh tensor=$ranks; pin i0 tensor:2; pin s0 tensor:2; decide way v1/log_sum_exp tensor=composite; decide way v2/log_sum_exp tensor=composite"
  check "log-softmax and RMS norm along the cut dim, $ranks ranks" \
    "seed=8 ranks=$ranks sgd; i0=f64[2,23]; s0=f64[23]; s1=f64[2,23]; v0=add(i0,s1); v1=rms_norm(v0,s0){eps=0.1, with=\"gamma\"}; v2=rms_norm(v0); v3=log_softmax(v0){axis=1}; mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:0; pin s1 tensor:1; decide way v1/rms_norm tensor=composite; decide way v2/rms_norm tensor=composite; decide way v3/log_softmax tensor=composite"
  check "draws from cut classes, $ranks ranks" \
    "seed=9 ranks=$ranks sgd; i0=f64[3,17]; s0=f64[3,17]; v0=mul(i0,s0); v1=multinomial(v0,step){samples=1, key=3}; v2=multinomial(v0,step){samples=3, key=4}; v3=multinomial(v0,step){samples=2, key=5, replacement=1}; v4=take_along(v0,v1){axis=1}; v5=take_along(v0,v2){axis=1}; v6=take_along(v0,v3){axis=1}; mesh tensor=$ranks; pin i0 tensor:1; pin s0 tensor:1; decide way v1/multinomial tensor=composite; decide way v2/multinomial tensor=composite; decide way v3/multinomial tensor=composite"
  check "LAMB's norms of a cut parameter, $ranks ranks" \
    "seed=10 ranks=$ranks none; i0=f64[3,17]; i1=f64[3,17]; s0=f64[3,17]; v0=mul(i0,s0); v1=square(i1); v2=full(){shape=[], value=0.1, dtype=f64}; v3=lamb_update(v0,i0,i1,v1,v2,step){beta1=0.9, beta2=0.99, eps=0.001, weight_decay=0.1}; mesh tensor=$ranks; pin i0 tensor:1; pin i1 tensor:1; pin s0 tensor:1; decide way v3/lamb_update tensor=composite"
  check "Adafactor of a matrix cut along rows and a cut vector, $ranks ranks" \
    "seed=11 ranks=$ranks none; i0=f64[17,3]; i1=f64[17]; i2=f64[3]; s0=f64[17,3]; v0=mul(i0,s0); v1=square(i1); v2=square(i2); v3=full(){shape=[], value=0.1, dtype=f64}; v4=adafactor_update(v0,i0,v1,v2,v3,step){weight_decay=0.1}; v5=adafactor_vector_update(i1,v1,v1,v3,step); mesh tensor=$ranks; pin i0 tensor:0; pin i1 tensor:0; pin s0 tensor:0; decide way v4/adafactor_update tensor=composite; decide way v5/adafactor_vector_update tensor=composite"
  check "Muon of matrices cut along rows and columns, $ranks ranks" \
    "seed=12 ranks=$ranks none; i0=f64[17,3]; i1=f64[3,17]; s0=f64[17,3]; s1=f64[3,17]; v0=mul(i0,s0); v1=mul(i1,s1); v2=full(){shape=[], value=0.1, dtype=f64}; v3=muon_update(v0,i0,i0,v2){steps=3}; v4=muon_update(v1,i1,i1,v2); v5=muon_update(v1,i1,i1,v2){nesterov=0, adjust=\"none\", steps=1}; mesh tensor=$ranks; pin i0 tensor:0; pin i1 tensor:0; pin s0 tensor:0; pin s1 tensor:0; decide way v3/muon_update tensor=composite; decide way v4/muon_update tensor=composite; decide way v5/muon_update tensor=composite"
  check "a loss over a cut vocabulary with ignored labels, class weights and smoothing, $ranks ranks" \
    "seed=9 ranks=$ranks adamw; i0=f64[7,4]; i1=i32[7]<31; i2=f64[31]+; s0=f64[4,31]; v0=matmul(i0,s0); v1=label_weight(i1){classes=31, dtype=f64}; v2=reduce_sum(v1){dims=[0]}; v3=cross_entropy(v0,i1,i2,v2){smoothing=0.1, with=\"weights,total\"}; mesh tensor=$ranks; pin s0 tensor:1; pin i2 tensor:0; decide way v3/cross_entropy tensor=composite; decide way grad/v3/cross_entropy/cross_entropy_grad tensor=composite"
  check "attention over cut keys with grouped queries, bias, mask and window, in parts, $ranks ranks" \
    "seed=10 ranks=$ranks sgd; i0=f64[1,4,3,4]; i1=bool[1,1,3,7]; s0=f64[1,2,7,4]; s1=f64[1,2,7,4]; s2=f64[1,4,1,7]; v0=attention(i0,s0,s1,s2,i1){causal=0, groups=2, window=4, with=\"bias,mask\"}; mesh tensor=$ranks; pin s0 tensor:2; pin s1 tensor:2; decide way v0/attention tensor=composite; decide way grad/v0/attention/attention_grad tensor=composite"
  check "the same with dropout, merged by log-sum-exp, $ranks ranks" \
    "seed=11 ranks=$ranks sgd; i0=f64[1,4,3,4]; i1=bool[1,1,3,7]; i2=i64[]<9; s0=f64[1,2,7,4]; s1=f64[1,2,7,4]; s2=f64[1,4,1,7]; v0=attention(i0,s0,s1,s2,i1,i2){causal=0, groups=2, window=4, p=0.3, key=5, with=\"bias,mask,step\"}; mesh tensor=$ranks; pin s0 tensor:2; pin s1 tensor:2; decide way v0/attention tensor={k:2, v:2, bias:3, mask:3 -> out:lse, lse:lse}"
  check "heads of grouped queries with those of their keys, $ranks ranks" \
    "seed=12 ranks=$ranks sgd; i0=f64[2,6,3,4]; i1=i64[]<9; s0=f64[2,3,7,4]; s1=f64[2,3,7,4]; v0=attention(i0,s0,s1,i1){causal=1, groups=2, p=0.3, key=5, with=\"step\"}; mesh tensor=$ranks; decide way v0/attention tensor={q:1/2, k:1, v:1 -> out:1/2, lse:1/2}"
  check "running sums along the cut dim, both ways, with and without the element itself, $ranks ranks" \
    "seed=15 ranks=$ranks sgd; i0=f64[3,17]; i1=f64[2,40,3]; s0=f64[3,17]; s1=f64[2,40,3]; v0=mul(i0,s0); v1=cumsum(v0){axis=1}; v2=cumsum(v0){axis=1, reverse=1, exclusive=1}; v3=mul(v1,v2); v4=mul(i1,s1); v5=cumsum(v4){axis=1, exclusive=1}; v6=cumsum(v5){axis=-2, reverse=1}; mesh tensor=$ranks; pin i0 tensor:1; pin i1 tensor:1; pin s0 tensor:1; pin s1 tensor:1; decide way v*/cumsum tensor=composite"
  check "running sums of integers that wrap, $ranks ranks" \
    "seed=16 ranks=$ranks none; i0=u8[3,37]<200; i1=i64[45,2]<9; s0=f64[2]; v0=cumsum(i0){axis=1}; v1=cumsum(i1){axis=0, exclusive=1}; v2=cast(v1){dtype=f64}; v3=mul(v2,s0); mesh tensor=$ranks; pin i0 tensor:1; pin i1 tensor:0; decide way v*/cumsum tensor=composite"
  check "batch norm over a cut batch and over cut rows, group norm over cut rows, $ranks ranks" \
    "seed=13 ranks=$ranks sgd; i0=f64[7,4,6]; s0=f64[4]; s1=f64[4]; s2=f64[7,4,6]; v0=add(i0,s2); v1=batch_norm(v0,s0,s1){eps=0.1, with=\"gamma,beta\"}; v2=batch_norm(v1); v3=group_norm(v2,s0){groups=2, with=\"gamma\"}; mesh data=$ranks; pin i0 data:0; pin s2 data:0; decide way v1/batch_norm data=composite; decide way v2/batch_norm data=composite; decide way grad/v1/batch_norm/batch_norm_grad data=composite"
done
check "half a number of ranks has nothing, and floats of 16 bits" \
  "seed=5 ranks=5 none; i0=bf16[4,2]; s0=bf16[4,2]; v0=mul(i0,s0); v1=softmax(v0){axis=1}; v2=log_sum_exp(v0){dims=[1]}; mesh tensor=5; pin i0 tensor:1; pin s0 tensor:1; decide way v1/softmax tensor=composite; decide way v2/log_sum_exp tensor=composite"

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
