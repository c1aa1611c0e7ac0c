#!/usr/bin/env python3
"""Runs programs through uroce-switch, one test per call.

    run_switch.py --list                                     name, suite, timeout and company of every test
    run_switch.py --uroce PATH --switch PATH NAME...         runs these tests; exit 0 passed, 1 failed, 77 skipped
    run_switch.py --uroce PATH --switch PATH --like TEXT     runs every test whose name contains TEXT
"""

import argparse
import signal
import sys
import time

sys.dont_write_bytecode = True

from lab import Skip, Tools  # noqa: E402
from scenarios import SCENARIOS, Failure  # noqa: E402

SKIP = 77


def run_one(scenario, tools):
    started = time.monotonic()
    try:
        scenario.body(tools)
        code, text = 0, "passed"
    except Skip as skip:
        code, text = SKIP, f"skipped: {skip}"
    except Failure as failure:
        code, text = 1, f"FAILED: {failure}"
    print(f"{scenario.name}: {text} ({time.monotonic() - started:.1f} s)", flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--uroce", default="uroce")
    parser.add_argument("--switch", default="uroce-switch")
    parser.add_argument("--like")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if arguments.list:
        for scenario in SCENARIOS:
            print(f"{scenario.name} {scenario.suite} {scenario.timeout_s} {scenario.company}")
        return 0
    by_name = {scenario.name: scenario for scenario in SCENARIOS}
    names = arguments.names or [name for name in by_name if arguments.like is not None and arguments.like in name]
    unknown = [name for name in names if name not in by_name]
    if unknown or not names:
        print(f"no such test: {' '.join(unknown) or '(none named)'}; see --list", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it, and children inherit that
    codes = [run_one(by_name[name], Tools(arguments.uroce, arguments.switch)) for name in names]
    return 1 if 1 in codes else (SKIP if all(code == SKIP for code in codes) else 0)


if __name__ == "__main__":
    sys.exit(main())
