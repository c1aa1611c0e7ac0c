"""A program that is built with the thread sanitizer is silent with the suppression that doc/debugging.md names, and what it
does wrong itself is still reported.

    tsan_test.py DOC WITH_SHIM SHIM PROGRAM
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

REPORTED = 66


def main():
    doc, *command = sys.argv[1:]
    named = re.search(r"^echo (race:\S+) >tsan\.supp$", pathlib.Path(doc).read_text(encoding="utf-8"), re.MULTILINE)
    if not named:
        print(f"{doc} names no suppression")
        return 1
    failed = False
    with tempfile.TemporaryDirectory(prefix="uroce-tsan-") as folder:
        suppressions = pathlib.Path(folder, "tsan.supp")
        suppressions.write_text(named[1] + "\n", encoding="utf-8")
        environment = {**os.environ, "TSAN_OPTIONS": f"suppressions={suppressions}"}
        for arguments, status, reports in (([], 0, 0), (["race"], REPORTED, 1)):
            done = subprocess.run([sys.executable, "-B", *command, *arguments], env=environment, check=False, capture_output=True, text=True)
            text = done.stdout + done.stderr
            if done.returncode != status or text.count("WARNING: ThreadSanitizer") != reports or "done: 0" not in text:
                print(f"{arguments}: exit status {done.returncode} rather than {status}\n{text}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
