#!/usr/bin/env bash
# Rows of bounded sizes between processes (examples/experts.c): the losses of one device on 1 to 6 ranks, fewer bytes than
# there is room for, and a row too many is the same error on every rank.
set -euo pipefail
shoal=${SHOAL_BIN:?} experts=${SHOAL_BUILD_DIR:?}/examples/experts
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$experts" | grep loss >"$work/one"
for n in 2 3 6; do
  "$shoal" run --no-prefix -n $n -- "$experts" >"$work/out"
  grep loss "$work/out" | diff "$work/one" -
  bytes=$(sed -n "s/^rank 0 of $n sent \([0-9]*\) bytes of tokens$/\1/p" "$work/out")
  # Three exchanges of three groups send that much in 30 steps, if all rows are used; rank 0 has at least so many.
  [ "$bytes" -gt 0 ] && [ "$bytes" -lt $((3 * 30 * 3 * 12 * 8 * 4)) ] || { echo "$n ranks: $bytes bytes"; exit 1; }
done
if "$shoal" run -n 3 -- "$experts" overflow >"$work/out" 2>"$work/err"; then
  echo "a row too many is accepted"
  exit 1
fi
for rank in 0 1 2; do
  grep -q "^\[$rank\] .*'dispatch/bound'.*group \[3, 1\] has 13 rows, and dim 2 has room for 12" "$work/err" ||
    { cat "$work/err"; exit 1; }
done
echo "experts: processes send what is used"
