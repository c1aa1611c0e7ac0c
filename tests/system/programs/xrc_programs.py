"""Unmodified programs with XRC: the pingpong, perftest, and those that connect by address and port."""

import functools
import shutil

import cm_programs
from cases import Case
from children import free_tcp_port, wait_for_listener
from cm_programs import CmCase, expect, expect_success, options_of
from session import Failure, Scenario
from wires import Skip

START_TIMEOUT_S = 20
WIRES = {"card": "long", "switch": "long", "veth": "long"}


def start_pingpong(options, clients, wire, session):
    """A server for this many clients, and at most two clients; the server comes first."""
    if shutil.which("ibv_xsrq_pingpong") is None:
        raise Skip("ibv_xsrq_pingpong is not installed")
    port = free_tcp_port()
    command = ["ibv_xsrq_pingpong", "-g", "1", *options, "-p", str(port)]
    server = session.start("server", 0, [*command, "-c", str(clients)], None, options_of(wire, 0))
    session.wire.attach(0, server)
    if not wait_for_listener(server, port, START_TIMEOUT_S):
        raise Failure("the server did not get as far as listening")
    children = [server]
    for number in range(clients):
        client = session.start(f"client {number + 1}", 1, [*command, session.wire.tcp_address(0)], None,
                               options_of(wire, 1))
        session.wire.attach(1, client)
        children.append(client)
    return children


def pingpong(options, wire, session):
    for child in reversed(start_pingpong(options, 1, wire, session)):
        expect_success(session, child, 40)
        expect(child, (r"^success$",))


def two_clients(session):
    """The server sends to each client through the connection with the other one: that needs one domain in both
    processes, which does not exist. The program gets an error, and the side that refuses says why."""
    server, *clients = start_pingpong((), 2, "segment", session)
    if not server.wait_for_output("remote invalid request", 20):
        raise Failure("the server's message was not refused")
    if not any(client.wait_for_output("processes share no domain", 5) for client in clients):
        raise Failure("no client says why")


def perftest(program, name, *options, **more):
    return Case(f"{program}_xrc{name}", program, ("-c", "XRC", *options), **more)


def cases():
    yield perftest("ib_send_bw", "")
    yield perftest("ib_write_bw", "")
    yield perftest("ib_read_lat", "")
    yield perftest("ib_atomic_bw", "")
    yield perftest("ib_send_bw", "_srq", "--use-srq", "-q", "4", "-n", "500")
    yield perftest("ib_send_lat", "", suite="long")
    yield perftest("ib_read_bw", "", suite="long")
    yield perftest("ib_write_lat", "", "-n", "300", suite="long")
    yield perftest("ib_atomic_lat", "", suite="long")
    yield perftest("ib_send_bw", "_both_ways", "-b", "-n", "1000", suite="long")
    yield perftest("ib_send_bw", "_events", "-e", suite="long")
    yield perftest("ib_write_bw", "_qp16", "-q", "16", "-n", "500", suite="long")
    yield perftest("ib_send_bw", "_old_post_send", "--use_old_post_send", suite="long")
    for wire, suite in WIRES.items():
        yield perftest("ib_send_bw", f"_{wire}", "-n", "1000", wire=wire, suite=suite, timeout_s=60)
        yield perftest("ib_write_bw", f"_{wire}", "-n", "1000", wire=wire, suite=suite, timeout_s=60)


CM_CASE = CmCase("rdma_xclient_xrc", "rdma_xserver -c x", "rdma_xclient -c x -s {address}", (r"^rdma_xclient: end 0$",),
                 (r"^rdma_xserver: end 0$",))
CM_CASE_RC = CmCase("rdma_xclient_rc", "rdma_xserver", "rdma_xclient -s {address}", (r"^rdma_xclient: end 0$",),
                    (r"^rdma_xserver: end 0$",))


def scenarios():
    for name, options, suite in (("", (), "programs"), ("_events", ("-e",), "programs"),
                                 ("_large", ("-s", "200000", "-n", "100"), "long")):
        yield Scenario(f"ibv_xsrq_pingpong{name}", functools.partial(pingpong, options, "segment"), suite=suite,
                       timeout_s=60)
    yield Scenario("ibv_xsrq_pingpong_two_clients", two_clients, timeout_s=60)
    for case in (CM_CASE, CM_CASE_RC):
        yield Scenario(f"cm_{case.name}", functools.partial(cm_programs.run_case, case, "segment"), timeout_s=60)
    for wire, suite in WIRES.items():
        yield Scenario(f"ibv_xsrq_pingpong_{wire}", functools.partial(pingpong, (), wire), wire=wire, suite=suite,
                       timeout_s=60)
        yield Scenario(f"cm_{CM_CASE.name}_{wire}", functools.partial(cm_programs.run_case, CM_CASE, wire), wire=wire,
                       suite=suite, timeout_s=60)


SCENARIOS = list(scenarios())
