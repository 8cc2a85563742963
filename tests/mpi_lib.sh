# What the tests over MPI share; sourced, not run. `launch FAMILY N COMMAND...` starts N ranks.
# Families whose launcher and plug-in are here are in $families; none: the test is skipped.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "FAIL: $*" >&2; failures=$((failures + 1)); }
skip() { echo "skipped: $*"; exit 77; }

shoal=${SHOAL_BIN:?}
build=${SHOAL_BUILD_DIR:?}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1  # containers are root
[ -z "${SHOAL_SANITIZE:-}" ] || skip "MPI libraries are not built for sanitizers"

launcher_of() { [ "$1" = openmpi ] && echo mpirun.openmpi || echo mpiexec.hydra; }
families=
for family in openmpi mpich; do
  if ! command -v "$(launcher_of $family)" >/dev/null; then
    echo "without $family: $(launcher_of $family) is not installed (tools/bootstrap --optional)"
  elif [ ! -e "$build/libshoal_mpi_$family.so" ]; then
    echo "without $family: the build has no plug-in for it (configure again)"
  else
    families="$families $family"
  fi
done
[ -n "$families" ] || skip "no MPI"

launch() {
  local family=$1 n=$2
  shift 2
  if [ "$family" = openmpi ]; then
    timeout -k 5 120 mpirun.openmpi --oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 \
      -np "$n" "$@"
  else
    timeout -k 5 120 mpiexec.hydra -n "$n" "$@"
  fi
}
