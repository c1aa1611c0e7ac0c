"""What stands on verbs: UCX, and the message passing libraries over it. They run as a user would run them, without settings of their own.

On one machine they would find shared memory of their own and leave verbs alone, so that most rows leave them InfiniBand's
transports only (UCX_TLS); which of those, and how they come together, is up to them.
"""

import pathlib
import re
import shutil
import subprocess
import tempfile

from children import free_tcp_port, wait_for_listener
from session import Failure, Scenario
from wires import Skip

SOURCES = pathlib.Path(__file__).resolve().parent / "sources"
OVER_VERBS = {"UCX_TLS": "ib,self", "OMPI_MCA_pml": "ucx"}


def _need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")


def _end_well(session, child, timeout_s, *patterns):
    session.expect_exit(child, timeout_s)
    if child.exit_code != 0:
        raise Failure(f"the {child.name}: exit code {child.exit_code}")
    for pattern in patterns:
        if not re.search(pattern, child.output(), re.MULTILINE):
            raise Failure(f"the {child.name} printed nothing like /{pattern}/")


def _packets_of(child):
    """How many packets the ranks sent, from each rank's final log lines (UROCE_LOG=info)."""
    return [int(number) for number in re.findall(r"counted: .*?\btx_packets (\d+)", child.output())]


# UCX's own benchmark: a server, and a client that selects the test.
def _ucx_pair(*options, environment=None, timeout_s=40, transport=""):
    def body(session):
        _need("ucx_perftest")
        port = str(free_tcp_port())
        settings = {**OVER_VERBS, "UCX_LOG_LEVEL": "warn", **(environment or {})}
        words = ["ucx_perftest", *(("-d", "uroce0:1", "-x", transport) if transport else ()), "-p", port]
        server = session.start("server", 0, words, settings)
        if not wait_for_listener(server, int(port), 20):
            raise Failure("the server did not get as far as listening")
        client = session.start("client", 1, [*words, *options, session.wire.tcp_address(0)], settings)
        _end_well(session, client, timeout_s, r"^Final:\s+\d+")
        session.expect_exit(server, 10)
        for child in (server, client):
            if "WARN" in child.output() or "ERROR" in child.output():
                raise Failure(f"the {child.name} complained")

    return body


# Launchers that start ranks on this machine: their paths, and the option for the number of ranks.
MPI = {
    "openmpi": ("mpicc.openmpi", ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-n"]),
    "mpich": ("mpicc.mpich", ["mpirun.mpich", "-n"]),
    "openshmem": ("oshcc", ["oshrun", "--allow-run-as-root", "--oversubscribe", "-n"]),
}


def _ranks(library, count, environment=None, timeout_s=120):
    compiler, launcher = MPI[library]
    source = SOURCES / ("shmem_check.c" if library == "openshmem" else "mpi_check.c")

    def body(session):
        _need(compiler, launcher[0])
        with tempfile.TemporaryDirectory(prefix="uroce-ranks-") as folder:
            program = f"{folder}/{source.stem}"
            subprocess.run([compiler, "-O2", "-o", program, str(source)], check=True)
            words = [*launcher, str(count), session.uroce, "run", "--port", session.wire.port(0), "--", program]
            ranks = session.start_plain("ranks", words, {"UROCE_LOG": "info", **(environment or {})})
            verified = r"^verified .*\b%d (ranks|PEs)$" % count
            if library == "openshmem":
                # Debian's 4.1.4 crashes in its own exit handlers, with and without uroce: only its work before that
                # counts.
                if not ranks.wait(timeout_s) or not re.search(verified, ranks.output(), re.MULTILINE):
                    raise Failure("the PEs verified nothing")
                return
            _end_well(session, ranks, timeout_s, verified)
            if environment is None:
                return
            sent = _packets_of(ranks)
            if len(sent) != count or min(sent) < 100:
                raise Failure(f"the ranks did not talk over the wire: they sent {sent} packets")

    return body


def _scenarios():
    yield Scenario("ucx_ud_am_lat", _ucx_pair("-t", "am_lat", "-n", "2000", "-w", "100", transport="ud_verbs"))
    yield Scenario("ucx_rc_am_lat", _ucx_pair("-t", "am_lat", "-n", "2000", "-w", "100", transport="rc_verbs"))
    yield Scenario("ucx_rc_put_bw", _ucx_pair("-t", "put_bw", "-s", "65536", "-n", "2000", "-w", "10", "-D", "zcopy",
                                              transport="rc_verbs"))
    yield Scenario("ucx_tag_lat", _ucx_pair("-t", "tag_lat", "-n", "2000", "-w", "100"))
    yield Scenario("ucx_tag_lat_sleeping", _ucx_pair("-t", "tag_lat", "-n", "1000", "-w", "10", "-E", "sleep"))
    yield Scenario("ucx_stream_bw", _ucx_pair("-t", "stream_bw", "-s", "65536", "-n", "1000", "-w", "10"))
    yield Scenario("ucx_get", _ucx_pair("-t", "ucp_get", "-s", "1048576", "-n", "100", "-w", "5"), suite="long")
    yield Scenario("ucx_ud_am_lat_card", _ucx_pair("-t", "am_lat", "-n", "2000", "-w", "100", transport="ud_verbs"), "card")
    yield Scenario("ucx_tag_lat_sleeping_card", _ucx_pair("-t", "tag_lat", "-n", "1000", "-w", "10", "-E", "sleep"), "card")
    for library in MPI:
        for count in (2, 4):
            if library == "openshmem" and count > 2:
                continue
            yield Scenario(f"{library}_{count}_ranks_segment", _ranks(library, count, OVER_VERBS), suite="long", timeout_s=130)
        for count in (2, 4, 8):
            if library != "openshmem" or count == 2:
                yield Scenario(f"{library}_{count}_ranks", _ranks(library, count), wire="switch", suite="long", timeout_s=130)
            yield Scenario(f"{library}_{count}_ranks_over_verbs", _ranks(library, count, OVER_VERBS), wire="switch",
                           suite="long", timeout_s=130)


SCENARIOS = list(_scenarios())
