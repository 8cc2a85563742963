#!/usr/bin/env bash
# tools/check_faults tells the faults that tests notice from those that survive, do not apply and do not build, in
# whatever order they come, and takes each back. Tried on a tiny tree with one function and two tests.
# labels: slow
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
  echo "tools_check_faults: $*" >&2
  exit 1
}
command -v ninja >/dev/null || { echo "skipped: ninja is not installed"; exit 77; }
command -v patch >/dev/null || { echo "skipped: patch is not installed"; exit 77; }

mkdir -p "$work/tools" "$work/tests/unit" "$work/tests/faults"
cp "${SHOAL_SOURCE_DIR:?}/tools/check_faults" "$work/tools"
cd "$work"
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.25)
project(tiny LANGUAGES C)
include(CTest)
add_library(tiny STATIC sum.c)
foreach(name sum_test other_test)
  add_executable(${name} tests/unit/${name}.c)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE tiny)
  add_test(NAME ${name} COMMAND ${name})
endforeach()
CMAKE
printf '#define ZERO 0\nint sum(int a, int b);\n' >sum.h
printf '#include "sum.h"\nint sum(int a, int b) {\n  if (b == 7) return 7 + a;\n  return a + b;\n}\n' >sum.c
printf '#include "sum.h"\nint main(void) { return sum(2, 3) == 5 ? ZERO : 1; }\n' >tests/unit/sum_test.c
printf '#include "sum.h"\nint main(void) { return sum(1, 7) == 8 ? ZERO : 1; }\n' >tests/unit/other_test.c
git init -q . && printf 'build/\n' >.gitignore

# name, tests to try first, file, line before, line after
fault() {
  sed "s/$4/$5/" "$3" >changed
  {
    printf 'Fault: %s\n%s\n' "$1" "${2:+Tests: $2$'\n'}"
    diff -u --label "a/$3" --label "b/$3" "$3" changed || true
  } >"tests/faults/$1.patch"
  rm changed
}
fault noticed sum_test sum.c 'a + b' 'a - b'
fault noticed_by_another sum_test sum.c '7 + a' '8 + a'
fault noticed_by_one_of_all '' sum.c 'a + b' 'a * b'
fault in_a_header other_test sum.h 'ZERO 0' 'ZERO 3'
fault survives sum_test sum.c 'a + b' 'b + a'
fault does_not_build sum_test sum.c 'a + b' 'a + c'
fault does_not_apply sum_test sum.c 'a + b' 'a | b'
sed -i 's/^-  return a + b;/-  return a ^ b;/' tests/faults/does_not_apply.patch
fault holds_no_diff sum_test sum.c nothing nothing

verdict() { grep -qE "^$1 +$2" "$3" || fail "'$1' is not reported as '$2': $(cat "$3")"; }
if tools/check_faults --quick --jobs 3 >out 2>&1; then fail "faults that survive are no error: $(cat out)"; fi
verdict noticed 'caught +sum_test' out
verdict noticed_by_another 'caught +other_test' out
verdict noticed_by_one_of_all 'caught +sum_test' out
verdict in_a_header 'caught +other_test' out
verdict survives 'survives ' out
verdict does_not_build 'does not build .*error: .*c' out
verdict does_not_apply 'does not apply ' out
verdict holds_no_diff 'does not apply +it holds no diff' out
grep -q '^check_faults: 8 patches, 4 caught, 4 not$' out || fail "the count is wrong: $(cat out)"
# Again, in the build that is there: what was broken last is whole.
tools/check_faults --quick --jobs 1 tests/faults/noticed*.patch >out 2>&1 || fail "faults that are noticed are an error: $(cat out)"
verdict noticed_by_another 'caught +other_test' out
# What fails already cannot notice anything.
sed -i 's/a + b/a - b/' sum.c
if tools/check_faults --quick tests/faults/noticed_by_another.patch >out 2>&1; then fail "a red test is no error"; fi
grep -q 'sum_test fails without any patch' out || fail "the red test is not named: $(cat out)"
