"""Attention, against the mathematics written out and torch's eager math kernel: its decomposition on CPU has wrong
gradients."""
import math

import numpy as np
import torch

from parity.frame import need, opinfo, peer
from parity.random import evaluate


@peer("attention")
def attention_peer(a, q, k, v, bias=None, mask=None, step=None):
    k, v = [x.repeat_interleave(a.groups, 1) for x in (k, v)]
    scores = q @ k.mT * (a.scale or 1 / math.sqrt(q.shape[-1]))
    scores = scores if bias is None else scores + bias
    back = torch.arange(q.shape[2]).unsqueeze(-1) - torch.arange(k.shape[2])
    seen = torch.ones_like(scores, dtype=torch.bool) if mask is None else mask.expand(scores.shape)
    seen = seen & (back >= 0) if a.causal else seen
    seen = seen & (back.abs() < a.window) if a.window else seen
    scores = scores.masked_fill(~seen, float("-inf"))
    lse = torch.logsumexp(scores, -1)
    weights = torch.where(seen, (scores - lse.unsqueeze(-1).clamp(min=-1e300)).exp(), 0)
    if a.p:
        weights = weights * kept(weights.shape, a.p, a.key, int(step))
    return weights @ v, lse


def kept(shape, p, key, step):
    """The factors of dropout, which is that of shoal.dropout (compared by itself)."""
    feeds = [("x", np.ones(shape)), ("step", np.array(step, np.int64))]
    found, = evaluate([("dropout", ["x", "step"], dict(p=p, key=key))], feeds)
    return torch.from_numpy(found)


@peer("lse_merge")
def lse_merge(a, value, lse):
    wide = lse.reshape(lse.shape + (1,) * (value.dim() - lse.dim()))
    total = torch.logsumexp(wide, 0)
    return ((wide - total).exp() * value).sum(0), total.reshape(lse.shape[1:])


def four(t, x):
    """As [B, H, T, D]."""
    need(len(t.shape(x)) <= 4, "more than 4 dims")
    return t("reshape", x, shape=[1] * (4 - len(t.shape(x))) + t.shape(x))


@opinfo("nn.functional.scaled_dot_product_attention")
def sdpa(t, q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    need(dropout_p == 0, "dropout from torch's stream: drawn samples have it")
    shape = t.shape(q)[:-1] + t.shape(v)[-1:]
    q4, k4, v4 = four(t, q), four(t, k), four(t, v)
    need(t.shape(q4)[0] == t.shape(k4)[0], "batches that broadcast")
    groups = t.shape(q4)[1] // max(t.shape(k4)[1], 1)
    bias = mask = None
    if attn_mask is not None:
        wide = four(t, attn_mask)
        bias, mask = (None, wide) if attn_mask.dtype == torch.bool else (wide, None)
    options = {} if scale is None else {"scale": scale}
    out, _ = t("attention", q4, k4, v4, bias, mask, causal=is_causal, groups=groups, **options)
    return t("reshape", out, shape=shape)
