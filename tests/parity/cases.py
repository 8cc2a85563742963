"""Example calls of op records, as src/op/case.h describes their text: parsed, and filled with data for both sides.

    "f64[3,4], i32[5]<4 ; axis=1, shape=[2,3]"      every float is made f64: parity is compared in f64
"""
import re
import types

import shoal_ctypes as shoal
import torch

DTYPES = dict(f64=shoal.F64, f32=shoal.F32, bf16=shoal.BF16, f16=shoal.F16, i64=shoal.I64, i32=shoal.I32, u8=shoal.U8,
              bool=shoal.BOOL, i8=shoal.I8, f8_e4m3=shoal.F8_E4M3, f8_e5m2=shoal.F8_E5M2)
TORCH = {shoal.F64: torch.float64, shoal.F32: torch.float32, shoal.BF16: torch.bfloat16, shoal.F16: torch.float16,
         shoal.I64: torch.int64, shoal.I32: torch.int32, shoal.U8: torch.uint8, shoal.BOOL: torch.bool,
         shoal.I8: torch.int8, shoal.F8_E4M3: torch.float8_e4m3fn, shoal.F8_E5M2: torch.float8_e5m2}
SHOAL = {peer: dtype for dtype, peer in TORCH.items()}
INPUT = re.compile(r"\s*(\w+)\[([\d,]*)\](?:<(-?\d+))?(?:>(-?\d+))?(\+)?\s*,?")
ATTR = re.compile(r"\s*(\w+)=(\[[^\]]*\]|\"[^\"]*\"|[^,\s]+)\s*,?")


def texts(op):
    """The cases of a record."""
    found = []
    while op.cases and op.cases[len(found)]:
        found.append(op.cases[len(found)].decode())
    return found


def convert(schema, value):
    """A Python value, or its text in a case, as the attribute's kind wants it."""
    if schema.kind == shoal.INT:
        return int(value)
    if schema.kind == shoal.REAL:
        return float(value)
    if schema.kind == shoal.STRING:
        return value.strip('"')
    if schema.kind == shoal.DTYPE:
        return DTYPES[value] if isinstance(value, str) else SHOAL.get(value, value)
    if isinstance(value, str):
        value = value.strip("[]").split(",") if value != "[]" else []
    return [int(v) for v in value]


def schemas(op):
    return {op.attrs[i].name.decode(): op.attrs[i] for i in range(op.attr_count) if op.attrs[i].kind != shoal.PLACE}


def defaults(op):
    """What attributes are when a call leaves them out."""
    read = {shoal.INT: lambda v: v.i, shoal.REAL: lambda v: v.f, shoal.STRING: lambda v: (v.s or b"").decode(),
            shoal.DTYPE: lambda v: v.i, shoal.INTS: lambda v: list(v.ints[:v.count])}
    return {name: read[s.kind](s.fallback) for name, s in schemas(op).items() if s.optional}


def attributes(op, given):
    """All attributes of a call by name, for a peer."""
    return types.SimpleNamespace(**{**defaults(op), **given})


def draw(dtype, shape, limit, first, positive, generator):
    """As shoal_case_fill: floats in (-1, 1), (0.1, 1.1) or probabilities, integers from `first` to below `limit`."""
    if dtype.is_floating_point:
        u = torch.rand(shape, dtype=torch.float64, generator=generator)
        value = 0.1 + 0.8 * u if limit == 1 else 0.1 + u if positive else 2 * u - 1
        return value.to(dtype)
    first = 1 if positive and limit > 1 else first
    return torch.randint(first, limit, shape, generator=generator).to(dtype)


def parse(op, text, seed, keep_types=False):
    """The inputs and attributes of a case. Floats become f64, but for `keep_types` (casts)."""
    generator = torch.Generator().manual_seed(seed)
    inputs_text, _, attrs_text = text.partition(";")
    inputs = []
    for dtype, dims, limit, behind, positive in INPUT.findall(inputs_text):
        peer = TORCH[DTYPES[dtype]]
        if peer.is_floating_point and not keep_types:
            peer = torch.float64
        shape = [int(d) for d in dims.split(",") if d]
        inputs.append(draw(peer, shape, int(limit or 2), int(behind) + 1 if behind else 0, bool(positive), generator))
    known = schemas(op)
    given = {name: convert(known[name], value) for name, value in ATTR.findall(attrs_text)}
    if op.spare:  # an index that means none: one in eight
        spare = {**defaults(op), **given}[op.spare.decode()]
        for x in inputs:
            if not x.is_floating_point() and x.dtype != torch.bool and (spare >= 0 or x.dtype != torch.uint8):
                x[torch.rand(x.shape, generator=generator) < 1 / 8] = spare
    return inputs, given
