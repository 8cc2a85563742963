#!/usr/bin/env python3
"""tools/check_source can fail: a small wrong tree for each thing it looks for."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(os.environ.get("SHOAL_SOURCE_DIR", Path(__file__).resolve().parent.parent))
GOOD = {
    "src/LAYERS": "base:\nop: base\ngraph: op\n",
    "src/base/a.h": "// a\n#ifndef SHOAL_BASE_A_H_\n#define SHOAL_BASE_A_H_\n#endif\n",
    "src/base/a.c": '// a\n#include "base/a.h"\nvoid *f(void) { return malloc(3); }\n',
    "src/graph/g.c": '// g: malloc(1) in a comment\n#include "base/a.h"\nchar *s = "free(x)"; // exit(1)\n',
    "include/shoal/op.h": "// op\n#ifndef SHOAL_OP_H_\n#define SHOAL_OP_H_\nint shoal_x(int);\n#endif\n",
}
CASES = [  # check, file, text, what must be said (None: nothing)
    ("layers", "src/op/o.c", '// o\n#include "base/a.h"\n', None),
    ("layers", "src/base/b.c", '// b\n#include "graph/g.h"\n', 'base/ may not include "graph/g.h"'),
    ("layers", "src/base/b.c", '// b\n#include "shoal/op.h"\n', "may not include"),
    ("layers", "src/op/o.c", '// o\n#include "o.h"\n', "by its folder"),
    ("layers", "src/LAYERS", "base: graph\nop: base\ngraph: base\n", "no cycles"),
    ("layers", "src/stray/s.c", "// s\n", "is not in src/LAYERS"),
    ("layers", "cli/x.c", '// x\n#include <stdio.h>\n#include "shoal/op.h"\n#include "x.c"\n', None),
    ("layers", "cli/x.c", '// x\n#include "base/a.h"\n', 'cli/ may not include "base/a.h"'),
    ("layers", "cli/x.c", '// x\n#include "shoal/secret.h"\n', "only public headers"),
    ("layers", "examples/x.c", '// x\n#include <shoal/secret.h>\n', "examples/ may not include"),
    ("calls", "src/op/o.c", "// o\nint x = p->free(q) + a.exit(1);\n", None),
    ("calls", "src/op/o.c", "// o\n\nvoid g(void) { free(p); }\n", "src/op/o.c:3: free"),
    ("calls", "src/op/o.c", '// o\nvoid g(void) { printf("x"); }\n', "printf is not used in src/"),
    ("calls", "cli/x.c", "// x\nvoid g(void) { exit(1); }\n", "only cli/main.c exits"),
    ("files", "src/op/o.c", "int x;\n", "opens with a comment"),
    ("files", "src/op/o.c.orig", "// o\n", "is left over"),
    ("files", "src/op/o.h", "// o\n#pragma once\n", "no include guard"),
    ("files", "src/op/o.h", GOOD["src/base/a.h"], "shares its include guard"),
    ("files", "src/op/o.c", "// o\n" + "\n" * 1001, "lines: more than 1000"),
    ("files", "src/op/o.c", '// o\nchar *p = "/ho' + 'me/me/x";\n', "path of one machine"),
    ("files", "src/op/o.c", "// o\n\tint x;\n", "tab"),
    ("files", "src/op/o.c", "// o: see a.h and base/a.c\n", None),
    ("files", "src/op/o.c", "// o: see gone.h\n", "names gone.h, which is not there"),
    ("format", "src/graph/g.c", "// g\nint x;\n", None),
    ("format", "src/graph/g.c", "// g\nint  x;\n", "is not as clang-format writes it"),
    ("format", "src/graph/g.c", "// " + "g" * 98 + "\n", "101 columns"),
    ("headers", "include/shoal/op.h", GOOD["include/shoal/op.h"], None),
    ("headers", "include/shoal/op.h", "// op\nint shoal_x(size_t);\n", "as C17"),
    ("headers", "include/shoal/op.h", "// op\nint shoal_x(int *restrict class);\n", "as C++17"),
]


def run(tree, check):
    command = [sys.executable, SOURCE / "tools/check_source", "--root", tree, check]
    result = subprocess.run(command, capture_output=True, text=True)
    return result.returncode, result.stdout + result.stderr


def main():
    failed = 0
    for check, name, text, expected in CASES:
        with tempfile.TemporaryDirectory() as folder:
            for path, content in {**GOOD, name: text}.items():
                file = Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(content)
            code, output = run(folder, check)
        good = code == 0 if expected is None else code == 1 and expected in output
        if not good:
            failed += 1
            print(f"{check} on {name} {text!r}: expected {expected!r}, got {code}:\n{output}")
    print(f"{len(CASES)} cases, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
