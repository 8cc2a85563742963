"""How Shoal's ops are held against PyTorch: samples, one model for many of them, and the comparison.

A *peer* is an op's answer by torch: f(attributes, inputs...) for the drawn samples, which come from the record's cases.
An *adapter* is a function of torch written with Shoal's ops: f(t, the arguments of torch's function...), where
t(op, inputs..., attributes...) adds a node; it is held against torch's own function on the samples of its OpInfo, and
skips with a reason those that have no counterpart here.

All samples of an op or of a function become one model with one loss, the sum of all outputs weighted with fixed random
numbers; values and gradients come from one run of a session on one device.
"""
import collections

import numpy as np
import shoal_ctypes as shoal
import torch

from parity import cases

BOUND, LOOSE = 1e-9, 1e-7  # the second for functions where torch itself is not as exact, each with its reason
PEERS, ADAPTERS = {}, {}  # op: Peer; name of an OpInfo: adapter and why torch's answer is not exact
CHECKS, DIFFERENCES = {}, {}  # op: how it is checked otherwise, and the function; op: where Shoal is not torch, and why
Peer = collections.namedtuple("Peer", "function special draw keep_types loose rounds edges more")


class Skip(Exception):
    """A sample without counterpart, with the reason."""


def need(condition, reason):
    if not condition:
        raise Skip(reason)


def peer(op, function=None, special=False, draw=None, keep_types=False, loose=None, rounds=1, edges=True,
         more=()):
    """Registers torch's answer for an op's cases. special: element by element, so compared on NaN, infinities and large
    numbers, too. draw(attributes, inputs, generator) replaces inputs that the text of a case cannot describe.
    keep_types: floats stay what the case says. loose: why torch's answer is not exact. rounds: draws of each case.
    edges: gradients are compared where there are zeros and ties, too. more: cases besides the record's."""
    def register(f):
        assert op not in PEERS, op
        PEERS[op] = Peer(f, special, draw, keep_types, loose, rounds, edges, more)
        return f
    return register(function) if function else register


def opinfo(*names, loose=None):
    """Registers the adapter of torch functions, by the names of their OpInfo ("name" or "name.variant")."""
    def register(f):
        for name in names:
            assert name not in ADAPTERS, name
            ADAPTERS[name] = (f, loose)
        return f
    return register


def differs(op, reason):
    """Says where Shoal means something else than torch: a line below the table."""
    DIFFERENCES[op] = reason


def check(op, how):
    """Registers f() -> number of samples, which asserts: for ops that have no answer to compare with."""
    def register(f):
        CHECKS[op] = (how, f)
        return f
    return register


class Tracer:
    """Writes one sample's nodes; torch tensors among the inputs become inputs of the graph."""

    def __init__(self, model, prefix):
        self.model, self.prefix, self.feeds, self.values, self.leaves, self.ops = model, prefix, {}, {}, [], set()

    def __call__(self, op, *inputs, **attrs):
        record = self.model.records[op]
        known = cases.schemas(record)
        defaults = cases.defaults(record)
        given = {name: cases.convert(known[name], value) for name, value in attrs.items()}
        self.ops.add(op)
        self.model.result.met.update((op, name) for name, value in given.items() if value != defaults.get(name))
        return self.model.graph.node("shoal." + op, *[None if v is None else self.value(v) for v in inputs],
                                     outputs=shoal.output_count(record, **given), **given)

    def value(self, x):
        """The graph's value for a torch tensor (or itself)."""
        if isinstance(x, shoal.Value):
            return x
        if id(x) not in self.values:
            need(not x.is_complex(), "complex numbers")
            array = bits(x.detach().contiguous()).numpy().copy()
            name = f"{self.prefix}_i{len(self.values)}"
            value = self.model.graph.input(name, cases.SHOAL[x.dtype], x.shape)
            self.feeds[name] = array
            self.values[id(x)] = (value, x)
            if x.requires_grad:
                self.leaves.append((x, value))
        return self.values[id(x)][0]

    def full(self, like, value):
        """A constant of the type of `like` that broadcasts."""
        return self("full", shape=[], value=value, dtype=self.type(like).dtype)

    def type(self, x):
        return self.model.graph.type(self.value(x))

    def shape(self, x):
        return list(self.type(x).shape)

    def axis(self, x, dim):
        return dim % max(len(self.type(x).shape), 1)


class Result:
    """What was compared under a name."""

    def __init__(self):
        self.samples, self.gradients, self.worst, self.skips = 0, 0, 0.0, collections.Counter()
        self.ops = collections.Counter()  # op: samples whose nodes have it
        self.differentiated = collections.Counter()  # op: gradients of those samples
        self.met = set()  # (op, attribute): it had another value than its default
        self.nodes = collections.Counter()  # op: nodes of the model, those of gradients included


class Compared:
    """A model of many samples: add them, then run."""

    def __init__(self, records, seed=1):
        self.records, self.result = records, Result()
        self.model = shoal.Model()
        self.graph = self.model.graph("eval")
        self.random = np.random.default_rng(seed)
        self.feeds, self.wanted, self.leaves, self.loss, self.tried = {}, [], [], None, 0

    def add(self, label, build, answer, gradients=True, loose=None):
        """build(t) -> value or values of Shoal; answer() -> torch's. gradients: of all results (True), of the "first",
        or of none (False)."""
        number, bound = self.tried, LOOSE if loose else BOUND
        self.tried += 1
        t = Tracer(self, f"s{number}")
        try:
            got = build(t)
        except IndexError:  # a shape that a refused node has not
            shoal.check(shoal.lib.model_status(self.model.handle))
            raise
        finally:
            self.feeds.update(t.feeds)  # of a sample that is skipped, too: its inputs are in the graph
        shoal.check(shoal.lib.model_status(self.model.handle))
        want = answer()
        got = list(got) if isinstance(got, (list, tuple)) else [got]
        want = list(want) if isinstance(want, (list, tuple)) else [want]
        assert len(got) == len(want), f"{label}: {len(got)} results instead of {len(want)}"
        total, known = 0, len(self.leaves)
        for i, (g, w) in enumerate(zip(got, want)):
            if g is None:  # torch does not say what it is
                continue
            name, kind = f"s{number}_o{i}", self.graph.type(g)
            expected = cases.SHOAL[w.dtype], tuple(w.shape)
            assert kind == expected, f"{label}: result {i} is {tuple(kind)} instead of {expected}"
            self.graph.output(name, g)
            self.wanted.append((f"{label}: result {i}", name, w.detach(), bound))
            if w.requires_grad and (gradients is True or gradients == "first" and i == 0):
                weights = self.random.standard_normal(w.shape)
                total = total + (w.double() * torch.from_numpy(np.asarray(weights))).sum()
                weight = self.graph.input(f"s{number}_w{i}", shoal.F64, w.shape)
                self.feeds[f"s{number}_w{i}"] = weights
                wide = g if kind.dtype == shoal.F64 else self.graph.node("shoal.cast", g, dtype=shoal.F64)
                product = self.graph.node("shoal.mul", wide, weight)
                term = self.graph.node("shoal.reduce_sum", product, dims=list(range(w.dim())))
                self.loss = term if self.loss is None else self.graph.node("shoal.add", self.loss, term)
        if isinstance(total, torch.Tensor) and t.leaves:
            found = torch.autograd.grad(total, [x for x, _ in t.leaves], allow_unused=True)
            for (x, value), gradient in zip(t.leaves, found):
                gradient = torch.zeros_like(x) if gradient is None else gradient
                self.leaves.append((f"{label}: gradient", value, gradient, bound))
        self.result.samples += 1
        for op in t.ops:
            self.result.ops[op] += 1
            self.result.differentiated[op] += len(self.leaves) - known

    def run(self):
        """Runs the model and compares; returns what was compared and what differs."""
        if not self.result.samples:
            return self.result, []
        if self.leaves:
            found = self.graph.gradients(self.loss, [value for _, value, _, _ in self.leaves])
            for i, (gradient, (label, _, want, bound)) in enumerate(zip(found, self.leaves)):
                self.graph.output(f"g{i}", gradient)
                self.wanted.append((label, f"g{i}", want, bound))
        for line in self.model.text().splitlines():
            for word in line.replace("(", " ").replace("{", " ").split():
                if word.startswith("shoal."):
                    self.result.nodes[word[6:]] += 1
        wrong = []
        with shoal.Session(self.model, strategy="single") as session:
            for name, array in self.feeds.items():
                session.feed(name, array)
            session.run("eval")
            for label, name, want, bound in self.wanted:
                got = fetch(session, name, want)
                error = difference(got, want)
                self.result.worst = max(self.result.worst, error)
                self.result.gradients += name.startswith("g")
                if not error < bound:
                    wrong.append(f"{label} differs by {error:.2e}\n    Shoal {brief(got)}\n    torch {brief(want)}")
        return self.result, wrong


def bits(x):
    """A tensor that numpy can hold: of types that it has not, their bits."""
    small = {torch.bfloat16: torch.int16, torch.float8_e4m3fn: torch.uint8, torch.float8_e5m2: torch.uint8}
    return x.view(small[x.dtype]) if x.dtype in small else x


def fetch(session, name, like):
    array = session.fetch(name, bits(torch.empty(0, dtype=like.dtype)).numpy().dtype, tuple(like.shape))
    return torch.from_numpy(array).view(like.dtype)


def difference(got, want):
    """The largest |a - b| / max(1e-3, |b|); infinite where NaN or an infinity stands on one side only."""
    a, b = got.double().flatten(), want.double().flatten()
    if a.numel() == 0:
        return 0.0
    exact = torch.isfinite(b) & torch.isfinite(a)
    same = (a == b) | (torch.isnan(a) & torch.isnan(b)) | exact
    if not bool(same.all()):
        return float("inf")
    if not bool(exact.any()):
        return 0.0
    a, b = a[exact], b[exact]
    return float(((a - b).abs() / b.abs().clamp(min=1e-3)).max())


def brief(x):
    return str(x.flatten()[:12].tolist()) + f" {tuple(x.shape)}"
