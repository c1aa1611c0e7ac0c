"""perftest's raw_ethernet_*: whole frames between two programs, with MAC addresses that are nobody else's."""

import functools
import re
import shutil
import subprocess
import time

from cm_programs import expect, expect_success
from outputs import check_bandwidth, check_latency, clock_was_lost
from session import Failure, Scenario
from wires import Skip

MACS = ("02:00:00:00:77:01", "02:00:00:00:77:02")
START_TIMEOUT_S = 20
ANY_FREQUENCY = "-F"  # of the CPU


def command(program, side, options):
    return [program, "--client" if side else "--server", "-d", "uroce0", "-B", MACS[side], "-E", MACS[1 - side], ANY_FREQUENCY,
            *options]


def wait_until_ready(server, session):
    """It has its flow, as its log says, and its receives, as `uroce stats` shows. Earlier frames are lost, as on any
    wire: the two programs do not synchronize before the first frame."""
    if not server.wait_for_output("a flow of ", START_TIMEOUT_S):
        raise Failure("the server made no flow")
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        said = subprocess.run([session.uroce, "stats", str(server.pid)], capture_output=True, text=True, check=False)
        if re.search(r"receives_queued [1-9]", said.stdout):
            return
        time.sleep(0.05)
    raise Failure("the server posted no receives")


def start_pair(program, options, session):
    """(server, client), both ended."""
    server = session.start("server", 0, command(program, 0, options), {"UROCE_LOG": "info"})
    wait_until_ready(server, session)
    client = session.start("client", 1, command(program, 1, options))
    for child in (client, server):
        expect_success(session, child, 40)
    return server, client


def run_pair(program, options, size, session):
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed")
    server, client = start_pair(program, options, session)
    if any(clock_was_lost(child.output()) for child in (server, client)):
        print("repeated: perftest could not measure the CPU's clock", flush=True)
        server, client = start_pair(program, options, session)
    check = check_latency if program.endswith("_lat") else check_bandwidth
    problems = check(client.output(), (size,))
    if problems:
        raise Failure("; ".join(problems))


def flow_rate(session):
    """Makes and destroys flows, up to the maximum, and prints the rate."""
    if shutil.which("raw_ethernet_fs_rate") is None:
        raise Skip("raw_ethernet_fs_rate is not installed")
    child = session.start("program", 0, command("raw_ethernet_fs_rate", 0, ("-n", "1000")))
    expect_success(session, child, 40)
    expect(child, (r"^1000[ \t]+[0-9.]+[ \t]+[0-9.]+",))


def burst_lat(session):
    """Debian's build itself refuses: it asks for a rate limiter and then finds it unsuitable."""
    if shutil.which("raw_ethernet_burst_lat") is None:
        raise Skip("raw_ethernet_burst_lat is not installed")
    child = session.start("program", 0, command("raw_ethernet_burst_lat", 0, ()))
    session.expect_refusal(child, 20, "rate_limit type is forced to SW")


def pair(name, program, *options, size=64, **more):
    return Scenario(name, functools.partial(run_pair, program, options, size), timeout_s=60, **more)


# As on a card, a frame without a receive is lost, and then the server waits for ever: so it has as many receives as
# there are frames. And a client that ends at once discards what the server has not taken yet.
BANDWIDTH = ("-s", "64", "-n", "1000", "-r", "1024", "--wait_destroy=1")
LATENCY = ("-s", "64", "-n", "100")

SCENARIOS = [
    pair("raw_ethernet_bw", "raw_ethernet_bw", *BANDWIDTH),
    pair("raw_ethernet_lat", "raw_ethernet_lat", *LATENCY),
    pair("raw_ethernet_bw_card", "raw_ethernet_bw", *BANDWIDTH, wire="card", suite="long"),
    pair("raw_ethernet_lat_card", "raw_ethernet_lat", *LATENCY, wire="card", suite="long"),
    pair("raw_ethernet_bw_large", "raw_ethernet_bw", "-s", "1500", *BANDWIDTH[2:], size=1500,
         suite="long"),
    Scenario("raw_ethernet_fs_rate", flow_rate, suite="long"),
    Scenario("raw_ethernet_burst_lat", burst_lat, suite="long"),
]
