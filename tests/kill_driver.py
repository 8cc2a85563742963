"""Kills ranks and looks at what is left. The kill_*.sh tests and `make soak` call it; tests/programs/kill_rank.c
is what it launches.

Every case is a line of text, drawn from a seed that is fixed unless one is given; a failing one is printed as the command that
runs it again. What may be in a case:
    n=3 seed=7          ranks, and the seed of what they do
    at=1:40:kill:25     rank 1 does that to itself at its 40th point, 25 us later (see kill_rank.c); several by ','
    pick=5 time=0.012   the driver kills one of the processes, drawn by pick, after that many seconds
    launcher=KILL       the signal goes to the launcher instead, after time=
    nested              ranks run behind a shell, so that the launcher knows only the shell
    long                they would go on for much longer than anybody waits here

Under `shoal run` each survivor must end by itself, with OK or with an error that names the dead rank; the
launcher must say who died, and how, and end with the code that goes with it. Under other launchers (--command)
the job must end, non-zero. Always: within the limit, and no process, file or shared memory is left.

Usage: kill_driver.py [--count N] [--seed S] [--case TEXT] [--kinds ranks,launcher,ends] [--command 'mpirun -n {n}']
"""

import argparse
import glob
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import time

BIN = os.environ["SHOAL_BIN"]
PROGRAM = os.path.join(os.environ["SHOAL_BUILD_DIR"], "tests/kill_rank")
SLOW = 8 if os.environ.get("SHOAL_SANITIZE") else 1
TIMEOUT_MS = 5000 * SLOW
GRACE_MS = 5000 * SLOW
LIMIT_S = 10 + (TIMEOUT_MS + GRACE_MS) / 1000
PRIVATE = os.environ.get("KILL_PRIVATE") == "yes"  # see kill_lib.sh
GONE_S = 5  # for what was killed to disappear


class Bad(Exception):
    """A case that went wrong."""


class Known(Exception):
    """A case that showed a fault of the launcher, in a library that is not Shoal's: named, counted, drawn anew."""


def read(path):
    try:
        with open(path, "rb") as file:
            return file.read().decode(errors="replace")
    except OSError:  # a process that has ended
        return ""


def parse(text):
    case = dict(word.partition("=")[::2] for word in text.split())
    return {"n": int(case["n"]), "seed": int(case.get("seed", 1)), "at": case.get("at", ""),
            "pick": int(case.get("pick", 0)), "time": float(case["time"]) if "time" in case else None,
            "launcher": case.get("launcher", ""), "nested": "nested" in case, "long": "long" in case}


class Job:
    """One launch, from start to what it leaves."""

    def __init__(self, options, case, work):
        self.case, self.command = case, options.command
        self.dir = tempfile.mkdtemp(dir=work)
        self.results, self.temporary = os.path.join(self.dir, "results"), os.path.join(self.dir, "tmp")
        os.mkdir(self.results)
        os.mkdir(self.temporary)
        self.marker = "SHOAL_KILL_MARKER=" + os.path.basename(self.dir) + str(os.getpid())
        name, _, value = self.marker.partition("=")
        environment = dict(os.environ, KILL_AT=case["at"], SHOAL_TIMEOUT_MS=str(TIMEOUT_MS),
                           TMPDIR=self.temporary, **{name: value})
        if "stop" in case["at"]:
            environment["SHOAL_TIMEOUT_MS"] = str(700 * SLOW)
        rounds = options.rounds * (100000 if case["long"] else 1)
        program = [PROGRAM, self.results, str(case["seed"]), str(rounds)]
        if case["nested"]:
            program = ["sh", "-c", shlex.join(program) + '; code=$?; exit $code']
        if self.command:
            words = shlex.split(self.command.replace("{n}", str(case["n"]))) + program
        else:
            grace = 1500 * SLOW if "stop" in case["at"] else GRACE_MS
            words = [BIN, "run", "-n", str(case["n"]), "--grace-ms", str(grace), "--"] + program
        self.shm = set(os.listdir("/dev/shm"))
        self.out = open(os.path.join(self.dir, "out"), "w+b")
        self.start = time.monotonic()
        self.process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=self.out, stderr=self.out,
                                        env=environment, start_new_session=True)

    def text(self):
        return read(self.out.name)

    def ours(self):
        """Processes that carry the marker: whatever came from this launch."""
        found = []
        for path in glob.glob("/proc/[0-9]*/environ"):
            if self.marker in read(path):
                found.append(int(path.split("/")[2]))
        return found

    def ranks(self):
        """The processes of the ranks that are there now."""
        if self.command:
            return sorted(int(name) for name in os.listdir(self.results))
        pid = self.process.pid
        children = [int(word) for word in read(f"/proc/{pid}/task/{pid}/children").split()]
        # The first is the launcher's guard; it takes its name at once, but not before it exists.
        if not children or read(f"/proc/{children[0]}/comm").strip() != "shoal-guard":
            return []
        return children[1:]

    def wait_to_kill(self):
        left = self.start + self.case["time"] - time.monotonic()
        time.sleep(max(0, left))
        if self.case["launcher"]:
            if self.process.poll() is None:
                self.process.send_signal(getattr(signal, "SIG" + self.case["launcher"]))
            return
        while self.process.poll() is None:
            ranks = self.ranks()
            if ranks:
                try:
                    os.kill(ranks[self.case["pick"] % len(ranks)], signal.SIGKILL)
                except ProcessLookupError:
                    pass
                return
            time.sleep(0.0002)

    def finish(self):
        """The exit code; raises when it does not end."""
        if self.case["time"] is not None:
            self.wait_to_kill()
        try:
            return self.process.wait(LIMIT_S)
        except subprocess.TimeoutExpired:
            # libpmix 4.2.2: when a rank dies in the middle of MPI_Init, mpirun reports it, ends all ranks, and may
            # then wait for ever in PMIx_server_finalize for a lock that was freed.
            alone, said = self.ours() == [self.process.pid], self.text()
            if alone and "mpirun" in (self.command or "") and not self.all_joined() and "exited on signal" in said:
                self.process.kill()
                self.process.wait()
                raise Known("mpirun itself hung after it had ended all ranks, one of them in MPI_Init") from None
            states = [f"{pid} {read(f'/proc/{pid}/stat').split(')')[-1][:3]} {read(f'/proc/{pid}/wchan')} "
                      + read(f"/proc/{pid}/cmdline").replace("\0", " ")[:200] for pid in self.ours()]
            for pid in self.ours():
                os.kill(pid, signal.SIGKILL)
            self.process.wait()
            raise Bad(f"it did not end in {LIMIT_S:.0f} s; alive: " + "; ".join(states)) from None

    def all_joined(self):
        files = [read(os.path.join(self.results, name)) for name in os.listdir(self.results)]
        return sum("\njoined\n" in text for text in files) == self.case["n"]

    def outcomes(self):
        """rank -> outcome, None where a rank did not come to one; and rank -> points."""
        outcomes, points = {}, {}
        for name in os.listdir(self.results):
            lines = read(os.path.join(self.results, name)).splitlines()
            if not lines:
                continue
            rank = int(lines[0].split()[1])
            outcomes[rank] = None
            for i, line in enumerate(lines):
                if line.startswith("points "):
                    points[rank] = int(line.split()[1])
                    outcomes[rank] = "\n".join(lines[i + 1:]) or None
        return outcomes, points

    def check_nothing_left(self):
        end = time.monotonic() + GONE_S * SLOW
        while self.ours() and time.monotonic() < end:
            time.sleep(0.01)
        left = [f"{pid} {read(f'/proc/{pid}/cmdline')}" for pid in self.ours()]
        for pid in self.ours():
            os.kill(pid, signal.SIGKILL)
        if left:
            raise Bad("processes are left: " + "; ".join(left).replace("\0", " "))
        files = [os.path.join(root, name) for root, folders, names in os.walk(self.temporary) for name in names]
        for name in set(os.listdir("/dev/shm")) - self.shm:
            if PRIVATE or "shoal" in name:  # else it may be another test's
                files.append("/dev/shm/" + name)
        # MPICH makes its segment in MPI_Init, UCX under it whenever it needs one, and both unlink it a moment later.
        known = ["/dev/shm/ucx_shm_posix_"] + ([] if self.all_joined() else ["/dev/shm/mpich_shar_tmp"])
        if self.command and files and all(name.startswith(tuple(known)) for name in files):
            for name in files:
                os.unlink(name)
            raise Known("a rank of MPICH died between making and unlinking " + " ".join(files))
        if files:
            raise Bad("files are left: " + " ".join(files))


def check_survivors(case, outcomes, victims, pattern, counts):
    for rank in range(case["n"]):
        if rank in victims:
            continue
        outcome = outcomes.get(rank)
        if outcome is None:
            raise Bad(f"rank {rank} did not end by itself")
        if outcome == "OK":
            counts["OK"] += 1
        elif re.match(pattern, outcome, re.S):
            counts["named error"] += 1
        else:
            raise Bad(f"rank {rank} ended with: {outcome}")


def fates(case):
    """rank, point, action, delay of every at=."""
    for text in filter(None, case["at"].split(",")):
        words = text.split(":")
        yield int(words[0]), int(words[1]), words[2], int(words[3]) if len(words) > 3 else 0


def check_all_well(case, outcomes, points):
    """Exit code 0: the killing came too late for everyone."""
    quiet = {rank for rank, _, action, _ in fates(case) if action == "exit0"}
    for rank in set(range(case["n"])) - quiet:
        if outcomes.get(rank) != "OK":
            raise Bad(f"exit code 0, but rank {rank} has {outcomes.get(rank)}")
    for rank, point, _, delay in fates(case):
        if rank not in quiet and delay == 0 and points[rank] >= point:
            raise Bad(f"exit code 0, but rank {rank} came to point {point}")


def judge_other(code, outcomes, points, case, counts):
    """Not `shoal run`: its launcher ends the ranks as it likes."""
    for outcome in outcomes.values():
        if outcome and outcome.startswith("WRONG"):
            raise Bad(outcome)
    if code == 0:
        check_all_well(case, outcomes, points)
        counts["too late"] += 1
        return
    for rank in range(case["n"]):
        outcome = outcomes.get(rank)
        counts["no outcome" if outcome is None else "OK" if outcome == "OK" else "named error"] += 1


def judge_launcher(code, case, text, counts):
    """The launcher itself was killed, or asked to end."""
    name = case["launcher"]
    number = getattr(signal, "SIG" + name)
    if code == 0:
        counts["too late"] += 1
    elif code == -number:  # killed; or asked before it was listening
        counts["ended"] += 1
    elif name == "KILL" or code != 9 or f"interrupted by SIG{name}" not in text:
        raise Bad(f"exit code {code}")
    else:
        counts["interrupted"] += 1


def judge_run(code, case, text, outcomes, points, counts):
    """A rank of `shoal run` died."""
    if code == 0:
        check_all_well(case, outcomes, points)
        counts["too late"] += 1
        return
    report = re.search(r"^shoal: error: (\w+): rank (\d+) (.*)$", text, re.M)
    if not report:
        raise Bad(f"exit code {code}, but no report of a rank")
    named, how = int(report[2]), report[3]
    actions = {rank: action for rank, _, action, _ in fates(case)}
    action = actions.get(named, "kill")
    if "stop" in actions.values():  # nobody died: those who waited for it say so
        stopped = {rank for rank, what in actions.items() if what == "stop"}
        if code != 10 or named in stopped:
            raise Bad(f"exit code {code}: {report[0]}")
        check_survivors(case, outcomes, stopped, r"DEADLINE: .*waits", counts)
        return
    if "exit0" in actions.values():  # all seems well to the launcher, until the others complain
        quiet = {rank for rank, what in actions.items() if what == "exit0"}
        if code != 9 or named in quiet:
            raise Bad(f"exit code {code}: {report[0]}")
        names = "|".join(map(str, quiet))
        check_survivors(case, outcomes, quiet, rf"ABORTED: .*rank ({names}) has (ended|left)", counts)
        return
    expected = {"kill": (9, "was killed by signal 9 (SIGKILL)"), "exit3": (3, "ended with exit code 3"),
                "segv": (9, "was killed by signal 11 (SIGSEGV)")}[action]
    if case["nested"] and action == "kill":
        expected = (9, "ended with exit code 137")  # as the shell says it
    if code != expected[0] or not how.startswith(expected[1]):
        raise Bad(f"exit code {code}, not {expected[0]}: {report[0]}")
    victims = {named} | set(actions) if case["at"] else {named}
    if len(victims) == 1 and case["time"] is not None and case["at"]:
        victims |= {rank for rank in range(case["n"]) if outcomes.get(rank) is None}
    names = "|".join(map(str, sorted(victims)))
    check_survivors(case, outcomes, victims, rf"ABORTED: .*\brank ({names})\b", counts)


def run_case(options, text, work, counts):
    case = parse(text)
    job = Job(options, case, work)
    try:
        code = job.finish()
        took = time.monotonic() - job.start
        outcomes, points = job.outcomes()
        said = job.text()
        if options.verbose:
            print(f"  {text}: exit code {code}, {took:.3f} s, {outcomes}\n{said}")
        job.check_nothing_left()
        if options.command:
            judge_other(code, outcomes, points, case, counts)
        elif case["launcher"]:
            judge_launcher(code, case, said, counts)
        else:
            judge_run(code, case, said, outcomes, points, counts)
    except Bad as bad:
        raise Bad(f"{bad}\n--- outcomes {job.outcomes()[0]}\n--- output\n{job.text()}") from None
    finally:
        job.out.close()
    counts["slowest"] = max(counts["slowest"], took)
    subprocess.run(["rm", "-rf", job.dir], check=False)


def measure(options, n, work):
    """How long a whole run takes, and how many points each rank passes."""
    job = Job(options, parse(f"n={n}"), work)
    code = job.finish()
    took = time.monotonic() - job.start
    outcomes, points = job.outcomes()
    if code != 0 or set(outcomes.values()) != {"OK"} or len(outcomes) != n:
        raise Bad(f"without any killing: exit code {code}, {outcomes}\n{job.text()}")
    job.check_nothing_left()
    job.out.close()
    return took, min(points.values())


def draw_moment(rng, took):
    """Anywhere; more often while it starts, or ends."""
    where = rng.random()
    if where < 0.15:
        return rng.uniform(0, 0.15 * took)
    return rng.uniform(0.75 * took, 1.1 * took) if where < 0.35 else rng.uniform(0, took)


def draw_point(rng, points):
    where = rng.random()
    if where < 0.25:
        return rng.randint(1, 40)
    return rng.randint(points - 40, points) if where < 0.5 else rng.randint(1, points)


def draw(rng, kind, measured):
    n = rng.choice(sorted(measured))
    took, points = measured[n]
    text = f"n={n} seed={rng.randint(1, 10**6)}"
    if kind == "launcher":
        return (f"{text} launcher={rng.choice(['KILL', 'KILL', 'TERM', 'INT'])} time={draw_moment(rng, took):.4f}"
                + rng.choice(["", " nested"]) + rng.choice(["", " long"]))
    if kind == "ends":  # other ends than SIGKILL
        action = rng.choice(["exit0", "exit3", "segv", "stop"])
        # Who stops when nobody needs it any more may do so for ever.
        point = rng.randint(1, points // 2) if action == "stop" else draw_point(rng, points)
        return f"{text} at={rng.randrange(n)}:{point}:{action}"
    if rng.random() < 0.45:
        return f"{text} pick={rng.randrange(n)} time={draw_moment(rng, took):.4f}"
    fates_text = []
    for rank in rng.sample(range(n), 2 if n > 2 and rng.random() < 0.15 else 1):
        delay = rng.choice(["", f":{rng.randint(1, 400)}"])
        fates_text.append(f"{rank}:{draw_point(rng, points)}:kill{delay}")
    return f"{text} at={','.join(fates_text)}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1, help="of the cases; `make soak` draws it")
    parser.add_argument("--case", help="this one only")
    parser.add_argument("--kinds", default="ranks", help="ranks, launcher, ends: drawn in turn")
    parser.add_argument("--sizes", default="2,3,4,5", help="numbers of ranks")
    parser.add_argument("--rounds", type=int, default=80)
    parser.add_argument("--command", help="another launcher; {n} is the number of ranks")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    rng = random.Random(options.seed)
    counts = {name: 0 for name in ("OK", "named error", "no outcome", "too late", "ended", "interrupted",
                                "launcher's own fault", "slowest")}
    name = options.command.split()[0] if options.command else "shoal run"
    with tempfile.TemporaryDirectory(prefix="shoal-kill-") as work:
        text = options.case
        try:
            if not options.case:
                print(f"{name}: {options.count} cases of {options.kinds}, seed {options.seed}", flush=True)
                measured = {int(n): measure(options, int(n), work) for n in options.sizes.split(",")}
            kinds, cases = options.kinds.split(","), 0
            while cases - counts["too late"] < options.count:  # what comes too late is no case
                if not options.case:
                    text = draw(rng, kinds[cases % len(kinds)], measured)
                try:
                    run_case(options, text, work, counts)
                    cases += 1
                except Known as known:
                    print(f"{name}: {text}: {known}", flush=True)
                    counts["launcher's own fault"] += 1
                    if counts["launcher's own fault"] > 2 + options.count // 4:
                        raise Bad("too often") from None
                if options.case:
                    break
        except Bad as bad:
            again = f"tests/kill_driver.py --case '{text}'"
            again += f" --command '{options.command}'" if options.command else ""
            print(f"FAIL: {name}: {bad}\nagain: SHOAL_BIN={BIN} SHOAL_BUILD_DIR={os.environ['SHOAL_BUILD_DIR']} "
                  f"python3 {again}")
            return 1
    slowest = counts.pop("slowest")
    print(f"{name}: well; survivors: " + ", ".join(f"{value} {key}" for key, value in counts.items() if value)
          + f"; slowest {slowest:.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
