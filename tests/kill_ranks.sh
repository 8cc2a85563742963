#!/usr/bin/env bash
# `shoal run` and 260 killed ranks, at random moments and at every kind of point: survivors end by themselves
# with an error that names the dead rank; nothing is left. The launcher killed or interrupted; other ends.
# (With kill_mpi.sh and kill_srun.sh: 300.)
# labels: slow
. "${SHOAL_SOURCE_DIR:?}/tests/kill_lib.sh"
kill_ranks --count 260 && kill_ranks --count 60 --kinds launcher && kill_ranks --count 60 --kinds ends
