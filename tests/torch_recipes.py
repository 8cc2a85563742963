#!/usr/bin/env python3
# labels: py slow
"""Recipes against PyTorch: ten steps of a perceptron in f64 by every optimizer, with parameter groups (a factor of the
rate, no decay, another optimizer, frozen), one norm that clips all of them, and every schedule. The rate of each step
and all parameters after it agree.

Skipped (exit 77) where torch is not installed: `make venv`.
"""
import ctypes
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parity import library  # noqa: E402, F401 (first: it says where the library is)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.optim import lr_scheduler as schedules  # noqa: E402

from parity.zoo import Lamb, Lion, Muon, Zoo, difference  # noqa: E402
from shoal_abi import LrSchedule, ParameterGroup, Recipe, Training  # noqa: E402

STEPS, TOLERANCE = 10, 1e-10
LR, OWN_LR, DECAY, CLIP = 2.0 ** -6, 2.0 ** -8, 0.25, 0.25
SETTINGS = "batch=6 in_features=5 hidden=7 classes=4 layers=4"


def factors(of):
    return lambda o: schedules.LambdaLR(o, of)


def warm(steps, then):
    return factors(lambda t: t / steps if t < steps else then(t))


RATES = {  # name: ours, PyTorch's
    "constant": (LrSchedule(), factors(lambda t: 1)),
    "warm-up": (LrSchedule(warmup=4, first_factor=0.25), lambda o: schedules.LinearLR(o, 0.25, 1, 4)),
    "linear": (LrSchedule(kind=b"linear", warmup=3, steps=8), warm(3, lambda t: max(0, (8 - t) / 5))),
    "cosine": (LrSchedule(kind=b"cosine", steps=9, last_factor=0.125),
               lambda o: schedules.CosineAnnealingLR(o, 9, LR * 0.125)),
    "step": (LrSchedule(kind=b"step", decay_every=3, gamma=0.5), lambda o: schedules.StepLR(o, 3, 0.5)),
    "one_cycle": (LrSchedule(kind=b"one_cycle", steps=12),
                  lambda o: schedules.OneCycleLR(o, LR, 12, cycle_momentum=False)),
    "wsd": (LrSchedule(kind=b"wsd", warmup=2, steps=9, decay_steps=4, curve=b"sqrt"),
            warm(2, lambda t: 1 - math.sqrt(min(1, max(0, t - 5) / 4)))),
}
OPTIMIZERS = {  # name: fields of the recipe, PyTorch's
    "adamw": ({}, lambda p: torch.optim.AdamW(p, LR, weight_decay=DECAY)),
    "adam": ({"beta1": 0.5}, lambda p: torch.optim.Adam(p, LR, betas=(0.5, 0.999), weight_decay=DECAY)),
    "sgd": ({"momentum": 0.75, "nesterov": True},
            lambda p: torch.optim.SGD(p, LR, 0.75, weight_decay=DECAY, nesterov=True)),
    "lion": ({}, lambda p: Lion(p, LR, DECAY)),
    "lamb": ({}, lambda p: Lamb(p, LR, 1e-6, DECAY)),
    "adafactor": ({}, lambda p: torch.optim.Adafactor(p, LR, weight_decay=DECAY)),
    "muon": ({}, lambda p: Muon(p, LR, DECAY)),
}


class Perceptron(torch.nn.Module):
    def __init__(self):
        super().__init__()
        sizes = (5, 7, 7, 7, 4)
        for i in range(4):
            setattr(self, f"fc{i + 1}", torch.nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        for i in range(1, 4):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return self.fc4(x)


def groups():
    """fc1 is frozen, biases have half the rate and no decay, fc4/weight has Adam with a rate of its own."""
    return (ParameterGroup * 3)(
        ParameterGroup(pattern=b"*/bias", lr_factor=0.5, no_decay=True),
        ParameterGroup(pattern=b"fc4/*", min_dims=2, optimizer=b"adam", name=b"own", lr=OWN_LR, beta2=0.9),
        ParameterGroup(pattern=b"fc1/*", frozen=True))


def peers(name, module):
    """PyTorch's optimizers for the groups, each with how its groups' rates follow the base."""
    make = OPTIMIZERS[name][1]
    weights = [module.fc2.weight, module.fc3.weight]
    biases = [module.fc2.bias, module.fc3.bias, module.fc4.bias]
    own = torch.optim.Adam([module.fc4.weight], OWN_LR, betas=(0.9, 0.9))
    if name != "muon":
        both = make([{"params": weights}, {"params": biases, "weight_decay": 0.0}])
        return [(both, (1, 0.5)), (own, (OWN_LR / LR,))]
    rate = float(np.float32(1e-3))  # the state adamw.lr
    return [(make(weights), (1,)), (torch.optim.AdamW(biases, rate, weight_decay=0), (0.5 * rate / LR,)),
            (own, (OWN_LR / LR,))]


def compare(name, rate_name):
    rate, schedule = RATES[rate_name]
    listed = groups()
    recipe = Recipe(optimizer=name.encode(), lr=LR, weight_decay=DECAY, lr_schedule=rate, training=Training(clip_norm=CLIP),
                    groups=ctypes.cast(listed, ctypes.POINTER(ParameterGroup)), group_count=3, **OPTIMIZERS[name][0])
    module, rng, worst = Perceptron().double(), np.random.default_rng(5), 0.0
    with Zoo("mlp", SETTINGS, recipe) as zoo:
        tensors = module.state_dict()
        by_name = {f"fc{i}/{part}": f"fc{i}.{part}" for i in range(1, 5) for part in ("weight", "bias")}

        def read():
            for ours, theirs in by_name.items():
                shape = tuple(reversed(tensors[theirs].shape))
                yield theirs, zoo.session.get(ours, np.float64, shape).T

        for theirs, array in read():
            tensors[theirs].copy_(torch.from_numpy(array.copy()))
        start = tensors["fc1.weight"].clone()
        updates = peers(name, module)
        clock = torch.optim.SGD([torch.zeros(1)], LR)
        scheduler = schedule(clock)
        for step in range(1, STEPS + 1):
            feeds = {"x": rng.normal(size=(6, 5)), "y": rng.integers(4, size=6, dtype="int32")}
            changes = rate_name != "constant"
            found = zoo.run("train", feeds, {"loss": (), **({"rate": ()} if changes else {})})
            module.zero_grad()
            loss = F.cross_entropy(module(torch.from_numpy(feeds["x"])), torch.from_numpy(feeds["y"]).long())
            loss.backward()
            module.fc1.weight.grad = module.fc1.bias.grad = None  # frozen: not in the norm either
            norm = torch.nn.utils.clip_grad_norm_(module.parameters(), CLIP)
            assert step > 1 or norm > CLIP, f"{name}: nothing is clipped"
            want = clock.param_groups[0]["lr"]
            if changes:
                assert abs(found[1] - want) <= 1e-6 * LR, f"{name} {rate_name}: step {step}: rate {found[1]}, not {want}"
            for optimizer, shares in updates:
                for group, share in zip(optimizer.param_groups, shares):
                    group["lr"] = float(np.float32(share * want))
                optimizer.step()
            clock.step(), scheduler.step()
            for theirs, array in read():
                error = float(difference(array, tensors[theirs].numpy()))
                assert error < TOLERANCE, f"{name} {rate_name}: step {step}: {theirs} differs by {error:.2e}"
                worst = max(worst, error)
        assert torch.equal(start, tensors["fc1.weight"])
    print(f"{name}, {rate_name}: {STEPS} steps, largest relative difference {worst:.1e}", flush=True)


def main():
    torch.manual_seed(1)
    for i, name in enumerate(OPTIMIZERS):  # every optimizer and every schedule, in pairs
        compare(name, list(RATES)[i % len(RATES)])


if __name__ == "__main__":
    main()
