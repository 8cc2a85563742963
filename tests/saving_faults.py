#!/usr/bin/env python3
# labels: san
"""Checkpoints that several processes write, when something goes wrong: a rank that does not see the folder, and a rank
that is killed while checkpoints are written beside the steps. Others are told, and what is there is whole."""

import os
import signal
import subprocess
import sys
import tempfile

SHOAL = os.environ["SHOAL_BIN"]
MODEL = ["mlp", "--batch", "6", "--in-features", "64", "--hidden", "96", "--classes", "3", "--strategy", "zero3"]
failures = 0


def fail(what, *texts):
    global failures
    failures += 1
    print("FAILED", what, *texts, sep="\n")


def check_unshared():
    """Rank 1 has another file system at the folder's place, where the system lets us make one."""
    os.mkdir("apart")
    if subprocess.run(["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "apart"], capture_output=True).returncode:
        print("unshare is not allowed here: a folder that is not shared is not tried")
        return
    command = " ".join([SHOAL, "train", *MODEL, "--steps", "4", "--save", "apart"])
    script = f"""if [ $SHOAL_RANK = 1 ]; then
  exec unshare --mount bash -c 'mount -t tmpfs tmpfs apart && exec {command}'
else
  exec {command}
fi"""
    result = subprocess.run([SHOAL, "run", "--no-prefix", "-n", "2", "--", "bash", "-c", script], capture_output=True,
                            text=True)
    if result.returncode != 3 or "do not share this file system" not in result.stderr or "step 1 " in result.stdout:
        fail(f"a folder that is not shared: exit {result.returncode}", result.stdout, result.stderr)
    if os.listdir("apart"):
        fail(f"a folder that is not shared: leaves {os.listdir('apart')}")


def check_killed():
    """A rank is killed after some saves, while steps and saves go on; --resume goes on from a whole checkpoint."""
    command = [SHOAL, "train", *MODEL, "-n", "3", "--save", "killed", "--keep", "0"]
    process = subprocess.Popen([*command, "--steps", "100000000", "--save-every", "1", "--save-async"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("saved killed/step-9"):
            break
    children = open(f"/proc/{process.pid}/task/{process.pid}/children").read().split()
    os.kill(int(children[-1]), signal.SIGKILL)
    process.stdout.read()  # to its end
    error = process.stderr.read()
    if process.wait() == 0 or "killed" not in error.lower():
        fail(f"a killed rank: exit {process.returncode}", error)
    whole = [name for name in os.listdir("killed") if os.path.exists(f"killed/{name}/model.safetensors")]
    if len(whole) < 9:
        fail(f"a killed rank: {sorted(whole)}")
    newest = max(int(name.split("-")[1]) for name in whole)
    result = subprocess.run([*command, "--steps", str(newest + 1), "--resume"], capture_output=True, text=True)
    if result.returncode or f"resumed from killed/step-{newest}\n" not in result.stdout:
        fail(f"after a killed rank: exit {result.returncode}", result.stdout, result.stderr)
    left = [name for name in os.listdir("killed") if os.listdir(f"killed/{name}") != ["model.safetensors"]]
    if left:
        fail(f"after a killed rank: {left}")


def main():
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        check_unshared()
        check_killed()
        os.chdir("/")
    print("saving: " + (f"{failures} failures" if failures else "all well"))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
