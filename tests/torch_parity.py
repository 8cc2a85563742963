#!/usr/bin/env python3
# labels: py slow
"""Zoo models against PyTorch: from the same states and data, in f64, the loss, every gradient and the states
after AdamW steps agree. Shoal runs through its C interface (tests/parity/zoo.py, strategy `single`); the
PyTorch side is written here from the models' descriptions, not from Shoal's graphs.

Skipped (exit 77) where torch is not installed: `make venv`.
"""
import sys
from pathlib import Path
from types import SimpleNamespace as Options

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parity import library  # noqa: E402, F401 (first: it says where the library is)

try:
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing.name} is not installed")
    sys.exit(77)

from parity.zoo import Zoo  # noqa: E402
from shoal_abi import Recipe  # noqa: E402

LR, EPS, STEPS = float(np.float32(0.01)), 1e-3, 3


class Session:
    """A zoo model on one device."""

    def __init__(self, zoo, options, seed):
        settings = " ".join(f"{name}={value}" for name, value in vars(options).items())
        recipe = Recipe(optimizer=b"adamw", lr=LR, eps=EPS)
        self.zoo = Zoo(zoo, settings, recipe, seed)

    def get(self, name, shape):
        return self.zoo.session.get(name, np.float64, shape)

    def step(self, feeds):
        return float(self.zoo.run("train", feeds, {"loss": ()})[0])

    def close(self):
        self.zoo.__exit__()


# ---- the same models in PyTorch: p maps Shoal's state names to tensors --------------------------------------


def mlp(o, p, feeds):
    x = feeds["x"]
    for i in range(1, o.layers + 1):
        x = x @ p[f"fc{i}/weight"] + p[f"fc{i}/bias"]
        if i < o.layers:
            x = F.relu(x)
    return F.cross_entropy(x, feeds["y"])


def mlp_shapes(o):
    widths = [o.in_features] + [o.hidden] * (o.layers - 1) + [o.classes]
    for i, (a, b) in enumerate(zip(widths, widths[1:]), 1):
        yield f"fc{i}/weight", (a, b)
        yield f"fc{i}/bias", (b,)


def gpt(o, p, feeds):
    def norm(x, name):
        return F.layer_norm(x, (o.width,), p[name + "/gamma"], p[name + "/beta"], 1e-5)

    def linear(x, name):
        return x @ p[name + "/weight"] + p[name + "/bias"]

    x = F.embedding(feeds["ids"], p["wte/table"]) + p["wpe/table"]
    for i in range(o.layers):
        b = f"block{i}/"
        q, k, v = (t.view(o.batch, o.context, o.heads, -1).transpose(1, 2)
                   for t in linear(norm(x, b + "ln_1"), b + "attn/qkv").split(o.width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + linear(y.transpose(1, 2).reshape(o.batch, o.context, o.width), b + "attn/proj")
        x = x + linear(F.gelu(linear(norm(x, b + "ln_2"), b + "mlp/fc1"), approximate="tanh"), b + "mlp/fc2")
    x = norm(x, "ln_f")
    logits = x @ (p["wte/table"].T if o.tied == "yes" else p["head/weight"])
    return F.cross_entropy(logits.flatten(0, 1), feeds["labels"].flatten())


def gpt_shapes(o):
    C = o.width
    yield "wte/table", (o.vocabulary, C)
    yield "wpe/table", (o.context, C)
    for i in range(o.layers):
        for name, a, b in (("attn/qkv", C, 3 * C), ("attn/proj", C, C), ("mlp/fc1", C, 4 * C), ("mlp/fc2", 4 * C, C)):
            yield f"block{i}/{name}/weight", (a, b)
            yield f"block{i}/{name}/bias", (b,)
        for ln in ("ln_1", "ln_2"):
            yield f"block{i}/{ln}/gamma", (C,)
            yield f"block{i}/{ln}/beta", (C,)
    yield "ln_f/gamma", (C,)
    yield "ln_f/beta", (C,)
    if o.tied == "no":
        yield "head/weight", (C, o.vocabulary)


def cnn(o, p, feeds):
    x = F.relu(F.conv2d(feeds["x"], p["conv1/weight"], p["conv1/bias"], padding=1))
    x = F.relu(F.conv2d(F.max_pool2d(x, 2), p["conv2/weight"], p["conv2/bias"]))
    return F.cross_entropy(x.flatten(1) @ p["head/weight"] + p["head/bias"], feeds["y"])


def cnn_shapes(o):
    side = o.size // 2 - 2
    yield "conv1/weight", (8, o.channels, 3, 3)
    yield "conv1/bias", (8,)
    yield "conv2/weight", (16, 8, 3, 3)
    yield "conv2/bias", (16,)
    yield "head/weight", (16 * side * side, o.classes)
    yield "head/bias", (o.classes,)


# ---- comparison ---------------------------------------------------------------------------------------------


def largest_error(a, b):
    return np.abs(a - b).max(initial=0) / max(1e-3, np.abs(b).max(initial=0))


def compare(label, zoo, options, shapes, forward, make_feeds):
    rng = np.random.default_rng(5)
    session = Session(zoo, options, seed=9)
    shapes = dict(shapes(options))
    params = {n: torch.tensor(session.get(n, s), requires_grad=True) for n, s in shapes.items()}
    assert any(p.abs().max() > 0 for p in params.values())
    optimizer = torch.optim.AdamW(params.values(), lr=LR, eps=EPS, weight_decay=0)
    worst = 0
    for step in range(1, STEPS + 1):
        feeds = make_feeds(rng)
        loss = session.step(feeds)
        peers = {n: torch.tensor(a if a.dtype == np.float64 else a.astype(np.int64)) for n, a in feeds.items()}
        optimizer.zero_grad()
        expected = forward(options, params, peers)
        expected.backward()
        before = {n: optimizer.state[p]["exp_avg"].clone() if step > 1 else 0 for n, p in params.items()}
        optimizer.step()
        errors = {"loss": abs(loss - expected.item()) / abs(expected.item())}
        for n, p in params.items():
            # m' = 0.9 m + 0.1 g: the moment shows the gradient itself
            gradient = (session.get(n + "#adamw.m", shapes[n]) - 0.9 * np.asarray(before[n])) / 0.1
            errors[f"gradient of {n}"] = largest_error(gradient, p.grad.numpy())
            errors[n] = largest_error(session.get(n, shapes[n]), p.detach().numpy())
        for name, error in errors.items():
            worst = max(worst, error)
            if not error < 1e-9:
                sys.exit(f"{label}: step {step}: {name} differs by {error:.2e}")
    session.close()
    print(f"{label}: {len(params)} states, {STEPS} steps, largest relative difference {worst:.1e}")


def main():
    o = Options(batch=7, in_features=9, hidden=13, classes=5, layers=3)
    compare("mlp", "mlp", o, mlp_shapes, mlp, lambda r: {
        "x": r.normal(size=(o.batch, o.in_features)), "y": r.integers(o.classes, size=o.batch, dtype=np.int32)})
    for tied in (False, True):
        g = Options(batch=3, context=10, vocabulary=17, width=24, heads=3, layers=2, tied="yes" if tied else "no")
        compare("gpt tied" if tied else "gpt", "gpt", g, gpt_shapes, gpt, lambda r: {
            n: r.integers(g.vocabulary, size=(g.batch, g.context), dtype=np.int32) for n in ("ids", "labels")})
    n = Options(batch=3, channels=2, size=12, classes=7)
    compare("cnn", "cnn", n, cnn_shapes, cnn, lambda r: {
        "x": r.normal(size=(n.batch, n.channels, n.size, n.size)),
        "y": r.integers(n.classes, size=n.batch, dtype=np.int32)})


if __name__ == "__main__":
    main()
