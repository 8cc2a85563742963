#!/usr/bin/env bash
# docs/walkthrough.md is what this build prints, and tools/walkthrough notices when it is not.
set -euo pipefail
[ -z "${SHOAL_SANITIZE:-}" ] || exit 77
"$SHOAL_SOURCE_DIR/tools/walkthrough" --shoal "$SHOAL_BIN" --check

# It can fail: a program that prints one character more.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
printf '#!/bin/sh\n"%s" "$@" | sed "s/ owns / holds /"\n' "$SHOAL_BIN" >"$work/shoal"
chmod +x "$work/shoal"
if "$SHOAL_SOURCE_DIR/tools/walkthrough" --shoal "$work/shoal" --check >"$work/difference" 2>&1; then
  echo "walkthrough: a changed print was not noticed" >&2
  exit 1
fi
grep -q '^+rank 0 .* holds ' "$work/difference" || { cat "$work/difference"; exit 1; }
