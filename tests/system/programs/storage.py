"""Programs that move blocks and memory: fio, an iSER target with its initiators, QEMU's migration of a running machine."""

import contextlib
import functools
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import time

import cm_programs
from children import free_tcp_port
from session import Failure, Scenario, Skip
from stacks import _need

TARGET = "iqn.2026-01.org.example:disk"
INITIATOR = "iqn.2026-01.org.example:client"
QEMU_INITIATOR = "iqn.2008-11.org.linux-kvm"  # QEMU's own


def fio(verb, session):
    """64 MiB by fio's engine. For SENDs its server has more buffers than are in flight, as fio's source recommends, and
    verifies what it received: each block has its checksum."""
    _need("fio")
    send = verb == "send"
    common = ["--ioengine=rdma", "--port=8765", "--bs=64k", "--size=64m", "--thread"]
    verify = ["--verify=crc32c", "--verify_state_save=0"] if send else []
    server = session.start("server", 0, ["fio", "--name=server", *common, "--rw=read", "--iodepth=64", *verify])
    if not server.wait_for_output("waiting for connection", 20):
        raise Failure("the server does not wait for a connection")
    time.sleep(0.1)
    client = session.start("client", 1, ["fio", "--name=client", *common, "--hostname=127.0.0.1", f"--verb={verb}",
                                         "--rw=write", "--iodepth=2" if send else "--iodepth=8", *verify,
                                         *(["--do_verify=0"] if send else [])], cm_programs.LOUD)
    for child in (client, server):
        session.expect_exit(child, 30)
        if child.exit_code != 0:
            raise Failure(f"the {child.name}: exit code {child.exit_code}")
        cm_programs.expect(child, (r": err= 0: ",))
    cm_programs.expect(client, (r"WRITE: .*io=64\.0MiB",))
    if send:
        cm_programs.expect(server, (r"READ: .*io=64\.0MiB",))


def _tgtadm(control, *words):
    done = subprocess.run(["tgtadm", "-C", control, "--lld", "iser", *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"tgtadm {' '.join(words)}: {done.stderr.strip()}")
    return done.stdout


TGTD_FOLDER = pathlib.Path("/run/tgtd")


@contextlib.contextmanager
def _tgtd_control(session):
    """An unused control port. tgtd leaves its socket and its lock behind; those that are new are removed."""
    before = set(TGTD_FOLDER.glob("*")) if TGTD_FOLDER.exists() else None
    control = os.getpid() % 32000 + 1  # tgtadm takes no larger number
    while any(path.name.startswith(f"socket.{control}") for path in before or ()):
        control = control % 32000 + 1
    try:
        yield str(control)
    finally:
        session.children.stop()
        for name in (f"socket.{control}", f"socket.{control}.lock"):
            (TGTD_FOLDER / name).unlink(missing_ok=True)
        if before is None and TGTD_FOLDER.exists() and not any(TGTD_FOLDER.iterdir()):
            TGTD_FOLDER.rmdir()


def _wait_for_tgtd(control):
    for _ in range(200):
        done = subprocess.run(["tgtadm", "-C", control, "--op", "show", "--mode", "sys"], capture_output=True, text=True,
                              check=False)
        if "iser: ready" in done.stdout:
            return
        time.sleep(0.05)
    raise Failure("tgtd does not answer")


def iser(session):
    """A disk, served by tgtd: described, written, read back, and compared with the file behind it."""
    _need("tgtd", "tgtadm", "iscsi-inq", "iscsi-readcapacity16", "qemu-io")
    if os.geteuid() != 0:
        raise Skip("tgtd keeps its sockets where only root may write")
    with tempfile.TemporaryDirectory(prefix="uroce-iser-") as folder, _tgtd_control(session) as control:
        disk, chunk = pathlib.Path(folder) / "disk", pathlib.Path(folder) / "chunk"
        with disk.open("wb") as file:
            file.truncate(64 << 20)
        chunk.write_bytes(os.urandom(256 << 10))
        session.start("target", 0, ["tgtd", "-f", "-C", control, "--iscsi", f"portal=127.0.0.1:{free_tcp_port()}", "--iser",
                                    "pool_sz_mb=128"])
        _wait_for_tgtd(control)
        _tgtadm(control, "--op", "new", "--mode", "target", "--tid", "1", "-T", TARGET)
        _tgtadm(control, "--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", "1", "-b", str(disk))
        # This release requires both: an address, and the initiator's name.
        for allowed in (("-I", "ALL"), ("-Q", INITIATOR), ("-Q", QEMU_INITIATOR)):
            _tgtadm(control, "--op", "bind", "--mode", "target", "--tid", "1", *allowed)
        url = f"iser://127.0.0.1:3260/{TARGET}/1"

        def run(name, command, code, *patterns):
            # libiscsi's connection thread reads freed memory when a session ends (doc/programs.md): harmless as long as
            # freed memory keeps its content, which the test runner's settings prevent.
            child = session.start(name, 1, command, {"MALLOC_PERTURB_": "0"})
            session.expect_exit(child, 20)
            if child.exit_code != code:
                raise Failure(f"{name}: exit code {child.exit_code}")
            cm_programs.expect(child, patterns)

        run("iscsi-inq", ["iscsi-inq", "-i", INITIATOR, url], 0, r"^Vendor:IET", r"^Product:VIRTUAL-DISK")
        run("iscsi-readcapacity16", ["iscsi-readcapacity16", "-i", INITIATOR, url], 0, r"^Total size:67108864$")
        orders = [f"write -s {chunk} 4M 256k", f"write -s {chunk} 12345k 128k", "write -P 0x5a 1M 256k",
                  "read -P 0x5a 1M 256k", "aio_write -P 7 8M 64k", "aio_write -P 8 9M 64k", "aio_flush",
                  "read -P 7 8M 64k", "read -P 8 9M 64k"]
        run("qemu-io", ["qemu-io", "-f", "raw", *(word for order in orders for word in ("-c", order)), url], 0)
        run("qemu-io that expects something else", ["qemu-io", "-f", "raw", "-c", "read -P 0x5b 1M 4k", url], 1,
            "Pattern verification failed at offset 1048576")
        written, served = chunk.read_bytes(), disk.read_bytes()
        if served[4 << 20:(4 << 20) + len(written)] != written or served[12345 << 10:12473 << 10] != written[:128 << 10]:
            raise Failure("the disk has not what was written")


class Monitor:
    """The QMP socket of a guest."""

    def __init__(self, path, child):
        deadline = time.monotonic() + 20
        while True:
            try:
                self._socket = socket.socket(socket.AF_UNIX)
                self._socket.settimeout(20)
                self._socket.connect(str(path))
                break
            except OSError:
                self._socket.close()
                if time.monotonic() > deadline or child.exit_code is not None:
                    raise Failure(f"the {child.name} has no monitor") from None
                time.sleep(0.05)
        self._file = self._socket.makefile("rw")
        self._file.readline()
        self.ask("qmp_capabilities")

    def ask(self, command, **arguments):
        self._file.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._file.flush()
        while True:
            answer = json.loads(self._file.readline())
            if "error" in answer:
                raise Failure(f"{command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]


def migration(session):
    """A machine with 64 MiB of memory, 40 of them with random content, migrates over RDMA."""
    _need("qemu-system-x86_64")
    qemu = ["qemu-system-x86_64", "-machine", "pc,accel=tcg", "-m", "64M", "-display", "none", "-S", "-nodefaults",
            "-no-user-config"]
    with tempfile.TemporaryDirectory(prefix="uroce-migration-") as folder:
        content = pathlib.Path(folder) / "content"
        content.write_bytes(os.urandom(40 << 20))
        to = session.start("destination", 0, [*qemu, "-qmp", f"unix:{folder}/to,server=on,wait=off", "-incoming", "defer"],
                           cm_programs.LOUD)
        source = session.start("source", 1, [*qemu, "-qmp", f"unix:{folder}/from,server=on,wait=off", "-device",
                                             f"loader,file={content},addr=0x800000,force-raw=on"], cm_programs.LOUD)
        there, here = Monitor(f"{folder}/to", to), Monitor(f"{folder}/from", source)
        there.ask("migrate-incoming", uri="rdma:127.0.0.1:7777")
        here.ask("migrate-set-parameters", **{"max-bandwidth": 10**10})
        here.ask("migrate", uri="rdma:127.0.0.1:7777")
        deadline = time.monotonic() + 30
        while (state := here.ask("query-migrate").get("status")) != "completed":
            if state == "failed" or time.monotonic() > deadline:
                raise Failure(f"the migration: {state}")
            time.sleep(0.05)
        for monitor, name in ((there, "to.memory"), (here, "from.memory")):
            monitor.ask("pmemsave", val=0, size=64 << 20, filename=f"{folder}/{name}")
        memory = (pathlib.Path(folder) / "to.memory").read_bytes()
        if memory != (pathlib.Path(folder) / "from.memory").read_bytes():
            raise Failure("the two machines' memory differs")
        if memory[8 << 20:48 << 20] != content.read_bytes():
            raise Failure("the memory is not what was loaded")
        for monitor, child in ((here, source), (there, to)):
            monitor.ask("quit")
            session.expect_exit(child, 15)
            if child.exit_code != 0:
                raise Failure(f"the {child.name}: exit code {child.exit_code}")
        counted = re.search(r"counted: .*tx_bytes (\d+)", source.output())
        if not counted or int(counted[1]) < 40_000_000:
            raise Failure("the memory did not go over RDMA")


SCENARIOS = [
    *(Scenario(f"fio_{verb}", functools.partial(fio, verb), suite="programs" if verb == "write" else "long", timeout_s=60)
      for verb in ("write", "read", "send")),
    Scenario("iser_disk", iser, suite="long", timeout_s=90),
    Scenario("qemu_migration", migration, suite="long", timeout_s=90),
]
