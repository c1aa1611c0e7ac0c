"""dpdk-testpmd as the distribution ships it, driven through its prompt, with a driver of ours as a plugin."""

import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

SKIP = 77  # exit code that Meson counts as "skipped"
PROMPT = b"testpmd> "


class Failure(Exception):
    """What went wrong, in words."""


class Skip(Exception):
    """The machine cannot run this test; the text says why."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


class TrustedPlugin:
    """A driver where EAL accepts it: never below a world-writable directory such as /tmp."""

    def __init__(self, plugin):
        self._folder = None
        self.path = pathlib.Path(plugin).resolve()
        if not any(folder.stat().st_mode & 0o002 for folder in self.path.parents):
            return
        home = pathlib.Path("/run" if os.geteuid() == 0 else os.environ.get("XDG_RUNTIME_DIR", "/nonexistent"))
        if not home.is_dir():
            raise Skip("the build is below a directory that everybody may write to, where EAL loads no drivers from")
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-testpmd-", dir=home)
        self.path = pathlib.Path(shutil.copy(self.path, self._folder.name))

    def close(self):
        if self._folder is not None:
            self._folder.cleanup()


class Bench:
    """What the tests of one run share: the plugin, a folder, unique names."""

    def __init__(self, plugin, server):
        if shutil.which("dpdk-testpmd") is None:
            raise Skip("dpdk-testpmd is not installed")
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-testpmd-")
        self.path = pathlib.Path(self._folder.name)
        self.card_server = server
        self.wire = f"tp{os.getpid()}"
        self._plugin = TrustedPlugin(plugin)
        self.plugin = self._plugin.path
        self.running = []

    def close(self):
        for program in reversed(self.running):
            program.kill()
        self._folder.cleanup()
        self._plugin.close()


class Testpmd:
    """One process. `cards` are the arguments of net_mqnic0, net_mqnic1, ...; `more` are other virtual devices."""

    def __init__(self, bench, cards, *options, more=(), memory_mb=512, lcores=2):
        self._output = b""
        # Each lcore may run on any CPU: a fixed one may be busy with another test, or another testpmd.
        cpus = "@(%s)" % ",".join(str(cpu) for cpu in sorted(os.sched_getaffinity(0)))
        # Its output goes to a pipe: make it line-buffered, as to a terminal.
        line = ["stdbuf", "-oL", "dpdk-testpmd", "--lcores=" + ",".join(f"{lcore}{cpus}" for lcore in range(lcores)), "--no-huge", "-m", str(memory_mb), "--no-pci", "--no-telemetry", "--no-shconf",
                f"--file-prefix={bench.wire}-{len(bench.running)}", "-d", str(bench.plugin)]
        line += [f"--vdev={device}" for device in more]
        line += [f"--vdev=net_mqnic{number},{arguments}" for number, arguments in enumerate(cards)]
        line += ["--", "-i", "--no-lsc-interrupt", "--disable-link-check", *options]
        if not any(option.startswith("--total-num-mbufs") for option in options):
            line.append("--total-num-mbufs=8192")
        self._process = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        bench.running.append(self)
        self._read_until_prompt(30, " ".join(line))

    def __call__(self, command, timeout_s=20):
        """Types a command; returns what it printed."""
        begin = len(self._output)
        self._type(command)
        self._read_until_prompt(timeout_s, command, begin)
        text = self._output[begin:].decode(errors="replace")
        expect("Bad arguments" not in text and "Command not found" not in text, f"testpmd does not know '{command}': {text}")
        return text

    def wait_for_words(self, words, timeout_s=40):
        """Waits until it has printed this without being asked."""
        begin = len(self._output)
        self._read_until(lambda: words.encode() in self._output[begin:], timeout_s, f"waiting for '{words}'")

    def start_talking(self, command, enough, timeout_s=20):
        """Types a command after which the forwarding cores print without end: the prompt arrives character by character
        and may stand between their lines. Reads until `enough()`, and then until the output stops."""
        self._type(command)
        self._read_until(enough, timeout_s, command)
        while select.select([self._process.stdout], [], [], 0.5)[0]:
            self._output += os.read(self._process.stdout.fileno(), 65536)

    def _type(self, command):
        try:
            self._process.stdin.write(command.encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise Failure(f"testpmd is gone before '{command}':\n{self.tail()}") from error

    def _read_until_prompt(self, timeout_s, what, begin=0):
        # The prompt follows once the typed line was echoed and its output printed. Forwarding cores may print after it.
        self._read_until(lambda: PROMPT in self._output[begin:], timeout_s, what)

    def _read_until(self, enough, timeout_s, what):
        deadline = time.monotonic() + timeout_s
        while not enough():
            left = deadline - time.monotonic()
            if left <= 0:
                raise Failure(f"testpmd does not come back from '{what}':\n{self.tail()}")
            if not select.select([self._process.stdout], [], [], left)[0]:
                continue
            data = os.read(self._process.stdout.fileno(), 65536)
            if not data:
                raise Failure(f"testpmd ended at '{what}', exit code {self._process.wait()}:\n{self.tail()}")
            self._output += data

    def tail(self):
        return "\n".join("    " + line for line in self._output.decode(errors="replace").splitlines()[-25:])

    def output(self):
        return self._output.decode(errors="replace")

    def stats(self, port):
        """RX-packets, RX-missed, RX-bytes, RX-errors, TX-packets, TX-errors, TX-bytes, ..."""
        return {name: int(value) for name, value in re.findall(r"([RT]X-[a-z]+): +(\d+)", self(f"show port stats {port}"))}

    def xstats(self, port):
        return {name: int(value) for name, value in re.findall(r"^(\w+): (\d+)\s*$", self(f"show port xstats {port}"), re.MULTILINE)}

    def wait_for(self, what, found, timeout_s=40):
        deadline = time.monotonic() + timeout_s
        while not found():
            expect(time.monotonic() < deadline, f"waited {timeout_s} s for {what}:\n{self.tail()}")
            time.sleep(0.05)

    def wait_until_still(self, port):
        """Waits until no frame is on its way to the port: its count of received frames is the same three times in a
        row."""
        seen = []

        def still():
            seen.append(self.stats(port)["RX-packets"])
            time.sleep(0.15)
            return len(seen) >= 3 and len(set(seen[-3:])) == 1

        self.wait_for("the last frame", still)

    def close_without_leak(self, pools=("mb_pool_0",)):
        """Every port is stopped and closed, then all packet buffers must be back, and the program must end with 0."""
        self("stop")
        self("port stop all")
        self("port close all")
        for pool in pools:
            text = self(f"dump_mempool {pool}")
            numbers = {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", text)}
            expect("populated_size" in numbers, f"no pool {pool}: {text}")
            free = numbers["common_pool_count"] + numbers.get("total_cache_count", 0)
            expect(free == numbers["populated_size"], f"{numbers['populated_size'] - free} buffers of {pool} leaked:\n{text}")
        self.quit()

    def quit(self):
        self._process.stdin.write(b"quit\n")
        self._process.stdin.flush()
        try:
            rest, _ = self._process.communicate(timeout=40)
        except subprocess.TimeoutExpired as error:
            raise Failure("testpmd does not end at quit") from error
        self._output += rest
        expect(self._process.returncode == 0, f"testpmd exits with {self._process.returncode}:\n{self.tail()}")

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            try:
                pipe.close()
            except OSError:
                pass


class CardServer:
    """An mqnic-card process: a card served over vfio-user."""

    def __init__(self, bench, name, *options):
        self.socket = bench.path / f"{name}.sock"
        self._process = subprocess.Popen([bench.card_server, "--socket", str(self.socket), *options],
                                         stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        bench.running.append(self)
        deadline = time.monotonic() + 10
        while not self.socket.exists():
            expect(self._process.poll() is None and time.monotonic() < deadline, "mqnic-card does not start")
            time.sleep(0.01)

    def kill(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdout.close()

    def end(self):
        """Asks it to end; returns what it printed."""
        self._process.terminate()
        text, _ = self._process.communicate(timeout=10)
        expect(self._process.returncode == 0, f"mqnic-card exits with {self._process.returncode}: {text.decode()}")
        return text.decode()


def main(tests, arguments):
    """SCRIPT --list | PLUGIN CARD-SERVER NAME...   (CARD-SERVER is "-" where no test needs one)"""
    if arguments == ["--list"]:
        print("\n".join(tests))
        return 0
    if len(arguments) < 3 or any(name not in tests for name in arguments[2:]):
        print(main.__doc__, file=sys.stderr)
        return 2
    worst = 0
    for name in arguments[2:]:
        bench = None
        started = time.monotonic()
        try:
            bench = Bench(arguments[0], arguments[1])
            tests[name](bench)
            code, text = 0, "passed"
        except Skip as skip:
            code, text = SKIP, f"skipped: {skip}"
        except Failure as failure:
            code, text = 1, f"FAILED: {failure}"
        finally:
            if bench is not None:
                bench.close()
        print(f"{name}: {text} ({time.monotonic() - started:.1f} s)", flush=True)
        worst = max(worst, code) if code != SKIP or worst == 0 else worst
    return worst
