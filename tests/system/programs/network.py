"""`--port network`: programs of an unprivileged user at several hosts (namespaces), where nothing was started or set. The
first program of a host starts its way out, which ends by itself when nobody needs it."""

import itertools
import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import wires
from cases import perftest
from children import free_tcp_port, wait_for_listener
from outputs import trouble
from segments import expect_good_pairs, start_pairs
from session import Failure, Scenario
from sockets import UdpWire, rping

PATIENCE_S = 60  # of a busy machine


class NetworkWire(UdpWire):
    """Two hosts."""

    def port(self, _side):
        return "network"

    def ways_out(self, side):
        """The processes that programs of this side have started, by what they were told."""
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                place = f"UROCE_RUNTIME_DIR={self.runtime(side)}".encode()
                if b"--while-needed" in words and place in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except (OSError, ValueError):
                continue
        return found

    def sides(self):
        return range(len(self._spaces))

    def __exit__(self, *exception):
        for side in self.sides():
            for pid in self.ways_out(side):
                os.kill(pid, signal.SIGKILL)
        super().__exit__(*exception)


class NetworkSmallWire(NetworkWire):
    """As most networks are."""

    def __init__(self):
        super().__init__(1500)


class ThreeHostsWire(NetworkWire):
    """A third host, on the same network as the others."""

    def __init__(self):
        super().__init__()
        self._middle = f"uroce-t{os.getpid()}-middle"
        self._spaces.append(f"uroce-t{os.getpid()}-2")

    def __enter__(self):
        pair, self._spaces = self._spaces, self._spaces[:2]
        super().__enter__()
        self._spaces = pair
        try:
            for space in (pair[2], self._middle):
                wires._make_namespace(space)
            wires._ip("-n", pair[2], "link", "set", "lo", "up")
            wires._ip("-n", self._middle, "link", "add", "bridge0", "mtu", "4200", "type", "bridge")
            wires._ip("-n", self._middle, "link", "set", "bridge0", "up")
            wires._ip("-n", pair[0], "link", "del", "wire0")
            for side, space in enumerate(pair):
                wires._ip("link", "add", "wire0", "netns", space, "type", "veth", "peer", "name", f"side{side}", "netns", self._middle)
                wires._ip("-n", self._middle, "link", "set", f"side{side}", "mtu", "4200", "master", "bridge0", "up")
                wires._ip("-n", space, "link", "set", "wire0", "mtu", "4200", "up")
                wires._ip("-n", space, "addr", "add", f"10.77.0.{side + 1}/24", "dev", "wire0")
            os.mkdir(self.runtime(2), 0o700)
            os.chown(self.runtime(2), 65534, 65534)
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr}") from error
        return self

    def __exit__(self, *exception):
        subprocess.run(["ip", "netns", "del", self._middle], check=False, capture_output=True)
        super().__exit__(*exception)


class OwnHostWire(NetworkWire):
    """Two programs of one host, which has a network beside."""

    def prefix(self, _side):
        return super().prefix(0)

    def tcp_address(self, _side):
        return "127.0.0.1"


class OneDirectoryWire(NetworkWire):
    """Two hosts whose programs meet in one directory, as containers do that share /tmp."""

    def unprivileged(self, side):
        return super().unprivileged(0)


wires.WIRES.update({"network_one_directory": OneDirectoryWire, "network": NetworkWire, "network_1500": NetworkSmallWire, "network_three": ThreeHostsWire, "network_own": OwnHostWire})


def cases():
    yield perftest("ib_write_bw", "_network", "-n", "300", wire="network", suite="veth")
    yield perftest("ib_write_bw", "_network_1500", "-n", "300", wire="network_1500", suite="veth")
    yield perftest("ib_send_lat", "_network", "-n", "100", wire="network", suite="veth")
    yield perftest("ib_read_bw", "_network_own", "-n", "300", wire="network_own", suite="veth")


def _wait(what, condition, patience_s=PATIENCE_S):
    deadline = time.monotonic() + patience_s
    while not condition():
        if time.monotonic() > deadline:
            raise Failure(f"not within {patience_s} s: {what}")
        time.sleep(0.05)


def _pair(session, name, sides=(0, 1), words=("ib_write_bw", "-n", "200"), address=None):
    """A server and a client that are to do well."""
    server, client = _begin(session, name, sides, words, address)
    _expect_good(session, server, client)
    return server, client


_ports = itertools.count()


def _new_port():
    """Ports that are taken in the hosts' namespaces look free in this one."""
    return str(free_tcp_port() + next(_ports))


def _begin(session, name, sides, words, address=None):
    port = _new_port()
    server = session.start(f"server {name}", sides[0], [*words, "-p", port])
    if not wait_for_listener(server, int(port), PATIENCE_S):
        raise Failure("the server did not get as far as listening")
    return server, session.start(f"client {name}", sides[1], [*words, "-p", port, address or session.wire.tcp_address(sides[0])])


def _expect_good(session, *children):
    for child in children:
        session.expect_exit(child, PATIENCE_S)
        problems = trouble(child.output())
        if child.exit_code != 0 or problems:
            raise Failure(f"the {child.name}: exit {child.exit_code} {'; '.join(problems)}")


def _endless(session):
    """A pair of one host that goes on until the test ends."""
    return _begin(session, "of one host", (0, 0), ("ib_write_bw", "--run_infinitely"))


def _expect_running(*children):
    for child in children:
        if child.exit_code is not None or trouble(child.output()):
            raise Failure(f"the {child.name} has ended")


def several(session):
    """Programs that start at the same time have one way out between them."""
    pairs = start_pairs(session, 4, [(0, 1), (1, 0)], ("-n", "200"), ("ib_write_bw", "ib_read_bw", "ib_send_bw"))
    for side in (0, 1):
        found = session.wire.ways_out(side)
        if len(found) != 1:
            raise Failure(f"side {side} has {len(found)} ways out")
    expect_good_pairs(pairs)


def three(session):
    """Each host with each other one, at the same time."""
    expect_good_pairs(start_pairs(session, 3, [(0, 1), (1, 2), (2, 0)], ("-n", "200"), ("ib_write_bw",)))


def ends(session):
    """The way out goes when nobody needs it, and comes back with the next program."""
    _pair(session, "first")
    first = session.wire.ways_out(0)
    if len(first) != 1:
        raise Failure(f"{len(first)} ways out right after the program, not one")
    _wait("the way out ends", lambda: not session.wire.ways_out(0) and not session.wire.ways_out(1))
    alone = session.start_plain("without", [*session.wire.prefix(0), session.uroce, "run", "--port", "shmlan", "--", "ibv_devinfo"])
    session.expect_exit(alone, PATIENCE_S)
    if not re.search(r"PORT_ACTIVE.*active_mtu:\s+4096", alone.output(), re.DOTALL):
        raise Failure("whoever asks for no network is not as before")
    _pair(session, "second")
    if session.wire.ways_out(0) == first:
        raise Failure("it did not end")


def killed(session):
    """A way out that is killed is started anew by the next program; programs of the machine do not notice."""
    local = _endless(session)
    _wait("the way out starts", lambda: session.wire.ways_out(0))
    (first,) = session.wire.ways_out(0)
    os.kill(first, signal.SIGKILL)
    _wait("it is gone", lambda: first not in session.wire.ways_out(0))
    _pair(session, "after")
    if len(session.wire.ways_out(0)) != 1:
        raise Failure("not one way out after the next program")
    _expect_running(*local)


HOLD = """
import socket, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("10.77.0.1", 4791))
print("held", flush=True)
time.sleep(120)
"""


def _expect_local_alone(session, *says):
    """A pair of one host does well, and one line, once, says why others are not reached."""
    server, client = _pair(session, "of one host", (0, 0), address="127.0.0.1")
    text = server.output() + client.output()
    lines = [line for line in text.splitlines() if "only programs of this machine are reached" in line]
    if len(lines) != 1 or any(word not in lines[0] for word in says):
        raise Failure(f"not one line with {says}: {lines}")


def taken(session):
    """Where somebody else has UDP port 4791."""
    holder = session.start_plain("holder", [*session.wire.inside(0), "python3", "-c", HOLD])
    if not holder.wait_for_output("held", PATIENCE_S):
        raise Failure("the port could not be held")
    _expect_local_alone(session, "UDP port 4791 of 10.77.0.1 is in use", "rxe")
    if session.wire.ways_out(0):
        raise Failure("a way out is there although it cannot be had")
    holder.stop()

    def is_tried_again():
        session.expect_exit(session.start("asker", 0, ["ibv_devinfo"]), PATIENCE_S)
        return session.wire.ways_out(0)

    _wait("the next program tries again", is_tried_again)
    _pair(session, "when it is free")


def no_addresses(session):
    """A machine with nothing but loopback."""
    wires._ip("-n", session.wire._spaces[0], "addr", "flush", "dev", "wire0")
    _expect_local_alone(session, "no interface of this machine has an address")


def network_down(session):
    """Programs of a host reach each other while its network is down, whether the way out was there before or not."""
    def pair(name):
        return _pair(session, name, (0, 0), address="127.0.0.1")

    wires._ip("-n", session.wire._spaces[1], "link", "set", "wire0", "down")  # the other end: no carrier
    pair("from the beginning")
    wires._ip("-n", session.wire._spaces[1], "link", "set", "wire0", "up")
    local = _endless(session)
    _wait("the way out starts", lambda: session.wire.ways_out(0))
    wires._ip("-n", session.wire._spaces[1], "link", "set", "wire0", "down")
    pair("meanwhile")
    _expect_running(*local)


def _rping_at(session, server, address):
    client = None
    for _ in range(100):  # until the server listens: nothing tells from outside
        client = session.start(f"client to {address}", 1, ["rping", "-c", "-a", address, "-v", "-C", "5"])
        session.expect_exit(client, PATIENCE_S)
        if client.exit_code == 0 or server.exit_code is not None:
            break
        time.sleep(0.2)
    if client.exit_code != 0 or "ping data: rdma-ping-4" not in client.output():
        raise Failure(f"the client at {address} did not get its answers")
    session.expect_exit(server, PATIENCE_S)


def _late(six):
    """Who only listens is found at an address that its host got after it started."""
    any_address, address = ("::", "fd77:9::1") if six else ("0.0.0.0", "10.78.0.1")

    def body(session):
        server = session.start("server", 0, ["stdbuf", "-oL", "rping", "-s", "-a", any_address, "-v", "-C", "5"])
        _wait("the server opens the device", lambda: session.wire.has_port(0))
        for side, space in enumerate(session.wire._spaces):
            its = f"fd77:9::{side + 1}/64" if six else f"10.78.0.{side + 1}/24"
            wires._ip("-n", space, "addr", "add", its, "dev", "wire0")  # IPv6: tentative for a second or two
        _rping_at(session, server, address)

    return body


def tentative(session):
    """The only address is one of which the kernel is not sure yet."""
    for side, space in enumerate(session.wire._spaces):
        wires._ip("netns", "exec", space, "sysctl", "-qw", "net.ipv6.conf.wire0.dad_transmits=5")
        wires._ip("-n", space, "addr", "flush", "dev", "wire0", "scope", "global")
        wires._ip("-n", space, "addr", "add", f"fd77:9::{side + 1}/64", "dev", "wire0")
    server = session.start("server", 0, ["stdbuf", "-oL", "rping", "-s", "-a", "::", "-v", "-C", "5"])
    _rping_at(session, server, "fd77:9::1")


def plain(session):
    """A program that asked for no network, and was there first, is of the same host: it is reached from the network as
    long as there is a way out."""
    line = ["stdbuf", "-oL", "rping", "-s", "-a", "0.0.0.0", "-v", "-C", "5"]
    server = session.start_plain("plain", [*session.wire.prefix(0), session.uroce, "run", "--port", "shmlan", "--", *line])
    time.sleep(1)  # likely first; the other order is no other result
    session.start("who asks for the network", 0, ["rping", "-s", "-a", "0.0.0.0", "-p", "7175"])
    _wait("the way out starts", lambda: session.wire.has_port(0))
    _rping_at(session, server, "10.77.0.1")


def namespaces(session):
    """Each network namespace has a way out of its own, and no part of the other's."""
    _pair(session, "in two namespaces")
    spaces = {os.readlink(f"/proc/{pid}/ns/net") for pid in session.wire.ways_out(0)}
    if len(spaces) != 2:
        raise Failure(f"ways out in {len(spaces)} namespaces, not in two")
    wires._ip("-n", session.wire._spaces[1], "addr", "flush", "dev", "wire0")
    line = [*session.wire.prefix(1), session.uroce, "run", "--port", "shmlan", "--", "ibv_devinfo", "-v"]
    alone = session.start_plain("who has no network", line)
    session.expect_exit(alone, PATIENCE_S)
    if "PORT_ACTIVE" not in alone.output() or "10.77.0.1" in alone.output():
        raise Failure("it has an address of the other namespace, or no port")


OPENS = """
import ctypes, faulthandler, os, sys
verbs = ctypes.CDLL("libibverbs.so.1")
verbs.ibv_get_device_list.restype = ctypes.POINTER(ctypes.c_void_p)
verbs.ibv_open_device.restype = ctypes.c_void_p
verbs.ibv_open_device.argtypes = [ctypes.c_void_p]
def opened():
    return bool(verbs.ibv_open_device(verbs.ibv_get_device_list(None)[0]))
"""

# A job manager that waits for all of its children.
ADOPTS = OPENS + """
ctypes.CDLL(None).prctl(36, 1)  # PR_SET_CHILD_SUBREAPER
print("opened", opened(), flush=True)
try:
    print("has a child:", os.wait(), flush=True)
except ChildProcessError:
    print("no child", flush=True)
"""

# The child of a fork starts a way out after it has set a handler of its own.
HANDLES = OPENS + """
print("opened", opened(), flush=True)
sys.stdin.readline()
if os.fork() == 0:
    faulthandler.enable()
    print("child opened", opened(), flush=True)
    faulthandler._sigsegv()
os.wait()
"""


def adopts(session):
    """A program that takes in orphans gets no child by us, and a line that says what to do."""
    child = session.start("subreaper", 0, ["python3", "-c", ADOPTS])
    session.expect_exit(child, PATIENCE_S)
    for text in ("opened True", "no child", "takes in orphans", "uroced --port net_udp0"):
        if text not in child.output():
            raise Failure(f"it did not say: {text}")
    if session.wire.ways_out(0):
        raise Failure("it started one all the same")


def handlers(session):
    """Handlers of signals that a program has set are there when it has started a way out."""
    line = [*session.wire.prefix(0), session.uroce, "run", "--port", "network", "--", "python3", "-c", HANDLES]
    with tempfile.TemporaryFile(mode="w+") as said:
        program = subprocess.Popen(line, stdin=subprocess.PIPE, stdout=said, stderr=subprocess.STDOUT, text=True)
        _wait("the way out starts", lambda: session.wire.ways_out(0))
        for pid in session.wire.ways_out(0):
            os.kill(pid, signal.SIGKILL)
        _wait("it is gone", lambda: not session.wire.ways_out(0))
        program.communicate("go on\n", PATIENCE_S)
        said.seek(0)
        text = said.read()
    if "child opened True" not in text or "Fatal Python error: Segmentation fault" not in text:
        raise Failure(f"the handler was not called: {text}")


def no_log(session):
    """A way out whose log cannot be written is one all the same."""
    _pair(session, "first")
    (log,) = pathlib.Path(session.wire.runtime(0)).glob("uroced.*.log")
    _wait("the way out ends", lambda: not session.wire.ways_out(0))
    log.unlink()
    log.mkdir()
    _pair(session, "without a log")


def changes(session):
    """What addresses that come and go leave behind in the way out."""
    _endless(session)
    _wait("the way out starts", lambda: session.wire.has_port(0))
    (pid,) = session.wire.ways_out(0)
    space = session.wire._spaces[0]
    before = len(os.listdir(f"/proc/{pid}/fd"))
    for number in range(12):
        wires._ip("-n", space, "addr", "add", f"10.78.{number}.1/24", "dev", "wire0")
        _wait("it is served", lambda: session.wire.has_port(0, f"01{number:02X}4E0A"))
        wires._ip("-n", space, "addr", "del", f"10.78.{number}.1/24", "dev", "wire0")
        _wait("it is let go", lambda: not session.wire.has_port(0, f"01{number:02X}4E0A"))
    after = len(os.listdir(f"/proc/{pid}/fd"))
    if after > before:
        raise Failure(f"{before} descriptors before, and {after} after")


def interface_gone(session):
    """The addresses of the other interfaces go on when the first one is gone."""
    wires._ip("link", "add", "wire1", "netns", session.wire._spaces[0], "type", "veth", "peer", "name", "wire1", "netns", session.wire._spaces[1])
    for side, space in enumerate(session.wire._spaces):
        wires._ip("-n", space, "link", "set", "wire1", "mtu", "4200", "up")
        wires._ip("-n", space, "addr", "add", f"10.79.0.{side + 1}/24", "dev", "wire1")
    _endless(session)
    _wait("the way out starts", lambda: session.wire.has_port(0, "01004F0A"))
    wires._ip("-n", session.wire._spaces[0], "link", "del", "wire0")
    _wait("what is gone is let go", lambda: not session.wire.has_port(0, "01004D0A"))
    wires._ip("-n", session.wire._spaces[0], "addr", "add", "10.80.0.1/24", "dev", "wire1")
    _wait("a new address is served", lambda: session.wire.has_port(0, "0100500A"))


def _has_port(self, side, address=""):
    """Somebody at this side has UDP port 4791, of this address (as the kernel writes it)."""
    shown = subprocess.run([*self.inside(side), "cat", "/proc/net/udp", "/proc/net/udp6"], capture_output=True, text=True, check=True)
    return re.search(f"{address}:12B7 ", shown.stdout) is not None


UdpWire.has_port = _has_port

SCENARIOS = [
    Scenario("network_rping", rping, "network", "veth", timeout_s=120),
    Scenario("network_several", several, "network", "veth", timeout_s=180),
    Scenario("network_three_hosts", three, "network_three", "veth", timeout_s=180),
    Scenario("network_ends", ends, "network", "veth", timeout_s=240),
    Scenario("network_killed", killed, "network", "veth", timeout_s=240),
    Scenario("network_taken", taken, "network", "veth", timeout_s=240),
    Scenario("network_no_addresses", no_addresses, "network", "veth", timeout_s=120),
    Scenario("network_down", network_down, "network", "veth", timeout_s=240),
    Scenario("network_namespaces", namespaces, "network_one_directory", "veth", timeout_s=120),
    Scenario("network_adopts", adopts, "network", "veth", timeout_s=120),
    Scenario("network_handlers", handlers, "network", "veth", timeout_s=120),
    Scenario("network_no_log", no_log, "network", "veth", timeout_s=240),
    Scenario("network_changes", changes, "network", "veth", timeout_s=240),
    Scenario("network_interface_gone", interface_gone, "network", "veth", timeout_s=120),
    Scenario("network_plain", plain, "network", "veth", timeout_s=120),
    Scenario("network_late_address", _late(False), "network", "veth", timeout_s=120),
    Scenario("network_late_address_six", _late(True), "network", "veth", timeout_s=120),
    Scenario("network_tentative", tentative, "network", "veth", timeout_s=120),
    Scenario("udp_late_address", _late(False), "udp", "veth", timeout_s=120),
    Scenario("udp_late_address_six", _late(True), "udp", "veth", timeout_s=120),
    Scenario("udp_tentative", tentative, "udp", "veth", timeout_s=120),
]
