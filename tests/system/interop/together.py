"""Several programs of one machine at once, behind one uroced: rxe sees one host with one address."""

import contextlib
import tempfile

import lab
from reboots import Scenario
from rows import Row
from run_row import Failure, attempt_on, judge_row, lint, wait_for_both

# Each of them checks what it receives, or prints what it measured.
ROWS = (
    Row("data", "verbs_data", ("-m", "1024", "-n", "2"), "client", says="verified ", timeout_s=60),
    Row("pingpong", "ibv_rc_pingpong", ("-c", "-n", "200"), "server", pingpong_bytes=2 * 4096 * 200),
    Row("write", "ib_write_bw", ("-F", "-n", "100"), "client", sizes=(65536,)),
    Row("send_ipv6", "ib_send_bw", ("-F", "-n", "100"), "server", gid="ipv6", sizes=(65536,)),
)


@contextlib.contextmanager
def _uplink(bench):
    addresses = [word for address in lab.OUR_ADDRESSES for word in ("--addr", address)]
    with tempfile.TemporaryDirectory(prefix="uroce-together-") as runtime:
        daemon = bench.children.start("uroced", [bench.uroce.parent / "uroced", "--port", lab.OUR_PORT, *addresses],
                                      {"UROCE_RUNTIME_DIR": runtime})
        try:
            if not daemon.wait_for_output("uroced is ready", 20):
                raise Failure(f"uroced did not start: {daemon.output()}")
            yield runtime
        finally:
            daemon.stop()


def _together(bench, name):
    """All are started before any is waited for: packets of one must not reach another."""
    problems = []
    with contextlib.ExitStack() as stack:
        runtime = stack.enter_context(_uplink(bench))
        running = []
        for row in ROWS:
            attempt = stack.enter_context(attempt_on(bench, f"{name}.{row.name}", port="shmlan", runtime=runtime))
            running.append((row, attempt, *attempt.start(row.we_are, row.program, row.options, row.gid)))
        for row, attempt, ours, theirs in running:
            wait_for_both(attempt, row.timeout_s)
            problems += [f"{row.name}: {text}" for text in judge_row(row, ours, theirs) + lint(bench, attempt.capture)]
    if problems:
        raise Failure("; ".join(problems))


SCENARIOS = (Scenario("behind_one_uroced", _together, short=True),)
