#!/usr/bin/env bash
# labels: san
# Gradients that are exchanged in another type, by decision: proven equal at what that type allows and no more, in every
# layout that a state may rest in; half of the bytes are moved, and every figure that is printed says so.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"
mlp="--batch 10 --in-features 7 --hidden 9 --classes 3 --layers 2"

proven() {  # RANKS DTYPE CHOICE MESH LAYOUTS: in f64 too, where only what was exchanged is looser
  "$shoal" check mlp $mlp -n "$1" --dtype "$2" --strategy explicit --mesh "$4" --layouts "$5" --decide "sync * $3" \
    >out 2>&1 || { cat out >&2; fail "$*"; }
}
proven 2 f64 dtype=bf16 data=2 'x=data:0;y=data:0'
proven 3 f64 'dtype=f16 bucket=300' data=3 'x=data:0;y=data:0'
proven 2 f64 'each dtype=bf16' micro=2,data=2 'x=micro:0,data:0;y=micro:0,data:0'
proven 2 f64 'last dtype=f32 bucket=all' micro=2,data=2 'x=micro:0,data:0;y=micro:0,data:0'
proven 4 f64 dtype=bf16 data=2,tensor=2 'x=data:0;y=data:0;fc1/weight=tensor:1;fc1/bias=tensor:0'
proven 3 f64 'dtype=bf16 bucket=1K' data=3 '*#adamw.*=data:flat;x=data:0;y=data:0'
proven 3 f64 dtype=bf16 data=3 '*=data:flat;x=data:0;y=data:0;step=;lr='
proven 2 f32 dtype=bf16 data=2 'x=data:0;y=data:0'
proven 2 bf16 dtype=f32 data=2 'x=data:0;y=data:0'
proven 2 f16 'dtype=f64 bucket=1K' data=2 'x=data:0;y=data:0'
# Scaled on their way, each by its own: what is compared is what they stand for.
proven 2 f64 'dtype=f16 scale=1024' data=2 'x=data:0;y=data:0'
worst=$(sed -n 's/.*worst \([0-9.e-]*\) of what is allowed.*/\1/p' out)
python3 -c "assert $worst > 0.02" || fail "a scale excuses more than rounding: $worst"
proven 3 f32 'each dtype=f16 scale=64 bucket=300' micro=2,data=3 'x=micro:0,data:0;y=micro:0,data:0'
proven 4 f64 'dtype=bf16 scale=0.125' data=2,tensor=2 'x=data:0;y=data:0;fc1/weight=tensor:1;fc1/bias=tensor:0'
proven 3 f64 'dtype=f16 scale=4096' data=3 '*=data:flat;x=data:0;y=data:0;step=;lr='
# On one rank nothing is exchanged, and nothing is excused: what is allowed is what f64 allows.
proven 1 f64 dtype=bf16 data=1 'x=data:0;y=data:0'

figures() {  # DECISION...: bytes sent by a rank, and what an update's reduction moves
  "$shoal" simulate mlp -n 2 --strategy data --cluster a100x2 --cache '' "$@" | sed -n 's/.*each sends \([0-9.]* [A-Za-z]*\).*/\1/p'
  "$shoal" explain mlp -n 2 --strategy data --cache '' --why update/fc1/weight/adamw_update "$@" |
    sed -n 's/.*is reduced first, which moves \([0-9.]* [A-Za-z]*\);.*/\1/p'
}
figures >plain
figures --decide 'sync * dtype=bf16' >half
python3 - <<'PYTHON'
units = {"B": 1, "KiB": 1024, "MiB": 1024**2}
read = lambda name: [float(line.split()[0]) * units[line.split()[1]] for line in open(name)]
plain, half = read("plain"), read("half")
assert len(plain) == len(half) == 2, (plain, half)
for before, after in zip(plain, half):
    assert 0.49 < after / before < 0.51, (before, after)
PYTHON
"$shoal" explain mlp -n 2 --strategy data --decide 'sync fc1/weight dtype=bf16' --pass paths >out
grep -q 'reshard .* as bf16 -> .* as bf16' out || fail "the type of the exchange is not printed"
"$shoal" explain mlp -n 2 --strategy data --decide 'sync * window=2' >out 2>&1 && fail "windows are not refused"
grep -q "decision 'sync \* window=2'" out || fail "windows are refused without a name"
echo "exchange: all well"
