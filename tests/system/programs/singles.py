"""Programs that run alone: they list and describe the device, or watch it."""

import json
import re
import signal
import time

from session import Failure, Scenario


def _output(session, command, timeout_s=20, environment=None):
    child = session.start("program", 0, command, environment)
    session.expect_exit(child, timeout_s)
    if child.exit_code != 0:
        raise Failure(f"exit code {child.exit_code}")
    return child.output()


def _expect(text, *patterns):
    for pattern in patterns:
        if not re.search(pattern, text, re.MULTILINE):
            raise Failure(f"nothing matches /{pattern}/")


def devices(session):
    _expect(_output(session, ["ibv_devices"]), r"^\s+uroce0\s+[0-9a-f]{16}$")


def devinfo(session):
    _expect(_output(session, ["ibv_devinfo"]), r"^hca_id:\s+uroce0", r"transport:\s+InfiniBand", r"PORT_ACTIVE",
            r"link_layer:\s+Ethernet", r"active_mtu:\s+4096")


def devinfo_list(session):
    _expect(_output(session, ["ibv_devinfo", "-l"]), r"1 HCA found", r"uroce0")


def devinfo_verbose(session):
    _expect(_output(session, ["ibv_devinfo", "-v"]), r"^hca_id:\s+uroce0", r"max_qp:\s+[1-9]", r"max_mr_size:\s+0x",
            r"GID\[\s*0\]:\s+fe80:", r"GID\[\s*1\]:\s+::ffff:", r"RoCE v2")


def devinfo_other_device(session):
    child = session.start("program", 0, ["ibv_devinfo", "-d", "uroce9"])
    session.expect_refusal(child, 20, "wasn't found")


def asyncwatch(session):
    child = session.start("program", 0, ["ibv_asyncwatch"])
    if not child.wait_for_output("async event FD", 20):
        raise Failure("it did not get as far as watching")
    if child.wait(1.0):
        raise Failure("it ended by itself")
    child.signal(signal.SIGINT)
    if not child.wait(5):
        raise Failure("it does not end on Ctrl-C")
    if child.crashed():
        raise Failure("it crashed on Ctrl-C")


def rdma_tool(session):
    """iproute2's rdma, which uses netlink."""
    _expect(_output(session, ["rdma", "dev"]), r"^0: uroce0: node_type ca fw uroce-0\.1 node_guid [0-9a-f:]{19}")
    _expect(_output(session, ["rdma", "resource"]), r"^0: uroce0:")
    _expect(_output(session, ["rdma", "statistic"]), r"^link uroce0/1 tx_packets 0 .*out_of_sequence 0")
    link = json.loads(_output(session, ["rdma", "link", "show", "-j"]))[0]
    interface = _output(session, ["cat", "/sys/class/infiniband/uroce0/ports/1/gid_attrs/ndevs/0"]).strip()
    wanted = {"ifname": "uroce0", "port": 1, "state": "ACTIVE", "physical_state": "LINK_UP", "netdev": interface}
    if wanted.items() - link.items():
        raise Failure(f"not as sysfs has it: {link}, {interface}")
    child = session.start("program", 0, ["rdma", "dev", "set", "uroce0", "name", "other"])
    session.expect_refusal(child, 20, "Operation not supported")


def _resources(session, kind, *filters):
    text = _output(session, ["rdma", "-j", "resource", "show", kind, *filters])
    return [entry for entry in json.loads(text or "[]") if "pid" in entry]


def rdma_resource(session):
    """Objects of other programs, by iproute2's rdma: listed like those of rxe, except for keys."""
    watch = session.start("watch", 0, ["ibv_asyncwatch"])
    server = session.start("server", 0, ["rping", "-s", "-p", "7200"])
    pingpong = session.start("pingpong", 0, ["ibv_rc_pingpong", "-r", "7"])
    end = time.monotonic() + 20
    everything = "pd 1 cq 1 qp 1 cm_id 1 mr 1 ctx 3 srq 0"
    while everything not in (summary := _output(session, ["rdma", "resource"])):  # not all of them print that they wait
        if time.monotonic() > end:
            raise Failure(f"not {everything}: {summary}")
    ids = _resources(session, "cm_id")
    if not ids or {"state": "LISTEN", "ps": "TCP", "comm": "rping", "src-addr": "0.0.0.0:7200"}.items() - ids[0].items():
        raise Failure(f"no listener of rping: {ids}")
    qps = _resources(session, "qp")
    wanted = {"ifname": "uroce0", "port": 1, "type": "RC", "state": "INIT", "comm": "ibv_rc_pingpong"}
    if len(qps) != 1 or wanted.items() - qps[0].items():
        raise Failure(f"not the queue pair of ibv_rc_pingpong: {qps}")
    domain = qps[0]["pdn"]
    for kind, field in {"mr": "mrlen", "pd": "users", "cq": "cqe"}.items():
        found = _resources(session, kind)
        if len(found) != 1 or field not in found[0] or found[0].get("pdn", domain) != domain:
            raise Failure(f"not the {kind} of ibv_rc_pingpong: {found}")
    if len(_resources(session, "ctx")) != 3:
        raise Failure("not three programs")
    number = str(qps[0]["lqpn"])
    if _resources(session, "qp", "link", "uroce0/1", "lqpn", number) != qps:
        raise Failure("the queue pair is not found by its number")
    if _resources(session, "qp", "link", "uroce0/1", "type", "UD"):
        raise Failure("a filter lets pass what it should not")
    for child in (watch, server, pingpong):
        child.signal(signal.SIGKILL)


SCENARIOS = [
    Scenario("rdma_resource", rdma_resource),
    Scenario("rdma_tool", rdma_tool),
    Scenario("ibv_devices", devices),
    Scenario("ibv_devinfo", devinfo),
    Scenario("ibv_devinfo_list", devinfo_list),
    Scenario("ibv_devinfo_verbose", devinfo_verbose),
    Scenario("ibv_devinfo_other_device", devinfo_other_device),
    Scenario("ibv_asyncwatch", asyncwatch),
    Scenario("ibv_devinfo_veth", devinfo_verbose, wire="veth", suite="veth"),
]
