"""The runs over all families, and the table of what was compared."""
import collections
import importlib
import logging
import traceback
import warnings

import torch

from parity import aten, cases, frame

FAMILIES = ["pointwise", "reduce", "shape", "index", "product", "window", "norm", "attention", "update", "random"]
# Nothing flows back through these; torch's have no gradient either.
NO_GRADIENT = set("""greater_equal equal less less_equal greater not_equal logical_and logical_or logical_xor
    logical_not bitwise_and bitwise_or bitwise_xor bitwise_not shift_left shift_right is_nan is_inf is_finite
    reduce_any reduce_all argmax argmin one_hot bag_index full iota label_weight""".split())
OF_PARTS = {"count", "shape"}  # attributes that follow from the operands but where an op is cut
INF = float("inf")
SPECIAL = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 40.0, -40.0, 800.0, -800.0, INF, -INF, float("nan")]


def drawn(records, op):
    """The op on its own cases, with the gradient of its first result, which may have an op of its own; then on few
    different numbers, so that there are ties and zeros, with the gradient of all results."""
    record, peer = records[op], frame.PEERS[op]
    run = frame.Compared(records)
    texts = [*cases.texts(record), *peer.more] * peer.rounds
    for number, text in enumerate(texts * 2 if peer.edges else texts):
        inputs, given = cases.parse(record, text, number, peer.keep_types)
        through = "first" if number < len(texts) else True
        if number >= len(texts):
            inputs = [(x * 2).round() / 2 if x.dtype == torch.float64 else x for x in inputs]
        attrs = cases.attributes(record, given)
        if peer.draw:
            inputs = peer.draw(attrs, inputs, torch.Generator().manual_seed(number))
        add(run, record, f"{op} of {text}", op, peer, inputs, given, attrs, through)
    return run.run()


def special(records, op):
    """An op that works element by element on NaN, infinities and large numbers; on the finite ones gradients, too."""
    record, peer = records[op], frame.PEERS[op]
    run, known = frame.Compared(records), set()
    for text in cases.texts(record):
        inputs, given = cases.parse(record, text, 0)
        if all(x.dtype == torch.float64 for x in inputs) and str(given) not in known:
            known.add(str(given))
            numbers = torch.tensor(SPECIAL, dtype=torch.float64)
            inputs = torch.cartesian_prod(*[numbers] * len(inputs)).reshape(-1, len(inputs)).T.contiguous().unbind()
            attrs = cases.attributes(record, given)
            add(run, record, f"{op} of special values, {given}", op, peer, inputs, given, attrs, gradients=False)
            if peer.edges:
                finite = torch.stack([x.detach().abs() < 100 for x in inputs]).all(0)
                inputs = [x.detach()[finite] for x in inputs]
                add(run, record, f"{op} of finite values, {given}", op, peer, inputs, given, attrs)
    return run.run()


def add(run, record, label, op, peer, inputs, given, attrs, gradients=True):
    if record.gradient:
        inputs = [x.requires_grad_() if x.is_floating_point() and x.dtype.itemsize > 1 else x for x in inputs]
    required, names = len(inputs), {}
    if record.optional and given.get("with"):  # a peer gets optional inputs by their names
        required = record.input_count - record.optional
        names = dict(zip(given["with"].split(","), inputs[required:]))
    run.add(label, lambda t: t(op, *inputs, **given), lambda: peer.function(attrs, *inputs[:required], **names),
            gradients, peer.loose)


def samples(records, name, infos):
    """An adapter on the samples of its OpInfo. Attention by torch's eager math kernel: see attention.py."""
    run = frame.Compared(records)
    for info in infos:
        dtype = next(d for d in (torch.float64, torch.int64, torch.bool) if d in info.supported_dtypes("cpu"))
        add_samples(run, name, info, dtype)
    return run.run()


def integers(records, name, infos):
    """The same on integers, where Shoal has them, too."""
    run = frame.Compared(records)
    for info in infos:
        if {torch.int64, torch.float64} <= info.supported_dtypes("cpu"):
            try:
                add_samples(frame.Compared(records), name, info, torch.int64)
            except AssertionError as error:
                if "(shoal_cast)" not in str(error):
                    raise
                run.result.skips["integers of an op that has floats only: a cast"] += 1
                continue
            add_samples(run, name, info, torch.int64)
    return run.run()


def add_samples(run, name, info, dtype):
    adapter, loose = frame.ADAPTERS[name]
    gradients = dtype == torch.float64 and info.supports_autograd
    for number, s in enumerate(info.sample_inputs("cpu", dtype, requires_grad=gradients)):
        label = f"{name}, sample {number} {summary(s)}"
        try:
            with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
                run.add(label, lambda t: adapter(t, s.input, *s.args, **s.kwargs),
                        lambda: info(s.input, *s.args, **s.kwargs), loose=loose)
        except frame.Skip as reason:
            run.result.skips[str(reason)] += 1
        except Exception as error:
            raise AssertionError(f"{label}: {error}") from error


def summary(s):
    def short(x):
        if isinstance(x, torch.Tensor):
            return f"{str(x.dtype)[6:]}{list(x.shape)}"
        return f"[{', '.join(map(short, x))}]" if isinstance(x, (list, tuple)) else repr(x)
    return ", ".join([short(s.input), *map(short, s.args), *[f"{k}={short(v)}" for k, v in s.kwargs.items()]])


def find_infos():
    """OpInfos by name, and name.variant."""
    try:
        from torch.testing._internal.common_methods_invocations import op_db
    except ImportError as missing:
        print(f"no OpInfo samples: {missing}; only drawn ones are compared")
        return None
    found = collections.defaultdict(list)
    for info in op_db:
        found[info.name + ("." + info.variant_test_name if info.variant_test_name else "")].append(info)
    return found


def compare(records, only):
    """Runs all, or those named; prints the differences and the table. False if something differs or is left out."""
    warnings.simplefilter("ignore")
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # it misses a CUDA runtime
    for family in FAMILIES:
        importlib.import_module("parity." + family)
    infos = find_infos()
    blind = unnoticed(records)
    assert not blind, f"the comparison does not notice a wrong {blind}"
    runs, wrong = {}, []

    def keep(kind, name, function, *arguments):
        if only and name not in only:
            return
        try:
            runs[kind, name], differences = function(records, name, *arguments)
            wrong.extend(differences)
        except Exception as error:
            wrong.append(f"{name}: {error}")
            if only:
                traceback.print_exc()

    for op in frame.PEERS:
        keep("drawn", op, drawn)
        if frame.PEERS[op].special:
            keep("special", op, special)
    for op in frame.CHECKS:
        keep("check", op, checked)
    for name in frame.ADAPTERS if infos else ():
        keep("opinfo", name, samples, infos[name])
        keep("integers", name, integers, infos[name])
    left_out = report(records, runs, infos) if not only else []
    for text in wrong if only else wrong[:40]:
        print(text)
    print(f"{len(wrong)} differ, {len(left_out)} are left out")
    for text in left_out:
        print(f"  {text}")
    return not wrong and not left_out


def unnoticed(records):
    """The comparison can fail: what of wrong values, gradients, NaN and infinities it does not report."""
    x = torch.tensor([0.5, -1.5, 2.5], dtype=torch.float64, requires_grad=True)
    wrong = {"value": lambda y: y * (1 + 1e-8), "gradient": lambda y: 2 * y.detach() - y,
             "NaN": lambda y: torch.where(x > 2, float("nan"), y), "infinity": lambda y: torch.where(x > 2, INF, y)}
    for what, change in wrong.items():
        run = frame.Compared(records)
        run.add(what, lambda t: t("tanh", x), lambda: change(torch.tanh(x)))
        if not run.run()[1]:
            return what
    return None


def checked(records, op):
    result = frame.Result()
    result.samples = result.ops[op] = frame.CHECKS[op][1]()
    return result, []


def report(records, runs, infos):
    """Prints the table; returns what is not compared."""
    def total(op, kind, field):
        return sum(getattr(result, field)[op] for (k, _), result in runs.items() if k == kind)

    left_out = []
    print(f"{'op':26}{'OpInfo':>8}{'integers':>9}{'drawn':>7}{'special':>9}{'gradients':>11}  how")
    for op in records:
        how, reached = "", sum(result.nodes[op] for result in runs.values())
        counts = [total(op, kind, "ops") for kind in ("opinfo", "integers", "drawn", "special")]
        gradients = sum(total(op, kind, "differentiated") for kind in ("opinfo", "drawn", "special"))
        if op in frame.CHECKS:
            how, counts[2] = frame.CHECKS[op][0], total(op, "check", "ops")
        elif "_grad" in op and not any(counts) and reached:
            how = f"{reached} nodes in gradients of {', '.join(forward(op, runs))}"
        elif not any(counts):
            how = "NOT COMPARED"
            left_out.append(f"op {op} has no peer")
        elif records[op].gradient and not gradients and op not in NO_GRADIENT:
            how = "NO GRADIENT COMPARED"
            left_out.append(f"the gradient of {op} is not compared")
        columns = zip([*counts, gradients], (8, 9, 7, 9, 11))
        print(f"{op:26}" + "".join(f"{n or '':>{width}}" for n, width in columns) + f"  {how}")
    met = set().union(*[result.met for result in runs.values()])
    for op in frame.PEERS if infos else ():
        for name in set(cases.schemas(records[op])) - OF_PARTS:
            if (op, name) not in met:
                left_out.append(f"{op} is not compared with another {name}")
    for name in aten.NATIVE if infos else ():
        found = [r for (k, n), r in runs.items() if n in aten.NATIVE[name].split() and k != "special"]
        if not any(r.samples for r in found) or ("backward" in name and not any(r.gradients for r in found)):
            left_out.append(f"{name} is not compared: {aten.NATIVE[name]}")
    summarize(runs)
    return left_out


def forward(op, runs):
    """Whose gradients have the op."""
    names = sorted({name for (kind, name), result in runs.items() if kind == "drawn" and result.nodes[op]})
    return names[:3] + ["..."] * (len(names) > 3)


def summarize(runs):
    number = collections.Counter()
    for (kind, _), result in runs.items():
        number[kind] += result.samples
    skips = sum((r.skips for r in runs.values()), collections.Counter())
    gradients, worst = sum(r.gradients for r in runs.values()), max(r.worst for r in runs.values())
    print(f"\n{number['opinfo']} samples of {len(frame.ADAPTERS)} OpInfos, {number['integers']} of integers, "
          f"{number['drawn']} drawn, {number['special']} of special values, {number['check']} by other means; "
          f"{gradients} gradients; the largest difference is {worst:.1e}")
    print(f"{len(aten.NATIVE)} names of ATen have their counterpart; {sum(skips.values())} OpInfo samples have none:")
    for reason, count in skips.most_common():
        print(f"  {count:5} {reason}")
    loose = {name: peer.loose for name, peer in frame.PEERS.items() if peer.loose}
    print(f"\ncompared within {frame.LOOSE} instead of {frame.BOUND}:")
    for name, reason in loose.items():
        print(f"  {name}: {reason}")
    print("\nwhere Shoal means something else:")
    for op, reason in frame.DIFFERENCES.items():
        print(f"  {op}: {reason}")
