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

# A file beyond `ulimit -f`: an error as of a full disk, not the silence of SIGXFSZ. Shared memory of processes is a
# file, too. Programs that `shoal run` starts have the signal as ever.
for ranks in "-n 1" "-n 2 --threads"; do
  (ulimit -f 100; "$shoal" train mlp $ranks --steps 4 --save "large$ranks" --save-every 2 >out 2>err)
  got=$?
  [ "$got" = "$(code_of IO)" ] && grep -q "^shoal: error: IO: .*File too large" err || fail "ulimit -f, $ranks: exit $got ($(cat err))"
done
(ulimit -f 100; "$shoal" train mlp -n 2 --steps 4 --save large --save-every 2 >out 2>err)
got=$?
[ "$got" -lt 128 ] && grep -q "^shoal: error: .*File too large" err || fail "ulimit -f, -n 2: exit $got ($(cat err))"
"$shoal" run -n 1 -- grep -E '^Sig(Ign|Cgt)' /proc/self/status >out 2>err || fail "run grep: $(cat err)"
while read -r _ _ mask; do [ $((0x$mask & 1 << 24)) = 0 ] || fail "a program starts without SIGXFSZ: $(cat out)"; done <out

# ---- help ---------------------------------------------------------------------------------------------
"$shoal" --help >help || fail "shoal --help"
commands="train eval generate convert run tokenize plot plan simulate explain models strategies ops rules schedule check layout perf slurm-watch info"
for command in $commands; do
  grep -q "^  $command " help || fail "shoal --help does not list $command"
  "$shoal" $command --help >out 2>err || fail "$command --help ended with $?"
  head -1 out | grep -q "^usage: shoal $command" || fail "$command --help begins with $(head -1 out)"
  grep -q -- '--help' out || fail "$command --help does not list itself"
  [ -s err ] && fail "$command --help talks on stderr"
  long=$(awk 'length > 100' help out)
  [ -z "$long" ] || fail "$command --help is wider than 100 columns: $long"
done
# Commands list what they use; a setting of some family is no option of all.
for command in eval generate models; do
  "$shoal" $command --help | grep -E -- '--(lr|lr-schedule|clip-norm|width|flip|random-crop) ' && fail "$command --help: unused"
  bad INVALID_ARGUMENT "$command has no use for --lr" "option of \`shoal train\`" $command mlp --lr=3
done
"$shoal" train --help >out
[ "$(grep -E '^[A-Z].*:$' out | tr -d '\n')" = "Model:Data:Recipe:Run:Ranks and plan:Output:" ] || fail "groups of train --help"
grep -E -- '--(width|layers) | TEXT' out && fail "train --help lists settings of a family, or a TEXT"
grep -qE '^layers +N +2 +blocks$' <("$shoal" models gpt2) || fail "models gpt2 lists no settings with type and default"
[ "$(grep -c '^  ' help)" = "$(wc -w <<<"$commands")" ] || fail "a command is missing in this test: $(cat help)"

# ---- commands and options -----------------------------------------------------------------------------
bad INVALID_ARGUMENT "there is no command 'trai'" "did you mean 'train'?" trai
bad INVALID_ARGUMENT "name one model" "mlp -n 2" train
bad INVALID_ARGUMENT "after 'mlp' stands 'gpt'" "" plan mlp gpt
bad NOT_FOUND "there is no model 'mlpp'" "did you mean 'mlp'?" explain mlpp
bad NOT_FOUND "lowering has no pass 'path'" "did you mean 'paths'?" explain mlp --pass path
bad INVALID_ARGUMENT "there is no rank -2" "from 0" explain mlp -n 2 --strategy data --rank -2
bad INVALID_ARGUMENT "there is no rank 2: the plan has 2" "" explain mlp -n 2 --strategy data --rank 2
bad INVALID_ARGUMENT "--show has no effect beside --why" "leave" explain mlp --why relu --show memory
bad INVALID_ARGUMENT "--format has no effect beside --program" "leave" explain mlp --program --format json
bad INVALID_ARGUMENT "--show has no effect beside --graph" "leave" explain mlp --graph --show values
bad INVALID_ARGUMENT "--pass and --graph do not go together" "give one" explain mlp --pass paths --graph
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
# Those that are yes or no take a word as others do.
for value in "--tied no" "--tied=false" --no-tied "--set tied=no"; do
  grep -qE '^tied +yes.no +no ' <("$shoal" models t5 $value) || fail "models t5 $value: $("$shoal" models t5 $value 2>&1 | head -1)"
done
grep -qE '^padded +yes.no +yes ' <("$shoal" models --padded yes t5) || fail "models --padded yes t5"
bad INVALID_ARGUMENT "after 't5' stands 'maybe'" "--NAME=no" models t5 --tied maybe
bad INVALID_ARGUMENT "after 'cnn' stands 'no'" "--NAME=no" train cnn --flip no
# npy FILE SHAPE BYTES: zeros
npy() { { printf '\x93NUMPY\x01\x00\x76\x00%-117s\n' "{'descr': '<i4', 'fortran_order': False, 'shape': $2, }"; head -c "$3" /dev/zero; } >"$1"; }
npy ids.npy '(3, 5)' 60
npy y.npy '(3,)' 12
bad INVALID_ARGUMENT "has classes (y), and this bert guesses tokens" "--set classes=N" train bert-tiny --data ids=ids.npy,y=y.npy
# Labels that follow from the ids are no task for an encoder, which sees them; arrays have labels of their own.
npy labels.npy '(3, 4)' 48
leaks="'file.txt' is a text, whose labels are the tokens that follow"
head -c 99 /dev/zero >file.txt
bad INVALID_ARGUMENT "$leaks, and this bert sees them" "--set masked=0.15" train bert-tiny --set masked=0 --data file.txt
bad INVALID_ARGUMENT "$leaks, and this bert sees them" "" train bert-tiny --set masked=0 --data ids=ids.npy,labels=ids.npy --eval-data file.txt
bad INVALID_ARGUMENT "$leaks, and this t5 sees them" "--data ids=IDS.npy,labels=LABELS.npy" train t5-tiny --data file.txt
for job in "bert-tiny --data file.txt" "t5-tiny --data ids=ids.npy,labels=labels.npy"; do
  "$shoal" train $job --steps 1 >out 2>err || fail "train $job: $(cat err)"
done
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
echo x >plan.json
bad INVALID_ARGUMENT "plan.json:1:1: " "" train mlp -n 2 --threads --plan plan.json --steps 1
bad NOT_FOUND "there is no model 'plan.json'" "behind --plan" explain plan.json
bad INVALID_ARGUMENT "--times '1e308,1e308,1e308,1e308'" "larger unit" schedule 1f1b --stages 2 --micro 2 --times 1e308,1e308,1e308,1e308
# A plan that is not made counts as refused, whatever refuses it.
for words in "--recompute attention" "--optimizer sgd --offload optimizer" "--mesh nothing=3"; do
  bad INVALID_ARGUMENT "" "" check mlp -n 2 --strategy data $words
  grep -qx "0 passed, 0 failed, 1 refused" out || fail "check $words: $(tail -1 out)"
done
bad INVALID_ARGUMENT "-n 2147483647: from 1 to 1048576 ranks" "" plan mlp -n 2147483647
bad INVALID_ARGUMENT "-n 5000" "" train mlp -n 5000
bad INVALID_ARGUMENT "--resume needs" "--save DIR" train mlp --resume
"$shoal" train mlp --steps 2 --save fresh --resume >out 2>err || fail "a first --resume ended with $?: $(head -1 err)"
grep -qF "nothing to resume in fresh" out || fail "a first --resume does not say that it starts anew"
grep -q "^step 1 " out || fail "a first --resume does not start at step 1: $(grep '^step' out | head -1)"
bad INVALID_ARGUMENT "takes no argument 'now'" "" info now
bad INVALID_ARGUMENT "takes no argument 'data'" "" strategies data
SHOAL_STEPS=soon bad INVALID_ARGUMENT "SHOAL_STEPS: 'soon' is not a whole number" "" train mlp
SHOAL_TIMEOUT_MS=-4 bad INVALID_ARGUMENT "SHOAL_TIMEOUT_MS is '-4'" "" train mlp

# ---- schedules -------------------------------------------------------------------------------------------
printf 'a: F0.0 B0.0 F0.1 B0.1\nb: F1.0 F1.1 B1.0 B1.1\n' >stuck
bad NOT_FOUND "no schedule '1f1'" "did you mean '1f1b'" schedule 1f1
bad INVALID_ARGUMENT 'it got 0 words' 'zb-h1' schedule
bad INVALID_ARGUMENT "one stage on each mesh; there are 8 on 4" interleaved schedule zb-h1 --virtual 2
bad INVALID_ARGUMENT "--times '1,2'" 1,1,1 schedule gpipe --times 1,2
bad INVALID_ARGUMENT "--times '1,1,1,x'" 1,1,1 schedule gpipe --times 1,1,1,x
bad INVALID_ARGUMENT 'it got 2 words' zb-v schedule gpipe --kind 1f1b
bad INVALID_ARGUMENT 'a time of -1 for moving values' '' schedule gpipe --times 1,1,1,-1
"$shoal" schedule --kind 1f1b --stages 8 --micro 24 --times 18.522,18.086,9.337,0.601 >published
grep -q 'bubble 24.31 %' published || fail "1f1b with the times of arXiv 2401.10241 has another bubble: $(sed -n 2p published)"
bad INVALID_ARGUMENT 'a time of -1' '' schedule gpipe --times 1,-1,1
bad INVALID_ARGUMENT 'most' '' schedule gpipe --micro 9999999999
bad INVALID_ARGUMENT "mesh 'a', entry 1: B0.0 waits for B1.0 of mesh 'b'" 'for ever' schedule stuck
# In JSON as well, and through --schedule: what is wrong with a table is one error before anything runs.
pipe="plan gpt2-tiny -n 2 --batch 6 --strategy pipeline --mesh pipe=2,micro=2 --schedule"
row='"pipe0": "F0.0 F0.1 B0.0 B0.1"'
echo "{$row, \"pipe1\": [\"F1.0\", \"B1.0\", \"F1.1\"]}" >lacks.json
echo "{$row, \"pipe1\": \"F1.0 B1.0 B1.1 F1.1\"}" >order.json
echo '{"pipe0": "F0.0 B0.0 F0.1 B0.1", "pipe1": "F1.0 F1.1 B1.0 B1.1"}' >stuck.json
echo "{$row, \"pipe1\": 1}" >kind.json
echo "{$row, \"pip" >short.json
echo '{"pipe0": "F0.0 B0.0", "pipe1": "F1.0 B1.0"}' >one.json
echo "{$row, \"b\": \"F1.0 F1.1 B1.0 B1.1\"}" >names.json
bad INVALID_ARGUMENT "lacks.json: mesh 'pipe1' lacks B1.1" "" $pipe lacks.json
bad INVALID_ARGUMENT "which stands still at entry 2: B1.1 waits for F1.1" "" $pipe order.json
bad INVALID_ARGUMENT "mesh 'pipe0', entry 1: B0.0 waits for B1.0 of mesh 'pipe1'" "for ever" $pipe stuck.json
bad INVALID_ARGUMENT "mesh 'pipe0', entry 1: B0.0 waits for B1.0 of mesh 'pipe1'" "for ever" schedule stuck.json
bad INVALID_ARGUMENT "kind.json: row 'pipe1' is not a text of entries" "F0.0" $pipe kind.json
bad INVALID_ARGUMENT "short.json:" "" $pipe short.json
bad INVALID_ARGUMENT "micro-batch" "same number" $pipe one.json
bad INVALID_ARGUMENT "a row 'b', and there are 2 meshes" "pipe0" $pipe names.json
bad NOT_FOUND "no schedule 'zb-h3'" "did you mean 'zb-h" $pipe zb-h3
bad NOT_FOUND "neither a schedule's name nor a file: there is no schedule 'none.txt'" "zb-h1" $pipe none.txt
printf 'pipe0: F0.0 F0.1 B0.0 B0.1\npipe1: F1.0 B1.0 F1.1 B1.1\n' >two
bad INVALID_ARGUMENT "work in 2 rows, and the mesh has pipe=4: the ranks of 'pipe2' would have nothing to do" "pipe=n" \
  plan gpt2-tiny -n 4 --strategy pipeline --mesh pipe=4,micro=2 --schedule two
bad INVALID_ARGUMENT "balance 'eval': stages are found for the graph 'train'" "balance train" \
  plan gpt2-tiny -n 2 --strategy pipeline --mesh pipe=2,micro=2 --decide 'balance eval memory'
bad INVALID_ARGUMENT "leave nothing to schedule" "pipeline" plan mlp -n 2 --strategy data --schedule zb-h1
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
bad INVALID_ARGUMENT "a group has no 'lr_facto'" "did you mean 'lr_factor'?" train mlp --group 'fc1/*:lr_facto=1'
bad INVALID_ARGUMENT "'[' is no regular expression" "re:block" train mlp --group 're:[:lr_factor=0.1'
bad INVALID_ARGUMENT "'[' is no regular expression" "re:block" train mlp --freeze 're:['
bad INVALID_ARGUMENT "watch: '(' is no regular expression" "re:block" train mlp --watch 're:('
bad INVALID_ARGUMENT "'(' is no regular expression" "re:block" explain mlp -n 2 --strategy data --why 're:('
"$shoal" explain mlp --group 're:fc[[:digit:]]/(b|x){1,3}ias,fc1/*:lr_factor=0.5' --graph >out 2>err || fail "a group by an expression: $(cat err)"
grep -q 'scale=0.5' out || fail "a group by an expression has no factor"
"$shoal" explain mlp --strategy data -n 2 --recompute 're:(fc1|x){1,3}/.*,relu' --why 'relu' >out 2>err || fail "a list with an expression: $(cat err)"
bad INVALID_ARGUMENT "no lr_schedule 'cosin'" "did you mean 'cosine'?" train mlp --lr-schedule cosin
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
bad INVALID_ARGUMENT "the mesh 'foo=2' has no axis 'data'" "data=2" $plan --strategy data --mesh foo=2
bad INVALID_ARGUMENT "no strategy speaks of axis 'tenso'" "did you mean 'tensor'?" plan mlp -n 4 --strategy data --mesh data=2,tenso=2
bad INVALID_ARGUMENT "no strategy speaks of axis 'foo'" "--layouts 'x=foo:0'" $plan --mesh foo=2
bad INVALID_ARGUMENT "mesh 'pipe=2,data=2' has 4 ranks, the world has 5" "with @" plan mlp -n 5 --mesh pipe=2,data=2 --strategy pipeline
bad INVALID_ARGUMENT "mesh 'pipe=3' has 3 ranks, the world has 2" "" $plan --mesh pipe=3 --strategy pipeline
bad INVALID_ARGUMENT "one stage and one batch, which leave nothing to schedule" "pipe=2,micro=4" \
  $plan --strategy data --decide 'schedule train zb-h1'
"$shoal" plan mlp -n 6 --mesh pipe=2,data=2@0-2,4 --strategy pipeline --cache '' >out 2>err || fail "ranks that are listed: $(cat err)"
grep -qx "shoal: rank 3 and 1 more have nothing to do: no mesh of the plan has them" err || fail "idle ranks: $(cat err)"
"$shoal" train mlp -n 3 --threads --mesh data=2@0,2 --steps 1 --cache '' >out 2>err || fail "a rank that is left out: $(cat err)"
grep -qx "shoal: rank 1 has nothing to do: no mesh of the plan has it" err || fail "an idle rank: $(cat err)"
decide="$plan --strategy data --decide"
bad INVALID_ARGUMENT "--decide 'recompute fc1/*' is not KIND PATTERN CHOICE" "for example" $decide 'recompute fc1/*'
bad NOT_FOUND "there is no kind of decision 'kep'" "did you mean 'keep'?" $decide 'kep fc1/weight redo'
bad INVALID_ARGUMENT "'maybe' is no choice of expand" "yes|no" $decide 'expand relu maybe'
bad NOT_FOUND "memory 'fc9/*' matches no state" "" $decide 'memory fc9/* host'
bad NOT_FOUND "memory 're:fc[3-9]/.*' matches no state" "" $decide 'memory re:fc[3-9]/.* host'
bad INVALID_ARGUMENT "'fc[3' is no regular expression" "re:block[0-3]/.*" $decide 'memory re:fc[3 host'
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
formats=$("$SHOAL_BIN" info | grep -E '^(images|unavailable) ' | grep -oE '\b(png|jpeg)\b' | sort | tr '\n' ' ')
[ "$formats" = "jpeg png " ] || fail "info says of images: $formats"
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
alike INVALID_ARGUMENT train mlp --mesh data=1,tenso=3
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
