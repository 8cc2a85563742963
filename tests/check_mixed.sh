#!/usr/bin/env bash
# Mixed precision (parameters in f32, layers in bf16 or f16 with a loss scale) computes on 2 and 3 ranks what it
# computes on one: rows of the batch, cut weights, flat moments, micro-batches.
set -euo pipefail
shoal=${SHOAL_BIN:?}
sizes="--batch 5 --context 4 --vocabulary 11 --width 12 --heads 3 --layers 1"
run() {
  echo "shoal check $*"
  "$shoal" check "$@" | tail -1 | grep -q "^1 passed, 0 failed, 0 refused"
}
run gpt $sizes --mixed --dtype bf16 -n 2 --strategy tensor
run gpt $sizes --mixed --dtype bf16 -n 3 --strategy data
run gpt $sizes --mixed --dtype f16 -n 3 --strategy zero1
run gpt $sizes --mixed --dtype f16 -n 3 --strategy tensor --mesh tensor=3,micro=2 --tied
# gradients through batch norms are large: parts of them overflow at the usual loss scale
run resnet-tiny --mixed --dtype f16 -n 3 --strategy data
# what is trained and saved is f32
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"$shoal" train mlp --mixed --dtype bf16 --steps 2 --threads --save "$folder/run" > "$folder/log"
grep -aq '"fc1/weight": {"dtype": "F32"' "$folder/run/step-2/"*.safetensors
"$shoal" eval mlp --mixed --dtype bf16 --threads --load "$folder/run" --eval-samples 64 | grep -q "^  loss"
# a type that cannot be mixed
if "$shoal" check mlp --mixed -n 2 --dtype f32 2>/dev/null; then exit 1; fi
