"""Over the kernel's own UDP sockets: rxe sees the machine's own address, and headers that the kernel has made."""

import lab
from reboots import Scenario
from rows import Row
from run_row import Failure, attempt_on, judge_row, lint, wait_for_both

OUR_PORT = f"net_udp0,addr={lab.HOST_IPV4}/24"
ROWS = (
    Row("data", "verbs_data", ("-m", "1024", "-n", "2"), "client", says="verified ", timeout_s=60),
    Row("pingpong", "ibv_rc_pingpong", ("-c", "-n", "200"), "server", pingpong_bytes=2 * 4096 * 200),
    Row("datagrams", "ibv_ud_pingpong", ("-c", "-s", "1024", "-n", "200"), "client", pingpong_bytes=2 * 1024 * 200),
    Row("write", "ib_write_bw", ("-F", "-n", "100"), "client", sizes=(65536,)),
    Row("read", "ib_read_bw", ("-F", "-n", "100"), "server", sizes=(65536,)),
)


def _rows(bench, name):
    problems = []
    for row in ROWS:
        with attempt_on(bench, f"{name}.{row.name}", port=OUR_PORT, addresses=()) as attempt:
            ours, theirs = attempt.start(row.we_are, row.program, row.options, row.gid)
            wait_for_both(attempt, row.timeout_s)
            problems += [f"{row.name}: {text}" for text in judge_row(row, ours, theirs) + lint(bench, attempt.capture)]
    if problems:
        raise Failure("; ".join(problems))


SCENARIOS = (Scenario("by_host_sockets", _rows, short=True),)
