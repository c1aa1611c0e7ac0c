"""The tests that doc/features.md names exist."""

import pathlib
import re
import sys


def main():
    named = set(re.findall(r"`(\w+Test)\.(\w+)`", pathlib.Path(sys.argv[1]).read_text(encoding="utf-8")))
    sources = "".join(path.read_text(encoding="utf-8") for path in pathlib.Path(sys.argv[2]).glob("*_test.cc"))
    there = set(re.findall(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", sources))
    missing = sorted(named - there)
    for suite, test in missing:
        print(f"doc/features.md names a test that is not there: {suite}.{test}")
    print(f"{len(named)} tests named")
    return 1 if missing or len(named) < 40 else 0


if __name__ == "__main__":
    sys.exit(main())
