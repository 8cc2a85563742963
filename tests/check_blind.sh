#!/usr/bin/env bash
# Parallel equals serial on a device whose memory the host cannot see, not even from work on a queue: everything that
# ranks send is packed, joined and unpacked by the device. Models cut in all ways, every element type, ranks as
# threads and as processes, and random cases.
# labels: san
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
export SHOAL_DEVICE_OPAQUE=blind
failures=0
check() {
  timeout 250 "$shoal" check "$@" >out 2>&1 && return
  echo "FAIL: shoal check $*" >&2
  tail -5 out >&2
  failures=$((failures + 1))
}

check mlp -n 4 --strategy tensor --mesh data=2,tensor=2 --dtype f64
if [ "${SHOAL_SANITIZE:-}" = thread ]; then  # the rest takes minutes there
  check mlp -n 4 --mesh pipe=2,data=2,micro=3 --dtype bf16
  check --random 5
  exit $((failures > 0))
fi
check mlp -n 3 --strategy zero1 --dtype bf16
check mlp -n 2 --strategy data --dtype f16 --processes
check gpt -n 3 --strategy tensor --mesh tensor=3 --dtype bf16
check gpt -n 2 --strategy data --dtype f64 --processes
check gpt -n 4 --mesh pipe=2,data=2,micro=3 --dtype f64
check gpt -n 2 --mesh pipe=2,micro=2 --dtype f16 --processes
check cnn -n 2 --layouts 'x=data:2' --mesh data=2 --dtype f64
check cnn -n 3 --strategy data --dtype bf16
check --random "$([ -n "${SHOAL_SANITIZE:-}" ] && echo 15 || echo 40)"
[ $failures -eq 0 ] && echo "blind: all well"
exit $((failures > 0))
