#!/usr/bin/env python3
# labels: py slow
"""Models of Hugging Face in Shoal: built small by transformers, saved by save_pretrained (whole, in shards, in bf16),
converted and loaded they give the same logits; saved by Shoal and converted back they load in transformers with the
same tensors; greedy generation with a cache gives the same tokens, on one rank and on two; and training gives the same
losses, gradients and parameters. In f64.

Skipped (exit 77) where torch or transformers is not installed: `make venv`.
"""
import collections
import contextlib
import copy
import ctypes
import math
import os
import sys
import tempfile
import threading
from pathlib import Path

from parity import library  # noqa: F401 (first: it skips, and finds libshoal.so)

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TQDM_DISABLE", "1")
try:
    import transformers
except ImportError:
    print("skipped: transformers is not installed")
    sys.exit(77)
import numpy as np
import safetensors.torch
import torch
import torch.nn.functional as F

import shoal_ctypes as shoal
from parity.weights import Answers, convert, sample
from shoal_abi import LrSchedule, ParameterGroup, Recipe

transformers.logging.disable_progress_bar()
TOLERANCE, ROWS, VOCABULARY, POSITIONS, TARGET, STEPS = 1e-10, 3, 61, 40, 7, 10
SPECIAL = dict(bos_token_id=1, eos_token_id=None, pad_token_id=0)


def gpt2():
    c = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=24, n_head=4, n_layer=2,
                                resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, **SPECIAL)
    return transformers.GPT2LMHeadModel(c)


LLAMA = dict(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=24, num_attention_heads=4,
             num_key_value_heads=2, num_hidden_layers=2, intermediate_size=40, **SPECIAL)


def llama(**rope):
    c = transformers.LlamaConfig(rope_parameters=dict(rope_theta=5000.0, **(rope or dict(rope_type="default"))),
                                 rms_norm_eps=1e-6, **LLAMA)
    return transformers.LlamaForCausalLM(c)


def llama31():
    """Of the three pairs of a head, one turns as ever, one slows down by a part of the factor and one by all of it."""
    return llama(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                 original_max_position_embeddings=200)


def mistral(window=None):
    c = transformers.MistralConfig(sliding_window=window, head_dim=8, **LLAMA)
    return transformers.MistralForCausalLM(c)


def mixtral():
    c = transformers.MixtralConfig(num_local_experts=3, num_experts_per_tok=2, sliding_window=None,
                                   router_aux_loss_coef=0.05, **LLAMA)
    c._experts_implementation = "eager"  # the others have no f64
    return transformers.MixtralForCausalLM(c)


def bert():
    c = transformers.BertConfig(vocab_size=VOCABULARY, max_position_embeddings=POSITIONS, hidden_size=24,
                                num_attention_heads=4, num_hidden_layers=2, intermediate_size=40, hidden_dropout_prob=0,
                                attention_probs_dropout_prob=0, pad_token_id=0)
    return transformers.BertForMaskedLM(c)


def t5(**more):
    c = transformers.T5Config(vocab_size=VOCABULARY, d_model=24, num_heads=4, d_kv=5, num_layers=2,
                              num_decoder_layers=1, d_ff=40, relative_attention_num_buckets=8, relative_attention_max_distance=20,
                              dropout_rate=0, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1, **more)
    return transformers.T5ForConditionalGeneration(c)


# What transformers calls it: how it is built, the zoo's name and what config.json does not say.
Family = collections.namedtuple("Family", "make zoo settings decodes")
FAMILIES = {"gpt2": Family(gpt2, "gpt2", "", True), "llama": Family(llama, "llama", "", True),
            "llama-linear": Family(lambda: llama(rope_type="linear", factor=2.5), "llama", "", False),
            "llama3.1": Family(llama31, "llama", "", True),
            "mistral": Family(mistral, "llama", "", False),
            "mistral-window": Family(lambda: mistral(6), "llama", "", True),  # texts are five times as long
            "mixtral": Family(mixtral, "moe-gpt", "", True), "bert": Family(bert, "bert", "masked=0", False),
            "t5": Family(t5, "t5", f"context={POSITIONS} target={TARGET}", False),  # says one token again and again
            "t5-gated": Family(lambda: t5(feed_forward_proj="gated-gelu"), "t5",
                               f"context={POSITIONS} target={TARGET}", True)}


@contextlib.contextmanager
def doubles():
    """Where transformers says f32 whatever the model is - in norms, rotary positions, routers -, f64."""
    plain = torch.float32, torch.float, torch.Tensor.float
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    try:
        yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = plain


def widened(family, module):
    """The same model in f64, from the beginning."""
    with doubles():
        wide = family.make().double()
    wide.load_state_dict({key: tensor.double() for key, tensor in module.state_dict().items()})
    return wide.eval()


def enlarge(module):
    """Weights as they begin are so small that tokens hardly see each other, and texts repeat one."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


def batch(name, rng):
    """ids and labels, as a family of this name takes them."""
    ids = rng.integers(2, VOCABULARY, size=(ROWS, POSITIONS), dtype=np.int32)
    if name.startswith("t5"):
        return dict(ids=ids, labels=rng.integers(2, VOCABULARY, size=(ROWS, TARGET), dtype=np.int32))
    labels = rng.integers(2, VOCABULARY, size=ids.shape, dtype=np.int32)
    if name == "bert":
        labels[rng.random(labels.shape) < 0.7] = -100
    return dict(ids=ids, labels=labels)


def answer(name, module, feeds):
    """Loss and logits of a module for tensors ids and labels."""
    if name.startswith("t5"):
        out = module(input_ids=feeds["ids"], labels=feeds["labels"])
        return out.loss, out.logits
    more = dict(output_router_logits=True) if name == "mixtral" else {}
    out = module(input_ids=feeds["ids"], **more)
    loss = F.cross_entropy(out.logits.flatten(0, 1), feeds["labels"].flatten())  # labels stand behind the ids
    if name == "mixtral" and module.training:
        loss = loss + module.config.router_aux_loss_coef * out.aux_loss
    return loss, out.logits


def as_tensors(feeds):
    return {key: torch.from_numpy(array.astype(np.int64)) for key, array in feeds.items()}


# ---- weights ------------------------------------------------------------------------------------------------


def check_logits(name, family, module, folder, label, dtype):
    """Converted, loaded and run: the logits of the module as it was saved."""
    ours = folder / f"{label}-shoal"
    model, settings = convert(folder / label, ours)
    assert model == family.zoo, f"{label} is taken for a {model}"
    feeds = batch(name, np.random.default_rng(7))
    with torch.no_grad(), doubles():
        expected = answer(name, widened(family, module), as_tensors(feeds))[1].numpy()
    with Answers(model, f"{settings} {family.settings}", ["eval"], ROWS) as answers:
        report = answers.load(ours, cast=True)
        assert report.missing == report.extra == 0 and report.cast == report.loaded > 0
        logits = answers.run("eval", "logits", expected.shape, **feeds)
        answers.save(folder / f"{label}-saved", dtype=dtype.encode(), shard_bytes=30000)  # the type it came in: exact
    error = np.abs(logits - expected).max() / np.abs(expected).max()
    assert error < TOLERANCE, f"{name} {label}: logits differ by {error:.2e}"
    return settings, error


def check_back(name, family, module, folder, label, settings, dtype):
    """What Shoal saved loads in transformers, with the same tensors and nothing beside them."""
    convert(folder / f"{label}-saved", folder / f"{label}-back", model=family.zoo,
            settings=f"{settings} {family.settings}")
    kind = transformers.LlamaForCausalLM if name == "mistral" else type(module)  # as config.json says
    back, said = kind.from_pretrained(folder / f"{label}-back", output_loading_info=True, dtype=dtype)
    assert not any(said.values()), said
    mine, theirs = back.state_dict(), module.state_dict()
    assert set(mine) == set(theirs)
    for key, tensor in theirs.items():
        assert torch.equal(mine[key], tensor), f"{name} {label}: {key} came back different"
    if dtype is torch.bfloat16:  # a cast module turns by rounded angles, a loaded one does not
        return
    feeds = as_tensors(batch(name, np.random.default_rng(8)))
    with torch.no_grad():  # config.json says the same, too
        assert torch.equal(answer(name, back.eval(), feeds)[1], answer(name, module, feeds)[1]), f"{name} {label}"


def check_weights(name, family, folder):
    """In all forms that files have, but for variants of a family."""
    torch.manual_seed(1)
    module = enlarge(family.make())
    module.save_pretrained(folder / "whole")
    settings, worst = check_logits(name, family, module, folder, "whole", "f32")
    check_back(name, family, module, folder, "whole", settings, torch.float32)
    if name in RECIPES:
        module.save_pretrained(folder / "shards", max_shard_size="15KB")
        assert len(list((folder / "shards").glob("*.safetensors"))) > 2
        _, shards = check_logits(name, family, module, folder, "shards", "f32")
        narrow = copy.deepcopy(module).to(torch.bfloat16)
        narrow.save_pretrained(folder / "bf16")
        _, bf16 = check_logits(name, family, narrow, folder, "bf16", "bf16")
        check_back(name, family, narrow, folder, "bf16", settings, torch.bfloat16)
        worst = max(worst, shards, bf16)
    print(f"{name}: the same logits ({worst:.1e}), there and back", flush=True)


# ---- generation ---------------------------------------------------------------------------------------------


def generate_on(ranks, strategy, model, settings, weights, prompts, rows, **options):
    texts, errors = [None] * ranks, []

    def one(rank, world):
        try:
            with Answers(model, settings, ["prefill", "decode"], rows, world=world, strategy=strategy) as answers:
                answers.load(weights, cast=True)
                texts[rank] = answers.generate(prompts, **options)
        except BaseException as error:  # raised on the main thread
            errors.append(error)

    threads = [threading.Thread(target=one, args=a) for a in enumerate(shoal.threads(ranks))]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]
    assert all(t == texts[0] for t in texts)
    return texts[0]


def check_generation(name, family, folder):
    torch.manual_seed(2)
    module = enlarge(family.make())
    answers = module.config.is_encoder_decoder  # the prompt is no part of the text
    if answers:  # which has embeddings so large that a token says itself again
        module.shared.weight.data.mul_(0.1)
    module.save_pretrained(folder / "speaks")
    model, settings = convert(folder / "speaks", folder / "speaks-shoal")
    most = POSITIONS // 2 + 3
    if answers:
        settings += f" context={POSITIONS} target={most}"
    rng = np.random.default_rng(3)
    prompts = [rng.integers(2, VOCABULARY, size=n) for n in (5, 1, 9, 3)]
    expected = []
    wide = widened(family, module)
    wide.generation_config.eos_token_id = None
    for prompt in prompts:  # one by one: no padding
        with torch.no_grad(), doubles():
            out = wide.generate(torch.from_numpy(prompt)[None], max_new_tokens=most, do_sample=False,
                                           use_cache=True, attention_mask=torch.ones(1, len(prompt), dtype=torch.int64))
        expected.append(out[0, 1 if answers else len(prompt):].tolist())
    assert len({tuple(e) for e in expected}) == len(prompts) and max(len(set(e)) for e in expected) > 3
    for ranks, strategy, rows in ((1, "single", 4), (1, "single", 3), (2, "data", 4), (2, "tensor", 2)):
        texts = generate_on(ranks, strategy, model, settings, folder / "speaks-shoal", prompts, rows, max_tokens=most)
        assert texts == expected, f"{name} on {ranks} {strategy}: {texts} instead of {expected}"
    print(f"{name}: {most} greedy tokens behind {len(prompts)} prompts, on 1 and 2 ranks, as transformers", flush=True)


def check_draws():
    """What is drawn follows the probabilities that transformers' processors leave, in their order."""
    rng, before, draws = np.random.default_rng(12), [3, 5, 5, 8], 3000
    logits = rng.normal(scale=2, size=30)
    logits[7] = logits[11]  # a tie
    cases = [dict(temperature=0.7), dict(temperature=1.3, top_k=6), dict(temperature=1.0, top_p=0.8),
             dict(temperature=0.9, top_k=12, top_p=0.7, repetition=1.4), dict(temperature=2.0, repetition=0.6)]
    kinds = dict(repetition=transformers.RepetitionPenaltyLogitsProcessor, temperature=transformers.TemperatureLogitsWarper,
                 top_k=transformers.TopKLogitsWarper, top_p=transformers.TopPLogitsWarper)
    for case in cases:
        scores = torch.from_numpy(logits)[None]
        for option, kind in kinds.items():
            if option in case:
                scores = kind(case[option])(torch.tensor([before]), scores)
        expected = torch.softmax(scores, -1)[0].numpy() * draws
        drawn = np.bincount([sample(logits, before, i, seed=1, **case) for i in range(draws)], minlength=30)
        assert not drawn[expected == 0].any(), f"{case}: drawn were {drawn}, of {expected}"
        spread = np.abs(drawn - expected) / np.sqrt(expected + 1)
        assert spread.max() < 4.5, f"{case}: drawn were {drawn}, of {expected}"
    print(f"draws: {len(cases)} ways to choose, as the processors of transformers", flush=True)


# ---- training -----------------------------------------------------------------------------------------------


def tensors_of(folder):
    """All tensors of a folder, by the names they have in files."""
    found = {}
    for file in Path(folder).glob("*.safetensors"):
        found.update(safetensors.torch.load_file(file))
    return found


class Pair:
    """A model of transformers in f64 and the same one in Shoal, trained side by side; compared through files."""

    def __init__(self, name, family, folder, recipe):
        torch.manual_seed(4)
        self.name, self.family, self.folder = name, family, folder
        self.module = widened(family, enlarge(family.make())).train()
        self.save("begin")
        self.start = tensors_of(folder / "begin")
        self.zoo, self.settings = convert(folder / "begin", folder / "begin-shoal")
        self.settings = f"{self.settings} {family.settings}"
        self.ours = Answers(self.zoo, self.settings, ["train"], ROWS, recipe=recipe)
        self.ours.load(folder / "begin-shoal")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ours.__exit__()

    def save(self, label):
        self.module.save_pretrained(self.folder / label)

    def backward(self, feeds):
        """One step of ours, and loss and gradients of theirs."""
        ours = float(self.ours.run("train", "loss", (), **feeds))
        self.module.zero_grad()
        with doubles():
            loss = answer(self.name, self.module, as_tensors(feeds))[0]
        loss.backward()
        assert abs(ours - loss.item()) < TOLERANCE * abs(loss.item()), f"{self.name}: the loss is {ours}, not {loss}"
        return ours

    def tensors(self, label):
        """Ours and theirs, as they are now."""
        self.save(label)
        self.ours.save(self.folder / f"{label}-saved")
        convert(self.folder / f"{label}-saved", self.folder / f"{label}-back", model=self.zoo, settings=self.settings)
        ours, theirs = tensors_of(self.folder / f"{label}-back"), tensors_of(self.folder / label)
        assert set(ours) == set(theirs), set(ours) ^ set(theirs)
        return ours, theirs


def check_gradients(name, family, folder):
    """One step down the gradient itself: what each parameter moved by is its gradient."""
    with Pair(name, family, folder, Recipe(optimizer=b"sgd", lr=1)) as pair:
        pair.backward(batch(name, np.random.default_rng(9)))
        with torch.no_grad():
            for parameter in pair.module.parameters():
                parameter -= parameter.grad
        ours, theirs = pair.tensors("moved")
        largest = max(float((theirs[key] - pair.start[key]).abs().max()) for key in theirs)
        for key in theirs:
            gradient = theirs[key] - pair.start[key]
            error = float((ours[key] - theirs[key]).abs().max()) / max(float(gradient.abs().max()), 1e-3 * largest)
            assert error < 1e-9, f"{name}: the gradient of {key} differs by {error:.2e}"
    return len(theirs)


def factor_of(rate, step):
    """Of the rate, in a step counted from 0."""
    if step < rate.warmup:
        return rate.first_factor + (1 - rate.first_factor) * step / rate.warmup
    done = (step - rate.warmup) / (rate.steps - rate.warmup)
    part = (1 + math.cos(math.pi * done)) / 2 if rate.kind == b"cosine" else 1 - done
    return rate.last_factor + (1 - rate.last_factor) * part


def groups_of(module, decay):
    """Matrices decay, vectors do not."""
    return [dict(params=[p for p in module.parameters() if (p.dim() > 1) == wide], weight_decay=decay if wide else 0.0)
            for wide in (True, False)]


COSINE = LrSchedule(kind=b"cosine", warmup=3, first_factor=0.1, steps=STEPS, last_factor=0.2)
LINEAR = LrSchedule(kind=b"linear", warmup=2, steps=STEPS, last_factor=0.1)
BARE = ParameterGroup(max_dims=1, no_decay=True)
# Rows that choose among experts may choose otherwise after a rounding, so all rates are moderate.
RECIPES = {
    "gpt2": (Recipe(optimizer=b"adamw", lr=0.02, eps=1e-3, beta2=0.95, weight_decay=0.1, lr_schedule=COSINE),
             lambda m: torch.optim.AdamW(groups_of(m, 0.1), lr=0.02, betas=(0.9, 0.95), eps=1e-3)),
    "llama": (Recipe(optimizer=b"sgd", lr=0.3, momentum=0.9, nesterov=True, weight_decay=0.01, lr_schedule=LINEAR),
              lambda m: torch.optim.SGD(groups_of(m, 0.01), lr=0.3, momentum=0.9, nesterov=True)),
    "mixtral": (Recipe(optimizer=b"adam", lr=0.01, eps=1e-3, weight_decay=0.02, lr_schedule=COSINE),
                lambda m: torch.optim.Adam(groups_of(m, 0.02), lr=0.01, eps=1e-3)),
    "bert": (Recipe(optimizer=b"adamw", lr=0.01, eps=1e-3, weight_decay=0.05, lr_schedule=LINEAR),
             lambda m: torch.optim.AdamW(groups_of(m, 0.05), lr=0.01, eps=1e-3)),
    "t5": (Recipe(optimizer=b"adafactor", lr=0.05, lr_schedule=COSINE),
           lambda m: torch.optim.Adafactor(m.parameters(), lr=0.05, eps=(None, 1e-3)))}


def check_training(name, family, folder):
    recipe, make_optimizer = RECIPES[name]
    recipe.training.clip_norm = 0.5
    if recipe.optimizer != b"adafactor":
        recipe.groups, recipe.group_count = ctypes.pointer(BARE), 1
    rng, losses = np.random.default_rng(10), []
    with Pair(name, family, folder, recipe) as pair:
        optimizer = make_optimizer(pair.module)
        for step in range(STEPS):
            losses.append(pair.backward(batch(name, rng)))
            norm = torch.nn.utils.clip_grad_norm_(pair.module.parameters(), recipe.training.clip_norm)
            assert step or norm > recipe.training.clip_norm, f"{name}: nothing is clipped"
            rate = float(pair.ours.fetch("rate", dtype=np.float32))
            wanted = recipe.lr * factor_of(recipe.lr_schedule, step)
            assert abs(rate - wanted) < 1e-6 * recipe.lr, f"{name}: the rate of step {step} is {rate}, not {wanted}"
            for group in optimizer.param_groups:
                group["lr"] = rate  # ours is rounded to f32
            optimizer.step()
        ours, theirs = pair.tensors("trained")
        worst = 0
        for key in theirs:
            assert not torch.equal(theirs[key], pair.start[key]), f"{name}: {key} was not trained"
            error = float((ours[key] - theirs[key]).abs().max()) / max(float(theirs[key].abs().max()), 1e-3)
            assert error < 1e-8, f"{name}: after {STEPS} steps {key} differs by {error:.2e}"
            worst = max(worst, error)
    return recipe.optimizer.decode(), worst


def main():
    names = sys.argv[1:] or FAMILIES
    check_draws()
    for name in names:
        family = FAMILIES[name]
        with tempfile.TemporaryDirectory() as folder:
            check_weights(name, family, Path(folder))
            if family.decodes:
                check_generation(name, family, Path(folder))
            if name in RECIPES:
                count = check_gradients(name, family, Path(folder))
                optimizer, worst = check_training(name, family, Path(folder))
                print(f"{name}: {count} gradients, and {STEPS} clipped steps of {optimizer} at a changing rate "
                      f"({worst:.1e}), as transformers and torch", flush=True)


if __name__ == "__main__":
    main()
