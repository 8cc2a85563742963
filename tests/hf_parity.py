#!/usr/bin/env python3
# labels: py slow
"""Models of Hugging Face in Shoal: built small by transformers, saved by save_pretrained (whole, in shards, in bf16),
converted and loaded they give the same logits; saved by Shoal and converted back they load in transformers with the
same tensors; greedy generation with a cache gives the same tokens, on one rank and on two; and training gives the same
losses, gradients and parameters. In f64.

Skipped (exit 77) where torch or transformers is not installed: `make venv`.
"""
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
import torch

import shoal_ctypes as shoal
from parity.weights import Answers, convert

transformers.logging.disable_progress_bar()
TOLERANCE, ROWS, VOCABULARY, POSITIONS = 1e-10, 3, 61, 40
SPECIAL = dict(bos_token_id=1, eos_token_id=None, pad_token_id=0)


def gpt2():
    c = transformers.GPT2Config(vocab_size=VOCABULARY, n_positions=POSITIONS, n_embd=24, n_head=4, n_layer=2, **SPECIAL)
    return transformers.GPT2LMHeadModel(c)


DECODERS = {"gpt2": gpt2}


def enlarge(module):
    """Weights as they begin are so small that tokens hardly see each other, and texts repeat one."""
    torch.manual_seed(5)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return module.eval()


def expect_close(label, ours, theirs):
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    assert error < TOLERANCE, f"{label}: logits differ by {error:.2e}"
    return error


def logits_of(module, ids):
    with torch.no_grad():
        return module.double()(input_ids=torch.from_numpy(ids.astype(np.int64))).logits.numpy()


# ---- weights ------------------------------------------------------------------------------------------------


def check_logits(name, module, folder, label, dtype=None):
    """Converted, loaded and run: the logits of the module as it was saved."""
    ours = folder / f"{label}-shoal"
    model, settings = convert(folder / label, ours)
    assert model == name, f"{label} is taken for a {model}"
    ids = np.random.default_rng(7).integers(VOCABULARY, size=(ROWS, POSITIONS), dtype=np.int32)
    with Answers(model, settings, ["eval"], ROWS) as answers:
        report = answers.load(ours, cast=True)
        assert report.missing == report.extra == 0 and report.cast == report.loaded > 0
        logits = answers.run("eval", "logits", (ROWS, POSITIONS, VOCABULARY), ids=ids, labels=ids)
        error = expect_close(label, logits, logits_of(module, ids))
        if dtype:  # back to the type it came in: exact
            answers.save(folder / f"{label}-saved", dtype=dtype.encode(), shard_bytes=30000)
    return model, settings, error


def check_back(name, module, folder, label, dtype):
    """What Shoal saved loads in transformers, with the same tensors and nothing beside them."""
    model, settings = convert(folder / f"{label}-saved", folder / f"{label}-back", model=name,
                              settings=check_back.settings)
    back, said = type(module).from_pretrained(folder / f"{label}-back", output_loading_info=True, dtype=dtype)
    assert not said["missing_keys"] and not said["unexpected_keys"] and not said["mismatched_keys"], said
    mine, theirs = back.state_dict(), module.to(dtype).state_dict()
    assert set(mine) == set(theirs)
    for key, tensor in theirs.items():
        assert torch.equal(mine[key], tensor), f"{label}: {key} came back different"


def check_weights(name, make, folder):
    torch.manual_seed(1)
    module = enlarge(make())
    module.save_pretrained(folder / "whole")
    module.save_pretrained(folder / "shards", max_shard_size="30KB")
    assert len(list((folder / "shards").glob("*.safetensors"))) > 2
    errors = []
    for label in ("whole", "shards"):
        _, check_back.settings, error = check_logits(name, module, folder, label, "f32")
        errors.append(error)
    check_back(name, module, folder, "whole", torch.float32)
    narrow = module.to(torch.bfloat16)
    narrow.save_pretrained(folder / "bf16")
    errors.append(check_logits(name, narrow, folder, "bf16", "bf16")[2])
    check_back(name, narrow.to(torch.bfloat16), folder, "bf16", torch.bfloat16)
    print(f"{name}: whole, shards and bf16 give the same logits ({max(errors):.1e}) and come back", flush=True)


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


def check_generation(name, make, folder):
    torch.manual_seed(2)
    module = enlarge(make())
    module.save_pretrained(folder / "speaks")
    model, settings = convert(folder / "speaks", folder / "speaks-shoal")
    rng = np.random.default_rng(3)
    prompts = [rng.integers(2, VOCABULARY, size=n) for n in (5, 1, 9, 3)]
    most = POSITIONS // 2 + 3
    expected = []
    for prompt in prompts:  # one by one: no padding
        with torch.no_grad():
            out = module.double().generate(torch.from_numpy(prompt)[None], max_new_tokens=most, do_sample=False,
                                           use_cache=True, attention_mask=torch.ones(1, len(prompt), dtype=torch.int64))
        expected.append(out[0, len(prompt):].tolist())
    assert len({tuple(e) for e in expected}) == len(prompts) and max(len(set(e)) for e in expected) > 3
    for ranks, strategy, rows in ((1, "single", 4), (1, "single", 3), (2, "data", 4), (2, "tensor", 2)):
        texts = generate_on(ranks, strategy, model, settings, folder / "speaks-shoal", prompts, rows, most=most)
        assert texts == expected, f"{name} on {ranks} {strategy}: {texts} instead of {expected}"
    print(f"{name}: {most} greedy tokens behind {len(prompts)} prompts, on 1 and 2 ranks, as transformers", flush=True)


def main():
    for name, make in DECODERS.items():
        with tempfile.TemporaryDirectory() as folder:
            check_weights(name, make, Path(folder))
            check_generation(name, make, Path(folder))


if __name__ == "__main__":
    main()
