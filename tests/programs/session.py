"""One test: a launcher, a wire, and the children that run on it."""

import dataclasses
import os
import pathlib
from typing import Callable

from children import Children
from wires import WIRES, Skip

HUGEPAGES = pathlib.Path("/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages")
HUGEPAGES_WANTED = 256


class Failure(Exception):
    """What went wrong, in words."""


class Session:
    def __init__(self, uroce, wire, children):
        self.uroce = uroce
        self.wire = wire
        self._children = children
        self._hugepages_before = None

    def start(self, name, side, command, environment=None, run_options=()):
        """Starts `command` under `uroce run` at one side of the wire."""
        line = [*self.wire.prefix(side), self.uroce, "run", "--port", self.wire.port(side), *run_options, "--", *command]
        return self._children.start(name, line, environment)

    def start_plain(self, name, command, environment=None):
        return self._children.start(name, command, environment)

    def expect_exit(self, child, timeout_s):
        if not child.wait(timeout_s):
            raise Failure(f"the {child.name} still runs after {timeout_s:.0f} s")
        if child.crashed():
            raise Failure(f"the {child.name} crashed (exit {child.exit_code})")

    def expect_refusal(self, child, timeout_s, *texts):
        """Ends by itself, not with 0, no crash, and says each of `texts` (any case)."""
        self.expect_exit(child, timeout_s)
        if child.exit_code == 0:
            raise Failure(f"the {child.name} exited 0 although it had to refuse")
        output = child.output().lower()
        for text in texts:
            if text.lower() not in output:
                raise Failure(f'the {child.name} did not say "{text}"')

    def report(self):
        return self._children.report()

    def prepare(self, needs):
        """Makes the machine fit, or raises Skip."""
        if needs != "hugepages":
            return
        if os.geteuid() != 0 or not HUGEPAGES.exists():
            raise Skip("hugepages cannot be reserved here")
        if not any(" hugetlbfs " in line for line in pathlib.Path("/proc/mounts").read_text().splitlines()):
            raise Skip("no hugetlbfs is mounted")
        self._hugepages_before = HUGEPAGES.read_text()
        if int(self._hugepages_before) < HUGEPAGES_WANTED:
            HUGEPAGES.write_text(str(HUGEPAGES_WANTED))
        if int(HUGEPAGES.read_text()) < HUGEPAGES_WANTED:
            self.restore()
            raise Skip(f"the kernel has no {HUGEPAGES_WANTED} hugepages to give")

    def restore(self):
        if self._hugepages_before is not None:
            HUGEPAGES.write_text(self._hugepages_before)
            self._hugepages_before = None


@dataclasses.dataclass(frozen=True)
class Scenario:
    """A test that is a function: `body(session)` raises Failure."""

    name: str
    body: Callable
    wire: str = "memif"
    suite: str = "programs"
    timeout_s: int = 40
    needs: str = ""

    def run(self, uroce):
        with Children() as children, WIRES[self.wire]() as wire:
            session = Session(uroce, wire, children)
            session.prepare(self.needs)
            try:
                self.body(session)
            except Failure:
                print(children.report())
                raise
            finally:
                session.restore()
