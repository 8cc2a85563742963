#!/usr/bin/env bash
# The first rows of the covering array of models, strategies, ranks, schedules, dtypes, backends and recipes
# (combinations.py); check_combinations_all.sh has all of it.
exec python3 "${SHOAL_SOURCE_DIR:?}/tests/combinations.py" --rows 8 --brief --only backend=threads
