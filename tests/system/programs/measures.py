"""Programs that look at the device in their own way: files of sysfs held open or found by `cd`, memory that is polled."""

import functools
import re
import shutil

from children import free_tcp_port, wait_for_listener
from session import Failure, Scenario
from wires import Skip


def ibstatus(session):
    """A shell script: it changes to the directory where the kernel would have its devices."""
    if shutil.which("ibstatus") is None:
        raise Skip("ibstatus is not installed")
    child = session.start("ibstatus", 0, ["ibstatus"])
    session.expect_exit(child, 20)
    for pattern in (r"device 'uroce0' port 1 status", r"state:\s+4: ACTIVE", r"phys state:\s+5: LinkUp",
                    r"default gid:\s+fe80:", r"link_layer:\s+Ethernet"):
        if not re.search(pattern, child.output()):
            raise Failure(f"nothing matches /{pattern}/")


def counters_of_perftest(program, counter, session):
    """--report-counters opens the counters once, and prints how far they advanced during the test. With 64 KiB a
    message is 16 packets, and the classic data counter is in words of four bytes."""
    messages = 1000
    port = str(free_tcp_port())
    names = f"hw_counters/{counter},counters/port_rcv_packets,counters/port_rcv_data"
    words = [program, "-n", str(messages), "-p", port, f"--report-counters={names}"]
    server = session.start("server", 0, words)
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [*words[:-1], session.wire.tcp_address(0)])
    for child in (client, server):
        session.expect_exit(child, 30)
        if child.exit_code != 0:
            raise Failure(f"the {child.name}: exit code {child.exit_code}")
    shown = {name: int(value) for name, value in re.findall(r"counters/(\w+)=(\d+)", server.output())}
    packets, data = shown.get("port_rcv_packets", 0), shown.get("port_rcv_data", 0)
    if shown.get(counter) != messages or packets < messages * 16 or data < messages * 65536 / 4:
        raise Failure(f"the server's counters went by {shown}, not by {messages} messages of 16 packets")
    # The excess: headers of less than 80 bytes a packet, retransmissions on a busy machine, and perftest's own few
    # messages.
    if data * 4 > packets * (4096 + 80):
        raise Failure(f"{shown}: more data than its packets can have")


# qperf's output for one test: its name, then lines of "field = value unit".
_UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "sec": 1.0, "bytes/sec": 1.0, "KB/sec": 1e3, "MB/sec": 1e6, "GB/sec": 1e9,
          "Kb/sec": 125.0, "Mb/sec": 125e3, "Gb/sec": 125e6}


def _figure(text, test, field):
    found = re.search(rf"^{test}:(?:\n\s+.*)*?\n\s+{field}\s+=\s+([\d.,]+) (\S+)", text, re.MULTILINE)
    if found is None:
        raise Failure(f"{test} printed no {field}")
    return float(found[1].replace(",", "")) * _UNITS[found[2]]


def start_qperf_server(session):
    """(server, port)"""
    if shutil.which("qperf") is None:
        raise Skip("qperf is not installed")
    port = str(free_tcp_port())
    server = session.start("server", 0, ["qperf", "-lp", port])
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    return server, port


def _qperf(tests, limits):
    def body(session):
        _, port = start_qperf_server(session)
        client = session.start("client", 1, ["qperf", session.wire.tcp_address(0), "-lp", port, "-t", "1", *tests])
        session.expect_exit(client, 40)
        if client.exit_code != 0:
            raise Failure(f"the client: exit code {client.exit_code}")
        for test, (field, worst) in limits.items():
            value = _figure(client.output(), test, field)
            if (value > worst) if field == "latency" else (value < worst):
                raise Failure(f"{test}: {field} {value:g}, allowed {worst:g}")

    return body


def _latency(*tests):
    """Each program sends messages all the time: none may wait for more than half a second for the next."""
    return _qperf(tests, {test: ("latency", 0.5) for test in tests})


SCENARIOS = [
    Scenario("ibstatus", ibstatus),
    Scenario("ib_send_bw_counters", functools.partial(counters_of_perftest, "ib_send_bw", "rx_sends")),
    Scenario("ib_write_bw_counters", functools.partial(counters_of_perftest, "ib_write_bw", "rx_write_requests"), suite="long"),
    # Both programs poll a byte of their memory, and make no call meanwhile: the background threads must get the CPU.
    # How soon is measured in tests/bench, where `ib_write_lat` does the same on an idle machine.
    Scenario("qperf_rc_rdma_write_poll_lat", _latency("rc_rdma_write_poll_lat")),
    Scenario("qperf_uc_rdma_write_poll_lat", _latency("uc_rdma_write_poll_lat"), suite="long"),
    Scenario("qperf_lat", _latency("rc_lat", "uc_lat", "ud_lat", "rc_rdma_read_lat", "rc_rdma_write_lat"),
             suite="long", timeout_s=60),
    Scenario("qperf_bw", _qperf(("rc_bw", "rc_rdma_write_bw", "rc_rdma_read_bw"),
                                {test: ("bw", 50e6) for test in ("rc_bw", "rc_rdma_write_bw", "rc_rdma_read_bw")}),
             suite="long", timeout_s=60, company="alone"),
]
