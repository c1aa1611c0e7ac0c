"""Many programs that share one device: they meet on a segment, come and go, hang, and are killed."""

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
from children import free_tcp_port, wait_for_listener
from outputs import check_bandwidth, clock_was_lost, rows, trouble
from session import Failure, Scenario
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"


def build_program(folder, name):
    if shutil.which("cc") is None:
        raise Skip("there is no C compiler")
    program = pathlib.Path(folder) / name
    subprocess.run(["cc", "-O2", "-o", program, SOURCES / f"{name}.c", "-libverbs"], check=True)
    return program


def _mesh(*runs):
    """Each run: processes, topology, bytes, messages of everybody to everybody else, and how many that makes."""

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


def _pairs(count):
    """Pairs of two kinds at once, all on one device."""

    def start(session, i):
        port = str(free_tcp_port())
        words = ["ib_write_bw" if i % 2 == 0 else "ib_send_bw", "-n", "500", "-p", port]
        server = session.start(f"server {i}", 0, words)
        if not wait_for_listener(server, int(port), 20):
            raise Failure(f"server {i} did not get as far as listening")
        return server, session.start(f"client {i}", 1, [*words, session.wire.tcp_address(0)])

    def ended(session, pair):
        for child in pair:
            session.expect_exit(child, 60)
        return pair

    def body(session):
        pairs = [start(session, i) for i in range(count)]
        pairs = [ended(session, pair) for pair in pairs]
        for i, pair in enumerate(pairs):
            if any(clock_was_lost(child.output()) for child in pair):
                print(f"repeated: perftest could not measure the CPU's clock in pair {i}", flush=True)
                pair = ended(session, start(session, i))
            for child in pair:
                problems = trouble(child.output())
                if child.exit_code != 0 or problems:
                    raise Failure(f"the {child.name}: exit {child.exit_code} {'; '.join(problems)}")
            problems = check_bandwidth(pair[1].output(), (65536,))
            if problems:
                raise Failure(f"the {pair[1].name}: {'; '.join(problems)}")

    return body


def _bandwidth(session):
    """MB/s of a pair that has nothing to do with the others."""
    port = str(free_tcp_port())
    words = ["ib_write_bw", "-n", "5000", "-p", port]
    server = session.start("server", 0, words)
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [*words, session.wire.tcp_address(0)])
    for child in (client, server):
        session.expect_exit(child, 60)
    problems = check_bandwidth(client.output(), (65536,)) + trouble(client.output())
    if client.exit_code != 0 or problems:
        raise Failure(f"the client: exit {client.exit_code} {'; '.join(problems)}")
    return rows(client.output())[-1][2][1]


def _stopped_neighbour(seconds):
    """One program hangs in the middle of its work. The others have not less of the machine than while it worked."""

    def body(session):
        server, client = faults._flowing_pair(session, "ib_write_bw", "-D", "300")
        working = max(_bandwidth(session) for _ in range(2))
        server.signal(signal.SIGSTOP)
        begun, stopped = time.monotonic(), []
        try:
            # On a busy machine a pair may get little for once.
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
    """All programs have the same addresses, those of the machine; a host of another name has others."""
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
    """The machine's interface has no carrier: the segment is up all the same, opened or only listed."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode != 0:
        raise Skip("network namespaces need root")
    device = "/sys/class/infiniband/uroce0"
    script = "ip link add near type veth peer name far && ip addr add 10.9.0.1/24 dev near && ip link set near up && " \
             f"\"$@\" cat {device}/ports/1/state {device}/ports/1/rate && \"$@\" ls {device}/device/net && \"$@\" ibv_devinfo -v"
    child = session.start_plain("programs", ["unshare", "--net", "sh", "-c", script, "sh", session.uroce, "run", "--port",
                                             session.wire.port(0), "--"])
    session.expect_exit(child, 20)
    if child.exit_code != 0:
        raise Failure(f"exit code {child.exit_code}")
    for expected in ("4: ACTIVE\n100 Gb/sec (4X EDR)\nnear\n", "PORT_ACTIVE", "25.0 Gbps", "::ffff:10.9.0.1"):
        if expected not in child.output():
            raise Failure(f"nobody says {expected}")


def no_way(session):
    """Nobody has the address: the retry budget runs out, and the log says why."""
    port = str(free_tcp_port())
    words = ["ib_write_bw", "-n", "100", "-p", port]
    server = session.start("server", 0, words, None, ["--addr", "10.99.0.1/24"])
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    # The same segment by name, but of another directory: the two do not see each other.
    with tempfile.TemporaryDirectory() as folder:
        client = session.start("client", 1, [*words, session.wire.tcp_address(0)], {"UROCE_RUNTIME_DIR": folder},
                               ["--addr", "10.99.0.2/24"])
        session.expect_exit(client, 30)
    if client.exit_code == 0:
        raise Failure("the client exited 0")
    if "there is no way to 10.99.0.1" not in client.output():
        raise Failure("the log did not say that there is no way")


def _killed(processes, survivors, seconds):
    """One of many is killed every 100 ms, and another takes its place. Everybody looks at every byte; those who live on
    have no more memory and descriptors than they need; nothing is left in the directory."""

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
            # Whoever comes next finds nothing but cards at rest.
            time.sleep(0.3)
            session.expect_exit(session.start("ibv_devinfo", 0, ["ibv_devinfo"], environment), 20)
            left = [path.name for path in pathlib.Path(runtime).glob("shmlan*/s-*")]
            if len(left) > 1:
                raise Failure(f"mailboxes of {len(left)} members are left after {found[2]} were killed")

    return body


def many_queue_pairs(session):
    """As many as a data centre's server has, in two programs at once; and no more than were asked for."""
    with tempfile.TemporaryDirectory() as folder:
        program = build_program(folder, "verbs_many_qps")
        both = [session.start(f"program {i}", 0, [program, "100000"], None, ["--max-qps", "100000"]) for i in range(2)]
        for child in both:
            session.expect_exit(child, 120)
            if child.exit_code != 0 or "100000 queue pairs" not in child.output():
                raise Failure(f"the {child.name}: exit {child.exit_code}")
        greedy = session.start("greedy", 0, [program, "65"], None, ["--max-qps", "64"])
        session.expect_refusal(greedy, 20, "after 64", "cannot allocate memory")


SCENARIOS = [
    Scenario("segment_mesh", _mesh(("4 mesh 4096 300", 3600), ("4 ring 65536 100", 800), ("4 star 64 3000", 18000),
                                   ("8 mesh 8192 100 events", 5600)), "segment"),
    Scenario("segment_mesh_of_children", _mesh(("4 mesh 4096 300 opened", 3600), ("6 star 16384 300 events opened", 3000)),
             "segment"),
    Scenario("segment_mesh_64", _mesh(("64 mesh 2048 10", 40320)), "segment", "long", 90),
    Scenario("segment_pairs", _pairs(4), "segment", timeout_s=90),
    Scenario("segment_pairs_16", _pairs(16), "segment", "long", 200),
    Scenario("segment_many_qps", many_queue_pairs, "segment", "long", 150),
    Scenario("segment_stopped", _stopped_neighbour(2), "segment", timeout_s=120),
    Scenario("segment_stopped_10_s", _stopped_neighbour(10), "segment", "long", 150),
    Scenario("segment_one_host", one_host, "segment", company="beside"),
    Scenario("segment_link_of_its_own", link_of_its_own, "segment", company="beside"),
    Scenario("segment_no_way", no_way, "segment", company="beside"),
    Scenario("segment_killed", _killed(8, 3, 4), "segment", timeout_s=90),
    Scenario("segment_killed_for_a_minute", _killed(16, 4, 60), "segment", "long", 200),
    Scenario("segment_peer_killed_events", faults._peer_killed("ib_send_bw", "-e", "-n", "5000000"), "segment", company="beside"),
]
