#!/usr/bin/env bash
# labels: slow
# The tiny preset of every family learns from the command line: on two ranks, from made-up data, or a text where the
# model says what follows, or what it does not see.
set -euo pipefail
shoal=${SHOAL_BIN:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
printf 'to be or not to be, that is the question. %.0s' {1..20} > "$folder/text"

for model in $("$shoal" models | awk '$1 ~ /-tiny$/ { print $1 }'); do
  data=()
  case $model in
    gpt2* | llama* | moe* | lstm* | bert*) data=(--data "$folder/text" --vocabulary 128) ;;
    t5*) data=(--data random) ;;
  esac
  "$shoal" train $model -n 2 --threads --steps 3 --held-out 6 --optimizer adam --clip-norm 1 "${data[@]}" > "$folder/out" 2>&1 ||
    { cat "$folder/out"; echo "FAILED: train $model"; exit 1; }
  grep -q '^report: loss' "$folder/out" || { cat "$folder/out"; echo "FAILED: no report of $model"; exit 1; }
  grep -qi 'nan\|inf' "$folder/out" && { cat "$folder/out"; echo "FAILED: $model"; exit 1; }
  echo "$model: $(tail -1 "$folder/out")"
done
