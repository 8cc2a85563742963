#!/usr/bin/env bash
# labels: script
# Strategy `pipeline` on tiny models: proven with stages on unequal numbers of ranks, tied weights, skips over stages,
# inside of data and tensor parallelism; every schedule gives the bits of gpipe; what plans say about clipping.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
prove() { "$shoal" check "$@" --dtype f64 --strategy "$strategy" >out 2>&1 || { cat out; fail "shoal check $* --strategy $strategy"; }; }
strategy=pipeline
prove gpt2-tiny -n 5 --batch 7 --mesh pipe=2,micro=3
prove t5-tiny -n 3 --batch 5 --mesh pipe=3,micro=4 --decide 'schedule train zb-h2' --clip-norm 1
prove bert-tiny -n 4 --batch 5 --mesh pipe=4,micro=4 --decide 'schedule train zb-h1'
prove unet-tiny -n 3
prove gpt2-tiny -n 3 --batch 5 --mesh pipe=2,micro=2 --decide 'stage block1/mlp/* pipe1'
prove gpt2-tiny -n 2 --layers 3 --batch 5 --mesh pipe=2,micro=2 --decide 'stage re:block[12]/.* pipe1' \
  --decide 'recompute re:block[01]/.* yes'
prove resnet-tiny -n 4 --mesh pipe=2,data=2
prove gpt2-tiny -n 3 --batch 5 --mesh pipe=3,micro=3 --decide 'balance train memory'
prove unet-tiny -n 2 --mesh pipe=2 --decide 'balance train boundary'
prove mlp-tiny -n 5 --mesh pipe=1,micro=3
# Values that skip stages where each mesh has two of them, and regions that go over both.
strategy=uniform-pipeline
"$shoal" check dlrm-tiny -n 3 --strategy uniform-pipeline --mesh pipe=3,micro=5 --decide 'schedule train zb-v' --dtype bf16 --mixed \
  >out 2>&1 || { cat out; fail "shoal check dlrm-tiny, zb-v on 3 meshes"; }
prove t5-tiny -n 5 --mesh pipe=5,micro=5 --no-tied --decide 'schedule train zb-v' --decide 'recompute * yes'
strategy=pipeline+zero1
prove llama-tiny -n 8 --batch 7 --mesh data=2,pipe=2,tensor=2,micro=3 --decide 'schedule train interleaved'
# A table of one's own, in JSON: backward split on one mesh as late as can be, four micro-batches.
cat >mine.json <<'JSON'
{"pipe0": "F0.0 F0.1 F0.2 F0.3 B0.0 B0.1 W0.0 B0.2 W0.1 B0.3 W0.2 W0.3",
 "pipe1": ["F1.0", "B1.0", "F1.1", "B1.1", "W1.0", "F1.2", "B1.2", "F1.3", "B1.3", "W1.1", "W1.2", "W1.3"]}
JSON
strategy=pipeline
prove gpt2-tiny -n 3 --batch 7 --mesh pipe=2,micro=4 --schedule mine.json
# Two stages on each mesh, and messages between them in another order than they are wanted in.
cat >lanes.json <<'JSON'
{"pipe0": "F0.0 F0.1 F2.0 F2.1 B2.0 B2.1 B0.0 B0.1", "pipe1": "F1.0 F3.0 F1.1 B3.0 F3.1 B1.0 B3.1 B1.1"}
JSON
prove gpt2-tiny -n 2 --layers 4 --batch 6 --mesh pipe=2,micro=2 --schedule lanes.json
strategy=auto
prove gpt2-tiny -n 4 --batch 7 --mesh pipe=2,data=2,micro=2

for model in gpt2-tiny mlp-tiny; do
  for kind in gpipe 1f1b 1f1b+1 interleaved zb-h1 zb-h2 zb-v mine.json; do
    "$shoal" train $model -n 2 --threads --batch 7 --steps 2 --log-every 1 --strategy pipeline --mesh pipe=2,micro=4 \
      --schedule $kind --cache '' $([ $model = mlp-tiny ] || echo --vocabulary 256 --no-tied --data "$SHOAL_SOURCE_DIR/README.md") \
      --save "$model-$kind" >out 2>&1 || { cat out; fail "$model does not train with $kind"; }
    cmp "$model-gpipe/step-2/model.safetensors" "$model-$kind/step-2/model.safetensors" ||
      fail "$kind gives other bits than gpipe on $model"
  done
done

# Several tensors over a border, one past a stage, a shared input and a tied weight: the t5 that is proven above has each.
"$shoal" plan t5-tiny -n 3 --batch 5 --strategy pipeline --mesh pipe=3,micro=4 --cache '' >out
for line in "stage 0 to 1, pipe0 to pipe1: 2 values, 1.2 KiB a step" "input 'labels' is read by stages 0 2" \
  "stage 0 to 2, pipe0 to pipe2: 1 value, 1.2 KiB a step, past what is between" "state 'wte/table' is read by stages 0 1 2"; do
  grep -qxF "  $line" out || { cat out; fail "the plan does not say: $line"; }
done
"$shoal" plan gpt2-tiny -n 2 --batch 8 --strategy pipeline --mesh pipe=2,micro=4 --decide 'schedule train zb-h2' --cache '' >out
grep -q 'zb-h2, 2 stages on 2 meshes, 4 micro-batches; bubble 0.0% if' out || { cat out; fail "zb-h2 has a bubble"; }
"$shoal" plan gpt2-tiny -n 2 --batch 8 --clip-norm 1 --strategy pipeline --mesh pipe=2,micro=4 \
  --decide 'schedule train zb-h2' --cache '' >out
grep -q 'bubble 7.7% if .*, and 0.0% without clipping: before the updates all meshes wait' out ||
  { cat out; fail "the plan does not say that clipping brings the bubble back"; }
