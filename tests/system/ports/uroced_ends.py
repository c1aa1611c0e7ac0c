#!/usr/bin/env python3
"""uroced without a peer at its port: it serves, a signal ends it at once, and it leaves nothing of its own behind.

    uroced_ends.py UROCED
"""

import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.request

PATIENCE_S = 20


def serves(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        assert answer.status == 200, answer.status


def free_port():
    """A port that is unlikely to be taken soon."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def ends(uroced, metrics, how):
    with tempfile.TemporaryDirectory(prefix="uroced-", dir="/tmp") as directory:
        environment = {key: value for key, value in os.environ.items() if not key.startswith("UROCE_")} | {"UROCE_RUNTIME_DIR": directory}
        port = free_port()
        words = ["--metrics", f"127.0.0.1:{port}"] if metrics else []
        program = subprocess.Popen([uroced, "--port", "net_null0", "--addr", "10.0.0.1/24", *words], env=environment, text=True,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        watchdog = threading.Timer(PATIENCE_S, program.kill)
        watchdog.start()
        said = ""
        for line in program.stdout:
            said += line
            if "uroced is ready" in line:
                break
        assert "uroced is ready" in said, said
        own = pathlib.Path(directory) / "dpdk"
        assert any(own.iterdir()), "EAL has files while it runs"
        if metrics:
            serves(port)
        program.send_signal(how)
        said += program.stdout.read()
        code = program.wait()
        watchdog.cancel()
        assert code == 0, f"exit status {code} after {how.name}: {said}"
        left = [str(path) for path in own.rglob("*")]
        assert not left, f"left behind: {left}"


def main():
    (uroced,) = sys.argv[1:]
    for metrics in (False, True):
        for how in (signal.SIGTERM, signal.SIGINT):
            ends(uroced, metrics, how)


if __name__ == "__main__":
    main()
