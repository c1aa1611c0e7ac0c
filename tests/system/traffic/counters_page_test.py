#!/usr/bin/env python3
"""doc/debugging.md explains every counter, once, and none that does not exist: counters_page_test.py ROOT"""

import pathlib
import re
import sys


def main():
    root = pathlib.Path(sys.argv[1])
    code = (root / "roce/transport/counters.h").read_text(encoding="utf-8")
    port = (root / "roce/dpdk/dpdk_port.h").read_text(encoding="utf-8")
    known = re.findall(r"X\((\w+)\)", code.split("#define UROCE_COUNTERS(X)")[1].split("namespace")[0])
    known += re.findall(r'f\("(\w+)", counters\.', port)
    page = (root / "doc/debugging.md").read_text(encoding="utf-8").split("\n## All counters\n")[1]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    problems = [f"{name} is not explained" for name in known if name not in explained]
    problems += [f"{name} does not exist" for name in explained if name not in known]
    problems += [f"{name} is explained twice" for name in set(explained) if explained.count(name) > 1]
    if len(known) < 50 or not any(name.startswith("tx_dropped") for name in known):
        problems.append("the names were not found in the code")
    for problem in problems:
        print(f"doc/debugging.md, all counters: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
