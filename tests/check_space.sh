#!/usr/bin/env bash
# Strategies `spatial`, `channel` and `context`, proven on models of the zoo: parts of unequal size, ranks that have no
# rows, several axes, half precision. `all`: every model on 2 to 5 ranks, for people.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
count=0

run() {  # STRATEGY RANKS MESH DTYPE MODEL [FLAGS]
  local strategy=$1 ranks=$2 mesh=$3 dtype=$4
  shift 4
  "$shoal" check "$@" -n "$ranks" --strategy "$strategy" --mesh "$mesh" --dtype "$dtype" --steps 1 >out 2>&1 ||
    { tail -5 out >&2; fail "shoal check $* -n $ranks --strategy $strategy --mesh $mesh --dtype $dtype"; }
  count=$((count + 1))
}

if [ "${1:-}" = all ]; then
  for n in 2 3 4 5; do
    for dtype in f64 bf16; do
      for model in cnn "cnn --size 13 --batch 3" resnet-tiny resnet-tiny-deep wide-resnet-tiny unet-tiny \
        "unet-tiny --bilinear" gan-tiny; do
        # shellcheck disable=SC2086
        run spatial $n height=$n $dtype $model && run channel $n channel=$n $dtype $model
      done
    done
  done
  for n in 2 3 4 5; do
    for dtype in f64 bf16; do
      for model in gpt2-tiny llama-tiny "gpt2-tiny --context 7 --dropout 0.1" "llama-tiny --context 24 --key-heads 1" \
        moe-gpt-tiny bert-tiny t5-tiny vit-tiny "gpt2-tiny --context 32 --heads 2"; do
        # shellcheck disable=SC2086
        run context $n context=$n $dtype $model
      done
    done
  done
  run context 8 data=2,context=2,tensor=2 f64 llama-tiny --heads 8 --key-heads 4 --width 32
  run context 8 data=2,context=2,tensor=2,micro=2 bf16 gpt2-tiny --batch 5
  for model in cnn resnet-tiny wide-resnet-tiny unet-tiny gan-tiny; do
    run spatial 4 height=2,width=2 f64 $model
    run spatial 4 data=2,height=2 bf16 $model
    run spatial+channel 4 height=2,channel=2 f64 $model
  done
else
  run spatial 2 height=2,micro=2 bf16 cnn-tiny
  run spatial 5 height=5 f64 cnn --size 13 --batch 3
  run spatial 4 height=2,width=2 f64 gan-tiny
  run spatial+channel 6 height=3,channel=2 f64 cnn --size 11
  run channel 3 channel=3 bf16 unet-tiny
  run context 3 context=3 bf16 gpt2-tiny --dropout 0.1
  run context 4 context=2,tensor=2 f64 llama-tiny --heads 4 --key-heads 2 --width 16
  run context 6 data=2,context=3,micro=2 f64 llama-tiny --context 24 --key-heads 1 --layers 1
fi
echo "$count checks passed"
