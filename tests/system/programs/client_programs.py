"""Small clients: the examples, qperf through connection management, scripts of pyverbs, and what perftest has besides."""

import functools
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import wires
from cm_programs import LOUD, address_of, expect, expect_success, start_server
from measures import start_qperf_server
from session import Failure, Scenario
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"
PYTHON = "/usr/bin/python3"  # the distribution's, which has python3-pyverbs


def _example(name):
    program = wires.build_directory / "apps" / "examples" / f"example_{name}"
    if not program.exists():
        raise Skip("the examples were not built: librdmacm's headers are missing")
    return str(program)


def _examples_by_port(name, session, count=1, answers=(), server_says=()):
    """Server and client meet at an RDMA port; the server ends after its last client."""
    program = _example(name)
    server = start_server(session, "segment", [program, *(("-n", str(count)) if count > 1 else ())])
    for number in range(count):
        client = session.start(f"client {number + 1}", 1, [program, address_of(server, "own")])
        expect_success(session, client, 20)
        expect(client, answers)
    expect_success(session, server, 20)
    expect(server, server_says)


def verbs_pingpong(session):
    server, client = session.start_pair([_example("verbs_pingpong")])
    for child in (client, server):
        expect_success(session, child, 20)
        expect(child, (r"^1000 messages there and back$",))


def multicast(session):
    """Two receivers, and one sender that ends before them."""
    program, group = _example("multicast"), "239.1.2.9"
    receivers = [session.start(f"receiver {number}", 0, [program, group]) for number in (1, 2)]
    for receiver in receivers:
        if not receiver.wait_for_output("joined the group", 20):
            raise Failure(f"the {receiver.name} did not join")
    sender = session.start("sender", 1, [program, "-s", group])
    expect_success(session, sender, 20)
    expect(sender, (r"^sent 5 datagrams$",))
    for receiver in receivers:
        expect_success(session, receiver, 20)
        expect(receiver, tuple(rf"^datagram {number} of 5$" for number in range(1, 6)))


def cm_events_refused(session):
    child = session.start("client", 0, [_example("cm_events"), "127.0.0.1"])
    session.expect_refusal(child, 20, "RDMA_CM_EVENT_REJECTED: the peer refuses")


EXAMPLES = (
    Scenario("example_cm_events", functools.partial(_examples_by_port, "cm_events", count=3, answers=(r"^the server$",))),
    Scenario("example_cm_events_refused", cm_events_refused, suite="long"),
    Scenario("example_endpoints", functools.partial(_examples_by_port, "endpoints", answers=(
        r"^ONE CONNECTION,$", r"^TWO ENDPOINTS,$", r"^AND NO EVENT LOOP$"))),
    Scenario("example_write_then_send", functools.partial(_examples_by_port, "write_then_send", answers=(
        r"^wrote 1048576 bytes$",), server_says=(r"^1048576 bytes are there, and right$",))),
    Scenario("example_multicast", multicast),
    Scenario("example_verbs_pingpong", verbs_pingpong),
)


# qperf's server forks for each client; each test prints its name and then its figures.
def qperf(tests, options, session):
    server, port = start_qperf_server(session)
    for test in tests:
        client = session.start(f"client, {test},", 1, ["qperf", session.wire.tcp_address(0), "-lp", port, "-t", "1",
                                                       *options, test])
        expect_success(session, client, 30)
        found = re.search(rf"^{test}:\n +\w+ += +([\d.,]+) \S+$", client.output(), re.MULTILINE)
        if not found or float(found[1].replace(",", "")) <= 0:
            raise Failure(f"{test} printed no figure")
    if server.exit_code is not None:
        raise Failure(f"the server ended (exit {server.exit_code})")


def _qperf_tests():
    rows = {
        "rc": ("rc_lat", "rc_bw", "rc_bi_bw", "rc_rdma_read_bw", "rc_rdma_write_lat", "rc_compare_swap_mr", "rc_fetch_add_mr"),
        "uc": ("uc_lat", "uc_bw", "uc_bi_bw", "uc_rdma_write_bw", "uc_rdma_write_lat"),
        "ud": ("ud_lat", "ud_bw", "ud_bi_bw"),
        "verified": ("ver_rc_compare_swap", "ver_rc_fetch_add"),
    }
    for name, tests in rows.items():
        yield Scenario(f"qperf_{name}_tests", functools.partial(qperf, tests, ()), suite="long", timeout_s=90)
    # Its server crashes at the end of each such test (it destroys a queue pair that it does not have); only if another
    # program answers in its place does the client end within its time.
    yield Scenario("qperf_cm", functools.partial(qperf, ("rc_lat",), ("-cm", "1")), suite="long", timeout_s=60)


def pyverbs(session):
    """The parts of libibverbs and librdmacm that its bindings reach, checked by the script itself."""
    if subprocess.run([PYTHON, "-c", "import pyverbs.cmid"], capture_output=True, check=False).returncode != 0:
        raise Skip("python3-pyverbs is not installed")
    child = session.start("script", 0, [PYTHON, "-B", str(SOURCES / "pyverbs_check.py")], LOUD)
    expect_success(session, child, 40)
    expect(child, (r"^rc: 100 messages$", r"^ud: 100 datagrams$", r"^window: written$", r"^shared queue: received$", r"^extended queue: polled$",
                   r"^rdmacm: echoed$", r"counted: .*rx_sends \d"))


def pyverbs_tag_matching(session):
    """Tag matching through the same bindings."""
    if subprocess.run([PYTHON, "-c", "import pyverbs.srq"], capture_output=True, check=False).returncode != 0:
        raise Skip("python3-pyverbs is not installed")
    child = session.start("script", 0, [PYTHON, "-B", str(SOURCES / "pyverbs_tag_matching.py")], LOUD)
    expect_success(session, child, 40)
    expect(child, (r"^eager: 9 messages$", r"^unexpected: counted$", r"^rendezvous: fetched$"))


# Other modes of perftest.
def infinite(session):
    """Runs until it is stopped, and prints meanwhile."""
    if shutil.which("ib_write_bw") is None:
        raise Skip("ib_write_bw is not installed")
    server, client = session.start_pair(["stdbuf", "-oL", "ib_write_bw", "--run_infinitely", "-D", "1"])
    if not client.wait_for_output("\n 65536 ", 20):
        raise Failure("the client printed nothing")
    for child in (client, server):
        child.signal(signal.SIGINT)
        if not child.wait(5):
            raise Failure(f"the {child.name} does not end on Ctrl-C")
        if child.crashed():
            raise Failure(f"the {child.name} crashed on Ctrl-C")
    if not re.search(r"^ 65536 +\d+ +\d+\.\d+ +[1-9]\d*\.\d+\s", client.output(), re.MULTILINE):
        raise Failure("the client measured nothing")


def _run_forms(session, headers, name):
    """Compiled with the headers in the folder `headers`, if it is given, and run."""
    source = SOURCES / "verbs_forms.c"
    with tempfile.TemporaryDirectory(prefix="uroce-forms-") as folder:
        built = f"{folder}/verbs_forms"
        found = ["-isystem", str(headers)] if headers else []
        subprocess.run(["cc", "-O1", *found, "-o", built, str(source), "-libverbs"], check=True)
        child = session.start(f"program with {name} headers", 0, [built])
        expect_success(session, child, 20)
        expect(child, (r"^every form verified$",))


def forms(session):
    _run_forms(session, None, "the installed")


def forms_of_other_releases(session):
    """Clients compiled against other releases of rdma-core: UROCE_VERBS_HEADERS names a folder with one folder of
    `infiniband/*.h` and `rdma/*.h` per release. Not part of this project, and on few machines."""
    folder = os.environ.get("UROCE_VERBS_HEADERS", "")
    releases = sorted(path.parent.parent for path in pathlib.Path(folder).glob("*/infiniband/verbs.h")) if folder else []
    if not releases:
        raise Skip("UROCE_VERBS_HEADERS names no folder with headers of other releases")
    for release in releases:
        _run_forms(session, release, release.name)


SCENARIOS = [
    *EXAMPLES,
    Scenario("verbs_forms", forms, suite="long"),
    Scenario("verbs_forms_of_other_releases", forms_of_other_releases, suite="long", timeout_s=90),
    *_qperf_tests(),
    Scenario("pyverbs", pyverbs),
    Scenario("pyverbs_tag_matching", pyverbs_tag_matching),
    Scenario("ib_write_bw_infinite", infinite, suite="long"),
]
