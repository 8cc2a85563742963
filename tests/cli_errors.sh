#!/usr/bin/env bash
# labels: san
# Bad input, one clear error each: exit code by include/shoal/status.inc, the message and (where there is one) the
# hint; the same text on every rank. And --help of every command.
set -uo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work" || exit 1
shoal=$SHOAL_BIN
wrong=0
fail() { echo "FAILED $*"; wrong=$((wrong + 1)); }
code_of() { sed -nE "s/^SHOAL_STATUS_CODE\($1, [0-9]+, ([0-9]+),.*/\1/p" "$SHOAL_SOURCE_DIR/include/shoal/status.inc"; }

# bad CODE 'message' 'hint or empty' arguments...: message and hint are fixed strings found in the error
bad() {
  local code=$1 message=$2 hint=$3 got
  shift 3
  "$shoal" "$@" >out 2>err
  got=$?
  [ "$got" = "$(code_of "$code")" ] || fail "shoal $*: exit $got, not $code ($(head -1 err))"
  head -1 err | grep -qF "shoal: error: $code: " || fail "shoal $*: $(head -1 err)"
  head -1 err | grep -qF -- "$message" || fail "shoal $*: no '$message' in: $(head -1 err)"
  if [ -n "$hint" ]; then
    grep '^hint: ' err | grep -qF -- "$hint" || fail "shoal $*: no '$hint' in: $(cat err)"
  fi
  [ "$(grep -c '^shoal: error:' err)" = 1 ] || fail "shoal $*: not one error: $(cat err)"
  [ "$(wc -l <err)" -le 2 ] || fail "shoal $*: more than an error and a hint: $(cat err)"
}

# ---- output that cannot be written: the same from one rank and from many -------------------------------
for n in 1 2; do
  "$shoal" train mlp -n $n --steps 1 --batch 4 >/dev/full 2>err
  got=$?
  [ "$got" = "$(code_of IO)" ] || fail "train -n $n >/dev/full: exit $got ($(head -1 err))"
done

# ---- help ---------------------------------------------------------------------------------------------
"$shoal" --help >help || fail "shoal --help"
commands="train eval generate convert run tokenize plot plan simulate explain models ops rules schedule check layout perf slurm-watch info"
for command in $commands; do
  grep -q "^  $command " help || fail "shoal --help does not list $command"
  "$shoal" $command --help >out 2>err || fail "$command --help ended with $?"
  head -1 out | grep -q "^usage: shoal $command" || fail "$command --help begins with $(head -1 out)"
  grep -q -- '--help' out || fail "$command --help does not list itself"
  [ -s err ] && fail "$command --help talks on stderr"
done
[ "$(grep -c '^  ' help)" = "$(wc -w <<<"$commands")" ] || fail "a command is missing in this test: $(cat help)"

# ---- commands and options -----------------------------------------------------------------------------
bad INVALID_ARGUMENT "there is no command 'trai'" "did you mean 'train'?" trai
bad INVALID_ARGUMENT "name one model" "mlp -n 2" train
bad INVALID_ARGUMENT "after 'mlp' stands 'gpt'" "" plan mlp gpt
bad NOT_FOUND "there is no model 'mlpp'" "did you mean 'mlp'?" explain mlpp
bad NOT_FOUND "lowering has no pass 'path'" "did you mean 'paths'?" explain mlp --pass path
bad NOT_FOUND "lowering has no pass 'everything'" "--pass list" explain mlp --pass everything
bad INVALID_ARGUMENT "unknown option '--step'" "did you mean '--steps'?" train mlp --step 3
bad INVALID_ARGUMENT "--steps: 'many' is not a whole number" "" train mlp --steps many
bad INVALID_ARGUMENT "--steps needs a value" "" train mlp --steps
bad INVALID_ARGUMENT "--steps -3" "" train mlp --steps -3
bad INVALID_ARGUMENT "--keep -1" "" train mlp --keep -1
# What is given must make sense: 0 does not stand for the default.
for option in batch lr eps; do
  bad INVALID_ARGUMENT "--$option: '0' is not above zero" "" train mlp --$option 0
done
for option in mlp.layers mlp.in_features mlp.hidden gpt.context gpt.width cnn.channels cnn.size; do
  bad INVALID_ARGUMENT "${option#*.}: '0' is not above zero" "" train ${option%.*} --${option#*.} 0
done
# A setting is the model's, or an error.
bad INVALID_ARGUMENT "mlp has no setting 'width'" "it has batch" train mlp --width 3
bad INVALID_ARGUMENT "gpt2 has no setting 'contxt'" "did you mean 'context'?" train gpt --set contxt=3
printf 'width: 24\nheads: many\n' > sizes.yaml
bad INVALID_ARGUMENT "sizes.yaml:2: heads: 'many' is not a whole number" "" train gpt --config sizes.yaml
bad NOT_FOUND "there is no model 'llama3-8'" "did you mean 'llama3-8b'?" models llama3-8
bad INVALID_ARGUMENT "one model at a time" "" models mlp cnn
bad NOT_FOUND "nothing.yaml" "" train gpt --config nothing.yaml
bad INVALID_ARGUMENT "--lr: '-1' is not above zero" "" train mlp --lr -1
bad INVALID_ARGUMENT "--lr: 'nan' is not above zero" "" train mlp --lr nan
SHOAL_BATCH=0 bad INVALID_ARGUMENT "SHOAL_BATCH: '0' is not above zero" "" plan mlp
bad INVALID_ARGUMENT "the kernel spans 3 rows, but x has 1 and 0 of padding" "" plan cnn --size 2
bad INVALID_ARGUMENT "--lr: 'fast' is not a number" "" train mlp --lr fast
bad INVALID_ARGUMENT "--format: 'xml' is not one of text, json" "" plan mlp --format xml
bad INVALID_ARGUMENT "-n 0" "" train mlp -n 0
bad INVALID_ARGUMENT "-n 0" "" plan mlp -n 0
bad INVALID_ARGUMENT "-n 0" "" check mlp -n 0
bad INVALID_ARGUMENT "-n 2147483647: from 1 to 1048576 ranks" "" plan mlp -n 2147483647
bad INVALID_ARGUMENT "-n 5000" "" train mlp -n 5000
bad INVALID_ARGUMENT "--resume needs" "--save DIR" train mlp --resume
"$shoal" train mlp --steps 2 --save fresh --resume >out 2>err || fail "a first --resume ended with $?: $(head -1 err)"
grep -qF "nothing to resume in fresh" out || fail "a first --resume does not say that it starts anew"
grep -q "^step 1 " out || fail "a first --resume does not start at step 1: $(grep '^step' out | head -1)"
bad INVALID_ARGUMENT "takes no argument 'now'" "" info now
SHOAL_STEPS=soon bad INVALID_ARGUMENT "SHOAL_STEPS: 'soon' is not a whole number" "" train mlp
SHOAL_TIMEOUT_MS=-4 bad INVALID_ARGUMENT "SHOAL_TIMEOUT_MS is '-4'" "" train mlp

# ---- schedules -------------------------------------------------------------------------------------------
printf 'a: F0.0 B0.0 F0.1 B0.1\nb: F1.0 F1.1 B1.0 B1.1\n' >stuck
bad NOT_FOUND "no schedule '1f1'" "did you mean '1f1b'" schedule 1f1
bad INVALID_ARGUMENT 'it got 0 words' 'zb-h1' schedule
bad INVALID_ARGUMENT "one stage on each mesh; there are 8 on 4" interleaved schedule zb-h1 --virtual 2
bad INVALID_ARGUMENT "--times '1,2'" 1,1,1 schedule gpipe --times 1,2
bad INVALID_ARGUMENT 'a time of -1' '' schedule gpipe --times 1,-1,1
bad INVALID_ARGUMENT 'most' '' schedule gpipe --micro 9999999999
bad INVALID_ARGUMENT "mesh 'a', entry 1: B0.0 waits for B1.0 of mesh 'b'" 'for ever' schedule stuck
"$shoal" schedule interleaved --stages 3 --micro 5 --virtual 2 >table && "$shoal" schedule table >again
[ "$(grep -v '^#' table)" = "$(grep -v '^#' again)" ] || fail 'what shoal schedule prints is no table file'


# ---- shapes -------------------------------------------------------------------------------------------
bad INVALID_ARGUMENT "--batch: '-3' is not above zero" "" train mlp --batch -3
bad INVALID_ARGUMENT "C a multiple of heads" "" plan gpt --width 64 --heads 5
bad INVALID_ARGUMENT "'i32' is no float type" "f64, f32, bf16 or f16" plan mlp --dtype i32

# ---- data and checkpoints -----------------------------------------------------------------------------
bad INVALID_ARGUMENT "none was given" "--data FILE" train gpt
bad NOT_FOUND "'nowhere.txt'" "" train gpt --data nowhere.txt
mkdir nothing
bad INVALID_ARGUMENT "the folder 'nothing' holds no data that is known" "" train gpt --data nothing
echo "too short" >short.txt
bad INVALID_ARGUMENT "short.txt" "" train gpt --data short.txt
: >file
bad IO "file" "" train mlp --steps 1 --save file/out
"$shoal" train mlp --steps 1 --save saved >/dev/null || fail "a checkpoint could not be saved"
bad INVALID_ARGUMENT "hidden is 5, but saved/step-1 was made with 128" "" train mlp --hidden 5 --steps 2 --save saved --resume
printf 'no tensors' >saved/step-1/model.safetensors
bad INVALID_ARGUMENT "model.safetensors" "" train mlp --steps 2 --save saved --resume

# ---- evaluation ---------------------------------------------------------------------------------------
bad INVALID_ARGUMENT "there are no weights to measure" "--load DIR" eval mlp
bad NOT_FOUND "nowhere" "" eval mlp --load nowhere
bad INVALID_ARGUMENT "--eval-samples -1" "" eval mlp --load x --eval-samples -1
bad INVALID_ARGUMENT "--eval-data and --held-out do not go together" "give one" train mlp --eval-data x --held-out 0.1
bad INVALID_ARGUMENT "-1 of the 65536 samples of 'classes' cannot be held out" "a share" train mlp --held-out -1
bad INVALID_ARGUMENT "1.5 of the 65536 samples" "a whole number" train mlp --held-out 1.5
echo 'To be, or not to be' >text
bad INVALID_ARGUMENT "'text' holds something else than metrics" "a new file" train mlp --steps 1 --metrics text
bad INVALID_ARGUMENT "flip has no effect on data of kind 'bytes'" "leave it out" train gpt --data text --flip
[ "$(cat text)" = 'To be, or not to be' ] || fail "a text became something else"
bad INVALID_ARGUMENT "--best needs" "--save DIR" train mlp --best loss
bad INVALID_ARGUMENT "no metric 'accurac'" "scalar outputs" train mlp --best +accurac --save no_metric --held-out 64
bad NOT_FOUND "watch 'fc9/*'" "" train mlp --watch 'fc9/*'
bad INVALID_ARGUMENT "--group 'fc1' is not PATTERN:NAME=VALUE" "for example" train mlp --group fc1
bad INVALID_ARGUMENT "a group has no 'rat'" "did you mean 'rate'?" train mlp --group 'fc1/*:rat=1'
bad INVALID_ARGUMENT "no rate 'cosin'" "did you mean 'cosine'?" train mlp --schedule cosin
bad INVALID_ARGUMENT "--sgd and --optimizer lion" "give one" train mlp --sgd --optimizer lion
[ "$("$shoal" --version)" = "shoal $(sed -nE 's/^project\(shoal VERSION ([0-9.]+).*/\1/p' "$SHOAL_SOURCE_DIR/CMakeLists.txt")" ] ||
  fail "--version: $("$shoal" --version)"

# ---- strategies, meshes, layouts ----------------------------------------------------------------------
plan="plan mlp -n 2"
bad NOT_FOUND "there is no strategy 'dat'" "did you mean 'data'?" $plan --strategy dat
bad INVALID_ARGUMENT "mesh 'data=3' has 3 ranks, the world has 2" "product of the axes" $plan --mesh data=3
bad INVALID_ARGUMENT "has 65537 micro-batches; 65536 are the most" "fewer" $plan --mesh data=2,micro=65537
bad INVALID_ARGUMENT "999999999999 micro-batches" "fewer" $plan --mesh data=2,micro=999999999999
bad INVALID_ARGUMENT "expected axis=size at 'data'" "write axis=size" $plan --mesh data
bad INVALID_ARGUMENT "axis 'data' is there twice" "" $plan --mesh data=1,data=2
bad INVALID_ARGUMENT "has size 0" "" $plan --mesh data=2,micro=0
bad INVALID_ARGUMENT "rank 0 is listed twice" "" $plan --mesh data=2@0,0
bad INVALID_ARGUMENT "has no axis 'tensor'" "tensor=2" $plan --strategy tensor --mesh data=2
bad INVALID_ARGUMENT "needs a mesh" "--mesh" $plan --strategy explicit
decide="$plan --strategy data --decide"
bad INVALID_ARGUMENT "--decide 'recompute fc1/*' is not KIND PATTERN CHOICE" "for example" $decide 'recompute fc1/*'
bad NOT_FOUND "there is no kind of decision 'kep'" "did you mean 'keep'?" $decide 'kep fc1/weight redo'
bad INVALID_ARGUMENT "'maybe' is no choice of expand" "yes|no" $decide 'expand relu maybe'
bad NOT_FOUND "memory 'fc9/*' matches no state" "" $decide 'memory fc9/* host'
bad INVALID_ARGUMENT "about node 'relu': '{x:7 -> out:7}' is no way of shoal.relu" "shoal rules" $decide 'way relu data={x:7 -> out:7}'
explicit="$plan --strategy explicit --mesh tensor=2 --layouts"
bad NOT_FOUND "'fc9/weight' matches no state, input or value" "did you mean 'fc1/weight'?" $explicit fc9/weight=tensor:1
bad NOT_FOUND "no axis 'tensr'" "did you mean 'tensor'?" $explicit fc1/weight=tensr:1
bad INVALID_ARGUMENT "there is no dim 7" "from 0 to 1" $explicit fc1/weight=tensor:7
bad INVALID_ARGUMENT "expected axis:dim" "axis:flat" $explicit fc1/weight=tensor
bad INVALID_ARGUMENT "has no '='" "pattern=layout" $explicit fc1/weight
bad INVALID_ARGUMENT "--plan and --mesh do not go together" "" $plan --plan x.json --mesh data=2
bad INVALID_ARGUMENT "--plan and --strategy do not go together" "" train mlp --plan x.json --strategy data

# ---- plan files ---------------------------------------------------------------------------------------
# plan_file TEXT: writes plan.json
plan_file() { printf '%s\n' "$1" >plan.json; }
file="plan mlp -n 2 --plan plan.json"
bad NOT_FOUND "'missing.json'" "" plan mlp --plan missing.json
plan_file '{"shoal_plan": 1, "intent": {'
bad INVALID_ARGUMENT "plan.json:2" "" $file
plan_file '[]'
bad INVALID_ARGUMENT "plan.json" "" $file
plan_file '{"shoal_plan": 2, "intent": {"meshes": ["data=2"]}}'
bad UNSUPPORTED "plan format 2; this version reads 1" "" $file
plan_file '{"shoal_plan": 1, "intent": {"meshs": ["data=2"]}}'
bad INVALID_ARGUMENT "unknown key 'meshs'" "did you mean 'meshes'?" $file
plan_file '{"shoal_plan": 1, "intent": {"meshes": []}}'
bad INVALID_ARGUMENT "mesh" "" $file
plan_file '{"shoal_plan": 1, "intent": {"meshes": ["data=2"], "layouts": {"z": "data:0"}}}'
bad NOT_FOUND "'z' matches no" "" $file
plan_file '{"shoal_plan": 1, "intent": {"meshes": ["data=2"], "stages": {"fc1/*": "b"}}}'
bad INVALID_ARGUMENT "asks for mesh 'b'" "" $file
plan_file '{"shoal_plan": 1, "intent": {"meshes": ["a!data=2,micro=2", "b!data=2,micro=3"]}}'
bad INVALID_ARGUMENT "differ in micro-batches" "" $file
plan_file '{"shoal_plan": 1, "intent": {"meshes": ["data=2@5,6"]}}'
bad INVALID_ARGUMENT "rank" "" $file

# ---- clusters -----------------------------------------------------------------------------------------
bad NOT_FOUND "'none.yml'" "" $plan --cluster none.yml
printf 'shoal_cluster: 1\nrank: 3\n' >bad.yml
bad INVALID_ARGUMENT "unknown key 'rank'" "did you mean 'ranks'?" $plan --cluster bad.yml
bad INVALID_ARGUMENT "bad.yml:" "" $plan --cluster bad.yml
printf 'shoal_cluster: [\n' >bad.yml
bad INVALID_ARGUMENT "bad.yml:" "" $plan --cluster bad.yml
bad INVALID_ARGUMENT "there is no kind of device 'a10'" "did you mean 'a100'?" $plan --cluster a10x8
bad INVALID_ARGUMENT "has 1 devices" "" plan mlp -n 2 --cluster cpu:1
bad INVALID_ARGUMENT "there is no kind of device 'z80'" "" info --cluster z80x8:2
bad INVALID_ARGUMENT "no nodes with an address" "address" run --cluster a100x8:2 -- true
"$SHOAL_BIN" info --cluster a100x8:128 | tee full.yml | grep -q "1024 ranks on 128 nodes"
"$SHOAL_BIN" info --cluster full.yml | cmp - full.yml

"$shoal" plan mlp --strategy data --cluster cpu:3 | grep -q "mesh data=3" || fail "plan does not use the whole cluster"
"$shoal" plan mlp -n 2 --strategy data --cluster cpu:3 | grep -q "mesh data=2" || fail "plan does not take -n"

# ---- simulate -----------------------------------------------------------------------------------------
bad NOT_FOUND "no graph 'trian'" "" simulate mlp -n 2 --graph trian
bad NOT_FOUND "'none.json'" "" simulate mlp -n 2 --times none.json
printf '{"shoal_times": 1, "lnk": {}}' >bad.json
bad INVALID_ARGUMENT "unknown key 'lnk'" "did you mean 'link'?" simulate mlp -n 2 --times bad.json
bad NOT_FOUND "there is no model 'mlpp'" "" simulate mlpp
bad INVALID_ARGUMENT "has 8 devices" "" simulate mlp -n 9 --cluster a100x8
"$shoal" simulate mlp --strategy data --cluster a100x8 --trace trace.json >out || fail "simulate: $?"
grep -q "train on 8 ranks" out || fail "simulate does not use all devices: $(cat out)"
python3 -c 'import json; assert len(json.load(open("trace.json"))["traceEvents"]) > 20' || fail "no trace"
"$shoal" explain mlp -n 2 --strategy data --program >program.txt
"$shoal" simulate ./program.txt --format json >one
"$shoal" simulate mlp -n 2 --strategy data --format json | cmp - one || fail "a program's text is simulated otherwise"

# ---- rules, layout, run -------------------------------------------------------------------------------
bad NOT_FOUND "there is no op 'shoal.matmull'" "did you mean 'shoal.matmul'?" rules matmull
bad INVALID_ARGUMENT "one op, not 2" "" rules add mul
bad NOT_FOUND "there is no op 'shoal.sofmax'" "did you mean 'shoal.softmax'?" ops sofmax
bad INVALID_ARGUMENT "one name, not 2" "shoal ops [NAME]" ops add mul
bad INVALID_ARGUMENT "'yaml' is not one of text, json" "" ops add --format yaml

# ---- ops: the list has every op once, by family; one op is told whole; both as JSON ----------------------
"$shoal" ops >list || fail "shoal ops"
grep -qx "Norms and softmax" list || fail "shoal ops names no family"
grep -qE "^  softmax +[A-Za-z]" list || fail "shoal ops does not list softmax"
"$shoal" ops --format json >all.json || fail "shoal ops --format json"
[ "$(grep -c '"name": "shoal\.' all.json)" = "$(grep -c '^  [a-z]' list)" ] || fail "the lists of ops differ"
[ -z "$(grep -oE '^  [a-z0-9_]+' list | sort | uniq -d)" ] || fail "shoal ops lists an op twice"
tail -1 list | grep -q "^$(grep -c '^  [a-z]' list) ops" || fail "shoal ops counts $(tail -1 list)"
"$shoal" ops pad >one || fail "shoal ops pad"
for line in 'family  *Shapes' 'inputs  *x' 'outputs  *out' '.*value, real = 0: ' 'gradient  *yes' 'decomposition  *none' \
  '  {x:0@1..4 -> out:0}.*'; do
  grep -qE "^$line" one || fail "shoal ops pad does not say '$line': $(cat one)"
done
"$shoal" ops shoal.pad --format json >one.json || fail "shoal ops shoal.pad --format json"
for text in '"default": "0"' '"gradient": "yes"' '"decomposition": null' '{x:0@1..4 -> out:0}'; do
  grep -qF "$text" one.json || fail "shoal ops pad --format json lacks $text"
done
if command -v python3 >/dev/null; then
  for file in all.json one.json; do python3 -m json.tool $file >/dev/null || fail "$file is no JSON"; done
fi
bad INVALID_ARGUMENT "--shape is missing" "--shape" layout
bad INVALID_ARGUMENT "cannot read 'x'" "10,768" layout --shape 3,x --mesh a=2 --layout a:0
bad NOT_FOUND "no axis 'b'" "did you mean 'a'?" layout --shape 3 --mesh a=2 --layout b:0
bad INVALID_ARGUMENT "2 ranks and 1 weights" "" layout --shape 3 --mesh a=2 --layout 'a:0(1)'
bad INVALID_ARGUMENT "--rank 7" "" layout --shape 3 --mesh a=2 --layout a:0 --rank 7
bad INVALID_ARGUMENT "there is no program to run" "-- PROGRAM" run -n 2
bad INVALID_ARGUMENT "before it stands x" "-- PROGRAM" run -n 2 x -- true
bad INVALID_ARGUMENT "-n: 'two' is not a whole number" "" run -n two -- true

# ---- every rank says the same ---------------------------------------------------------------------------
# alike CODE arguments...: as 3 processes under `shoal run`, each printing its own error, and as 3 threads
alike() {
  local code=$1 got
  shift
  "$shoal" run -n 3 -- "$shoal" "$@" >out 2>err
  got=$?
  [ "$got" = "$(code_of "$code")" ] || fail "run -n 3 -- shoal $*: exit $got, not $code"
  for rank in 0 1 2; do sed -n "s/^\[$rank\] //p" err >err.$rank; done
  [ -s err.0 ] && cmp -s err.0 err.1 && cmp -s err.0 err.2 || fail "ranks differ for shoal $*: $(cat err)"
  for kind in --threads --no-threads; do
    "$shoal" "$@" -n 3 $kind >out 2>err
    got=$?
    [ "$got" = "$(code_of "$code")" ] || fail "shoal $* -n 3 $kind: exit $got, not $code"
    cmp -s err err.0 || fail "shoal $* -n 3 $kind says $(cat err), a rank by itself $(cat err.0)"
  done
}
alike NOT_FOUND train mlp --strategy dat
alike INVALID_ARGUMENT train mlp --mesh data=2
alike INVALID_ARGUMENT train gpt --heads 5 --data "$SHOAL_SOURCE_DIR/LICENSE"
alike NOT_FOUND train gpt --data nowhere.txt
alike NOT_FOUND train mlp --plan missing.json
plan_file '{"shoal_plan": 1, "intent": {"meshes": ["data=3"], "layouts": {"z": "data:0"}}}'
alike NOT_FOUND train mlp --plan plan.json
alike INVALID_ARGUMENT train mlp --steps 2 --save saved --resume

# ---- no error, but said: a plan that was resolved for something else; no losses without steps ----------
"$shoal" plan mlp -n 2 --strategy data --batch 8 -o stale.json >out 2>err || fail "plan -o: $(cat err)"
for command in "explain mlp -n 2" "train mlp -n 2 --steps 1" "train mlp -n 2 --steps 1 --threads"; do
  "$shoal" $command --batch 8 --plan stale.json >out 2>err || fail "$command: $(cat err)"
  [ -s err ] && fail "$command with a plan that fits says $(cat err)"
  "$shoal" $command --batch 6 --plan stale.json >out 2>err || fail "$command: $(cat err)"
  [ "$(grep -c 'completed anew from its intent' err)" = 1 ] || fail "$command with a stale plan says '$(cat err)'"
done
"$shoal" train mlp --steps 0 --batch 4 >out 2>err || fail "train --steps 0: $(cat err)"
grep '^report: ' out | grep -q 'loss [0-9.]* ->' && fail "train --steps 0 has losses: $(grep '^report: ' out)"
grep '^report: ' out | grep -q 'memory planned' || fail "train --steps 0 has no report"

[ $wrong = 0 ] && echo "every error is clear"
exit $((wrong > 0))
