"""Programs that meet on a segment from different places of one machine: with other hostnames, in other network or process namespaces."""

import os
import shutil
import subprocess
import tempfile

import wires
from children import free_tcp_port, wait_for_listener
from session import Failure, Scenario
from wires import SegmentWire, Skip, VethWire


def _needs_unshare(*options):
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise Skip("namespaces need root and unshare")
    if subprocess.run(["unshare", *options, "true"], capture_output=True, check=False).returncode != 0:
        raise Skip(f"no namespaces here (unshare {' '.join(options)})")


class OtherHostnameWire(SegmentWire):
    """Like containers of one pod: one network namespace, a hostname each."""

    def prefix(self, side):
        _needs_unshare("--uts")
        return ["unshare", "--uts", "sh", "-c", f'hostname place{side} && exec "$@"', "sh"]


class OtherProcessesWire(SegmentWire):
    """Like containers of one pod: each has its own process numbers, and every program is number 1 or 2."""

    def prefix(self, side):
        _needs_unshare("--pid", "--fork")
        return ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]


class SharedDirectoryWire(VethWire):
    """Like containers that mount one directory: a network namespace each, with its own addresses. Only the programs'
    own TCP connection uses the interfaces."""

    def __enter__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-places-")
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._folder.cleanup()

    def port(self, _side):
        return "shmlan"

    def prefix(self, side):
        return [*super().prefix(side), "env", f"UROCE_RUNTIME_DIR={self._folder.name}"]


wires.WIRES.update({"hostnames": OtherHostnameWire, "processes": OtherProcessesWire, "directory": SharedDirectoryWire})


def _pair(session, server_words, client_words, seconds=20):
    """The output of both, after they ended well."""
    port = str(free_tcp_port())
    server = session.start("server", 0, [*server_words, "-p", port])
    session.wire.attach(0, server)
    if not wait_for_listener(server, int(port), seconds):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [*client_words, "-p", port, session.wire.tcp_address(0)])
    session.wire.attach(1, client)
    for child in (client, server):
        session.expect_exit(child, seconds)
        if child.exit_code != 0:
            raise Failure(f"the {child.name} ended with {child.exit_code}")
    return server.output(), client.output()


def meet(session):
    """Checked data, in messages of several packets, in both directions."""
    words = ["ibv_rc_pingpong", "-g", "1", "-c", "-s", "20000", "-n", "200"]
    for said in _pair(session, words, words):
        if "invalid data" in said or "200 iters" not in said:
            raise Failure("not every message arrived as it was sent")


def _addresses(session, side):
    child = session.start(f"side {side}", side, ["ibv_devinfo", "-v"])
    session.expect_exit(child, 20)
    found = [line.split()[2].rstrip(",") for line in child.output().splitlines() if "GID[" in line]
    if not found:
        raise Failure(f"side {side} has no addresses")
    return found


def _rping(session, address, meanwhile=lambda: None):
    """Over librdmacm, repeated until the server listens; rping checks what comes back."""
    port = str(free_tcp_port())
    words = ["rping", "-a", address, "-p", port, "-C", "50", "-V"]
    server = session.start("server", 0, [*words, "-s"])
    meanwhile()
    client = session.start("client", 1, ["sh", "-c", 'for try in 1 2 3 4 5 6 7 8; do "$@" && exit; sleep 0.5; done; exit 1', "sh", *words, "-c"])
    for child in (client, server):
        session.expect_exit(child, 30)
        if child.exit_code != 0:
            raise Failure(f"the {child.name} ended with {child.exit_code}")


def one_host(session):
    """127.0.0.1 is the host itself, so it reaches only programs of the same host; and while one runs, the other one has
    its addresses."""
    def same_addresses():
        found = [_addresses(session, side) for side in (0, 1)]
        if found[0] != found[1]:
            raise Failure(f"one says it has {found[0]}, the other {found[1]}")

    meet(session)
    _rping(session, "127.0.0.1", same_addresses)


def hosts_of_their_own(session):
    """Each has the addresses of its namespace, and they reach each other at these."""
    meet(session)
    for side in (0, 1):
        found = _addresses(session, side)
        if f"::ffff:10.77.0.{side + 1}" not in found or f"::ffff:10.77.0.{2 - side}" in found:
            raise Failure(f"side {side} has {found}")
    _rping(session, session.wire.tcp_address(0))


SCENARIOS = [
    Scenario("segment_other_hostnames", one_host, "hostnames"),
    Scenario("segment_other_process_numbers", one_host, "processes"),
    Scenario("segment_shared_directory", hosts_of_their_own, "directory", "veth"),
]
