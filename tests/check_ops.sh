#!/usr/bin/env bash
# Every way of every native op holds at other sizes than it was found on, cut in 2, 3, 5 and 7 parts: a few sizes of each
# op, also under sanitizers. (check_ops_all.sh: 200.)
# labels: san
set -euo pipefail
out=$("$SHOAL_BIN" check ops --shapes 8 --seed 3)
tail -1 <<<"$out" | grep -Eq '^[0-9]+ ops, 0 failed: [0-9]+ ways of [0-9]+ calls$' || { echo "$out"; exit 1; }
# a line per op, and one op alone
[ "$(grep -c ' ok$' <<<"$out")" -eq "$(tail -1 <<<"$out" | cut -d' ' -f1)" ]
"$SHOAL_BIN" check ops matmul --shapes 3 | grep -q '^1 ops, 0 failed'
# the same seed draws the same sizes
[ "$("$SHOAL_BIN" check ops matmul --shapes 20 --seed 5)" = "$("$SHOAL_BIN" check ops matmul --shapes 20 --seed 5)" ]
status=0
"$SHOAL_BIN" check ops matmull 2>/tmp/check_ops.$$ || status=$?
grep -q "shoal.matmul" /tmp/check_ops.$$ && [ "$status" -eq 3 ]
rm -f /tmp/check_ops.$$
