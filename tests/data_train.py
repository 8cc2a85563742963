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


def png(side, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[3 * side * y:3 * side * (y + 1)] for y in range(side))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", side, side, 8, 2, 0, 0, 0)) +
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
            (folder / "pictures" / name / f"{i}.png").write_bytes(png(4, random.randbytes(48)))
    yield "pictures", ["mlp", "--in-features", 48, "--classes", 2]
    (folder / "t.bin").write_bytes(struct.pack("<500H", *(random.randrange(60) for _ in range(500))))
    yield "t.bin", ["gpt", "--layers", 1, "--width", 8, "--heads", 2, "--context", 8, "--vocabulary", 60]


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number, (data, model) in enumerate(write(folder)):
            options = [*model, "--data", data, "--batch", 7, "--held-out", 0.2, "--short-last"]
            one = losses(folder, *options, "--steps", 7)
            if "eval step 7" not in one:
                sys.exit(f"{data}: no evaluation: {one}")
            ranks = [*options, "-n", 3, "--strategy", "data", "--save", f"save{number}"]
            same(data, one, losses(folder, *ranks, "--steps", 4))
            same(f"{data}, resumed", one, losses(folder, *options, "-n", 2, "--strategy", "data", "--save",
                                                 f"save{number}", "--resume", "--steps", 7))
        (folder / "x.npy").write_bytes((folder / "x.npy").read_bytes()[:-1])
        result = shoal(folder, "mlp", "--in-features", 20, "--classes", 5, "--data", "x.npy,y.npy")
        if result.returncode == 0 or "truncated" not in result.stdout or "step" in result.stdout:
            sys.exit(f"a truncated file is not refused: {result.stdout}")


main()
