#!/usr/bin/env python3
"""test_targets.py BUILDDIR SUITE...: what Ninja has to build for the tests of these suites, one file a line.
test_targets.py BUILDDIR --without SUITE...: all but what only these suites and benchmarks take.
"""

import json
import os
import subprocess
import sys


def main():
    build, suites = os.path.realpath(sys.argv[1]), set(sys.argv[2:])
    without = "--without" in suites
    told = subprocess.run(["meson", "introspect", "--tests", "--targets", build], capture_output=True, check=True, text=True)
    known = json.loads(told.stdout)
    needed = set()
    for test in known["tests"]:
        if bool(suites & {suite.split(":")[-1] for suite in test["suite"]}) != without:
            needed.update(test["depends"])
    if without:  # and whatever is no test, such as the check of the layers
        tests = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests")) + os.sep
        needed.update(target["id"] for target in known["targets"] if target["build_by_default"]
                      and (target["type"] == "custom" or not os.path.realpath(target["defined_in"]).startswith(tests)))
    files = [os.path.relpath(name, build) for target in known["targets"] if target["id"] in needed
             for name in target["filename"]]
    if not files:
        sys.exit(f"no tests of {' '.join(sorted(suites))} in {sys.argv[1]}")
    print(*sorted(files), sep="\n")


if __name__ == "__main__":
    main()
