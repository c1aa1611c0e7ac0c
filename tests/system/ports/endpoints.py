"""Programs with an endpoint each, and what uroce tells of them."""

import os
import shutil
import subprocess
import sys
import tempfile
import time

SKIP = 77


class Endpoints:
    """Programs on the default port, in a runtime directory of their own."""

    def __init__(self, uroce):
        self.uroce = uroce
        self.directory = tempfile.TemporaryDirectory()
        self.environment = dict(os.environ, UROCE_RUNTIME_DIR=self.directory.name)
        self.environment.pop("UROCE_PORT", None)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.running:
            process.kill()
            process.wait()
        self.directory.cleanup()

    def start(self, options, *command, **how):
        process = subprocess.Popen(
            [self.uroce, "run", *options, "--", *command],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **how,
        )
        self.running.append(process)
        return process

    def run(self, *words):
        return subprocess.run(
            [self.uroce, *words], env=self.environment, capture_output=True, text=True, timeout=60, check=False
        )

    def ask(self, *words):
        """The command's output; its standard error must be empty."""
        result = self.run(*words)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    def stats(self, *words):
        return self.run("stats", *words)

    def wait_for_device(self, process, seconds=20):
        """Waits until `process` has its device open."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            if self.stats(str(process.pid)).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"no endpoint of process {process.pid}: {process.poll()}")

    def bandwidth_pair(self, seconds, options=()):
        """ib_write_bw for some seconds; returns the client once data flows."""
        port = str(20000 + os.getpid() % 20000)
        server = self.start([], "ib_write_bw", "-p", port, "-D", str(seconds))
        self.wait_for_device(server)
        client = self.start(options, "ib_write_bw", "-p", port, "-D", str(seconds), "127.0.0.1")
        self.wait_for_device(client)
        return server, client


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(SKIP)


def wait_until(true, complaint, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, complaint
        time.sleep(0.02)
