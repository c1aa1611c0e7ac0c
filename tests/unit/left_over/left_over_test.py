#!/usr/bin/env python3
"""left_over_test.py CARELESS: of tests that leave something, each fails for that, and one that does not passes."""

import os
import re
import subprocess
import sys
import tempfile

with tempfile.TemporaryDirectory() as place:
    run = subprocess.run([os.path.abspath(sys.argv[1])], cwd=place, capture_output=True, text=True, timeout=60, check=False)
failed = sorted(set(re.findall(r"^\[  FAILED  \] (\w+\.\w+) \(", run.stdout, re.MULTILINE)))
expected = ["Careless.LeavesAChild", "Careless.LeavesADescriptor", "Careless.LeavesSharedMemory", "Careless.StandsElsewhere"]
if failed != expected or run.returncode != 1 or "/dev/null" not in run.stdout:
    print(run.stdout, run.stderr)
    sys.exit(f"failed: {failed}; expected: {expected}")
