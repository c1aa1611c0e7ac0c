"""Programs whose READs and WRITEs go without frames: `uroce run --direct-copy auto`, on a segment."""

import os
import shutil
import signal
import tempfile

from cm_programs import LISTENS, LOUD
from logged_pairs import LOGGED, counters_of, expect_counted, printed_by, run_logged_pair
from outputs import ALL_SIZES, check_bandwidth, check_latency, trouble
from session import Failure, Scenario
from wires import Skip

DIRECT = ["--direct-copy", "auto"]


def _expect_none(*children):
    for child in children:
        counters = counters_of(child.output())
        if not counters or any(name.startswith("direct_") for name in counters):
            raise Failure(f"the {child.name} was to use frames: {counters}")


def _perftest(words, check, sizes, counter):
    def body(session):
        _, client = run_logged_pair(session, words, (DIRECT, DIRECT))
        problems = check(printed_by(client), sizes)
        if problems:
            raise Failure("; ".join(problems))
        expect_counted(counters_of(client.output()), counter, "direct_bytes")

    return body


def _off_on_one_side(session):
    """If either side has it off, neither side's memory is accessed directly."""
    for options in ((DIRECT, []), ([], DIRECT)):
        _expect_none(*run_logged_pair(session, ["ib_write_bw", "-n", "500"], options))


def _seen_by_captures(session):
    """With a capture on either side, everything is sent in frames again."""
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2):
            options = [list(DIRECT), list(DIRECT)]
            options[number] += ["--pcap", os.path.join(folder, f"{number}.pcapng")]
            _expect_none(*run_logged_pair(session, ["ib_write_bw", "-n", "500"], options))


def _seen_by_faults(session):
    for number in range(2):
        options = [list(DIRECT), list(DIRECT)]
        options[number] += ["--faults", "delay all by 1us"]
        _expect_none(*run_logged_pair(session, ["ib_read_bw", "-n", "200"], options))


def _validated(session):
    """rping compares what the server's READs and WRITEs moved."""
    if shutil.which("rping") is None:
        raise Skip("rping is not installed")
    words = ["rping", "-V", "-S", "60000", "-C", "200"]
    server = session.start("server", 0, [*words, "-s"], LOUD, DIRECT)
    if not server.wait_for_output(LISTENS, 20):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [*words, "-c", "-a", session.wire.tcp_address(0)], LOGGED, DIRECT)
    for child in (client, server):
        session.expect_exit(child, 40)
        if child.exit_code != 0 or trouble(child.output()):
            raise Failure(f"the {child.name}: exit {child.exit_code}")
    expect_counted(counters_of(server.output()), "direct_reads", "direct_writes")


def _peer_killed(session):
    """The target is killed during the transfer: the client learns of it as usual."""
    server, client = session.start_pair(["ib_write_bw", "-s", "1048576", "-D", "30"], (DIRECT, DIRECT), LOGGED)
    if not client.wait_for_output("need no frames", 20):
        raise Failure("the client did not copy")
    server.signal(signal.SIGKILL)
    session.wait_for_end(client, 40)
    if client.exit_code == 0 or client.crashed():
        raise Failure(f"the client ended with {client.exit_code}")


SCENARIOS = [
    Scenario("direct_write_bw", _perftest(["ib_write_bw", "-a", "-n", "100"], check_bandwidth, tuple(ALL_SIZES), "direct_writes")),
    Scenario("direct_read_bw", _perftest(["ib_read_bw", "-a", "-n", "100"], check_bandwidth, tuple(ALL_SIZES), "direct_reads")),
    Scenario("direct_write_bw_qp16", _perftest(["ib_write_bw", "-q", "16", "-n", "1000"], check_bandwidth, (65536,), "direct_writes")),
    Scenario("direct_write_bw_both_ways", _perftest(["ib_write_bw", "-b", "-n", "1000"], check_bandwidth, (65536,), "direct_writes")),
    Scenario("direct_read_bw_events", _perftest(["ib_read_bw", "-e", "-n", "1000"], check_bandwidth, (65536,), "direct_reads")),
    Scenario("direct_write_lat", _perftest(["ib_write_lat", "-s", "65536", "-n", "500"], check_latency, (65536,), "direct_writes")),
    Scenario("direct_off_on_one_side", _off_on_one_side),
    Scenario("direct_seen_by_captures", _seen_by_captures),
    Scenario("direct_seen_by_faults", _seen_by_faults),
    Scenario("direct_validated", _validated),
    Scenario("direct_peer_killed", _peer_killed),
]
