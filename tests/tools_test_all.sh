#!/usr/bin/env bash
# tools/test_all configures again: what was installed since a build was made is found. `make demo` configures before
# `make test` installs MPI. Tried on a tiny tree that asks for an MPI compiler as ours does.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "tools_test_all: $*" >&2
  exit 1
}

mkdir "$work/tools" "$work/bin"
cp "${SHOAL_SOURCE_DIR:?}/tools/test_all" "$work/tools"
cp "$SHOAL_SOURCE_DIR/CMakePresets.json" "$work"
cat >"$work/CMakeLists.txt" <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES NONE)
enable_testing()
find_program(SHOAL_MPICC_tiny mpicc.tiny)
if(SHOAL_MPICC_tiny)
  add_test(NAME tiny_mpi COMMAND true)
else()
  add_test(NAME tiny_skipped COMMAND true)
endif()
CMAKE
cd "$work"
generator=(-G Ninja)
command -v ninja >/dev/null || generator=(-G 'Unix Makefiles')
PATH=$work/bin:$PATH
cmake --preset release "${generator[@]}" >/dev/null
tools/test_all 1 release >before 2>&1 || fail "fails without MPI: $(cat before)"
grep -q tiny_skipped before || fail "found an MPI that is not there: $(cat before)"
printf '#!/bin/sh\n' >bin/mpicc.tiny
chmod +x bin/mpicc.tiny
tools/test_all 1 release >after 2>&1 || fail "fails with MPI: $(cat after)"
grep -q tiny_mpi after || fail "does not find what was installed since: $(cat after)"
# A step that fails is named, and does not stop the others.
sed -i 's/tiny_mpi COMMAND true/tiny_mpi COMMAND false/' CMakeLists.txt
if tools/test_all 1 release nonsense >failed 2>&1; then fail "a failing test passed: $(cat failed)"; fi
grep -q 'failed in: release nonsense' failed || fail "the steps that failed are not named: $(cat failed)"
