# What checks share; sourced, not run. They work in a folder of their own, and end at the first failure.
set -euo pipefail
shoal=${SHOAL_BIN:?}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
fail() { echo "FAILED: $*" >&2; exit 1; }
check() { echo "$1"; "$shoal" check --case "$2"; }  # WHAT CASE
proven() { echo "shoal check $*"; "$shoal" check "$@" | tail -1 | grep -q "^1 passed, 0 failed, 0 refused"; }
