"""Proves combinations: zoo models x strategies and their products x ranks x schedules x dtypes x backends x optimizers x
memory x micro-batches x recipes, each by one `shoal check` on drawn meshes and sizes that do not divide. The
check_combinations*.sh tests and `make soak` call it.

Without --random it builds a pairwise covering array while it runs: the next row takes a pair of values that no row has
proven yet and fills the other columns so that most new pairs come with it; rows that were refused teach it which values
to keep apart. The choice of rows depends on the seed and on what the program answers, not on times. A refusal must be of
a kind that REFUSALS states; a pair that is to blame for one counts as refused, any other is given up after TRIES rows.
With --random rows are drawn from the whole product, for as long as --minutes says, up to the first failure.

Prints a line that runs again what failed, and a table of what was covered; fails where a check fails, a refusal is not
of a stated kind, or less is covered than FLOORS say.

Usage: combinations.py [--rows N] [--seed S] [--random --minutes X] [--only COLUMN=VALUE]... [--jobs N] [--brief]
"""

import argparse
import collections
import concurrent.futures
import itertools
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

BIN = os.environ["SHOAL_BIN"]
BUILD = os.environ.get("SHOAL_BUILD_DIR", os.path.dirname(BIN))
TRIES = 5  # rows in vain before a pair is given up
CANDIDATES = 40  # ways to fill a row that are weighed
BATCH = 8  # rows that run at a time; also with fewer jobs, so that all machines draw the same rows
LIMIT_S = 240

# Several strategies on one mesh: what is named, and the axes. An axis that no name speaks of brings in its usual strategy.
PRODUCTS = {
    "tensor+zero1": "data,tensor",
    "tensor+zero3": "data,tensor",
    "sequence+zero2": "tensor,data",
    "context+zero1": "data,context",
    "context+tensor": "context,tensor",
    "expert+zero1": "data,expert",
    "spatial height,width": "height,width",
    "spatial+channel": "height,channel",
    "data node,data,tensor": "node,data,tensor",
    "hybrid-zero node,data,tensor": "node,data,tensor",
    "zero1 data,context,tensor": "data,context,tensor",
    "zero2 data,height,channel": "data,height,channel",
    "zero2 data,expert,tensor": "data,expert,tensor",
    "zero3 node,data,context,tensor": "node,data,context,tensor",
    "spatial data,height,width,channel": "data,height,width,channel",
}
SCHEDULES = ["gpipe", "1f1b", "1f1b+1", "interleaved", "zb-h1", "zb-h2", "zb-v"]
DTYPES = {name: ["--dtype", name] for name in ("f64", "f32", "bf16", "f16")}
DTYPES |= {"mixed bf16": ["--dtype", "bf16", "--mixed"], "mixed f16": ["--dtype", "f16", "--mixed"]}
OPTIMIZERS = {name: ["--optimizer", name] for name in ("adamw", "adam", "sgd", "lion", "lamb", "adafactor", "muon")}
OPTIMIZERS["sgd momentum"] = ["--optimizer", "sgd", "--momentum", "0.9"]
MEMORY = {
    "-": [],
    "recompute": ["--decide", "recompute * yes"],
    "redo": ["--decide", "keep * redo"],
    "states on host": ["--decide", "memory * host"],
    "states in files": ["--decide", "memory * file"],
    "activations on host": ["--decide", "keep * host"],
}
RECIPES = {
    "-": [],
    "clip norm": ["--clip-norm", "0.1"],
    "clip max": ["--clip-max", "0.01"],
    "clip before": ["--clip-norm", "0.1", "--clip-before"],
    "average": ["--average", "0.9"],
    "buckets": ["--decide", "sync * bucket=1K"],
    "sync each": ["--decide", "sync * each"],
    "sync bf16": ["--decide", "sync * dtype=bf16"],
    "sync sparse": ["--decide", "sync * sparse"],
}
# Settings that change a graph: drawn for a third of a family's rows.
VARIANTS = {
    "gpt2-tiny": ["--dropout 0.1 --no-tied --positions 7", "--dropout 0.1"],
    "llama-tiny": ["--tied --head-size 4"],
    "moe-gpt-tiny": ["--capacity 1", "--top-k 1 --balance 0", "--capacity 1 --balance 0"],
    "bert-tiny": ["--typed --padded --dropout 0.1 --masked 0", "--classes 3"],
    "t5-tiny": ["--gated --no-tied --padded --dropout 0.1"],
    "unet-tiny": ["--bilinear"],
    "dlrm-tiny": ["--hot 1"],
    "wide-resnet-tiny": ["--widen 2 --dropout 0.1"],
    "vit-tiny": ["--dropout 0.1"],
    "gat-tiny": ["--dropout 0.1 --layers 3"],
    "lstm-tiny": ["--dropout 0.1"],
}

# What may be refused: a kind, the columns whose values are to blame together, the error's words. Without columns it
# depends on the mesh or on what else was drawn: another row may pass.
WHOLE = r"is known only after all micro-batches .*"
REFUSALS = [
    (
        "the model has nothing for the strategy",
        ("model", "strategy"),
        r"strategy '[^']*': ('[a-z-]+': )?(the model has no |nothing in graph '[^']*' says how to share it)",
    ),
    (
        "no table that nothing else reads",
        ("model", "recipe"),
        r"decision 'sync \* sparse': about state '[^']*': its gradient(, which| is a sum of rows and) .* is dense",
    ),
    ("no map to slide over", ("model", "strategy"), r"'spatial': no convolution or pool of the model slides over a map"),
    (
        "batch statistics need the whole batch",
        ("model", "micro"),
        WHOLE + r"(\(shoal\.batch_norm\)|'discriminator/\w+/cast' \(shoal\.cast\)) runs on the whole batch",
    ),
    (
        "attention over edges in 16 bits needs the whole batch",
        ("model", "micro", "dtype"),
        WHOLE + r"\(shoal\.segment_softmax\) runs on the whole batch",
    ),
    (
        "one stage and one batch",
        ("ranks", "schedule", "micro"),
        r"has one stage and one batch, which leave nothing to schedule",
    ),
    (
        "what is clipped before the sum is exchanged once",
        ("strategy", "micro", "recipe"),
        r"is exchanged in every micro-batch \(sync each\), and clipped before ranks sum it",
    ),
    ("stages clip in other numbers of summands", (), r"have \d+ and \d+ ranks with a summand of them"),
    ("too few layers for the stages", (), r"layers or blocks in a row, which are too few for \d+ stages"),
]
# Least shares: of pairs that are covered, of rows that pass, of pairs of a model and a strategy. Each refused pair costs
# the row that finds it out.
FLOORS = {"pairs": 0.94, "rows": 0.65, "model and strategy": 0.65}
# Strategies that speak of marks, which no model of the zoo has: planners_annotated_test proves them.
MARKS = {"annotated"}


def output(*arguments):
    return subprocess.run([BIN, *arguments], check=True, capture_output=True, text=True).stdout


def strategies():
    """Name -> (names joined by '+', axes or None): the program's table, and products of it."""
    found = {}
    for line in output("strategies").splitlines():
        match = re.match(r"([a-z][a-z0-9-]*) +(-|[a-z,]+)  ", line)
        if match:
            name, axes = match.groups()
            found[name] = (name, None if axes == "-" else axes.split(",")[:1])
    found["hybrid-zero"] = ("hybrid-zero", ["node", "data"])
    known = {axis for _, axes in found.values() for axis in axes or []}
    assert len(found) >= 15 and {"data", "tensor", "pipe"} <= known, found
    for name, axes in PRODUCTS.items():
        found[name] = (name.split()[0], axes.split(","))
    return found


def mpi():
    family = "openmpi"
    if not shutil.which("mpirun.openmpi") or not os.path.exists(f"{BUILD}/libshoal_mpi_{family}.so"):
        return []
    os.environ["OMPI_ALLOW_RUN_AS_ROOT"] = os.environ["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1"
    return ["mpi"]


MPIRUN = "mpirun.openmpi --oversubscribe --bind-to none --mca btl_base_warn_component_unused 0 -np".split()


class Product:
    """The columns and their values; which of them cannot stand together; the command of a row."""

    def __init__(self, whole):
        self.strategies = strategies()
        models = [word for word in re.findall(r"^  (\S+)", output("models"), re.M) if "-tiny" in word]
        assert len(models) >= 16, models
        self.columns = {
            "model": models,
            "strategy": [name for name in self.strategies if name not in MARKS],
            "ranks": [1, 2, 3, 4, 5, 6, 8] + ([7, 12, 16] if whole else []),
            "schedule": ["-"] + SCHEDULES,
            "dtype": list(DTYPES),
            "backend": ["threads", "processes", "opaque", "direct"] + mpi(),
            "optimizer": list(OPTIMIZERS),
            "memory": list(MEMORY),
            "micro": [1, 2, 3, 5],
            "recipe": list(RECIPES),
        }
        # Starting processes takes time, and models with pictures are slow: where nothing is left to cover, fewer of these.
        self.weights = {
            "backend": {"threads": 6, "direct": 3, "opaque": 3, "processes": 2, "mpi": 0.5},
            "ranks": {8: 0.5, 12: 0.3, 16: 0.3},
            "model": {name: 0.2 for name in models if "resnet" in name or name.startswith("gan")},
            "schedule": {"-": 4},
        }

    def draw_value(self, rng, column):
        values = self.columns[column]
        weights = self.weights.get(column, {})
        return rng.choices(values, [weights.get(value, 1) for value in values])[0]

    def allowed(self, row):
        """Strategies that stand alone have no stages, and only `explicit` has a mesh."""
        if row.get("strategy") not in self.strategies or self.strategies[row["strategy"]][1]:
            return True
        return row.get("schedule", "-") == "-" and row.get("micro", 1) == 1

    def fill(self, rng, fixed):
        row = dict(fixed)
        for column in rng.sample(list(self.columns), len(self.columns)):
            if column in row:
                continue
            for _ in range(20):
                row[column] = self.draw_value(rng, column)
                if self.allowed(row):
                    break
            else:
                row[column] = self.columns[column][0]
        return row

    def mesh(self, rng, axes, ranks, micro):
        """The ranks' prime factors on drawn axes, stages first; stages alone are dealt any number of ranks."""
        if axes == ["pipe"]:
            sizes = {"pipe": rng.randint(min(ranks, 2), min(ranks, 4))}
        else:
            sizes = dict.fromkeys(axes, 1)
            primes = prime_factors(ranks)
            if "pipe" in sizes and primes and (primes[-1] < 5 or micro == 1):
                sizes["pipe"] = primes.pop()
            for prime in primes:
                least = min(sizes.values())
                sizes[rng.choice([axis for axis in axes if sizes[axis] == least])] *= prime
        parts = [f"{axis}={size}" for axis, size in sizes.items()]
        rng.shuffle(parts)
        return ",".join(parts + ([f"micro={micro}"] if micro > 1 else []))

    def command(self, row, seed):
        rng = random.Random(f"{seed} {sorted(row.items())}")
        name, axes = self.strategies[row["strategy"]]
        names = name.split("+")
        words = ["check", row["model"]]
        if row["backend"] != "mpi":
            words += ["-n", str(row["ranks"])]
        schedule = row["schedule"]
        if schedule != "-" and axes != ["pipe"]:
            axes = ["pipe"] + axes
            names.append(rng.choice(["pipeline", "uniform-pipeline"]))
        words += ["--strategy", "+".join(names)]
        if axes:
            words += ["--mesh", self.mesh(rng, axes, row["ranks"], row["micro"])]
        elif name == "explicit":
            words += ["--mesh", f"x={row['ranks']}", "--layouts", rng.choice(["*weight=x:0", "*weight=x:1"])]
        if schedule != "-":
            words += ["--decide", f"schedule train {schedule}"]
        words += DTYPES[row["dtype"]] + OPTIMIZERS[row["optimizer"]] + MEMORY[row["memory"]] + RECIPES[row["recipe"]]
        words += {"threads": [], "mpi": []}.get(row["backend"], ["--" + row["backend"]])
        batch = rng.choice([None, 3, 5, 7])
        words += ["--batch", str(batch)] if batch else []
        if row["model"] == "moe-gpt-tiny" and (row["micro"] > 1 or "expert" in (axes or [])):
            words += "--capacity 1 --balance 0".split()  # else experts' places and their balance need the whole batch
        elif row["model"] in VARIANTS and rng.random() < 1 / 3:
            words += rng.choice(VARIANTS[row["model"]]).split()
        if row["model"] == "resnet-tiny-deep" and "16" in row["dtype"]:
            words += "--size 17 --loss-scale 16".split()  # statistics of a few pixels are noise in 16 bits
        if row["optimizer"] == "lion" and row["model"] in ("gpt2-tiny", "bert-tiny", "vit-tiny"):
            words += ["--group", "*qkv/bias:optimizer=sgd"]  # keys' biases have gradients of 0 but for rounding: no sign
        if row["optimizer"] == "lion" and row["dtype"] != "f64":
            words += ["--lr", "1e-7"]  # the sign of a gradient that is small beside its rounding may turn
        words += ["--seed", str(seed)]
        return (MPIRUN + [str(row["ranks"])] if row["backend"] == "mpi" else []) + [BIN] + words


def prime_factors(number):
    factors, prime = [], 2
    while number > 1:
        while number % prime == 0:
            factors.append(prime)
            number //= prime
        prime += 1
    return factors[::-1]


def run(command):
    """('passed', ''), ('refused', kind) or ('failed', output)."""
    # mpirun's folder is not to be removed by another one that ends.
    folder = tempfile.TemporaryDirectory(prefix="shoal") if command[0] == MPIRUN[0] else None
    environment = dict(os.environ, TMPDIR=folder.name) if folder else None
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=LIMIT_S, stdin=subprocess.DEVNULL, env=environment
        )
    except subprocess.TimeoutExpired as error:
        return "failed", f"no end after {LIMIT_S} s\n{error.stdout or ''}{error.stderr or ''}"
    finally:
        if folder:
            folder.cleanup()
    if done.returncode == 0 and "\n1 passed, 0 failed, 0 refused" in done.stdout:
        return "passed", ""
    said = done.stdout + done.stderr
    if "\n0 passed, 0 failed, 1 refused" in done.stdout:
        for kind, _, words in REFUSALS:
            if re.search(words, done.stderr):
                return "refused", kind
        return "failed", "refused, but not for a reason that REFUSALS states\n" + said
    return "failed", said


def cause(text):
    """The error, without what differs from case to case."""
    found = re.findall(r"error: (.*)", text)
    return re.sub(r"'[^']*'|[0-9.e+-]+", "", found[-1])[-60:] if found else text[-60:]


def shrink(command, text):
    """The command with as few options as fail the same way."""
    words = command[command.index(BIN) + 3 :]
    groups = []
    for word in words:
        if word.startswith("-") and not re.match(r"-[0-9]", word):
            groups.append([word])
        else:
            groups[-1].append(word)
    head = command[: command.index(BIN) + 3]
    wanted, at = cause(text), 0
    while at < len(groups):
        shorter = groups[:at] + groups[at + 1 :]
        verdict, said = run(head + sum(shorter, []))
        if verdict == "failed" and cause(said) == wanted:
            groups = shorter
        else:
            at += 1
    return head + sum(groups, [])


def shown(command):
    return shlex.join("shoal" if word == BIN else word for word in command)


class Tally:
    """What rows came to, and what is covered."""

    def __init__(self, product):
        self.product = product
        self.rows = collections.Counter()
        self.kinds = collections.Counter()
        self.values = collections.Counter()  # ((column, value), verdict)
        self.proven = set()
        self.never = {}  # values that are refused together -> kind
        self.failures = []

    def add(self, row, command, verdict, text, verbose):
        self.rows[verdict] += 1
        if verbose:
            print(f"{verdict}: {shown(command)}{' (' + text + ')' if verdict == 'refused' else ''}", flush=True)
        for item in row.items():
            self.values[item, verdict] += 1
        if verdict == "passed":
            self.proven.update(pairs_of(row))
        elif verdict == "refused":
            self.kinds[text] += 1
            columns = next(columns for kind, columns, _ in REFUSALS if kind == text)
            if columns:
                self.never[tuple((column, row[column]) for column in sorted(columns))] = text
        else:
            short = shrink(command, text)
            self.failures.append(short)
            print(f"FAILED: {shown(command)}\n{text}\nshrunk to: {shown(short)}", flush=True)

    def report(self, pairs, brief):
        for column, values in () if brief else self.product.columns.items():
            print(f"{column}:")
            for value in values:
                counts = [self.values[(column, value), verdict] for verdict in ("passed", "refused", "failed")]
                print(f"  {value!s:36} {counts[0]:6} passed {counts[1]:6} refused {counts[2]:6} failed")
        print("refusals:")
        for kind, count in self.kinds.most_common():
            print(f"  {count:5}  {kind}")
        covered = sum(pair in self.proven for pair in pairs)
        refused = sum(pair not in self.proven and is_refused(self, pair) for pair in pairs)
        print(
            f"pairs: {covered} proven, {refused} refused, {len(pairs) - covered - refused} not met, {len(pairs)} in all; "
            f"rows: {self.rows['passed']} passed, {self.rows['refused']} refused, {self.rows['failed']} failed"
        )
        for command in self.failures:
            print(f"FAILED: {shown(command)}")
        return covered


def pairs_of(row):
    return list(itertools.combinations(sorted(row.items()), 2))


def all_pairs(product, fixed):
    columns = {name: [fixed[name]] if name in fixed else values for name, values in product.columns.items()}
    pairs = []
    for one, other in itertools.combinations(sorted(columns), 2):
        for a, b in itertools.product(columns[one], columns[other]):
            if product.allowed({one: a, other: b}):
                pairs.append(((one, a), (other, b)))
    return pairs


def is_refused(tally, items):
    items = set(items)
    return any(items.issuperset(never) for never in tally.never)


def mend(product, rng, tally, row, kept):
    """Replaces values, none of `kept`, that are known to be refused together, as far as others are to be had."""
    for _ in product.columns:
        items = set(row.items())
        blamed = next((never for never in tally.never if items.issuperset(never)), None)
        columns = [column for column, _ in blamed or () if column not in kept]
        if not columns:
            break
        column = rng.choice(columns)
        others = [{**row, column: value} for value in product.columns[column]]
        others = [other for other in others if product.allowed(other) and not is_refused(tally, other.items())]
        if not others:
            break
        weights = product.weights.get(column, {})
        row = rng.choices(others, [weights.get(other[column], 1) for other in others])[0]
    return row


def next_row(product, rng, open_pairs, tries, tally, fixed):
    """A row with one of the pairs that were tried least."""
    least = min(tries[pair] for pair in open_pairs)
    target = rng.choice([pair for pair in open_pairs if tries[pair] == least])
    tries[target] += 1
    best, best_score = None, None
    for _ in range(CANDIDATES):
        kept = {**fixed, **dict(target)}
        row = mend(product, rng, tally, product.fill(rng, kept), kept)
        score = rng.random() - 1000 * is_refused(tally, row.items())
        score += sum(pair in open_pairs for pair in pairs_of(row))
        if best is None or score > best_score:
            best, best_score = row, score
    return best


def cover(product, options, tally, pool):
    rng = random.Random(options.seed)
    fixed = dict(options.only)
    pairs = all_pairs(product, fixed)
    tries = collections.Counter()
    open_pairs = dict.fromkeys(pairs)  # ordered, so that draws repeat
    count = 0
    while open_pairs and (not options.rows or count < options.rows):
        batch, waiting = [], dict(open_pairs)
        while waiting and len(batch) < BATCH and (not options.rows or count < options.rows):
            row = next_row(product, rng, waiting, tries, tally, fixed)
            for pair in pairs_of(row):
                waiting.pop(pair, None)
            batch.append((row, product.command(row, options.seed + count)))
            count += 1
        for (row, command), (verdict, text) in zip(batch, pool.map(run, [command for _, command in batch])):
            tally.add(row, command, verdict, text, options.verbose)
        open_pairs = {
            pair: None
            for pair in open_pairs
            if pair not in tally.proven and tries[pair] < TRIES and not is_refused(tally, pair)
        }
    return pairs


def walk(product, options, tally, pool):
    rng = random.Random(options.seed)
    end = time.monotonic() + 60 * options.minutes
    count = 0
    while time.monotonic() < end and not tally.failures and (not options.rows or count < options.rows):
        batch = []
        for _ in range(options.jobs * 2):
            for _ in range(CANDIDATES):
                kept = dict(options.only)
                row = mend(product, rng, tally, product.fill(rng, kept), kept)
                if not is_refused(tally, row.items()):
                    break
            batch.append((row, product.command(row, options.seed + count)))
            count += 1
        for (row, command), (verdict, text) in zip(batch, pool.map(run, [command for _, command in batch])):
            tally.add(row, command, verdict, text, options.verbose)
    return all_pairs(product, dict(options.only))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--random", action="store_true")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--brief", action="store_true", help="no table of values")
    parser.add_argument("--verbose", action="store_true", help="a line for each row")
    options = parser.parse_args()
    os.environ["SHOAL_CACHE"] = ""
    product = Product(options.random)
    options.only = [word.split("=", 1) for word in options.only]
    options.only = [(name, {str(value): value for value in product.columns[name]}[text]) for name, text in options.only]
    tally = Tally(product)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        pairs = (walk if options.random else cover)(product, options, tally, pool)
    covered = tally.report(pairs, options.brief)
    bad = bool(tally.failures) or not tally.rows["passed"]
    if not options.rows and not options.random:
        done = tally.rows["passed"] / max(1, sum(tally.rows.values()))
        cuts = [pair for pair in pairs if {pair[0][0], pair[1][0]} == {"model", "strategy"}]
        shares = {
            "pairs": covered / len(pairs),
            "rows": done,
            "model and strategy": sum(pair in tally.proven for pair in cuts) / max(1, len(cuts)),
        }
        for name, share in shares.items():
            print(f"{name}: {share:.3f} of all, at least {FLOORS[name]}")
            bad |= share < FLOORS[name]
        for column, values in product.columns.items():
            for value in values:
                if not options.only and not tally.values[(column, value), "passed"]:
                    print(f"FAILED: nothing is proven with {column} {value}")
                    bad = True
    sys.exit(bad)


if __name__ == "__main__":
    main()
