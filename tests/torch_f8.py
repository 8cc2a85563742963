#!/usr/bin/env python3
# labels: py
"""8-bit types against PyTorch: casts of every bf16 pattern to f8_e4m3, f8_e5m2 and i8, and of every 8-bit
pattern back, give torch's bits. They run as casts of a session, so that feeds and fetches carry these types, too.

What lies beyond f8_e4m3's 448 is NaN in Shoal, as in ml_dtypes and in older versions of PyTorch; newer ones saturate.
Both are taken for torch's answer there, and Shoal's must be NaN.

Skipped (exit 77) where torch is not installed: `make venv`.
"""
from parity import library  # noqa: F401  first: it finds what follows
import numpy as np
import torch

import shoal_ctypes as shoal

PEERS = {shoal.F8_E4M3: torch.float8_e4m3fn, shoal.F8_E5M2: torch.float8_e5m2, shoal.I8: torch.int8}
NAMES = {shoal.F8_E4M3: "f8_e4m3", shoal.F8_E5M2: "f8_e5m2", shoal.I8: "i8"}


def cast(bits, source, target, result):
    """`bits` of a type as those of another, by a session on one rank; `result` is their numpy type."""
    model = shoal.Model()
    graph = model.graph("eval")
    graph.output("y", graph.node("shoal.cast", graph.input("x", source, bits.shape), dtype=target))
    with shoal.Session(model, strategy="single") as session:
        session.feed("x", bits)
        session.run("eval")
        return session.fetch("y", result, bits.shape)


def compare(what, got, want, nan, beyond=None):
    """The same bits; where both are NaN (`nan` says so) any of their patterns. `beyond`: where Shoal must give NaN, and
    torch that or its largest number."""
    both = nan(got) & nan(want)
    if beyond is not None:
        assert nan(got)[beyond].all() and (nan(want) | ((want & 0x7f) == 0x7e))[beyond].all(), f"{what}: beyond 448"
        both |= beyond
    wrong = np.flatnonzero((got != want) & ~both)
    assert not wrong.size, f"{what}: {wrong.size} differ, the first at {wrong[0]}: {got[wrong[0]]:#x} " \
                           f"instead of {want[wrong[0]]:#x}"
    print(f"{what}: {got.size} patterns, {int(both.sum())} NaN")


def overflow(values):
    """What rounds beyond f8_e4m3's largest number, 448: more than halfway to 480."""
    return (values.float().abs() > 464).numpy()


def main():
    narrow = np.arange(65536, dtype=np.uint16)
    peer = torch.from_numpy(narrow.view(np.int16)).view(torch.bfloat16)
    for dtype, name in NAMES.items():
        if dtype == shoal.I8:  # beyond its range torch promises nothing, Shoal saturates
            keep = np.flatnonzero((peer.float().abs() < 128).numpy())
            got = cast(narrow[keep], shoal.BF16, dtype, np.uint8)
            compare(f"bf16 to {name}", got, peer[keep].to(torch.int8).numpy().view(np.uint8), lambda b: b < 0)
            continue
        e4m3 = dtype == shoal.F8_E4M3
        nan = lambda b: (b & 0x7f) > (0x7e if e4m3 else 0x7c)  # noqa: E731
        compare(f"bf16 to {name}", cast(narrow, shoal.BF16, dtype, np.uint8),
                peer.to(PEERS[dtype]).view(torch.uint8).numpy(), nan, overflow(peer) if e4m3 else None)
        wide = torch.arange(0, 1 << 32, 65521, dtype=torch.int64).to(torch.int32).view(torch.float32)
        compare(f"f32 to {name}", cast(wide.numpy(), shoal.F32, dtype, np.uint8),
                wide.to(PEERS[dtype]).view(torch.uint8).numpy(), nan, overflow(wide) if e4m3 else None)
    all8 = np.arange(256, dtype=np.uint8)
    for dtype, name in NAMES.items():
        want = torch.from_numpy(all8).view(PEERS[dtype]).float().numpy().view(np.uint32)
        compare(f"{name} to f32", cast(all8, dtype, shoal.F32, np.uint32), want,
                lambda b: (b & 0x7fffffff) > 0x7f800000)


main()
