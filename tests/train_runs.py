#!/usr/bin/env python3
# labels: san
"""`shoal train` as a user runs it again and again: folders that hold checkpoints of another run, files of the user's
in them, folders that cannot be written, another learning rate on --resume, and signals. The same answers from one
rank, from threads and from processes."""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time

SHOAL = os.environ["SHOAL_BIN"]
FORMS = {"one rank": [], "threads": ["-n", "2", "--threads"], "processes": ["-n", "2"]}
MODEL = ["mlp", "--batch", "4", "--in-features", "6", "--hidden", "4", "--classes", "3"]
failures = 0


def fail(what, result=None):
    global failures
    failures += 1
    print("FAILED", what)
    if result is not None:
        print(result.stdout, result.stderr, sep="\n")


def train(*arguments, **more):
    return subprocess.run([SHOAL, "train", *MODEL, *map(str, arguments)], capture_output=True, text=True, **more)


def expect(what, result, code, *words, hint=""):
    """One error, with these words, before the first step; or success, with these words in the output."""
    text = result.stderr if code else result.stdout
    good = result.returncode == code and all(word in text for word in words) and hint in result.stderr
    if code:
        good = good and result.stderr.count("shoal: error:") == 1 and "step 1 " not in result.stdout
    if not good:
        fail(f"{what}: exit {result.returncode}, not {code}; {words} {hint}", result)


def steps_in(folder):
    return sorted((name for name in os.listdir(folder)), key=lambda name: int(name.split("-")[1]))


def check_folders(form, ranks):
    folder = form.replace(" ", "_")
    result = train("--steps", 12, "--save-every", 4, "--keep", 2, "--save", folder, *ranks)
    expect(f"{form}: a first run", result, 0, f"saved {folder}/step-12")
    if steps_in(folder) != ["step-8", "step-12"]:
        fail(f"{form}: keeps {steps_in(folder)}")
    # Another run there would be pruned by the first one's numbers, and --resume would go on from the wrong one.
    expect(f"{form}: a used folder", train("--steps", 3, "--save", folder, *ranks), 2,
           f"'{folder}' holds checkpoints of another run, up to step 12", hint="--overwrite")
    if steps_in(folder) != ["step-8", "step-12"]:
        fail(f"{form}: a refused run leaves {steps_in(folder)}")
    # What is not ours stays, and ends nothing.
    with open(f"{folder}/step-8/notes", "w") as notes:
        notes.write("mine")
    result = train("--steps", 20, "--save-every", 4, "--keep", 2, "--save", folder, "--resume", *ranks)
    expect(f"{form}: a user's file", result, 0, f"resumed from {folder}/step-12", f"saved {folder}/step-20")
    if steps_in(folder) != ["step-8", "step-16", "step-20"] or os.listdir(f"{folder}/step-8") != ["notes"]:
        fail(f"{form}: beside a user's file: {steps_in(folder)}, {os.listdir(f'{folder}/step-8')}")
    result = train("--steps", 3, "--save", folder, "--overwrite", *ranks)
    expect(f"{form}: --overwrite", result, 0, f"saved {folder}/step-3")
    if steps_in(folder) != ["step-3", "step-8"] or not os.path.exists(f"{folder}/step-8/notes"):
        fail(f"{form}: --overwrite leaves {steps_in(folder)}")
    expect(f"{form}: --resume of it", train("--steps", 4, "--save", folder, "--resume", *ranks), 0,
           f"resumed from {folder}/step-3", "step 4 ")
    # What cannot be saved is known before the first step: a parent that is a file, a full disk.
    expect(f"{form}: no folder", train("--steps", 3, "--save", "file/deeper", *ranks), 7, "file/deeper")
    if form == "processes":  # whose shared memory counts as a file
        return
    full = f"trap '' XFSZ; ulimit -f 16; exec '{SHOAL}' train {' '.join([*MODEL, *ranks])} --steps 3 --save full"
    expect(f"{form}: no room", subprocess.run(["bash", "-c", full], capture_output=True, text=True), 7,
           "cannot write into 'full'")
    if os.listdir("full"):
        fail(f"{form}: the attempt leaves {os.listdir('full')}")


def check_async(form, ranks):
    """Checkpoints that are written beside the steps are the same files, and all there at the end."""
    files = []
    for how in [], ["--save-async"]:
        folder = "async_" + form.replace(" ", "_")
        result = train("--steps", 9, "--save-every", 2, "--keep", 3, "--save", folder, "--overwrite", *how, *ranks)
        expect(f"{form}: {how}", result, 0, f"saved {folder}/step-2\n", f"saved {folder}/step-9\n")
        if how and "  saving: " not in result.stdout:
            fail(f"{form}: memory of saves is not printed", result)
        if steps_in(folder) != ["step-6", "step-8", "step-9"]:
            fail(f"{form}: {how} keeps {steps_in(folder)}")
        files.append([open(f"{folder}/{step}/model.safetensors", "rb").read() for step in steps_in(folder)])
    if files[0] != files[1]:
        fail(f"{form}: --save-async saves other bytes")
    expect(f"{form}: without --save", train("--save-async", *ranks), 2, "--save-async", hint="--save DIR")


def check_rate(form, ranks):
    folder = "rate_" + form.replace(" ", "_")
    expect(f"{form}: lr", train("--steps", 2, "--lr", 0.25, "--save", folder, *ranks), 0)
    same = train("--steps", 4, "--save", folder, "--resume", *ranks)
    expect(f"{form}: the checkpoint's lr", same, 0, "resumed")
    again = train("--steps", 6, "--lr", 0.25, "--save", folder, "--resume", *ranks)
    if "learning rate" in same.stdout + again.stdout:
        fail(f"{form}: says that the rate is another one", again)
    result = train("--steps", 9, "--lr", 1e-9, "--save", folder, "--resume", *ranks)
    expect(f"{form}: another lr", result, 0, "learning rate 1e-09; the checkpoint's was 0.25")
    # and is what the next run goes on with
    expect(f"{form}: after that", train("--steps", 12, "--lr", 0.5, "--save", folder, "--resume", *ranks), 0,
           "learning rate 0.5; the checkpoint's was 1e-09")


def check_evaluation(form, ranks):
    """The best of a run by its own numbers is what `shoal eval` measures, on any ranks; the numbers are in a file."""
    folder = "eval_" + form.replace(" ", "_")
    held = ["--held-out", 10]
    result = train("--steps", 12, "--eval-every", 4, *held, "--best", "loss", "--save", folder, "--lr", 0.05,
                   "--metrics", folder + ".jsonl", "--log-every", 4, *ranks)
    expect(f"{form}: evaluation", result, 0, f"saved {folder}/best", "on held-out data loss")
    losses = [float(x) for x in re.findall(r"^eval step \d+ loss (\S+) accuracy", result.stdout, re.M)]
    lines = [json.loads(line) for line in open(folder + ".jsonl")]
    recorded = [line["eval/loss"] for line in lines if "eval/loss" in line]
    steps = [line["step"] for line in lines if "loss" in line]
    if len(losses) != 3 or steps != [1, 4, 8, 12] or any(abs(a - b) > 1e-4 for a, b in zip(losses, recorded)):
        fail(f"{form}: {losses}, {recorded}, {steps}", result)
    measured = subprocess.run([SHOAL, "eval", *MODEL, "--load", f"{folder}/best", *map(str, held), "--format", "json",
                               "-n", "2", "--threads"], capture_output=True, text=True)
    if measured.returncode or json.loads(measured.stdout)["samples"] != 10 \
            or abs(json.loads(measured.stdout)["loss"] - min(recorded)) > 1e-5:
        fail(f"{form}: eval, {min(recorded)}", measured)
    text = subprocess.run([SHOAL, "eval", *MODEL, "--load", folder, *map(str, held), *ranks], capture_output=True, text=True)
    if text.returncode or f"{folder}/step-12 on 10 samples" not in text.stdout or "accuracy" not in text.stdout:
        fail(f"{form}: eval of the newest", text)


def wait_for(what, holds, process):
    for _ in range(6000):
        if holds():
            return True
        if process.poll() is not None:
            break
        time.sleep(0.01)
    fail(f"{what}: never there")
    process.kill()
    return False


def check_signal(form, ranks, number):
    """With SIGTERM also while a checkpoint is written: every one that is there is whole."""
    name = signal.Signals(number).name
    folder = f"{name}_" + form.replace(" ", "_")
    how = ["--save-every", "1", "--save-async"] if number == signal.SIGTERM else []
    with open(folder + ".out", "w+") as out, open(folder + ".err", "w+") as err:
        process = subprocess.Popen([SHOAL, "train", *MODEL, *ranks, "--steps", "100000000", "--save", folder, *how],
                                   stdout=out, stderr=err)
        if not wait_for(f"{form}: step 1", lambda: "\nstep 1 " in open(folder + ".out").read(), process):
            return
        process.send_signal(number)
        code = process.wait(timeout=120)
        out.seek(0), err.seek(0)
        text, error = out.read(), err.read()
    at = re.search(r"ABORTED: stopped by a signal at step (\d+); saved (\S+)", error)
    saved = re.search(r"^saved (\S+)\Z", text.strip(), re.M)
    if code != 9 or not at or not saved or at.group(2) != saved.group(1) or "--resume" not in error:
        fail(f"{form}, {name}: exit {code}\n{text}\n{error}")
    elif not os.path.exists(saved.group(1) + "/model.safetensors"):
        fail(f"{form}, {name}: {saved.group(1)} is not there")
    elif any(os.listdir(f"{folder}/{step}") != ["model.safetensors"] for step in steps_in(folder)):
        fail(f"{form}, {name}: {[os.listdir(f'{folder}/{step}') for step in steps_in(folder)]}")


# While the ranks still wait for their plan.
def check_early_signal(form, ranks, number):
    name = signal.Signals(number).name
    fifo = f"{name}_" + form.replace(" ", "_") + ".fifo"
    os.mkfifo(fifo)
    process = subprocess.Popen([SHOAL, "train", *MODEL, *ranks, "--plan", fifo], stdout=subprocess.DEVNULL,
                               stderr=subprocess.PIPE, text=True)
    writers = []

    def opens():  # there is a reader, which waits for data as long as we have the fifo open
        try:
            writers.append(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            pass
        return bool(writers)

    if not wait_for(f"{form}: reads its plan", opens, process):
        return
    process.send_signal(number)
    error = process.communicate(timeout=120)[1]
    os.close(writers[0])
    if process.returncode != 9 or error.count("ABORTED: interrupted by " + name) != 1:
        fail(f"{form}, early {name}: exit {process.returncode}\n{error}")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        open("file", "w").close()
        for form, ranks in FORMS.items():
            check_folders(form, ranks)
            check_async(form, ranks)
            check_rate(form, ranks)
            check_evaluation(form, ranks)
            for number in (signal.SIGTERM, signal.SIGINT):
                check_signal(form, ranks, number)
                check_early_signal(form, ranks, number)
        os.chdir("/")
    print("train: " + (f"{failures} failures" if failures else "all well"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
