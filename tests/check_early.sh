#!/usr/bin/env bash
# Values that each micro-batch needs and that all of them together give, made of inputs alone: they are computed before
# the loop, on the whole batch. Uneven batches, ranks, stages, recomputation, chains, evaluation; proven equal to one
# device, and refused with the way out where a pin wants them cut.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

labels='i1=i32[7]<5; s0=f64[4,5]; v0=matmul(i0,s0); v1=label_weight(i1){classes=5, ignore=2, dtype=f64}; v2=reduce_sum(v1){dims=[0]}'
pins='pin i0 micro:0,data:0; pin i1 micro:0,data:0'
for micro in 2 3; do
  check "the mean over labels that are not ignored, $micro micro-batches" \
    "seed=9 ranks=2 none; i0=f64[7,4]; $labels; v3=cross_entropy(v0,i1,v2){ignore=2, with=\"total\"}; mesh data=2,micro=$micro; $pins"
  check "a factor that counts labels, in training and evaluation, $micro micro-batches" \
    "seed=9 ranks=2 adamw eval; i0=f64[7,4]; $labels; v3=mul(v0,v2); mesh data=2,micro=$micro; $pins"
  check "a chain to it, recomputed, $micro micro-batches" \
    "seed=6 ranks=2 sgd blocks=6; i0=f64[7,4]; $labels; v3=affine(v2){scale=0.5, shift=1}; v4=mul(v0,v3); v5=tanh(v4); mesh data=2,micro=$micro; $pins; decide recompute b* yes; decide schedule train 1f1b"
  check "copies of inputs are made again, $micro micro-batches" \
    "seed=9 ranks=2 sgd; i0=f64[7,4]; $labels; v3=mul(v0,v2); mesh data=2,micro=$micro; $pins; decide keep * redo"
  check "it comes from another stage, $micro micro-batches" \
    "seed=6 ranks=2 sgd; i0=f64[7,4]; $labels; v3=mul(v0,v0); v4=mul(v3,v2); mesh p!data=1,micro=$micro@0; mesh q!data=1,micro=$micro@1; pin i0 p!micro:0; pin i1 p!micro:0; pin t4 micro:0; stage v0/* p; stage v1/* p; stage v2/* p; stage v3/* q; stage v4/* q; stage loss/* q; decide schedule train 1f1b"
done
"$shoal" check --case "seed=9 ranks=2 adamw; i0=f64[7,4]; $labels; v3=mul(v0,v2); mesh data=2,micro=2; $pins; pin v1/label_weight micro:0" >out 2>&1 || true
grep -q "'v2/reduce_sum' is known only after all micro-batches" out && grep -q "hint: .*without micro" out || { cat out; fail "a pin along micro is not refused with the way out"; }
