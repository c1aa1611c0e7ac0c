"""Every program says its version, and refuses what it cannot do in one line and with exit code 2.

    command_lines.py BUILD PROGRAM...
"""

import os
import pathlib
import subprocess
import sys

# Program, arguments, and what the one line must say.
REFUSED = [
    ("uroce", ["run"], "--"),
    ("uroce", ["run", "--port", "lo", "--", "true"], "net_af_packet0,iface=lo"),
    ("uroce", ["run", "--port", "no_such0", "--", "true"], "no such driver"),
    ("uroce", ["nonsense"], "uroce --help"),
    ("uroce-switch", ["--ports", "1"], "more --port"),
    ("uroce-switch", ["--ports", "x"], "uroce-switch --help"),
    ("uroced", ["--port", "lo"], "net_af_packet0,iface=lo"),
    ("uroce-ping", [], "which host?"),
    ("uroce-ping", ["--serve", "192.0.2.1"], "takes no HOST"),
    ("uroce-lint", [], "which capture"),
    ("uroce-replay", [], "which capture"),
    ("uroce-drill", [], "uroce-drill --help"),
    ("mqnic-card", [], "--socket"),
    ("uroce-sim", ["--topology", "ring-of-bells"], "ring-of-bells"),
]


def run(build, program, *words):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("UROCE_")}
    return subprocess.run([build / program, *words], capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL,
                          env=environment)


def main():
    build, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]
    there = {path.name for path in build.iterdir() if path.is_file() and os.access(path, os.X_OK) and path.suffix == ""}
    assert there == set(programs), f"built are {sorted(there)}, tested would be {sorted(programs)}"
    versions = set()
    for program in programs:
        told = run(build, program, "--version")
        name, _, version = told.stdout.rstrip("\n").partition(" ")
        assert (told.returncode, told.stderr, name) == (0, "", program) and told.stdout.count("\n") == 1, told
        versions.add(version)
        told = run(build, program, "--help")
        assert told.returncode == 0 and told.stderr == "" and "--version" in told.stdout, told
    assert len(versions) == 1 and versions.pop()[:1].isdigit(), "one version of all"
    for program, words, says in REFUSED:
        told = run(build, program, *words)
        lines = told.stderr.splitlines()
        assert told.returncode == 2 and len(lines) == 1, (program, words, told)
        assert lines[0].startswith(program + ": ") and says in lines[0], (program, words, told)
        assert told.stdout == "", (program, words, told)


if __name__ == "__main__":
    main()
