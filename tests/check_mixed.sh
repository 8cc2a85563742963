#!/usr/bin/env bash
# Mixed precision (parameters in f32, layers in bf16 or f16 with a loss scale) computes on 2 and 3 ranks what it
# computes on one: rows of the batch, cut weights, flat moments, micro-batches.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
sizes="--batch 5 --context 4 --vocabulary 11 --width 12 --heads 3 --layers 1"
proven gpt $sizes --mixed --dtype bf16 -n 2 --strategy tensor
proven gpt $sizes --mixed --dtype bf16 -n 3 --strategy data
proven gpt $sizes --mixed --dtype f16 -n 3 --strategy zero1
proven gpt $sizes --mixed --dtype f16 -n 3 --strategy tensor --mesh tensor=3,micro=2 --tied
# gradients through batch norms are large: parts of them overflow at the usual loss scale
proven resnet-tiny --mixed --dtype f16 -n 3 --strategy data
# what is trained and saved is f32
"$shoal" train mlp --mixed --dtype bf16 --steps 2 --threads --save "run" > "log"
grep -aq '"fc1/weight": {"dtype": "F32"' "run/step-2/"*.safetensors
"$shoal" eval mlp --mixed --dtype bf16 --threads --load "run" --eval-samples 64 | grep -q "^  loss"
# a type that cannot be mixed
if "$shoal" check mlp --mixed -n 2 --dtype f32 2>/dev/null; then exit 1; fi
