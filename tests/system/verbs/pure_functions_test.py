"""The shim's tables and conversions say what the distribution's libibverbs says: pure_functions_test.py SHIM PROGRAM."""

import os
import subprocess
import sys


def lines_of(program, preload):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if preload:
        environment["LD_PRELOAD"] = os.path.abspath(preload)
    return subprocess.run([program], env=environment, check=True, capture_output=True, text=True).stdout.splitlines()


def main():
    shim, program = sys.argv[1:]
    ours, theirs = lines_of(program, shim), lines_of(program, None)
    if len(theirs) < 700:
        print(f"only {len(theirs)} lines: this test is looking at nothing")
        return 1
    differences = [f"ours:   {a}\ntheirs: {b}" for a, b in zip(ours, theirs) if a != b]
    print("\n".join(differences))
    return 0 if not differences and len(ours) == len(theirs) else 1


if __name__ == "__main__":
    sys.exit(main())
