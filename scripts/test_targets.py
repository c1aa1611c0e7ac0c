#!/usr/bin/env python3
"""test_targets.py BUILDDIR SUITE...: what Ninja has to build for the tests of these suites, one file a line."""

import json
import os
import subprocess
import sys


def main():
    build, suites = os.path.realpath(sys.argv[1]), set(sys.argv[2:])
    told = subprocess.run(["meson", "introspect", "--tests", "--targets", build], capture_output=True, check=True, text=True)
    known = json.loads(told.stdout)
    needed = set()
    for test in known["tests"]:
        if suites & {suite.split(":")[-1] for suite in test["suite"]}:
            needed.update(test["depends"])
    files = [os.path.relpath(name, build) for target in known["targets"] if target["id"] in needed
             for name in target["filename"]]
    if not files:
        sys.exit(f"no tests of {' '.join(sorted(suites))} in {sys.argv[1]}")
    print(*sorted(files), sep="\n")


if __name__ == "__main__":
    main()
