#!/usr/bin/env bash
# The keys of EPL's configuration: docs/epl.md has a row for each, and what it says to set instead has the effect that is
# named here.
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
shoal=${SHOAL_BIN:-build/release/shoal}
table=$here/docs/epl.md
export SHOAL_CACHE=
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED $*"; exit 1; }
keys=0
row() { # KEY WORDS: the row of a key has these words
  grep -qF -- "| \`$1\` | " "$table" || fail "docs/epl.md has no row for $1"
  grep -F -- "| \`$1\` | " "$table" | grep -qF -- "$2" || fail "docs/epl.md does not say '$2' of $1"
  keys=$((keys + 1))
}
key() { # KEY WORDS EFFECT COMMAND...: `shoal COMMAND` with these words has the effect, and has it not without them
  row "$1" "$2"
  says "${@:2}"
}
says() { # WORDS EFFECT COMMAND...
  local words=$1 effect=$2 extra=()
  eval "extra=(${words})"
  shift 2
  "$shoal" "$@" "${extra[@]}" >"$work/with" 2>&1 || fail "shoal $* $words: $(cat "$work/with")"
  grep -qE -- "$effect" "$work/with" || fail "shoal $* $words does not say '$effect'"
  if "$shoal" "$@" >"$work/without" 2>&1; then
    ! grep -qE -- "$effect" "$work/without" || fail "shoal $* says '$effect' without $words"
  fi
}
python3 - "$work" <<'PYTHON'
import array, sys
open(sys.argv[1] + "/tokens.txt", "wb").write(bytes(i * i % 11 for i in range(120)))
PYTHON

key auto.auto_parallel '--strategy pipeline' 'mesh pipe1' explain mlp -n 2
row io.slicing always
row io.unbalanced_io_slicing '--batch 7'
"$shoal" check mlp -n 2 --batch 7 --strategy data --steps 1 --dtype f64 >"$work/out" 2>&1 || fail "$(cat "$work/out")"
row io.drop_last_files '--last-batch dropped'
"$shoal" train gpt2-tiny -n 2 --threads --data "$work/tokens.txt" --steps 1 --last-batch dropped >"$work/out" 2>&1 ||
  fail "$(cat "$work/out")"
key communication.sparse_as_dense "--decide 'sync * dense'" 'embedding_grad +data \{ids:0, dy:0 -> dtable:sum' \
  explain lstm-tiny --vocabulary 30000 -n 2 --strategy data
key communication.max_splits "--decide 'sync * bucket=64K'" 'and 3 more .*all_reduce' explain mlp -n 2 --strategy data
row communication.num_communicators 'not a setting'
key communication.fp16 '--compress f16' 'all_reduce +f16' explain mlp -n 2 --strategy data
key communication.fp16_scale '--compress f16:128' 'dtype=f16 scale=128' explain mlp -n 2 --strategy data --why fc1/weight
key communication.clip_after_allreduce '--clip-norm 1' 'update/.*sqrt' explain mlp -n 2 --strategy data
says '--clip-before' '^approximate: gradients are clipped before 2 ranks sum them' explain mlp -n 2 --strategy data --clip-norm 1
row communication.gradients_reduce_method 'not a setting'
key pipeline.num_stages '--mesh pipe=2' 'mesh pipe1' explain mlp -n 2
key pipeline.num_micro_batch '--mesh data=2,micro=4' 'micro \{a:0' explain mlp -n 2
row pipeline.strategy '--schedule 1f1b'
for kind in gpipe 1f1b 1f1b+1; do
  "$shoal" explain mlp -n 2 --strategy pipeline --mesh pipe=2,micro=4 --schedule "$kind" >"$work/out"
  grep -qF "schedule of train: $kind, 2 stages" "$work/out" || fail "the schedule is not $kind"
done
key gradient_checkpoint.type '--recompute block' 'block1/.* recomputed' explain gpt2-tiny
key gradient_checkpoint.end_taskgraph "--recompute 'block0/*'" 'block0/.* recomputed' explain gpt2-tiny
row gradient_checkpoint.check_gradients 'shoal check'
"$shoal" check mlp -n 2 --steps 1 --strategy data --decide 'recompute * yes' --dtype f64 >"$work/out" 2>&1 ||
  fail "$(cat "$work/out")"
key zero.level '--strategy zero1' 'adamw.m .*data:flat' explain mlp -n 2
key offload.level '--offload weights=host,optimizer=host' 'of host memory' explain mlp
key amp.level '--mixed --dtype f16' 'f16\[64, 10\]' explain mlp
row amp.debug_log 'shoal explain'
"$shoal" explain mlp --mixed --dtype f16 >"$work/out" && grep -q 'cast' "$work/out" || fail "no cast is listed"
key amp.loss_scale '--loss-scale 128' 'loss_scale ' explain mlp
row cluster.device_place_prefer_intra_node '--mesh pipe=2,data=2'
says '--mesh pipe=2,data=2' 'pipe0!data=2@0-1$' explain mlp -n 4 --strategy pipeline
says '--mesh data=2,pipe=2' 'pipe0!data=2@0,2$' explain mlp -n 4 --strategy pipeline
row cluster.run_visible_devices 'not a setting'
row cluster.colocate_split_and_replicate shoal_with_split # planners_annotated_test sets it
row optimizer.num_apply_group always
[ "$keys" = 26 ] && [ "$(grep -c '^| `[a-z_]*\.[a-z_0-9]*` | ' "$table")" = 26 ] || fail "$keys keys are looked at"
echo "$keys keys"
