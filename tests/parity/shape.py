"""Shapes: what moves elements, and constants."""
import torch

from parity import cases
from parity.frame import Skip, need, opinfo, peer


def adjoint(function):
    """The adjoint of a linear function of x [shape], differentiable in dy."""
    def answer(a, dy):
        x = torch.zeros(a.shape, dtype=dy.dtype, requires_grad=True)
        if not dy.is_floating_point():
            return torch.func.vjp(lambda z: function(a, z), x)[1](dy)[0]
        return torch.autograd.grad(function(a, x), x, dy, create_graph=True)[0]
    return answer


def box(start, size):
    return tuple(slice(s, s + n) for s, n in zip(start, size))


peer("reshape", lambda a, x: x.reshape(a.shape))
peer("transpose", lambda a, x: x.permute(a.perm).contiguous())
peer("slice", lambda a, x: x[box(a.start, a.size)].clone(), keep_types=True)
peer("broadcast_to", lambda a, x: x.expand(a.shape).contiguous())
peer("concat", lambda a, *xs: torch.cat(xs, a.axis))
peer("stack", lambda a, *xs: torch.stack(xs, a.axis))
peer("flip", lambda a, x: x.flip(a.dims))
peer("roll", lambda a, x: torch.roll(x, a.shifts, a.dims))
peer("triangle", lambda a, x: torch.triu(x, a.diagonal) if a.upper else torch.tril(x, a.diagonal))
peer("full", lambda a: torch.full(a.shape, a.value, dtype=cases.TORCH[a.dtype]))
peer("split", lambda a, x: [p.clone() for p in torch.tensor_split(x, a.starts[1:], a.axis)])
peer("constrain", lambda a, x: x.clone(), keep_types=True)
peer("stride", lambda a, x: x[tuple(slice(s, None, n) for s, n in zip(a.start, a.step))].clone())
peer("stride_grad", adjoint(lambda a, x: x[tuple(slice(s, None, n) for s, n in zip(a.start, a.step))]))
peer("unfold", lambda a, x: x.unfold(a.axis, a.size, a.step).contiguous())
peer("fold", adjoint(lambda a, x: x.unfold(a.axis, a.size, a.step)))
peer("diagonal", lambda a, x: torch.diagonal(x, a.offset, a.rows, a.columns).contiguous())


@peer("diagonal_grad")
def diagonal_grad(a, dy):
    zeros = torch.zeros(a.shape, dtype=dy.dtype)
    return torch.diagonal_scatter(zeros, dy, a.offset, a.rows, a.columns)


@peer("pad")
def pad_peer(a, x):
    around = []
    for s, n, whole in reversed(list(zip(a.start, x.shape, a.shape))):
        around += [s, whole - s - n]
    return torch.nn.functional.pad(x, around, value=a.value if x.is_floating_point() else int(a.value))


@peer("iota")
def iota_peer(a):
    line, axis = torch.arange(a.shape[a.axis], dtype=cases.TORCH[a.dtype]), a.axis % len(a.shape)
    return line.reshape([-1 if d == axis else 1 for d in range(len(a.shape))]).expand(a.shape).contiguous()


def edge(size, before, after, mode):
    """Where each element of a padded line comes from."""
    place = torch.arange(-before, size + after)
    if mode == "replicate":
        return place.clamp(0, size - 1)
    if mode == "circular":
        return place % size
    return (size - 1) - ((place % (2 * size - 2) if size > 1 else place * 0) - (size - 1)).abs()


def edges_of(a, x):
    for d, (before, after) in enumerate(zip(a.before, a.after)):
        if before or after:
            x = x.index_select(d, edge(x.shape[d], before, after, a.mode))
    return x


peer("edges", lambda a, x: edges_of(a, x))


@peer("edges_grad")
def edges_grad(a, dy):
    a.shape = [n - b - e for n, b, e in zip(dy.shape, a.before, a.after)]
    return adjoint(edges_of)(a, dy)


# ---- torch's functions ----------------------------------------------------------------------------------


def number_list(given):
    return list(given[0]) if len(given) == 1 and isinstance(given[0], (list, tuple, torch.Size)) else list(given)


opinfo("reshape", "view")(lambda t, x, *shape: t("reshape", x, shape=number_list(shape)))
opinfo("permute")(lambda t, x, *dims: t("transpose", x, perm=[t.axis(x, d) for d in number_list(dims)]))
opinfo("cat")(lambda t, xs, dim=0: t("concat", *[x for x in xs if list(x.shape) != [0]] or xs[:1], axis=dim))
opinfo("stack")(lambda t, xs, dim=0: t("stack", *xs, axis=dim))
opinfo("tril")(lambda t, x, diagonal=0: t("triangle", x, diagonal=diagonal))
opinfo("triu")(lambda t, x, diagonal=0: t("triangle", x, diagonal=diagonal, upper=1))
opinfo("diagonal")(lambda t, x, offset=0, dim1=0, dim2=1: t("diagonal", x, offset=offset, rows=dim1, columns=dim2))


@opinfo("full")
def full(t, shape, value, dtype=None, **_):
    return t("full", shape=shape, value=value, dtype=dtype or torch.full([], value).dtype)


@opinfo("full_like")
def full_like(t, x, value, dtype=None, **_):
    return t("full", shape=list(x.shape), value=value, dtype=dtype or x.dtype)


@opinfo("transpose")
def transpose(t, x, dim0, dim1):
    perm = list(range(len(t.shape(x))))
    if perm:
        perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
    return t("transpose", x, perm=perm)


@opinfo("expand")
def expand(t, x, *shape):
    shape, old = number_list(shape), t.shape(x)
    old = [1] * (len(shape) - len(old)) + old
    return t("broadcast_to", x, shape=[o if n == -1 else n for n, o in zip(shape, old)])


@opinfo("broadcast_to")
def broadcast_to(t, x, shape):
    return t("broadcast_to", x, shape=shape)


@opinfo("squeeze", "squeeze.multiple")
def squeeze(t, x, dim=None):
    shape = t.shape(x)
    dims = range(len(shape)) if dim is None else [t.axis(x, d) for d in ([dim] if isinstance(dim, int) else dim)]
    return t("reshape", x, shape=[n for d, n in enumerate(shape) if d not in dims or n != 1])


@opinfo("unsqueeze")
def unsqueeze(t, x, dim):
    shape = t.shape(x)
    shape.insert(dim % (len(shape) + 1), 1)
    return t("reshape", x, shape=shape)


def cut(t, x, dim, start, size):
    """A range along one dim."""
    shape = t.shape(x)
    begin = [0] * len(shape)
    begin[dim], shape[dim] = start, size
    return t("slice", x, start=begin, size=shape)


@opinfo("select")
def select(t, x, dim, index):
    dim = t.axis(x, dim)
    shape = t.shape(x)
    part = cut(t, x, dim, index % shape[dim], 1)
    return t("reshape", part, shape=shape[:dim] + shape[dim + 1:])


@opinfo("narrow")
def narrow(t, x, dim, start, length):
    dim = t.axis(x, dim)
    return cut(t, x, dim, int(start) % max(t.shape(x)[dim], 1) if int(start) < 0 else int(start), length)


def bounds(size, start, end):
    begin, stop, _ = slice(start, end).indices(size)
    return begin, max(stop - begin, 0)


@opinfo("slice")
def slices(t, x, dim=0, start=None, end=None, step=1):
    dim = t.axis(x, dim)
    begin, count = bounds(t.shape(x)[dim], start, end)
    part = cut(t, x, dim, begin, count)
    if step == 1:
        return part
    rank = len(t.shape(x))
    return t("stride", part, start=[0] * rank, step=[step if d == dim else 1 for d in range(rank)])


@opinfo("slice_scatter")
def slice_scatter(t, x, src, dim=0, start=None, end=None, step=1):
    """Not an op: the parts before and behind, with src between them; with a step, where."""
    dim = t.axis(x, dim)
    size = t.shape(x)[dim]
    begin, count = bounds(size, start, end)
    if step == 1:
        return t("concat", cut(t, x, dim, 0, begin), src, cut(t, x, dim, begin + count, size - begin - count), axis=dim)
    need(begin == 0, "a step from elsewhere than the start")
    rank = len(t.shape(x))
    steps = dict(start=[0] * rank, step=[step if d == dim else 1 for d in range(rank)], shape=t.shape(x))
    ones = t("full", shape=t.shape(src), value=1, dtype="f64")
    return t("where", t("greater", t("stride_grad", ones, **steps), t.full(x, 0)), t("stride_grad", src, **steps), x)


@opinfo("repeat", "tile")
def repeat(t, x, *times):
    """Not an op: a new dim before each, broadcast and merged."""
    times, shape = number_list(times), t.shape(x)
    times = [1] * (len(shape) - len(times)) + times
    shape = [1] * (len(times) - len(shape)) + shape
    need(2 * len(shape) <= 8, "more than 4 dims")
    apart = t("reshape", x, shape=[n for s in shape for n in (1, s)])
    wide = t("broadcast_to", apart, shape=[n for s, r in zip(shape, times) for n in (r, s)])
    return t("reshape", wide, shape=[s * r for s, r in zip(shape, times)])


@opinfo("flip")
def flip(t, x, dims):
    return t("flip", x, dims=dims) if t.shape(x) else x


@opinfo("roll")
def roll(t, x, shifts, dims=None):
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    if not t.shape(x):
        raise Skip("a roll of a number")
    if dims is None or dims == ():
        flat = t("reshape", x, shape=[-1])
        return t("reshape", roll(t, flat, shifts, 0), shape=t.shape(x))
    dims = [dims] if isinstance(dims, int) else list(dims)
    need(len({d % len(t.shape(x)) for d in dims}) == len(dims), "a dim that turns twice")
    sizes = [max(t.shape(x)[d], 1) for d in dims]
    return t("roll", x, dims=dims, shifts=[s % n for s, n in zip(shifts, sizes)])


@opinfo("split_with_sizes", "split.list_args")
def split_with_sizes(t, x, sizes, dim=0):
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    found = t("split", x, axis=dim, starts=starts)
    return found


@opinfo("unfold")
def unfold(t, x, dimension, size, step):
    need(t.shape(x), "windows of a number")
    return t("unfold", x, axis=dimension, size=size, step=step)


opinfo("constant_pad_nd")(lambda t, x, pad_sizes, value=0: pad(t, x, pad_sizes, value=value))


@opinfo("nn.functional.pad.constant", "nn.functional.pad.reflect", "nn.functional.pad.replicate",
        "nn.functional.pad.circular")
def pad(t, x, pad, mode="constant", value=0):
    shape = t.shape(x)
    around = [(0, 0)] * (len(shape) - len(pad) // 2) + list(zip(pad[0::2], pad[1::2]))[::-1]
    keep = [(max(-b, 0), n - max(-b, 0) - max(-e, 0)) for (b, e), n in zip(around, shape)]
    if any(b < 0 or e < 0 for b, e in around):
        need(mode == "constant", "a negative border that is not constant")
        x = t("slice", x, start=[s for s, _ in keep], size=[n for _, n in keep])
    around = [(max(b, 0), max(e, 0)) for b, e in around]
    if mode == "constant" or not mode:
        return t("pad", x, start=[b for b, _ in around], value=value or 0,
                 shape=[b + n + e for (b, e), (_, n) in zip(around, keep)])
    return t("edges", x, before=[b for b, _ in around], after=[e for _, e in around], mode=mode)


@opinfo("arange")
def arange(t, start, end=None, step=1, dtype=None, **_):
    start, end = (0, start) if end is None else (start, end)
    count = max(0, -int(-(end - start) // step))
    dtype = dtype or (torch.int64 if all(isinstance(n, int) for n in (start, end, step)) else torch.float64)
    line = t("iota", shape=[count], axis=0, dtype=dtype)
    return t("add", t("mul", line, t.full(line, step)), t.full(line, start))
