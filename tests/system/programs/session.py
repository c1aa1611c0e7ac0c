"""One test: a launcher, a wire, and the children that run on it."""

import contextlib
import dataclasses
import os
import pathlib
import subprocess
import tempfile
import time
from typing import Callable

from children import Children, free_tcp_port, wait_for_listener
from wires import WIRES, Skip

HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
HUGEPAGES_WANTED = 256


class Failure(Exception):
    """What went wrong, in words."""


class Session:
    def __init__(self, uroce, wire, children):
        self.uroce = uroce
        self.wire = wire
        self.children = children
        self._hugepages_before = None
        self._mounted = None

    def start(self, name, side, command, environment=None, run_options=()):
        """Starts `command` under `uroce run` at one side of the wire."""
        line = [*self.wire.prefix(side), self.uroce, "run", "--port", self.wire.port(side), *run_options, "--", *command]
        return self.children.start(name, line, environment)

    def start_plain(self, name, command, environment=None):
        return self.children.start(name, command, environment)

    def start_pair(self, words, options=((), ()), environment=None):
        """Server and client of a program that takes `-p PORT`, and at the client the server's address. `options`: of
        `uroce run`, at either side."""
        port = str(free_tcp_port())
        words = [*words, "-p", port]
        server = self.start("server", 0, words, environment, options[0])
        if not wait_for_listener(server, int(port), 20):
            raise Failure("the server did not get as far as listening")
        return server, self.start("client", 1, [*words, self.wire.tcp_address(0)], environment, options[1])

    def wait_for_end(self, child, timeout_s):
        if not child.wait(timeout_s):
            raise Failure(f"the {child.name} still runs after {timeout_s:.0f} s")

    def expect_exit(self, child, timeout_s):
        self.wait_for_end(child, timeout_s)
        if child.crashed():
            raise Failure(f"the {child.name} crashed (exit {child.exit_code})")

    def expect_refusal(self, child, timeout_s, *texts):
        """The program ends by itself, with an exit code other than 0, without a crash, and prints each of `texts` (in
        any case)."""
        self.expect_exit(child, timeout_s)
        if child.exit_code == 0:
            raise Failure(f"the {child.name} exited 0 although it had to refuse")
        output = child.output().lower()
        for text in texts:
            if text.lower() not in output:
                raise Failure(f'the {child.name} did not say "{text}"')

    def prepare(self, needs):
        """Makes the machine suitable, or raises Skip. `restore` undoes it."""
        if needs != "hugepages":
            return
        if os.geteuid() != 0 or not HUGEPAGES.exists():
            raise Skip("hugepages cannot be reserved here")
        try:
            self._reserve_hugepages()
        except (OSError, subprocess.CalledProcessError) as error:
            self.restore()
            raise Skip(f"hugepages cannot be reserved here: {error}") from error

    def _reserve_hugepages(self):
        self._hugepages_before = HUGEPAGES.read_text()
        if int(self._hugepages_before) < HUGEPAGES_WANTED:
            HUGEPAGES.write_text(str(HUGEPAGES_WANTED))
        if int(HUGEPAGES.read_text()) < HUGEPAGES_WANTED:
            raise OSError(f"the kernel has no {HUGEPAGES_WANTED} pages to give")
        if not any(" hugetlbfs " in line for line in pathlib.Path("/proc/mounts").read_text().splitlines()):
            folder = tempfile.mkdtemp(prefix="uroce-hugepages-")
            subprocess.run(["mount", "-t", "hugetlbfs", "none", folder], check=True, capture_output=True)
            self._mounted = folder

    def restore(self):
        if self._mounted is not None:
            subprocess.run(["umount", self._mounted], check=False, capture_output=True)
            os.rmdir(self._mounted)
            self._mounted = None
        if self._hugepages_before is not None:
            for _ in range(20):  # the pages of a process that has just ended are returned a little later
                HUGEPAGES.write_text(self._hugepages_before)
                if HUGEPAGES.read_text() == self._hugepages_before:
                    break
                time.sleep(0.1)
            self._hugepages_before = None


@contextlib.contextmanager
def session_on(uroce, wire_name, needs):
    """A session on a suitable machine; its children's output is printed when it fails. Everything is restored
    afterwards."""
    with WIRES[wire_name]() as wire:
        session = Session(uroce, wire, Children())
        session.prepare(needs)
        try:
            yield session
        except Failure:
            print(session.children.report())
            raise
        finally:
            session.children.stop()
            session.restore()


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A test that is a function: `body(session)` raises Failure."""

    name: str
    body: Callable
    wire: str = "segment"
    suite: str = "programs"
    timeout_s: int = 40
    needs: str = ""
    company: str = "beside"  # other tests; or "alone", as what is measured needs both CPUs

    def run(self, uroce):
        with session_on(uroce, self.wire, self.needs) as session:
            self.body(session)
