"""Softmax, norms, and losses over classes."""
import math

import torch
import torch.nn.functional as F

from parity import cases
from parity.frame import Skip, need, opinfo, peer

peer("softmax", lambda a, x: torch.softmax(x, a.axis))
peer("log_softmax", lambda a, x: torch.log_softmax(x, a.axis))
peer("log_sum_exp", lambda a, x: torch.logsumexp(x, a.dims, bool(a.keep)) if a.dims else x.clone())


@peer("layer_norm")
def layer_norm_peer(a, x, gamma=None, beta=None):
    y, mean, rstd = torch.native_layer_norm(x, x.shape[-a.dims:], gamma, beta, a.eps)
    return y, mean.reshape(x.shape[:-a.dims]), rstd.reshape(x.shape[:-a.dims])


@peer("rms_norm")
def rms_norm_peer(a, x, gamma=None):
    return F.rms_norm(x, x.shape[-1:], gamma, a.eps), torch.rsqrt((x * x).mean(-1) + a.eps)


def statistics(a, x, groups):
    """Mean and biased variance over all of a channel, or of a group in one row."""
    if groups:
        grouped = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    else:
        grouped = x.transpose(0, 1).reshape(x.shape[1], -1)
    count = a.count or grouped.shape[-1]
    mean = grouped.sum(-1) / count
    return mean, ((grouped - mean.unsqueeze(-1)) ** 2).sum(-1) / count


@peer("batch_norm")
def batch_norm_peer(a, x, gamma=None, beta=None):
    if x.shape[0] == 0:  # torch refuses it
        return x.clone(), *statistics(a, x, 0)
    return F.batch_norm(x, None, None, gamma, beta, True, 0, a.eps), *statistics(a, x, 0)


@peer("group_norm")
def group_norm_peer(a, x, gamma=None, beta=None):
    return F.group_norm(x, a.groups, gamma, beta, a.eps), *statistics(a, x, a.groups)


@peer("rotary")
def rotary_peer(a, x, positions=None):
    """The formula; torch has none."""
    n, length = a.dims or x.shape[-1], x.shape[-2]
    positions = torch.arange(length) if positions is None else positions
    rates = a.base ** (-2 * torch.arange(n // 2, dtype=torch.float64) / n)
    slow = rates / a.factor
    if a.original:  # as transformers has Llama 3.1's
        length_of_turn = 2 * torch.pi / rates
        share = (a.original / length_of_turn - a.low) / (a.high - a.low)
        slow = torch.where(length_of_turn > a.original / a.low, slow, (1 - share) * slow + share * rates)
        slow = torch.where(length_of_turn < a.original / a.high, rates, slow)
    angle = positions.double().unsqueeze(-1) * slow
    if positions.dim() == 2:
        angle = angle.reshape([x.shape[0]] + [1] * (x.dim() - 3) + [length, n // 2])
    sin, cos = (-angle.sin() if a.inverse else angle.sin()), angle.cos()
    turned, rest = x[..., :n], x[..., n:]
    if a.interleaved:
        first, second = turned[..., 0::2], turned[..., 1::2]
        pair = torch.stack([first * cos - second * sin, second * cos + first * sin], -1).flatten(-2)
    else:
        first, second = turned[..., :n // 2], turned[..., n // 2:]
        pair = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    return torch.cat([pair, rest], -1)


@peer("cross_entropy", rounds=2)
def cross_entropy_peer(a, logits, labels, weights=None, total=None):
    """Written out, as torch has no gradient by class weights; the adapter below is held against F.cross_entropy."""
    logs, labels = torch.log_softmax(logits, -1), labels.long()
    seen = labels != a.ignore
    safe = torch.where(seen, labels, 0)
    weights = torch.ones(logits.shape[-1], dtype=torch.float64) if weights is None else weights
    picked = (logs * weights).gather(-1, safe.unsqueeze(-1)).squeeze(-1)
    rows = (1 - a.smoothing) * picked + a.smoothing / logits.shape[-1] * (logs * weights).sum(-1)
    return -torch.where(seen, rows, 0).sum() / (total if total is not None else a.count or labels.numel())


peer("label_weight", lambda a, labels: (labels != a.ignore).to(cases.TORCH[a.dtype]), rounds=2)


# ---- torch's functions ----------------------------------------------------------------------------------


def along(name):
    def adapter(t, x, dim, dtype=None, **_):
        need(dtype in (None, torch.float64), "a result of another type: a cast")
        if not t.shape(x):
            raise Skip("softmax of a number")
        return t(name, x, axis=dim)
    return adapter


opinfo("softmax", "softmax.with_dtype")(along("softmax"))
opinfo("log_softmax", "log_softmax.with_dtype")(along("log_softmax"))


@opinfo("logsumexp")
def logsumexp(t, x, dim, keepdim=False):
    dims = [] if not t.shape(x) else [dim] if isinstance(dim, int) else list(dim)
    return t("log_sum_exp", x, dims=dims, keep=keepdim)


@opinfo("nn.functional.layer_norm")
def layer_norm(t, x, normalized_shape, weight=None, bias=None, eps=1e-5):
    return t("layer_norm", x, weight, bias, eps=eps, dims=len(normalized_shape))[0]


@opinfo("native_layer_norm")
def native_layer_norm(t, x, normalized_shape, weight, bias, eps):
    y, mean, rstd = t("layer_norm", x, weight, bias, eps=eps, dims=len(normalized_shape))
    kept = t.shape(mean) + [1] * len(normalized_shape)
    return y, t("reshape", mean, shape=kept), t("reshape", rstd, shape=kept)


@opinfo("nn.functional.rms_norm")
def rms_norm(t, x, normalized_shape, weight=None, eps=None):
    """Over several dims: merged."""
    need(t.shape(x), "a norm of a number")
    width = math.prod(normalized_shape)
    gamma = None if weight is None else t("reshape", weight, shape=[width])
    rows = t("reshape", x, shape=[*t.shape(x)[:len(t.shape(x)) - len(normalized_shape)], width])
    y, _ = t("rms_norm", rows, gamma, eps=torch.finfo(torch.float64).eps if eps is None else eps)
    return t("reshape", y, shape=t.shape(x))


def classes_last(t, x):
    """Torch has classes at dim 1."""
    rank = len(t.shape(x))
    return t("transpose", x, perm=[0, *range(2, rank), 1]) if rank > 2 else x


def label_total(t, labels, weight, classes, ignore):
    """What each label counts, by its class and 0 where it is ignored, and a label for each that is in range."""
    safe = t("clamp", labels, min=0, max=classes - 1)
    counts = t("label_weight", labels, classes=classes, dtype="f64", ignore=ignore)
    return (counts if weight is None else t("mul", counts, t("gather", weight, safe, axis=0))), safe


@opinfo("nn.functional.nll_loss")
def nll_loss(t, x, labels, weight=None, ignore_index=-100, reduction="mean", **old):
    """Not an op: log-probabilities picked and weighted."""
    need(not old, "old spelling of reduction")
    x = classes_last(t, x)
    counts, safe = label_total(t, labels, weight, t.shape(x)[-1], ignore_index)
    loss = t("neg", t("mul", t("pick", x, safe), counts))
    dims = list(range(len(t.shape(loss))))
    if reduction == "none":
        return loss
    total = t("reduce_sum", loss, dims=dims)
    return total if reduction == "sum" else t("div", total, t("reduce_sum", counts, dims=dims))


def soft_labels(t, x, labels, weight, reduction, smoothing):
    """Labels that are probabilities, not an op: log_softmax and mul."""
    labels = t("affine", labels, scale=1 - smoothing, shift=smoothing / t.shape(x)[-1])
    logs = t("log_softmax", x, axis=-1)
    product = t("mul", labels, logs if weight is None else t("mul", logs, weight))
    loss = t("neg", t("reduce_sum", product, dims=[-1]))
    dims = list(range(len(t.shape(loss))))
    return loss if reduction == "none" else t("reduce_mean" if reduction == "mean" else "reduce_sum", loss, dims=dims)


@opinfo("nn.functional.cross_entropy")
def cross_entropy(t, x, labels, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0, **old):
    need(not old, "old spelling of reduction")
    if labels.dtype == torch.float64:
        return soft_labels(t, classes_last(t, x), classes_last(t, labels), weight, reduction, label_smoothing)
    if reduction == "none":
        need(label_smoothing == 0, "smoothing without a sum")
        logs = t("log_softmax", x, axis=min(len(t.shape(x)) - 1, 1))
        return nll_loss(t, logs, labels, weight, ignore_index, reduction)
    x = classes_last(t, x)
    counts, _ = label_total(t, labels, weight, t.shape(x)[-1], ignore_index)
    if reduction == "sum":
        return t("cross_entropy", x, labels, weight, t.full(x, 1), ignore=ignore_index, smoothing=label_smoothing)
    total = t("reduce_sum", counts, dims=list(range(len(t.shape(counts)))))
    return t("cross_entropy", x, labels, weight, total, ignore=ignore_index, smoothing=label_smoothing)


@opinfo("nn.functional.batch_norm")
def batch_norm(t, x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    need(len(t.shape(x)) > 1, "a single dim")
    if training or mean is None:
        return t("batch_norm", x, weight, bias, eps=eps)[0]
    channel = [-1] + [1] * (len(t.shape(x)) - 2)
    rstd = t("rsqrt", t("affine", var, scale=1, shift=eps))
    y = t("mul", t("sub", x, t("reshape", mean, shape=channel)), t("reshape", rstd, shape=channel))
    y = y if weight is None else t("mul", y, t("reshape", weight, shape=channel))
    return y if bias is None else t("add", y, t("reshape", bias, shape=channel))


@opinfo("nn.functional.group_norm")
def group_norm(t, x, num_groups, weight=None, bias=None, eps=1e-5):
    return t("group_norm", x, weight, bias, groups=num_groups, eps=eps)[0]


@opinfo("nn.functional.instance_norm")
def instance_norm(t, x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True,
                  momentum=0.1, eps=1e-5):
    """A group for each channel."""
    need(use_input_stats, "running statistics of instances")
    return t("group_norm", x, weight, bias, groups=t.shape(x)[1], eps=eps)[0]
