#!/usr/bin/env bash
# labels: san
# A table and a vocabulary cut over 4 ranks: indices fall in every rank's part, so that a kernel that is wrong about
# indices of other ranks is noticed. The parts are larger than those that rule discovery tries.
set -euo pipefail
"${SHOAL_BIN:?}" check gpt -n 4 --strategy tensor --seed 1 --direct
