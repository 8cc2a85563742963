#!/bin/bash
# labels: slow
# tools/new op, strategy, backend and device, in a copy of the tree: each writes one file (a device one folder) and a
# line in one list, no more; all build without a warning, are found by name, and pass the tests that are made from
# the lists.
set -euo pipefail
source_dir=${SHOAL_SOURCE_DIR:?} build_dir=${SHOAL_BUILD_DIR:?}
copy=$(mktemp -d "$build_dir/tools_new.XXXXXX")
trap 'rm -rf "$copy"' EXIT

fail() {
  echo "tools_new: $*" >&2
  exit 1
}

(cd "$source_dir" && git ls-files -z --cached --others --exclude-standard -- . ':!build') |
  (cd "$source_dir" && xargs -0 sh -c 'for f; do [ -e "$f" ] && printf "%s\0" "$f"; done' sh) |
  (cd "$source_dir" && tar --null -T - -cf -) | tar -xf - -C "$copy"
cd "$copy"
git init -q . && git add -A && git -c user.name=test -c user.email=test@localhost commit -qm tree

# What is already there, or is no name, is refused and changes nothing.
for arguments in "op relu" "strategy data" "backend self" "device cpu" "op Nine" "widget x" "op"; do
  if tools/new $arguments >/dev/null 2>&1; then fail "'tools/new $arguments' succeeded"; fi
done
[ -z "$(git status --porcelain)" ] || fail "a refused call changed the tree"

for kind in op strategy backend device; do
  tools/new $kind brand_new >/dev/null
  touched=$(git status --porcelain | wc -l) # a folder counts once
  [ "$touched" -le 3 ] || fail "a new $kind touches $touched files"
  git add -A && git -c user.name=test -c user.email=test@localhost commit -qm "$kind"
done

cmake -S . -B build/new -G "$(command -v ninja >/dev/null && echo Ninja || echo 'Unix Makefiles')" \
  -DCMAKE_BUILD_TYPE=Debug -DSHOAL_WERROR=ON >/dev/null
cmake --build build/new -j2 --target shoal_cli op_cases_test op_cut_test planners_strategy_test \
  comm_conformance_test device_queue_test device_copy_test >build.log 2>&1 || { tail -30 build.log; fail "it does not build"; }
for test in op_cases_test op_cut_test planners_strategy_test comm_conformance_test device_queue_test device_copy_test; do
  build/new/tests/$test >test.log 2>&1 || { tail -30 test.log; fail "$test fails"; }
done
build/new/shoal check ops brand_new --shapes 20 >check.log 2>&1 || { cat check.log; fail "the new op is wrong"; }
build/new/shoal rules shoal.brand_new | grep -q '{x:0 -> out:0}' || fail "the new op has no rule"
build/new/shoal ops brand_new | grep -q '^inputs  *x, b (optional)$' || fail "the new op is not described"
build/new/shoal check ops brand_new --shapes 50 >check.log || { cat check.log; fail "the new op is wrong"; }
build/new/shoal info | grep -q '^strategies .*brand_new' || fail "the new strategy is not listed"
build/new/shoal check mlp -n 2 --strategy brand_new --dtype f64 >check.log || { cat check.log; fail "its plan is wrong"; }
build/new/shoal info | grep -q '^devices cpu brand_new' || fail "the new device is not listed"
echo "tools_new: an op, a strategy, a backend and a device, each in at most 3 places"
