"""Random numbers: their distributions, from fixed keys. torch draws from other streams: single numbers say nothing."""
import math

import numpy as np
import shoal_ctypes as shoal
import torch

from parity.frame import check

COUNT = 40000
LIMIT = 1.95  # of sqrt(n) D (Kolmogorov and Smirnov): exceeded by one in a thousand


def evaluate(nodes, feeds=()):
    """The values of nodes (op, inputs by name, attributes) on one device."""
    model = shoal.Model()
    graph = model.graph("eval")
    types = {np.dtype(np.int64): shoal.I64, np.dtype(np.float64): shoal.F64}
    inputs = {name: graph.input(name, types[array.dtype], array.shape) for name, array in feeds}
    values = [graph.node("shoal." + op, *[inputs[i] for i in names], **attrs) for op, names, attrs in nodes]
    types = [graph.type(v) for v in values]
    for i, value in enumerate(values):
        graph.output(f"o{i}", value)
    with shoal.Session(model, strategy="single") as session:
        for name, array in feeds:
            session.feed(name, array)
        session.run("eval")
        return [session.fetch(f"o{i}", shoal.NUMPY[t.dtype], t.shape) for i, t in enumerate(types)]


def steps():
    return [("step", np.array(3, np.int64)), ("next", np.array(4, np.int64))]


def holds(x, cdf, what):
    """The numbers have this distribution."""
    x = np.sort(x.ravel())
    want = cdf(torch.from_numpy(x)).numpy()
    rank = np.arange(len(x) + 1) / len(x)
    distance = max(np.abs(want - rank[1:]).max(), np.abs(want - rank[:-1]).max())
    assert math.sqrt(len(x)) * distance < LIMIT, f"{what}: distance {distance:.2e} of {len(x)} numbers"


def apart(x, y, what):
    """Two streams, or one and itself one further on, do not go together."""
    together = np.corrcoef(x.ravel(), y.ravel())[0, 1]
    assert abs(together) < 4 / math.sqrt(x.size), f"{what}: correlation {together:.2e}"


def stream(op, cdf, **attrs):
    """Right distribution; other keys, steps and neighbours are independent; the same key and step: the same numbers."""
    def make(step, key):
        return op, [step], dict(shape=[COUNT], key=key, dtype=shoal.F64, **attrs)

    one, same, key, step = evaluate([make("step", 7), make("step", 7), make("step", 8), make("next", 7)], steps())
    for x in (one, key, step):
        holds(x, cdf, op)
    assert (one == same).all(), op
    apart(one, key, op + ", another key")
    apart(one, step, op + ", another step")
    apart(one[1:], one[:-1], op + ", neighbours")
    return 4


@check("random_uniform", "distribution (KS)")
def uniform():
    for low, high in ((0.0, 1.0), (-1.0, 2.0)):
        stream("random_uniform", torch.distributions.Uniform(low, high, validate_args=False).cdf, low=low, high=high)
    return 8


@check("random_normal", "distribution (KS)")
def normal():
    for mean, std in ((0.0, 1.0), (0.5, 0.02)):
        stream("random_normal", torch.distributions.Normal(mean, std).cdf, mean=mean, std=std)
    return 8


def near(found, p, count, what):
    """A frequency within 4 standard deviations."""
    assert abs(found - p) <= 4 * math.sqrt(p * (1 - p) / count), f"{what}: {found:.4f} instead of {p:.4f}"


@check("bernoulli", "frequencies")
def bernoulli():
    p = np.repeat([0.0, 0.1, 0.5, 0.9, 1.0], COUNT // 5)
    out, other = evaluate([("bernoulli", ["p", s], dict(key=5)) for s in ("step", "next")], [("p", p), *steps()])
    for chance in np.unique(p):
        near(out[p == chance].mean(), chance, COUNT // 5, f"bernoulli of {chance}")
    assert set(np.unique(out)) == {0.0, 1.0}
    apart(out[p == 0.5], other[p == 0.5], "bernoulli, another step")
    return 2


@check("dropout", "frequencies, exact values and gradient")
def dropout():
    """What is kept is exactly x / (1 - p), and the gradient has the same elements."""
    x = np.random.default_rng(2).standard_normal(COUNT)
    for p in (0.1, 0.5):
        model = shoal.Model()
        graph = model.graph("eval")
        value, step = graph.input("x", shoal.F64, x.shape), graph.input("step", shoal.I64, ())
        out = graph.node("shoal.dropout", value, step, p=p, key=9)
        loss = graph.node("shoal.reduce_sum", graph.node("shoal.mul", out, value), dims=[0])
        graph.output("out", out)
        graph.output("gradient", graph.gradients(loss, [value])[0])
        with shoal.Session(model, strategy="single") as session:
            session.feed("x", x)
            session.feed("step", np.array(1, np.int64))
            session.run("eval")
            got, gradient = session.fetch("out", np.float64, x.shape), session.fetch("gradient", np.float64, x.shape)
        kept = got != 0
        near(kept.mean(), 1 - p, COUNT, f"dropout of {p}")
        apart(kept[1:], kept[:-1], "dropout, neighbours")
        np.testing.assert_allclose(got, x * kept / (1 - p), rtol=1e-14)
        np.testing.assert_allclose(gradient, 2 * got, rtol=1e-14)
    return 2


@check("multinomial", "frequencies")
def multinomial():
    logits = np.log([0.1, 0.2, 0.05, 0.4, 0.25])
    chances, rows = torch.softmax(torch.from_numpy(logits), 0).numpy(), COUNT // 5
    feeds = [("x", np.tile(logits, (rows, 1))), *steps()]
    many, few = evaluate([("multinomial", ["x", "step"], dict(samples=3, key=4, replacement=1)),
                          ("multinomial", ["x", "step"], dict(samples=3, key=6))], feeds)
    for v, p in enumerate(chances):
        for s in range(3):
            near((many[:, s] == v).mean(), p, rows, f"multinomial, sample {s}")
        near((few[:, 0] == v).mean(), p, rows, "multinomial without replacement")
        second = sum(q * p / (1 - q) for u, q in enumerate(chances) if u != v)  # of what the first left
        near((few[:, 1] == v).mean(), second, rows, "multinomial without replacement, the second")
    assert all(len(set(row)) == 3 for row in few.tolist())
    return 2
