#!/usr/bin/env python3
# labels: py slow
"""Families of the zoo against the same models in plain PyTorch (tests/parity/zoo_models.py): ten steps with clipping
and a schedule, each optimizer at least once. See tests/parity/zoo.py.

Skipped (exit 77) where torch is not installed: `make venv`.
"""
import json
import math
import re
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from parity import library  # noqa: E402, F401 (first: it says where the library is)

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.optim import lr_scheduler as schedules  # noqa: E402

import shoal_ctypes as shoal  # noqa: E402
from parity import zoo_models as models  # noqa: E402
from parity.weights import Answers, convert  # noqa: E402
from parity.zoo import STEPS, TOLERANCE, Zoo, compare, difference  # noqa: E402
from shoal_abi import LrSchedule, Recipe, Training  # noqa: E402

LR = 2.0 ** -6
ROWS = "batch=8"  # with fewer, batch norm of one pixel a picture makes rounding grow tenfold each step


def classify(module, feeds):
    logits = module(feeds["x"])
    return F.cross_entropy(logits, feeds["y"]), logits


def pixels(module, feeds):
    logits = module(feeds["x"])
    return F.cross_entropy(logits.permute(0, 3, 1, 2), feeds["y"]), logits


def predict(module, feeds):
    logits = module(feeds["ids"])
    return F.cross_entropy(logits.transpose(1, 2), feeds["labels"]), logits


def label_nodes(module, feeds):
    logits = module(feeds["x"], feeds["src"], feeds["dst"])
    return F.cross_entropy(logits.transpose(1, 2), feeds["y"]), logits


def click(module, feeds):
    logits = module(feeds["x"], *(feeds[f"ids{i}"] for i in range(len(module.emb_l))))
    return F.binary_cross_entropy_with_logits(logits, feeds["y"].double()), logits


def pictures(rows, channels, size, classes, labels=()):
    return lambda rng: {"x": rng.normal(size=(rows, channels, size, size)),
                        "y": rng.integers(classes, size=(rows, *labels), dtype="int32")}


def recipe(optimizer, rate=None, clip=0.1, **more):
    return Recipe(optimizer=optimizer.encode(), lr=LR, lr_schedule=rate or LrSchedule(),
                  training=Training(clip_norm=clip), **more)


def warm_cosine(warmup, last):
    def factor(step):
        if step < warmup:
            return step / warmup
        return last + (1 - last) * (1 + math.cos(math.pi * (step - warmup) / (STEPS - warmup))) / 2

    return lambda optimizer: schedules.LambdaLR(optimizer, factor)


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, tensor in tensors.items():
        blobs.append(tensor.contiguous().numpy().tobytes())
        header[name] = {"dtype": {torch.float32: "F32", torch.int64: "I64"}[tensor.dtype],
                        "shape": list(tensor.shape), "data_offsets": [at, at + len(blobs[-1])]}
        at += len(blobs[-1])
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(blobs))


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return {name: torch.frombuffer(bytearray(data[8 + size:][slice(*t["data_offsets"])]), dtype=torch.float32)
            .view(t["shape"]) for name, t in header.items()}


def convert_both_ways():
    """Weights that PyTorch saved, with the counts of batches that it keeps, give the same logits, and come back."""
    module = models.ResNet([1, 1, 1, 1], False, 4, 3, 5)
    module(torch.randn(8, 3, 16, 16))  # running statistics of its own
    x = torch.randn(3, 3, 16, 16)
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        theirs, ours, back = (Path(folder) / name for name in ("theirs", "ours", "back"))
        theirs.mkdir()
        write_safetensors(theirs / "model.safetensors", module.state_dict())
        convert(theirs, ours, model="resnet-tiny")
        with Answers("resnet-tiny", "", ["eval"], 3, "f32") as model:
            model.load(ours)
            logits = model.run("eval", "logits", (3, 5), x=x.numpy(), y=np.zeros(3, np.int32))
        assert np.allclose(logits, module.eval()(x).numpy(), atol=1e-5)
        convert(ours, back, model="resnet-tiny", to="hf")
        returned = read_safetensors(back / "model.safetensors")
        kept = {n: t for n, t in module.state_dict().items() if not n.endswith("num_batches_tracked")}
        assert kept.keys() == returned.keys() and all(torch.equal(t, returned[n]) for n, t in kept.items())
    print("resnet-tiny: converted there and back")


class Noise:
    """The noise of a gan's steps, as its graph draws it: the same random node in a model of its own."""

    def __init__(self, zoo, rows, size):
        key = int(re.search(r"shoal\.random_normal.*?\bkey=(-?\d+)", zoo.model.text()).group(1))
        self.shape, model = (rows, size, 1, 1), shoal.Model()
        graph = model.graph("noise")
        step = graph.input("step", shoal.I64, ())
        graph.output("noise", graph.node("shoal.random_normal", step, shape=self.shape, key=key, dtype=shoal.F64,
                                         mean=0.0, std=1.0))
        self.session = shoal.Session(model, strategy="single")

    def __call__(self, step):
        self.session.feed("step", np.array(step, np.int64))
        self.session.run("noise")
        return torch.from_numpy(self.session.fetch("noise", np.float64, self.shape))


def gan_losses(module, x, noise):
    """Of the discriminator and of the generator. Batch norm's running statistics follow the real pictures alone."""
    def bce(logits, real):
        return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))

    def discriminate(pictures, momentum):
        for layer in module.discriminator.main:
            layer.momentum = momentum
        return module.discriminator.main(pictures).flatten()

    real_logits = discriminate(x, 0.1)
    fake_logits = discriminate(module.generator.main(noise), 0.0)
    return bce(real_logits, 1.0) + bce(fake_logits, 0.0), bce(fake_logits, 1.0), real_logits


def compare_gan():
    """Two losses and two optimizers, that take their steps at once: both losses, all parameters and statistics."""
    how, rng, rows, worst = recipe("adam", beta1=0.5, eps=1e-3), np.random.default_rng(5), 8, 0
    module = models.Gan(5, 3, 2, 16).double()
    with Zoo("gan-tiny", f"batch={rows}", how) as zoo:
        noise = Noise(zoo, rows, 5)
        tensors = {n: t for n, t in module.state_dict().items() if not n.endswith("num_batches_tracked")}
        assert {n.theirs for n in zoo.names} == set(tensors)
        for theirs, array in zoo.read(tensors).items():
            tensors[theirs].copy_(torch.from_numpy(array))
        halves = [module.discriminator, module.generator]
        updates = [torch.optim.Adam(half.parameters(), LR, betas=(0.5, 0.999), eps=1e-3) for half in halves]
        for step in range(1, STEPS + 1):
            x = rng.normal(size=(rows, 2, 16, 16))
            ours = zoo.run("train", {"x": x}, {"loss": (), "generator_loss": ()})
            losses = gan_losses(module.train(), torch.from_numpy(x), noise(step))
            gradients = [torch.autograd.grad(loss, list(half.parameters()), retain_graph=True)
                         for loss, half in zip(losses, halves)]
            for half, found in zip(halves, gradients):
                for parameter, gradient in zip(half.parameters(), found):
                    parameter.grad = gradient
                norm = torch.nn.utils.clip_grad_norm_(half.parameters(), how.training.clip_norm)
                assert step > 1 or norm > how.training.clip_norm, "gan-tiny: no clipping"
            for update in updates:
                update.step()
            found = zoo.read(tensors)
            pairs = [*zip(("loss", "generator_loss"), ours, (loss.item() for loss in losses)),
                     *((name, found[name], tensors[name].numpy()) for name in found)]
            for name, mine, theirs in pairs:
                error = float(difference(np.asarray(mine), np.asarray(theirs)))
                assert error < TOLERANCE, f"gan-tiny: step {step}: {name} differs by {error:.2e}"
                worst = max(worst, error)
        ours = zoo.run("eval", {"x": x}, {"logits": (rows,), "loss": (), "generator_loss": ()})
        with torch.no_grad():
            losses = gan_losses(module.eval(), torch.from_numpy(x), noise(STEPS))
        for mine, theirs in zip(ours, (losses[2], losses[0], losses[1])):
            assert difference(mine, theirs.numpy()) < TOLERANCE, "gan-tiny: evaluation differs"
    print(f"gan-tiny: {len(tensors)} tensors, {STEPS} steps of two adams: largest relative difference {worst:.1e}")


def main():
    torch.set_num_threads(1)
    convert_both_ways()
    compare_gan()
    cosine = LrSchedule(kind=b"cosine", warmup=2, steps=STEPS, last_factor=0.25)
    compare("resnet-tiny", ROWS, recipe("sgd", cosine, momentum=0.9, nesterov=True, weight_decay=0.01),
            models.ResNet([1, 1, 1, 1], False, 4, 3, 5), classify, pictures(8, 3, 16, 5), warm_cosine(2, 0.25))
    compare("resnet-tiny-deep", ROWS,
            recipe("lamb", LrSchedule(kind=b"linear", steps=STEPS, last_factor=0.5), eps=1e-3, weight_decay=0.01),
            models.ResNet([1, 1, 1, 1], True, 4, 3, 5, width=96, groups=2), classify, pictures(8, 3, 16, 5),
            lambda o: schedules.LinearLR(o, 1, 0.5, STEPS))
    compare("wide-resnet-tiny", "widen=2 " + ROWS,
            recipe("adam", LrSchedule(kind=b"step", decay_every=3, gamma=0.5), eps=1e-3),
            models.WideResNet(10, 2, 2, 5), classify, pictures(8, 2, 4, 5), lambda o: schedules.StepLR(o, 3, 0.5))
    for bilinear in (False, True):
        compare("unet-tiny", f"width=4 bilinear={str(bilinear).lower()}",
                recipe("adamw", LrSchedule(kind=b"one_cycle", steps=STEPS), eps=1e-3),
                models.UNet(4, 2, 2, 3, bilinear), pixels, pictures(3, 2, 8, 3, (8, 8)),
                lambda o: schedules.OneCycleLR(o, LR, STEPS, cycle_momentum=False))
    for optimizer in ("muon", "adamw"):
        compare("vit-tiny", "",
                recipe(optimizer, LrSchedule(kind=b"wsd", steps=STEPS, decay_steps=4, last_factor=0.1), eps=1e-3,
                       weight_decay=0.01),
                models.VisionTransformer(4, 12, 3, 2, 2, 8, 5), classify, pictures(3, 2, 8, 5),
                lambda o: schedules.LambdaLR(o, lambda step: 1 - 0.9 * max(0, step - 6) / 4))
    for optimizer, more in (("adafactor", {}), ("sgd", dict(momentum=0.9))):
        compare("lstm-tiny", "", recipe(optimizer, **more), models.LanguageLstm(11, 6, 2), predict,
                lambda rng: {n: rng.integers(11, size=(3, 4), dtype="int32") for n in ("ids", "labels")})
    compare("gat-tiny", "", recipe("adamw", eps=1e-3, weight_decay=0.01), models.Gat(4, 3, 2, 2, 3), label_nodes,
            lambda rng: {"x": rng.normal(size=(3, 5, 4)), "y": rng.integers(3, size=(3, 5), dtype="int32"),
                         **{n: rng.integers(5, size=(3, 7), dtype="int32") for n in ("src", "dst")}})
    for hot in (1, 2):
        compare("dlrm-tiny", f"hot={hot}", recipe("lion"), models.Dlrm(3, [7, 4, 5], 4, [6], [8]), click,
                lambda rng: {"x": rng.normal(size=(5, 3)), "y": rng.integers(2, size=5, dtype="int32"),
                             **{f"ids{i}": rng.integers(rows, size=(5, hot), dtype="int32")
                                for i, rows in enumerate((7, 4, 5))}})


if __name__ == "__main__":
    main()
