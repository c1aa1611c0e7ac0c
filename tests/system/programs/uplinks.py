"""Programs that share a port through uroced: with each other, with a peer beyond it, and when uroced goes away."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "testpmd"))

import faults
import harness
import wires
from cases import perftest, pingpong
from children import Child, free_tcp_port, wait_for_listener
from harness import TrustedPlugin
from outputs import trouble
from segments import build_program, counters, expect_good_pairs, start_pairs
from session import Failure, Scenario
from wires import CardWire, Skip, TapWire, VethWire, find_built


SHOWS_PORT = pathlib.Path(__file__).resolve().parent / "sources" / "shows_port.py"


class Uplinks:
    """A uroced for each of some sides of a wire; the programs of a side share a directory of their own."""

    SIDES = (0, 1)

    def __enter__(self):
        super().__enter__()
        self.daemons = {}
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-uplinks-")
        try:
            for side in self.SIDES:
                os.makedirs(self.runtime(side), exist_ok=True)
                self.start_daemon(side)
        except (Failure, subprocess.CalledProcessError):
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception):
        for daemon in self.daemons.values():
            daemon.stop()
        self._folder.cleanup()
        super().__exit__(*exception)

    def runtime(self, side):
        return f"{self._folder.name}/{side}"

    def daemon_command(self, side):
        return ["--port", super().port(side)]

    def start_daemon(self, side, *options):
        command = [*super().prefix(side), find_built("apps/uroced"), *self.daemon_command(side), *options]
        daemon = Child(f"uroced {side}", command, {"UROCE_RUNTIME_DIR": self.runtime(side)})
        self.daemons[side] = daemon
        super().attach(side, daemon)
        if not daemon.wait_for_output("uroced is ready", 20):
            raise Failure(f"uroced did not start: {daemon.output()}")

    def port(self, side):
        return "shmlan" if side in self.SIDES else super().port(side)

    def prefix(self, side):
        within = super().prefix(side)
        return [*within, "env", f"UROCE_RUNTIME_DIR={self.runtime(side)}"] if side in self.SIDES else within

    def attach(self, side, child):
        if side not in self.SIDES:
            super().attach(side, child)


class UplinkWire(Uplinks, VethWire):
    """Two namespaces, each with a uroced at its end of a veth pair."""


class HalfUplinkWire(Uplinks, VethWire):
    """The server's side has a uroced, the client has the port for itself."""

    SIDES = (0,)


class UplinkTapWire(Uplinks, TapWire):
    def daemon_command(self, side):
        return [*super().daemon_command(side), "--addr", f"10.79.0.{side + 1}/24"]


class TapPeerWire(TapWire):
    """A TAP that a bridge joins to a veth pair; the client is in another namespace, with the pair's other end."""

    def __init__(self):
        super().__init__()
        self._peer_space = f"{self._space}-peer"

    def __enter__(self):
        super().__enter__()
        try:
            wires._make_namespace(self._peer_space)
            wires._ip("link", "add", "joint0", "netns", self._space, "type", "veth", "peer", "name", "wire0", "netns",
                      self._peer_space)
            wires._ip("-n", self._space, "link", "set", "joint0", "master", "bridge0", "up")
            wires._ip("-n", self._space, "addr", "add", "10.80.0.1/24", "dev", "bridge0")
            wires._ip("-n", self._peer_space, "link", "set", "wire0", "up")
            for address in ("10.79.0.2/24", "10.80.0.2/24"):
                wires._ip("-n", self._peer_space, "addr", "add", address, "dev", "wire0")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr}") from error
        return self

    def __exit__(self, *exception):
        super().__exit__(*exception)
        subprocess.run(["ip", "netns", "del", self._peer_space], check=False, capture_output=True)

    def port(self, side):
        return super().port(side) if side == 0 else "net_af_packet0,iface=wire0"

    def prefix(self, side):
        return super().prefix(side) if side == 0 else ["ip", "netns", "exec", self._peer_space]

    def attach(self, side, child):
        if side == 0:
            super().attach(side, child)

    def tcp_address(self, side):
        return f"10.80.0.{side + 1}"


class UplinkTapPeerWire(Uplinks, TapPeerWire):
    """The server's uroced has the TAP, the client has its port for itself."""

    SIDES = (0,)

    def daemon_command(self, side):
        return [*super().daemon_command(side), "--addr", f"10.79.0.{side + 1}/24"]


class UplinkTapPeersWire(UplinkTapPeerWire):
    """The same, with a uroced in the other namespace as well."""

    SIDES = (0, 1)


class UplinkCardWire(Uplinks, CardWire):
    """Two inline models of the card; uroced gets EAL's arguments, as for a card on PCI. The cable is in the directory
    that both sides share, so they have separate segments there."""

    def __enter__(self):
        try:
            self._plugin = TrustedPlugin(find_built("pmd/ethdev/librte_net_mqnic.so"))
        except harness.Skip as reason:
            raise Skip(str(reason)) from reason
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        self._plugin.close()

    def runtime(self, side):
        return f"{self._folder.name}/both"

    def port(self, side):
        return f"shmlan:side{side}"

    def daemon_command(self, side):
        device = CardWire.port(self, side).replace("net_mqnic0", f"--vdev=net_mqnic0,mac=02:00:00:00:78:0{side + 1}", 1)
        return ["-d", str(self._plugin.path), "--no-huge", "-m", "128", "--no-pci", "-l", str(side % os.cpu_count()),
                f"--file-prefix=uroced{os.getpid()}-{side}", device, "--", "--segment", f"side{side}", "--addr", f"10.78.0.{side + 1}/24"]


class UplinkOneCardWire(UplinkCardWire):
    """One inline model of the card with a uroced, and at the other end of its cable one used by a single program."""

    SIDES = (0,)

    def port(self, side):
        return super().port(side) if side in self.SIDES else CardWire.port(self, side)

    def prefix(self, side):
        addresses = [] if side in self.SIDES else [f"UROCE_ADDR=10.78.0.{side + 1}/24"]
        return ["env", f"UROCE_RUNTIME_DIR={self.runtime(side)}", *addresses]


wires.WIRES.update({"uplink": UplinkWire, "uplink_half": HalfUplinkWire, "uplink_tap": UplinkTapWire,
                    "uplink_tap_peer": UplinkTapPeerWire, "uplink_tap_peers": UplinkTapPeersWire,
                    "uplink_record": UplinkCardWire, "uplink_one_card": UplinkOneCardWire})


def cases():
    for kind in ("rc", "uc", "ud", "srq"):
        suite = "veth" if kind in ("rc", "ud") else "long"
        yield pingpong(kind, "_uplink", "-g", "1", "-c", wire="uplink", suite=suite)
    yield pingpong("rc", "_uplink_events", "-g", "1", "-e", wire="uplink", suite="veth")
    yield pingpong("rc", "_uplink_gid0", "-g", "0", "-c", wire="uplink", suite="veth")
    for operation in ("write", "read", "send", "atomic"):
        yield perftest(f"ib_{operation}_bw", "_uplink_half", "-n", "500", wire="uplink_half", suite="veth")
        yield perftest(f"ib_{operation}_lat", "_uplink_half", "-n", "200", wire="uplink_half", suite="long")
    yield pingpong("rc", "_uplink_tap", "-g", "1", "-c", wire="uplink_tap", suite="veth")
    yield pingpong("rc", "_uplink_tap_peer", "-g", "1", "-c", wire="uplink_tap_peer", suite="veth")
    yield perftest("ib_send_bw", "_uplink_tap_peer", "-n", "300", wire="uplink_tap_peer", suite="veth")
    yield pingpong("rc", "_uplink_card", "-g", "1", "-c", wire="uplink_record", suite="card")
    yield perftest("ib_write_bw", "_uplink_card", "-x", "1", "-n", "500", wire="uplink_record", suite="card")


def several_at_once(session):
    """Programs of one machine share the port, and bypass it among themselves: those frames never leave the machine."""
    kinds = ("ib_write_bw", "ib_send_bw", "ib_read_bw")
    expect_good_pairs(start_pairs(session, 3, [(0, 1)], ("-n", "300"), kinds))
    before = counters(session, 0)
    for name in ("uplink_rx_packets", "uplink_tx_packets"):
        if before.get(name, 0) < 300:
            raise Failure(f"{name} is {before.get(name)}, after 900 messages of 16 packets")
    expect_good_pairs(start_pairs(session, 2, [(0, 0)], ("-n", "300"), kinds))
    after = counters(session, 0)
    if after["uplink_tx_packets"] - before["uplink_tx_packets"] > 20:
        raise Failure(f"frames between local programs came to uroced: {before} before, {after} after")


def one_identity(session):
    """Every program shows the port's addresses and interface, as does one that only lists the device."""
    child = session.start("ibv_devinfo", 0, ["ibv_devinfo", "-v"])
    session.expect_exit(child, 20)
    for text in ("::ffff:10.77.0.1", "PORT_ACTIVE", "active_mtu:\t\t4096"):
        if text not in child.output():
            raise Failure(f"it does not say {text}")
    interface = session.start("cat", 0, ["cat", "/sys/class/infiniband/uroce0/parent"])
    session.expect_exit(interface, 20)
    if interface.output().split() != ["wire0"]:
        raise Failure(f"parent has {interface.output()!r}")


# Sends three ARP requests and three pings, and counts the answers of each kind within half a second.
ASK = r"""
import socket, struct, sys, time
address = sys.argv[1]
echo = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
arp = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0806))
arp.bind(("wire0", 0x0806))
mac = arp.getsockname()[4]

def ask_who_has():
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1) + mac + socket.inet_aton("10.77.0.2") + bytes(6) + socket.inet_aton(address)
    arp.send(b"\xff" * 6 + mac + b"\x08\x06" + body)

def ping(number):
    body = struct.pack("!BBHHH", 8, 0, 0, 7, number) + b"uroce" * 8
    total = sum(struct.unpack("!%dH" % (len(body) // 2), body))
    total = (total >> 16) + (total & 0xffff)
    echo.sendto(body[:2] + struct.pack("!H", ~total & 0xffff) + body[4:], (address, 0))

def answers(one, is_answer):
    found, end = 0, time.monotonic() + 0.5
    while (left := end - time.monotonic()) > 0:
        one.settimeout(left)
        try:
            found += is_answer(one.recv(2000))
        except TimeoutError:
            break
    return found

ping(0)  # the kernel asks for the MAC
time.sleep(0.5)
answers(arp, lambda frame: False)
for number in range(1, 4):
    ping(number)
    ask_who_has()
of_ping = [0] * 4
def note(packet):
    if packet[12:16] == socket.inet_aton(address) and packet[20] == 0 and packet[28:] == b"uroce" * 8:
        of_ping[packet[27]] += 1
    return 0
answers(echo, note)
print("echo replies", *of_ping, "ARP replies",
      answers(arp, lambda frame: frame[20:22] == b"\0\2" and frame[28:32] == socket.inet_aton(address)))
"""


def answers_for_the_host(session):
    """ARP and ping are answered once, by uroced, also for an address that the kernel does not have."""
    session.wire.daemons[0].stop()
    session.wire.start_daemon(0, "--addr", "10.77.0.9/24")
    programs = [session.start(f"holder {i}", 0, ["ibv_asyncwatch"]) for i in range(2)]
    for program in programs:
        if not program.wait_for_output("async event FD", 20):
            raise Failure(f"the {program.name} did not start")
    child = session.start_plain("ping", [*session.wire.prefix(1), "python3", "-c", ASK, "10.77.0.9"])
    session.expect_exit(child, 20)
    if "echo replies 1 1 1 1 ARP replies 3\n" not in child.output():
        raise Failure("not one answer to each ping and each question for the MAC")


def restarted(session):
    """uroced is killed and started again: programs learn of it, and connections continue within their retry budget."""
    watch = session.start("ibv_asyncwatch", 0, ["stdbuf", "-oL", "ibv_asyncwatch"])
    if not watch.wait_for_output("async event FD", 20):
        raise Failure("ibv_asyncwatch did not start")
    server, client = faults._flowing_pair(session, "ib_write_bw", "-D", "6", "-u", "18")
    session.wire.daemons[0].signal(signal.SIGKILL)
    if not watch.wait_for_output("IBV_EVENT_PORT_ERR", 5):
        raise Failure("no program heard that the port is gone")
    session.wire.start_daemon(0)
    if not watch.wait_for_output("IBV_EVENT_PORT_ACTIVE", 5):
        raise Failure("no program heard that the port is back")
    for child in (server, client):
        session.expect_exit(child, 40)
        if child.exit_code != 0 or trouble(child.output()):
            raise Failure(f"the {child.name}: exit {child.exit_code}, {trouble(child.output())}")
    watch.signal(signal.SIGTERM)


def mtu_follows(session):
    """The MTU of the uplink's interface determines the active MTU of running programs, and of those that start
    later."""
    shows = session.start("shows", 0, [sys.executable, str(SHOWS_PORT)])
    if not shows.wait_for_output("mtu 4096 ", 20):
        raise Failure("not the MTU of the interface at first")
    for mtu, active in (("1500", 1024), ("4200", 4096), ("1000", 512)):
        before = len(shows.output())
        subprocess.run([*session.wire.prefix(0), "ip", "link", "set", "wire0", "mtu", mtu], check=True)
        end = time.monotonic() + 20
        while f"mtu {active} " not in shows.output()[before:]:
            if time.monotonic() > end:
                raise Failure(f"an MTU of {mtu} is not noticed: {shows.output()}")
            time.sleep(0.02)
    late = session.start("late", 0, ["ibv_devinfo"])
    session.expect_exit(late, 20)
    if not re.search(r"active_mtu:\s+512 ", late.output()):
        raise Failure("a program that starts now has another MTU")
    shows.signal(signal.SIGKILL)


def gone_for_good(session):
    """uroced is killed and stays away: an error within the retry budget; programs of the machine still meet."""
    _, client = faults._flowing_pair(session, "ib_write_bw", "-D", "30")
    session.wire.daemons[0].signal(signal.SIGKILL)
    session.expect_exit(client, faults.RETRY_BUDGET_S + 5)
    if client.exit_code == 0:
        raise Failure("the client exited 0 although there was no way")
    # Programs require a port that is up, so those that start now find it down, and say so.
    late = session.start("late", 0, ["ibv_devinfo"])
    session.expect_exit(late, 20)
    if "PORT_DOWN" not in late.output():
        raise Failure("the port of a machine without its uplink is not down")


def local_pair_survives(session):
    """Two programs of one machine do not notice that their uplink is killed."""
    server, client = faults._flowing_pair_at(session, (0, 0), "ib_send_bw", "-D", "4")
    session.wire.daemons[0].signal(signal.SIGKILL)
    for child in (server, client):
        session.expect_exit(child, 30)
        if child.exit_code != 0 or trouble(child.output()):
            raise Failure(f"the {child.name}: exit {child.exit_code}, {trouble(child.output())}")


def quotas(session):
    """A program gets a limited number of queue pairs and a limited share of the wire."""
    session.wire.daemons[0].stop()
    session.wire.start_daemon(0, "--max-qps", "16", "--rate", "80M")
    child = session.start("ibv_devinfo", 0, ["ibv_devinfo", "-v"])
    session.expect_exit(child, 20)
    if not re.search(r"max_qp:\s+16\n", child.output()):
        raise Failure("the device does not say that it has 16 queue pairs")
    words = ["ib_write_bw", "-p", str(free_tcp_port())]
    many = session.start("ib_write_bw", 0, [*words, "-q", "32"])
    if not wait_for_listener(many, int(words[-1]), 20):
        raise Failure("the server did not get as far as listening")
    other = session.start("its client", 1, [*words, "-q", "32", session.wire.tcp_address(0)])
    session.expect_refusal(many, 20, "Unable to create QP.", "Failed to create QP.")
    other.stop()
    with tempfile.TemporaryDirectory() as folder:
        counting = session.start("counting", 0, [build_program(folder, "verbs_many_qps"), "17"])
        session.expect_refusal(counting, 20, "after 16", "cannot allocate memory")
    # The client is the side with the quota: what it writes is counted on its way to the wire.
    port = str(free_tcp_port())
    server = session.start("server", 1, ["ib_write_bw", "-D", "3", "-u", "20", "-p", port])
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 0, ["ib_write_bw", "-D", "3", "-u", "20", "-p", port, session.wire.tcp_address(1)])
    session.expect_exit(client, 30)
    found = re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", client.output(), re.M)
    if not found:
        raise Failure("the client has no result")
    mbits = float(found[0]) * 8 * 1.048576
    if not 0 < mbits <= 88:
        raise Failure(f"a program that may send 80 Mbit/s sent {mbits:.0f}")
    memory_quota(session)


def memory_quota(session):
    """A program with memory for one other program meets no second one, and says why."""
    session.wire.daemons[0].stop()
    session.wire.start_daemon(0, "--max-memory", "4.65M")
    address = "127.0.0.1"
    server = session.start("server", 0, ["rping", "-s", "-P"])
    first = session.start("client 1", 0, ["rping", "-c", "-a", address, "-v"])
    if not first.wait_for_output("rdma-ping-1", 20):
        raise Failure("the first client was not served")
    second = session.start("client 2", 0, ["rping", "-c", "-a", address, "-v"])
    if not server.wait_for_output("no memory for more than 1 other programs", 20):
        raise Failure("the server met a second program, or did not say why it did not")
    if "rdma-ping" in second.output():
        raise Failure("the second client was served")
    for child in (first, second, server):
        child.stop()


def other_users(session):
    """`--group`: users in the group share the port and reach each other; others do not see it."""
    if shutil.which("setpriv") is None or shutil.which("unshare") is None:
        raise Skip("setpriv and unshare are not installed")
    script = f"""
        mount -t tmpfs -o mode=0755 none /run || exit 77
        unset UROCE_RUNTIME_DIR XDG_RUNTIME_DIR
        {find_built("apps/uroced")} --port net_af_packet0,iface=wire0 --group games > /run/log 2>&1 & daemon=$!
        for i in $(seq 100); do grep -q 'is ready' /run/log && break; sleep 0.1; done
        as() {{
          user=$1 groups=$2; shift 2
          install -d -o "$user" -m 0700 "/run/$user"
          XDG_RUNTIME_DIR=/run/$user setpriv --reuid "$user" --regid "$user" --groups "$groups" {session.uroce} run -- "$@"
        }}
        echo member; as 65534 60 ibv_devinfo -v | grep 'GID\\['
        echo stranger; as 4711 4711 ibv_devinfo -v | grep 'GID\\['
        echo two users; as 65534 60 ibv_rc_pingpong -g 1 -c -s 20000 -n 300 & server=$!
        for i in $(seq 20); do sleep 0.3; as 4712 60 ibv_rc_pingpong -g 1 -c -s 20000 -n 300 10.77.0.1 && break; done
        wait $server
        echo end; cat /run/log; kill $daemon; wait $daemon
    """
    child = session.start_plain("users", ["ip", "netns", "exec", session.wire._spaces[0], "unshare", "-m", "bash", "-c", script])
    session.expect_exit(child, 40)
    if child.exit_code == 77:
        raise Skip("no mount namespaces here")
    text = child.output()
    member = text.partition("member")[2].partition("stranger")[0]
    stranger = text.partition("stranger")[2].partition("\ntwo users")[0]
    pair = text.partition("two users")[2].partition("\nend")[0]
    if "10.77.0.1" not in member:
        raise Failure(f"a member of the group does not find the port: {text}")
    if "GID[" not in stranger or member == stranger:
        raise Failure(f"a stranger is of the same host, or of none: {text}")
    if pair.count("300 iters in") != 2 or "invalid data" in pair:
        raise Failure(f"two users of the group did not exchange their data: {text}")


def _expect_one_line(child):
    lines = [line for line in child.output().splitlines() if line]
    if len(lines) != 1:
        raise Failure(f"the {child.name} said {len(lines)} lines")


def refused(session):
    """An impossible request gets one line."""
    for words, says in (
            (["--port", "shmlan"], "leads out of a segment"),
            (["--port", "net_af_packet0,iface=nosuch7"], "nosuch7"),
            (["--port", "net_null0"], "no address"),
            ([], "which port?"),
            (["--port", "net_null0", "--addr", "10.0.0.300/24"], "10.0.0.300"),
            (["--port", "net_null0", "--rate", "fast"], "bits per second"),
            (["--port", "net_null0", "--host", "a/b"], "name of a host"),
            (["--port", "net_null0", "--addr", "10.0.0.3/24", "--group", "no-such-group"], "no-such-group"),
            (["--nonsense"], "--nonsense")):
        with tempfile.TemporaryDirectory() as runtime:
            child = session.start_plain(f"uroced {' '.join(words)}", [find_built("apps/uroced"), *words],
                                        {"UROCE_RUNTIME_DIR": runtime})
            session.expect_refusal(child, 20, says)
            _expect_one_line(child)


def metrics(session):
    """Counters over HTTP, of uroced and of the programs behind it; an unavailable address gets one line."""
    with tempfile.TemporaryDirectory() as runtime:
        address = f"127.0.0.1:{free_tcp_port()}"
        command = [find_built("apps/uroced"), "--port", "net_null0", "--addr", "10.0.0.3/24", "--metrics", address]
        daemon = session.start_plain("uroced", command, {"UROCE_RUNTIME_DIR": runtime})
        if not daemon.wait_for_output("uroced is ready", 20):
            raise Failure("uroced did not start")
        program = session.start("program", 0, ["ibv_asyncwatch"], {"UROCE_RUNTIME_DIR": runtime})
        if not program.wait_for_output("async event FD", 20):
            raise Failure("ibv_asyncwatch did not start")
        with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        for name, owner in (("uroce_uplink_tx_packets_total", "uroced"), ("uroce_tx_packets_total", "ibv_asyncwatch")):
            if not re.search(rf'^{name}{{pid="\d+",program="{owner}",.*}} \d+$', text, re.M):
                raise Failure(f"{name} of {owner} is not there: {text[:2000]}")
        second = session.start_plain("second", [*command, "--segment", "other"], {"UROCE_RUNTIME_DIR": runtime})
        session.expect_refusal(second, 20, address.rpartition(":")[2])


def second_refused(session):
    """The port has one uplink, and one stack for each of its addresses."""
    command = [*session.wire.prefix(0), find_built("apps/uroced"), *session.wire.daemon_command(0)]
    for more, says in (([], "address already in use"), (["--addr", "10.77.0.9/24"], "this port is the uplink of .* already")):
        second = subprocess.run([*command, *more], capture_output=True, text=True, timeout=20, check=False)
        if second.returncode != 1 or second.stdout or not re.fullmatch(f"uroced: .*{says}.*\n", second.stderr):
            raise Failure(f"exit {second.returncode} and not one line on stderr: {second.stdout}{second.stderr}")


SCENARIOS = [
    Scenario("uplink_several", several_at_once, "uplink", "veth", timeout_s=90),
    Scenario("uplink_identity", one_identity, "uplink_half", "veth"),
    Scenario("uplink_answers", answers_for_the_host, "uplink_half", "veth"),
    Scenario("uplink_restarted", restarted, "uplink_half", "veth", timeout_s=90),
    Scenario("uplink_mtu", mtu_follows, "uplink_half", "veth", timeout_s=90),
    Scenario("uplink_gone", gone_for_good, "uplink_half", "veth", timeout_s=90),
    Scenario("uplink_local_pair", local_pair_survives, "uplink_half", "veth", timeout_s=60),
    Scenario("uplink_quotas", quotas, "uplink_half", "veth", timeout_s=90),
    Scenario("uplink_users", other_users, "veth", "veth", timeout_s=60),
    Scenario("uplink_refused", refused),
    Scenario("uplink_metrics", metrics, "segment"),
    Scenario("uplink_second", second_refused, "uplink_half", "veth"),
    Scenario("uplink_cards", several_at_once, "uplink_record", "card", timeout_s=120),
]
