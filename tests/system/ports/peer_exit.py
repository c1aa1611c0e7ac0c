#!/usr/bin/env python3
"""A peer on the shared memory wire goes away in the middle of traffic, again and again; the survivor must neither crash
nor stop, and must be connected again with the next peer.

    peer_exit.py WIRE_FLOOD [--rounds N] [--survivor connects]
    peer_exit.py WIRE_FLOOD --reopens N

With `--reopens` the peer stays one process that closes its endpoint and opens it again. Else half of the peers are killed, half end by themselves. The survivor listens on the wire, or with `--survivor connects`
is the end that has to connect again.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time


class Flood:
    """One end of the wire, with its last report."""

    def __init__(self, program, runtime_dir, role, *words):
        socket = pathlib.Path(runtime_dir) / "wire.sock"
        if role == "server":
            socket.unlink(missing_ok=True)  # left by a killed program
        port = f"net_memif0,role={role},socket={socket},socket-abstract=no,bsize=4352,rsize=8"
        environment = dict(os.environ, UROCE_RUNTIME_DIR=runtime_dir, UROCE_PORT=port)
        self.process = subprocess.Popen(
            [program, *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        if self.process.stdout.readline().strip() != "ready":
            raise RuntimeError(f"{program} did not start: {self.process.stderr.read()}")

    def report(self):
        """The newest of the reports that it prints about ten times a second: frames received and links that came up."""
        line = self.process.stdout.readline()
        match = re.fullmatch(r"received (\d+) sent \d+ links (\d+)\n", line)
        if not match:
            self.process.wait()
            raise AssertionError(f"ended with {self.process.returncode}: {line}{self.process.stderr.read()}")
        return int(match[1]), int(match[2])

    def wait_for_traffic(self, received, links, seconds=10):
        """Waits until more than `received` frames have arrived, over more than `links` links."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.report()
            if now[0] > received and now[1] > links:
                return now
        raise AssertionError(f"no traffic from the new peer within {seconds} s: {now}, was {(received, links)}")

    def end(self):
        self.process.kill()
        self.process.wait()


def reopen(program, times, runtime_dir):
    """One process opens and closes its end again and again; the other end sees each link."""
    survivor = Flood(program, runtime_dir, "server", "0")
    peer = Flood(program, runtime_dir, "client", "1", str(times))
    try:
        received, links = 0, 0
        while links < times:
            received, links = survivor.wait_for_traffic(received, links)
        peer.process.communicate(timeout=30)
        assert peer.process.returncode == 0, peer.process.returncode
        print(f"opened {times} times, {links} links, {received} frames received")
    finally:
        survivor.end()
        peer.end()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--survivor", choices=["listens", "connects"], default="listens")
    parser.add_argument("--reopens", type=int, default=0)
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as runtime_dir:
        if options.reopens:
            reopen(options.program, options.reopens, runtime_dir)
            return
        roles = ("client", "server") if options.survivor == "connects" else ("server", "client")
        # An end that connects needs a listener when its port is made.
        peer = Flood(options.program, runtime_dir, roles[1], "0") if options.survivor == "connects" else None
        survivor = Flood(options.program, runtime_dir, roles[0], "0")
        received, links = 0, 0
        try:
            for number in range(options.rounds):
                if peer is None:
                    peer = Flood(options.program, runtime_dir, roles[1], "0")
                received, links = survivor.wait_for_traffic(received, links)
                # Not always at the same phase of a report.
                time.sleep((number * 37 % 50) / 1000)
                peer.process.send_signal(signal.SIGKILL if number % 2 == 0 else signal.SIGTERM)
                peer.process.wait()
                peer.process.stdout.close()
                peer.process.stderr.close()
                peer = None
            received, _ = survivor.report()
            print(f"{options.rounds} peers came and went, {links} links, {received} frames received")
        finally:
            survivor.end()
            if peer is not None:
                peer.end()


if __name__ == "__main__":
    sys.exit(main())
