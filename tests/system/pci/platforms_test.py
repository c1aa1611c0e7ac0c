#!/usr/bin/env python3
"""doc/platforms.md names the drivers that are inside, and those that the steps run: no more, no fewer.

    platforms_test.py FOLDER
"""

import pathlib
import re
import sys

sys.dont_write_bytecode = True

CORUNDUM = "mqnic"


def drivers_inside(root):
    """The drivers that roce/dpdk/static_dpdk puts into the verbs library."""
    text = (root / "roce/dpdk/static_dpdk/meson.build").read_text()
    lists = re.findall(r"dpdk_static_drivers \+?= \[(.*?)\]", text, re.DOTALL)
    return {name for part in lists for name in re.findall(r"'(\w+)'", part)}


def drivers_said(document):
    part = document[document.index("## What is inside"):]
    return set(re.findall(r"\w+", re.sub(r"\s+", " ", part).partition(" are inside;")[0].partition("not run")[2]))


def cards_run(root):
    text = (root / "tests/system/pci/nics.py").read_text()
    return set(re.findall(r'^    Card\("[\w-]+", \d+, "([\w-]+)"', text, re.MULTILINE))


def main():
    root = pathlib.Path(sys.argv[1])
    document = (root / "doc/platforms.md").read_text()
    table = document[document.index("## What was run"):document.index("## What is inside")]
    problems = []
    if wrong := drivers_inside(root) ^ drivers_said(document):
        problems.append(f"drivers inside, or said to be, and not both: {sorted(wrong)}")
    if wrong := cards_run(root) ^ set(re.findall(r"`([\w-]+)`\) \|", table)):
        problems.append(f"cards that are run, or said to be, and not both: {sorted(wrong)}")
    if unknown := set(re.findall(r"\| `(\w+)` \|", table)) - drivers_inside(root) - {CORUNDUM}:
        problems.append(f"drivers that are not inside: {sorted(unknown)}")
    print("\n".join(problems) or "the same")
    return 1 if problems or len(cards_run(root)) < 4 else 0


if __name__ == "__main__":
    sys.exit(main())
