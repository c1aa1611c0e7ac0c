"""One end goes away in the middle, the other must notice and say so; a new pair then works."""

import dataclasses
import signal
import time
from typing import Callable

from rows import Row
from run_row import Failure, attempt_on, lint, run_row

# The programs set timeout 14 (67 ms) and retry_cnt 7: eight waits, each allowed to be four times as long, and the time
# that a program takes to clean up.
RETRY_BUDGET_S = 4 * 8 * 0.0671 + 3
RETRY_EXCEEDED = ("status 12", "status transport retry counter exceeded (12)", "transport retry counter exceeded")
ENDLESS = ("-F", "-D", "60")
FLOWING_PACKETS = 100
FLOWING_TIMEOUT_S = 30


@dataclasses.dataclass(frozen=True)
class Scenario:
    name: str
    body: Callable
    short: bool = False

    def run(self, bench):
        self.body(bench, self.name)


def _expect_retry_exceeded(program, begun):
    if not program.wait(RETRY_BUDGET_S):
        raise Failure(f"the {program.name} had not noticed {time.monotonic() - begun:.1f} s after its peer was gone")
    if program.crashed() or program.exit_code == 0:
        raise Failure(f"the {program.name} ended with {program.exit_code}, not with an error of its own")
    if not any(text in program.output().lower() for text in RETRY_EXCEEDED):
        raise Failure(f"the {program.name} did not see its retries exceeded (status 12)")


def _again(bench, name):
    """With a new peer, everything works as at first."""
    run_row(Row(name=f"{name}.again", program="ibv_rc_pingpong", options=("-c", "-n", "100"), we_are="client",
                pingpong_bytes=2 * 4096 * 100), bench)


def _flowing(attempt, we_are, program, options):
    ours, theirs = attempt.start(we_are, program, options, "ipv4")
    deadline = time.monotonic() + FLOWING_TIMEOUT_S
    packets = 0
    while packets < FLOWING_PACKETS:
        for one in (ours, theirs):
            if one.wait(0):
                raise Failure(f"the {one.name} ended before its peer was to go away")
        if time.monotonic() > deadline:
            raise Failure(f"nothing flowed: {packets} packets in {FLOWING_TIMEOUT_S} s")
        time.sleep(0.1)
        packets = sum(attempt.counters.last.get(name, 0) for name in ("tx_packets", "rx_packets"))
    return ours, theirs


def _peer_loses_power(we_are, program, *options):
    def body(bench, name):
        with attempt_on(bench, name) as attempt:
            ours, _theirs = _flowing(attempt, we_are, program, options)
            begun = time.monotonic()
            bench.guest.power_off()
            bench.guest.start()
            try:
                _expect_retry_exceeded(ours, begun)
            finally:
                bench.guest.wait_ready()
            if problems := lint(bench, attempt.capture):
                raise Failure("; ".join(problems))
        _again(bench, name)

    return body


def _we_are_killed(we_are, program, *options):
    """rxe treats a retry_cnt of 7 as endless: it goes on sending to a queue pair that no longer exists, while the next
    pair of programs works beside it."""

    def body(bench, name):
        with attempt_on(bench, name) as attempt:
            ours, theirs = _flowing(attempt, we_are, program, options)
            ours.signal(signal.SIGKILL)
            ours.wait(5)
            _again(bench, name)
            if theirs.wait(0):
                raise Failure(f"the {theirs.name} ended with {theirs.exit_code}: rxe's retries were thought endless")

    return body


# Programs that always have a request outstanding: one that only waits for the peer's next message cannot notice that
# the peer is gone.
SCENARIOS = (
    Scenario("peer_loses_power.write_bw.client", _peer_loses_power("client", "ib_write_bw", *ENDLESS)),
    Scenario("peer_loses_power.read_bw.client", _peer_loses_power("client", "ib_read_bw", *ENDLESS)),
    Scenario("peer_loses_power.send_bw_both_ways.server", _peer_loses_power("server", "ib_send_bw", *ENDLESS, "-b")),
    Scenario("we_are_killed.write_bw.server", _we_are_killed("server", "ib_write_bw", *ENDLESS)),
    Scenario("we_are_killed.send_bw_both_ways.client", _we_are_killed("client", "ib_send_bw", *ENDLESS, "-b")),
)
