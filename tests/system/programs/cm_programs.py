"""Unmodified programs that connect by address and port, through the distribution's librdmacm."""

import dataclasses
import functools
import glob
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

from children import free_tcp_port, wait_for_listener
from outputs import check_bandwidth, check_latency, trouble
from session import Failure, Scenario
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"
START_TIMEOUT_S = 20
KILLED_WITHIN_S = 2
LISTENS = r"of RDMA port space"  # what the shim logs about a listener, with UROCE_LOG=info
LOUD = {"UROCE_LOG": "info"}


@dataclasses.dataclass(frozen=True)
class CmCase:
    """A server and a client. `{address}` is the server's address, of the kind `to`; `{port}` a port."""

    name: str
    server: str
    client: str
    says: tuple = ()           # patterns in the client's output
    server_says: tuple = ()
    to: str = "own"            # "own": the server's IPv4 address; "own6": IPv6; "loopback": 127.0.0.1
    stays: bool = False        # the server does not end by itself
    check: object = None       # a function that returns what is wrong with the client's output
    clients: int = 1           # one after the other
    timeout_s: int = 60


def options_of(wire, side):
    """Addresses of both families, where a wire does not define them."""
    if wire == "segment":
        return ()
    return ("--addr", f"10.79.0.{side + 1}/24", "--addr", f"fd79::{side + 1}/64")


def address_of(server, to):
    """The server's address of that kind, as its endpoint logs it at start."""
    if to == "loopback":
        return "127.0.0.1"
    pattern = r"^uroce: address (\d+\.\d+\.\d+\.\d+)/" if to == "own" else r"^uroce: address (f[d-f][0-9a-f:]+)/"
    found = re.search(pattern, server.output(), re.MULTILINE)
    if not found:
        raise Failure("the server's endpoint does not say its address")
    return found[1]


def expect(child, patterns):
    for pattern in patterns:
        if not re.search(pattern, child.output(), re.MULTILINE):
            raise Failure(f"nothing that the {child.name} said matches /{pattern}/")


def expect_success(session, child, timeout_s):
    session.expect_exit(child, timeout_s)
    problems = trouble(child.output())
    if child.exit_code != 0 or problems:
        raise Failure("; ".join([f"the {child.name}'s exit code is {child.exit_code}", *problems]))


def start_server(session, wire, command, environment=None):
    server = session.start("server", 0, command, {**LOUD, **(environment or {})}, options_of(wire, 0))
    session.wire.attach(0, server)
    deadline = time.monotonic() + START_TIMEOUT_S
    while LISTENS not in server.output():
        if time.monotonic() > deadline or server.exit_code is not None:
            raise Failure("the server did not get as far as listening")
        time.sleep(0.02)
    return server


def run_client(case, wire, session, server, name):
    command = case.client.format(address=address_of(server, case.to)).split()
    client = session.start(name, 1, command, None, options_of(wire, 1))
    session.wire.attach(1, client)
    session.wait_for_end(client, case.timeout_s)
    expect_success(session, client, 1)
    expect(client, case.says)
    problems = case.check(client.output()) if case.check is not None else []
    if problems:
        raise Failure("; ".join(problems))


def run_case(case, wire, session):
    program = case.client.split()[0]
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed")
    server = start_server(session, wire, case.server.split())
    for number in range(case.clients):
        name = f"client {number + 1}" if case.clients > 1 else "client"
        run_client(case, wire, session, server, name)
    if not case.stays:
        expect_success(session, server, case.timeout_s)
    elif server.exit_code is not None:
        raise Failure(f"the server ended (exit {server.exit_code})")
    expect(server, case.server_says)


PINGS = (r"^ping data: rdma-ping-0: ", r"^ping data: rdma-ping-9: ")
SERVER_PINGS = (r"^server ping data: rdma-ping-0: ", r"^server ping data: rdma-ping-9: ")
DONE = (r"^data transfers complete", r"^return status 0$")
# rpoll reports the server's end to the client together with its last data, and the client then gives up.
MOST_STREAMS = (r"^64_lat .* \d+\.\d+$", r"^64k_bw .* \d+\.\d+$")
CUSTOM = (r"^custom .* \d+\.\d+$",)
STREAMS = (r"^64_lat .* \d+\.\d+$", r"^1m_bw .* \d+\.\d+$")

CASES = [
    CmCase("rping", "rping -s -v -C 10", "rping -c -a {address} -v -C 10", PINGS, SERVER_PINGS),
    CmCase("rping_loopback", "rping -s -v -C 10", "rping -c -a 127.0.0.1 -v -C 10", PINGS, SERVER_PINGS, to="loopback"),
    CmCase("rping_ipv6", "rping -s -a ::0 -v -C 10", "rping -c -a {address} -v -C 10", PINGS, SERVER_PINGS, to="own6"),
    CmCase("rping_validate", "rping -s -V -S 10000 -C 100", "rping -c -a {address} -V -S 10000 -C 100"),
    CmCase("rping_own_queue_pair", "rping -s -q -v -C 10", "rping -c -q -a {address} -v -C 10", PINGS, SERVER_PINGS),
    CmCase("rping_persistent", "stdbuf -oL rping -s -P -v", "rping -c -a {address} -v -C 10", PINGS, SERVER_PINGS, stays=True,
           clients=3),
    CmCase("ucmatose", "ucmatose", "ucmatose -s {address}", DONE, DONE),
    CmCase("ucmatose_many", "ucmatose -c 16 -C 50 -S 1000", "ucmatose -s {address} -c 16 -C 50 -S 1000", DONE, DONE),
    CmCase("ucmatose_migrate", "ucmatose -m", "ucmatose -m -s {address}", (*DONE, "migrating"), DONE),
    CmCase("udaddy", "udaddy", "udaddy -s {address}", DONE, DONE),
    CmCase("udaddy_many", "udaddy -c 8 -C 30", "udaddy -s {address} -c 8 -C 30", DONE, DONE),
    CmCase("rdma_client", "rdma_server", "rdma_client -s {address}", (r"^rdma_client: end 0$",),
           (r"^rdma_server: end 0$",)),
    CmCase("cmtime", "cmtime", "cmtime -s {address} -c 200", (r"^connect +: +\d", r"^disconnect +: +\d"), stays=True),
    CmCase("rstream", "rstream", "rstream -s {address}", STREAMS, STREAMS),
    CmCase("rstream_poll", "rstream -T a", "rstream -s {address} -T a", MOST_STREAMS, STREAMS),
    CmCase("rstream_nonblocking", "rstream -T n", "rstream -s {address} -T n", STREAMS, STREAMS),
    CmCase("rstream_blocking", "rstream -T b", "rstream -s {address} -T b", STREAMS, STREAMS),
    CmCase("rstream_verify", "rstream -T v", "rstream -s {address} -T v", STREAMS, STREAMS),
    # Both sides poll their memory and do not call us meanwhile, so a few iterations take long enough.
    CmCase("riostream", "riostream -S 4096 -C 1 -I 500", "riostream -s {address} -S 4096 -C 1 -I 500", CUSTOM, CUSTOM),
    CmCase("ib_send_bw_cm", "ib_send_bw -R", "ib_send_bw -R {address}", check=lambda text: check_bandwidth(text, (65536,))),
    CmCase("ib_write_bw_cm_qp4", "ib_write_bw -R -q 4 -n 500", "ib_write_bw -R -q 4 -n 500 {address}",
           check=lambda text: check_bandwidth(text, (65536,))),
    CmCase("ib_read_bw_cm", "ib_read_bw -R", "ib_read_bw -R {address}", check=lambda text: check_bandwidth(text, (65536,))),
    CmCase("ib_write_lat_cm", "ib_write_lat -R", "ib_write_lat -R {address}", check=lambda text: check_latency(text, (2,))),
    CmCase("ib_send_lat_cm_ud", "ib_send_lat -R -c UD", "ib_send_lat -R -c UD {address}",
           check=lambda text: check_latency(text, (2,))),
]

# On other wires: one case of each kind.
ELSEWHERE = {"rping", "rping_ipv6", "rping_persistent", "ucmatose_many", "udaddy", "rdma_client", "cmtime", "rstream",
             "ib_send_bw_cm", "ib_write_lat_cm"}
WIRES = {"card": "card", "switch": "long", "veth": "veth"}
HOGS = ("rstream", "riostream", "ib_")  # need the CPUs for themselves


def rcopy(wire, session):
    """A file, over an rsocket."""
    if shutil.which("rcopy") is None:
        raise Skip("rcopy is not installed")
    with tempfile.TemporaryDirectory(prefix="uroce-rcopy-") as folder:
        source, target = pathlib.Path(folder) / "source", pathlib.Path(folder) / "target"
        source.write_bytes(os.urandom(3_000_001))
        server = start_server(session, wire, ["rcopy"])
        address = address_of(server, "own")
        client = session.start("client", 1, ["rcopy", str(source), f"{address}:{target}"], None, options_of(wire, 1))
        expect_success(session, client, 40)
        expect(client, (r"^3000001 bytes in ",))
        if target.read_bytes() != source.read_bytes():
            raise Failure("the copy differs")


def nobody_listens(wire, session):
    """A client that connects to a port without a listener gets an error."""
    if shutil.which("rping") is None:
        raise Skip("rping is not installed")
    server = start_server(session, wire, ["rping", "-s", "-p", "7200"])
    client = session.start("client", 1, ["rping", "-c", "-a", address_of(server, "own"), "-p", "7201", "-C", "1"], None,
                           options_of(wire, 1))
    session.expect_exit(client, 10)
    if client.exit_code == 0:
        raise Failure("the client connected")
    expect(client, (r"RDMA_CM_EVENT_REJECTED, error 8",))


def killed_server(wire, session):
    """The port of a killed listener is free again."""
    if shutil.which("rping") is None:
        raise Skip("rping is not installed")
    server = start_server(session, wire, ["rping", "-s", "-P"])
    server.signal(signal.SIGKILL)
    server.wait(5)
    server = start_server(session, wire, ["rping", "-s", "-v", "-C", "10"])
    client = session.start("client", 1, ["rping", "-c", "-a", address_of(server, "own"), "-v", "-C", "10"], None,
                           options_of(wire, 1))
    expect_success(session, client, 20)
    expect(client, PINGS)


def killed_peer(wire, session):
    """A program connected with a killed program learns at once that the connection has ended."""
    if shutil.which("rping") is None:
        raise Skip("rping is not installed")
    server = start_server(session, wire, ["rping", "-s"])
    client = session.start("client", 1, ["stdbuf", "-oL", "rping", "-c", "-v", "-a", address_of(server, "own")], LOUD,
                           options_of(wire, 1))
    if not client.wait_for_output("ping data: rdma-ping-9: ", START_TIMEOUT_S):
        raise Failure("the two do not talk")
    server.signal(signal.SIGKILL)
    if not client.wait_for_output("DISCONNECT EVENT", KILLED_WITHIN_S):
        raise Failure(f"the client was not told within {KILLED_WITHIN_S} s")
    session.expect_exit(client, 5)
    expect(client, (r"cm_ended_for_peer 1\b",))


def udpong(_, session):
    """Datagrams of rsockets. The first goes over the kernel's UDP, so the machine itself must have the address."""
    if shutil.which("udpong") is None:
        raise Skip("udpong is not installed")
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("network namespaces need root")
    script = """
        ip link set lo up && ip link add near type veth peer name far && ip addr add 10.9.0.1/24 dev near &&
        ip link set near up && ip link set far up || exit 1
        "$@" udpong -b 10.9.0.1 -T e &
        for try in $(seq 100); do ss -Hlun sport = 7174 | grep -q . && break; sleep 0.1; done
        "$@" udpong -b 10.9.0.1 -s 10.9.0.1 -T e -C 1000
        code=$?
        kill $!
        exit $code"""
    child = session.start_plain("programs", ["unshare", "--net", "sh", "-c", script, "sh", session.uroce, "run", "--port",
                                             session.wire.port(0), "--"], LOUD)
    expect_success(session, child, 30)
    expect(child, (CUSTOM[0], r"counted: .*rx_sends \d{4}"))


def sockets_of_tcp(wire, session):
    """A program that knows only sockets: librspreload turns its TCP connections into RDMA connections."""
    preload = glob.glob("/usr/lib/*/rsocket/librspreload.so")
    if not preload:
        raise Skip("there is no librspreload.so (librdmacm1)")
    environment = {"LD_PRELOAD": preload[0]}
    with tempfile.TemporaryDirectory(prefix="uroce-sockets-") as folder:
        program = f"{folder}/socket_echo"
        subprocess.run(["cc", "-O1", "-o", program, str(SOURCES / "socket_echo.c")], check=True)
        server = start_server(session, wire, [program, "7300"], environment=environment)
        client = session.start("client", 1, [program, "7300", address_of(server, "own")], {**LOUD, **environment},
                               options_of(wire, 1))
        expect_success(session, client, 40)
        expect(client, (r"^same$", r"counted: .*rx_write_requests"))  # it used RDMA
        expect_success(session, server, 10)


def multicast(wire, session, options=()):
    """Members of a group receive what is sent to it."""
    if shutil.which("mckey") is None:
        raise Skip("mckey is not installed")
    receiver = session.start("receiver", 0, ["stdbuf", "-oL", "mckey", "-m", "239.1.2.3", "-C", "10", *options], None, options_of(wire, 0))
    session.wire.attach(0, receiver)
    if not receiver.wait_for_output("receiving data transfers", START_TIMEOUT_S):
        raise Failure("the receiver did not join")
    sender = session.start("sender", 1, ["mckey", "-m", "239.1.2.3", "-s", "-C", "10", *options], None, options_of(wire, 1))
    session.wire.attach(1, sender)
    for child in (sender, receiver):
        expect_success(session, child, 20)
        expect(child, (r"joined dgid: ::ffff:239\.1\.2\.3", *DONE))


# Over a switch that loses one frame in a hundred. Each loss costs a timeout, so rstream is told to do less than its
# default.
LOSSY_SWITCH = [
    *(case for case in CASES if case.name in {"rping", "rping_validate", "ucmatose_many", "rdma_client", "ib_send_bw_cm"}),
    CmCase("rstream_few", "rstream -T v -S 16384 -C 1 -I 200", "rstream -s {address} -T v -S 16384 -C 1 -I 200", CUSTOM, CUSTOM),
]


def libfabric(provider, kind, session, largest="1m"):
    """The two sides meet over TCP first, and exchange their RDMA ports."""
    if shutil.which("fi_pingpong") is None:
        raise Skip("fi_pingpong is not installed (libfabric-bin)")
    port = free_tcp_port()
    command = ["fi_pingpong", "-p", provider, "-e", kind]
    server = session.start("server", 0, [*command, "-B", str(port)])
    if not wait_for_listener(server, port, START_TIMEOUT_S):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [*command, "-P", str(port), "127.0.0.1"])
    for child in (client, server):
        expect_success(session, child, 40)
        expect(child, (r"^64 +\d+ +=\d+ ", rf"^{largest} +\d+ +=\d+ "))


def scenarios():
    for case in CASES:
        company = "alone" if case.name.startswith(HOGS) else "beside"
        yield Scenario(f"cm_{case.name}", functools.partial(run_case, case, "segment"), timeout_s=case.timeout_s + 30,
                       company=company)
        if case.name in ELSEWHERE:
            for wire, suite in WIRES.items():
                yield Scenario(f"cm_{case.name}_{wire}", functools.partial(run_case, case, wire), wire=wire, suite=suite,
                               timeout_s=case.timeout_s + 30, company=company)
    for case in LOSSY_SWITCH:
        yield Scenario(f"cm_{case.name}_switch_lossy", functools.partial(run_case, case, "switch_lossy"),
                       wire="switch_lossy", suite="long", timeout_s=case.timeout_s + 30)
    for body in (rcopy, nobody_listens, killed_server, killed_peer, sockets_of_tcp, udpong):
        yield Scenario(f"cm_{body.__name__}", functools.partial(body, "segment"), timeout_s=90)
    for wire, suite in {"segment": "programs", **WIRES}.items():
        name = "cm_multicast" if wire == "segment" else f"cm_multicast_{wire}"
        yield Scenario(name, functools.partial(multicast, wire), wire=wire, suite=suite if wire in ("segment", "veth") else "long",
                       timeout_s=60)
    yield Scenario("cm_multicast_no_loopback", functools.partial(multicast, "segment", options=("-l",)), timeout_s=60)
    yield Scenario("cm_libfabric_msg", functools.partial(libfabric, "verbs", "msg"), timeout_s=90)
    yield Scenario("cm_libfabric_rdm", functools.partial(libfabric, "verbs;ofi_rxm", "rdm"), timeout_s=90)
    yield Scenario("cm_nobody_listens_veth", functools.partial(nobody_listens, "veth"), wire="veth", suite="veth")


SCENARIOS = list(scenarios())
