#!/usr/bin/env python3
# labels: py
"""numpy as executor and kernel provider of an op that Shoal does not have.

user.np_softsign_scale and its gradient op have no kernel: rule discovery runs them in numpy, and so do the
ranks, on arrays over the planned buffers. A small f64 model trains on 2 ranks - Python threads, then processes
under `shoal run` - and equals the run on 1 rank, losses, gradients and parameters, to 1e-10.
"""

import os
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent))
BUILD = Path(os.environ.get("SHOAL_BUILD_DIR", SOURCE / "build/release"))
if os.environ.get("SHOAL_SANITIZE"):
    print("skipped: a sanitizer's library does not load into a plain Python")
    sys.exit(77)
os.environ.setdefault("SHOAL_LIBRARY", str(BUILD / "libshoal.so"))
sys.path.insert(0, str(SOURCE / "python"))

import numpy as np  # noqa: E402

import shoal_ctypes as shoal  # noqa: E402

BATCH, FEATURES, HIDDEN, CLASSES, STEPS, SCALE = 7, 5, 6, 3, 4, 1.25
OP, GRAD = "user.np_softsign_scale", "user.np_softsign_scale_grad"
# What the op's mathematics allows: it is element by element; its gradient is linear in dy.
RULE = {OP: ["{x:0 -> out:0}~", "{x:1 -> out:1}~", "{x:flat -> out:flat}"],
        GRAD: ["{x:0, dy:0 -> out:0}~", "{x:1, dy:1 -> out:1}~", "{x:flat, dy:flat -> out:flat}",
               "{dy:sum -> out:sum}"]}
STATES = {"fc1/weight": (FEATURES, HIDDEN), "fc1/bias": (HIDDEN,), "fc2/weight": (HIDDEN, CLASSES),
          "fc2/bias": (CLASSES,)}


def softsign_scale(inputs, outputs, attrs):
    x, = inputs
    np.divide(attrs["scale"] * x, 1 + np.abs(x), out=outputs[0])


def softsign_scale_grad(inputs, outputs, attrs):
    x, dy = inputs
    outputs[0][...] = dy * attrs["scale"] / (1 + np.abs(x)) ** 2


def kernels(shapes):
    """The two kernels, noting the shapes of x they are called with."""

    def noting(name, function):
        def kernel(inputs, outputs, attrs):
            assert not inputs[0].flags.owndata and not inputs[0].flags.writeable, "no view of Shoal's memory"
            shapes.setdefault(name, set()).add(inputs[0].shape)
            function(inputs, outputs, attrs)

        return kernel

    return {OP: noting(OP, softsign_scale), GRAD: noting(GRAD, softsign_scale_grad)}


def registry():
    def like_x(types, attrs):
        if any(t != types[0] or t.dtype not in (shoal.F64, shoal.F32) for t in types):
            raise ValueError("takes f64 or f32, all of one shape")
        return types[:1]

    def gradient(emit, attrs, inputs, outputs, output_grads):
        return [emit(GRAD, inputs[0], output_grads[0], scale=attrs["scale"])]

    result = shoal.Registry()
    result.register(OP, ["x"], ["out"], like_x, attrs={"scale": 1.0}, gradient=gradient,
                    doc="scale x / (1 + |x|)")
    result.register(GRAD, ["x", "dy"], ["out"], like_x, attrs={"scale": 1.0})
    return result


def make_model(ops):
    model = shoal.Model(ops, seed=5)
    g = model.graph("train")
    x = g.input("x", shoal.F64, (BATCH, FEATURES))
    y = g.input("y", shoal.I32, (BATCH,))
    h = g.node(OP, g.linear("fc1", x, HIDDEN), scale=SCALE)
    loss = g.cross_entropy(g.linear("fc2", h, CLASSES), y)
    wrt = [g.state(name, shoal.F64, shape) for name, shape in STATES.items()]
    for name, gradient in zip(STATES, g.gradients(loss, wrt)):
        g.output("d_" + name.replace("/", "_"), gradient)
    g.minimize_sgd(loss, lr=0.5, momentum=0.9)
    g.output("loss", loss)
    return model


def batch(step):
    generator = np.random.default_rng(step)
    return generator.normal(size=(BATCH, FEATURES)), generator.integers(0, CLASSES, BATCH, dtype=np.int32)


def train(world, **options):
    """Losses, gradients and parameters of every step, the rules that were found, the shapes numpy saw."""
    seen, shapes, model = [], {}, make_model(registry())
    with shoal.Session(model, world, kernels(shapes), **options) as s:
        shapes.clear()  # of rule discovery
        for step in range(STEPS):
            before = {name: s.get(name, np.float64, shape) for name, shape in STATES.items()}
            xs, ys = batch(step)
            s.feed("x", xs)
            s.feed("y", ys)
            s.run("train")
            if step == 0:  # else the fetches wait
                s.wait()
                assert GRAD in shapes, "waited for, and not run"
            seen.append({"loss": s.fetch("loss", np.float64, ())})
            for name, shape in STATES.items():
                seen[-1]["d " + name] = s.fetch("d_" + name.replace("/", "_"), np.float64, shape)
                seen[-1]["before " + name] = before[name]
                seen[-1][name] = s.get(name, np.float64, shape)
        whole = shoal.Type(shoal.F64, (BATCH, HIDDEN))
        rules = {OP: s.rule(OP, [whole], scale=SCALE), GRAD: s.rule(GRAD, [whole, whole], scale=SCALE)}
    return seen, rules, shapes


def check_against_numpy(seen):
    """Shoal's one rank against the same formulas, written out."""
    for step, one in enumerate(seen):
        xs, ys = batch(step)
        w1, b1, w2, b2 = (one["before " + name] for name in STATES)
        a = xs @ w1 + b1
        h = SCALE * a / (1 + np.abs(a))
        z = h @ w2 + b2
        p = np.exp(z - z.max(1, keepdims=True))
        p /= p.sum(1, keepdims=True)
        dz = (p - np.eye(CLASSES)[ys]) / BATCH
        da = dz @ w2.T * SCALE / (1 + np.abs(a)) ** 2
        expected = {"loss": -np.log(p[np.arange(BATCH), ys]).mean(), "d fc1/weight": xs.T @ da,
                    "d fc1/bias": da.sum(0), "d fc2/weight": h.T @ dz, "d fc2/bias": dz.sum(0)}
        for name, value in expected.items():
            np.testing.assert_allclose(one[name], value, rtol=1e-10, atol=1e-13, err_msg=name)


def check_equal(what, one, many):
    worst = 0.0
    for step in range(STEPS):
        for name in one[step]:
            a, b = one[step][name], many[step][name]
            difference = float(np.max(np.abs(a - b)))
            assert difference <= 1e-10 * max(1e-3, float(np.max(np.abs(a)))), (what, step, name, difference)
            worst = max(worst, difference)
    print(f"{what}: {STEPS} steps equal 1 rank, largest difference {worst:.1e}")


def check_rules(rules):
    for name, text in rules.items():
        print(text)
        head, _, ways = text.partition(": ")
        assert head == name and sorted(re.findall(r"\{[^}]*\}~?", ways)) == sorted(RULE[name]), text


def on_threads(count, **options):
    worlds, results, errors = shoal.threads(count), [None] * count, []

    def rank(r):
        try:
            results[r] = train(worlds[r], **options)
        except Exception as error:  # noqa: BLE001
            errors.append(error)

    ranks = [threading.Thread(target=rank, args=(r,)) for r in range(count)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    if errors:
        raise errors[0]
    return results


def check_mirrors():
    """The ctypes structures are as large, and their fields where, the compiler says."""
    lines = ["#include <stdio.h>", "#include <shoal/shoal.h>", "int main(void) {"]
    for c_name, mirror in shoal.MIRRORS.items():
        lines.append(f'  printf("{c_name} %zu\\n", sizeof({c_name}));')
        for field, *_ in mirror._fields_:
            if field not in getattr(mirror, "_anonymous_", []):
                lines.append(f'  printf("{c_name}.{field} %zu\\n", offsetof({c_name}, {field}));')
    lines.append("}")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "abi.c").write_text("\n".join(lines))
        subprocess.run(["cc", "-std=c17", f"-I{SOURCE}/include", f"-I{BUILD}/include", "abi.c", "-o", "abi"],
                       cwd=folder, check=True)
        said = subprocess.run(["./abi"], cwd=folder, check=True, capture_output=True, text=True).stdout
    for line in said.splitlines():
        what, number = line.split()
        c_name, _, field = what.partition(".")
        mirror = shoal.MIRRORS[c_name]
        mine = getattr(mirror, field).offset if field else shoal.ctypes.sizeof(mirror)
        assert mine == int(number), f"{what} is {number} in C, {mine} in Python"


def check_dlpack():
    """Element types, empty tensors and scalars; writing goes to the memory itself."""
    for dtype, numpy_type in shoal.NUMPY.items():
        for shape in [(2, 3), (0, 3), ()]:
            memory = np.ones(shape, numpy_type)
            tensor = shoal.Tensor(memory.ctypes.data, dtype, shoal.to_shape(shape))
            array = shoal.as_array(tensor, writable=True)
            assert array.dtype == memory.dtype and array.shape == shape
            array[...] = 0
            assert not memory.any()
            if memory.size:
                assert array.ctypes.data == memory.ctypes.data, "a copy was made"
            assert not shoal.as_array(tensor, writable=False).flags.writeable


def check_failure():
    """A kernel that raises is an error of the call, on every rank, that quotes it."""

    def broken(inputs, outputs, attrs):
        raise ValueError("numpy had a bad day")

    worlds, errors = shoal.threads(2), [None, None]

    def rank(r):
        try:
            shoal.Session(make_model(registry()), worlds[r], {**kernels({}), OP: broken}, strategy="data")
        except shoal.Error as error:
            errors[r] = error.message

    ranks = [threading.Thread(target=rank, args=(r,)) for r in range(2)]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    assert all(e and "numpy had a bad day" in e for e in errors), errors
    assert errors[0] == errors[1], errors


def main():
    one, rules, _ = train(shoal.threads(1)[0], strategy="single")
    check_against_numpy(one)
    if "--rank" in sys.argv:  # one rank of `shoal run`
        world = shoal.join()
        assert world.size == 2
        for strategy in ("data", "tensor"):
            check_equal(f"rank {world.rank} of 2 processes, {strategy}", one,
                        train(world, strategy=strategy)[0])
        return
    check_mirrors()
    check_dlpack()
    check_rules(rules)
    rows, columns = [{(4, HIDDEN)}, {(3, HIDDEN)}], [{(BATCH, 3)}, {(BATCH, 3)}]
    micro = [{(2, HIDDEN), (1, HIDDEN)}, {(1, HIDDEN)}]  # 3, 2, 2 rows dealt 2|1, 1|1, 1|1
    for parts, options in [(rows, {"strategy": "data"}), (columns, {"strategy": "tensor"}),
                           (micro, {"strategy": "data", "mesh": "data=2,micro=3"}),
                           (rows, {"strategy": "data", "opaque": True}),
                           (columns, {"strategy": "tensor", "through_text": True})]:
        for r, (many, _, shapes) in enumerate(on_threads(2, **options)):
            check_equal(f"rank {r} of 2 threads, {options}", one, many)
            assert shapes == {OP: parts[r], GRAD: parts[r]}, (options, r, shapes)
    check_failure()
    subprocess.run([os.environ.get("SHOAL_BIN", str(BUILD / "shoal")), "run", "-n", "2", "--", sys.executable,
                    __file__, "--rank"], check=True)


if __name__ == "__main__":
    main()
