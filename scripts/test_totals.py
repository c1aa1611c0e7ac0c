#!/usr/bin/env python3
"""Prints "PASSED FAILED SKIPPED" of one `meson test` run, given the path of its logs without extension; with --failed,
the names of the tests that failed.

A GoogleTest program counts with each of its cases when it passed; anything else, and a program that failed as a whole
(crash, timeout), counts once.
"""

import json
import pathlib
import sys
import xml.etree.ElementTree

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


def cases_of(junit):
    """Test name -> (passed, failed, skipped) from Meson's JUnit file, for those that report their cases."""
    found = {}
    if not junit.is_file():
        return found
    for suite in xml.etree.ElementTree.parse(junit).getroot().iter("testsuite"):
        name = suite.get("name", "")
        if name.count(".") < 2:  # project.program.suite is GoogleTest's
            continue
        name = name.split(".", 1)[1].rsplit(".", 1)[0]
        passed, failed, skipped = found.get(name, (0, 0, 0))
        for case in suite.iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                failed += 1
            elif case.find("skipped") is not None or case.get("status") == "notrun":
                skipped += 1
            else:
                passed += 1
        found[name] = (passed, failed, skipped)
    return found


def totals(base):
    passed = failed = skipped = 0
    cases = cases_of(pathlib.Path(base + ".junit.xml"))
    for line in pathlib.Path(base + ".json").read_text().splitlines():
        run = json.loads(line)
        inner = cases.get(run["name"], (0, 0, 0))
        if run["result"] in PASSED:
            passed += max(1, inner[0])
            skipped += inner[2]
        elif run["result"] in SKIPPED:
            skipped += 1
        elif inner[1] == 0:  # crashed or timed out: what its cases said before is not to be trusted
            failed += 1
        else:
            passed, failed, skipped = passed + inner[0], failed + inner[1], skipped + inner[2]
    return passed, failed, skipped


def failed_names(base):
    runs = map(json.loads, pathlib.Path(base + ".json").read_text().splitlines())
    return [run["name"].split(" / ")[-1] for run in runs if run["result"] not in PASSED | SKIPPED]


if __name__ == "__main__":
    if sys.argv[1] == "--failed":
        print(*failed_names(sys.argv[2]), sep="\n", end="\n" if failed_names(sys.argv[2]) else "")
    else:
        print(*totals(sys.argv[1]))
