#!/usr/bin/env python3
"""Runs the library's examples, each with the other side that it is written for, and compares the code that pages show
with that of the examples.

    examples_test.py ROOT BUILDDIR

One of them also talks to a verbs program (apps/examples/endpoints.cc), if that was built.
"""

import os
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import textwrap
import time

PATIENCE_S = 60


class Side:
    """A program in a runtime directory of its own: no other program of this machine is on its segment."""

    def __init__(self, programs, scratch, name, *words):
        self.name = " ".join((str(name), *words))
        program = name if isinstance(name, pathlib.Path) else programs / f"example_{name}"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("UROCE_")}
        environment |= {"UROCE_RUNTIME_DIR": str(scratch), "RUNTIME_DIRECTORY": str(scratch)}
        self.process = subprocess.Popen([str(program), *words], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True, env=environment)

    def says(self, line):
        """Waits for its first line."""
        assert select.select([self.process.stdout], [], [], PATIENCE_S)[0], f"{self.name} says nothing"
        said = self.process.stdout.readline()
        assert said == line, f"{self.name} said {said!r}, not {line!r}: {self.process.stderr.read() if not said else ''}"

    def ends_with(self, text):
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0 and out == text, f"{self.name}: {self.process.returncode}\n{out}{err}"

    def kill(self):
        self.process.kill()
        self.process.wait()


def meet(programs, scratch, name, server_says, client_says, server_words=(), client_words=("127.0.0.1",), client=None):
    """The client retries until the server listens: both programs are started at the same time."""
    server = Side(programs, scratch, name, *server_words)
    try:
        for _ in range(200):
            asks = Side(programs, scratch, client or name, *client_words)
            out, err = asks.process.communicate(timeout=PATIENCE_S)
            if asks.process.returncode == 0 or server.process.poll() is not None:
                break
        assert (asks.process.returncode, out) == (0, client_says), f"{asks.name}: {out}{err}"
        server.ends_with(server_says)
    finally:
        server.kill()


def groups(programs, scratch):
    members = [Side(programs, scratch, "datagrams", "239.1.2.9") for _ in range(2)]
    try:
        for member in members:
            member.says("attached\n")
        Side(programs, scratch, "datagrams", "-s", "239.1.2.9").ends_with("sent 3 datagrams\n")
        for member in members:
            member.ends_with("datagram 1\ndatagram 2\ndatagram 3\n")
    finally:
        for member in members:
            member.kill()


def application(programs, scratch, build):
    """A DPDK application on a port of the segment, with another such application, and with a program that has no
    EAL."""
    plugin = build / "pmd/shmlan/librte_net_shmlan.so"
    if not plugin.exists():
        print("skipped: dpdk_message: net_shmlan was not built, as DPDK's driver headers are missing")
        return

    def words(name):
        return ("-d", str(plugin), "--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry",
                f"--file-prefix=example{os.getpid()}{name}", f"--lcores=0@({','.join(map(str, sorted(os.sched_getaffinity(0))[:8]))})",
                "--vdev=net_shmlan0", "--")
    text = "a message of a DPDK application\n"
    meet(programs, scratch, "dpdk_message", "received: " + text, "sent: " + text, (*words("server"), "198.18.0.1/24"),
         (*words("client"), "198.18.0.2/24", "198.18.0.1"))
    meet(programs, scratch, "dpdk_message", "received: one message\n", "sent: one message\n", (*words("server"), "198.18.0.1/24"),
         ("198.18.0.1",), client="message")


def with_verbs(programs, scratch, build):
    """A librdmacm program that sends three lines and waits for an answer to each. Here it gets none."""
    theirs = build / "apps/examples/example_endpoints"
    if not theirs.exists():
        print("skipped: a verbs program as the peer: it was not built, as librdmacm's headers are missing")
        return
    server = Side(programs, scratch, "message")
    try:
        while server.process.poll() is None:
            client = Side(programs, scratch, build / "apps/uroce", "run", "--", str(theirs), "127.0.0.1")
            while client.process.poll() is None and server.process.poll() is None:
                time.sleep(0.02)
            client.kill()
        server.ends_with("received: one connection,\n")
    finally:
        server.kill()


def refusals(programs, scratch):
    nobody = Side(programs, scratch, "message", "127.0.0.1").process
    out, err = nobody.communicate(timeout=PATIENCE_S)
    assert (nobody.returncode, out) == (1, "") and "nobody listens there" in err, err


def shown_code(root):
    """Each C++ block in README.md and doc/api.md that names an example is contained in it, line by line."""
    shown = 0
    for page in ("README.md", "doc/api.md"):
        for name, block in re.findall(r"\(\S*?apps/examples/library/(\w+\.cc)\)[^`]*```cpp\n(.*?)```", (root / page).read_text(), re.DOTALL):
            source = textwrap.dedent((root / "apps/examples/library" / name).read_text())
            plain = re.sub(r"(?m)^ +", "", source)
            assert re.sub(r"(?m)^ +", "", block) in plain, f"{page} shows code that {name} does not have:\n{block}"
            shown += 1
    assert shown >= 2, f"{shown} blocks are compared"


def main():
    root, build = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    programs = build / "apps/examples/library"
    shown_code(root)
    with tempfile.TemporaryDirectory(prefix="uroce-examples-") as name:
        scratch = pathlib.Path(name)
        refusals(programs, scratch)
        meet(programs, scratch, "message", "received: one message\n", "sent: one message\n")
        meet(programs, scratch, "write", "18 bytes: written from afar\n", "written\n")
        meet(programs, scratch, "read_and_add", "numbers given: 3\n",
             "number 0: the first\nnumber 1: the second\nnumber 2: the third\n")
        meet(programs, scratch, "window", "lent and got back: through the window\n0 packets dropped\n",
             "written\n0 packets dropped\n")
        meet(programs, scratch, "asleep", "message 1\nmessage 2\nmessage 3\n", "sent\n")
        with_verbs(programs, scratch, build)
        groups(programs, scratch)
        application(programs, scratch, build)
    print("the examples run as they are written")


if __name__ == "__main__":
    main()
