"""What bench/overlap and bench/halo share: how much of a program's communication is hidden behind its computation.

The peer is the same program with waits that leave nothing beside communication. Both run by turns in the same
processes, over links that `throttle` slows down so that communication takes about SHARE times as long as computation.
They compute the same loss, to the bit.

  T_serial, T_overlap   seconds of a step, nothing fetched: the median of TURNS turns of STEPS steps
  T_comm                T_serial less what the serial program's instructions took that compute or copy
  hidden                (T_serial - T_overlap) / T_comm: the share of communication that was hidden
  allowed               the same of what `shoal simulate --times` says of both programs, given the times of the
                        instructions and of the link that the overlapped program had in this run

Waiting in `throttle` takes no core. Ranks are processes that compute with one thread each. ROUNDS rounds, each of new
processes; the medians over rounds count, the spread (largest over smallest) is shown. `ratio` is the geometric mean of
T_serial / T_overlap; `worst` is the least hidden / allowed, and its bar is 0.9.

Environment: ROUNDS (7), TURNS (3), STEPS (4), LATENCY (1e-4), PAUSE_US, ONLY (a part of a case's name).
"""
import json, math, os, re, subprocess, sys, tempfile
from statistics import median

HERE = os.path.dirname(os.path.abspath(__file__))
SHOAL = os.path.abspath(os.environ.get("SHOAL_BIN", os.path.join(HERE, "..", "build", "release", "shoal")))
PROGRAMS = os.path.join(os.path.dirname(SHOAL), "bench")
ROUNDS, TURNS = int(os.environ.get("ROUNDS", "7")), os.environ.get("TURNS", "3")
STEPS = os.environ.get("STEPS", "4")
LATENCY = float(os.environ.get("LATENCY", "1e-4"))
BAR = 0.9


def run(words, folder, **variables):
    environment = {name: value for name, value in os.environ.items() if name != "SHOAL_COMM_THROTTLE"}
    done = subprocess.run(words, cwd=folder, env={**environment, **variables}, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(f"bench: {' '.join(words)} ended with {done.returncode}")
    return done.stdout


# ---- programs ------------------------------------------------------------------------------------------------------

def join(text):
    """The program with nothing beside its communication: in each segment of `train`, a reshard waits for the
    instruction before it, and the one behind it for the reshard."""
    lines, before = text.splitlines(), None
    for at, line in enumerate(lines):
        found = re.match(r"    (\d+) (\S+) (\S+) ", line)
        if not found:
            before = None
            continue
        index, queue, opcode = int(found.group(1)), found.group(2), found.group(3)
        if before and "reshard" in (opcode, before[1]) and queue != before[0]:
            body, _, waits = line.partition(" wait ")
            waits = sorted({int(w) for w in waits.split()} | {index - 1})
            lines[at] = f"{body} wait " + " ".join(map(str, waits))
        before = (queue, opcode)
    return "\n".join(lines) + "\n"


def slow(text, ops):
    """The same program where these ops of overlap_step take longer."""
    for op in ops:
        text = text.replace(f" shoal.{op.removesuffix('_by_size')} ", f" bench.{op} ")
    return text


class Case:
    """Programs of one plan for so many ranks: `overlap`, its joined peer `serial`, and others that do the same."""

    def __init__(self, folder, ranks, pause_us, text, **others):
        self.folder, self.ranks, self.pause_us = folder, ranks, str(pause_us)
        self.names = ["overlap", "serial", *others]
        for name, body in zip(self.names, (text, join(text), *others.values())):
            with open(os.path.join(folder, name + ".txt"), "w") as file:
                file.write(body)

    def step(self, turns=TURNS, **variables):
        """Seconds of a step of each program, and of the serial one's instructions that are no reshards."""
        out = run([SHOAL, "run", "-n", str(self.ranks), "--", os.path.join(PROGRAMS, "overlap_step"), turns, STEPS,
                   self.pause_us, *(f"./{name}.txt" for name in self.names)], self.folder, **variables)
        found = [json.loads(line[line.index("{"):]) for line in out.splitlines() if "{" in line]
        seconds = {name: median(f["seconds"] for f in found if f["program"] == i) for i, name in enumerate(self.names)}
        with open(os.path.join(self.folder, "serial.txt.times")) as file:
            entries = json.load(file)["instructions"]
        return seconds, sum(e["seconds"] for e in entries if e["segment"].startswith("train."))

    def simulate(self, name, times):
        with open(os.path.join(self.folder, name + ".txt")) as file:
            text = re.sub(r" bench\.(\w+?)(_by_size)? ", r" shoal.\1 ", file.read())  # whose times are measured
        with open(os.path.join(self.folder, "simulated.txt"), "w") as file:
            file.write(text)
        out = json.loads(run([SHOAL, "simulate", "./simulated.txt", "--cluster", "cluster.yml", "--times", times,
                              "--format", "json"], self.folder))
        group = out["groups"][0]
        return out["step_seconds"], group["communication_seconds"], group["hidden_share"]

    def write_cluster(self, bandwidth):
        with open(os.path.join(self.folder, "cluster.yml"), "w") as file:
            file.write("shoal_cluster: 1\nlink: {latency: %g, bandwidth: %g}\n" % (LATENCY, bandwidth))

    def set_link(self, share):
        """A link on which communication takes `share` times as long as computation: its bandwidth."""
        _, computes = self.step(turns="2")
        bandwidth = 1e8
        for _ in range(4):  # latencies are a part that does not shrink
            self.write_cluster(bandwidth)
            with open(os.path.join(self.folder, "none.times"), "w") as file:
                file.write('{"shoal_times": 1}')
            bandwidth *= self.simulate("serial", "none.times")[1] / (share * computes)
        self.write_cluster(bandwidth)
        return bandwidth

    def measure(self):
        seconds, computes = self.step(SHOAL_COMM_THROTTLE="cluster.yml")
        serial, overlap = seconds["serial"], seconds["overlap"]
        s_overlap, s_wire, s_hidden = self.simulate("overlap", "overlap.txt.times")
        # The same instructions in the serial program's order: both were written from one list.
        s_serial = self.simulate("serial", "overlap.txt.times")[0]
        return {**seconds, "wire": serial - computes, "hidden": (serial - overlap) / (serial - computes),
                "s_serial": s_serial, "s_overlap": s_overlap, "s_wire": s_wire, "s_share": s_hidden,
                "allowed": (s_serial - s_overlap) / s_wire}


# ---- reports -------------------------------------------------------------------------------------------------------

SHARES = ("hidden", "allowed", "s_share")


def measure_case(name, share, counts, make):
    """Measures the case that make(folder) gives in ROUNDS rounds, prints its rows and returns what there is to report."""
    with tempfile.TemporaryDirectory() as folder:
        case = make(folder)
        bandwidth = case.set_link(share)
        rounds = [case.measure() for _ in range(ROUNDS)]
    column = {key: [r[key] for r in rounds] for key in rounds[0]}
    middle = {key: median(values) for key, values in column.items()}
    held = median(r["hidden"] / r["allowed"] for r in rounds)

    def show(what, keys):
        cells = " ".join(f"{middle[k] * 1e3:9.2f} x{max(column[k]) / min(column[k]):5.2f}" for k in keys[:3])
        print(f"{name:28} {what:10} {cells} {middle[keys[3]]:8.3f}", end="")

    show("measured", ("serial", "overlap", "wire", "hidden"))
    print(f"   {held:5.3f}")
    show("simulated", ("s_serial", "s_overlap", "s_wire", "allowed"))
    print(flush=True)
    return {"case": name, "counts": counts, "hidden_of_allowed": round(held, 4),
            "speedup": round(median(r["serial"] / r["overlap"] for r in rounds), 4), "bandwidth": round(bandwidth),
            **{key + ("" if key in SHARES else "_ms"): round(value * (1 if key in SHARES else 1e3), 4)
               for key, value in middle.items()},
            "hidden_range": [round(min(column["hidden"]), 3), round(max(column["hidden"]), 3)],
            "spread": {key: round(max(column[key]) / min(column[key]), 3) for key in case.names + ["wire"]}}


def measure_cases(cases):
    """cases: name, share, counts, make. Those that ONLY asks for; ratio and worst are of those that count."""
    print(f"{'case':28} {'':10} {'serial':>16} {'overlap':>16} {'communication':>16} {'hidden':>8}   ratio   (ms, spread)")
    results = [measure_case(*case) for case in cases if os.environ.get("ONLY", "") in case[0]]
    counted = [r for r in results if r["counts"]]
    ratio = math.exp(sum(math.log(r["speedup"]) for r in counted) / len(counted)) if counted else None
    return {"ratio": ratio and round(ratio, 4), "worst": min((r["hidden_of_allowed"] for r in counted), default=None),
            "bar": BAR, "rounds": ROUNDS, "turns": int(TURNS), "steps": int(STEPS), "latency": LATENCY,
            "cores": os.cpu_count(), "results": results}
