#!/usr/bin/env bash
# labels: slow
# Clipping by one norm of all gradients, behind their reduction: the sum of squares and the largest element, on every kind of
# strategy. What several ranks hold alike counts once, what they hold in parts counts whole, also where a tied weight lies on
# two stages; f64 shows a norm that counts anything twice. Limits are below the norm, so that all gradients are scaled.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

clipped() {  # MODEL RANKS WORDS...
  for how in "--clip-norm 0.05" "--clip-max 0.001"; do
    proven "$1" -n "$2" --dtype f64 --steps 2 $how "${@:3}" || fail "$* $how"
  done
}
clipped gpt2-tiny 3 --strategy data
clipped gpt2-tiny 2 --strategy data --mesh data=2,micro=3
clipped gpt2-tiny 3 --strategy zero1
clipped gpt2-tiny 2 --strategy zero2 --mesh data=2,micro=2
clipped gpt2-tiny 5 --strategy zero3
clipped gpt2-tiny 3 --strategy tensor
clipped gpt2-tiny 2 --strategy sequence
clipped llama-tiny 2 --strategy context
clipped moe-gpt-tiny 3 --strategy data
clipped gpt2-tiny 2 --strategy pipeline --mesh pipe=2,micro=3
clipped gpt2-tiny 4 --strategy tensor+zero1 --mesh data=2,tensor=2
clipped gpt2-tiny 4 --strategy pipeline --mesh pipe=2,data=2,micro=2
clipped cnn-tiny 2 --strategy spatial
clipped cnn-tiny 3 --strategy channel
clipped gpt2-tiny 3 --strategy data --offload optimizer=host --recompute block
echo "clip: all well"
