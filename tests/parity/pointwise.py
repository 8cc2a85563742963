"""Element by element: arithmetic, comparison, logic, functions, activations and losses."""
import torch
import torch.nn.functional as F

from parity import cases
from parity.frame import differs, need, opinfo, peer

UNARY = {  # Shoal's name: torch's function
    "neg": torch.neg, "exp": torch.exp, "log": torch.log, "sqrt": torch.sqrt, "tanh": torch.tanh,
    "square": torch.square,
    "abs": torch.abs, "sign": torch.sign, "reciprocal": torch.reciprocal, "rsqrt": torch.rsqrt, "log1p": torch.log1p,
    "expm1": torch.expm1, "exp2": torch.exp2, "log2": torch.log2, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan,
    "asin": torch.asin, "acos": torch.acos, "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh,
    "erf": torch.erf,
    "floor": torch.floor, "ceil": torch.ceil, "round": torch.round, "trunc": torch.trunc, "sigmoid": torch.sigmoid,
    "is_nan": torch.isnan, "is_inf": torch.isinf, "is_finite": torch.isfinite, "logical_not": torch.logical_not,
    "bitwise_not": torch.bitwise_not, "relu": F.relu, "silu": F.silu, "selu": F.selu, "log_sigmoid": F.logsigmoid,
    "mish": F.mish, "hard_sigmoid": F.hardsigmoid, "hard_swish": F.hardswish, "softsign": F.softsign,
}
OPINFO = {"is_nan": "isnan", "is_inf": "isinf", "is_finite": "isfinite", "log_sigmoid": "nn.functional.logsigmoid",
          "hard_sigmoid": "nn.functional.hardsigmoid", "hard_swish": "nn.functional.hardswish"}
SINGLE = {  # op: why 1e-9 is not reached
    "hard_sigmoid": "torch multiplies with 1/6 as a float32", "celu": "torch divides by alpha as a float32"}


def unary(name):
    def adapter(t, x):
        return t(name, t("cast", x, dtype="bool") if name == "logical_not" and x.dtype != torch.bool else x)
    return adapter


for name, function in UNARY.items():
    peer(name, lambda a, x, function=function: function(x), special=name not in ("logical_not", "bitwise_not"),
         loose=SINGLE.get(name))
    in_functional = name in ("relu", "silu", "selu", "mish", "softsign")
    opinfo(OPINFO.get(name, "nn.functional." + name if in_functional else name), loose=SINGLE.get(name))(unary(name))

BINARY = {  # Shoal's name: torch's function
    "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "maximum": torch.maximum,
    "minimum": torch.minimum, "greater_equal": torch.ge, "equal": torch.eq, "less": torch.lt, "less_equal": torch.le,
    "greater": torch.gt, "not_equal": torch.ne, "logical_and": torch.logical_and, "logical_or": torch.logical_or,
    "logical_xor": torch.logical_xor, "bitwise_and": torch.bitwise_and, "bitwise_or": torch.bitwise_or,
    "bitwise_xor": torch.bitwise_xor, "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
    "floor_div": lambda x, y: torch.div(x, y, rounding_mode="floor"), "remainder": torch.remainder,
    "pow": torch.pow, "atan2": torch.atan2, "logaddexp": torch.logaddexp,
}
SHORT = {"greater_equal": "ge", "equal": "eq", "less": "lt", "less_equal": "le", "greater": "gt", "not_equal": "ne",
         "shift_left": "bitwise_left_shift", "shift_right": "bitwise_right_shift", "floor_div": "floor_divide"}


def operand(t, other, like):
    """A number as a constant of the type of `like`; mixed types are casts, which an importer puts in."""
    if not isinstance(other, torch.Tensor) and not hasattr(other, "graph"):
        need(not isinstance(other, complex), "complex numbers")
        return t.full(like, float(other))
    return other


def same_type(t, a, b):
    """Both operands in the wider type, as torch promotes them."""
    a, b = operand(t, a, b), operand(t, b, a)
    if t.type(a).dtype != t.type(b).dtype:
        wide = min(t.type(a).dtype, t.type(b).dtype)
        a, b = [x if t.type(x).dtype == wide else t("cast", x, dtype=wide) for x in (a, b)]
    return a, b


def binary(name):
    def adapter(t, a, b, alpha=1):
        if alpha != 1:
            b = t("mul", operand(t, b, a), t.full(a, alpha))
        a, b = same_type(t, a, b)
        if name in ("logical_and", "logical_or", "logical_xor"):
            a, b = [x if t.type(x).dtype == 7 else t("cast", x, dtype="bool") for x in (a, b)]
        return t(name, a, b)
    return adapter


for name, function in BINARY.items():
    peer(name, lambda a, x, y, function=function: function(x, y),
         special=not name.startswith(("logical", "bitwise", "shift")))
    if name != "div":
        opinfo(SHORT.get(name, name))(binary(name))


@opinfo("div.no_rounding_mode", "div.floor_rounding", "div.trunc_rounding")
def divide(t, a, b, rounding_mode=None):
    a, b = same_type(t, a, b)
    if rounding_mode == "floor":
        return t("floor_div", a, b)
    return t("trunc", t("div", a, b)) if rounding_mode else t("div", a, b)


opinfo("rsub")(lambda t, a, b, alpha=1: binary("sub")(t, operand(t, b, a), a, alpha))

# ---- other arithmetic -----------------------------------------------------------------------------------

peer("affine", lambda a, x: a.scale * x + a.shift, special=True)
peer("power", lambda a, x: torch.pow(x, a.exponent), special=True)
peer("lerp", lambda a, x, y, t: torch.lerp(x.expand(torch.broadcast_shapes(x.shape, y.shape, t.shape)), y, t))
peer("where", lambda a, c, x, y: torch.where(c, x, y))
peer("cast", lambda a, x: cast(x if a.scale == 1 else a.scale * x, cases.TORCH[a.dtype]), keep_types=True)
differs("cast", "8-bit floats are for storage: no gradient flows through a cast to one; torch rounds it to 8 bits. "
        "What lies beyond f8_e4m3's 448 is NaN, torch saturates (tests/torch_f8.py)")


peer("clamp", lambda a, x: torch.clamp(x, *[None if abs(b) == float("inf") else b if x.is_floating_point() else int(b)
                                            for b in (a.min, a.max)]), special=True)


def cast(x, dtype):
    return x.detach().to(dtype) if dtype.is_floating_point and dtype.itemsize == 1 else x.to(dtype)


@opinfo("to")
def to(t, x, *args, **kwargs):
    wanted = x.to(*args, **kwargs).dtype
    need(wanted in cases.SHOAL, "complex numbers")
    return t("cast", x, dtype=wanted)


TYPES = dict(double="f64", float="f32", half="f16", bfloat16="bf16", long="i64", int="i32", byte="u8", bool="bool",
             char="i8")
for name, kind in TYPES.items():
    opinfo(name)(lambda t, x, memory_format=None, kind=kind: t("cast", x, dtype=kind))


@opinfo("lerp")
def lerp(t, a, b, weight):
    return t("lerp", a, b, operand(t, weight, a))


@opinfo("where")
def where(t, a, condition, b):
    a, b = same_type(t, a, b)
    return t("where", condition, a, b)


@opinfo("masked_fill")
def masked_fill(t, x, mask, value):
    return t("where", mask, operand(t, value, x), x)


@opinfo("clamp")
def clamp(t, x, min=None, max=None):
    if isinstance(min, torch.Tensor) or isinstance(max, torch.Tensor):
        x = x if min is None else t("maximum", *same_type(t, x, min))
        return x if max is None else t("minimum", *same_type(t, x, max))
    return t("clamp", x, **({} if min is None else {"min": min}), **({} if max is None else {"max": max}))


@opinfo("nn.functional.relu6")
def relu6(t, x):
    return t("clamp", x, min=0, max=6)


@opinfo("nn.functional.hardtanh")
def hardtanh(t, x, min_val=-1.0, max_val=1.0):
    need(x.is_floating_point() or min_val == int(min_val), "bounds of integers that are none")
    return t("clamp", x, min=min_val, max=max_val)


@opinfo("nan_to_num")
def nan_to_num(t, x, nan=None, posinf=None, neginf=None):
    """Not an op: where."""
    limit = torch.finfo(torch.float64).max
    numbers = [(nan, "is_nan", 0.0), (posinf, "greater", limit), (neginf, "less", -limit)]
    for number, test, fallback in numbers:
        wrong = t(test, x) if test == "is_nan" else t(test, x, t.full(x, fallback))
        x = t("where", wrong, t.full(x, fallback if number is None else number), x)
    return x


# ---- activations ----------------------------------------------------------------------------------------

peer("gelu", lambda a, x: F.gelu(x, approximate="tanh"), special=True)
peer("gelu_erf", lambda a, x: F.gelu(x), special=True)
peer("elu", lambda a, x: F.elu(x, a.alpha), special=True)
peer("celu", lambda a, x: F.celu(x, a.alpha), special=True, loose=SINGLE["celu"])
peer("leaky_relu", lambda a, x: F.leaky_relu(x, a.slope), special=True)
peer("softplus", lambda a, x: F.softplus(x, a.beta, a.threshold), special=True)
opinfo("nn.functional.gelu")(lambda t, x, approximate="none": t("gelu_erf" if approximate == "none" else "gelu", x))
opinfo("nn.functional.elu")(lambda t, x, alpha=1.0: t("elu", x, alpha=alpha))
opinfo("nn.functional.celu", loose=SINGLE["celu"])(lambda t, x, alpha=1.0: t("celu", x, alpha=alpha))
opinfo("nn.functional.leaky_relu")(lambda t, x, negative_slope=0.01: t("leaky_relu", x, slope=negative_slope))
opinfo("nn.functional.softplus")(lambda t, x, beta=1, threshold=20: t("softplus", x, beta=beta, threshold=threshold))


@opinfo("nn.functional.prelu")
def prelu(t, x, weight):
    """Not an op: where and mul."""
    rank = len(t.shape(x))
    if t.shape(weight) not in ([], [1]):
        weight = t("reshape", weight, shape=[-1] + [1] * max(rank - 2, 0))
    return t("where", t("greater", x, t.full(x, 0)), x, t("reshape", t("mul", x, weight), shape=t.shape(x)))


# ---- losses ---------------------------------------------------------------------------------------------

peer("mse", lambda a, x, y: F.mse_loss(x, y, reduction="none"), special=True)
peer("l1", lambda a, x, y: F.l1_loss(x, y, reduction="none"), special=True)
peer("huber", lambda a, x, y: F.huber_loss(x, y, reduction="none", delta=a.delta), special=True)
peer("smooth_l1", lambda a, x, y: F.smooth_l1_loss(x, y, reduction="none", beta=a.beta), special=True)
peer("bce", lambda a, x, y: F.binary_cross_entropy(x, y, reduction="none"), draw=lambda a, inputs, _: [
    inputs[0].clamp(0.01, 0.99), inputs[1].abs()])  # torch refuses targets outside [0, 1]
peer("bce_with_logits", lambda a, x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"))
peer("kl_div", lambda a, x, y: F.kl_div(x, y, reduction="none", log_target=bool(a.log_target)), special=True,
     edges=False)
peer("poisson_nll", lambda a, x, y: F.poisson_nll_loss(x, y, bool(a.log_input), bool(a.full), eps=a.eps,
                                                       reduction="none"), edges=False)
differs("kl_div", "its gradient by a target of 0 is the limit, -inf or inf; torch's is NaN")
differs("poisson_nll", "with full, torch has NaN as the gradient by a target of 0, from a logarithm that is not used")


def reduced(t, loss, reduction, rows=None):
    """The loss as torch joins it: none, mean, sum, batchmean."""
    if reduction == "none":
        return loss
    dims = list(range(len(t.shape(loss))))
    if reduction == "mean":
        return t("reduce_mean", loss, dims=dims)
    total = t("reduce_sum", loss, dims=dims)
    return t("affine", total, scale=1 / rows, shift=0) if reduction == "batchmean" else total


def distance(name, **names):
    """A loss of two tensors; names: those of its options here."""
    def adapter(t, x, y, weight=None, reduction="mean", pos_weight=None, size_average=None, reduce=None, **options):
        need(size_average is None and reduce is None, "old spelling of reduction")
        loss = t(name, x, y, **{names[k]: v for k, v in options.items()})
        if pos_weight is not None:  # more of what the targets cost: - y log sigmoid(x)
            more = t("mul", t("sub", pos_weight, t.full(x, 1)), y)
            loss = t("sub", loss, t("mul", more, t("log_sigmoid", x)))
        loss = loss if weight is None else t("mul", loss, weight)
        return reduced(t, loss, reduction, t.shape(x)[0] if t.shape(x) else 1)
    return adapter


opinfo("nn.functional.mse_loss")(distance("mse"))
opinfo("nn.functional.l1_loss")(distance("l1"))
opinfo("nn.functional.huber_loss")(distance("huber", delta="delta"))
opinfo("nn.functional.smooth_l1_loss")(distance("smooth_l1", beta="beta"))
opinfo("nn.functional.binary_cross_entropy")(distance("bce"))
opinfo("nn.functional.binary_cross_entropy_with_logits")(distance("bce_with_logits"))
opinfo("nn.functional.kl_div")(distance("kl_div", log_target="log_target"))
opinfo("nn.functional.poisson_nll_loss")(distance("poisson_nll", log_input="log_input", full="full", eps="eps"))
