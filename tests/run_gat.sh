#!/usr/bin/env bash
# A graph attention network on ranks (examples/gat.c): the edges are cut, the softmax over the edges of a member is made in
# phases, the losses are those of one device, and it learns: at least 30 of 34 members are right.
set -euo pipefail
shoal=${SHOAL_BIN:?} gat=${SHOAL_BUILD_DIR:?}/examples/gat
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$gat" >"$work/one"
grep -Eq '^step 40 loss 0\.[01][0-9]*, 3[0-4] of 34 members right$' "$work/one" || { cat "$work/one"; exit 1; }
for n in 2 3 5; do
  "$shoal" run --no-prefix -n $n -- "$gat" first/segment_softmax >"$work/out"
  grep ^step "$work/out" | diff "$work/one" - || { echo "gat: $n ranks differ from one"; exit 1; }
  grep -q 'way: edge=composite' "$work/out" || { cat "$work/out"; exit 1; }
done
echo "gat: the same on 1 to 5 ranks"
