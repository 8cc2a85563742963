#!/usr/bin/env python3
# labels: san
"""Options of `shoal train` and `shoal eval` do what they say: each changes the run, or is refused. Models that became
NaN are neither saved nor measured with success; evaluations count the samples they are asked for, as they are stored."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import zlib

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
    for group in ("beta1=0", "momentum=0", "weight_decay=-1", "lr_factor=-1"):
        expect(group, shoal("train", *MLP, "--steps", 1, "--group", "*:" + group), 2, f"--group '*:{group}'")
    expect("decay 0", shoal("train", *MLP, "--steps", 1, "--group", "*/bias:weight_decay=0,lr_factor=0"), 0)


def check_stored():
    """Texts are measured as they are stored, whatever the seed: no window moves, as in training."""
    expect("text", shoal("train", *GPT, "--steps", 2, "--held-out", 4, "--save", "text_run"), 0)
    seeds = [measured(f"seed {seed}", *GPT, "--load", "text_run", "--seed", seed) for seed in (1, 2, 3)]
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
    return [re.sub(r"samples/s \S+| GFLOP/s .*", "", line) for line in lines]


def on_terminal(columns, *words):
    """What a run writes to a terminal."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    process = subprocess.Popen([SHOAL, *words], stdout=slave, stderr=subprocess.DEVNULL)
    os.close(slave)
    written = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(master)
    return written.decode(), process.wait()


def check_progress():
    """Lines and metrics say the same: speed, what it costs, its share of a peak that is measured or described."""
    run = ["train", *MLP, "--steps", "4", "--log-every", "2", "--metrics", "m.jsonl"]
    size = json.loads(shoal("models", *MLP, "--format", "json").stdout)
    row = size["forward_flops"] + size["backward_flops"]
    with open("cluster.yml", "w") as file:
        file.write("shoal_cluster: 1\nranks: 1\ndevice: {flops: {f32: 1e15}}\n")
    for more, least, most in ([], 1e6, 1e14), (["--cluster", "cluster.yml"], 0.99e15, 1.01e15):
        text = expect(f"progress {more}", shoal(*run, *more), 0).stdout
        lines = [json.loads(line) for line in open("m.jsonl")]
        os.remove("m.jsonl")
        steps = [line for line in lines if "loss" in line]
        last = steps[-1] if steps else {}
        line = re.search(r"^step 4 loss (\S+) samples/s (\S+) rate (\S+) GFLOP/s (\S+)(?: peak (\S+)%)? memory \S+ \wiB "
                         r"rss \S+ \wiB$", text, re.M)
        if not line:
            fail(f"progress {more}: {text}")
            continue
        if "peak" not in last and more:
            fail(f"progress {more}: no share of the peak")
        last.setdefault("peak", 1e-3)  # a build that is too slow to measure it quickly
        shown = [float(value or 0.1) for value in line.groups()]
        kept = [last.get(name, 0) for name in ("loss", "samples/s", "rate", "flops/s", "peak")]
        if any(abs(a - b * unit) > 0.06 * abs(b * unit) + 0.06 for a, b, unit in zip(shown, kept, (1, 1, 1, 1e-9, 100))):
            fail(f"progress {more}: a line says {shown}, metrics {kept}")
        if not row <= last["flops/s"] / last["samples/s"] < 3 * row or not least < last["flops/s"] / last["peak"] < most:
            fail(f"progress {more}: {last}, a row takes {row}")
        if not 0 < last["memory_touched"] <= last["memory_planned"] < last["memory_resident"] or last["rate"] < 1e-6:
            fail(f"progress {more}: {last}")
    text, code = on_terminal(40, *run)
    parts = re.findall(r"(?:^|\n|\033\[K)(step [^\r\n]*)", text)
    if code or len(parts) != 3 or any(len(part) != 39 for part in parts) or text.count("\r\033[K") != 2:
        fail(f"on a terminal: {text!r}")


def check_effects():
    """Each option changes what the run before it in the list printed."""
    for runs in (
        ["", "--beta1 0.5", "--beta2 0.5", "--eps 0.1", "--weight-decay 0.9", "--clip-norm 0.001", "--clip-max 0.001",
         "--average 0.5", "--seed 2", "--optimizer lion", "--freeze fc1/*", "--group fc1/*:lr_factor=0.1"],
        ["--sgd", "--sgd --momentum 0.9", "--sgd --momentum 0.9 --nesterov on"],
        ["--optimizer muon", "--optimizer muon --nesterov off"],
        ["--lr-schedule constant", "--lr-schedule constant --warmup 3"],
        ["--lr-schedule linear", "--lr-schedule linear --last-factor 0.5", "--lr-schedule linear --lr-schedule-steps 9"],
        ["--lr-schedule step --decay-every 2", "--lr-schedule step --decay-every 3",
         "--lr-schedule step --decay-every 3 --gamma 0.5"],
        ["--lr-schedule wsd", "--lr-schedule wsd --decay-steps 4", "--lr-schedule wsd --decay-steps 4 --curve sqrt"],
        ["--lr-schedule one_cycle", "--lr-schedule one_cycle --curve linear"],
        ["--watch loss_scale --loss-scale 8", "--watch loss_scale --loss-scale 16"],
    ):
        seen = {}
        for words in runs:
            printed = "\n".join(numbers(*words.split()))
            if printed in seen:
                fail(f"'{words}' does what '{seen[printed]}' does")
            seen[printed] = words
    for words in ("--momentum 0.9", "--nesterov on", "--beta1 0.5 --sgd", "--gamma 0.5",
                  "--decay-steps 2 --lr-schedule cosine", "--last-factor 0.5", "--eps 0.1 --sgd", "--eps 0.1 --optimizer lion",
                  "--beta1 0.5 --optimizer adafactor", "--lr-schedule-steps 9", "--lr-schedule-steps 9 --lr-schedule constant",
                  "--keep 2", "--test", "--kind text", "--tokenizer bytes", "--save-every 2", "--missing keep", "--raw", "--eval-every 2",
                  "--best loss --save b"):
        option = words.split()[0]
        expect(words, shoal("train", *MLP, "--steps", 1, *words.split()), 2, f"{option} has no effect")


def check_settings():
    """A checkpoint's settings are the model's; one that would make another model of its weights is refused."""
    run = ["train", *GPT, "--save", "settings"]
    expect("settings", shoal(*run, "--steps", 2, "--held-out", 4), 0)
    small = ["gpt2", "--batch", 4, "--data", "text", "--held-out", 4, "--load", "settings"]
    loss = measured("without settings", *small).get("loss", 0)
    for more in (["--heads", 4], ["--set", "heads=4"]):
        for words in (["eval", *small], ["train", *small, "--steps", 1], ["generate", *small[:3], *small[-2:], "--prompt", "a"]):
            expect(f"other heads: {words[0]}", shoal(*words, *more), 2, "heads is 4, but settings/step-2 was made with 2",
                   "leave it out, or say --set heads=2")
    expect("other heads: convert", shoal("convert", "settings", "converted", "--set", "heads=4"), 2,
           "heads is 4, but settings/step-2 was made with 2")
    expect("convert", shoal("convert", "settings", "converted", "--set", "heads=2", "--set", "dropout=0.5"), 0)
    expect("another family: generate", shoal("generate", "llama", "--load", "settings", "--prompt", "a"), 2,
           "holds a model 'gpt2', not 'llama'")
    expect("begins with dropout", shoal("train", *small, "--steps", 1, "--dropout", 0.5), 0)
    if abs(measured("in bf16", *small, "--dtype", "bf16").get("loss", 0) - loss) > 0.01:
        fail("in bf16")
    expect("another family", shoal("eval", "llama", *small[1:]), 2, "holds a model 'gpt2', not 'llama'")
    expect("resumed with other heads", shoal(*run, "--steps", 3, "--resume", "--heads", 4), 2, "heads is 4")
    words = ["gpt2", "--batch", 4, "--data", "text", "--save", "settings", "--resume", "--steps", 3, "--dropout", 0.5]
    os.makedirs("settings/step-9")  # as a killed run leaves it
    with open("settings/step-9/model.safetensors.tmp", "w") as file:
        file.write("half")
    if abs(measured("beside a half one", *small).get("loss", 0) - loss) > 1e-6:
        fail("a checkpoint that is not complete is read")
    expect("resumed", shoal("train", *words, "--held-out", 6), 0, "resumed from settings/step-2", "held_out 6; the checkpoint's was 4",
           "dropout 0.5; the checkpoint's was 0")


    expect("of a preset", shoal("eval", "gpt2-tiny", *small[1:]), 2, "vocabulary is 11, but", "name the model gpt2, whose",
           "or say --set vocabulary=256")
    bert = ["bert", "--layers", 1, "--width", 8, "--heads", 2, "--context", 8, "--batch", 4, "--data", "text"]
    expect("masked", shoal("train", *bert, "--steps", 1, "--save", "masked"), 0)
    expect("masked 0", shoal("eval", *bert, "--load", "masked", "--masked", 0), 2, "masked is 0, but", "--set masked=0.15")
    llama = ["llama", *bert[1:], "--steps", 1]
    expect("all are seen", shoal("train", *llama, "--save", "seen"), 0)
    for words in (["eval", *llama[:-2], "--load", "seen"], ["train", *llama, "--save", "seen", "--resume"],
                  ["generate", "llama", "--load", "seen", "--prompt", "a"]):
        expect("window", shoal(*words, "--window", 4), 2, "window is 4, but seen/step-1 was made without", "leave it out")
    # Training that begins with weights may be for longer texts: the window and positions may differ, the rest may not.
    longer = ["train", *llama, "--load", "seen"]
    expect("a window to learn with", shoal(*longer, "--window", 4, "--rotary-factor", 2), 0)
    expect("another norm", shoal(*longer, "--norm-eps", 0.5), 2, "norm_eps is 0.5, but seen/step-1 was made with")


def png(width, height, pixels):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[width * y:width * (y + 1)] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 0, 0, 0, 0)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def check_images():
    """Images are measured as they were trained on, where nothing else is said; other data as it is."""
    for i in range(8):
        os.makedirs(f"images/{i % 2}", exist_ok=True)
        with open(f"images/{i % 2}/{i}.png", "wb") as image:
            image.write(png(16, 8, bytes(j * j * (i + 3) % 251 for j in range(128))))
    data = ["--batch", 4, "--data", "images", "--held-out", 4]
    how = [["--mean", "0.4,0.5,0.6"], ["--deviation", 0.25], ["--resize", 10]]
    result = shoal("train", "cnn", "--size", 8, "--classes", 2, *data, *sum(how, []), "--steps", 2, "--save", "seen_images")
    during = re.search(r"^eval step 2 loss (\S+)", expect("images", result, 0).stdout, re.M)
    loss = measured("images", "cnn", *data, "--load", "seen_images").get("loss", 0)
    if not during or abs(float(during.group(1)) - loss) > 1e-4:
        fail(f"images are measured as others: {loss}", result)
    for more in (["--mean", "0.4"], ["--deviation", 0.5], ["--resize", 12]):
        if abs(measured(f"{more}", "cnn", *data, "--load", "seen_images", *more).get("loss", loss) - loss) < 1e-5:
            fail(f"{more} has no effect in eval")
    measured("made up", "cnn", "--batch", 4, "--load", "seen_images", "--eval-samples", 4)


def check_load():
    """Weights of another run, on two ranks."""
    expect("weights", shoal("train", *MLP, "--steps", 5, "--lr", 0.3, "--save", "weights"), 0)
    begin = ["train", "mlp", "--batch", 4, "--steps", 1, "--load", "weights", "-n", 2, "--threads"]
    result = expect("load", shoal(*begin), 0, "loaded 4 states from weights/step-5")
    first = re.search(r"^step 1 loss (\S+)", result.stdout, re.M)
    fresh = shoal("train", *MLP, "--steps", 1)
    if first and first.group(0) in fresh.stdout:
        fail("weights are not loaded", result)
    expect("averages", shoal("train", *MLP, "--steps", 5, "--lr", 0.3, "--average", 0.9, "--save", "averages"), 0)
    begin = ["train", "mlp", "--batch", 4, "--steps", 0, "--held-out", 10, "--load", "averages"]
    for raw, said in ([], "4 parameters begin as their moving averages"), (["--raw"], "4 parameters begin as they were"):
        begun = re.search(r"held-out data loss (\S+),", expect(f"load {raw}", shoal(*begin, *raw), 0, said).stdout)
        loss = measured(f"eval {raw}", *MLP, "--held-out", 10, "--load", "averages", *raw).get("loss", 0)
        if not begun or abs(float(begun.group(1)) - loss) > 1e-4:
            fail(f"train --load {raw} begins with other weights than eval reads: {begun} {loss}")
    small, deep = ["--load", "text_run"], ["--load", "deep", "--layers", 1]
    begin = ["train", "gpt2", "--batch", 4, "--data", "text", "--steps", 1]
    expect("missing", shoal(*begin, *small, "--layers", 2), 2, "is missing", "--missing keep")
    expect("kept", shoal(*begin, *small, "--layers", 2, "--missing", "keep"), 0, "12 states that it lacks begin anew")
    expect("deep", shoal("train", *GPT, "--layers", 2, "--steps", 1, "--save", "deep"), 0)
    expect("extra", shoal(*begin, *deep), 2, "has no state for tensor", "--extra ignore")
    expect("ignored", shoal(*begin, *deep, "--extra", "ignore"), 0, "passed over 12 that the model has no state for")


def check_epochs():
    """A schedule of epochs ends where they do."""
    for more, count in (["--last-batch", "short"], 12), (["--last-batch", "dropped"], 10), ([], 11):
        result = shoal("train", *MLP, "--data", "x.npy,y.npy", "--batch", 3, "--epochs", 2, *more,
                       "--lr-schedule", "linear", "--log-every", 1, "--lr", 1)
        rates = re.findall(r"^step \d+ .* rate (\S+)", expect(f"epochs {more}", result, 0).stdout, re.M)
        expected = [1 - i / len(rates) for i in range(len(rates))]
        if len(rates) != count or any(abs(float(a) - b) > 1e-3 for a, b in zip(rates, expected)):
            fail(f"epochs {more}: {rates}")


def check_skipped():
    """Two optimizers, a loss scale each: updates that are skipped are those of both."""
    result = shoal("train", "gan-tiny", "--mixed", "--dtype", "f16", "--loss-scale", 1e38, "--steps", 2)
    expect("skipped updates", result, 0, "skipped 4 ", "warning: all 4 updates were skipped")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        with open("text", "w") as text:
            text.write("".join(chr(97 + i * i % 23) for i in range(200)))
        for check in (check_nan, check_counts, check_best, check_groups, check_stored, check_order, check_labels, check_progress,
                      check_effects, check_settings, check_images, check_load, check_epochs, check_skipped):
            check()
        os.chdir("/")
    print("options: " + (f"{failures} failures" if failures else "all well"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
