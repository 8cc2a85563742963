#!/usr/bin/env python3
"""The tables of `shoal explain --show`: memory by layer and kind adds up to the planned arena, to the byte; what ranks send is
what the strategies are known to send; tables fit into 100 columns, and layers that repeat are one line.

Bytes are summed over ranks, so that they are exact also where sizes do not divide: an all-reduce of G bytes over n ranks sends
2 (n-1) G in all, a reduce-scatter or an all-gather (n-1) G.
"""
# labels: san

import json
import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent))
SHOAL = os.environ.get("SHOAL_BIN", str(SOURCE / "build/release/shoal"))
KINDS = ("parameters", "states", "inputs", "activations", "gradients", "communication", "other")


def shoal(*words, code=0):
    result = subprocess.run([SHOAL, "explain", *words, "--cache", ""], capture_output=True, text=True)
    if result.returncode != code:
        sys.exit(f"explain {' '.join(words)} ended with {result.returncode}:\n{result.stderr}")
    return result.stdout if code == 0 else result.stderr


def tables(words, rank, show="all"):
    return json.loads(shoal(*words, "--rank", str(rank), "--format", "json", "--show", show))


def check(what, found, wanted):
    if found != wanted:
        sys.exit(f"{what}: {found}, not {wanted}")


def check_memory(words, rank):
    """Layers and what is unused are the arena, which the program names too; states are those of the program."""
    explained = tables(words, rank)
    program = shoal(*words, "--program", "--rank", str(rank))
    arenas = re.search(r"^class 0 ranks \S+ arena (\d+)(?: host (\d+))?(?: file (\d+))?", program, re.M)
    check("one class", len(re.findall("^class", program, re.M)), 1)
    for kind, planned in zip(("device", "host", "file"), arenas.groups(default="0")):
        table = explained["memory"][kind]
        rows = sum(row[key] for row in table["layers"] for key in KINDS)
        check(f"{words} rank {rank}, {kind}: arena", table["arena"], int(planned))
        check(f"{words} rank {rank}, {kind}: sum", rows + table["unused"], int(planned))
        assert table["unused"] >= 0, (words, table)
        states = sum(value["bytes"] for value in explained["values"]
                     if value["kind"] == "state" and value["memory"] == kind)
        check(f"{words} rank {rank}, {kind}: states",
              sum(row["parameters"] + row["states"] for row in table["layers"]), states)
    return explained


def sent(words, ranks):
    """Bytes by (pass, collective, axes), over all ranks; sums of scalars (the loss) apart."""
    sums = {}
    for rank in range(ranks):
        for row in tables(words, rank, "communication")["communication"]:
            if row["value"] == "cross_entropy":
                continue
            key = (row["pass"], row["collective"], row["axes"])
            sums[key] = sums.get(key, 0) + row["bytes"]
    return sums


G = 4 * 9610  # parameters of the mlp, in f32
for n in (2, 3):
    all_reduce, gather = ("backward", "all_reduce", "data"), ("update", "all_gather", "data")
    scatter = ("backward", "reduce_scatter", "data")
    share = (n - 1) * G
    check("data", sent(["mlp", "-n", str(n), "--strategy", "data"], n), {all_reduce: 2 * share})
    check("zero1", sent(["mlp", "-n", str(n), "--strategy", "zero1"], n), {scatter: share, gather: share})
    micro = ["--mesh", f"data={n},micro=2"]
    check("data, 2 micro-batches", sent(["mlp", "-n", str(n), "--strategy", "data", *micro], n), {all_reduce: 2 * share})
    check("zero2, 2 micro-batches", sent(["mlp", "-n", str(n), "--strategy", "zero2", *micro], n),
          {scatter: 2 * share, gather: share})
    zero3 = sent(["mlp", "-n", str(n), "--strategy", "zero3", *micro], n)
    check("zero3, gradients", zero3[scatter], 2 * share)
    check("zero3, weights", zero3[("forward", "all_gather", "data")], 2 * share)
    # The backward pass needs no bias, and no weight of the first layer.
    check("zero3, weights again", zero3[("backward", "all_gather", "data")], 2 * (n - 1) * 4 * 1280)
# Buckets change how often something is sent, not what.
bucket = ["mlp", "-n", "2", "--strategy", "data", "--decide", "sync * bucket=1M"]
check("a bucket", sent(bucket, 2), {("backward", "all_reduce", "data"): 2 * G})
rows = tables(bucket, 0, "communication")["communication"]
check("its calls and values", [sum(row[key] for row in rows if row["pass"] == "backward") for key in ("calls", "count")],
      [1, 4])

for words, ranks in ((["mlp", "-n", "3", "--strategy", "zero3"], (0, 2)),
                     (["gpt2-tiny", "-n", "4", "--strategy", "tensor+zero1", "--mesh", "data=2,tensor=2"], (1,)),
                     (["gpt2-tiny", "-n", "2", "--strategy", "pipeline", "--mesh", "pipe=2,micro=3"], (0, 1)),
                     (["gpt2-tiny", "-n", "2", "--strategy", "data", "--decide", "memory *adamw* host"], (0,)),
                     (["gpt2-tiny", "--decide", "recompute block* yes"], (0,))):
    for rank in ranks:
        check_memory(words, rank)
stages = tables(["gpt2-tiny", "-n", "2", "--strategy", "pipeline", "--mesh", "pipe=2,micro=3"], 0)
between = [row for row in stages["communication"] if row["collective"] == "between" and row["bytes"] > 0]
assert any(row["pass"] == "forward" and row["count"] == 3 for row in between), between

for show in ("values", "communication", "memory"):
    text = shoal("gpt2-tiny", "--layers", "48", "-n", "2", "--strategy", "zero1", "--show", show)
    longest = max(text.splitlines(), key=len)
    assert len(longest) <= 100, longest
    assert "block0..47" in text and "block7/" not in text, text
    assert len(text.splitlines()) < 220, len(text.splitlines())
    if show == "memory":  # lines of layers, what is unused, and their sum
        column = [int(line.split()[-1]) for line in text.splitlines() if re.fullmatch(r"  [^ (].* \d+", line)]
        check("the column of totals", sum(column[:-1]), column[-1])
    if show == "communication":
        first, second = text.split("by value\n")
        check("bytes by value", sum(int(line.split()[-1]) for line in second.splitlines()), int(first.split()[-1]))
# What goes at its real size is bounded, and so is the sum that has it.
text = shoal("moe-gpt-tiny", "--set", "bounded=yes", "-n", "2", "--strategy", "expert", "--show", "communication")
first, second = text.split("by value\n")
assert re.search(r" <= \d+\n", second) and re.search(r" at most \d+\n", first) and re.search(r"  total +at most \d+\n$", first), text
assert re.search(r" all_reduce .* \d+ +\d+\n", first) and max(map(len, text.splitlines())) <= 100, text
check("bounded bytes by value", sum(int(line.split()[-1]) for line in second.splitlines()), int(first.split()[-1]))
text = shoal("gpt2-tiny", "--layers", "48", "-n", "2", "--strategy", "zero1")
kept = text[text.index("  layer, bytes"):].splitlines()
assert max(map(len, kept)) <= 100 and any(line.startswith("  block0..47 ") for line in kept), kept
assert "there is no rank 2: the plan has 2" in shoal("mlp", "-n", "2", "--rank", "2", "--show", "memory", code=2)
print("explain_tables: ok")
