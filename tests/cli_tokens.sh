#!/usr/bin/env bash
# labels: san
# `shoal info`, `shoal tokenize` and `shoal plot`: files that come back as they were, and what is refused.
set -euo pipefail
shoal=${SHOAL_BIN:-build/release/shoal}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAILED $*"; exit 1; }
refused() { # CODE PART COMMAND...
  local code=$1 part=$2
  shift 2
  if "$shoal" "$@" >out 2>err; then fail "shoal $* succeeded"; fi
  grep -q "error: $code" err && grep -qF -- "$part" err || fail "shoal $*: $(cat err)"
}

# ---- info ---------------------------------------------------------------------------------------
"$shoal" models | sed -nE 's/^([a-z0-9-]+): .*/\1/p' >families
"$shoal" info | sed -n 's/^models //p' | tr ' ' '\n' | cmp - families || fail "info lists other models"
[ "$(wc -l <families)" -gt 9 ] || fail "only $(cat families)"

# ---- tokenize -----------------------------------------------------------------------------------
# A vocabulary of more than 65536 ids, and one of fewer; with merges, so that pieces must fit together.
python3 - <<'PYTHON'
import json
prints = [*range(33, 127), *range(161, 173), *range(174, 256)]
names = {b: chr(b) for b in prints}
names.update({b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in names)})
vocabulary = {names[b]: b for b in range(256)}
for i, word in enumerate(["Ġa", "ab", "Ġab", "ĊĊ"]):
    vocabulary[word] = 256 + i
vocabulary["<|endoftext|>"] = 300
for folder, last in (("small", 300), ("large", 70000)):
    vocabulary["<|endoftext|>"] = last
    __import__("os").mkdir(folder)
    json.dump(vocabulary, open(f"{folder}/vocab.json", "w"))
    open(f"{folder}/merges.txt", "w").write("#version: 0.2\nĠ a\na b\nĠa b\nĊ Ċ\n")
# More than is read at a time, some of it no UTF-8.
data = b"ab a \xff\n\n ab<|endoftext|>  " + bytes(range(256))
open("text", "wb").write((data * 20000)[:17 << 18])
PYTHON
for tokenizer in small large bytes; do
  "$shoal" tokenize text --tokenizer $tokenizer -o tokens.bin >said
  "$shoal" tokenize tokens.bin --decode --tokenizer $tokenizer -o back >/dev/null
  cmp text back || fail "$tokenizer: the text comes back otherwise"
done
python3 - <<'PYTHON' || fail "token files"
import os, struct, subprocess
def tokens(*options):
    subprocess.run([os.environ.get("SHOAL_BIN", "shoal"), "tokenize", "short", "-o", "t.bin", *options], check=True,
                   stdout=subprocess.DEVNULL)
    return open("t.bin", "rb").read()
open("short", "w").write("ab a<|endoftext|>")
ids = [97, 98, 32, 97]
assert tokens("--raw") == struct.pack("<17H", *b"ab a<|endoftext|>")
data = tokens("--tokenizer", "small")
assert struct.unpack("<3i", data[:12]) == (20240520, 1, 3) and len(data) == 1024 + 6
assert struct.unpack("<3H", data[1024:]) == (257, 256, 300), struct.unpack("<3H", data[1024:])
data = tokens("--tokenizer", "large", "--end", "--special-as-text")
assert struct.unpack("<3i", data[:12]) == (20240801, 7, (len(data) - 1024) // 4)
assert struct.unpack("<2I", data[1024:1032]) == (257, 256) and struct.unpack("<I", data[-4:]) == (70000,)
PYTHON
refused NOT_FOUND nowhere tokenize text --tokenizer nowhere -o x.bin
refused IO absent tokenize absent -o x.bin
refused INVALID_ARGUMENT "which file is to be written" tokenize text
refused INVALID_ARGUMENT "no token that ends a text" tokenize text --end -o x.bin
refused INVALID_ARGUMENT "it has no header" tokenize text --decode -o x.txt
head -c 1031 t.bin >cut.bin
refused INVALID_ARGUMENT "cut short" tokenize cut.bin --decode --tokenizer large -o x.txt
refused INVALID_ARGUMENT "id 70000 is no token of small" tokenize t.bin --decode --tokenizer small -o x.txt
cp short kept && ln kept linked
refused INVALID_ARGUMENT "is a file that is read" tokenize short linked -o kept
cmp short kept || fail "tokenize replaced what it read"
[ ! -e x.bin ] && [ ! -e x.txt ] && [ ! -e x.txt.part ] || fail "something was left behind"

# ---- plot ---------------------------------------------------------------------------------------
printf '{"step": 1, "loss": 4}\n{"step": 2, "loss": 2, "lr": 0.1}\n{"step": 3, "lo' >run.jsonl
printf '{"step": 1, "loss": 3}\n{"step": 2, "loss": 1}\n' >more.jsonl
"$shoal" plot run.jsonl more.jsonl --smooth 0.5 --log -o curves.svg >/dev/null 2>note
grep -q "run.jsonl: the last line is incomplete" note || fail "no note: $(cat note)"
python3 -c 'import sys, xml.dom.minidom as m; m.parse("curves.svg")' || fail "the SVG is no XML"
grep -q "more loss" curves.svg || fail "no legend"
"$shoal" plot run.jsonl --list 2>/dev/null | grep -Eq "loss +2 +2 +2 +2 +4" || fail "--list"
"$shoal" plot more.jsonl -o - | grep -q "</svg>" || fail "-o -"
cp more.jsonl same.jsonl
refused INVALID_ARGUMENT "is a file that is read" plot more.jsonl same.jsonl -o same.jsonl
cmp more.jsonl same.jsonl || fail "plot replaced what it read"
refused NOT_FOUND "there are those below" plot run.jsonl -m acc
printf '{"step": 1}\nno line\n' >bad.jsonl
refused INVALID_ARGUMENT "bad.jsonl:2" plot bad.jsonl
refused INVALID_ARGUMENT "which run" plot
