"""Indices: gather, scatter, embeddings, bags, segments, sorting."""
import itertools
import math

import torch
import torch.nn.functional as F

from parity import cases
from parity.frame import Skip, need, opinfo, peer


def gathered(x, ids, axis):
    axis %= x.dim()
    found = x.index_select(axis, ids.long().flatten())
    return found.reshape([*x.shape[:axis], *ids.shape, *x.shape[axis + 1:]])


def lines(x, ids, axis):
    """src [a.., k.., b..] with the dims of ids merged."""
    axis %= x.dim() - ids.dim() + 1
    return x.reshape([*x.shape[:axis], ids.numel(), *x.shape[axis + ids.dim():]]), axis


peer("embedding", lambda a, table, ids: F.embedding(ids.long(), table, None if a.padding < 0 else a.padding))
peer("pick", lambda a, x, labels: x.gather(-1, labels.long().unsqueeze(-1)).squeeze(-1))
peer("gather", lambda a, x, ids: gathered(x, ids, a.axis))
peer("take_along", lambda a, x, ids: torch.gather(x, a.axis, ids.long()))
peer("take_along_grad", lambda a, ids, dy: torch.zeros(a.shape, dtype=dy.dtype).scatter_add(a.axis, ids.long(), dy))
peer("one_hot", lambda a, ids: F.one_hot(ids.long(), a.classes).to(cases.TORCH[a.dtype]))
peer("bound", lambda a, x, counts: torch.where(
    (torch.arange(x.shape[counts.dim()]) < counts.unsqueeze(-1)).reshape(
        [*x.shape[:counts.dim() + 1]] + [1] * (x.dim() - counts.dim() - 1)), x, torch.zeros_like(x)))


@peer("scatter_add")
def scatter_add(a, ids, src, x=None):
    start = torch.zeros(a.shape, dtype=src.dtype) if x is None else x
    rows, axis = lines(src, ids, a.axis)
    return start.index_add(axis, ids.long().flatten(), rows)


def written(x, ids, src, axis, add):
    """src at [.., ids, ..], ids of x's rank: added, or the last of several writes stays (torch does not say which)."""
    if add:
        return x.scatter_add(axis, ids, src)
    order = torch.arange(ids.shape[axis]).reshape([-1 if d == axis % x.dim() else 1 for d in range(x.dim())])
    last = torch.full(x.shape, -1).scatter_reduce(axis, ids, order.expand(ids.shape), "amax")
    if src.shape[axis] == 0:
        return x.clone()
    return torch.where(last >= 0, src.gather(axis, last.clamp(min=0)), x)


peer("put_along", lambda a, x, ids, src: written(x, ids.long(), src, a.axis, a.add))


@peer("index_put")
def index_put(a, x, ids, values):
    rows, axis = lines(values, ids, a.axis)
    wide = ids.long().reshape([-1 if d == axis else 1 for d in range(x.dim())]).expand(rows.shape)
    return written(x, wide, rows, axis, a.add)


# ---- sorting --------------------------------------------------------------------------------------------

peer("sort", lambda a, x: torch.sort(x, dim=a.axis, descending=bool(a.descending), stable=True))


@peer("top_k")
def top_k(a, x):
    values, indices = torch.sort(x, dim=a.axis, descending=bool(a.largest), stable=True)
    return values.narrow(a.axis, 0, a.k).contiguous(), indices.narrow(a.axis, 0, a.k).contiguous()


# ---- segments and bags ----------------------------------------------------------------------------------


def segment(x, ids):
    return ids.long().reshape([-1] + [1] * (x.dim() - 1)).expand(x.shape)


def segment_sum(x, ids, segments):
    return torch.zeros([segments, *x.shape[1:]], dtype=x.dtype).index_add(0, ids.long(), x)


def segment_max(x, ids, segments):
    start = torch.full([segments, *x.shape[1:]], float("-inf"), dtype=x.dtype)
    return start.scatter_reduce(0, segment(x, ids), x, "amax")


peer("segment_sum", lambda a, x, ids: segment_sum(x, ids, a.segments))
peer("segment_max", lambda a, x, ids: segment_max(x, ids, a.segments))


@peer("segment_softmax")
def segment_softmax(a, x, ids):
    most = segment_max(x.detach(), ids, a.segments).gather(0, segment(x, ids))
    power = (x - most).exp()
    return power / segment_sum(power, ids, a.segments).gather(0, segment(x, ids))


def ordered(a, inputs, _):
    """Offsets as torch wants them: from 0 on, in order."""
    at = 0 if len(inputs) == 1 else 2
    inputs[at] = inputs[at].sort().values
    inputs[at][:1] = 0
    return inputs


@peer("bag_index", draw=ordered)
def bag_index(a, offsets):
    return torch.searchsorted(offsets.long(), torch.arange(a.count), right=True) - 1


@peer("embedding_bag", draw=ordered)
def embedding_bag(a, table, ids, offsets, weights=None):
    return F.embedding_bag(ids.long(), table, offsets.long(), mode=a.mode, per_sample_weights=weights)


@peer("embedding_rows")
def embedding_rows(a, ids, dy):
    """The rows of torch's sparse gradient, coalesced, of each group; behind them `rows` and zeros."""
    names = torch.full(list(ids.shape), a.rows)
    sums, counts = torch.zeros_like(dy), torch.zeros(list(ids.shape[:-1]), dtype=torch.int64)
    for group in itertools.product(*(range(size) for size in ids.shape[:-1])):
        flat = ids[group].long()
        keep = flat != a.padding
        used, which = torch.unique(flat[keep], return_inverse=True)
        sums[group].index_add_(0, which, dy[group][keep])
        names[group][:len(used)] = used
        counts[group] = len(used)
    return names, sums, counts


@peer("rows_add")
def rows_add(a, ids, values):
    flat, rows = ids.long().flatten(), values.reshape(-1, values.shape[-1])
    return torch.zeros([a.rows + 1, values.shape[-1]], dtype=values.dtype).index_add(0, flat, rows)[:a.rows]


# ---- torch's functions ----------------------------------------------------------------------------------


@opinfo("nn.functional.embedding")
def embedding(t, table, ids, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    need(max_norm is None, "max_norm: changes the table in place")
    need(not scale_grad_by_freq, "scale_grad_by_freq")
    need(not sparse, "a sparse gradient: embedding_rows")
    return t("embedding", table, ids, padding=-1 if padding_idx is None else padding_idx % table.shape[0])


@opinfo("nn.functional.embedding_bag")
def bags(t, table, ids, offsets=None, mode="mean", per_sample_weights=None, padding_idx=None, include_last_offset=False,
         max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False):
    if table.dtype != torch.float64:
        table, ids = ids, table
    need(max_norm is None and not scale_grad_by_freq and not sparse, "max_norm, scale_grad_by_freq, sparse")
    need(padding_idx is None, "padding of bags: weights of 0")
    need(not include_last_offset, "the last offset: a slice leaves it out")
    if ids.dim() == 2:
        offsets = torch.arange(0, ids.numel(), ids.shape[1], dtype=ids.dtype)
        ids = ids.flatten()
        per_sample_weights = None if per_sample_weights is None else t("reshape", per_sample_weights, shape=[-1])
    return t("embedding_bag", table, ids, offsets, per_sample_weights, mode=mode,
             **{"with": "weights"} if per_sample_weights is not None else {})


@opinfo("nn.functional.one_hot")
def one_hot(t, ids, num_classes=-1):
    classes = int(ids.max()) + 1 if num_classes < 0 else num_classes
    return t("one_hot", ids, classes=classes, dtype=torch.int64)


def rank(t, x):
    """Its rank; numbers have no dim to index along."""
    if not t.shape(x):
        raise Skip("indexing a number")
    return len(t.shape(x))


@opinfo("gather")
def gather(t, x, dim, ids):
    n, axis = rank(t, x), t.axis(x, dim)
    need(ids.dim() == n, "no indices at all")
    smaller = [m if d == axis else k for d, (m, k) in enumerate(zip(t.shape(x), t.shape(ids)))]
    return t("take_along", t("slice", x, start=[0] * n, size=smaller), ids, axis=axis)


@opinfo("take_along_dim")
def take_along_dim(t, x, ids, dim=None):
    if dim is None:
        x, ids, dim = t("reshape", x, shape=[-1]), ids.reshape(-1), 0
    axis = t.axis(x, dim)
    ids = ids % t.shape(x)[axis]
    wide = list(torch.broadcast_shapes(*[[1 if d == axis else n for d, n in enumerate(t.shape(v))] for v in (x, ids)]))
    shape = lambda v: [t.shape(v)[d] if d == axis else n for d, n in enumerate(wide)]  # noqa: E731
    return t("take_along", t("broadcast_to", x, shape=shape(x)), t("broadcast_to", ids, shape=shape(ids)), axis=axis)


@opinfo("index_select")
def index_select(t, x, dim, ids):
    rank(t, x)
    return t("gather", x, ids if ids.dim() else ids.reshape(1), axis=dim)


@opinfo("index_add")
def index_add(t, x, dim, ids, src, alpha=1):
    rank(t, x)
    src = src if alpha == 1 else t("mul", src, t.full(src, alpha))
    need(ids.dim() == 1, "an index that is a number")
    return t("index_put", x, ids, src, axis=dim, add=1)


@opinfo("index_copy")
def index_copy(t, x, dim, ids, src):
    rank(t, x)
    need(ids.dim() == 1, "an index that is a number")
    return t("index_put", x, ids, src, axis=dim)


def merged(t, x, ids, first):
    """x with the dims that several indices stand for as one, and the indices in it."""
    shape, n = t.shape(x), len(ids)
    ids = torch.broadcast_tensors(*[i % shape[first + k] for k, i in enumerate(ids)])
    place = sum(i * math.prod(shape[first + k + 1:first + n]) for k, i in enumerate(ids))
    return t("reshape", x, shape=[*shape[:first], math.prod(shape[first:first + n]), *shape[first + n:]]), place


@opinfo("index_put")
def put(t, x, indices, values, accumulate=False):
    """Indices along the first dims: these are merged. A mask: where."""
    shape, n = t.shape(x), len(indices)
    if indices[0].dtype == torch.bool:
        seen = t("reshape", indices[0], shape=list(indices[0].shape) + [1] * (len(shape) - indices[0].dim()))
        return t("where", seen, t("add", x, values) if accumulate else values, x)
    rows, place = merged(t, x, indices, 0)
    need(accumulate or len(set(place.flatten().tolist())) == place.numel(), "two writes to one place")
    values = t("broadcast_to", values, shape=[*place.shape, *shape[n:]])
    return t("reshape", t("index_put", rows, place, values, axis=0, add=accumulate), shape=shape)


@opinfo("__getitem__")
def getitem(t, x, index):
    """Numbers and ranges: slice. Lists and tensors side by side: gather."""
    index = [torch.tensor(i) if isinstance(i, list) else i for i in (index if isinstance(index, tuple) else [index])]
    shape = t.shape(x)
    if Ellipsis in [i for i in index if not isinstance(i, torch.Tensor)]:
        index.remove(Ellipsis)
    index += [slice(None)] * (len(shape) - len(index))
    lists = [d for d, i in enumerate(index) if isinstance(i, torch.Tensor)]
    need(all(index[d].dtype == torch.int64 for d in lists), "a mask that gives a size")
    need(not lists or lists[-1] - lists[0] == len(lists) - 1, "indices that are not side by side")
    ranges = [range(n) if d in lists else range(i, i + 1) if isinstance(i, int) else range(n)[i]
              for d, (i, n) in enumerate(zip(index, shape))]
    part = t("slice", x, start=[r.start for r in ranges], size=[len(r) for r in ranges])
    if lists:
        rows, place = merged(t, part, [index[d] for d in lists], lists[0])
        return t("gather", rows, place, axis=lists[0])
    return t("reshape", part, shape=[len(r) for r, i in zip(ranges, index) if not isinstance(i, int)])


def scattered(add):
    def adapter(t, x, dim, ids, src, reduce=None):
        n, axis = rank(t, x), t.axis(x, dim)
        need(reduce is None or reduce == "add", "scatter with a product")
        if not isinstance(src, torch.Tensor):
            src = t("full", shape=list(ids.shape), value=src, dtype="f64")
        whole = [m if d == axis else k for d, (m, k) in enumerate(zip(t.shape(x), ids.shape))]
        need(whole == t.shape(x), "indices of a part of the other dims")
        lines = ids.movedim(axis, -1).reshape(-1, ids.shape[axis]).tolist()
        need(add or reduce or all(len(set(line)) == len(line) for line in lines), "two writes to one place")
        part = t("slice", src, start=[0] * n, size=list(ids.shape))
        return t("put_along", x, ids, part, axis=axis, add=bool(add or reduce))
    return adapter


opinfo("scatter")(scattered(False))
opinfo("scatter_add")(scattered(True))


@opinfo("sort")
def sort(t, x, dim=-1, descending=False, stable=False):
    if not t.shape(x):
        raise Skip("sorting a number")
    return t("sort", x, axis=dim, descending=descending)


@opinfo("topk")
def topk(t, x, k, dim=-1, largest=True, sorted=True):
    if not t.shape(x):
        raise Skip("sorting a number")
    values, indices = t("top_k", x, k=k, axis=dim, largest=largest)
    return values, indices if x.is_floating_point() else None  # of equal numbers torch takes any
