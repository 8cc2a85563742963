#!/usr/bin/env bash
# The share of communication that computing hides, as `shoal train` measures it over a slow link: some of it where buckets
# travel during the backward pass, nothing where queues take turns, no word of it on one rank. Only that it is there is judged,
# not how much.
# labels: san
set -euo pipefail
fail() { echo "train_hidden: $*" >&2; exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
printf 'shoal_cluster: 1\nlink: {latency: 1.0e-4, bandwidth: 1.0e8}\n' >slow.yml

# RANKS OVERLAP: prints how many lines have a share, whether all are above 0, and whether all are 0.
shares() {
  rm -f metrics.jsonl
  SHOAL_COMM_THROTTLE=slow.yml SHOAL_DEVICE_CONCURRENT=$2 "$SHOAL_BIN" train mlp --layers 4 --hidden 256 --strategy data \
    --steps 4 --log-every 1 --cache '' -n "$1" --decide 'sync * bucket=128K' --metrics metrics.jsonl >train.txt 2>train.err ||
    { cat train.err; fail "train on $1 ranks"; }
  python3 -c 'import json
shares = [line["hidden"] for line in map(json.loads, open("metrics.jsonl")) if "hidden" in line]
assert all(0 <= share <= 1 for share in shares), shares
print(len(shares), all(share > 0 for share in shares), all(share == 0 for share in shares))'
}
expect() {
  local found
  found=$(shares "$1" "$2")
  [ "$found" = "$3" ] || { cat train.txt; fail "$1 ranks, overlap $2: $found, not $3"; }
}
expect 2 1 "4 True False"
grep -qE '^report: .*; communication [0-9.e-]+ s, [0-9]+% of it hidden$' train.txt || fail "no share in the report"
grep -qE '^step 4 .* hidden [0-9]+% memory' train.txt || fail "no share on the line"
expect 2 0 "4 False True"
expect 1 1 "0 True True"
! grep -q hidden train.txt || fail "one rank talks of communication"
echo "train_hidden: ok"
