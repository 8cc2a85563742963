#!/usr/bin/env bash
# `shoal check ops`: what the records of all native ops say, on their examples and a few other sizes, also under
# sanitizers. (check_ops_all.sh: 200 random sizes of each.) There are no threads in it: `make test` leaves it out under tsan.
# labels: san
set -euo pipefail
shapes=$([ -n "${SHOAL_SANITIZE:-}" ] && echo 1 || echo 8)
out=$("$SHOAL_BIN" check ops --shapes "$shapes" --seed 3) || { echo "$out"; exit 1; }
total=$(tail -1 <<<"$out")
grep -Eq '^[0-9]+ ops, 0 failed: [0-9]+ gradients, [0-9]+ decompositions, [0-9]+ dtypes, [0-9]+ shapes ' <<<"$total" || { echo "$out"; exit 1; }
# a line per op
[ "$(grep -c ' ok$' <<<"$out")" -eq "${total%% *}" ]
# Nothing that can be differentiated is left out: what has no gradient is a part of others' gradients, has no floats to
# differentiate by, or updates states.
refuse=$(sed -n '/(Optimizer updates)/d; s/^no gradient, refuse to be differentiated ([^)]*): //p' <<<"$out")
[ -z "$refuse" ] || { echo "without gradients: $refuse"; exit 1; }
# one op alone; the same seed draws the same sizes
"$SHOAL_BIN" check ops matmul --shapes 3 | grep -q '^1 ops, 0 failed'
[ "$("$SHOAL_BIN" check ops matmul --shapes 20 --seed 5)" = "$("$SHOAL_BIN" check ops matmul --shapes 20 --seed 5)" ]
status=0
error=$("$SHOAL_BIN" check ops matmull 2>&1) || status=$?
grep -q "shoal.matmul" <<<"$error" && [ "$status" -eq 3 ]
