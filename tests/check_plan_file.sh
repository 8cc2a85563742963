#!/usr/bin/env bash
# labels: san
# `shoal check --plan FILE` proves what `shoal train --plan FILE` runs: both take the resolved part as it stands, also
# where it was edited by hand, although the check changes the optimizer's eps. Where the resolved part is of another
# model, both say that they complete the plan anew.
. "${SHOAL_SOURCE_DIR:?}/tests/check_lib.sh"

"$shoal" plan mlp -n 2 --strategy data -o made.json >made
# By hand: a moment rests cut, and its update is computed where it rests, in the plan's own words.
"$shoal" plan mlp -n 2 --strategy explicit --mesh data=2 \
  --layouts 'x=data:0;y=data:0;fc1/weight#adamw.*=data:0' -o cut.json >cut
"$shoal" explain mlp -n 2 --plan made.json >made.txt
python3 - <<'PYTHON'
import json
names = {"states": [], "nodes": {}}
for line in open("made.txt"):
    if line.startswith("states at rest"): section = names["states"]
    elif line.startswith("graph "): section = names["nodes"].setdefault(line.split()[1], [])
    elif not line.startswith("  "): section = []
    elif not line.startswith("    "): section.append(line.split()[0])
json.dump(names, open("names.json", "w"))
PYTHON
python3 - <<'PYTHON'
import json
made, cut = json.load(open("made.json")), json.load(open("cut.json"))
assert made["resolved"]["decisions"] != cut["resolved"]["decisions"]
# The older form of a resolved part, with maps of states and nodes, says the same.
old = json.loads(json.dumps(made))
decisions = old["resolved"].pop("decisions")
del old["resolved"]["intent"]
names = json.load(open("names.json"))
old["resolved"]["states"] = {name: "" for name in names["states"]}
old["resolved"]["nodes"] = {graph: {node: {"ways": {}} for node in nodes} for graph, nodes in names["nodes"].items()}
for d in decisions:
    if d["kind"] == "layout" and "state" in d:
        old["resolved"]["states"][d["state"]] = d["choice"]
    if d["kind"] == "way" and not d["choice"].endswith("=whole"):
        axis, way = d["choice"].split("=", 1)
        old["resolved"]["nodes"][d["graph"]][d["node"]]["ways"][axis] = way
json.dump(old, open("old.json", "w"))
made["resolved"]["decisions"] = cut["resolved"]["decisions"]
json.dump(made, open("edited.json", "w"), indent=2)
PYTHON
program() { sed -n '/^shoal_program/,/^passed/{/^passed/d;s/eps=[^,}]*//;p;}' "$1"; }
memory() { sed -n 's/.*memory planned \([0-9.]* [KM]iB\).*/\1/p' "$1"; }

for file in made edited old; do
  "$shoal" train mlp -n 2 --plan $file.json --threads --steps 1 >train.$file 2>&1
  "$shoal" explain mlp -n 2 --plan $file.json --program >explain.$file 2>&1
  "$shoal" check mlp -n 2 --plan $file.json --seed 1 --verbose >check.$file 2>&1
  ! grep -H 'completed anew' train.$file explain.$file check.$file || fail "not all take $file.json as it stands"
  cmp <(program explain.$file) <(program check.$file) || fail "the check proves another program than $file.json"
done
cmp <(program explain.made) <(program explain.old) || fail "a file of the older form makes another program"
[ "$(memory train.made)" != "$(memory train.edited)" ] || fail "the edited plan is no other plan, or training left it"
grep -q '^state fc1/weight#adamw.m f32\[64, 128\] "data:0"' check.edited || fail "the check left the edited part"

for command in train check; do
  "$shoal" $command mlp -n 2 --plan edited.json --hidden 100 --steps 1 >other 2>&1
  grep -q 'completed anew' other || fail "$command does not say that edited.json is of another model"
done

# Decisions of the command line come behind those of the file, and win; the rest of the file holds.
"$shoal" plan mlp -n 2 --strategy explicit --mesh data=2 --layouts 'x=data:0;y=data:0' \
  --decide 'sync * bucket=1K' --decide 'memory fc1/weight host' -o first.json >first
python3 - <<'PYTHON'
import json
plan = json.load(open("first.json"))
del plan["resolved"]
json.dump(plan, open("intent.json", "w"))
PYTHON
for file in first intent; do
  anew=', which is completed anew with them'
  [ $file = first ] || anew=
  for command in plan explain simulate check train; do
    more=
    [ $command != train ] || more='--threads --steps 1'
    "$shoal" $command mlp -n 2 --plan $file.json --decide 'memory fc1/weight device' --decide 'sync fc1/bias each' $more \
      >out 2>&1 || { cat out >&2; fail "$command takes no decisions with $file.json"; }
    grep -qxF "shoal: 2 decisions of --decide behind those of '$file.json'$anew" out ||
      { cat out >&2; fail "$command does not say what it added to $file.json"; }
  done
  "$shoal" plan mlp -n 2 --plan $file.json --decide 'memory fc1/weight device' -o both.json >out 2>&1
  python3 - <<'PYTHON'
import json
decisions = json.load(open("both.json"))
given = [(d["kind"], d["choice"]) for d in decisions["intent"]["decisions"]]
assert given == [("sync", "bucket=1K"), ("memory", "host"), ("memory", "device")], given
kinds = [d["kind"] for d in decisions["resolved"]["decisions"]]
assert "sync" in kinds and "memory" not in kinds, kinds
PYTHON
done
"$shoal" explain mlp -n 2 --plan first.json --decide 'memory fc9 host' >out 2>&1 && fail "a pattern that matches nothing"
grep -q "memory 'fc9' matches no state" out || fail "a bad decision is not named"

# A table of one's own may take micro-batches in any order: sums over them are complete after the one that runs last.
python3 - <<'PYTHON'
import json
rows = {"down": ["F0.2 F0.1 F0.0 B0.2 B0.1 B0.0", "F1.2 F1.1 F1.0 B1.2 B1.1 B1.0"],
        "apart": ["F0.0 F0.1 F0.2 B0.1 B0.2 B0.0 W0.2 W0.0 W0.1", "F1.0 F1.1 F1.2 B1.1 B1.2 W1.2 B1.0 W1.0 W1.1"]}
for name, (a, b) in rows.items():
    intent = {"meshes": ["a!data=1,micro=3@0", "b!data=2,micro=3@1-2"], "layouts": {"x": "a!micro:0", "y": "b!micro:0,data:0"},
              "stages": {"fc1/*": "a", "relu": "a", "fc2/*": "b", "cross_entropy": "b"},
              "decisions": [{"kind": "schedule", "pattern": "train", "choice": f"table a: {a}\nb: {b}"}]}
    json.dump({"shoal_plan": 1, "intent": intent}, open(name + ".json", "w"))
PYTHON
for file in down apart; do
  "$shoal" check mlp --batch 7 -n 3 --plan $file.json --seed 1 >check.$file 2>&1 || fail "$(cat check.$file)"
done
