#!/usr/bin/env python3
# labels: san
"""Options of `shoal train` and `shoal eval` do what they say: each changes the run, or is refused. Models that became
NaN are neither saved nor measured with success; evaluations count the samples they are asked for, as they are stored."""

import json
import os
import re
import struct
import subprocess
import sys
import tempfile

SHOAL = os.environ["SHOAL_BIN"]
MLP = ["mlp", "--batch", "4", "--in-features", "4", "--hidden", "8", "--classes", "3"]
GPT = ["gpt2", "--batch", "4", "--layers", "1", "--width", "8", "--heads", "2", "--context", "8", "--data", "text"]
failures = 0


def fail(what, result=None):
    global failures
    failures += 1
    print("FAILED", what)
    if result is not None:
        print(result.stdout, result.stderr, sep="\n")


def shoal(*words):
    return subprocess.run([SHOAL, *map(str, words)], capture_output=True, text=True)


def expect(what, result, code, *words):
    text = result.stderr if code else result.stdout + result.stderr
    if result.returncode != code or not all(word in text for word in words):
        fail(f"{what}: exit {result.returncode}, not {code}; {words}", result)
    return result


def measured(what, *words):
    result = expect(what, shoal("eval", *words, "--format", "json"), 0)
    return json.loads(result.stdout) if not result.returncode else {}


def check_nan():
    """The last update makes the weights NaN: no loss of a step tells, the evaluation does."""
    for more in ([], ["--check-nan"], ["-n", "2", "--threads"]):
        result = shoal("train", *MLP, "--steps", 1, "--lr", 1e30, "--held-out", 10, "--save", "nan", *more)
        expect(f"NaN {more}", result, 8, "MISMATCH: the loss of the evaluation is nan at step 1")
        if os.path.exists("nan/step-1") or "-nan" in result.stdout + result.stderr:
            fail(f"NaN {more}: saved, or with a sign", result)


def check_counts():
    expect("a run", shoal("train", *MLP, "--steps", 5, "--lr", 0.1, "--held-out", 10, "--save", "counts"), 0)
    for samples in (1, 7, 8, 10):
        from_file = ["--load", "counts/step-5/model.safetensors"] if samples == 7 else ["--load", "counts"]
        found = measured(f"{samples} samples", *MLP, "--held-out", 10, "--eval-samples", samples, *from_file)
        share = found.get("accuracy", 0.5) * samples
        if found.get("samples") != samples or abs(share - round(share)) > 1e-5:
            fail(f"{samples} samples: {found}")


def check_best():
    run = ["train", *MLP, "--lr", 0.1, "--held-out", 10, "--save", "best", "--eval-every", 2]
    expect("best", shoal(*run, "--steps", 4, "--best", "loss"), 0, "saved best/best")
    expect("the same metric", shoal(*run, "--steps", 4, "--resume", "--best", "loss"), 0)
    result = shoal(*run, "--steps", 6, "--resume", "--best", "+accuracy")
    expect("another metric", result, 0, "best +accuracy; the checkpoint's was loss", "saved best/best")


def check_groups():
    for group in ("beta1=0", "momentum=0", "decay=-1", "rate=-1"):
        expect(group, shoal("train", *MLP, "--steps", 1, "--group", "*:" + group), 2, f"--group '*:{group}'")
    expect("decay 0", shoal("train", *MLP, "--steps", 1, "--group", "*/bias:decay=0,rate=0"), 0)


def check_stored():
    """Texts are measured as they are stored, whatever the seed: no window moves, as in training."""
    expect("text", shoal("train", *GPT, "--steps", 2, "--held-out", 4, "--save", "text_run"), 0)
    seeds = [measured(f"seed {seed}", *GPT, "--load", "text_run", "--model-seed", seed) for seed in (1, 2, 3)]
    if len({found.get("loss") for found in seeds}) != 1:
        fail(f"evaluation draws: {seeds}")


def npy(descr, shape, data):
    header = str({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header) + 1) + header + b"\n" + data


def check_order():
    """Two epochs at a rate of nothing: the losses of batches show that they have other samples the second time."""
    with open("x.npy", "wb") as x, open("y.npy", "wb") as y:
        x.write(npy("<f4", (16, 4), struct.pack("<64f", *(i * 37 % 11 / 5 - 1 for i in range(64)))))
        y.write(npy("|u1", (16,), bytes(i % 3 for i in range(16))))
    result = shoal("train", *MLP, "--data", "x.npy,y.npy", "--lr", 1e-30, "--log-every", 1, "--epochs", 2)
    losses = re.findall(r"^step \d+ loss (\S+)", expect("two epochs", result, 0).stdout, re.M)
    if len(losses) != 8 or losses[:4] == losses[4:]:
        fail(f"not shuffled: {losses}")


def check_labels():
    """Rows without a label (-100) count neither as right nor as wrong."""
    with open("all.npy", "wb") as every, open("half.npy", "wb") as half:
        every.write(npy("<i4", (16,), struct.pack("<16i", *[1] * 16)))
        half.write(npy("<i4", (16,), struct.pack("<16i", *[1, -100] * 8)))
    expect("labels", shoal("train", *MLP, "--data", "x.npy,all.npy", "--lr", 0.1, "--steps", 60, "--save", "labels"), 0)
    for ranks in ([], ["-n", 2, "--threads"]):
        found = measured("half of the labels", *MLP, "--load", "labels", "--data", "x.npy,half.npy", *ranks)
        if found.get("accuracy") != 1:
            fail(f"half of the labels: {found}")


def numbers(*words):
    """What a short run prints of each step and at the end, but for its speed."""
    result = expect(" ".join(words), shoal("train", *MLP, "--steps", 6, "--lr", 0.1, "--log-every", 1, "--held-out", 8,
                                           *words), 0)
    lines = [line for line in result.stdout.splitlines() if line.startswith(("step", "eval"))]
    return [re.sub(r"samples/s \S+", "", line) for line in lines]


def check_effects():
    """Each option changes what the run before it in the list printed."""
    for runs in (
        ["", "--beta1 0.5", "--beta2 0.5", "--eps 0.1", "--weight-decay 0.9", "--clip-norm 0.001", "--clip-max 0.001",
         "--average 0.5", "--model-seed 2", "--optimizer lion", "--freeze fc1/*", "--group fc1/*:rate=0.1"],
        ["--sgd", "--sgd --momentum 0.9", "--sgd --momentum 0.9 --nesterov"],
        ["--schedule constant", "--schedule constant --warmup 3"],
        ["--schedule linear", "--schedule linear --last-factor 0.5", "--schedule linear --schedule-steps 9"],
        ["--schedule step --decay-every 2", "--schedule step --decay-every 3", "--schedule step --decay-every 3 --gamma 0.5"],
        ["--schedule wsd", "--schedule wsd --decay-steps 4", "--schedule wsd --decay-steps 4 --curve sqrt"],
        ["--schedule one_cycle", "--schedule one_cycle --curve linear"],
        ["--watch loss_scale --loss-scale 8", "--watch loss_scale --loss-scale 16"],
    ):
        seen = {}
        for words in runs:
            printed = "\n".join(numbers(*words.split()))
            if printed in seen:
                fail(f"'{words}' does what '{seen[printed]}' does")
            seen[printed] = words
    for words in ("--momentum 0.9", "--nesterov", "--beta1 0.5 --sgd", "--gamma 0.5", "--decay-steps 2 --schedule cosine",
                  "--last-factor 0.5", "--save-every 2", "--missing keep", "--eval-every 2", "--best loss --save b"):
        option = words.split()[0]
        expect(words, shoal("train", *MLP, "--steps", 1, *words.split()), 2, f"{option} has no effect")


def check_settings():
    """A checkpoint's settings are the model's; one that would make another model of its weights is refused."""
    run = ["train", *GPT, "--save", "settings"]
    expect("settings", shoal(*run, "--steps", 2, "--held-out", 4), 0)
    small = ["gpt2", "--batch", 4, "--data", "text", "--held-out", 4, "--load", "settings"]
    loss = measured("without settings", *small).get("loss", 0)
    for more in (["--heads", 4], ["--set", "heads=4"]):
        expect("other heads", shoal("eval", *small, *more), 2, "heads is 4, but settings/step-2 was made with 2")
    if abs(measured("in bf16", *small, "--dtype", "bf16").get("loss", 0) - loss) > 0.01:
        fail("in bf16")
    expect("another family", shoal("eval", "llama", *small[1:]), 2, "holds a model 'gpt2', not 'llama'")
    expect("resumed with other heads", shoal(*run, "--steps", 3, "--resume", "--heads", 4), 2, "heads is 4")
    words = ["gpt2", "--batch", 4, "--data", "text", "--save", "settings", "--resume", "--steps", 3, "--dropout", 0.5]
    expect("resumed", shoal("train", *words, "--held-out", 6), 0, "held_out 6; the checkpoint's was 4",
           "dropout 0.5; the checkpoint's was 0")


def check_load():
    """Weights of another run, on two ranks."""
    expect("weights", shoal("train", *MLP, "--steps", 5, "--lr", 0.3, "--save", "weights"), 0)
    begin = ["train", "mlp", "--batch", 4, "--steps", 1, "--load", "weights", "-n", 2, "--threads"]
    result = expect("load", shoal(*begin), 0, "loaded 4 states from weights/step-5")
    first = re.search(r"^step 1 loss (\S+)", result.stdout, re.M)
    fresh = shoal("train", *MLP, "--steps", 1)
    if first and first.group(0) in fresh.stdout:
        fail("weights are not loaded", result)
    small, deep = ["--load", "text_run"], ["--load", "deep", "--layers", 1]
    begin = ["train", "gpt2", "--batch", 4, "--data", "text", "--steps", 1]
    expect("missing", shoal(*begin, *small, "--layers", 2), 2, "is missing", "--missing keep")
    expect("kept", shoal(*begin, *small, "--layers", 2, "--missing", "keep"), 0, "12 states that it lacks begin anew")
    expect("deep", shoal("train", *GPT, "--layers", 2, "--steps", 1, "--save", "deep"), 0)
    expect("extra", shoal(*begin, *deep), 2, "has no state for tensor", "--extra ignore")
    expect("ignored", shoal(*begin, *deep, "--extra", "ignore"), 0, "passed over 12 that the model has no state for")


def check_epochs():
    """A schedule of epochs ends where they do."""
    for more, count in (["--short-last"], 12), (["--drop-last"], 10), ([], 11):
        result = shoal("train", *MLP, "--data", "x.npy,y.npy", "--batch", 3, "--epochs", 2, *more,
                       "--schedule", "linear", "--log-every", 1, "--lr", 1)
        rates = re.findall(r"^step \d+ .* rate (\S+)", expect(f"epochs {more}", result, 0).stdout, re.M)
        expected = [1 - i / len(rates) for i in range(len(rates))]
        if len(rates) != count or any(abs(float(a) - b) > 1e-3 for a, b in zip(rates, expected)):
            fail(f"epochs {more}: {rates}")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("text", "w") as text:
            text.write("".join(chr(97 + i * i % 23) for i in range(200)))
        for check in (check_nan, check_counts, check_best, check_groups, check_stored, check_order, check_labels,
                      check_effects, check_settings, check_load, check_epochs):
            check()
        os.chdir("/")
    print("options: " + (f"{failures} failures" if failures else "all well"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
