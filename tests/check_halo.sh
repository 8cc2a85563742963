#!/usr/bin/env bash
# labels: san
# Nodes that wait for halos, split by decision: proven equal to one device in parts of all kinds, with their gradients,
# in micro-batches, recomputed and put away; and trained to the same bits as whole.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

check() {  # WHAT ASSEMBLIES CASE: how many nodes the program splits
  echo "$1"
  "$shoal" check --case "$3" --verbose >out 2>&1 || { tail -5 out >&2; fail "$1"; }
  found=$(grep -c '^ *[0-9]* compute assemble ' out || true)
  [ "$found" = "$2" ] || fail "$1: $found nodes are split"
}
conv='conv(v0,s1){stride=[1,1], padding=[1,0], dilation=[1,1]}'
both='decide halo v1/conv split; decide halo grad/v1/conv/conv_grad_x split'

check "parts of 7 and 6 rows" 2 \
  "seed=11 ranks=2 sgd; i0=f64[2,1,13,3]; s0=f64[2,1,13,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=$conv; v2=tanh(v1); mesh space=2; pin i0 space:2; pin s0 space:2; $both"
check "parts of 15, 6 and 8 rows" 2 \
  "seed=12 ranks=3 adamw; i0=f64[2,1,29,3]; s0=f64[2,1,29,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=$conv; v2=tanh(v1); mesh space=3; pin i0 space:2(5,2,3); pin s0 space:2(5,2,3); $both"
check "a rank in the middle has nothing" 2 \
  "seed=19 ranks=3 sgd; i0=f64[2,1,29,3]; s0=f64[2,1,29,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=$conv; v2=tanh(v1); mesh space=3; pin i0 space:2(1,0,1); pin s0 space:2(1,0,1); $both"
check "every second row" 2 \
  "seed=13 ranks=3 sgd; i0=f64[2,1,29,3]; s0=f64[2,1,29,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=conv(v0,s1){stride=[2,1], padding=[1,0], dilation=[1,1]}; v2=tanh(v1); mesh space=3; pin i0 space:2; pin s0 space:2; pin v1/conv space:2; $both"
check "windows with gaps" 2 \
  "seed=14 ranks=2 sgd; i0=f64[2,1,29,3]; s0=f64[2,1,29,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=conv(v0,s1){stride=[1,1], padding=[2,0], dilation=[2,1]}; v2=tanh(v1); mesh space=2; pin i0 space:2; pin s0 space:2; $both"
check "windows without padding, of an even size, along columns" 1 \
  "seed=20 ranks=2 sgd; i0=f64[2,1,3,17]; s0=f64[2,1,3,17]; s1=f64[2,1,1,4]; v0=add(i0,s0); v1=conv(v0,s1){stride=[1,1], padding=[0,0], dilation=[1,1]}; v2=tanh(v1); mesh space=2; pin i0 space:3; pin s0 space:3; pin v1/conv space:3; decide halo v1/conv split"
check "a pool" 2 \
  'seed=15 ranks=2 sgd; i0=f64[2,1,29,3]; s0=f64[2,1,29,3]; v0=add(i0,s0); v1=max_pool(v0){kernel=[3,1], stride=[1,1], padding=[1,0]}; v2=tanh(v1); mesh space=2; pin i0 space:2; pin s0 space:2; decide halo v1/max_pool split; decide halo grad/* auto'
check "no row is inside" 0 \
  "seed=17 ranks=4 sgd; i0=f64[2,1,5,3]; s0=f64[2,1,5,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=$conv; v2=tanh(v1); mesh space=4; pin i0 space:2; pin s0 space:2; decide halo * auto"
check "more ranks than rows" 0 \
  "seed=18 ranks=5 sgd; i0=f64[2,1,3,3]; s0=f64[2,1,3,3]; s1=f64[2,1,3,1]; v0=add(i0,s0); v1=$conv; v2=tanh(v1); mesh space=5; pin i0 space:2; pin s0 space:2; decide halo * auto"
layers='i0=f64[5,1,13,3]; s0=f64[2,1,3,1]; s1=f64[2,2,3,1]; v0=tanh(i0); v1=conv(v0,s0){stride=[1,1], padding=[1,0], dilation=[1,1]}; v2=square(v1); v3=conv(v2,s1){stride=[1,1], padding=[1,0], dilation=[1,1]}; v4=tanh(v3)'
check "micro-batches of 3 and 2 images" 3 \
  "seed=16 ranks=2 sgd; $layers; mesh space=2,micro=2; pin i0 micro:0,space:2; pin t4 micro:0,space:2; decide halo * auto"
check "beside a second axis" 3 \
  "seed=21 ranks=4 sgd; $layers; mesh data=2,space=2; pin i0 data:0,space:2; decide halo * auto"
check "computed again in front of the backward pass" 3 \
  "seed=22 ranks=2 sgd blocks=3; $layers; v5=tanh(v4); mesh space=2,micro=2; pin i0 micro:0,space:2; pin t5 micro:0,space:2; decide halo b0/v1/conv split; decide halo grad/* auto; decide recompute b* yes; decide schedule train 1f1b"
check "put away in between" 3 \
  "seed=23 ranks=2 sgd; $layers; mesh space=2; pin i0 space:2; decide halo * auto; decide keep v1/conv host; decide keep v2/square file"

cnn="cnn --size 16 --batch 3 -n 3"
"$shoal" plan $cnn --strategy explicit --mesh space=3 --layouts x=space:2 -o whole.json >/dev/null
"$shoal" plan $cnn --strategy explicit --mesh space=3 --layouts x=space:2 --decide 'halo * auto' -o split.json >/dev/null
"$shoal" explain $cnn --plan split.json --pass halo >pass
grep -q '^  assemble   conv1/conv: ' pass || fail "no node of the model is split"
for plan in whole split; do
  "$shoal" train $cnn --plan $plan.json --threads --steps 3 --save $plan.saved >$plan.out 2>&1 || { cat $plan.out >&2; fail $plan; }
done
cmp whole.saved/step-3/model.safetensors split.saved/step-3/model.safetensors || fail "other bits"

echo "halos: all well"
