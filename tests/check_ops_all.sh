#!/usr/bin/env bash
# Every way of every native op over 200 sizes, cut in 2, 3, 5 and 7 parts of random lengths.
# labels: slow
set -euo pipefail
"$SHOAL_BIN" check ops --seed 1 | tail -3
