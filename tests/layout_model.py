#!/usr/bin/env python3
# labels: san
"""Compares `shoal layout` with an independent model on random layouts.

The model follows the words at the head of include/shoal/layout.h, with plain lists of indices. The
seed is fixed unless one is given, as `make soak` does. Also asks for layouts that must be refused.

Usage: tests/layout_model.py [--seed N] [--count N]        (SHOAL_BIN: the program)
"""

import argparse
import itertools
import json
import math
import os
import random
import subprocess
import sys
import tempfile


# ---- the model -------------------------------------------------------------------------------------

def deal(units, parts, weights):
    """[(first, end)] of each part."""
    if weights is None:
        sizes = [units // parts + (1 if i < units % parts else 0) for i in range(parts)]
    else:
        total = sum(weights)
        sizes = [units * w // total for w in weights]
        # largest remainder first, ties to the first (sorted is stable)
        order = sorted(range(parts), key=lambda i: -(units * weights[i] % total))
        for i in order[:units - sum(sizes)]:
            sizes[i] += 1
    ends = list(itertools.accumulate(sizes))
    return [(end - size, end) for size, end in zip(sizes, ends)]


def cut_packed(own, unit, items, cut, part):
    """A packed list, no halo."""
    units = -(-len(own) // unit) if items is None else items
    ranges = deal(units, cut["n"], cut.get("weights"))
    first, end = ranges[part]
    if items is not None:
        if items == 0:
            return list(own) if part == 0 else []
        if first == end:
            return []
        if end == items:
            return own[first * unit:]
    return own[first * unit:end * unit]


def chunk_list(cut, length):
    """[(low, high, unit)]"""
    unit = cut.get("unit", 1)
    if isinstance(cut["chunks"], int):
        size = length // cut["chunks"]
        return [(i * size, (i + 1) * size, unit) for i in range(cut["chunks"])]
    result, low = [], 0
    for size, chunk_unit in cut["chunks"]:
        result.append((low, low + size, chunk_unit or unit))
        low += size
    return result


def dim_part(cuts, length, coords):
    """(own, held) as lists of indices. cuts are those of this dim, outermost first."""
    own, held, origin = list(range(length)), set(range(length)), 0
    outer = None  # (items of the part, unit) if the cut outside gave items
    chunked = any("chunks" in cut for cut in cuts)
    for cut in cuts:
        part, unit = coords[cut["axis"]], cut.get("unit", 1)
        items = cut.get("items")
        if chunked:
            if "chunks" in cut:
                pieces = []
                for low, high, chunk_unit in chunk_list(cut, length):
                    inside = [i for i in own if low <= i < high]
                    pieces += cut_packed(inside, chunk_unit, items, cut, part)
                own, outer = pieces, None
            else:
                if items is not None and outer is not None and outer[1] == unit:
                    items = outer[0]
                own = cut_packed(own, unit, items, cut, part)
                outer = None
                if items is not None:
                    first, end = deal(items, cut["n"], cut.get("weights"))[part]
                    outer = (end - first, unit)
            held = set(own)
            continue
        if items is not None:
            if outer is not None and outer[1] == unit:
                items = outer[0]
            ranges = deal(items, cut["n"], cut.get("weights"))
            first, end = ranges[part]
            outer = (end - first, unit)
            has = part == 0 if items == 0 else first < end
            start, stop = first * unit, end * unit
            if end == items:
                stop = max(stop, len(own))
        else:
            units = -(-len(own) // unit)
            first, end = deal(units, cut["n"], cut.get("weights"))[part]
            outer = None
            has = first < end
            start, stop = first * unit, min(end * unit, len(own))
        if not has:
            own, held, origin = [], set(), origin + start
            continue
        before, after = cut.get("halo", (0, 0))
        held = {i for i in held if origin + start - before <= i < origin + stop + after}
        start, stop = start + max(0, -before), stop - max(0, -after)
        own = own[start:max(start, stop)]
        origin += start
    return own, sorted(held)


def intervals(indices):
    result = []
    for i in indices:
        if result and result[-1][1] == i:
            result[-1][1] = i + 1
        else:
            result.append([i, i + 1])
    return result


def boxes_of(lists):
    return [{"start": [low for low, _ in choice], "size": [high - low for low, high in choice]}
            for choice in itertools.product(*map(intervals, lists))]


def expected(query):
    shape, axes, micro, items = query["shape"], query["axes"], query["micro"], query["items"]
    names = [name for name, _ in axes]
    entries = []
    for rank, place in enumerate(itertools.product(*(range(n) for _, n in axes))):
        for m in range(micro if micro > 1 else 1):
            coords = dict(zip(names, place), micro=m)
            own, held = [], []
            for dim, length in enumerate(shape):
                o, h = dim_part([c for c in items if c.get("dim") == dim], length, coords)
                own.append(o)
                held.append(h)
            entry = {"rank": query["ranks"][rank] if query["ranks"] else rank, "boxes": boxes_of(own)}
            if micro > 1:
                entry["micro"] = m
            cells = set(itertools.product(*held)) - set(itertools.product(*own))
            if cells:
                entry["halo"] = cells
            flats = [c for c in items if c.get("flat")]
            if flats:
                low, high = 0, 1
                for o in own:
                    high *= len(o)
                for cut in flats:
                    taken = cut_packed(list(range(low, high)), cut.get("unit", 1), None, cut,
                                       coords[cut["axis"]])
                    unit, size = cut.get("unit", 1), high - low
                    first, end = deal(-(-size // unit), cut["n"], cut.get("weights"))[coords[cut["axis"]]]
                    new = (low + min(first * unit, size), low + min(end * unit, size))
                    assert taken == list(range(*new))
                    low, high = new
                entry["flat"] = [low, high]
            partial = {c["axis"]: c["partial"] for c in items if "partial" in c}
            if partial:
                entry["partial"] = partial
            entries.append(entry)
    return entries


# ---- drawing ---------------------------------------------------------------------------------------

def item_text(cut):
    if "partial" in cut:
        return f"{cut['axis']}:partial({cut['partial']})"
    text = f"{cut['axis']}:{'flat' if cut.get('flat') else cut['dim']}"
    if "chunks" in cut:
        if isinstance(cut["chunks"], int):
            text += f"*{cut['chunks']}"
        else:
            text += "*(" + ",".join(f"{n}/{u}" if u else f"{n}" for n, u in cut["chunks"]) + ")"
    if "unit" in cut:
        text += f"/{cut['unit']}"
    if cut.get("items") is not None:
        text += f"#{cut['items']}"
    if "weights" in cut:
        text += "(" + ",".join(map(str, cut["weights"])) + ")"
    if "halo" in cut:
        text += "".join(f"{n:+d}" for n in cut["halo"])
    return text


def text_of(query):
    axes = [f"{name}={size}" for name, size in query["axes"]]
    if query["micro"]:
        axes.insert(query["micro_at"], f"micro={query['micro']}")
    ranks = "@" + ",".join(map(str, query["ranks"])) if query["ranks"] else ""
    return "|".join([",".join(map(str, query["shape"])), ",".join(axes) + ranks,
                     ",".join(map(item_text, query["items"]))])


def draw_weights(rng, n):
    weights = [rng.choice([0, 1, 1, 2, 3, 7, 100]) for _ in range(n)]
    return weights if sum(weights) else None


def draw_chunks(rng, length):
    count = rng.randint(1, 4)
    if rng.random() < 0.4:
        return count if length % count == 0 else None
    if length < count:
        return None
    ends = sorted(rng.sample(range(1, length), count - 1)) + [length]
    return [(high - low, rng.choice([0, 0, 1, 2, 3])) for low, high in zip([0] + ends, ends)]


def draw(rng):
    rank = rng.choice([0, 1, 1, 1, 2, 2, 3])
    shape = [rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 24][: 12 if rank < 3 else 8])
             for _ in range(rank)]
    names = rng.sample(["data", "tensor", "pipe", "b", "expert_2"], rng.choice([1, 1, 2, 2, 3]))
    axes = [(name, rng.choice([1, 2, 2, 3, 3, 4, 5, 7])) for name in names]
    micro = rng.choice([0, 0, 0, 0, 1, 2, 3])
    query = {"shape": shape, "axes": axes, "micro": micro, "micro_at": rng.randint(0, len(axes))}
    size = math.prod(n for _, n in axes)
    query["ranks"] = rng.sample(range(2 * size), size) if axes and rng.random() < 0.3 else None
    cutting = [a for a in axes if rng.random() < 0.85]
    rng.shuffle(cutting)
    partial = [a for a in cutting if rng.random() < 0.12]
    cutting = [a for a in cutting if a not in partial]
    flat_from = len(cutting) if rng.random() < 0.75 else rng.randint(0, len(cutting))
    cuts = []
    if micro and rank and rng.random() < 0.7:
        cuts.append({"axis": "micro", "n": micro, "dim": rng.randrange(rank)})
    for i, (axis, n) in enumerate(cutting):
        if i >= flat_from or rank == 0:
            cuts.append({"axis": axis, "n": n, "flat": True})
        else:
            cuts.append({"axis": axis, "n": n, "dim": rng.randrange(rank) if rng.random() < 0.6 else 0})
    haloed, chunked = set(), set()
    flat = any(c.get("flat") for c in cuts)
    for cut in cuts:
        if rng.random() < 0.35:
            cut["unit"] = rng.choice([1, 2, 2, 3, 4, 5, 64])
        if rng.random() < 0.3:
            weights = draw_weights(rng, cut["n"])
            if weights:
                cut["weights"] = weights
        if cut.get("flat"):
            continue
        dim, length = cut["dim"], shape[cut["dim"]]
        if rng.random() < 0.2 and dim not in haloed:
            chunks = draw_chunks(rng, length)
            if chunks is not None:
                cut["chunks"] = chunks
                chunked.add(dim)
        if rng.random() < 0.3:
            cut["items"] = rng.choice([0, 1, 2, 3, 4, 5, 6, 8, 12, 30])
        if rng.random() < 0.35 and dim not in chunked and not flat:
            cut["halo"] = (rng.choice([-2, -1, 0, 0, 1, 1, 2, 5]), rng.choice([-2, -1, 0, 0, 1, 1, 2, 5]))
            haloed.add(dim)
    # what the rules do not give a meaning to: two cuts of a dim with items, chunks among them
    for dim in range(rank):
        with_items = [c for c in cuts if c.get("dim") == dim and c.get("items") is not None]
        if dim in chunked:
            for cut in with_items[1:]:
                del cut["items"]
    for axis, n in partial:
        cuts.insert(rng.randint(0, len(cuts)), {"axis": axis, "n": n, "partial": rng.choice(
            ["sum", "max", "min", "lse"])})
    query["items"] = cuts
    return query


WRONG = [
    "4,4|data=2|data:2", "4|data=2|tensor:0", "4|data=2|data:0,data:0", "4|data=0|data:0", "4|data=2|data:0/0",
    "5|data=2|data:0*3", "5|data=2|data:0*(2,2)", "4|data=2|data:0*2+1+1", "4|data=2,b=2|data:flat,b:0",
    "4|data=2,b=2|data:0+1+1,b:flat", "4|data=2|data:0(1)", "4|data=2|data:0(0,0)", "4|data=2|data:0+1",
    "4|data=2,micro=2|data:0,micro:0", "4|data=2,data=2|data:0", "4|data=2|data:partial(mean)", "|data=2|data:0",
    "4|data=2|data:0,", "4|data=2|data:0(1,-1)", "4|micro=2|micro:flat", "4|data=2@0|data:0",
    "-4|data=2|data:0", "4,|data=2|data:0", "4|data=2|data:0*(4,0)", "4|data=2|data", "4|data=2|:0",
]


# ---- comparison ------------------------------------------------------------------------------------

def compare(want, got):
    """What is wrong, or None."""
    if set(want) != set(got):
        return f"keys {sorted(got)} instead of {sorted(want)}"
    for key in want:
        if key != "halo":
            if want[key] != got[key]:
                return f"{key}: {got[key]} instead of {want[key]}"
            continue
        cells = [cell for box in got["halo"]
                 for cell in itertools.product(*(range(s, s + n) for s, n in zip(box["start"], box["size"])))]
        if len(cells) != len(set(cells)) or set(cells) != want["halo"]:
            return f"halo: {got['halo']} covers {sorted(cells)} instead of {sorted(want['halo'])}"
        if got["halo"] != sorted(got["halo"], key=lambda box: box["start"]):
            return "halo boxes are not sorted"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=4000)
    options = parser.parse_args()
    program = os.environ.get("SHOAL_BIN", "shoal")
    if not os.path.exists(program):
        print(f"skipped: there is no {program}")
        return 77
    print(f"seed {options.seed}", flush=True)
    rng = random.Random(options.seed)
    queries = [draw(rng) for _ in range(options.count)]
    lines = [text_of(query) for query in queries]
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(lines + WRONG) + "\n")
        file.flush()
        run = subprocess.run([program, "layout", "--batch", file.name], capture_output=True, text=True)
    if run.returncode != 0:
        print(f"shoal layout --batch ended with {run.returncode}: {run.stderr}")
        return 1
    answers = [json.loads(line) for line in run.stdout.splitlines()]
    if len(answers) != len(lines) + len(WRONG):
        print(f"{len(answers)} answers to {len(lines) + len(WRONG)} questions")
        return 1
    failures = 0
    for query, line, answer in zip(queries, lines, answers):
        want = expected(query)
        if "error" in answer:
            wrong = f"refused: {answer['message']}"
        elif len(answer["ranks"]) != len(want):
            wrong = f"{len(answer['ranks'])} entries instead of {len(want)}"
        else:
            wrong = next(filter(None, map(compare, want, answer["ranks"])), None)
        if wrong:
            failures += 1
            shape, mesh, layout = line.split("|")
            print(f"FAILED {wrong}\n  shoal layout --shape '{shape}' --mesh '{mesh}' --layout '{layout}'")
            if failures == 10:
                break
    for line, answer in zip(WRONG, answers[len(lines):]):
        if "error" not in answer:
            failures += 1
            print(f"FAILED '{line}' was accepted")
    # one question asked alone answers the same as in a batch
    shape, mesh, layout = lines[0].split("|")
    alone = subprocess.run([program, "layout", "--shape", shape, "--mesh", mesh, f"--layout={layout}",
                            "--format", "json"], capture_output=True, text=True)
    if json.loads(alone.stdout) != answers[0]:
        failures += 1
        print(f"FAILED '{lines[0]}' alone answers otherwise")
    text = subprocess.run([program, "layout", "--shape", shape, "--mesh", mesh, f"--layout={layout}"],
                          capture_output=True, text=True)
    if text.returncode != 0 or any(len(row) > 80 for row in text.stdout.splitlines() if "+--" in row):
        failures += 1
        print(f"FAILED text output of '{lines[0]}'")
    # ranks are called by their numbers, not by where the mesh lists them
    for extra, wanted in (([], ["| 3 ", "| 1 ", "rank 3 data=0: ", "rank 1 data=1: "]), (["--rank", "1"], ["rank 1 data=1: "])):
        text = subprocess.run([program, "layout", "--shape", "4,4", "--mesh", "data=2@3,1", "--layout", "data:0", *extra],
                              capture_output=True, text=True).stdout
        if not all(word in text for word in wanted) or "rank 0" in text:
            failures += 1
            print(f"FAILED ranks of a list {extra}:\n{text}")
    print(f"{len(lines)} layouts, {len(WRONG)} refusals: {failures or 'no'} failures (seed {options.seed})")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
