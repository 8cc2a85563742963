#!/usr/bin/env bash
# labels: slow
# Every schedule trains to the bits of gpipe: on t5, whose encoder is read by all stages of the decoder, on gpt2 whose
# embedding is its head, and on bert, in micro-batches of unequal size, with clipping. Weights that several stages use are
# summed on each mesh first: so interleaved and zb-v, which have other stages on a mesh, are compared with gpipe on these.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
python3 - <<'P'
import struct
for name, columns in ("ids", 5), ("labels", 4):
    data = [(7 * i + 3 * len(name)) % 11 for i in range(16 * columns)]
    head = f"{{'descr': '<i4', 'fortran_order': False, 'shape': (16, {columns}), }}"
    head += " " * (-(10 + len(head) + 1) % 64) + "\n"
    with open(f"{name}.npy", "wb") as out:
        out.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(head)) + head.encode())
        out.write(struct.pack(f"<{len(data)}i", *data))
P
settings() {
  case $1 in
    gpt2-tiny) echo "--vocabulary 256 --data $SHOAL_SOURCE_DIR/README.md" ;;
    bert-tiny) echo "--vocabulary 256 --data $SHOAL_SOURCE_DIR/README.md --dropout 0.1" ;;
    t5-tiny) echo "--data ids=ids.npy,labels=labels.npy" ;;
  esac
}
learn() {  # FOLDER MODEL SCHEDULE
  # shellcheck disable=SC2046
  "$shoal" train "$2" -n 2 --threads --batch 7 --steps 2 --log-every 1 --clip-norm 0.5 --strategy pipeline --mesh pipe=2,micro=4 \
    --decide "schedule train $3" --cache '' $(settings "$2") --save "$1" >out 2>&1 || { cat out; fail "$2 does not train with $3"; }
}
alike() { cmp "$1/step-2/model.safetensors" "$2/step-2/model.safetensors"; }

# gpipe as a table, with these stages on mesh pipe0 and pipe1.
all() { for stage in $2; do for micro in 0 1 2 3; do printf ' %s%s.%s' "$1" "$stage" $micro; done; done; }
turns="table pipe0:$(all F '0 2')$(all B '2 0')
pipe1:$(all F '1 3')$(all B '3 1')"
back="table pipe0:$(all F '0 2')$(all B '2 0')
pipe1:$(all F 1)$(all B 1)"

for model in t5-tiny gpt2-tiny bert-tiny; do
  learn $model-gpipe $model gpipe
  learn $model-turns $model "$turns"
  learn $model-back $model "$back"
  for kind in 1f1b 1f1b+1 interleaved zb-h1 zb-h2 zb-v; do
    learn "$model-$kind" $model $kind
    case $kind in
      interleaved) like=turns ;;
      zb-v) like=back ;;
      *) like=gpipe ;;
    esac
    alike $model-$like "$model-$kind" || fail "$kind gives other bits than gpipe on $model"
  done
  echo "$model: all schedules alike"
done
