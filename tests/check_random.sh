#!/usr/bin/env bash
# labels: san
# Random models x meshes x plans from a fixed seed (`make soak` draws fresh ones); and programs broken on purpose, a
# sample of them.
set -euo pipefail
"${SHOAL_BIN:?}" check --random 50 --seed 2
"$SHOAL_BIN" check --mutate --stride 61 | tail -1
