#!/usr/bin/env bash
# More random cases on a device whose memory the host cannot see: see check_blind.sh.
# labels: slow
set -euo pipefail
SHOAL_DEVICE_OPAQUE=blind timeout 800 "$SHOAL_BIN" check --random 200 --seed 7 >/dev/null
echo "blind: all well"
