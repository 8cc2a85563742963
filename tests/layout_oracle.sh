#!/usr/bin/env bash
# labels: slow
# 20,000 random reshards each: a rank's links, kinds, cells and paths against the transfers of all
# ranks. The unit tests look at the first 2,000.
set -euo pipefail
export SHOAL_TEST_CASES=20000
for test in layout_links_test layout_cells_test layout_path_test; do
  "$SHOAL_BUILD_DIR/tests/$test"
done
