"""Optimizer updates, against torch.optim with the same state; LAMB, Lion and averages, which it lacks, as formulas."""

import torch

from parity.frame import differs, peer

try:
    import torch.optim._muon as torch_muon
except ImportError:  # an older torch: the formula
    torch_muon = None


def step_with(optimizer, w, g, state, **options):
    """The parameter after one step of torch's optimizer from this state, which changes in place."""
    w = torch.nn.Parameter(w.detach().clone())
    w.grad = g.clone()
    stepped = optimizer([w], **options)
    stepped.state[w] = state
    stepped.step()
    return w.detach()


def before(step):
    """torch counts the step that it makes."""
    return torch.tensor(float(step) - 1)


@peer("sgd_update")
def sgd(a, w, g, lr):
    return step_with(torch.optim.SGD, w, g, {}, lr=lr.item(), weight_decay=a.weight_decay)


@peer("sgd_momentum_update")
def momentum(a, w, g, m, lr, step=None):
    state = {"momentum_buffer": m.clone()}
    dampening = a.dampening if step is not None and step > 1 else 0  # torch knows the first by its missing buffer
    w = step_with(torch.optim.SGD, w, g, state, lr=lr.item(), weight_decay=a.weight_decay, momentum=a.momentum,
                  nesterov=bool(a.nesterov), dampening=dampening)
    return w, state["momentum_buffer"]


def adam(optimizer):
    def answer(a, w, g, m, v, lr, step):
        state = {"step": before(step), "exp_avg": m.clone(), "exp_avg_sq": v.clone()}
        w = step_with(optimizer, w, g, state, lr=lr.item(), betas=(a.beta1, a.beta2), eps=a.eps,
                      weight_decay=a.weight_decay)
        return w, state["exp_avg"], state["exp_avg_sq"]
    return answer


peer("adam_update", adam(torch.optim.Adam))
peer("adamw_update", adam(torch.optim.AdamW))


@peer("lion_update")
def lion(a, w, g, m, lr):
    direction = torch.sign(a.beta1 * m + (1 - a.beta1) * g)
    return w - lr * (direction + a.weight_decay * w), a.beta2 * m + (1 - a.beta2) * g


peer("ema_update", lambda a, e, x, decay: decay * e + (1 - decay) * x)


@peer("lamb_direction")
def lamb_direction(a, w, g, m, v, step):
    m, v = a.beta1 * m + (1 - a.beta1) * g, a.beta2 * v + (1 - a.beta2) * g * g
    mean, spread = m / (1 - a.beta1 ** step.item()), v / (1 - a.beta2 ** step.item())
    return mean / (spread.sqrt() + a.eps) + a.weight_decay * w, m, v


@peer("lamb_update")
def lamb(a, w, g, m, v, lr, step):
    r, m, v = lamb_direction(a, w, g, m, v, step)
    ratio = w.norm() / r.norm() if w.norm() > 0 and r.norm() > 0 else 1
    return w - lr * ratio * r, m, v


def adafactor_options(a, lr):
    return dict(lr=lr.item(), beta2_decay=a.beta2_decay, eps=(a.eps1 or None, a.eps2), d=a.clip,
                weight_decay=a.weight_decay)


@peer("adafactor_update")
def adafactor(a, w, g, rows, cols, lr, step):
    state = {"step": before(step), "row_var": rows.clone().unsqueeze(-1), "col_var": cols.clone().unsqueeze(-2),
             "variance": None}
    w = step_with(torch.optim.Adafactor, w, g, state, **adafactor_options(a, lr))
    return w, state["row_var"].squeeze(-1), state["col_var"].squeeze(-2)


@peer("adafactor_vector_update", more=["f64[5], f64[5], f64[5]+, f64[]+, i64[]<9+ ; eps1=0.3, eps2=0.4"])
def adafactor_vector(a, w, g, v, lr, step):
    """torch takes the factors of a matrix: it sees a vector here."""
    state = {"step": before(step), "row_var": None, "col_var": None, "variance": v.flatten().clone()}
    flat = step_with(torch.optim.Adafactor, w.flatten(), g.flatten(), state, **adafactor_options(a, lr))
    return flat.reshape(w.shape), state["variance"].reshape(w.shape)


def newton_schulz(grad, coefficients, steps, eps):
    """As torch's, which rounds to bf16, in the matrix's own type."""
    a, b, c = coefficients
    x = grad.T if grad.shape[0] > grad.shape[1] else grad
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if grad.shape[0] > grad.shape[1] else x


differs("muon_update", "the direction is made in the parameter's own type; torch rounds it to bf16 (replaced here)")
differs("loss_scale_update", "it grows after `interval` good steps or more; torch's after just so many")


@peer("muon_update", more=["f64[3,4], f64[3,4], f64[3,4], f64[]+ ; momentum=0.8, eps=2, a=2, b=-1.5, c=0.5"])
def muon(a, w, g, m, lr):
    """Matrix by matrix: torch takes no batches. Where the fan-in comes first, of the transposed matrix."""
    if w.numel() == 0:
        return w.clone(), m.clone()
    turn = (lambda x: x.mT) if a.transposed else (lambda x: x)
    options = dict(lr=lr.item(), weight_decay=a.weight_decay, momentum=a.momentum, nesterov=bool(a.nesterov),
                   ns_steps=a.steps, ns_coefficients=(a.a, a.b, a.c), eps=a.eps)
    new_w, new_m = [], []
    for w1, g1, m1 in zip(*[turn(x).reshape(-1, *turn(x).shape[-2:]) for x in (w, g, m)]):
        state = {"momentum_buffer": m1.clone()}
        stepped = torch_stepped if torch_muon else written_out
        new_w.append(turn(stepped(a.adjust, w1, g1, state, **options)))
        new_m.append(turn(state["momentum_buffer"]))
    return torch.stack(new_w).reshape(w.shape), torch.stack(new_m).reshape(w.shape)


def torch_stepped(adjust, w, g, state, **options):
    """torch's step, but for the type of Newton and Schulz's; it has no word for a scale of 1."""
    keep = torch_muon._zeropower_via_newtonschulz, torch_muon._adjust_lr
    torch_muon._zeropower_via_newtonschulz = newton_schulz
    if adjust == "none":
        adjust, torch_muon._adjust_lr = None, lambda lr, how, shape: lr
    try:
        return step_with(torch.optim.Muon, w, g, state, adjust_lr_fn=adjust, **options)
    finally:
        torch_muon._zeropower_via_newtonschulz, torch_muon._adjust_lr = keep


def written_out(adjust, w, g, state, lr, weight_decay, momentum, nesterov, ns_steps, ns_coefficients, eps):
    rows, columns = w.shape
    scale = {"none": 1, "original": max(1, rows / columns) ** 0.5, "match_rms_adamw": 0.2 * max(rows, columns) ** 0.5,
             "spectral_unclamped": (rows / columns) ** 0.5}[adjust]
    m = state["momentum_buffer"].lerp_(g, 1 - momentum)
    direction = newton_schulz(g.lerp(m, momentum) if nesterov else m, ns_coefficients, ns_steps, eps)
    return (1 - lr * weight_decay) * w - lr * scale * direction


@peer("loss_scale_update", rounds=4, more=["f64[]+, i64[]<9, bool[] ; backoff=0.25"],
      draw=lambda a, inputs, _: [inputs[0].float().double(), inputs[1] % a.interval, inputs[2]])
def loss_scale(a, scale, good, finite):
    """torch.amp's rule, which is of float32."""
    count = good.int().reshape(1).clone()
    scale = scale.float().reshape(1).clone()
    torch._amp_update_scale_(scale, count, (~finite).float().reshape(1), a.growth, a.backoff, a.interval)
    return scale.double().reshape(()), count.to(good.dtype).reshape(())


# Gradients that each rank clips by itself. torch's clip_grad_norm_ has no name for the summands: x, and nothing in the others.
peer("summands", lambda a, x: torch.cat([x[None], x.new_zeros((a.parts - 1, *x.shape))]))
peer("row_squares", lambda a, x: x * x if x.dim() == 1 else (x * x).sum(tuple(range(1, x.dim()))))
peer("clip_factor", lambda a, norm: torch.clamp(a.limit / a.parts / (norm + 1e-6), max=1.0))
peer("weighted_sum", lambda a, x, w: torch.tensordot(w, x, 1))
