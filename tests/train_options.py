#!/usr/bin/env python3
# labels: san
"""Options of `shoal train` and `shoal eval` do what they say: each changes the run, or is refused. Models that became
NaN are neither saved nor measured with success; evaluations count the samples they are asked for, as they are stored."""

import json
import os
import re
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
    """Held-out texts are measured as they are stored, whatever the seed; training moves its windows and shuffles."""
    expect("text", shoal("train", *GPT, "--steps", 2, "--held-out", 4, "--save", "text_run"), 0)
    load = ["--held-out", 4, "--load", "text_run"]
    first, second = (measured(f"seed {seed}", *GPT, *load, "--model-seed", seed) for seed in (1, 2))
    if first.get("loss") != second.get("loss"):
        fail(f"evaluation draws: {first} {second}")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("text", "w") as text:
            text.write("".join(chr(97 + i * i % 23) for i in range(200)))
        for check in (check_nan, check_counts, check_best, check_groups, check_stored):
            check()
        os.chdir("/")
    print("options: " + (f"{failures} failures" if failures else "all well"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
