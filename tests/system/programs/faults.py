"""Bad input and bad luck: a clear message or a completion in error, never a hang or a crash."""

import dataclasses
import os
import pathlib
import signal
import tempfile
import time

from children import free_tcp_port, wait_for_listener
from session import Failure, Scenario

# perftest sets timeout 14 (67 ms) and retry_cnt 7: the budget is 8 x 67 ms, and up to four times that is allowed.
RETRY_BUDGET_S = 4 * 8 * 0.0671 + 1


def _flowing_pair(session, program, *options):
    return _flowing_pair_at(session, (0, 1), program, *options)


def _flowing_pair_at(session, sides, program, *options):
    """A pair that has transferred data for a second."""
    port = str(free_tcp_port())
    words = ["stdbuf", "-oL", program, *options, "-p", port]  # line by line, to show its progress
    server = session.start("server", sides[0], words)
    if not wait_for_listener(server, int(port), 20):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", sides[1], [*words, session.wire.tcp_address(sides[0])])
    if not client.wait_for_output("remote address", 20):
        raise Failure("the pair did not connect")
    time.sleep(1.0)
    for child in (server, client):
        if child.exit_code is not None:
            raise Failure(f"the {child.name} ended before it was to be killed")
    return server, client


def _peer_killed(program, *options):
    def body(session):
        server, client = _flowing_pair(session, program, *options)
        server.signal(signal.SIGKILL)
        session.expect_exit(client, RETRY_BUDGET_S + 5)
        if client.exit_code == 0:
            raise Failure("the client exited 0 although its peer was killed")
        output = client.output()
        if "status 12" not in output and "transport retry counter exceeded" not in output.lower():
            raise Failure("the client saw no completion with status 12 (retry exceeded)")

    return body


def both_ends_taken(session):
    holders = [session.start(f"holder{side}", side, ["ibv_asyncwatch"]) for side in (0, 1)]
    for holder in holders:
        if not holder.wait_for_output("async event FD", 20):
            raise Failure(f"the {holder.name} did not start")
    third = session.start("third", 0, ["ibv_devinfo"])
    session.expect_refusal(third, 20, "two")
    for holder in holders:
        if holder.exit_code is not None:
            raise Failure(f"the {holder.name} was disturbed")


def end_free_again(session):
    """A killed process leaves nothing behind that would block the next one."""
    for _ in range(3):
        holders = [session.start("holder", side, ["ibv_asyncwatch"]) for side in (0, 1)]
        for holder in holders:
            if not holder.wait_for_output("async event FD", 20):
                raise Failure("an end is still taken after its owner was killed")
        for holder in holders:
            holder.signal(signal.SIGKILL)
            holder.wait(5)


def _refused(*run_words, says=(), program=("ibv_devinfo",)):
    def body(session):
        child = session.start_plain("program", [session.uroce, "run", *run_words, "--", *program])
        session.expect_refusal(child, 20, *says)

    return body


def malformed_configuration(session):
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as conf:
        conf.write("addr = 10.0.0.1/24\nthis line means nothing\n")
        conf.flush()
        child = session.start_plain("program", [session.uroce, "run", "--conf", conf.name, "--", "ibv_devices"])
        session.expect_refusal(child, 20, pathlib.Path(conf.name).name, "this line means nothing")


def no_rights(session):
    drop = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"] if os.geteuid() == 0 else []
    child = session.start_plain("program", [
        *drop, session.uroce, "run", "--port", "net_af_packet0,iface=lo", "--", "ibv_devinfo"])
    session.expect_refusal(child, 20, "root")


def doctor(session):
    child = session.start_plain("doctor", [session.uroce, "doctor"])
    session.expect_exit(child, 20)
    output = child.output().lower()
    for word in ("default port", "shmlan", "hugepages", "dpdk", "memif"):
        if word not in output:
            raise Failure(f"it says nothing about {word}")


@dataclasses.dataclass(frozen=True)
class Killed:
    program: str
    options: tuple = ()
    wire: str = "segment"

    def scenario(self):
        name = f"{self.program}_peer_killed" + ("" if self.wire == "segment" else f"_{self.wire}")
        return Scenario(name, _peer_killed(self.program, *self.options), wire=self.wire,
                        suite={"segment": "programs", "veth": "veth"}.get(self.wire, "long"))


SCENARIOS = [
    *(killed.scenario() for killed in (
        Killed("ib_write_bw", ("-D", "30")),
        Killed("ib_read_bw", ("-D", "30")),
        Killed("ib_send_bw", ("-D", "30")),
        Killed("ib_atomic_bw", ("-D", "30")),
        Killed("ib_write_bw", ("-D", "30"), wire="card"),
        Killed("ib_send_bw", ("-D", "30"), wire="card"),
        Killed("ib_write_bw", ("-D", "30"), wire="veth"),
    )),
    Scenario("both_ends_taken", both_ends_taken, "card"),
    Scenario("end_free_again", end_free_again, "card"),
    Scenario("no_such_driver", _refused("--port", "net_nosuch0", says=("net_nosuch0",))),
    Scenario("no_such_interface", _refused("--port", "net_af_packet0,iface=nosuch7", says=("nosuch7",))),
    Scenario("no_such_card", _refused("--port", "0000:7f:1f.7", says=("7f:1f.7",))),
    Scenario("malformed_address", _refused("--addr", "999.1.1.1/24", says=("999.1.1.1/24",))),
    Scenario("malformed_prefix", _refused("--addr", "10.0.0.1/77", says=("10.0.0.1/77",))),
    Scenario("no_such_program", _refused(program=("nosuch-program-7",), says=("nosuch-program-7",))),
    Scenario("no_such_conf", _refused("--conf", "/nosuch/file.conf", says=("/nosuch/file.conf",))),
    Scenario("malformed_configuration", malformed_configuration),
    Scenario("no_rights", no_rights),
    Scenario("doctor", doctor),
]
