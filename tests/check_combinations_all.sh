#!/usr/bin/env bash
# labels: slow
# Pairs of a model, a strategy, a number of ranks, a schedule, a dtype, a backend (Open MPI too), an optimizer, where memory
# lies, a number of micro-batches and a recipe are proven by `shoal check`, or refused for a stated reason: nearly all
# (FLOORS in combinations.py).
exec python3 "${SHOAL_SOURCE_DIR:?}/tests/combinations.py"
