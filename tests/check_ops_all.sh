#!/usr/bin/env bash
# Every way of every native op over 200 random sizes, cut in 2, 3, 5 and 7 parts of random lengths, and gradients,
# decompositions, dtypes, NaN and in-place runs on many of them.
# labels: slow
set -euo pipefail
out=$("$SHOAL_BIN" check ops --seed 1) || { grep -A1 FAILED <<<"$out"; exit 1; }
tail -1 <<<"$out"
