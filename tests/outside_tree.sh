#!/usr/bin/env bash
# A user's programs, outside the tree: the build is installed to a fresh prefix, examples/user_op.c (its own op,
# its own strategy), own_data.c (its own data set), mlp.c and a C++17 program are compiled there with what pkg-config says, and run.
# Many ranks must print the losses of one.
set -euo pipefail
[ -z "${SHOAL_SANITIZE:-}" ] || { echo "skipped: a sanitizer's library does not link with a plain program"; exit 77; }

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "outside_tree: $*" >&2; exit 1; }

cmake --install "$SHOAL_BUILD_DIR" --prefix "$work/prefix" >"$work/install.log" || { cat "$work/install.log"; fail install; }
pc=$(find "$work/prefix" -name shoal.pc) && [ -n "$pc" ] || fail "no shoal.pc was installed"
export PKG_CONFIG_PATH=${pc%/*}
# The prefix may move: what pkg-config says follows it.
mv "$work/prefix" "$work/moved" && PKG_CONFIG_PATH=${PKG_CONFIG_PATH/prefix/moved}
flags=$(pkg-config --cflags --libs shoal)
case $flags in *"$SHOAL_SOURCE_DIR"* | *"$SHOAL_BUILD_DIR"*) fail "pkg-config points into the tree: $flags" ;; esac
libdir=$(pkg-config --variable=libdir shoal)
shoal=$work/moved/bin/shoal
[ -x "$shoal" ] || fail "the program was not installed"

mkdir "$work/user" && cp "$SHOAL_SOURCE_DIR"/examples/{user_op,own_data,mlp}.c "$work/user" && cd "$work/user"
warnings="-Wall -Wextra -Wpedantic -Werror"
for name in user_op own_data mlp; do
  # shellcheck disable=SC2086
  cc -std=c17 -O1 $warnings "$name.c" -o "$name" $flags -lm "-Wl,-rpath,$libdir"
done

cat >graph.cpp <<'CPP'
#include <shoal/shoal.h>

#include <cmath>
#include <cstdio>

int main() {
  shoal_model_t *model = nullptr;
  shoal_session_t *session = nullptr;
  shoal_status_t status = shoal_model_create(nullptr, &model);
  if (!status) {
    shoal_graph_t *g = shoal_model_graph(model, "train");
    shoal_value_t x = shoal_input(g, "x", SHOAL_F64, SHOAL_SHAPE(3, 2));
    shoal_output(g, "y", shoal_relu(g, shoal_mul(g, x, x)));
    status = shoal_parallelize(model, nullptr, &session);
  }
  const double xs[6] = {1, -2, 3, -4, 5, -6};
  double ys[6] = {};
  if (!status) status = shoal_feed(session, "x", xs, sizeof xs);
  if (!status) status = shoal_run(session, "train");
  if (!status) status = shoal_fetch(session, "y", ys, sizeof ys);
  shoal_status_print(status, stderr);
  int code = shoal_code_exit(shoal_status_code(status));
  for (int i = 0; i < 6 && !status; ++i)
    if (std::fabs(ys[i] - xs[i] * xs[i]) > 1e-12) code = 1;
  shoal_status_free(status);
  shoal_session_free(session);
  shoal_model_free(model);
  return code;
}
CPP
# shellcheck disable=SC2086
c++ -std=c++17 -O1 $warnings graph.cpp -o graph $flags "-Wl,-rpath,$libdir"
./graph || fail "the C++ program's graph is wrong"
"$shoal" run -n 2 -- ./graph || fail "the C++ program's graph is wrong on 2 ranks"

# The same through find_package: no flags, no paths of one's own; a version that is asked for counts.
version=$("$shoal" --version)
[ "$version" = "shoal $(pkg-config --modversion shoal)" ] || fail "--version says '$version'"
cat >CMakeLists.txt <<'CMAKE'
cmake_minimum_required(VERSION 3.20)
project(user LANGUAGES C CXX)
find_package(shoal ${WANTED} REQUIRED CONFIG)
add_executable(found graph.cpp)
set_target_properties(found PROPERTIES CXX_STANDARD 17)
target_link_libraries(found PRIVATE shoal::shoal)
CMAKE
cmake -S . -B found -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED="${version#shoal }" >found.log 2>&1 &&
  cmake --build found >>found.log 2>&1 || { cat found.log; fail "find_package(shoal) does not build a program"; }
./found/found || fail "the program that find_package built is wrong"
! cmake -S . -B later -DCMAKE_PREFIX_PATH="$work/moved" -DWANTED=99 >later.log 2>&1 || fail "find_package(shoal 99) succeeds"
grep -q "$SHOAL_SOURCE_DIR" -r "$work/moved/lib" --include='*.cmake' && fail "the package points into the tree"

numbers() { grep -oE '[0-9]+\.[0-9]+' | tr '\n' ' '; }

# same NAME RANKS ARGUMENTS...: losses as alone, each to 1e-5 (they are f32, and sums are joined in another order)
same() {
  local one many
  one=$(numbers <"$1.1")
  "$shoal" run -n "$2" -- "./$1" "${@:3}" >"$1.$2" || fail "$1 on $2 ranks ended with $?"
  many=$(numbers <"$1.$2")
  echo "$1 on $2 ranks: $many"
  awk -v a="$one" -v b="$many" 'BEGIN {
    n = split(a, x, " "); m = split(b, y, " ")
    if (n == 0 || n != m) exit 1
    for (i = 1; i <= n; ++i) { d = x[i] - y[i]; if (d < 0) d = -d; if (d > 1e-5 * (1 + x[i])) exit 1 }
  }' || fail "$1 on $2 ranks printed '$many', alone '$one'"
}

./user_op >user_op.1 || fail "user_op alone ended with $?"
sed 's/^/alone: /' user_op.1
same user_op 2
same user_op 3
same user_op 4 data=2,hidden=2  # beside a native strategy
"$shoal" run -n 2 -- ./own_data || fail "own_data ended with $?"
./mlp >mlp.1 || fail "mlp alone ended with $?"
same mlp 2
