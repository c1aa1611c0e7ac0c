#!/usr/bin/env python3
"""What programs hear and do while the file system of their directory is full, and afterwards.

    full_places.py UROCE PATIENT_LISTENER CONNECTS TEST
"""

import os
import pathlib
import subprocess
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from meetings import SKIP, Machine, read_until  # noqa: E402
from children import free_tcp_port  # noqa: E402

NO_ROOM = "No space left on device"
FILES = "files under /sys/class/infiniband are missing"


class FullPlace(Machine):
    """A machine whose runtime directory is a small file system of its own."""

    def __enter__(self):
        self.place = self.folder / "run"
        self.place.mkdir(mode=0o700)
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m,mode=0700", "none", str(self.place)], check=True)
        return super().__enter__()

    def __exit__(self, *exception):
        for process in self.running:
            process.kill()
            process.wait()
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)
        super().__exit__(*exception)

    def fill(self):
        subprocess.run(["sh", "-c", f"cat /dev/zero > {self.place}/full 2>/dev/null"], check=False)

    def make_room(self):
        (self.place / "full").unlink()


def empty_files(machine):
    """What cannot be written is missing, with its reason, and is not there empty."""
    script = ("find /sys/class/infiniband /sys/class/infiniband_verbs /sys/class/misc/rdma_cm -type f -empty; echo searched; "
              "cat /sys/class/infiniband/uroce0/node_type /sys/class/misc/rdma_cm/abi_version")
    machine.fill()
    _, output = machine.run("sh", "-c", script)
    lines = [line for line in output.splitlines() if not line.startswith(("find:", "uroce:"))]
    assert lines == ["searched"] + [f"cat: {name}: {NO_ROOM}" for name in (
        "/sys/class/infiniband/uroce0/node_type", "/sys/class/misc/rdma_cm/abi_version")], output
    told = [line for line in output.splitlines() if FILES in line]
    assert len(told) == 2 and all(line.endswith(NO_ROOM) for line in told), f"one line of each program\n{output}"
    machine.make_room()
    status, output = machine.run("sh", "-c", script)
    assert (status, output) == (0, "searched\n1: CA\n4\n"), output


def listener(machine, patient_listener, connects, *opened):
    """A program that cannot listen hears why, and its log says once why files are missing; when there is room it listens,
    and is found by who comes later."""
    port = str(free_tcp_port())
    if not opened:
        machine.fill()
    server = machine.start([machine.uroce, "run", "--", patient_listener, port, *opened], machine.environment(), stdin=subprocess.PIPE)
    output = read_until(server, ["started\n"])
    if opened:
        machine.fill()
    server.stdin.write("go\n")
    server.stdin.flush()
    output += read_until(server, [f"\n{NO_ROOM}\n"])
    for _ in range(2):
        _, refused = machine.run(connects, "connect", port)
        assert NO_ROOM in refused, refused
    machine.make_room()
    output += read_until(server, ["ready\n"])
    status, greeting = machine.run(connects, "connect", port)
    assert "connection" not in greeting, (status, greeting)
    said = [line for line in output.splitlines() if not line.startswith("uroce:")]
    assert said == ["started", NO_ROOM, "ready"], output
    logged = [line for line in output.splitlines() if line.startswith("uroce:")]
    assert all(NO_ROOM in line for line in logged) and len(logged) == len(set(logged)), output
    assert sum(FILES in line for line in logged) == 1, output


def newcomer(machine, patient_listener, connects):
    listener(machine, patient_listener, connects)


def member(machine, patient_listener, connects):
    listener(machine, patient_listener, connects, "opened")


def main():
    uroce, patient_listener, connects, name = sys.argv[1:]
    os.environ["UROCE_LOG"] = "warning"
    if os.geteuid() != 0:
        print("skipped: a small file system of one's own needs root")
        sys.exit(SKIP)
    if "INSIDE" not in os.environ:
        os.execvpe("unshare", ["unshare", "--mount", sys.executable, "-B", *sys.argv], dict(os.environ, INSIDE="1"))
    with FullPlace(uroce) as machine:
        if name == "empty_files":
            empty_files(machine)
        else:
            {"newcomer": newcomer, "member": member}[name](machine, patient_listener, connects)


if __name__ == "__main__":
    main()
