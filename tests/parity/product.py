"""Products."""
import torch

from parity.frame import need, opinfo, peer


@peer("matmul")
def matmul_peer(a, x, y):
    return (x.mT if a.transpose_a else x) @ (y.mT if a.transpose_b else y)


peer("einsum", lambda a, x, y: torch.einsum(a.equation, x, y))


def ordered(a, inputs, _):
    """Ends of groups in order; rows behind the last are of none."""
    return inputs[:2] + [inputs[2].sort().values]


def groups_of(x, ends):
    start = 0
    for e in ends.tolist():
        yield slice(start, max(start, e))
        start = max(start, e)


@peer("grouped_matmul", draw=ordered)
def grouped(a, x, w, ends):
    w = w.mT if a.transpose_w else w
    parts = [x[rows] @ w[e] for e, rows in enumerate(groups_of(x, ends))]
    behind = x.shape[0] - sum(p.shape[0] for p in parts)
    return torch.cat([*parts, torch.zeros([behind, w.shape[-1]], dtype=x.dtype)])


@peer("grouped_matmul_grad_w", draw=ordered)
def grouped_grad(a, x, dy, ends):
    return torch.stack([x[rows].T @ dy[rows] for rows in groups_of(x, ends)])


# ---- torch's functions ----------------------------------------------------------------------------------


@opinfo("matmul", "mm", "bmm", "mv", "dot")
def matmul(t, a, b):
    """Of vectors: matrices of one row or column."""
    left, right = len(t.shape(a)) == 1, len(t.shape(b)) == 1
    a = t("reshape", a, shape=[1, -1] if t.shape(a)[0] else [1, 0]) if left else a
    b = t("reshape", b, shape=[-1, 1] if t.shape(b)[0] else [0, 1]) if right else b
    out = t("matmul", a, b)
    shape = t.shape(out)
    if left:
        shape.pop(-2)
    if right:
        shape.pop()
    return t("reshape", out, shape=shape) if left or right else out


@opinfo("addmm", "baddbmm")
def addmm(t, x, a, b, beta=1, alpha=1):
    product = t("affine", t("matmul", a, b), scale=alpha, shift=0)
    return t("add", product, t("affine", x, scale=beta, shift=0)) if beta else product


@opinfo("nn.functional.linear")
def linear(t, x, weight, bias=None):
    if len(t.shape(x)) == 1:
        out = matmul(t, x, t("transpose", weight, perm=[1, 0]) if len(t.shape(weight)) == 2 else weight)
    else:
        need(len(t.shape(weight)) == 2, "a weight that is a vector")
        out = t("matmul", x, weight, transpose_b=1)
    return out if bias is None else t("add", out, bias)


@opinfo("einsum")
def einsum(t, operands, equation):
    need(len(operands) == 2, "einsum of one or three operands: shoal_nn_einsum")
    need("..." not in equation, "an ellipsis")
    equation = equation.replace(" ", "")
    terms, _, result = equation.partition("->")
    need(all(len(set(term)) == len(term) for term in terms.split(",")), "a letter twice in a term")
    if "->" not in equation:
        result = "".join(sorted(c for c in set(terms) - {","} if terms.count(c) == 1))
    return t("einsum", *operands, equation=f"{terms}->{result}")
