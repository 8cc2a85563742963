"""Windows: convolution, pooling, resizing."""
import torch.nn.functional as F

from parity.frame import need, opinfo, peer

CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
CONV_TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}
MAX_POOL = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
AVG_POOL = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}
ADAPTIVE = {1: F.adaptive_avg_pool1d, 2: F.adaptive_avg_pool2d, 3: F.adaptive_avg_pool3d}


@peer("conv")
def conv_peer(a, x, w):
    return CONV[x.dim() - 2](x, w, None, a.stride, a.padding, a.dilation or 1, a.groups or x.shape[1] // w.shape[1])


@peer("conv_transpose")
def conv_transpose_peer(a, x, w):
    function = CONV_TRANSPOSE[x.dim() - 2]
    return function(x, w, None, a.stride, a.padding, a.output_padding or 0, a.groups or 1, a.dilation or 1)


peer("max_pool", lambda a, x: MAX_POOL[x.dim() - 2](x, a.kernel, a.stride, a.padding, a.dilation or 1, bool(a.ceil)))
peer("adaptive_avg_pool", lambda a, x: ADAPTIVE[x.dim() - 2](x, a.shape[2:]))


@peer("avg_pool")
def avg_pool_peer(a, x):
    if x.numel() == 0:
        return x.new_zeros([0, x.shape[1], (x.shape[2] - a.kernel[0]) // a.stride[0] + 1]) + 0 * x.sum()
    more = {} if x.dim() == 3 else {"divisor_override": a.divisor or None}
    return AVG_POOL[x.dim() - 2](x, a.kernel, a.stride, a.padding, bool(a.ceil), bool(a.count_pad), **more)


@peer("resize")
def resize_peer(a, x):
    mode = {"nearest": "nearest", "nearest_exact": "nearest-exact", "cubic": "bicubic",
            "linear": ("linear", "bilinear", "trilinear")[x.dim() - 3]}[a.mode]
    aligned = None if "nearest" in mode else bool(a.align)
    factors = [a.scale_d, a.scale_h, a.scale_w][5 - x.dim():]
    if not any(factors):
        return F.interpolate(x, a.shape[2:], mode=mode, align_corners=aligned)
    factors = [f or new / old for f, new, old in zip(factors, a.shape[2:], x.shape[2:])]
    return F.interpolate(x, scale_factor=factors, mode=mode, align_corners=aligned, recompute_scale_factor=False)


# ---- torch's functions ----------------------------------------------------------------------------------


def each(number, dims):
    """One number for all dims, or a list of one."""
    found = [number] if isinstance(number, int) else list(number)
    return found * dims if len(found) == 1 else found


def batched(t, x, dims):
    """x with a batch dim in front, and whether it had one."""
    has = len(t.shape(x)) == dims + 2
    return (x if has else t("reshape", x, shape=[1, *t.shape(x)])), has


def unbatched(t, x, has):
    return x if has else t("reshape", x, shape=t.shape(x)[1:])


def biased(t, out, bias):
    return out if bias is None else t("add", out, t("reshape", bias, shape=[-1] + [1] * (len(t.shape(out)) - 2)))


@opinfo("nn.functional.conv1d", "nn.functional.conv2d", "nn.functional.conv3d")
def conv(t, x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    dims = w.dim() - 2
    x, has = batched(t, x, dims)
    dilation = each(dilation, dims)
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
        uneven = [n % 2 for n in total]
        if any(uneven):  # one more element at the end of such dims
            shape = [n + u for n, u in zip(t.shape(x), [0, 0, *uneven])]
            x = t("pad", x, start=[0] * len(shape), shape=shape)
            need(all(n == 0 or u == 0 for n, u in zip([n // 2 for n in total], uneven)), "uneven padding on both sides")
        padding = [n // 2 for n in total]
    padding = each(0 if padding == "valid" else padding, dims)
    out = t("conv", x, w, stride=each(stride, dims), padding=padding, dilation=dilation, groups=groups)
    return unbatched(t, biased(t, out, bias), has)


@opinfo("nn.functional.conv_transpose1d", "nn.functional.conv_transpose2d", "nn.functional.conv_transpose3d")
def conv_transpose(t, x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    dims = w.dim() - 2
    x, has = batched(t, x, dims)
    out = t("conv_transpose", x, w, stride=each(stride, dims), padding=each(padding, dims), groups=groups,
            output_padding=each(output_padding, dims), dilation=each(dilation, dims))
    return unbatched(t, biased(t, out, bias), has)


def max_pool(dims):
    def adapter(t, x, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False, return_indices=False):
        need(not return_indices, "indices of maxima: only gradients use them; compared without")
        x, has = batched(t, x, dims)
        kernel = each(kernel_size, dims)
        out = t("max_pool", x, kernel=kernel, stride=each(stride, dims) if stride else kernel, ceil=ceil_mode,
                padding=each(padding, dims), dilation=each(dilation, dims))
        return unbatched(t, out, has)
    return adapter


def avg_pool(dims):
    def adapter(t, x, kernel_size, stride=None, padding=0, ceil_mode=False, count_include_pad=True,
                divisor_override=None):
        need((divisor_override or 0) >= 0, "a negative divisor")
        x, has = batched(t, x, dims)
        kernel = each(kernel_size, dims)
        out = t("avg_pool", x, kernel=kernel, stride=each(stride, dims) if stride else kernel, ceil=ceil_mode,
                padding=each(padding, dims), count_pad=count_include_pad, divisor=divisor_override or 0)
        return unbatched(t, out, has)
    return adapter


def adaptive(dims):
    def adapter(t, x, output_size):
        x, has = batched(t, x, dims)
        wanted = [None] * dims if output_size is None else each(output_size, dims)
        size = [n if s is None else s for s, n in zip(wanted, t.shape(x)[2:])]
        return unbatched(t, t("adaptive_avg_pool", x, shape=t.shape(x)[:2] + size), has)
    return adapter


for dims in (1, 2, 3):
    opinfo(f"nn.functional.max_pool{dims}d")(max_pool(dims))
    opinfo(f"nn.functional.avg_pool{dims}d")(avg_pool(dims))
    opinfo(f"nn.functional.adaptive_avg_pool{dims}d")(adaptive(dims))


MODES = {"nearest": "nearest", "nearest-exact": "nearest_exact", "linear": "linear", "bilinear": "linear",
         "trilinear": "linear", "bicubic": "cubic"}


@opinfo(*["nn.functional.interpolate." + mode for mode in MODES])
def interpolate(t, x, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None,
                antialias=False):
    need(not antialias, "antialias")
    old, scales = t.shape(x)[2:], {}
    if size is None:
        factors = scale_factor if isinstance(scale_factor, (list, tuple)) else [scale_factor] * len(old)
        size = [int(n * f) for n, f in zip(old, factors)]
        if not (recompute_scale_factor or align_corners):
            scales = dict(zip(["scale_d", "scale_h", "scale_w"][3 - len(old):], map(float, factors)))
    size = each(size, len(old))
    return t("resize", x, shape=t.shape(x)[:2] + size, mode=MODES[mode], align=bool(align_corners), **scales)
