"""What the programs of this folder have in common: a world of their own, the endpoint in it, and a report."""

import contextlib
import os
import sys
import tempfile
import time

from rig import Rig, Trouble

from isolation import CannotIsolate, run_isolated
from wires import SKIP

LOG_LINES = 30


@contextlib.contextmanager
def running(uroce, target, log):
    rig = Rig(uroce, target, log)
    try:
        yield rig
    finally:
        code = rig.target.stop()
    if code != 0:
        raise Trouble(f"the target ended with {code}")


def _report(trial):
    for label, count in sorted(trial.labels.items()):
        print(f"{count:8} {label}")
    for problem in trial.problems:
        print(f"FAILED: {problem}")
    print(f"{trial.frames} frames as expected, {len(trial.problems)} problems")
    return 1 if trial.problems else 0


def _body(run, log):
    begun = time.monotonic()
    try:
        code = _report(run(*sys.argv[1:3], log))
    except Trouble as trouble:
        print(f"FAILED: {trouble}")
        code = 1
    if code != 0:
        log.seek(0)
        print("--- the endpoint's last words")
        print(b"".join(log.readlines()[-LOG_LINES:]).decode(errors="replace"))
    print(f"{time.monotonic() - begun:.1f} s")
    return code


def main(run):
    """`run(uroce, target, log)` returns a Trial."""
    if os.geteuid() != 0 or not os.path.exists("/dev/net/tun"):
        print("skipped: TAP interfaces and namespaces need root and /dev/net/tun")
        return SKIP
    try:
        with tempfile.TemporaryFile() as log:
            return run_isolated(lambda: _body(run, log))
    except CannotIsolate as reason:
        print(f"skipped: {reason}")
        return SKIP
