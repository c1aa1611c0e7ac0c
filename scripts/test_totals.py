#!/usr/bin/env python3
"""Prints "PASSED FAILED SKIPPED REPEATED" of one `meson test` run, given the path of its logs without extension; with
--failed the names of the tests that failed, with --named a line for each that was skipped or repeated, and why.

A GoogleTest program counts with each of its cases when it passed; anything else, and a program that failed as a whole
(crash, timeout), counts once. What a test leaves out or does again inside of itself it says in lines that begin with
"skipped: " or "repeated: ", and that counts too.
"""

import dataclasses
import json
import pathlib
import re
import sys
import xml.etree.ElementTree

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP", "IGNORED"}


@dataclasses.dataclass
class Totals:
    passed: int = 0
    failed: int = 0
    skipped: list = dataclasses.field(default_factory=list)  # "test: why"
    repeated: list = dataclasses.field(default_factory=list)


def short(name):
    """Without project and suites, which Meson puts in front."""
    return name.split(" / ")[-1]


def cases_of(junit):
    """Test name -> Totals from Meson's JUnit file, for those that report their cases."""
    found = {}
    if not junit.is_file():
        return found
    for suite in xml.etree.ElementTree.parse(junit).getroot().iter("testsuite"):
        name = suite.get("name", "")
        if name.count(".") < 2:  # project.program.suite is GoogleTest's
            continue
        name = name.split(".", 1)[1].rsplit(".", 1)[0]
        totals = found.setdefault(name, Totals())
        for case in suite.iter("testcase"):
            skip = case.find("skipped")
            if case.find("failure") is not None or case.find("error") is not None:
                totals.failed += 1
            elif skip is not None or case.get("status") == "notrun":
                why = (skip.get("message") or skip.text or "").strip().splitlines() if skip is not None else []
                group = suite.get("name").rsplit(".", 1)[1]
                totals.skipped.append(": ".join([f"{short(name)} {group}.{case.get('name')}", *why[-1:]]))
            else:
                totals.passed += 1
    return found


def said(run, word):
    """Why, as the test's own lines say it."""
    return re.findall(rf"^{word}: (.*)$", run.get("stdout", ""), re.MULTILINE)


def totals_of(base):
    totals = Totals()
    cases = cases_of(pathlib.Path(base + ".junit.xml"))
    for line in pathlib.Path(base + ".json").read_text().splitlines():
        run = json.loads(line)
        name = short(run["name"])
        inner = cases.get(run["name"], Totals())
        left_out = [f"{name}: {why}" for why in said(run, "skipped")]
        totals.repeated += [f"{name}: {why}" for why in said(run, "repeated")]
        if run["result"] in PASSED:
            totals.passed += max(1, inner.passed)
            totals.skipped += inner.skipped + left_out
        elif run["result"] in SKIPPED:
            totals.skipped += (left_out or [f"{name}: it does not say why"])[:1]
        elif inner.failed == 0:  # crashed or timed out: what its cases said before is not to be trusted
            totals.failed += 1
        else:
            totals.passed += inner.passed
            totals.failed += inner.failed
            totals.skipped += inner.skipped
    return totals


def failed_names(base):
    runs = map(json.loads, pathlib.Path(base + ".json").read_text().splitlines())
    return [short(run["name"]) for run in runs if run["result"] not in PASSED | SKIPPED]


def main():
    what, base = (sys.argv[1], sys.argv[2]) if len(sys.argv) > 2 else ("", sys.argv[1])
    if what == "--failed":
        print(*failed_names(base), sep="\n", end="\n" if failed_names(base) else "")
        return
    totals = totals_of(base)
    if what == "--named":
        for kind, lines in (("skipped", totals.skipped), ("repeated", totals.repeated)):
            for line in lines:
                print(f"{kind}: {line}")
    else:
        print(totals.passed, totals.failed, len(totals.skipped), len(totals.repeated))


if __name__ == "__main__":
    main()
