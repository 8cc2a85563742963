#!/usr/bin/env bash
# Checkpoints that ranks write over MPI: the bytes of ranks in shared memory, now and beside the steps. And a rank whose
# disk has no room while others write: an error on all, and the checkpoint before it goes on.
# labels: slow
set -u
. "${SHOAL_SOURCE_DIR:?}/tests/mpi_lib.sh"
cd "$work"
show() { cat out err >&2; }
model="mlp --batch 6 --in-features 300 --hidden 200 --classes 3 --strategy zero3 --keep 0"

"$shoal" train $model --steps 4 --save-every 2 -n 3 --save local >out 2>err || { fail "local"; show; }
for family in $families; do
  for how in "" --save-async; do
    folder=$family$how
    launch $family 3 "$shoal" train $model --steps 4 --save-every 2 --save $folder $how >out 2>err </dev/null ||
      { fail "$family $how"; show; }
    for step in 2 4; do
      cmp local/step-$step/model.safetensors $folder/step-$step/model.safetensors || fail "$family $how: step $step differs"
    done
    [ $family = openmpi ] || continue  # MPICH's shared memory counts as files
    # The file begins with rank 0's part; the last rank's lies behind what it may write.
    launch $family 3 bash -c '
      rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
      [ $rank = 2 ] && { trap "" XFSZ; ulimit -f 300; }
      exec "$@"' bash "$shoal" train $model --steps 40 --save-every 2 --save $folder --resume $how >out 2>err </dev/null &&
      { fail "$family $how: no room, and no error"; show; }
    grep -aq "IO: while saving '$folder/step-6'.*cannot write .*File too large" err || { fail "$family $how: no room"; show; }
    [ "$(ls $folder)" = "$(printf 'step-2\nstep-4')" ] || fail "$family $how: no room leaves $(ls $folder/*)"
    "$shoal" train $model --steps 5 -n 2 --save $folder --resume >out 2>err || { fail "$family $how: afterwards"; show; }
    grep -q "^resumed from $folder/step-4" out || { fail "$family $how: afterwards"; show; }
  done
done
[ $failures -eq 0 ] && echo "mpi:$families: checkpoints are written by all ranks"
