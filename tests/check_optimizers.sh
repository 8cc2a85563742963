#!/usr/bin/env bash
# Every optimizer, with and without what all of them can do besides (one norm of all gradients, averages, a loss scale),
# proven equal to one device: data, tensor and flat cuts, micro-batches, two stages.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

model="i0=f64[6,4]; s0=f64[4,5]; s1=f64[5]; s2=f64[5,3]; v0=matmul(i0,s0); v1=add(v0,s1); v2=tanh(v1); v3=matmul(v2,s2)"
for optimizer in sgd momentum adamw adam lion lamb adafactor muon; do
  for besides in "" " clipped averaged scaled"; do
    case "$optimizer$besides" in sgd | momentum | adamw) continue ;; esac # other checks have these
    head="ranks=2 $optimizer$besides steps=4; $model"
    check "$optimizer$besides, weights cut along columns and rows" \
      "seed=3 $head; mesh tensor=2; pin s0 tensor:1; pin s1 tensor:0; pin s2 tensor:0"
    check "$optimizer$besides, flat weights" \
      "seed=4 $head; mesh data=2; pin i0 data:0; pin s0 data:flat; pin s1 data:flat; pin s2 data:flat"
    check "$optimizer$besides, micro-batches" \
      "seed=5 $head; mesh data=2,micro=3; pin i0 micro:0,data:0"
    check "$optimizer$besides, two stages" \
      "seed=6 $head; mesh p!data=1,micro=2@0; mesh q!data=1,micro=2@1; pin i0 p!micro:0; pin t3 micro:0; stage v0/* p; stage v1/* p; stage v2/* p; stage v3/* q; stage loss/* q; decide schedule train 1f1b"
  done
done
check "one norm of gradients that are made row by row in micro-batches" \
  "seed=7 ranks=2 sgd clipped averaged scaled; i0=f64[6,4]; s0=f64[6,4]; v0=mul(i0,s0); mesh data=2,micro=3; pin i0 micro:0,data:0; pin t0 micro:0,data:0"
