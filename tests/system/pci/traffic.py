"""Programs between the guest and this machine: a server here, a client in the guest, both over uroce."""

import dataclasses
import itertools
import re
import time

import lab
from children import wait_for_listener
from outputs import trouble

LISTEN_TIMEOUT_S = 20
VLAN = 100
HOST, GUEST = "10.9.0.1", "10.9.0.2"
HOST_ON_VLAN, GUEST_ON_VLAN = "10.8.0.1", "10.8.0.2"
_tcp_ports = itertools.count(18600)


class Failure(Exception):
    """What went wrong, in words."""


@dataclasses.dataclass
class Bench:
    """What all steps share."""

    uroce: object
    children: object
    machine: object


def addresses(plain, on_vlan):
    return ["--addr", f"{plain}/24", "--addr", f"{on_vlan}/24@{VLAN}"]


def counters(text):
    """An endpoint's final counters, from its log."""
    lines = " ".join(re.findall(r"uroce: counted: (.*)", text))
    return {name: int(value) for name, value in re.findall(r"(\w+) (\d+)", lines)}


class Pair:
    """One program at both ends. Leaving the `with` ends both."""

    def __init__(self, bench, here, card, program, options, run=(), over_cm=False, target="", settings=""):
        """`here`: our port on this machine; `card`: the PCI address of the guest's card. `target`: the server's address
        as the client gets it; by default, the address at which the kernels reach each other. `settings`: the client's
        environment, in shell syntax."""
        self._bench = bench
        self._here, self._card = here, card
        self._program = program
        self._port = next(_tcp_ports)
        self._options = [*options, "-p", str(self._port)]
        self._run = list(run)
        self._over_cm = over_cm
        self._target = target or lab.HOST_CONTROL
        self._settings = f"UROCE_LOG=info {settings}"
        self.server = self.client = None

    def __enter__(self):
        log = {"UROCE_LOG": "info"}
        server = ["-s"] if self._over_cm else []
        client = ["-c", "-a", self._target] if self._over_cm else [self._target]
        self.server = self._bench.children.start("server (here)", [
            self._bench.uroce, "run", "--port", self._here, *addresses(HOST, HOST_ON_VLAN), *self._run, "--",
            self._program, *server, *self._options], log)
        listens = (self.server.wait_for_output(f"connections to port {self._port} ", LISTEN_TIMEOUT_S) if self._over_cm
                   else wait_for_listener(self.server, self._port, LISTEN_TIMEOUT_S))
        if not listens:
            raise self.failure("the server did not get as far as listening")
        words = ["uroce", "run", "--port", self._card, *addresses(GUEST, GUEST_ON_VLAN), *self._run, "--",
                 self._program, *self._options, *client]
        self.client = self._bench.machine.start_program("client (guest)", f"{self._settings} {' '.join(words)}")
        return self

    def __exit__(self, *exception):
        for program in (self.client, self.server):
            if program is not None:
                program.stop()

    def wait_for_traffic(self, moved, enough, timeout_s):
        """Waits until `moved()` has grown by this much: perftest prints nothing before the end."""
        deadline = time.monotonic() + timeout_s
        before = moved()
        while (now := moved()) < before + enough:
            if time.monotonic() > deadline or self.client.wait(0.02):
                raise self.failure(f"there was no traffic to speak of: {now - before} of {enough}")

    def failure(self, what):
        text = "\n".join(f"--- {program.name}: {' '.join(program.command)} (exit {program.exit_code})\n"
                         f"{program.output().rstrip()}" for program in (self.server, self.client) if program is not None)
        return Failure(f"{what}\n{text}\n--- the guest's kernel\n{self._bench.machine.messages().rstrip()}")

    def judge(self, timeout_s, check=lambda text: ()):
        """Waits for both; Failure unless both ended well and neither `check(the client's output)` nor the outputs
        report trouble. Returns the guest endpoint's counters."""
        for program in (self.client, self.server):
            if not program.wait(timeout_s if program is self.client else 5):
                raise self.failure(f"the {program.name} still runs")
        problems = [f"{end.name}: exit code {end.exit_code}" for end in (self.server, self.client) if end.exit_code != 0]
        problems += [f"{end.name}: {text}" for end in (self.server, self.client) for text in trouble(end.output())]
        problems += check(self.client.output())
        counted = counters(self.client.output())
        # The payload was compared at both ends, but that does not show frames that were damaged and sent again.
        problems += [f"the guest counted {name} {counted[name]}" for name in ("rx_drop_bad_icrc", "rx_drop_truncated")
                     if name in counted]
        if problems:
            raise self.failure("; ".join(problems))
        return counted
