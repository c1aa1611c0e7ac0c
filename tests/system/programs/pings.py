"""`uroce ping`: what it says of a host that serves pings, of one that only speaks RoCE, and of one that does not answer."""

import re

import wires
from network import PATIENCE_S, _wait
from session import Failure, Scenario


def _ping(session, name, side, *words, port=None):
    line = [*session.wire.prefix(side), session.uroce, "ping", *(["--port", port] if port else []), *words]
    return session.start_plain(name, line)


def _serve(session, side, port=None):
    server = _ping(session, "server", side, "--serve", port=port)
    if not server.wait_for_output("serving pings", PATIENCE_S):
        raise Failure("the server did not get as far as serving")
    return server


def _expect(session, client, code, *says):
    session.expect_exit(client, PATIENCE_S)
    if client.exit_code != code:
        raise Failure(f"the {client.name}: exit {client.exit_code}, not {code}")
    for pattern in says:
        if not re.search(pattern, client.output(), re.MULTILINE):
            raise Failure(f'the {client.name} did not say "{pattern}"')


TIMES = r"^{n} sent, {n} answered; round trip \d+\.\d{{3}} ms at least, \d+\.\d{{3}} typically, \d+\.\d{{3}} at most$"


def _served(address, mtu, port=None):
    def body(session):
        server = _serve(session, 0, port)
        client = _ping(session, "client", 1, "-c", "5", "-i", "0.01", address, port=port)
        _expect(session, client, 0, rf"^RoCE to {re.escape(address)} from \S+: uroce0, MTU {mtu}$", TIMES.format(n=5),
                rf"^packets of all lengths get through, to MTU {mtu}$",
                r"^DSCP 26 arrives as 26; ECT arrives: congestion can be marked$")
        if len(re.findall(rf"^64 bytes from {re.escape(address)}: ", client.output(), re.MULTILINE)) != 5:
            raise Failure("not five answers")
        _expect(session, _ping(session, "second client", 1, "-c", "1", address, port=port), 0, TIMES.format(n=1))
        if len(re.findall(r"^asked by ", server.output(), re.MULTILINE)) != 2:
            raise Failure("the server does not say who asked")
        _expect(session, _ping(session, "second server", 0, "--serve", port=port), 1, r"pings are served here already")

    return body


def nobody_serves(session):
    """Any program makes a host one that speaks RoCE."""
    session.start("a program", 0, ["rping", "-s", "-a", "0.0.0.0"])
    _wait("the way out starts", lambda: session.wire.has_port(0))
    _expect(session, _ping(session, "client", 1, "-c", "2", "10.77.0.1"), 0, r"^request 2: answered$", r"^2 sent, 2 answered$",
            r"^RoCE gets through, both ways\. .*uroce ping --serve there$")


def nobody_there(session):
    """No program, no interface with that address, no packet through the firewall: each has its own reason."""
    _expect(session, _ping(session, "client", 1, "-c", "1", "-W", "1", "10.77.0.1"), 1,
            r"^uroce-ping: 10\.77\.0\.1.*nobody has its UDP port 4791: run a program with --port network there")
    _expect(session, _ping(session, "second client", 1, "-c", "1", "-W", "1", "10.77.0.99"), 1,
            r"^uroce-ping: 10\.77\.0\.99.*(the kernel says: No route to host|the network says nothing either)")
    _expect(session, _ping(session, "third client", 1, "-c", "1", "-W", "1", "203.0.113.1"), 1, r"^uroce-ping: 203\.0\.113\.1: no way there")
    wires._ip("-n", session.wire._spaces[0], "route", "add", "blackhole", "10.77.0.2/32")
    _expect(session, _ping(session, "fourth client", 1, "-c", "1", "-W", "1", "10.77.0.1"), 1,
            r"^uroce-ping: 10\.77\.0\.1.*a firewall drops UDP port 4791")


def small_way(session):
    """A router on the way has a smaller MTU than both ends, and drops what is longer."""
    _serve(session, 0, "net_udp0")
    client = _ping(session, "client", 1, "-c", "1", "-W", "4", "10.77.0.2", port="net_udp0")
    _expect(session, client, 1, TIMES.format(n=1), r"^packets with 1024 bytes of data get through, with 2048 they do not: ")


def bad_cable(session):
    """Marks on the way are told from a clean network, and so is a host that gets nothing."""
    _serve(session, 0, "shmlan")

    def ping(faults):
        return _ping(session, faults, 1, "-c", "2", "-i", "0.01", "-W", "5", "--faults", faults, "127.0.0.1", port="shmlan")

    _expect(session, ping("mark all opcode=0x64"), 0, TIMES.format(n=2), r"^DSCP 26 arrives as 26; ECT arrives as CE: something on the way is congested$")
    # The request for connection management is the first datagram.
    _expect(session, ping("drop 2- opcode=0x64"), 1, r"^ping 2: no answer in time$", r"^2 sent, 0 answered$",
            r"^uroce-ping: 127\.0\.0\.1 answers requests, and none of the pings came back$")
    _expect(session, ping("drop 3rd opcode=0x64"), 1, r"^ping 2: no answer in time$", r"^2 sent, 1 answered; round trip ", r"^packets of all lengths get through, to MTU 4096$")


def wrong_words(session):
    for words, says in ((("127.0.0.1", "--serve"), "--serve answers anybody"), ((), "which host?"), (("-c", "0", "127.0.0.1"), "--count"),
                        (("-i", "x", "127.0.0.1"), "--interval"), (("no-such-host.invalid", ), "no-such-host.invalid: ")):
        child = _ping(session, " ".join(words), 0, *words, port="shmlan")
        session.expect_refusal(child, PATIENCE_S, says)
        if len(child.output().splitlines()) != 1:
            raise Failure(f"not one line: {child.output()}")


SCENARIOS = [
    Scenario("ping_segment", _served("127.0.0.1", 4096, "shmlan"), timeout_s=60),
    Scenario("ping_segment_six", _served("::1", 4096, "shmlan"), timeout_s=60),
    Scenario("ping_network", _served("10.77.0.1", 4096), "network", "veth", timeout_s=90),
    Scenario("ping_network_six", _served("fd77::1", 1024), "network_1500", "veth", timeout_s=90),
    Scenario("ping_nobody_serves", nobody_serves, "network", "veth", timeout_s=90),
    Scenario("ping_nobody_there", nobody_there, "network", "veth", timeout_s=120),
    Scenario("ping_small_way", small_way, "udp_router", "veth", timeout_s=120),
    Scenario("ping_bad_cable", bad_cable, timeout_s=60),
    Scenario("ping_wrong_words", wrong_words, timeout_s=60),
]
