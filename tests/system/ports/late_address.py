#!/usr/bin/env python3
"""On the default port, programs reach each other at an address that the machine got after they had started.

    late_address.py UROCE
"""

import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from meetings import SKIP, Machine, read_until  # noqa: E402

FIRST, LATER = "10.8.1.1", "10.8.2.1"


def ip(*words):
    subprocess.run(["ip", *words], check=True)


def pings(machine, address, port):
    status, output = machine.run("rping", "-c", "-a", address, "-C", "2", "-p", port)
    assert status == 0, (address, status, output)


def addresses_come(uroce, first):
    """The machine has the address `first`, or none but loopback, when the server starts."""
    with Machine(uroce) as machine:
        ip("link", "add", "wire0", "type", "veth", "peer", "name", "wire1")
        for name in ("wire0", "wire1"):
            ip("link", "set", name, "up")
        if first:
            ip("addr", "add", f"{first}/24", "dev", "wire0")
        port = "7611"
        server = machine.start_run("rping", "-s", "-P", "-p", port, environment=machine.environment(UROCE_LOG="info"))
        read_until(server, ["connections to port"])
        pings(machine, "127.0.0.1", port)
        ip("addr", "add", f"{LATER}/24", "dev", "wire0")
        read_until(server, [f"address {LATER}/24 is new"])  # the others were told first
        for address in (*([first] if first else []), "127.0.0.1", LATER):
            pings(machine, address, port)
        assert server.poll() is None
    ip("link", "del", "wire0")


def main():
    (uroce,) = sys.argv[1:]
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: interfaces of one's own need root and a network namespace")
        sys.exit(SKIP)
    if "INSIDE" not in os.environ:
        os.execvpe("unshare", ["unshare", "--net", sys.executable, "-B", *sys.argv], dict(os.environ, INSIDE="1"))
    ip("link", "set", "lo", "up")
    for first in (FIRST, ""):
        addresses_come(uroce, first)


if __name__ == "__main__":
    main()
