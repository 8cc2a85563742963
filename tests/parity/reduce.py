"""Reductions and scans."""
import torch

from parity.frame import Skip, need, opinfo, peer


def along(function):
    """A peer that reduces over dims; torch takes no empty list for `all of them` and reduces one dim at a time."""
    def answer(a, x):
        for d in sorted([d % x.dim() for d in a.dims], reverse=True):
            x = function(x, d, bool(a.keep))
        return x.clone()
    return answer


def whole(function):
    """A peer of a function that takes several dims."""
    return lambda a, x: function(x, a.dims, bool(a.keep)) if a.dims else x.clone()


def bounded(function):
    """Of nothing, the identity: torch refuses to say so."""
    def answer(a, x):
        if x.numel() == 0:
            kept = [1 if a.keep and d in a.dims else s for d, s in enumerate(x.shape) if a.keep or d not in a.dims]
            return torch.full(kept, float("-inf") if function is torch.amax else float("inf"), dtype=x.dtype)
        return whole(function)(a, x)
    return answer


peer("reduce_sum", lambda a, x: x.sum(a.dims, bool(a.keep), dtype=x.dtype) if a.dims else x.clone())
peer("reduce_mean", lambda a, x: x.sum(a.dims, bool(a.keep)) / (a.count or torch.tensor(x.shape)[a.dims].prod()))
peer("reduce_max", bounded(torch.amax))
peer("reduce_min", bounded(torch.amin))
peer("reduce_prod", along(lambda x, d, keep: torch.prod(x, d, keep, dtype=x.dtype)))
peer("reduce_any", along(torch.any))
peer("reduce_all", along(torch.all))
peer("argmax", lambda a, x: torch.argmax(x.int() if x.dtype == torch.bool else x, a.axis, bool(a.keep)))
peer("argmin", lambda a, x: torch.argmin(x.int() if x.dtype == torch.bool else x, a.axis, bool(a.keep)))
peer("variance", lambda a, x: torch.var(x, a.dims, correction=a.correction, keepdim=bool(a.keep)))
peer("norm", lambda a, x: torch.linalg.vector_norm(x, a.p, a.dims, bool(a.keep)))
peer("sum_squares", lambda a, x: (x * x).sum())
peer("cumprod", lambda a, x: torch.cumprod(x, a.axis, dtype=x.dtype))


@peer("cumsum")
def cumsum_peer(a, x):
    turned = x.flip(a.axis) if a.reverse else x
    total = torch.cumsum(turned, a.axis, dtype=x.dtype)
    total = total - turned if a.exclusive else total
    return total.flip(a.axis) if a.reverse else total


# ---- torch's functions ----------------------------------------------------------------------------------


def dims_of(t, x, dim):
    rank = len(t.shape(x))
    dims = range(rank) if dim is None or dim == () or dim == [] else [dim] if isinstance(dim, int) else dim
    return sorted({d % max(rank, 1) for d in dims}) if rank else []


def reduction(name, **more):
    def adapter(t, x, dim=None, keepdim=False, dtype=None, **other):
        need(not other, f"options {', '.join(other)}")
        need(dtype is None, "a result of another type: a cast")
        if name in ("reduce_any", "reduce_all") and x.dtype != torch.bool:
            x = t("not_equal", x, t.full(x, 0))
        return t(name, x, dims=dims_of(t, x, dim), keep=keepdim, **more)
    return adapter


opinfo("sum")(reduction("reduce_sum"))
opinfo("mean")(reduction("reduce_mean"))
opinfo("prod")(reduction("reduce_prod"))
opinfo("any")(reduction("reduce_any"))
opinfo("all")(reduction("reduce_all"))


@opinfo("amax", "max.reduction_no_dim")
def amax(t, x, dim=None, keepdim=False):
    return t("reduce_max", x, dims=dims_of(t, x, dim), keep=keepdim)


@opinfo("amin", "min.reduction_no_dim")
def amin(t, x, dim=None, keepdim=False):
    return t("reduce_min", x, dims=dims_of(t, x, dim), keep=keepdim)


def extreme(most, which):
    def adapter(t, x, dim=None, keepdim=False):
        shape = t.shape(x)
        if not shape:
            x, shape, keepdim, dim = t("reshape", x, shape=[1]), [1], False, 0
        if dim is None:
            need(not keepdim, "argmax over all dims that keeps them")
            x, dim = t("reshape", x, shape=[-1]), 0
        index = t(which, x, axis=dim, keep=keepdim)
        return index if most is None else [t(most, x, dims=[dim], keep=keepdim), index]
    return adapter


opinfo("argmax")(extreme(None, "argmax"))
opinfo("argmin")(extreme(None, "argmin"))
opinfo("max.reduction_with_dim")(extreme("reduce_max", "argmax"))
opinfo("min.reduction_with_dim")(extreme("reduce_min", "argmin"))


def spread(root):
    def adapter(t, x, dim=None, unbiased=None, keepdim=False, correction=None):
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        free = correction if correction is not None else 1 if unbiased in (None, True) else 0
        found = t("variance", x, dims=dims_of(t, x, dim), keep=keepdim, correction=free)
        return t("sqrt", found) if root else found
    return adapter


opinfo("var", "var.unbiased")(spread(False))
opinfo("std", "std.unbiased")(spread(True))


@opinfo("linalg.vector_norm")
def vector_norm(t, x, ord=2, dim=None, keepdim=False, dtype=None):
    need(dtype is None, "a result of another type: a cast")
    return t("norm", x, dims=dims_of(t, x, dim), keep=keepdim, p=ord)


def scan(name):
    def adapter(t, x, dim, dtype=None):
        need(dtype is None, "a result of another type: a cast")
        if not t.shape(x):
            raise Skip("a scan of a number")
        return t(name, x, axis=dim)
    return adapter


opinfo("cumsum")(scan("cumsum"))
opinfo("cumprod")(scan("cumprod"))
