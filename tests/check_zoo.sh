#!/usr/bin/env bash
# `shoal check` on the tiny preset of every family that `shoal models` lists: one case of each without arguments;
# `pairs`: families x ranks, and the settings that change a graph, in turn over strategies and dtypes
# (check_zoo_all.sh); `all`: everything, for people, in as many processes as there are cores; `one`: what `all` starts.
set -euo pipefail
shoal=${SHOAL_BIN:?}
seed=${SHOAL_CHECK_SEED:-1}
echo "seed $seed"
out=$(mktemp)
trap 'rm -f "$out"' EXIT
strategies=(data tensor zero1 pipeline auto)
dtypes=(f64 bf16)
count=0

run() {  # preset, ranks, strategy, dtype, more flags
  local model=$1 ranks=$2 strategy=$3 dtype=$4
  shift 4
  if ! "$shoal" check "$model" -n "$ranks" --strategy "$strategy" --dtype "$dtype" --seed "$seed" "$@" >"$out" 2>&1; then
    echo "FAILED: shoal check $model -n $ranks --strategy $strategy --dtype $dtype --seed $seed $*"
    cat "$out"
    exit 1
  fi
  count=$((count + 1))
}

# shellcheck disable=SC2207
tiny=($("$shoal" models | awk '$1 ~ /-tiny$/ { print $1 }'))
[ ${#tiny[@]} -ge 7 ] || { echo "FAILED: shoal models lists ${#tiny[@]} tiny presets"; exit 1; }
variants=(
  "gpt2-tiny --dropout 0.1 --no-tied --positions 7" "llama-tiny --tied --head-size 4"
  "moe-gpt-tiny --capacity 1" "moe-gpt-tiny --top-k 1 --balance 0" "bert-tiny --typed --padded --dropout 0.1 --masked 0"
  "bert-tiny --classes 3" "t5-tiny --gated --no-tied --padded --dropout 0.1"
  "resnet-tiny-deep" "unet-tiny --bilinear" "dlrm-tiny --hot 1" "wide-resnet-tiny --widen 2 --dropout 0.1"
  "vit-tiny --dropout 0.1" "gat-tiny --dropout 0.1 --layers 3" "lstm-tiny --dropout 0.1"
)
case ${1:-} in
  all)
    for model in "${tiny[@]}" "${variants[@]}"; do
      for ranks in 1 2 3 4 5; do
        for strategy in "${strategies[@]}"; do
          # shellcheck disable=SC2086
          for dtype in "${dtypes[@]}"; do set -- $model && echo "$1 $ranks $strategy $dtype ${*:2}"; done
        done
      done
    done | SHOAL_CHECK_SEED=$seed xargs -P "$(nproc)" -L1 "$0" one | awk '/^1 checks/ { n += 1; next } !/^seed/
      END { printf "%d checks passed\n", n }'
    exit
    ;;
  one) run "${@:2}" ;;
  pairs)
    for i in "${!tiny[@]}"; do
      for ranks in $((2 + i % 2)) $((4 + i % 2)); do
        run "${tiny[i]}" "$ranks" "${strategies[(i + ranks) % ${#strategies[@]}]}" "${dtypes[(i / 2 + ranks) % 2]}"
      done
    done
    for i in "${!variants[@]}"; do
      # shellcheck disable=SC2086
      set -- ${variants[i]} && run "$1" $((2 + i % 4)) "${strategies[i % ${#strategies[@]}]}" "${dtypes[(i / 2) % 2]}" "${@:2}"
    done
    ;;
  *)
    for i in "${!tiny[@]}"; do run "${tiny[i]}" $((2 + i % 3)) "${strategies[(i + i / 4) % ${#strategies[@]}]}" "${dtypes[i % 2]}" --steps 1; done
    ;;
esac
echo "$count checks passed"
