#!/usr/bin/env bash
# labels: san
# Products in tiles beside their gathers and reductions, by decision: proven equal to one device in parts of all kinds,
# with their gradients, in micro-batches, scheduled and recomputed; and trained to the same bits as in one piece.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

check() {  # WHAT RESHARDS CASE: how many reshards of tiles the program of the first rank's class has
  echo "$1"
  "$shoal" check --case "$3" --verbose >out 2>&1 || { tail -5 out >&2; fail "$1"; }
  grep -q '^1 passed' out || { tail -5 out >&2; fail "$1"; }
  found=$(grep -c '^ *channel [0-9]* .*tile(' out || true)
  [ "$found" = "$2" ] || fail "$1: $found reshards of tiles"
}
ways='decide way v1/matmul tensor={b:1 -> out:1}; decide way v3/matmul tensor={a:1, b:0 -> out:sum}; decide way v4/tanh tensor={x:0 -> out:0}'
chain='v0=tanh(i0); v1=matmul(v0,s0); v2=gelu(v1); v3=matmul(v2,s1); v4=tanh(v3)'
both='decide tile v1/matmul 3; decide tile v3/matmul 3'

check "parts of 6 rows" 6 \
  "seed=11 ranks=2 sgd; i0=f64[12,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=2; pin i0 tensor:0; pin v4/tanh tensor:0; $ways; $both"
check "parts of 5 and 4 rows, with gradients" 12 \
  "seed=12 ranks=2 adamw; i0=f64[9,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=2; pin i0 tensor:0; pin v4/tanh tensor:0; $ways; decide tile * auto 3"
check "parts of 7, 0 and 4 rows" 6 \
  "seed=13 ranks=3 sgd; i0=f64[11,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=3; pin i0 tensor:0(2,0,1); pin v4/tanh tensor:0(2,0,1); $ways; $both"
check "more tiles than a rank has rows: a share is empty" 6 \
  "seed=14 ranks=2 sgd; i0=f64[5,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=2; pin i0 tensor:0; pin v4/tanh tensor:0; $ways; decide tile v1/matmul 7; decide tile v3/matmul 7"
check "one row on each rank: columns are tiled" 2 \
  "seed=15 ranks=2 sgd; i0=f64[2,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=2; pin i0 tensor:0; pin v4/tanh tensor:0; $ways; decide tile v* auto 2"
check "a sum that all ranks get" 3 \
  "seed=16 ranks=2 sgd; i0=f64[7,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh tensor=2; decide way v1/matmul tensor={b:1 -> out:1}; decide way v3/matmul tensor={a:1, b:0 -> out:sum}; decide tile v3/matmul 3"
check "rows that another axis cuts, too" 6 \
  "seed=17 ranks=4 sgd; i0=f64[24,4]; s0=f64[4,6]; s1=f64[6,4]; $chain; mesh data=2,tensor=2; pin i0 data:0,tensor:0; pin v4/tanh data:0,tensor:0; $ways; $both"
batch='i0=f64[5,7,3]; s0=f64[3,4]; s1=f64[4,3]; v0=tanh(i0); v1=einsum(v0,s0){equation="btc,cn->btn"}; v2=gelu(v1); v3=einsum(v2,s1){equation="btc,cn->btn"}; v4=tanh(v3)'
einsums='decide way *v1/einsum tensor={b:1 -> out:2}; decide way *v3/einsum tensor={a:2, b:0 -> out:sum}'
check "micro-batches of 3 and 2" 6 \
  "seed=18 ranks=2 sgd; $batch; mesh tensor=2,micro=2; pin i0 micro:0,tensor:1; pin v4/tanh micro:0,tensor:1; $einsums; decide tile * auto 2"
check "a schedule, computed again" 10 \
  "seed=19 ranks=2 sgd blocks=3; $batch; v5=tanh(v4); mesh tensor=2,micro=2; pin i0 micro:0,tensor:1; pin *v4/tanh micro:0,tensor:1; $einsums; decide tile * auto 2; decide recompute b* yes; decide schedule train 1f1b"

mlp="mlp --batch 25 -n 2"
layouts='x=tensor:0;fc1/weight=tensor:1;fc2/weight=tensor:0;fc2/add=tensor:0'
way='way fc2/einsum tensor={a:1, b:0 -> out:sum}'
plan=("$shoal" plan $mlp --strategy explicit --mesh tensor=2 --layouts "$layouts" --decide "$way")
"${plan[@]}" -o whole.json >/dev/null
"${plan[@]}" --decide 'tile * auto 4' -o tiles.json >/dev/null
"$shoal" explain $mlp --plan tiles.json --pass tile >pass
grep -q '^  reshard    x: x\[tile(3/4):0\*(13,12),tensor:0\] -> x\[tile(3/4):0\*(13,12)\]' pass || fail "no tile is gathered"
grep -q '^  assemble   fc2/einsum: ' pass || fail "no product is assembled"
for plan in whole tiles; do
  "$shoal" train $mlp --plan $plan.json --threads --dtype f64 --steps 3 --save $plan.saved >$plan.out 2>&1 || { cat $plan.out >&2; fail $plan; }
done
cmp whole.saved/step-3/model.safetensors tiles.saved/step-3/model.safetensors || fail "other bits"

echo "tiles: all well"
