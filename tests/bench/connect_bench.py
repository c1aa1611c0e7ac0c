#!/usr/bin/env python3
"""Connections a second by rdma_cm: Debian's cmtime with itself over the default port, beside TCP connections of the
kernel over loopback, in one run.

    connect_bench.py --uroce build/apps/uroce [--connections 300] [--rounds 3]

cmtime makes all its connections step by step (all addresses, all routes, all queue pairs, all connects); its last column
is microseconds of each step for one connection. TCP connects one after the other, from Python, which costs 10 to 20 us
of each. Both ends of either share the machine.
"""

import argparse
import os
import pathlib
import re
import shutil
import socket
import statistics
import sys
import threading
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "system" / "programs"))

from children import Children  # noqa: E402

LISTENS = "of RDMA port space"
STEPS = ("resolve addr", "resolve route", "create qp", "connect", "disconnect")


def cmtime(uroce, connections, name):
    """Microseconds of each step for one connection."""
    run = [uroce, "run", "--port", f"shmlan:{name}", "--"]
    with Children() as children:
        server = children.start("server", [*run, "cmtime", "-c", str(connections)], dict(os.environ, UROCE_LOG="info"))
        if not server.wait_for_output(LISTENS, 30):
            raise SystemExit(f"the server does not listen\n{children.report()}")
        client = children.start("client", [*run, "cmtime", "-c", str(connections), "-s", "127.0.0.1"])
        if not client.wait(120) or client.exit_code != 0:
            raise SystemExit(f"the client has not ended, or not well\n{children.report()}")
        table = dict(re.findall(r"^([a-z ]+?) *:.* ([0-9.]+)\s*$", client.output(), re.MULTILINE))
    return {step: float(table[step]) for step in STEPS}


def tcp(connections):
    """Microseconds of one connect, while another thread accepts."""
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as server:
        accepted = []

        def accept():
            for _ in range(connections):
                accepted.append(server.accept()[0])

        thread = threading.Thread(target=accept)
        thread.start()
        begun = time.monotonic()
        clients = [socket.create_connection(server.getsockname()) for _ in range(connections)]
        took = time.monotonic() - begun
        thread.join()
        for one in clients + accepted:
            one.close()
    return took / connections * 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--uroce", required=True)
    parser.add_argument("--connections", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    if shutil.which("cmtime") is None:
        print("skipped: cmtime is not installed (package rdmacm-utils)")
        return 77
    ours, theirs = [], []
    for number in range(args.rounds):
        steps = cmtime(args.uroce, args.connections, f"connect-{os.getpid()}-{number}")
        theirs.append(tcp(args.connections))
        ours.append(steps["connect"])
        print("round {}: ".format(number + 1) + ", ".join(f"{step} {value:.1f} us" for step, value in steps.items()) +
              f"; TCP {theirs[-1]:.1f} us")
    one, other = statistics.median(ours), statistics.median(theirs)
    print(f"connect: {1e6 / one:.0f} a second; TCP over loopback: {1e6 / other:.0f} a second; ratio {other / one:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
