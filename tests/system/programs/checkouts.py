"""Programs that no package carries, built from checkouts of their sources: build_checkouts.sh builds what stands in a directory,
and UROCE_CHECKOUTS names that directory. Without it these tests are skipped."""

import functools
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

from children import free_tcp_port, wait_for_listener
from cm_programs import KILLED_WITHIN_S, LOUD, address_of, expect, expect_success, options_of, start_server
from session import Failure, Scenario
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"
START_TIMEOUT_S = 20


def built(name, *files):
    """The checkout's directory; Skip unless these files in it were built."""
    root = os.environ.get("UROCE_CHECKOUTS", "")
    if not root:
        raise Skip(f"UROCE_CHECKOUTS names no directory with checkouts (of {name}; doc/programs.md)")
    folder = pathlib.Path(root).resolve() / name
    for file in files:
        if not (folder / file).exists():
            raise Skip(f"{folder} has no {file} (tests/system/programs/build_checkouts.sh {root})")
    return folder


# Valkey: a server that is reached over RDMA and TCP.
SERVER_FILES = ("src/valkey-server", "src/valkey-rdma.so", "src/valkey-cli", "tests/rdma/rdma-test")


class Valkey:
    def __init__(self, session, wire, folder):
        self._valkey = built("valkey", *SERVER_FILES)
        self.rdma_port, self._tcp_port = "6400", str(free_tcp_port())
        self._session, self._wire = session, wire
        command = [self._valkey / "src/valkey-server", "--port", self._tcp_port, "--save", "", "--appendonly", "no", "--dir", folder,
                   "--protected-mode", "no", "--loadmodule", self._valkey / "src/valkey-rdma.so", "port=6400"]
        self.child = session.start("server", 0, command, LOUD, options_of(wire, 0))
        session.wire.attach(0, self.child)
        if not self.child.wait_for_output("Ready to accept connections rdma", START_TIMEOUT_S):
            raise Failure("the server did not get ready")

    def start_client(self, name, program, *arguments):
        address = address_of(self.child, "own")
        words = [word.format(address=address, port=self.rdma_port) for word in arguments]
        child = self._session.start(name, 1, [program, *words], LOUD, options_of(self._wire, 1))
        self._session.wire.attach(1, child)
        return child

    def own_test(self):
        """Valkey's own client, which checks what it gets."""
        return self._valkey / "tests/rdma/rdma-test"

    def over_tcp(self, *words):
        """What valkey-cli gets, which does not use RDMA."""
        command = [*self._session.wire.prefix(0), self._valkey / "src/valkey-cli", "-p", self._tcp_port, *words]
        done = subprocess.run(command, capture_output=True, check=False, timeout=20)
        if done.returncode != 0:
            raise Failure(f"valkey-cli {' '.join(words)}: {done.stderr.decode(errors='replace').strip()}")
        return done.stdout

    def end(self, connections):
        """Ends the server in an orderly way; returns how many connections there were."""
        self.child.signal(signal.SIGTERM)
        expect_success(self._session, self.child, 20)
        expect(self.child, (r"ready to exit", rf"counted: .*cm_established {connections}\b"))


def valkey_own_test(wire, session):
    """Valkey's own test of RDMA: values of random letters are set and read back by one client, then by sixteen; in each
    run the server forks to save them."""
    with tempfile.TemporaryDirectory(prefix="uroce-valkey-") as folder:
        server = Valkey(session, wire, folder)
        where = ("-h", "{address}", "-p", "{port}")
        for threads, options in ((1, ()), (16, ("-t", "16", "-m", "100", "-M", "300"))):
            client = server.start_client(f"client of {threads}", server.own_test(), *where, *options)
            expect_success(session, client, 60)
            done = re.findall(r"^Valkey Over RDMA test thread\[\d+\] GET (\d+) KVs \[OK\]$", client.output(), re.MULTILINE)
            if len(done) != threads or min(int(count) for count in done) < 100:
                raise Failure(f"the {client.name} verified {done}")
            if not server.child.wait_for_output("Background saving terminated with success", 20):
                raise Failure("the server did not save")
        server.end(17)
        if (pathlib.Path(folder) / "dump.rdb").stat().st_size < 17 * 100 * 1024:
            raise Failure("the server saved next to nothing")


def value_of(size, thread=0):
    """As valkey_check generates them."""
    return bytes((size * 5 + i * 7 + (i >> 8) * 3 + thread * 11) & 255 for i in range(size))


def build_check(folder):
    """Our client with libvalkey."""
    library = built("libvalkey", "lib/libvalkey.a", "lib/libvalkey_rdma.a")
    program = f"{folder}/valkey_check"
    command = ["cc", "-O2", "-I", library / "include", "-o", program, SOURCES / "valkey_check.c", library / "lib/libvalkey_rdma.a",
               library / "lib/libvalkey.a", "-lrdmacm", "-libverbs", "-lpthread"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Failure(f"valkey_check: {done.stderr}")
    return program


def valkey_clients(wire, session):
    """libvalkey's clients: values of up to three times the server's buffer, pipelined requests, and the same values
    over TCP."""
    with tempfile.TemporaryDirectory(prefix="uroce-valkey-") as folder:
        program = build_check(folder)
        server = Valkey(session, wire, folder)
        client = server.start_client("clients", program, "{address}", "{port}", "4")
        expect_success(session, client, 60)
        expect(client, (r"^4 clients verified 210 values each$", r"counted: .*cm_established 4\b"))
        for size in (4097, 3000001):
            if server.over_tcp("GET", f"t0:{size}") != value_of(size) + b"\n":
                raise Failure(f"over TCP the value of {size} bytes is another")
        server.end(4)


def valkey_deaths(session):
    """The server drops a killed client without disturbing the others; when the server is killed, its clients report
    it."""
    with tempfile.TemporaryDirectory(prefix="uroce-valkey-") as folder:
        program = build_check(folder)
        server = Valkey(session, "segment", folder)

        def start(name, *more):
            return server.start_client(name, program, "{address}", "{port}", "2", *more)

        def connected():
            """Includes the client that asks."""
            return int(re.search(rb"connected_clients:(\d+)", server.over_tcp("INFO", "clients"))[1])

        victim = start("victim", "rest")
        if not victim.wait_for_output("at rest\nat rest\n", 20) or connected() != 3:
            raise Failure("the victim is not at rest")
        victim.signal(signal.SIGKILL)
        deadline = time.monotonic() + KILLED_WITHIN_S
        while connected() > 1:
            if time.monotonic() > deadline:
                raise Failure("the server keeps the connections of a client that was killed")
            time.sleep(0.05)
        other = start("other")
        expect_success(session, other, 60)
        expect(other, (r"^2 clients verified 210 values each$",))
        server.over_tcp("FLUSHALL")
        last = start("last", "forever")
        deadline = time.monotonic() + 20
        while connected() < 3 or server.over_tcp("EXISTS", "p1:100") != b"1\n":
            if last.wait(0.05):
                raise Failure("the last client ended by itself")
            if time.monotonic() > deadline:
                raise Failure("the last client did not get to work")
        server.child.signal(signal.SIGKILL)
        session.expect_exit(last, 40)
        if last.exit_code != 1:
            raise Failure(f"the last client ended with {last.exit_code}")


# libfabric's fabtests over connections, with -v, which checks every byte: program and options.
FABTESTS = ("fi_msg", "fi_msg_pingpong -v -I 20 -S 1024", "fi_msg_pingpong -v -I 20 -S 65536", "fi_msg_bw -v -I 50 -S 65536",
            "fi_rma_bw -e msg -o write -v -I 50 -S 65536", "fi_rma_bw -e msg -o read -v -I 50 -S 65536",
            "fi_rma_bw -e msg -o writedata -v -I 50 -S 65536", "fi_cq_data -e msg", "fi_cm_data")


def _both_end_well(session, command, server, client):
    for child in (client, server):
        session.expect_exit(child, 40)
        if child.exit_code != 0:
            raise Failure(f"{command}: the {child.name}'s exit code is {child.exit_code}")
    expect(client, (r"counted: .*cm_established [1-9]",))


def fabtests(session):
    for command in FABTESTS:
        name, *options = command.split()
        words = [built("libfabric", f"fabtests/out/{name}") / f"fabtests/out/{name}", "-p", "verbs", *options]
        server = start_server(session, "segment", words)
        client = session.start(f"client of {name}", 1, [*words, "127.0.0.1"], LOUD)
        _both_end_well(session, command, server, client)


# The additional tests of libfabric 2.
FABTESTS_2 = ("fi_msg_pingpong -I 5", "fi_msg_bw -I 5", "fi_multi_ep -e msg", "fi_multi_ep -e msg -v -A -Q", "fi_flood -e msg -v -T 1",
              "fi_shared_ctx -e msg --no-tx-shared-ctx", "fi_msg_epoll", "fi_cm_data", "fi_rma_bw -e msg -o writedata -I 5")


def fabtests_2(session):
    for command in FABTESTS_2:
        name, *options = command.split()
        words = [built("libfabric-2", f"inst/bin/{name}") / f"inst/bin/{name}", "-p", "verbs", *options]
        if name == "fi_multi_ep":  # its sides meet over TCP first, at a port of its own
            server = session.start("server", 0, words, LOUD)
            if not wait_for_listener(server, 3000, START_TIMEOUT_S):
                raise Failure(f"{command}: the server did not get as far as listening")
        else:
            server = start_server(session, "segment", words)
        client = session.start(f"client of {name}", 1, [*words, "127.0.0.1"], LOUD)
        _both_end_well(session, command, server, client)


# Without connections of their own: libfabric opens and closes those below them, and an end that learns of the other's
# end destroys the queue pair, together with what it has not polled.
FABTESTS_RDM = (("fi_rdm", 4), ("fi_rdm_pingpong -v -I 20 -S 1024", 2), ("fi_rma_bw -e rdm -o write -v -I 50 -S 65536", 1))


def fabtests_rdm(session):
    for command, times in FABTESTS_RDM:
        for run in range(times):
            name, *options = command.split()
            port = free_tcp_port()
            words = [built("libfabric", f"fabtests/out/{name}") / f"fabtests/out/{name}", "-p", "verbs;ofi_rxm", f"-E={port}", *options]
            server = session.start(f"server of {name} {run}", 0, words)
            if not wait_for_listener(server, port, START_TIMEOUT_S):
                raise Failure(f"{command}: the server did not get as far as listening")
            client = session.start(f"client of {name} {run}", 1, [*words, "127.0.0.1"], LOUD)
            _both_end_well(session, command, server, client)


def scenarios():
    more = {"suite": "long", "timeout_s": 150}
    for wire in ("segment", "veth", "switch"):
        title = "" if wire == "segment" else f"_{wire}"
        yield Scenario(f"valkey_own_test{title}", functools.partial(valkey_own_test, wire), wire=wire, **more)
        yield Scenario(f"valkey_clients{title}", functools.partial(valkey_clients, wire), wire=wire, **more)
    yield Scenario("valkey_deaths", valkey_deaths, **more)
    yield Scenario("fabtests_msg", fabtests, **more)
    yield Scenario("fabtests_rdm", fabtests_rdm, **more)
    yield Scenario("fabtests_2", fabtests_2, **more)


SCENARIOS = list(scenarios())
