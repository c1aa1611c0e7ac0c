"""Debian's dpdk-testpmd in the guest, driven through its prompt."""

import re
import time

from traffic import Failure

PROMPT = "testpmd> "
TIMEOUT_S = 40


class Testpmd:
    """One process. Leaving its `with` block ends it with `quit`, which must succeed too."""

    def __init__(self, machine, address, *eal, port=()):
        self._machine = machine
        # Two lcores on one CPU: one for the prompt, one that forwards.
        self._command = (
            "rm -f /tmp/typed; mkfifo /tmp/typed; sleep 600 >/tmp/typed & LD_PRELOAD=/lib/libstdbuf.so _STDBUF_O=L dpdk-testpmd --lcores=0@0,1@0 "
            f"--in-memory {' '.join(eal)} --no-telemetry -d /lib/librte_mempool_ring.so -d /lib/librte_net_mqnic.so -a {address} -- "
            f"-i --no-lsc-interrupt --disable-link-check --total-num-mbufs=4096 {' '.join(port)} 2>&1 </tmp/typed")
        self._program = None

    def __enter__(self):
        self._program = self._machine.start_program("testpmd", self._command)
        try:
            self._wait_for(PROMPT, 0, "its start")
        except Failure:
            self._program.stop()
            raise
        return self

    def __exit__(self, kind, *exception):
        try:
            if kind is None:
                self._type("quit")
                self._wait_for("Bye...", 0, "quit")
        finally:
            self._program.stop()

    def __call__(self, command):
        """Types a command; returns what it printed."""
        begin = len(self._program.output())
        self._type(command)
        self._wait_for(PROMPT, begin, command)
        text = self._program.output()[begin:]
        if "Bad arguments" in text or "Command not found" in text:
            raise Failure(f"testpmd does not know '{command}': {text}")
        return text

    def until(self, command, pattern):
        """Repeats the command until the output contains this."""
        deadline = time.monotonic() + TIMEOUT_S
        while not re.search(pattern, text := self(command)):
            if time.monotonic() > deadline:
                raise Failure(f"'{command}' never shows {pattern}: {text}")

    def _type(self, command):
        self._machine.run(f"echo '{command}' >/tmp/typed")

    def _wait_for(self, text, begin, what):
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self._program.output()[begin:]:
            if time.monotonic() > deadline or self._program.wait(0.05):
                raise Failure(f"testpmd does not answer to {what}:\n{self._program.output()[-3000:]}")
