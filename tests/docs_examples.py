#!/usr/bin/env python3
"""What README.md and the pages of docs/ show is so (docs/walkthrough.md has a test of its own).

In a box, `$ shoal ...` is run (`# exit N` behind it: it must end so) and every line shown must be printed, in that
order; `...` stands for anything, also inside a line. A box marked ```c FILE or ```json FILE must quote that file.
The table of exit codes is include/shoal/status.inc, and every SHOAL_ variable named exists in the source. Every link
to a file of the repository, and to a heading of it, leads somewhere; the glossary is in order. What docs/migrate.md says
to write here are flags, strategies and decisions that there are.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent))
SHOAL = os.environ.get("SHOAL_BIN", str(SOURCE / "build/release/shoal"))
PAGES = ["README.md", *(f"docs/{name}.md" for name in ("guide", "strategies", "plan", "pipelines", "memory", "cluster",
                                                       "primitives", "migrate"))]
failures = []


def fail(where, what):
    failures.append(f"{where}: {what}")


def boxes(text):
    """(line number, info string, lines) of every fenced box."""
    start, info, lines = None, "", []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("```"):
            if start is None:
                start, info, lines = number, line[3:].strip(), []
            else:
                yield start, info, lines
                start = None
        elif start is not None:
            lines.append(line)


def pattern(line):
    return re.compile(".*".join(re.escape(part) for part in line.rstrip().split("...")) + r"\s*")


def shown_in(where, shown, printed):
    """Every shown line is printed, in order; without a `...` between, next to each other is not asked."""
    at = 0
    for line in shown:
        if line.strip() in ("...", ""):
            continue
        wanted = pattern(line)
        while at < len(printed) and not wanted.fullmatch(printed[at]):
            at += 1
        if at == len(printed):
            fail(where, f"is not printed (or not there): {line}")
            return
        at += 1


def run_box(where, lines, folder):
    commands = []
    for line in lines:
        if line.startswith("$ "):
            commands.append((line[2:], []))
        elif commands:
            commands[-1][1].append(line)
    for command, shown in commands:
        if not command.startswith("shoal "):
            continue
        text, _, code = command.partition("# exit ")
        environment = {**os.environ, "PATH": f"{folder}/bin:{os.environ['PATH']}"}
        result = subprocess.run(["bash", "-c", text], cwd=folder, env=environment, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=250)
        if result.returncode != int(code or 0):
            fail(where, f"'{command}' ended with {result.returncode}:\n{result.stdout[-2000:]}")
        else:
            shown_in(f"{where} '{text.strip()}'", shown, result.stdout.splitlines())


def check_page(page, folder):
    text = (SOURCE / page).read_text()
    for number, info, lines in boxes(text):
        where = f"{page}:{number}"
        language, _, name = info.partition(" ")
        if name:
            shown_in(f"{where} {name}", lines, (SOURCE / name).read_text().splitlines())
        elif lines and lines[0].startswith("$ "):
            run_box(where, lines, folder)
    sources = "\n".join(path.read_text() for folder in ("src", "cli", "python") for path in
                        (SOURCE / folder).rglob("*") if path.suffix in {".c", ".h", ".py"})
    for variable in set(re.findall(r"`(SHOAL_[A-Z_]+)", text)):
        option = variable[len("SHOAL_"):].lower()
        if variable not in sources and not re.search(rf"\b{option},", sources):
            fail(page, f"{variable} is nowhere in the source")


def check_codes():
    table = re.findall(r'SHOAL_STATUS_CODE\((\w+), \d+, (\d+), "([^"]*)"\)',
                       (SOURCE / "include/shoal/status.inc").read_text())
    guide = (SOURCE / "docs/guide.md").read_text()
    for name, code, meaning in table:
        if f"| {code} | {name} | {meaning} |" not in guide:
            fail("docs/guide.md", f"its table of exit codes lacks {code} {name}: {meaning}")


def check_map():
    """Every layer has its line in the README, in the order of src/LAYERS."""
    layers = re.findall(r"^([a-z]+):", (SOURCE / "src/LAYERS").read_text(), re.M)
    listed = re.findall(r"^\| `src/(\w+)` \|", (SOURCE / "README.md").read_text(), re.M)
    if listed != layers:
        fail("README.md", f"its source map has {listed}, src/LAYERS {layers}")


def anchors(text):
    """What headings can be linked by, as GitHub makes it."""
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    return {re.sub(r"[^\w -]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


def check_links():
    pages = [SOURCE / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    pages += sorted(SOURCE.glob("docs/*.md")) + sorted(SOURCE.glob("bench/**/*.md"))
    for page in pages:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            path, _, anchor = link.partition("#")
            target = (page.parent / path).resolve() if path else page
            if link.startswith(("http:", "https:", "mailto:")):
                continue
            if not target.exists():
                fail(page.relative_to(SOURCE), f"links to {link}, which is not there")
            elif anchor and anchor not in anchors(target.read_text()):
                fail(page.relative_to(SOURCE), f"links to {link}, but there is no such heading")


def printed_by(*words):
    result = subprocess.run([SHOAL, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60)
    return result.returncode, result.stdout


def check_migration():
    """The right-hand columns of docs/migrate.md: flags and strategies are known, decisions and choices are taken."""
    page = "docs/migrate.md"
    commands = ("train", "run", "explain", "plan", "simulate", "check")
    known = "".join(printed_by(command, "--help")[1] for command in commands)
    settings = "".join(printed_by("models", model)[1] for model in ("gpt2", "llama", "moe-gpt"))
    strategies = printed_by("strategies")[1]
    plain, staged = ["--strategy", "zero3"], ["--strategy", "pipeline", "--mesh", "pipe=2,micro=4"]
    rows = [line.split(" | ")[-1] for line in (SOURCE / page).read_text().splitlines() if line.startswith("| ")]
    options = set()
    for code in re.findall(r"`([^`]*)`", "\n".join(rows)):
        for flag in re.findall(r"(?<![\w-])--([a-z][a-z-]*)", code):
            if not re.search(rf"--{flag}\b", known) and not re.search(rf"^{flag.replace('-', '_')} ", settings, re.M):
                fail(page, f"there is no --{flag}: {code}")
        for name in "+".join(re.findall(r"--strategy ([\w+-]+)", code)).split("+"):
            if name and not re.search(rf"^{name} ", strategies, re.M):
                fail(page, f"there is no strategy {name}: {code}")
        options.update(("--decide", decision) for decision in re.findall(r"--decide '([^']*)'", code))
        options.update(re.findall(r"(--recompute|--offload|--compress|--schedule) ([^\s']+)", code))
    if len(rows) < 80 or len(options) < 16:
        fail(page, f"{len(rows)} rows and {len(options)} decisions and choices were found")
    for option in sorted(options):
        plan = staged if option[0] == "--schedule" else plain
        code, output = printed_by("explain", "gpt2-tiny", "-n", "2", "--batch", "8", *plan, "--show", "communication",
                                  *option)
        if code:
            fail(page, f"{option[0]} '{option[1]}' is not taken: {output}")


def check_glossary():
    words = re.findall(r"^\| \*\*(.*?)\*\* \|", (SOURCE / "docs/glossary.md").read_text(), re.M)
    for before, word in zip(words, words[1:]):
        if before.lower() > word.lower():
            fail("docs/glossary.md", f"'{word}' stands after '{before}'")


def main():
    if os.environ.get("SHOAL_SANITIZE"):
        return 77
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "bin").mkdir()
        Path(folder, "bin/shoal").symlink_to(SHOAL)
        for name in ("examples", "LICENSE"):
            Path(folder, name).symlink_to(SOURCE / name)
        for page in sys.argv[1:] or PAGES:
            check_page(page, folder)
    check_codes()
    check_map()
    check_links()
    check_migration()
    check_glossary()
    print("\n".join(failures) or "what the pages show is so")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
