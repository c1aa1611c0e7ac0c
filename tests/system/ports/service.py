#!/usr/bin/env python3
"""Checks that systemd accepts uroced's unit and finds its sandbox tight. No service is started.

    service.py UNIT
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIP = 77
EXPOSURE_MOST = 4.0  # on systemd's own scale, from 0 (nothing exposed) to 10


def main():
    (unit,) = (pathlib.Path(word) for word in sys.argv[1:])
    if shutil.which("systemd-analyze") is None:
        print("skipped: systemd-analyze is not installed")
        return SKIP
    with tempfile.TemporaryDirectory() as folder:
        # The programs that it starts are built, but not installed.
        copy = pathlib.Path(folder) / unit.name
        copy.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", unit.read_text(), flags=re.M))
        done = subprocess.run(["systemd-analyze", "verify", copy], capture_output=True, text=True, check=False)
        assert done.returncode == 0 and not done.stderr.strip(), f"verify: {done.stdout}{done.stderr}"
        done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager", copy], capture_output=True, text=True,
                              check=False)
    level = re.search(r"Overall exposure level for \S+: ([\d.]+)", done.stdout)
    assert level, done.stdout + done.stderr
    assert float(level[1]) <= EXPOSURE_MOST, f"exposure {level[1]}, {EXPOSURE_MOST} at most"
    print(f"exposure {level[1]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
