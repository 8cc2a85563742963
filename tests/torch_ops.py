#!/usr/bin/env python3
# labels: py slow
"""Every native op against PyTorch, values and gradients in f64: on the samples of torch's own tests (OpInfo) where they
apply, and on drawn ones of each of the record's cases (tests/parity). Prints a table of what is compared and how
often; an op that is not compared fails the test.

Usage: torch_ops.py [NAME...]    only these ops and functions, every difference in full
Skipped (exit 77) where torch is not installed: `make venv`.
"""
import sys
import time

from parity import library  # noqa: F401  first: it finds what follows
import torch

import shoal_ctypes as shoal
from parity import table


def main():
    torch.set_num_threads(1)
    start = time.monotonic()
    registry = shoal.Registry()
    records = {op.name.decode()[6:]: op for op in registry.ops()}
    complete = table.compare(records, sys.argv[1:])
    print(f"{time.monotonic() - start:.0f} s")
    sys.exit(0 if complete else 1)


main()
