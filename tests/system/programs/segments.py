"""Many programs that share one device: they meet on a segment or over uroced, come and go, hang, and are killed."""

import collections
import dataclasses
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time

import faults
from children import Child, free_tcp_port, listens, wait_for_listener
from outputs import check_bandwidth, clock_was_lost, rows, trouble
from session import Failure, Scenario, Session
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"


def build_program(folder, name):
    if shutil.which("cc") is None:
        raise Skip("there is no C compiler")
    program = pathlib.Path(folder) / name
    subprocess.run(["cc", "-O2", "-o", program, SOURCES / f"{name}.c", "-libverbs"], check=True)
    return program


def _mesh(*runs):
    """Each run: processes, topology, bytes, messages from each process to each other one, and the total."""

    def body(session):
        with tempfile.TemporaryDirectory() as folder:
            program = build_program(folder, "verbs_mesh")
            for words, expected in runs:
                child = session.start(f"mesh of {words}", 0, [program, *words.split()])
                session.expect_exit(child, 60)
                if child.exit_code != 0 or f"{expected} messages" not in child.output():
                    raise Failure(f"{words}: exit {child.exit_code}, {expected} messages expected")
                lines = [line for line in child.output().splitlines() if "uroce:" in line]
                children = int(words.split()[0]) - 1 if "opened" in words else 0
                if len(lines) != children or not all("what it inherited belongs to the parent" in line for line in lines):
                    raise Failure(f"{words}: {len(lines)} lines in the log, {children} expected, one of each child")

    return body


@dataclasses.dataclass
class Pair:
    """Server and client of a program that measures bandwidth, each on its side of the wire."""

    session: Session
    number: int
    sides: tuple
    words: list
    server: Child = None
    client: Child = None

    def serve(self):
        self.server = self.session.start(f"server {self.number}", self.sides[0], self.words)

    def wait_until_served(self):
        if not wait_for_listener(self.server, int(self.words[-1]), 20):
            raise Failure(f"server {self.number} did not get as far as listening")

    def connect(self):
        self.client = self.session.start(f"client {self.number}", self.sides[1],
                                         [*self.words, self.session.wire.tcp_address(self.sides[0])])

    def wait_for_end(self, timeout_s):
        for child in (self.server, self.client):
            self.session.expect_exit(child, timeout_s)

    def again(self, timeout_s):
        self.serve()
        self.wait_until_served()
        self.connect()
        self.wait_for_end(timeout_s)

    def expect_good(self, timeout_s):
        if any(clock_was_lost(child.output()) for child in (self.server, self.client)):
            print(f"repeated: perftest could not measure the CPU's clock in pair {self.number}", flush=True)
            self.again(timeout_s)
        for child in (self.server, self.client):
            problems = trouble(child.output())
            if child.exit_code != 0 or problems:
                raise Failure(f"the {child.name}: exit {child.exit_code} {'; '.join(problems)}")
        problems = check_bandwidth(self.client.output(), (65536,))
        if problems:
            raise Failure(f"the {self.client.name}: {'; '.join(problems)}")


def _make_pairs(session, count, sides, words, programs=("ib_write_bw", "ib_send_bw")):
    """Not started yet. `sides`: the sides of server and client, the same for two successive pairs."""
    first = free_tcp_port()
    # A listener in another namespace is not visible from here, and does not conflict.
    ports = (port for port in range(first, first + 1000) if not listens(port, os.getpid()))
    pairs = []
    for i in range(count):
        line = ["stdbuf", "-oL", programs[i % len(programs)], *words, "-p", str(next(ports))]  # line by line
        pairs.append(Pair(session, i, sides[i // 2 % len(sides)], line))
    return pairs


def start_pairs(*what):
    """Starts all servers and then all clients."""
    pairs = _make_pairs(*what)
    for step in (Pair.serve, Pair.wait_until_served, Pair.connect):
        for pair in pairs:
            step(pair)
    return pairs


def expect_good_pairs(pairs, timeout_s=60):
    for pair in pairs:
        pair.wait_for_end(timeout_s)
    for pair in pairs:
        pair.expect_good(timeout_s)


def _expect_all_at_once(pairs):
    """The last pair is connected while the first one still works."""
    for pair in pairs:
        if not pair.client.wait_for_output("remote address", 30):
            raise Failure(f"the {pair.client.name} did not connect")
    ended = [pair.client.name for pair in pairs if pair.client.exit_code is not None or rows(pair.client.output())]
    if ended:
        raise Failure(f"ended before the last one was connected: {', '.join(ended)}")


def _pairs_at_once(count, seconds, *sides):
    """Pairs of two kinds that all work at the same time."""

    def body(session):
        pairs = start_pairs(session, count, sides, ("-D", str(seconds)))
        _expect_all_at_once(pairs)
        expect_good_pairs(pairs)

    return body


def _wait_for_link(session):
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        child = session.start("ibv_devinfo", 0, ["ibv_devinfo"])
        session.expect_exit(child, 20)
        if "PORT_ACTIVE" in child.output():
            return
    raise Failure("the link does not come up")


def _beside_the_wire(count, seconds):
    """Pairs on one machine, while one of its programs communicates with the machine at the other end of the cable."""

    def body(session):
        [away] = _make_pairs(session, 1, [(1, 0)], ("-D", str(seconds + 2)))
        away.serve()
        away.wait_until_served()
        _wait_for_link(session)  # without a peer at the other end there is no link
        away.connect()
        pairs = [away, *start_pairs(session, count, [(0, 0)], ("-D", str(seconds)))]
        _expect_all_at_once(pairs)
        expect_good_pairs(pairs)

    return body


def _others(topology, processes, rank):
    """The ranks that a rank sends to: all, its two neighbours, or the first one, which sends to all."""
    others = [other for other in range(processes) if other != rank]
    if topology == "ring":
        return [other for other in others if (rank - other) % processes in (1, processes - 1)]
    return [other for other in others if topology == "mesh" or 0 in (rank, other)]


def _expect_all_to_end(ranks, timeout_s):
    """When one fails, the ranks that would wait for it are not waited for."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and any(rank.exit_code is None for rank in ranks):
        if any(rank.exit_code not in (None, 0) for rank in ranks):
            break
        time.sleep(0.05)
    for rank in sorted(ranks, key=lambda rank: rank.exit_code in (None, 0)):  # failed ranks before waiting ones
        if rank.exit_code != 0:
            raise Failure(f"the {rank.name}: exit {rank.exit_code} within {timeout_s} s")


def counters(session, side):
    """The counters of uroced at a side that are not 0. uroced is the process of `ip netns exec`, which execs it."""
    command = [*session.wire.prefix(side), session.uroce, "stats", str(session.wire.daemons[side].pid)]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return collections.Counter({name: int(value) for name, value in re.findall(r"^ *(\w+) +(\d+)$", text, re.M)})


def _run_spread_mesh(session, program, sides, words):
    processes, topology, _, messages = words.split()[:4]
    processes, messages = int(processes), int(messages)
    side_of = [sides[rank * len(sides) // processes] for rank in range(processes)]
    shared = program.parent / words.replace(" ", "_")
    shared.touch()
    before = {side: counters(session, side)["uplink_tx_packets"] for side in session.wire.daemons}
    ranks = [session.start(f"rank {rank} of {words}", side_of[rank], [program, str(rank), shared, *words.split()])
             for rank in range(processes)]
    _expect_all_to_end(ranks, 90)
    for rank, child in enumerate(ranks):
        expected = messages * len(_others(topology, processes, rank))
        if not re.search(rf"^{expected} messages of", child.output(), re.M):
            raise Failure(f"the {child.name} did not verify {expected} messages")
    for side, sent_before in before.items():
        sent = counters(session, side)["uplink_tx_packets"] - sent_before
        leaving = messages * sum(side_of[other] != side for rank in range(processes) if side_of[rank] == side
                                 for other in _others(topology, processes, rank))
        if sent < leaving or (leaving == 0 and sent > 20):
            raise Failure(f"{words}: {leaving} messages left side {side} in {sent} packets")


def _spread_mesh(sides, *runs):
    """Ranks that are separate programs, as many behind the uroced of each of `sides`; those of one side bypass it."""

    def body(session):
        with tempfile.TemporaryDirectory() as folder:
            program = build_program(folder, "verbs_rank")
            for words in runs:
                _run_spread_mesh(session, program, sides, words)

    return body


def _bandwidth(session):
    """MB/s of an independent pair."""
    server, client = session.start_pair(["ib_write_bw", "-n", "5000"])
    for child in (client, server):
        session.expect_exit(child, 60)
    problems = check_bandwidth(client.output(), (65536,)) + trouble(client.output())
    if client.exit_code != 0 or problems:
        raise Failure(f"the client: exit {client.exit_code} {'; '.join(problems)}")
    return rows(client.output())[-1][2][1]


def _stopped_neighbour(seconds):
    """One program hangs in the middle of its work. The others get no less of the machine than while it worked."""

    def body(session):
        server, client = faults._flowing_pair(session, "ib_write_bw", "-D", "300")
        working = max(_bandwidth(session) for _ in range(2))
        server.signal(signal.SIGSTOP)
        begun, stopped = time.monotonic(), []
        try:
            # On a busy machine a pair may occasionally get little.
            while len(stopped) < 2 or time.monotonic() < begun + seconds or (max(stopped) < working / 3 and len(stopped) < 8):
                stopped.append(_bandwidth(session))
        finally:
            server.signal(signal.SIGCONT)
        for child in (client, server):
            child.signal(signal.SIGKILL)
        print(f"{working:.0f} MB/s beside a pair that works; when it is stopped {', '.join(f'{rate:.0f}' for rate in stopped)}")
        if max(stopped) < working / 3:
            raise Failure(f"{working:.0f} MB/s beside a pair that works, {max(stopped):.0f} beside one that is stopped")

    return body


def _addresses(session, side=0, options=()):
    child = session.start("ibv_devinfo", side, ["ibv_devinfo", "-v"], None, options)
    session.expect_exit(child, 20)
    return re.findall(r"GID\[\s*\d+\]:\s+(\S+),", child.output())


def one_host(session):
    """All programs have the machine's addresses; a host of another name has others."""
    first = _addresses(session)
    if len(first) < 2 or _addresses(session) != first:
        raise Failure(f"addresses differ: {first} and others")
    names = subprocess.run(["ip", "-o", "-4", "addr", "show", "up", "scope", "global"], capture_output=True, text=True,
                           check=True).stdout
    machine = re.findall(r"inet (\d+\.\d+\.\d+\.\d+)", names)
    if machine and f"::ffff:{machine[0]}" not in first:
        raise Failure(f"the machine's {machine[0]} is not among {first}")
    if not machine and not any(gid.startswith("::ffff:198.19.") for gid in first):
        raise Failure(f"no leased address among {first}")
    other = session.start("holder", 0, ["ibv_asyncwatch"])
    if not other.wait_for_output("async event FD", 20):
        raise Failure("the holder did not start")
    second = _addresses(session, options=["--host", "other"])
    if set(first) & set(second) or not any(gid.startswith("::ffff:198.19.") for gid in second):
        raise Failure(f"another host has {second}, the first {first}")


def link_of_its_own(session):
    """The machine's interface has no carrier: the segment is up nevertheless, whether opened or only listed."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("network namespaces need root")
    device = "/sys/class/infiniband/uroce0"
    script = "ip link add near type veth peer name far && ip addr add 10.9.0.1/24 dev near && ip link set near up && " \
             f"\"$@\" cat {device}/ports/1/state {device}/ports/1/rate && \"$@\" cat {device}/parent && \"$@\" ibv_devinfo -v"
    child = session.start_plain("programs", ["unshare", "--net", "sh", "-c", script, "sh", session.uroce, "run", "--port",
                                             session.wire.port(0), "--"])
    session.expect_exit(child, 20)
    if child.exit_code != 0:
        raise Failure(f"exit code {child.exit_code}")
    for expected in ("4: ACTIVE\n100 Gb/sec (4X EDR)\nnear\n", "PORT_ACTIVE", "25.0 Gbps", "::ffff:10.9.0.1"):
        if expected not in child.output():
            raise Failure(f"nobody says {expected}")


def addresses_come_late(session):
    """A server was started before the machine had an address (boot): it is found at the one that appears, and still at
    127.0.0.1."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("network namespaces need root")
    script = """
        ip link set lo up && ip link add near type veth peer name far && ip link set far up && ip link set near up || exit 3
        within() { for _ in $(seq 100); do "$@" && return; sleep 0.1; done; echo "not within 10 s: $*"; exit 4; }
        lists() { "$uroce" ls --json | grep -q "$1"; }
        ping() { timeout 15 "$uroce" run --port "$port" -- rping -c -a "$1" -p 7600 -C 1 || { echo "no way to $1"; exit 5; }; }
        "$uroce" run --port "$port" -- rping -s -P -p 7600 & server=$!
        trap 'kill $server; wait $server' EXIT
        within lists '"198.19'
        ip addr add 10.8.2.1/24 dev near label near:1 || exit 3
        within lists '"10.8.2.1'
        "$uroce" ls | grep -q " 10.8.2.1/24 " || { echo "not its first address"; exit 6; }
        ping 10.8.2.1
        ping 127.0.0.1
        echo both reached"""
    child = session.start_plain("programs", ["unshare", "--net", "env", f"uroce={session.uroce}", f"port={session.wire.port(0)}",
                                             "bash", "-c", script])
    session.expect_exit(child, 60)
    if child.exit_code != 0 or "both reached" not in child.output():
        raise Failure(f"exit code {child.exit_code}")


def no_way(session):
    """No host has the address: the retry budget is used up, and the log says why."""
    port = str(free_tcp_port())
    words = ["ib_write_bw", "-n", "100", "-p", port]
    server = session.start("server", 0, words, None, ["--addr", "10.99.0.1/24"])
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    # A segment of the same name in another directory: the two do not see each other.
    with tempfile.TemporaryDirectory() as folder:
        client = session.start("client", 1, [*words, session.wire.tcp_address(0)], {"UROCE_RUNTIME_DIR": folder},
                               ["--addr", "10.99.0.2/24"])
        session.expect_exit(client, 30)
    if client.exit_code == 0:
        raise Failure("the client exited 0")
    if "there is no way to 10.99.0.1" not in client.output():
        raise Failure("the log did not say that there is no way")


def _killed(processes, survivors, seconds):
    """One of many is killed every 100 ms, and another takes its place. All check every byte; the survivors use no more
    memory and descriptors than they need; nothing is left in the directory."""

    def body(session):
        with tempfile.TemporaryDirectory() as runtime, tempfile.TemporaryDirectory() as folder:
            environment = {"UROCE_RUNTIME_DIR": runtime}
            program = build_program(folder, "verbs_crowd")
            seed = random.randrange(1 << 31)
            crowd = session.start("crowd", 0, [program, *map(str, (processes, survivors, seconds, 100, seed))], environment)
            session.expect_exit(crowd, seconds + 60)
            found = re.search(r"(\d+) messages of \d+ bytes verified, (\d+) processes killed", crowd.output())
            if crowd.exit_code != 0 or not found:
                raise Failure(f"the crowd: exit {crowd.exit_code} (seed {seed})")
            print(found[0])
            if int(found[2]) < 2 * seconds:
                raise Failure(f"only {found[2]} were killed")
            # A program that comes later finds only cards of members at rest.
            time.sleep(0.3)
            session.expect_exit(session.start("ibv_devinfo", 0, ["ibv_devinfo"], environment), 20)
            left = [path.name for path in pathlib.Path(runtime).glob("shmlan*/s-*")]
            if len(left) > 1:
                raise Failure(f"mailboxes of {len(left)} members are left after {found[2]} were killed")

    return body


def many_queue_pairs(session):
    """As many as a server in a data centre has, in two programs at once; and no more than were asked for."""
    with tempfile.TemporaryDirectory() as folder:
        program = build_program(folder, "verbs_many_qps")
        both = [session.start(f"program {i}", 0, [program, "100000"], None, ["--max-qps", "100000"]) for i in range(2)]
        for child in both:
            session.expect_exit(child, 120)
            if child.exit_code != 0 or "100000 queue pairs" not in child.output():
                raise Failure(f"the {child.name}: exit {child.exit_code}")
        greedy = session.start("greedy", 0, [program, "65"], None, ["--max-qps", "64"])
        session.expect_refusal(greedy, 20, "after 64", "cannot allocate memory")


MESHES = ("4 mesh 4096 300", "4 ring 65536 50", "4 star 64 1000", "16 mesh 1024 10 events")
MESH_64 = "64 mesh 2048 10 events"


def _crowds(name, wire, suite):
    """Ranks and pairs of programs behind two uroceds, some in every check and more in the long one."""
    return [Scenario(f"{name}_mesh", _spread_mesh((0, 1), *MESHES), wire, suite, timeout_s=120),
            Scenario(f"{name}_mesh_64", _spread_mesh((0, 1), MESH_64), wire, "long", timeout_s=120),
            Scenario(f"{name}_pairs", _pairs_at_once(4, 2, (0, 1), (1, 0)), wire, suite, timeout_s=90),
            Scenario(f"{name}_pairs_16", _pairs_at_once(16, 6, (0, 1), (1, 0)), wire, "long", timeout_s=200)]


SCENARIOS = [
    Scenario("segment_mesh", _mesh(("4 mesh 4096 300", 3600), ("4 ring 65536 100", 800), ("4 star 64 3000", 18000),
                                   ("8 mesh 8192 100 events", 5600)), "segment"),
    Scenario("segment_mesh_of_children", _mesh(("4 mesh 4096 300 opened", 3600), ("6 star 16384 300 events opened", 3000)),
             "segment"),
    Scenario("segment_mesh_64", _mesh(("64 mesh 2048 10", 40320)), "segment", "long", 90),
    Scenario("segment_pairs", _pairs_at_once(4, 2, (0, 1)), "segment", timeout_s=90),
    Scenario("segment_pairs_16", _pairs_at_once(16, 6, (0, 1)), "segment", "long", 200),
    Scenario("segment_many_qps", many_queue_pairs, "segment", "long", 150),
    Scenario("segment_stopped", _stopped_neighbour(2), "segment", timeout_s=120),
    Scenario("segment_stopped_10_s", _stopped_neighbour(10), "segment", "long", 150),
    Scenario("segment_one_host", one_host, "segment"),
    Scenario("segment_link_of_its_own", link_of_its_own, "segment"),
    Scenario("segment_addresses_come_late", addresses_come_late, "segment"),
    Scenario("segment_no_way", no_way, "segment"),
    Scenario("segment_killed", _killed(8, 3, 4), "segment", timeout_s=90),
    Scenario("segment_killed_for_longer", _killed(16, 4, 30), "segment", "long", 170),
    Scenario("segment_peer_killed_events", faults._peer_killed("ib_send_bw", "-e", "-n", "5000000"), "segment"),
    *_crowds("uplink_veth", "uplink", "veth"),
    *_crowds("uplink_tap_peers", "uplink_tap_peers", "veth"),
    *_crowds("uplink_cards", "uplink_record", "card"),
    Scenario("uplink_one_card_mesh", _spread_mesh((0, 0), *MESHES), "uplink_one_card", "card", timeout_s=120),
    Scenario("uplink_one_card_mesh_64", _spread_mesh((0, 0), MESH_64), "uplink_one_card", "long", timeout_s=120),
    Scenario("uplink_one_card_pairs", _beside_the_wire(3, 2), "uplink_one_card", "card", timeout_s=90),
    Scenario("uplink_one_card_pairs_16", _beside_the_wire(15, 6), "uplink_one_card", "long", timeout_s=200),
]
