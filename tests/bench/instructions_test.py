#!/usr/bin/env python3
"""instructions_test.py HOP_COUNT BUDGET [--write]: how many instructions a message costs, against a budget in the tree.

Runs hop_count under callgrind. Instructions, not time: they are the same on a busy machine (within 0.5 %). A row that
needs 2 % more than its budget fails. One that needs 5 % less fails as well: the budget is to be written down anew
(--write), so that what was won cannot be lost again.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

MESSAGES = 960  # whole bursts of 32
MORE, LESS = 1.02, 0.95


def measure(program):
    """Row -> instructions a message."""
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "out"
        ran = subprocess.run(["valgrind", "--tool=callgrind", "--collect-atstart=no", f"--callgrind-out-file={out}", program, str(MESSAGES)],
                             capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            sys.exit(f"hop_count under callgrind: exit status {ran.returncode}\n{ran.stderr}")
        rows = {}
        for part in out.parent.iterdir():
            text = part.read_text(encoding="utf-8")
            name = re.search(r"^desc: Trigger: Client Request: (\w+)$", text, re.MULTILINE)
            if name:
                rows[name[1]] = round(int(re.search(r"^summary: (\d+)$", text, re.MULTILINE)[1]) / MESSAGES)
    return rows


def read_budget(path):
    lines = [line.split() for line in path.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]
    return {name: int(number) for name, number in lines}


def write_budget(path, rows):
    head = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("#")]
    path.write_text("\n".join(head + [f"{name:16}{number:6}" for name, number in sorted(rows.items())]) + "\n", encoding="utf-8")


def main():
    program, path = sys.argv[1], pathlib.Path(sys.argv[2])
    # What callgrind tells a program about its processor depends on these, and so does the path that libc and the iCRC
    # take.
    flags = pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").split()
    lacking = [flag for flag in ("avx2", "pclmulqdq") if flag not in flags]
    if lacking:
        print(f"the budget is for a processor with {' and '.join(lacking)}")
        return 77
    rows = measure(program)
    if "--write" in sys.argv:
        write_budget(path, rows)
        return 0
    budget = read_budget(path)
    wrong = [f"{name}: measured, but not in {path.name}" for name in sorted(set(rows) - set(budget))]
    wrong += [f"{name}: in {path.name}, but not measured" for name in sorted(set(budget) - set(rows))]
    for name in sorted(set(rows) & set(budget)):
        share = rows[name] / budget[name]
        print(f"{name:16}{rows[name]:6} instructions a message, budget {budget[name]:6}: {share:.3f}")
        if share > MORE:
            wrong.append(f"{name}: {rows[name]} instructions, {share:.3f} of its budget")
        if share < LESS:
            wrong.append(f"{name}: {rows[name]} instructions, {share:.3f} of its budget: write it down (--write)")
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
