#!/usr/bin/env bash
# labels: san
# Gradients of embeddings exchanged by rows, proven equal to one device: by strategy, on 2, 3 and 5 ranks with uneven
# batches, in micro-batches and stages, with what else touches gradients; what explain says of the choice, and a plan file
# that keeps it.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

by_rows() { proven "$@" --steps 2 --threads --decide 'sync * sparse'; }
for ranks in 2 3 5; do
  for model in "dlrm-tiny --hot 1" "gpt2-tiny --no-tied" "lstm-tiny"; do
    by_rows $model -n $ranks --strategy data --batch 7 --dtype f64
  done
  by_rows gpt2-tiny --no-tied -n $ranks --strategy zero1 --batch 7 --dtype f64
  by_rows lstm-tiny -n $ranks --strategy zero2 --batch 7 --dtype f64
  by_rows dlrm-tiny --hot 1 -n $ranks --strategy zero3 --batch 7 --dtype f64
  by_rows dlrm-tiny -n $ranks --strategy data --dtype f64
  by_rows bert-tiny --typed --padded -n $ranks --strategy data --batch 7 --dtype f64
  by_rows t5-tiny --no-tied -n $ranks --strategy zero1 --batch 7 --dtype f64
done
for model in "dlrm-tiny --hot 1" "gpt2-tiny --no-tied" "lstm-tiny"; do
  by_rows $model -n 4 --strategy tensor --mesh data=2,tensor=2 --dtype f64
  by_rows $model -n 4 --strategy tensor+zero1 --mesh data=2,tensor=2 --dtype f64
  by_rows $model -n 4 --strategy data --mesh node=2,data=2 --batch 7 --dtype f64
  by_rows $model -n 2 --strategy data --mesh data=2,micro=3 --batch 7 --dtype f64 --clip-norm 0.1
  by_rows $model -n 2 --strategy zero2 --mesh data=2,micro=3 --batch 7 --dtype f64 --decide 'sync * each'
  by_rows $model -n 4 --strategy pipeline --mesh data=2,pipe=2,micro=3 --batch 7 --dtype f64 --average 0.9
  by_rows $model -n 3 --strategy zero1 --dtype bf16 --mixed --clip-norm 0.1
  by_rows $model -n 3 --strategy zero2 --dtype f32 --decide 'sync * bucket=1K'
done
# The sum of rows and of a dense gradient, where the output layer reads the table as well.
proven gpt2-tiny -n 3 --strategy data --dtype f64 --decide 'way grad/wte/embedding/embedding_grad data=composite'
proven gpt2-tiny -n 3 --strategy zero2 --mesh data=3,micro=2 --dtype f64 \
  --decide 'way grad/wte/embedding/embedding_grad data=composite'
# All rows go where the room is wanted instead of the count.
by_rows lstm-tiny -n 3 --strategy data --dtype f64 --decide 'counts *embedding_grad/bound* capacity'

large="lstm-tiny --vocabulary 30000"
"$shoal" explain $large -n 3 --strategy data --why 'grad/embedding/embedding/embedding_grad' >out
grep -q 'it sends the rows that are named along data, which moves .*; the next best would move 1.4 MiB' out ||
  { cat out; fail "rows of a large table are not sent, or for no reason"; }
"$shoal" explain lstm-tiny -n 3 --strategy data --why 'grad/embedding/embedding/embedding_grad' >out
grep -q 'all rows are added up, in one message, which moves 528 B' out || { cat out; fail "a small table is not dense"; }
grep -q 'next best data=composite, which moves 38[0-9] B' out || { cat out; fail "no runner-up of a small table"; }
"$shoal" plan $large -n 3 --strategy zero1 -o made.json >/dev/null
grep -q '"node": "grad/embedding/embedding/embedding_grad", "choice": "data=composite", "by": "completion"' made.json ||
  fail "the plan file does not keep rows"
"$shoal" check $large -n 3 --plan made.json --threads >out 2>&1 || { cat out; fail "the plan file of rows"; }
! grep -q 'completed anew' out || fail "the plan file was not taken as it is"
"$shoal" plan lstm-tiny -n 3 --strategy data --decide 'sync * sparse' -o asked.json >/dev/null
grep -q '"kind": "sync", "state": "embedding/table", "choice": "last sparse", "by": "user"' asked.json ||
  fail "the plan file does not keep what was asked for"
! grep -q '"state": "layer0/ih/weight", "choice": "last sparse"' asked.json || fail "a dense gradient is called sparse"
"$shoal" check lstm-tiny -n 3 --plan asked.json --threads >out 2>&1 || { cat out; fail "the plan file of asked rows"; }
! grep -q 'completed anew' out || fail "the plan file of asked rows was not taken as it is"
echo "gradients by rows: proven"
