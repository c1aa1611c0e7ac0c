#!/usr/bin/env python3
"""Does every claim of SECURITY.md name tests that exist?

    claims.py ROOT

A claim is an item of a list ("- ..."). It ends with "Held by" and at least one link whose text is the name of a test in
the file that the link leads to:

    gtest           `Suite.Name` in a .cc file that has TEST(Suite, Name), TEST_F or TEST_P
    packet script   `name` of a file name.rdrill, which a folder of tests/conformance/scripts holds
    anything else   `name` of a function or class of a .py file, or of a test('name' of a meson.build

What the project does not promise stands under "Not promised", and needs no test.
"""

import pathlib
import re
import sys

EXEMPT = "Not promised"
LINK = re.compile(r"\[`([^`]+)`\]\(([^)]+)\)")


def claims(text):
    """(line number, heading, the whole item) for every item of a list."""
    found, heading = [], ""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("#"):
            heading = line.lstrip("# ")
        if re.match(r"[-*] ", line):
            found.append([number, heading, line])
        elif found and line.startswith("  ") and line.strip():
            found[-1][2] += " " + line.strip()
    return found


def missing(root, name, target):
    """What is wrong with the link, or None."""
    path = root / target
    if not path.is_file():
        return f"{target} does not exist"
    if path.suffix == ".rdrill":
        return None if path.stem == name and path.parent.parent == root / "tests/conformance/scripts" else f"{target} is not a script {name}"
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".cc":
        suite, _, test = name.partition(".")
        pattern = rf"TEST(_F|_P)?\({re.escape(suite)},\s*{re.escape(test)}\)"
    elif path.suffix == ".py":
        pattern = rf"^\s*(def|class) {re.escape(name)}\b"
    else:
        pattern = rf"test\('{re.escape(name)}'"
    return None if re.search(pattern, text, re.MULTILINE) else f"{target} has no test {name}"


def problems(root, text):
    found = []
    items = claims(text)
    for number, heading, item in items:
        if heading == EXEMPT:
            continue
        _, _, holders = item.partition("Held by")
        links = LINK.findall(holders)
        if not links:
            found.append(f"line {number}: a claim without a test: {item[:80]}")
        found += [f"line {number}: {what}" for what in (missing(root, *link) for link in links) if what]
    if not any(heading != EXEMPT for _, heading, _ in items):
        found.append("no claims were found")
    return found


def self_test(root):
    """Each kind of fault is found: a checker that finds nothing would pass everything."""
    good = "- A. Held by [`IcrcTest.None`](SECURITY.md)."
    cases = {
        "": "no claims",
        "- A.": "without a test",
        good: "has no test",
        "- A. Held by [`x`](tests/nowhere.cc).": "does not exist",
        "- A. Held by [`main2`](tests/source/security/claims.py).": "has no test",
        "- A.\n  Held by [`main`](tests/source/security/claims.py).": None,
        f"## {EXEMPT}\n- A.\n## B\n- B. Held by [`main`](tests/source/security/claims.py)": None,
    }
    for text, expected in cases.items():
        result = problems(root, text)
        if bool(result) != bool(expected) or (expected and not any(expected in line for line in result)):
            sys.exit(f"claims.py does not judge {text!r} as it should: {result}")


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    self_test(root)
    found = problems(root, (root / "SECURITY.md").read_text(encoding="utf-8"))
    for line in found:
        print(f"SECURITY.md, {line}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
