#!/usr/bin/env python3
# labels: py slow
"""What numpy.save writes is read as numpy has it: every type, order and format; tokens; and images are resized as
torch resizes them."""

import os
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

import numpy as np
import torch

DUMP = Path(os.environ["SHOAL_BUILD_DIR"]) / "tests/data_dump"
TYPES = {"f64": "f8", "f32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "u8": "u1", "i8": "i1", "bool": "b1"}


def dump(*arguments):
    """The columns of a data set, or the error."""
    result = subprocess.run([DUMP, *map(str, arguments)], capture_output=True)
    if result.returncode != 0:
        return result.stderr.decode()
    data, columns = result.stdout, {}
    while data:
        line, _, data = data.partition(b"\n")
        name, dtype, shape = line.decode().split()
        shape = tuple(map(int, shape.split(",")))
        size = int(np.prod(shape)) * np.dtype(TYPES[dtype]).itemsize
        columns[name] = np.frombuffer(data[:size], TYPES[dtype]).reshape(shape)
        data = data[size:]
    return columns


def same(what, got, expected):
    if isinstance(got, str) or not np.array_equal(got, expected):
        sys.exit(f"{what}: {got}\nexpected {expected}")


def check_arrays(folder, rng):
    for number, text in enumerate(["f2", "<f4", ">f4", "f8", ">f8", "i1", "u1", "i2", ">i2", "u2", "i4", ">u4", "i8",
                                   "b1"]):
        shape = [(5,), (4, 3), (3, 2, 2), (2, 1, 3, 2)][number % 4]
        array = (rng.standard_normal(shape) * 50).astype(text)
        np.save(folder / "x.npy", array)
        columns = dump(f"arrays:{folder / 'x.npy'}")
        same(text, columns if isinstance(columns, str) else columns["x"], array.astype(np.dtype(text).newbyteorder("=")))
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(folder / "v.npy", "wb") as file:
            np.lib.format.write_array(file, np.arange(6.0).reshape(3, 2), version=version)
        same(f"format {version}", dump(f"arrays:{folder / 'v.npy'}")["x"], np.arange(6.0).reshape(3, 2))
    refused = {"fortran": np.asfortranarray(np.ones((3, 2))), "object": np.array([{}, 1]), "complex": np.ones(3, "c8"),
               "text": np.array(["a", "b"]), "records": np.zeros(3, [("a", "f4"), ("b", "i4")]), "scalar": np.float32(1)}
    for name, array in refused.items():
        np.save(folder / "bad.npy", array)
        text = dump(f"arrays:{folder / 'bad.npy'}")
        if not isinstance(text, str) or "bad.npy" not in text or "hint:" not in text:
            sys.exit(f"{name} is not refused with a hint: {text}")


def check_tokens(folder, rng):
    tokens = rng.integers(0, 50257, 41)
    expected = tokens[:40].reshape(4, 10)
    for dtype in ("u2", "i4", "u4", "i8"):
        np.save(folder / "t.npy", tokens.astype(dtype))
        columns = dump(f"tokens:{folder / 't.npy'}", "--length", 10)
        same(dtype, columns["ids"], expected)
        same(dtype, columns["labels"], tokens[1:41].reshape(4, 10))
    tokens.astype("u2").tofile(folder / "t.bin")  # as nanoGPT does
    same("u16", dump(folder / "t.bin", "--length", 10)["ids"], expected)
    tokens.astype("u4").tofile(folder / "w.bin")
    same("u32", dump(folder / "w.bin", "--length", 10, "--token-bytes", 4)["ids"], expected)


def write_png(path, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def check_images(folder, rng):
    (folder / "images/one").mkdir(parents=True)
    for height, width, to_height, to_width in ((20, 20, 8, 8), (9, 9, 16, 16), (30, 20, 24, 16), (16, 16, 16, 16)):
        pixels = rng.integers(0, 256, (height, width, 3), dtype=np.uint8)
        write_png(folder / "images/one/a.png", pixels)
        columns = dump(folder / "images", "--height", to_height, "--width", to_width)
        if isinstance(columns, str):
            if "UNAVAILABLE" in columns:
                return
            sys.exit(columns)
        planes = torch.from_numpy(pixels).permute(2, 0, 1)[None].double()
        expected = torch.nn.functional.interpolate(planes, (to_height, to_width), mode="bilinear", antialias=True)
        error = np.abs(columns["x"] - expected.numpy() / 255).max()
        if error > 1e-5:
            sys.exit(f"{height} x {width} to {to_height} x {to_width}: off by {error}")


def main():
    rng = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        check_arrays(folder, rng)
        check_tokens(folder, rng)
        check_images(folder, rng)


main()
