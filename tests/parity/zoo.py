"""Zoo models on one device, driven from Python, and their training compared with PyTorch's: from the same parameters
(through the family's map of names) and batches, every loss, every gradient, parameters and running statistics after
each step, and the logits of evaluation agree. In f64; see compare."""
import collections
import ctypes
from ctypes import byref, c_int64, c_void_p

import numpy as np
import torch

import shoal_ctypes as shoal
from shoal_abi import Recipe, ZooName, ZooOptions, lib

STEPS, TOLERANCE = 10, 1e-8
# Where the gradient of the first step stands, and which share of it.
FIRST_GRADIENT = {"sgd": ("#sgd.momentum", lambda r: 1), "adam": ("#adam.m", lambda r: 1 - (r.beta1 or 0.9)),
                  "adamw": ("#adamw.m", lambda r: 1 - (r.beta1 or 0.9)),
                  "lamb": ("#lamb.m", lambda r: 1 - (r.beta1 or 0.9)),
                  "lion": ("#lion.m", lambda r: 1 - (r.beta2 or 0.99))}

Name = collections.namedtuple("Name", "ours theirs transposed dropped axis start size tied")


class Zoo:
    """A model by name with its session (strategy `single`) and its map of names; use it as a context."""

    def __init__(self, name, settings="", recipe=None, seed=9):
        self.handle, self.model, self.recipe = c_void_p(), shoal.Model(seed=seed), recipe or Recipe()
        options = ZooOptions(settings=f"dtype=f64 {settings}".encode(), recipe=ctypes.pointer(self.recipe))
        shoal.check(lib.zoo_create(name.encode(), byref(options), byref(self.handle)))
        lib.zoo_add(self.handle, self.model.handle)
        shoal.check(lib.model_status(self.model.handle))
        with shoal.Arena() as arena:
            count, names = c_int64(), ctypes.POINTER(ZooName)()
            shoal.check(lib.zoo_names(self.handle, arena, byref(count), byref(names)))
            self.names = [Name(n.ours.decode(), n.theirs.decode(), n.transposed, n.dropped, n.axis, getattr(n, "from"),
                               n.size, n.tied) for n in names[:count.value]]
        self.session = shoal.Session(self.model, strategy="single")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.session.__exit__()
        lib.zoo_free(self.handle)

    def shape(self, ours, tensors):
        """The shape of a state of ours, from the tensors of theirs that it is made of."""
        parts = [n for n in self.names if n.ours == ours and not n.tied]
        shape = list(oriented(tensors[parts[0].theirs].numpy(), parts[0]).shape)
        if parts[0].size:
            shape[parts[0].axis] = max(n.start + n.size for n in parts)
        return shape

    def read(self, tensors, suffix=""):
        """States, or what an optimizer keeps beside them, under the names of theirs: those in `tensors`, as arrays."""
        found = {}
        for n in self.names:
            if n.theirs not in tensors:
                continue
            array = self.session.get(n.ours + suffix, np.float64, self.shape(n.ours, tensors))
            if n.size:
                array = array.take(range(n.start, n.start + n.size), n.axis)
            array = array.swapaxes(-1, -2) if n.transposed else array
            found[n.theirs] = array.reshape(tensors[n.theirs].shape)
        return found

    def run(self, graph, feeds, outputs):
        """Runs a graph; outputs: names and shapes of what it gives, all f64 but "rate", which is f32."""
        for name, array in feeds.items():
            self.session.feed(name, array)
        self.session.run(graph)
        return [self.session.fetch(name, np.float32 if name == "rate" else np.float64, shape)
                for name, shape in outputs.items()]


def oriented(array, name):
    """A tensor of theirs as (a part of) the state of ours: the other way round of what Zoo.read does."""
    array = array.swapaxes(-1, -2) if name.transposed else array
    return np.expand_dims(array, name.axis) if name.dropped else array


class Lion(torch.optim.Optimizer):
    """Chen et al. 2023; torch has none."""

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w))
                w.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * m.lerp(w.grad, 0.1).sign())
                m.lerp_(w.grad, 0.01)


class Lamb(torch.optim.Optimizer):
    """You et al. 2019; torch has none."""

    def __init__(self, params, lr, eps, weight_decay):
        super().__init__(params, dict(lr=lr, eps=eps, weight_decay=weight_decay))
        self.count = 0

    @torch.no_grad()
    def step(self):
        self.count += 1
        for group in self.param_groups:
            for w in group["params"]:
                m, v = (self.state[w].setdefault(name, torch.zeros_like(w)) for name in "mv")
                m.lerp_(w.grad, 0.1), v.lerp_(w.grad ** 2, 0.001)
                r = m / (1 - 0.9 ** self.count) / ((v / (1 - 0.999 ** self.count)).sqrt() + group["eps"])
                r = r + group["weight_decay"] * w
                w.sub_(group["lr"] * (w.norm() / r.norm() if w.norm() > 0 and r.norm() > 0 else 1) * r)


class Muon(torch.optim.Optimizer):
    """torch.optim.Muon in the parameter's own type, where torch rounds to bf16."""

    def __init__(self, params, lr, weight_decay):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for w in group["params"]:
                m = self.state[w].setdefault("m", torch.zeros_like(w)).lerp_(w.grad, 0.05)
                x = w.grad.lerp(m, 0.95)
                tall = x.shape[0] > x.shape[1]
                x = (x.T if tall else x) / x.norm().clamp(min=1e-7)
                for _ in range(5):
                    gram = x @ x.T
                    x = 3.4445 * x + (-4.775 * gram + 2.0315 * gram @ gram) @ x
                scale = max(1, w.shape[0] / w.shape[1]) ** 0.5
                w.mul_(1 - group["lr"] * group["weight_decay"]).sub_(group["lr"] * scale * (x.T if tall else x))


def optimizers(recipe, module):
    """PyTorch's for a recipe: a list, each with the rate's state that it follows."""
    r, params = recipe, list(module.parameters())
    name = (r.optimizer or b"adamw").decode()
    adam = dict(lr=r.lr, betas=(r.beta1 or 0.9, r.beta2 or 0.999), eps=r.eps or 1e-8, weight_decay=r.weight_decay)
    if name == "muon":
        matrices = [p for p in params if p.dim() == 2]
        others = [p for p in params if p.dim() != 2]
        adam["lr"] = float(np.float32(1e-3))  # the state adamw.lr
        return [Muon(matrices, r.lr, r.weight_decay), torch.optim.AdamW(others, **adam)]
    return [{"adamw": lambda: torch.optim.AdamW(params, **adam), "adam": lambda: torch.optim.Adam(params, **adam),
             "sgd": lambda: torch.optim.SGD(params, r.lr, r.momentum, weight_decay=r.weight_decay, nesterov=r.nesterov),
             "lion": lambda: Lion(params, r.lr, r.weight_decay),
             "lamb": lambda: Lamb(params, r.lr, r.eps or 1e-6, r.weight_decay),
             "adafactor": lambda: torch.optim.Adafactor(params, r.lr, weight_decay=r.weight_decay)}[name]()]


def difference(a, b):
    return np.abs(a - b).max(initial=0) / max(1e-3, np.abs(b).max(initial=0))


def compare(name, settings, recipe, module, loss_of, make_feeds, schedule=None, seed=9):
    """Trains the zoo's model and `module`, whose state_dict has the names of the family's map, for STEPS steps.
    loss_of(module, feeds as tensors) gives loss and logits; make_feeds(numpy's generator) a batch; schedule(optimizer)
    PyTorch's scheduler of the recipe's rate. Returns the largest relative difference; raises AssertionError."""
    module, rng, worst = module.double(), np.random.default_rng(5), [0.0, ""]

    def agree(what, ours, theirs):
        error = float(difference(np.asarray(ours), np.asarray(theirs)))
        assert error < TOLERANCE, f"{name}: {what} differs by {error:.2e}"
        worst[:] = max(worst, [error, what])

    with Zoo(name, settings, recipe, seed) as zoo:
        tensors = {n: t for n, t in module.state_dict().items() if not n.endswith("num_batches_tracked")}
        mapped = {n.theirs for n in zoo.names}
        assert mapped == set(tensors), f"{name}: the map differs from PyTorch's names: {mapped ^ set(tensors)}"
        for theirs, array in zoo.read(tensors).items():
            tensors[theirs].copy_(torch.from_numpy(array))
        params = {n: tensors[n] for n, _ in module.named_parameters()}
        gradients = dict(module.named_parameters())
        updates = optimizers(recipe, module)
        clock = torch.optim.SGD([torch.zeros(1)], recipe.lr)  # whose rate the schedule changes
        scheduler = schedule(clock) if schedule else None
        for step in range(1, STEPS + 1):
            at = f"step {step}: "
            feeds = make_feeds(rng)
            loss, *rate = zoo.run("train", feeds, {"loss": (), **({"rate": ()} if schedule else {})})
            for o in updates:
                o.zero_grad()
            expected, _ = loss_of(module.train(), as_tensors(feeds))
            expected.backward()
            agree(at + "loss", loss, expected.item())
            norm = torch.nn.utils.clip_grad_norm_(module.parameters(), recipe.training.clip_norm or float("inf"))
            assert step > 1 or not recipe.training.clip_norm or norm > recipe.training.clip_norm, f"{name}: no clipping"
            if step == 1 and recipe.optimizer.decode() in FIRST_GRADIENT:
                suffix, share = FIRST_GRADIENT[recipe.optimizer.decode()]
                decay = recipe.weight_decay if recipe.optimizer in (b"sgd", b"adam") else 0
                for theirs, array in zoo.read(params, suffix).items():
                    expected = gradients[theirs].grad + decay * tensors[theirs]  # coupled decay is in it
                    agree(f"gradient of {theirs}", array / share(recipe), expected.numpy())
            if schedule:  # ours is theirs rounded to f32
                want = clock.param_groups[0]["lr"]
                assert abs(rate[0] - want) <= 1e-7 * recipe.lr, f"{name}: {at}the rate is {rate[0]}, not {want}"
                for o in updates:
                    o.param_groups[0]["lr"] = float(np.float32(o.defaults["lr"] * (want / recipe.lr)))
                clock.step(), scheduler.step()
            for o in updates:
                o.step()
            for theirs, array in zoo.read(tensors).items():
                agree(at + theirs, array, tensors[theirs].numpy())
        feeds = make_feeds(rng)
        with torch.no_grad():
            expected, logits = loss_of(module.eval(), as_tensors(feeds))
        ours = zoo.run("eval", feeds, {"loss": (), "logits": tuple(logits.shape)})
        agree("loss of evaluation", ours[0], expected.item())
        agree("logits of evaluation", ours[1], logits.numpy())
    print(f"{name}: {len(params)} parameters, {STEPS} steps of {recipe.optimizer.decode()}: largest relative "
          f"difference {worst[0]:.1e}, of {worst[1]}", flush=True)


def as_tensors(feeds):
    return {n: torch.from_numpy(a if a.dtype == np.float64 else a.astype(np.int64)) for n, a in feeds.items()}
