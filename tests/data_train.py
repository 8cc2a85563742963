#!/usr/bin/env python3
"""Every kind of data set trains a model from the command line: 3 ranks, which read only their rows, have the losses of
one, also when the run was stopped and goes on; and what is wrong with a file is said before the first step."""

import os
import re
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from random import Random

SHOAL = os.environ["SHOAL_BIN"]
random = Random(1)


def shoal(folder, *arguments):
    return subprocess.run([SHOAL, "train", *map(str, arguments)], cwd=folder, text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, timeout=100)


def losses(folder, *arguments):
    """{step: loss} of a run, and what its evaluation says."""
    result = shoal(folder, *arguments, "--log-every", 1, "--threads")
    if result.returncode != 0:
        sys.exit(f"{arguments}: {result.stdout}")
    return {step: float(loss) for step, loss in re.findall(r"^((?:eval )?step \d+) loss ([0-9.]+)", result.stdout, re.M)}


def same(what, one, other):
    shared = [step for step in other if step in one]
    if len(shared) < 3 or any(abs(one[step] - other[step]) > 2e-4 for step in shared):
        sys.exit(f"{what}: {one}\nand {other}")


def npy(descr, shape, data):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + data


def png(width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[3 * width * y:3 * width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write(folder):
    """Files of every kind, and the models that learn from them."""
    count = 50
    labels = bytes(random.randrange(5) for _ in range(count))
    (folder / "x.npy").write_bytes(npy("<f4", (count, 20), struct.pack(f"<{20 * count}f", *(
        random.gauss(labels[i], 1) for i in range(count) for _ in range(20)))))
    (folder / "y.npy").write_bytes(npy("|u1", (count,), labels))
    yield "x.npy,y.npy", ["mlp", "--in-features", 20, "--classes", 5]
    (folder / "images").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, count, 6, 5) + random.randbytes(30 * count))
    (folder / "labels").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + labels)
    yield "images,labels", ["mlp", "--in-features", 30, "--classes", 10]
    (folder / "c.bin").write_bytes(b"".join(bytes([label]) + random.randbytes(3072) for label in labels))
    yield "c.bin", ["mlp", "--in-features", 3072, "--classes", 10]
    for name in ("cat", "dog"):
        (folder / "pictures" / name).mkdir(parents=True)
        for i in range(10):
            (folder / "pictures" / name / f"{i}.png").write_bytes(png(4, 4, random.randbytes(48)))
    yield "pictures", ["mlp", "--in-features", 48, "--classes", 2]
    (folder / "t.bin").write_bytes(struct.pack("<500H", *(random.randrange(60) for _ in range(500))))
    yield "t.bin", ["gpt", "--layers", 1, "--width", 8, "--heads", 2, "--context", 8, "--vocabulary", 60]


def check_held_out(folder):
    """What is held out is marked: a model that never sees a 'b' does not learn it."""
    model = ["gpt", "--layers", 1, "--width", 8, "--heads", 2, "--context", 8, "--vocabulary", 128, "--batch", 4]
    (folder / "marked").mkdir()
    (folder / "marked" / "a.md").write_text("a" * 400)
    (folder / "marked" / "b.md").write_text("b" * 400)
    seen = losses(folder, *model, "--data", "marked", "--held-out", 0.5, "--steps", 30, "--lr", 0.05, "--tensorboard",
                  "events")
    if seen["step 30"] > 0.5 or seen["eval step 30"] < 2:
        sys.exit(f"what is held out was trained on: {seen}")
    events = list((folder / "events").glob("events.out.tfevents.*"))
    if len(events) != 1 or b"eval/loss" not in events[0].read_bytes():
        sys.exit(f"--tensorboard wrote {events}")


def check_last_batch(folder):
    """40 samples in batches of 7: the sixth is filled up from the next epoch, or short, or left out."""
    options = ["mlp", "--in-features", 20, "--classes", 5, "--data", "x.npy,y.npy", "--batch", 7, "--held-out", 0.2,
               "--steps", 7]
    filled, short, dropped = (losses(folder, *options, *last) for last in ([], ["--last-batch", "short"], ["--last-batch", "dropped"]))
    same("--last-batch dropped, 3 ranks", dropped, losses(folder, *options, "--last-batch", "dropped", "-n", 3, "--strategy", "data"))
    if any(filled[f"step {i}"] != dropped[f"step {i}"] for i in range(1, 6)):
        sys.exit(f"--last-batch dropped changes full batches: {filled}\n{dropped}")
    if len({run["step 6"] for run in (filled, short, dropped)}) != 3:
        sys.exit(f"--last-batch dropped has no effect: {filled}\n{short}\n{dropped}")


def check_varied(folder):
    """Images that are varied are others than those that are stored, the same on 1 and 3 ranks."""
    for i in range(12):
        (folder / "wide" / str(i % 2)).mkdir(parents=True, exist_ok=True)
        (folder / "wide" / str(i % 2) / f"{i}.png").write_bytes(png(16, 8, random.randbytes(3 * 16 * 8)))
    options = ["cnn", "--size", 8, "--classes", 2, "--data", "wide", "--batch", 6, "--steps", 3]
    stored = losses(folder, *options)
    runs = [stored]
    for how in (["--random-crop"], ["--flip"], ["--pad", 2], ["--resize", 10], ["--resize", 10, "--random-crop"],
                ["--mean", 0.5], ["--mean", "0.5,0,0"], ["--mean", "0,0.5,0"], ["--deviation", "0.25,0.5,0.5"]):
        runs.append(losses(folder, *options, *how))
        if runs[-1] in runs[:-1]:
            sys.exit(f"{how} does nothing, or what another does: {runs}")
    if losses(folder, *options, "--mean", "0,0,0", "--deviation", 1) != stored:
        sys.exit("a mean of 0 and a deviation of 1 change something")
    square = ["mlp", "--in-features", 48, "--classes", 2, "--data", "pictures"]
    for what, *how in (("random_crop has no effect", *square, "--random-crop"),
                       ("random_crop has no effect", "cnn", "--size", 8, *square[3:], "--random-crop"),
                       ("mean has no effect", "gpt", "--data", "t.bin", "--mean", 1), ("neither one", *square, "--mean", "1,2"),
                       ("neither one", *square, "--mean", "1,2,3,4"), ("not a number", *square, "--mean", "1,x,3"),
                       ("not above zero", *square, "--deviation", "1,0,1")):
        result = shoal(folder, *how)
        if result.returncode != 2 or what not in result.stdout:
            sys.exit(f"{how} is not refused: {result.stdout}")
    options += ["--random-crop", "--flip", "--pad", 2]
    same("varied images", losses(folder, *options), losses(folder, *options, "-n", 3, "--strategy", "data"))


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (data, model) in enumerate(write(folder)):
            options = [*model, "--data", data, "--batch", 7, "--held-out", 0.2, "--last-batch", "short"]
            one = losses(folder, *options, "--steps", 7)
            if "eval step 7" not in one:
                sys.exit(f"{data}: no evaluation: {one}")
            ranks = [*options, "-n", 3, "--strategy", "data", "--save", f"save{number}"]
            same(data, one, losses(folder, *ranks, "--steps", 4))
            same(f"{data}, resumed", one, losses(folder, *options, "-n", 2, "--strategy", "data", "--save",
                                                 f"save{number}", "--resume", "--steps", 7))
        check_held_out(folder)
        check_last_batch(folder)
        check_varied(folder)
        (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
        result = shoal(folder, "mlp", "--in-features", 20, "--classes", 5, "--data", "x.npy,y.npy")
        if result.returncode == 0 or "truncated" not in result.stdout or "step" in result.stdout:
            sys.exit(f"a truncated file is not refused: {result.stdout}")


main()
