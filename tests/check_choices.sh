#!/usr/bin/env bash
# labels: san
# Choices in words: what is recomputed, offloaded and compressed, by --recompute, --offload and --compress. Each becomes the
# decisions that it stands for, is proven equal to one device, and is refused with the way out where it means nothing.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

decided() {  # MODEL WORDS... -- LINES: the plan's decisions by the user are these, in this order
  local words=() want=
  while [ "$1" != -- ]; do words+=("$1"); shift; done
  shift
  want=$(printf '%s\n' "$@")
  "$shoal" plan "${words[@]}" --format json >plan.json
  got=$(python3 -c 'import json
for d in json.load(open("plan.json"))["intent"].get("decisions", []):
  if d.get("by") == "user": print(d["kind"], d["pattern"], d["choice"])')
  [ "$got" = "$want" ] || fail "${words[*]}: decided $got"
}
decided gpt2-tiny --recompute block -- 'recompute block* yes'
decided gpt2-tiny --recompute attention -- 'recompute block*/attn/* yes'
decided gpt2-tiny --recompute 'block0/mlp*,ln_f*' -- 'recompute block0/mlp* yes' 'recompute ln_f* yes'
decided t5-tiny --recompute block -- 'recompute encoder/block* yes' 'recompute decoder/block* yes'
decided t5-tiny --recompute attention -- 'recompute encoder/block*/attn/* yes' 'recompute decoder/block*/attn/* yes' \
  'recompute decoder/block*/cross/* yes'
decided gpt2-tiny --recompute block,attention -- 'recompute block* yes' 'recompute block*/attn/* yes'
decided gpt2-tiny --recompute attention,ln_f/* -- 'recompute block*/attn/* yes' 'recompute ln_f/* yes'
decided gpt2-tiny --layers 1 --recompute block -- 'recompute block* yes'
decided gpt2-tiny --recompute none --offload none --compress none -- ''
decided gpt2-tiny --offload optimizer -- 'memory *#* host'
decided gpt2-tiny --offload weights=file,activations=host -- 'memory * file' 'memory step device' 'memory lr device' \
  'memory *#* device' 'keep * host'
decided gpt2-tiny -n 2 --strategy data --compress bf16 -- 'sync * dtype=bf16'
decided gpt2-tiny -n 2 --strategy data --compress f16:1024 -- 'sync * dtype=f16 scale=1024'
decided gpt2-tiny --recompute block --decide 'recompute block1* no' -- 'recompute block* yes' 'recompute block1* no'
"$shoal" explain gpt2-tiny -n 2 --strategy zero2 --mesh data=2,micro=2 --compress bf16 --why block0/mlp/fc1/weight >out
grep -q 'sync: each dtype=bf16' out || { cat out >&2; fail "a strategy's words of sync are lost"; }

proven gpt2-tiny -n 2 --strategy zero3 --mesh data=2,micro=2 --recompute attention --offload weights=file
proven gpt2-tiny -n 2 --strategy pipeline --mesh pipe=2,micro=3 --recompute block --offload activations=file
proven llama-tiny -n 3 --strategy data --offload optimizer=file,weights=host,activations=host --compress bf16
proven llama-tiny -n 2 --strategy context --decide 'tile *attention ring' --recompute block --offload activations=file

# what is rounded on its way is said, and said again of the plan that is read back
"$shoal" plan gpt2-tiny -n 2 --strategy data --compress bf16 --decide 'sync wte/* dtype=none' -o narrow.json >out
grep -q '^approximate: the gradients of 27 states are summed over ranks in bf16' out || { cat out >&2; fail "not said"; }
python3 -c 'import json; assert len(json.load(open("narrow.json"))["resolved"]["approximate"]) == 1'
"$shoal" explain gpt2-tiny -n 2 --plan narrow.json 2>&1 | tee out | grep -q '^approximate: the gradients of 27 states' || true
grep -q '^approximate: the gradients of 27 states' out && ! grep -q 'completed anew' out || { cat out >&2; fail "not read back"; }
"$shoal" plan gpt2-tiny -n 2 --strategy data --compress f16:64 --decide 'sync wte/* scale=1' -o scaled.json >out
grep -q '^approximate: the gradients of 28 states are summed over ranks in f16, 27 of them scaled' out || { cat out >&2; fail "scales"; }
"$shoal" explain gpt2-tiny -n 2 --plan scaled.json --why block0/mlp/fc1/weight >out
grep -q 'sync: last dtype=f16 scale=64' out || { cat out >&2; fail "the scale is not read back"; }
proven gpt2-tiny -n 2 --plan scaled.json
"$shoal" plan gpt2-tiny --dtype bf16 -n 2 --strategy data --compress f16 >out  # as wide, but another type
grep -q '^approximate: the gradients of 28 states are summed over ranks in f16' out || { cat out >&2; fail "bf16 in f16"; }
# where ranks sum no gradients nothing is rounded, and nothing is said
for how in "--strategy tensor" "--strategy single" "--strategy pipeline --mesh pipe=2" "--strategy pipeline --mesh pipe=2,micro=3"; do
  "$shoal" plan gpt2-tiny -n 2 $how --compress bf16 >out || { cat out >&2; fail "$how"; }
  if grep -q approximate out; then cat out >&2; fail "$how: ranks sum nothing"; fi
done
for how in "--strategy tensor+data --mesh data=2,tensor=2" "--strategy zero2" "--strategy pipeline+data --mesh pipe=2,data=2,micro=3"; do
  "$shoal" plan gpt2-tiny -n 4 $how --compress bf16 >out || { cat out >&2; fail "$how"; }
  grep -q '^approximate: the gradients of 28 states are summed over ranks in bf16$' out || { cat out >&2; fail "$how: not said"; }
done
# of some states only: as many as the program casts
for how in context sequence; do
  "$shoal" explain gpt2-tiny -n 2 --strategy $how --compress bf16 --program --rank 0 >out
  casts=$(grep -c 'cast.*bf16' out) || fail "$how: nothing is cast"
  "$shoal" plan gpt2-tiny -n 2 --strategy $how --compress bf16 >out
  [ "$casts" -lt 28 ] && grep -q "^approximate: the gradients of $casts states are" out || { cat out >&2; fail "$how: $casts casts"; }
done
for words in "" "--compress none" "--decide sync|*|dtype=f64"; do
  "$shoal" plan gpt2-tiny -n 2 --strategy data ${words:+"${words%% *}" "$(echo "${words#* }" | tr '|' ' ')"} >out
  if grep -q approximate out; then fail "'$words' is exact"; fi
done

refused() {  # MESSAGE HINT WORDS...
  if "$shoal" plan "${@:3}" >out 2>&1; then fail "${*:3}: not refused"; fi
  grep -q "$1" out && grep -q "^hint: .*$2" out || { cat out >&2; fail "${*:3}: refused otherwise"; }
}
refused 'the model has no scope with attention' 'by patterns' mlp-tiny --recompute attention
refused "'moments=host' is not optimizer, weights or activations" 'optimizer=host' gpt2-tiny --offload moments=host
refused 'is not optimizer, weights or activations, with =host or =file' 'activations=file' gpt2-tiny --offload weights=disk
refused "'optimizer' is there twice" 'once' gpt2-tiny --offload optimizer=host,optimizer=file
refused "'none' stands alone" 'leave' gpt2-tiny --recompute block,none
refused 'the optimizer has no states' 'sgd' mlp-tiny --sgd --offload optimizer
refused "compress 'f17'" 'bf16 or f16' gpt2-tiny --compress f17
refused "compress 'f1'" 'bf16 or f16' gpt2-tiny --compress f1
refused "scale '100' is no power of two" 'scale=1024' gpt2-tiny -n 2 --strategy data --compress f16:100

for how in "" "--recompute attention --offload optimizer=file,weights=file,activations=file"; do
  rm -rf saved
  "$shoal" train vit-tiny -n 2 --strategy data --threads --steps 3 --save saved $how >out 2>&1 || { cat out >&2; fail "train $how"; }
  [ -z "$how" ] && mv saved/step-3/model.safetensors plain
  [ -z "$how" ] || cmp plain saved/step-3/model.safetensors || fail "$how: other bits"
done
grep -q '^  file: read and written ' out || { cat out >&2; fail "nobody says how the file is read"; }
if "$shoal" train vit-tiny --steps 1 --offload optimizer=file --offload-dir missing >out 2>&1; then fail "no folder"; fi
grep -q "bytes in folder 'missing': No such file" out && grep -q '^hint: .*--offload-dir' out || { cat out >&2; fail "no folder"; }
SHOAL_RECOMPUTE=block "$shoal" plan gpt2-tiny --format json >out
grep -q '"block\*"' out || fail "the environment does not set it"
echo "choices: all well"
