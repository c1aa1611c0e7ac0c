"""Child processes with a deadline, and their output. Processes of others are not touched."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time


class Child:
    """A program in its own process group, with its output in files (a pipe would block it when it is not read). Not in
    its own session: Linux schedules sessions as groups (autogroup), and one that polls starves another."""

    def __init__(self, name, command, environment=None, keep_fds=()):
        self.name = name
        self.command = [str(word) for word in command]
        self._out = tempfile.TemporaryFile(mode="w+b")
        self._process = subprocess.Popen(
            self.command, stdin=subprocess.DEVNULL, stdout=self._out, stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})}, process_group=0, pass_fds=keep_fds)

    @property
    def pid(self):
        return self._process.pid

    @property
    def exit_code(self):
        """None while it runs; negative: killed by that signal."""
        return self._process.poll()

    def wait(self, timeout_s):
        """True when the program has ended within the time."""
        try:
            self._process.wait(timeout_s)
            return True
        except subprocess.TimeoutExpired:
            return False

    def output(self):
        # Not with seek and read: the program writes at the same file position, and would overwrite its earlier output.
        size = os.fstat(self._out.fileno()).st_size
        return os.pread(self._out.fileno(), size, 0).decode(errors="replace")

    def wait_for_output(self, text, timeout_s):
        """True once the program has printed `text`; False when it ended or the time expired without it."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            if text in self.output():
                return True
            if self.exit_code is not None:
                return text in self.output()
            time.sleep(0.02)
        return False

    def signal(self, number):
        """To the whole group: the launcher may have children of its own."""
        if self.exit_code is None:
            try:
                os.killpg(self.pid, number)
            except ProcessLookupError:
                pass

    def stop(self):
        """Ends the program, with SIGTERM first. Always safe to call."""
        self.signal(signal.SIGTERM)
        if not self.wait(3):
            self.signal(signal.SIGKILL)
            self._process.wait()
        try:
            os.killpg(self.pid, signal.SIGKILL)  # processes that it may have left in its group
        except (ProcessLookupError, PermissionError):
            pass

    def crashed(self):
        return self.exit_code is not None and -self.exit_code in (
            signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL) or self.exit_code in (
                128 + signal.SIGSEGV, 128 + signal.SIGABRT, 128 + signal.SIGBUS)


class Children:
    """All children of one test; leaving the `with` ends those that still run."""

    def __init__(self):
        self._children = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.stop()

    def stop(self):
        for child in reversed(self._children):
            child.stop()

    def start(self, name, command, environment=None, keep_fds=()):
        child = Child(name, command, environment, keep_fds)
        self._children.append(child)
        return child

    def report(self):
        """Everything that was printed, for the log of a failed test."""
        lines = []
        for child in self._children:
            lines.append(f"--- {child.name}: {' '.join(child.command)} (exit {child.exit_code})")
            lines.append(child.output().rstrip())
        return "\n".join(lines)


def listens(port, pid):
    """Does a program in the network namespace of `pid` listen on this TCP port?"""
    wanted = f":{port:04X}"
    for table in ("tcp", "tcp6"):
        try:
            rows = pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            fields = row.split()
            if fields[1].endswith(wanted) and fields[3] == "0A":
                return True
    return False


def wait_for_listener(child, port, timeout_s):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and child.exit_code is None:
        if listens(port, child.pid):
            return True
        time.sleep(0.02)
    return False


def free_tcp_port():
    """Below the kernel's ephemeral range, and different for tests that follow each other quickly."""
    start = 20000 + (os.getpid() * 7) % 10000
    for offset in range(1000):
        port = 20000 + (start - 20000 + offset) % 10000
        if not listens(port, os.getpid()):
            return port
    raise RuntimeError("no free TCP port between 20000 and 29999")
