#!/usr/bin/env bash
# labels: san
# Both zoo models on 1 to 5 ranks x every kind of plan x 12 heads, odd batch, odd widths, 3 micro-batches of
# unequal size, f64 and f32: `shoal check` compares every value. Without arguments a selection in which every
# pair of choices occurs; `all` runs everything (check_models_all.sh).
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
seed=${SHOAL_CHECK_SEED:-1}
echo "seed $seed"
count=0

sizes() {  # model
  case $1 in
    mlp) echo "--batch 7 --in-features 5 --hidden 9 --classes 3 --layers 2" ;;
    gpt) echo "--batch 7 --context 5 --vocabulary 11 --width 36 --heads 12 --layers 1 --dropout 0.1" ;;
    cnn) echo "--batch 3 --channels 2 --size 7 --classes 3" ;;
  esac
}

two_stages() {  # model, ranks, micro: the first half of the ranks has the first stage
  local a="data=1$3@0" b="data=1$3@0" last="head/*"
  case $2 in
    2) b="data=1$3@1" ;;
    3) b="data=2$3@1-2" ;;
    4) a="data=2$3@0-1" b="data=2$3@2-3" ;;
    5) a="data=2$3@0-1" b="data=3$3@2-4" ;;
  esac
  local inputs='"x": "a!micro:0,data:0", "y": "b!micro:0,data:0"' stages='"fc1/*": "a", "relu": "a", "fc*": "b"'
  if [ "$1" = gpt ]; then
    inputs='"ids": "a!micro:0,data:0", "labels": "b!micro:0,data:0"'
    stages='"wte/*": "a", "wpe/*": "a", "block0/attn/*": "a", "block0/mlp/*": "b", "ln_f/*": "b", "head/*": "b"'
  fi
  [ -n "$3" ] || inputs=${inputs//micro:0,/}
  cat > plan.json <<JSON
{"shoal_plan": 1, "intent": {"meshes": ["a!$a", "b!$b"], "layouts": {$inputs},
 "stages": {$stages, "cross_entropy*": "b"}}}
JSON
}

explicit() {  # model, ranks, micro: flags of an explicit plan
  local mesh="tensor=$2" batch=""
  [ "$2" = 4 ] && mesh="data=2,tensor=2" batch=",data:0"
  [ -n "$3" ] && batch="micro:0$batch" || batch=${batch#,}
  local layouts="x=$batch;y=$batch;fc1/weight=tensor:1/2;fc1/bias=tensor:0/2;fc1/weight#adamw.*=tensor:flat"
  [ "$1" = gpt ] && layouts="ids=$batch;labels=$batch;block*/attn/qkv/weight=tensor:1*3/3;block*/attn/qkv/bias=tensor:0*3/3;block*/attn/proj/weight=tensor:0/3;wte/table=tensor:0;head/weight=tensor:1"
  echo "--strategy explicit --mesh $mesh$3 --layouts $layouts"
}

run() {  # model, plan, ranks, micro, dtype, more flags
  local model=$1 plan=$2 ranks=$3 micro="" dtype=$5 flags
  [ "$4" = 3 ] && micro=",micro=3"
  shift 5
  case $plan in
    single) flags="--strategy single" ;;
    data) flags="--strategy data --mesh data=$ranks$micro" ;;
    tensor) flags="--strategy tensor --mesh tensor=$ranks$micro" ;;
    explicit) flags=$(explicit "$model" "$ranks" "$micro") ;;
    stages) two_stages "$model" "$ranks" "$micro" && flags="--plan plan.json" ;;
  esac
  # shellcheck disable=SC2046,SC2086
  if ! "$shoal" check "$model" $(sizes "$model") $flags -n "$ranks" --dtype "$dtype" --seed "$seed" "$@" \
      > out 2>&1; then
    echo "FAILED: shoal check $model $(sizes "$model") $flags -n $ranks --dtype $dtype --seed $seed $*"
    [ "$plan" = stages ] && cat plan.json
    cat out
    exit 1
  fi
  count=$((count + 1))
}

if [ "${1:-}" = all ]; then
  for dtype in f64 f32; do
    for micro in 1 3; do
      for ranks in 1 2 3 4 5; do
        for plan in data tensor explicit stages; do
          for model in mlp gpt; do run $model $plan $ranks $micro $dtype --direct; done
          run mlp $plan $ranks $micro $dtype --opaque --steps 4
        done
        [ $micro = 3 ] || run cnn data $ranks 1 $dtype
        [ $micro = 3 ] || run cnn tensor $ranks 1 $dtype --processes
      done
    done
    run mlp single 1 1 $dtype
    run gpt single 1 1 $dtype
  done
  run gpt tensor 2 1 bf16
  run mlp data 3 3 bf16
else
  run mlp single 1 1 f64
  run gpt data 2 3 f32 --direct
  run mlp tensor 3 3 f64 --opaque --steps 4
  run gpt explicit 4 1 f64 --direct
  run mlp stages 5 3 f32
  run gpt tensor 5 1 f64 --direct
  run mlp data 4 1 f32 --processes
  run gpt stages 3 3 f64 --direct --opaque
  run mlp explicit 2 3 f64 --steps 4
  run gpt single 1 1 f32 --direct
  run cnn data 2 1 f64 --opaque
  run cnn tensor 3 1 f32 --direct
  run mlp tensor 2 1 bf16
  run mlp stages 1 1 f64
fi
echo "$count checks passed"
