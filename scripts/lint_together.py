#!/usr/bin/env python3
"""lint_together.py BUILDDIR FOLDER SOURCE... -- LINTER...: runs clang-tidy over sources of one target several at a time.

What clang-tidy does longest is reading the same headers again for each source. Here many sources become one file of
FOLDER, one after the other: not by #include, since the analyzer passes by what is not in the main file. Sources that
cannot stand in one file (both have a name, say) are halved until they can. What the linter says of a line is said of
the source's. Exits with 1 when the linter finds anything.
"""

import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import compile_commands

TOGETHER = 24
# Kernels of one computation: the same names in each.
ALONE = re.compile(r"/crc32_")


class Unit:
    """Sources that are linted as one file: [(entry of the compile database, source)]."""

    def __init__(self, folder, compiled):
        self.folder = folder
        self.compiled = compiled
        self.bytes = sum(source.stat().st_size for _, source in compiled)
        first = compiled[0][1]
        self.path = folder / f"{first.parent.name}_{first.stem}_{len(compiled)}" / "unit.cc"

    def lint(self, linter):
        """What the linter found, or nothing."""
        self.write()
        run = subprocess.run([*linter, "-p", self.path.parent, self.path], capture_output=True, text=True, check=False)
        if run.returncode == 0:
            return ""
        half = len(self.compiled) // 2
        if half > 0 and "[clang-diagnostic-error]" in run.stdout:
            return "".join(Unit(self.folder, part).lint(linter) for part in (self.compiled[:half], self.compiled[half:]))
        return re.sub(re.escape(str(self.path)) + r":(\d+)", self.place, run.stdout + run.stderr)

    def write(self):
        self.first_lines = []  # of each source: where it begins in this file, from 1
        text = ""
        for _, source in self.compiled:
            self.first_lines.append((text.count("\n") + 1, source))
            text += source.read_text(encoding="utf-8") + "\n"
        entry, first = self.compiled[0]
        words = [str(self.path) if word == entry["file"] else word for word in shlex.split(entry["command"])]
        words.insert(words.index("-o"), f"-iquote{first.parent}")
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text, encoding="utf-8")
        command = {**entry, "file": str(self.path), "command": shlex.join(words)}
        (self.path.parent / "compile_commands.json").write_text(json.dumps([command], indent=1) + "\n", encoding="utf-8")

    def place(self, match):
        line = int(match[1])
        first, source = [begin for begin in self.first_lines if begin[0] <= line][-1]
        return f"{source}:{line - first + 1}"


def units(build, folder, wanted):
    targets = {}
    for entry in compile_commands.commands(build):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        if source not in wanted:
            continue
        wanted.remove(source)  # some are compiled for two targets
        target = pathlib.Path(entry["output"]).parent, source.parent, source if ALONE.search(str(source)) else None
        targets.setdefault(target, []).append((entry, source))
    for compiled in targets.values():
        for at in range(0, len(compiled), TOGETHER):
            yield Unit(folder, compiled[at : at + TOGETHER])


def main():
    divider = sys.argv.index("--")
    build, folder, *sources = [pathlib.Path(path).resolve() for path in sys.argv[1:divider]]
    wanted = set(sources)
    found = sorted(units(build, folder, wanted), key=lambda unit: -unit.bytes)
    if wanted:
        sys.exit("no target compiles " + ", ".join(sorted(str(source) for source in wanted)))
    failed = False
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for findings in pool.map(lambda unit: unit.lint(sys.argv[divider + 1 :]), found):
            failed |= findings != ""
            print(findings, end="", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
