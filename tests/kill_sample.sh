#!/usr/bin/env bash
# A few of kill_ranks.sh, for every build.
# labels: san
. "${SHOAL_SOURCE_DIR:?}/tests/kill_lib.sh"
kill_ranks --count 20 --kinds ranks,ranks,launcher,ends
