#!/usr/bin/env bash
# labels: slow
# 500 random cases from a fixed seed must exercise every op, its gradient and a cut of it, every reshard kind and feature,
# and every way that occurs often; every mutation of the programs of a dozen plans must be noticed, or be explained.
set -euo pipefail
"${SHOAL_BIN:?}" check --random 500 --seed 2 --assert-coverage
"$SHOAL_BIN" check --mutate
