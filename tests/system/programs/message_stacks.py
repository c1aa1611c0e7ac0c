"""UCX's operations over each transport of verbs, its connections by address and port, MPI's windows, libfabric."""

import functools
import subprocess
import tempfile

import cm_programs
from session import Failure, Scenario
from stacks import MPI, SOURCES, _end_well, _need, _packets_of, _ucx_pair
from wires import Skip

# With the transport that UCX uses to connect, where it needs a separate one (rc: ud).
TRANSPORTS = {"rc": {"UCX_TLS": "rc,self"}, "ud": {"UCX_TLS": "ud,self"}}
OPERATIONS = ("tag_lat", "tag_bw", "tag_sync_lat", "ucp_am_lat", "ucp_am_bw", "stream_bw", "stream_lat", "ucp_put_lat",
              "ucp_put_bw", "ucp_get")
ATOMICS = ("ucp_add", "ucp_fadd", "ucp_swap", "ucp_cswap")


def ucx_operations(transport, operations, size, session):
    for operation in operations:
        _ucx_pair("-t", operation, "-s", size, "-n", "500", "-w", "10", environment=TRANSPORTS[transport])(session)


def ucx_connections(transport, session, wire="segment"):
    """Our own program with libucp: a listener, a connection made with librdmacm, every byte checked."""
    environment = {**TRANSPORTS[transport], "UCX_SOCKADDR_TLS_PRIORITY": "rdmacm", "UCX_LOG_LEVEL": "warn"}
    with tempfile.TemporaryDirectory(prefix="uroce-ucp-") as folder:
        program = f"{folder}/ucp_check"
        if subprocess.run(["cc", "-E", "-include", "ucp/api/ucp.h", "-x", "c", "/dev/null"], capture_output=True,
                          check=False).returncode != 0:
            raise Skip("libucx-dev is not installed")
        subprocess.run(["cc", "-O2", "-o", program, str(SOURCES / "ucp_check.c"), "-lucp", "-lucs"], check=True)
        server = cm_programs.start_server(session, wire, [program, "25111"], environment)
        if not server.wait_for_output("listening", 10):
            raise Failure("the server does not listen")
        client = session.start("client", 1, [program, "25111", cm_programs.address_of(server, "own")],
                               {**cm_programs.LOUD, **environment}, cm_programs.options_of(wire, 1))
        for child in (client, server):
            _end_well(session, child, 20, r"^tag, stream, active message, put, get and atomics verified$",
                      r"counted: .*cm_established 1")


# Open MPI's windows (osc/ucx) end without waiting for each other: in MPI_Finalize rank 0 sends to the others' queue
# pairs, which no longer exist, and gives up after UCX's timeout, eight times as long as this, for each in turn
# (doc/programs.md).
SETTINGS = {"mpich": {}, "openmpi": {"OMPI_MCA_pml": "ucx", "OMPI_MCA_osc": "ucx", "UCX_RC_TIMEOUT": "20ms"}}


def mpi_windows(library, transport, session):
    compiler, launcher = MPI[library]
    _need(compiler, launcher[0])
    with tempfile.TemporaryDirectory(prefix="uroce-windows-") as folder:
        program = f"{folder}/mpi_windows"
        subprocess.run([compiler, "-O2", "-o", program, str(SOURCES / "mpi_windows.c")], check=True)
        words = [*launcher, "4", session.uroce, "run", "--port", session.wire.port(0), "--", program]
        ranks = session.start_plain("ranks", words, {"UROCE_LOG": "info", **TRANSPORTS[transport], **SETTINGS[library]})
        _end_well(session, ranks, 60, r"^windows and collectives of 5 lengths verified between 4 ranks$")
        sent = _packets_of(ranks)
        if len(sent) != 4 or min(sent) < 1000:
            raise Failure(f"the ranks did not talk over the wire: they sent {sent} packets")


def scenarios():
    for transport in TRANSPORTS:
        more = {"suite": "long", "timeout_s": 90}
        yield Scenario(f"ucx_operations_{transport}",
                       functools.partial(ucx_operations, transport, OPERATIONS, "1024"), **more)
        yield Scenario(f"ucx_atomics_{transport}", functools.partial(ucx_operations, transport, ATOMICS, "8"), **more)
        yield Scenario(f"ucx_connections_{transport}", functools.partial(ucx_connections, transport), **more)
        yield Scenario(f"mpich_windows_{transport}", functools.partial(mpi_windows, "mpich", transport), **more)
    yield Scenario("openmpi_windows_rc", functools.partial(mpi_windows, "openmpi", "rc"), suite="long", timeout_s=90)
    for wire in ("card", "switch", "switch_lossy", "veth"):
        yield Scenario(f"ucx_connections_rc_{wire}", functools.partial(ucx_connections, "rc", wire=wire), wire=wire, suite="long",
                       timeout_s=90)
        yield Scenario(f"ucx_operations_rc_{wire}", functools.partial(ucx_operations, "rc", ("tag_lat", "stream_bw"), "1024"),
                       wire=wire, suite="long", timeout_s=90)
    yield Scenario("cm_libfabric_dgram", functools.partial(cm_programs.libfabric, "verbs", "dgram", largest="4k"), suite="long",
                   timeout_s=90)
    yield Scenario("cm_libfabric_rxd", functools.partial(cm_programs.libfabric, "verbs;ofi_rxd", "rdm"), suite="long",
                   timeout_s=90)


SCENARIOS = list(scenarios())
