"""Runs a program with the shim preloaded and a runtime directory of its own: with_shim.py SHIM PROGRAM ARGS..."""

import os
import shutil
import subprocess
import sys
import tempfile


def main():
    shim, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    # A short path: sockets lie in it, whose names may have 107 characters.
    directory = tempfile.mkdtemp(prefix="uroce-verbs-", dir="/tmp")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    environment.update(LD_PRELOAD=shim, UROCE_RUNTIME_DIR=directory, UROCE_LOG="info")
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
