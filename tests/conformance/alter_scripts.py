#!/usr/bin/env python3
"""Can these scripts fail? Each line that says what must be seen is left out, then changed, one at a time: every such
script has to fail.

    alter_scripts.py UROCE_DRILL SCRIPT...
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SEEN = re.compile(r"^(?:[+@&]\S*\s+)?(?:>|>mad|completion|cm_event|state|counter|memory)\s")
NUMBERS = re.compile(r"(psn|msn|held|wrid|bytes|len|at 0x|u64|pattern|counter \w+|status|reason|answers|wait|qpn|resources|depth|retry_cnt|rnr_retry|(?:write|mr\d)\+\d+) ?(-?\d+)(?![0-9a-fx])")


def alterations(lines):
    """What each is called, and the text."""
    for at, line in enumerate(lines):
        if not SEEN.match(line):
            continue
        if not re.search(r"\bmemory\b", line):  # nobody has to ask about memory
            yield f"line {at + 1} left out", lines[:at] + lines[at + 1 :]
        if "untouched" in line:  # of some bytes more it would be true as well
            yield f"line {at + 1}, touched", lines[:at] + [line.replace("untouched", "pattern 77")] + lines[at + 1 :]
            continue
        for number in NUMBERS.finditer(line):
            changed = line[: number.start(2)] + str(int(number[2]) + 1) + line[number.end(2) :]
            yield f"line {at + 1}, {number[1]} is {int(number[2]) + 1}", lines[:at] + [changed] + lines[at + 1 :]
        if re.search(r"\b(success|ack_req)\b", line):
            other = line.replace(" success", " flushed") if "success" in line else line.replace(" ack_req", "")
            yield f"line {at + 1}, another status or flag", lines[:at] + [other] + lines[at + 1 :]


def fails(drill, name, text):
    with tempfile.NamedTemporaryFile("w", suffix=".rdrill", encoding="utf-8") as file:
        file.write("\n".join(text) + "\n")
        file.flush()
        result = subprocess.run([drill, "--quiet", file.name], capture_output=True, text=True, timeout=60, check=False)
    return name, result.returncode


def main():
    drill, paths = sys.argv[1], [pathlib.Path(path) for path in sys.argv[2:]]
    jobs = []
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 2) as pool:
        for path in paths:
            lines = path.read_text(encoding="utf-8").splitlines()
            for what, text in alterations(lines):
                jobs.append(pool.submit(fails, drill, f"{path.name}: {what}", text))
        passed = [name for name, status in (job.result() for job in jobs) if status == 0]
        refused = [name for name, status in (job.result() for job in jobs) if status not in (0, 1, 2)]
    for name in passed:
        print(f"passes all the same: {name}")
    for name in refused:
        print(f"ended by a signal: {name}")
    print(f"{len(paths)} scripts, {len(jobs)} alterations, {len(passed)} unnoticed")
    return 1 if passed or refused or not jobs else 0


if __name__ == "__main__":
    sys.exit(main())
