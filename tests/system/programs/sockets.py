"""Programs of an unprivileged user over net_udp, the kernel's own UDP sockets: two namespaces, a veth pair, and at the
other end another such program, or one that has the interface itself."""

import os
import re
import shutil
import subprocess
import tempfile

import wires
from cases import perftest, pingpong
from children import Child
from outputs import check_bandwidth, trouble
from segments import expect_good_pairs, start_pairs
from session import Failure, Scenario
from wires import Skip, VethWire, find_built

NOBODY = "65534"


class UdpWire(VethWire):
    """Each side is a user without any capability."""

    def __init__(self, mtu=VethWire.MTU):
        super().__init__("udp", mtu)
        if shutil.which("setpriv") is None:
            raise Skip("setpriv is not installed")
        self._folder = None

    def __enter__(self):
        super().__enter__()
        for side, space in enumerate(self._spaces):
            wires._ip("-n", space, "addr", "add", f"fd77::{side + 1}/64", "dev", "wire0", "nodad")
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-sockets-")
        os.chmod(self._folder.name, 0o755)
        for side in (0, 1):
            os.mkdir(self.runtime(side), 0o700)
            os.chown(self.runtime(side), int(NOBODY), int(NOBODY))
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        if self._folder is not None:
            self._folder.cleanup()

    def runtime(self, side):
        return f"{self._folder.name}/{side}"

    def port(self, _side):
        return "net_udp0"

    def unprivileged(self, side):
        return ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--bounding-set=-all", "--no-new-privs",
                "env", "HOME=/", f"UROCE_RUNTIME_DIR={self.runtime(side)}"]

    def prefix(self, side):
        return [*super().prefix(side), *self.unprivileged(side)]

    def inside(self, side):
        """As root."""
        return super().prefix(side)


class UdpSmallWire(UdpWire):
    def __init__(self):
        super().__init__(1500)


class UdpCutWire(UdpWire):
    """Both sides by sockets; the messages are segmented before the interface, so that a capture shows packets."""

    def __enter__(self):
        super().__enter__()
        for space in self._spaces:
            wires._ip("-n", space, "link", "set", "wire0", "gso_max_segs", "1")
        return self


class UdpPacketWire(UdpCutWire):
    """The client's side has the interface for itself, with a packet socket."""

    def port(self, side):
        return super().port(side) if side == 0 else "net_af_packet0,iface=wire0"

    def prefix(self, side):
        return super().prefix(side) if side == 0 else self.inside(side)


class UdpUplinkWire(UdpWire):
    """A uroced on each side, unprivileged like the programs that share its port."""

    def __enter__(self):
        super().__enter__()
        self._daemons = []
        for side in (0, 1):
            daemon = Child(f"uroced {side}", [*self.prefix(side), find_built("apps/uroced"), "--port", "net_udp0"])
            self._daemons.append(daemon)
            if not daemon.wait_for_output("uroced is ready", 20):
                self.__exit__()
                raise Failure(f"uroced did not start: {daemon.output()}")
        return self

    def __exit__(self, *exception):
        for daemon in self._daemons:
            daemon.stop()
        super().__exit__(*exception)

    def port(self, _side):
        return "shmlan"


class UdpRouterWire(UdpWire):
    """A router between the two, whose interface towards the second side has a smaller MTU than the sides assume."""

    def __init__(self):
        super().__init__()
        self._router = f"uroce-t{os.getpid()}-router"

    def __enter__(self):
        super().__enter__()
        try:
            wires._make_namespace(self._router)
            for side, space in enumerate(self._spaces):
                wires._ip("-n", space, "link", "del", "wire0") if side == 0 else None
                wires._ip("link", "add", "wire0", "netns", space, "type", "veth", "peer", "name", f"side{side}", "netns", self._router)
                wires._ip("-n", space, "link", "set", "wire0", "mtu", "4200", "up")
                wires._ip("-n", self._router, "link", "set", f"side{side}", "mtu", "4200" if side == 0 else "1500", "up")
                wires._ip("-n", space, "addr", "add", f"10.77.{side}.2/24", "dev", "wire0")
                wires._ip("-n", self._router, "addr", "add", f"10.77.{side}.1/24", "dev", f"side{side}")
                wires._ip("-n", space, "route", "add", "default", "via", f"10.77.{side}.1")
            wires._ip("netns", "exec", self._router, "sysctl", "-qw", "net.ipv4.ip_forward=1")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr}") from error
        return self

    def __exit__(self, *exception):
        subprocess.run(["ip", "netns", "del", self._router], check=False, capture_output=True)
        super().__exit__(*exception)

    def tcp_address(self, side):
        return f"10.77.{side}.2"


wires.WIRES.update({"udp": UdpWire, "udp_1500": UdpSmallWire, "udp_cut": UdpCutWire, "udp_packet": UdpPacketWire,
                    "udp_uplink": UdpUplinkWire, "udp_router": UdpRouterWire})


def cases():
    for kind in ("rc", "ud", "uc"):
        yield pingpong(kind, "_udp", "-g", "1", "-c", wire="udp", suite="veth" if kind != "uc" else "long")
    yield pingpong("rc", "_udp_events", "-g", "1", "-e", wire="udp", suite="veth")
    yield pingpong("rc", "_udp_gid0", "-g", "0", "-c", wire="udp", suite="long")
    yield pingpong("rc", "_udp_six", "-g", "2", "-c", wire="udp", suite="veth")
    yield pingpong("rc", "_udp_1500", "-g", "1", "-c", wire="udp_1500", suite="long")
    yield pingpong("ud", "_udp_packet", "-g", "1", "-c", wire="udp_packet", suite="long")
    yield pingpong("rc", "_udp_packet", "-g", "1", "-c", wire="udp_packet", suite="veth")
    for operation in ("write", "read", "send", "atomic"):
        suite = "veth" if operation in ("write", "read") else "long"
        yield perftest(f"ib_{operation}_bw", "_udp", "-n", "500", wire="udp", suite=suite)
        yield perftest(f"ib_{operation}_lat", "_udp", "-n", "200", wire="udp", suite="veth" if operation == "send" else "long")
    yield perftest("ib_write_bw", "_udp_1500", "-n", "500", wire="udp_1500", suite="veth")
    yield perftest("ib_write_bw", "_udp_six", "-x", "2", "-n", "300", wire="udp", suite="long")
    yield perftest("ib_write_bw", "_udp_qp16", "-q", "16", "-n", "100", wire="udp", suite="long")
    for operation in ("write", "read"):
        yield perftest(f"ib_{operation}_bw", "_udp_packet", "-n", "300", wire="udp_packet", suite="veth")
    yield perftest("ib_write_bw", "_udp_uplink", "-n", "300", wire="udp_uplink", suite="veth")
    yield perftest("ib_send_lat", "_udp_uplink", "-n", "200", wire="udp_uplink", suite="long")


# Captures what arrives at port 4791 of this side's interface, and recomputes each iCRC with zlib over the bytes as they
# are there. Ends once the number of packets that a peer has sent is known, or after a while.
CATCH = r"""
import collections, socket, sys, zlib
catcher = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
catcher.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)
catcher.bind(("wire0", 3))
print("catching", flush=True)
found, ids = collections.Counter(), collections.Counter()
catcher.settimeout(float(sys.argv[2]))
try:
    while found["good"] + found["bad"] < int(sys.argv[1]):
        frame, where = catcher.recvfrom(70000)
        six = frame[12:14] == b"\x86\xdd"
        size = 40 if six else 20
        ip = bytearray(frame[14:])
        if where[2] == socket.PACKET_OUTGOING or frame[12:14] not in (b"\x08\0", b"\x86\xdd") or ip[6 if six else 9] != 17:
            continue
        ip = ip[:int.from_bytes(ip[4:6], "big") + 40 if six else int.from_bytes(ip[2:4], "big")]
        if ip[size + 2:size + 4] != b"\x12\xb7":
            continue
        if not six:
            ids[int.from_bytes(ip[4:6], "big")] += 1
        masked = bytearray(ip)
        for at in ((0, 1, 2, 3, 7) if six else (1, 8, 10, 11)):
            masked[at] |= 0x0f if six and at == 0 else 0xff
        for at in (6, 7, 12):
            masked[size + at] = 0xff
        right = zlib.crc32(b"\xff" * 8 + bytes(masked[:-4])).to_bytes(4, "little")
        found["good" if right == bytes(ip[-4:]) else "bad"] += 1
except TimeoutError:
    pass
print("good", found["good"], "bad", found["bad"], "largest id", max(ids, default=-1), flush=True)
"""


def _pair(session, words, timeout_s=40):
    server, client = session.start_pair(words)
    for child in (client, server):
        session.expect_exit(child, timeout_s)
    return server, client


def _expect_good(*children):
    for child in children:
        problems = trouble(child.output())
        if child.exit_code != 0 or problems:
            raise Failure(f"the {child.name}: exit {child.exit_code} {'; '.join(problems)}")


def _exact(packets, *options):
    """Each packet has the right iCRC for the headers that the kernel built, as an independent program computes it."""

    def body(session):
        catcher = session.start_plain("catcher", [*session.wire.inside(1), "python3", "-c", CATCH, str(packets), "10"])
        if not catcher.wait_for_output("catching", 20):
            raise Failure("packets cannot be caught")
        # READ: the server sends the data. The catcher sees the packets for side 1.
        server, client = _pair(session, ["ib_read_bw", "-n", "100", *options])
        _expect_good(server, client)
        if check_bandwidth(client.output(), (65536,)):
            raise Failure("no result")
        session.expect_exit(catcher, 30)
        found = re.search(r"good (\d+) bad (\d+) largest id (-?\d+)", catcher.output())
        if not found or int(found[1]) < packets or int(found[2]) != 0:
            raise Failure(f"not {packets} packets with a right iCRC and none with a wrong one: {catcher.output()}")
        if "-x" not in options and int(found[3]) < 1:
            raise Failure("no message of several packets was sent, which was to be looked at")

    return body


def rping(session):
    """Connections by address, IPv4 and IPv6."""
    if shutil.which("rping") is None:
        raise Skip("rping is not installed")
    for address in ("10.77.0.1", "fd77::1"):
        server = session.start(f"server at {address}", 0, ["stdbuf", "-oL", "rping", "-s", "-a", address, "-v", "-C", "10"])
        client = None
        for _ in range(100):  # until the server listens, which is not visible from outside
            client = session.start(f"client to {address}", 1, ["rping", "-c", "-a", address, "-v", "-C", "10"])
            session.expect_exit(client, 30)
            if client.exit_code == 0 or server.exit_code is not None:
                break
        if client.exit_code != 0 or "ping data: rdma-ping-9" not in client.output():
            raise Failure(f"the client at {address} did not get its answers")
        session.expect_exit(server, 20)


HOLD = """
import socket, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("10.77.0.1", 4791))
print("held", flush=True)
time.sleep(60)
"""


def refused(session):
    """An impossible request gets one line that says what to do."""
    holder = session.start_plain("holder", [*session.wire.inside(0), "python3", "-c", HOLD])
    if not holder.wait_for_output("held", 20):
        raise Failure("the port could not be held")
    child = session.start("second", 0, ["ibv_rc_pingpong", "-g", "1"])
    session.expect_refusal(child, 20, "UDP port 4791 of 10.77.0.1 is in use: another program", "rxe", "uroced")
    if len([line for line in child.output().splitlines() if line.startswith("uroce:")]) != 1:
        raise Failure("not one line")
    holder.stop()
    for port, says in (("net_udp0,addr=192.0.2.7/24", "192.0.2.7/24 is no address of this machine"),
                       ("net_udp0,iface=nosuch7", "nosuch7"), ("net_udp0,socket=7", "socket=7")):
        line = [*session.wire.prefix(0), session.uroce, "run", "--port", port, "--", "ibv_rc_pingpong"]
        session.expect_refusal(session.start_plain(port, line), 20, says)


def several(session):
    """Pairs running at the same time share a machine's UDP port 4791 through an unprivileged uroced."""
    kinds = ("ib_write_bw", "ib_read_bw", "ib_send_bw")
    expect_good_pairs(start_pairs(session, 3, [(0, 1), (1, 0)], ("-n", "200"), kinds))


def small_way(session):
    """The path has a smaller MTU than both interfaces, which the router tells the server's kernel: the program ends
    with an error, one line says why, and its advice helps."""
    words = ["ib_read_bw", "-n", "50"]
    server, client = session.start_pair(words)
    session.expect_exit(client, 40)
    session.expect_exit(server, 40)
    text = server.output() + client.output()
    found = re.findall(r"uroce: .*the way to (\S+) carries packets of 1500 bytes.*start it with --mtu 1500", text)
    if client.exit_code == 0 or len(found) != 1:
        raise Failure(f"{len(found)} lines about the way, exit {client.exit_code}")
    mtu = ["--mtu", "1500"]
    server, client = session.start_pair(words, (mtu, mtu))
    for child in (client, server):
        session.expect_exit(child, 40)
    _expect_good(server, client)


SCENARIOS = [
    Scenario("udp_rping", rping, "udp", "veth", timeout_s=90),
    Scenario("udp_rping_packet", rping, "udp_packet", "veth", timeout_s=90),
    Scenario("udp_exact", _exact(1000), "udp_cut", "veth", timeout_s=60),
    Scenario("udp_exact_six", _exact(1000, "-x", "2"), "udp_cut", "veth", timeout_s=60),
    Scenario("udp_refused", refused, "udp", "veth"),
    Scenario("udp_several", several, "udp_uplink", "veth", timeout_s=90),
    Scenario("udp_small_way", small_way, "udp_router", "veth", timeout_s=120),
]
