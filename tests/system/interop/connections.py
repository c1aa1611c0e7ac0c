"""Programs that meet by connection management (rdma_cm) with rxe, at either end; the kernel's own manager is the peer's."""

import contextlib
import dataclasses
import time

import lab
from outputs import trouble
from reboots import Scenario
from run_row import Failure, attempt_on, lint, wait_for_both
from guest import Loss, SlowRequests

LISTENING = "connections to port"  # our log, as soon as requests are taken
LISTEN_TIMEOUT_S = 20
LOSS = "{lost} numgen random mod 1000 < {permille}"
OF_QP1 = "@th,104,24 1"  # bytes six to eight after UDP's header: the manager's datagrams, with any data beside them
NOT_OF_QP1 = "@th,104,24 != 1"


@dataclasses.dataclass(frozen=True)
class Meeting:
    """Arguments of both ends: `{server}` is the server's address, and `{port}` a new one each time."""

    name: str
    server: str
    client: str
    says: tuple                # what the client prints on success
    server_says: tuple = ()
    family: str = "ipv4"
    loss_permille: int = 0     # of the packets that `lost` selects, in each direction
    lost: str = ""             # which packets may be lost, in nftables' words; "": all
    lost_ways: str = "both"    # "to_server": only what the client sends
    not_linted: str = ""       # rules of uroce-lint that the programs themselves break
    endless: bool = False      # the server does not end by itself
    timeout_s: int = 40
    short: bool = False

    @property
    def asks_at_once(self):
        """perftest with -R, whose second listener races with the client. When packets are lost, rxe's clients sometimes
        hang after slow requests, so such a row races on."""
        return self.server.startswith("ib_") and not self.loss_permille


def _pings(count, size=64):
    """What rping prints with -v: a pattern that advances by one letter each time."""
    def line(i):
        text = f"rdma-ping-{i}: "
        letters = "".join(chr(65 + (i + k) % 58) for k in range(size - 1 - len(text)))
        return f"ping data: {text}{letters}"
    return tuple(line(i) for i in range(count))


# Programs that break a rule themselves. rping's client takes the server's answer for the completion of its SEND and
# writes into that buffer; perftest with -R receives its peer's numbers into the buffer that its own are sent from. If
# the acknowledgement was lost, the SEND is retransmitted with other bytes, at either end.
_REUSES_BUFFERS = "retransmit-content"
_RSTREAM = ("1000    1k      20      38m",)
_RSTREAM_16K = ("custom    15k     10      20      6.1m",)
_MEETINGS = (
    Meeting("rping", "rping -s -a {server} -p {port} -C 10 -v -V", "rping -c -a {server} -p {port} -C 10 -v -V", _pings(10),
            tuple(f"server {line}" for line in _pings(10)), short=True),
    Meeting("rping_ipv6", "rping -s -a {server} -p {port} -C 10 -v", "rping -c -a {server} -p {port} -C 10 -v", _pings(10),
            family="ipv6", short=True),
    Meeting("rping_large", "rping -s -a {server} -p {port} -C 20 -V -S 60000", "rping -c -a {server} -p {port} -C 20 -V -S 60000", ()),
    Meeting("ucmatose", "ucmatose -p {port} -c 8 -C 10 -S 5000", "ucmatose -s {server} -p {port} -c 8 -C 10 -S 5000",
            ("data transfers complete", "test complete", "return status 0"), ("disconnected", "return status 0"), short=True),
    Meeting("ucmatose_ipv6", "ucmatose -b {server} -p {port} -c 3", "ucmatose -s {server} -p {port} -c 3",
            ("data transfers complete", "return status 0"), ("return status 0",), family="ipv6"),
    Meeting("udaddy", "udaddy -c 4 -C 10", "udaddy -s {server} -c 4 -C 10",
            ("data transfers complete", "test complete", "return status 0"), ("return status 0",), short=True),
    Meeting("rdma_client", "rdma_server -p {port}", "rdma_client -s {server} -p {port}", ("rdma_client: end 0",),
            ("rdma_server: end 0",), short=True),
    Meeting("cmtime", "cmtime -p {port} -c 50", "cmtime -s {server} -p {port} -c 50", ("disconnect   :", "destroy      :"), endless=True),
    Meeting("rstream", "rstream -p {port} -S 1000 -I 20", "rstream -s {server} -p {port} -S 1000 -I 20", _RSTREAM, _RSTREAM),
    Meeting("riostream", "riostream -p {port} -S 1000 -I 20", "riostream -s {server} -p {port} -S 1000 -I 20", _RSTREAM, _RSTREAM),
    Meeting("send_bw_cm", "ib_send_bw -F -R -n 50 -p {port}", "ib_send_bw -F -R -n 50 -p {port} {server}", (" 65536      50",), short=True),
    Meeting("write_lat_cm", "ib_write_lat -F -R -n 50 -p {port}", "ib_write_lat -F -R -n 50 -p {port} {server}", (" 2       50",)),
    Meeting("read_bw_cm", "ib_read_bw -F -R -n 50 -p {port}", "ib_read_bw -F -R -n 50 -p {port} {server}", (" 65536      50",)),
    # Of rping and perftest, the data of one connection; of ucmatose, many requests, replies and disconnects. rping and
    # perftest destroy their Ids right after disconnecting, and the kernel's manager then retransmits nothing for them:
    # the peer would wait for ever.
    Meeting("rping_loss", "rping -s -a {server} -p {port} -C 30 -v -V", "rping -c -a {server} -p {port} -C 30 -v -V", _pings(30),
            loss_permille=30, lost=NOT_OF_QP1, not_linted=_REUSES_BUFFERS, timeout_s=90),
    Meeting("ucmatose_loss", "ucmatose -p {port} -c 40 -C 5", "ucmatose -s {server} -p {port} -c 40 -C 5",
            ("data transfers complete", "return status 0"), ("return status 0",), loss_permille=40, timeout_s=120),
    # A lost datagram of udaddy is not sent again, so only the manager's requests, which ask for the queue pair, are
    # lost. Their answers are not: rxe's manager forgets a request that it has answered, and a repeated one counts as
    # one more client for udaddy.
    Meeting("udaddy_loss_of_mads", "udaddy -c 30 -C 2", "udaddy -s {server} -c 30 -C 2",
            ("data transfers complete", "return status 0"), ("return status 0",), loss_permille=250, lost=OF_QP1, lost_ways="to_server",
            timeout_s=120),
    Meeting("rstream_loss", "rstream -p {port} -S 16000 -I 20 -C 10", "rstream -s {server} -p {port} -S 16000 -I 20 -C 10",
            _RSTREAM_16K, _RSTREAM_16K, loss_permille=20, timeout_s=90),
    Meeting("rstream_ipv6", "rstream -b {server} -p {port} -f ip -S 1000 -I 20",
            "rstream -s {server} -p {port} -f ip -S 1000 -I 20", _RSTREAM, _RSTREAM, family="ipv6"),
    Meeting("send_bw_cm_loss", "ib_send_bw -F -R -n 60 -s 16384 -m 1024 -p {port}",
            "ib_send_bw -F -R -n 60 -s 16384 -m 1024 -p {port} {server}", (" 16384      60",), loss_permille=60,
            lost=NOT_OF_QP1, not_linted=_REUSES_BUFFERS, timeout_s=90),
    Meeting("write_bw_cm_qp4", "ib_write_bw -F -R -q 4 -n 20 -p {port}", "ib_write_bw -F -R -q 4 -n 20 -p {port} {server}",
            (" 65536      80",)),
    Meeting("atomic_bw_cm", "ib_atomic_bw -F -R -n 50 -p {port}", "ib_atomic_bw -F -R -n 50 -p {port} {server}", (" 8          50",)),
    Meeting("send_lat_cm_ud", "ib_send_lat -F -R -c UD -n 50 -p {port}", "ib_send_lat -F -R -c UD -n 50 -p {port} {server}", (" 2       50",)),
)

_THEIRS = {"ipv4": lab.GUEST_IPV4, "ipv6": lab.GUEST_IPV6}
_OURS = {"ipv4": lab.OUR_IPV4, "ipv6": lab.OUR_IPV6}


def _listens_in_guest(bench, program):
    """The kernel lists listeners."""
    command = program.split()[0]
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while time.monotonic() < deadline:
        if any("state LISTEN" in line and f"comm {command} " in line
               for line in bench.guest.run("rdma resource show cm_id").splitlines()):
            return True
        time.sleep(0.1)
    return False


def _start(meeting, we_are, attempt):
    """(server, client); the server already takes requests when the client starts."""
    address = (_OURS if we_are == "server" else _THEIRS)[meeting.family]
    server_words, client_words = (words.format(server=address, port=attempt.port)
                                  for words in (meeting.server, meeting.client))
    if we_are == "server":
        server = attempt.start_ours("server (uroce)", server_words.split())
        deadline = time.monotonic() + LISTEN_TIMEOUT_S
        while LISTENING not in attempt.logged():
            if time.monotonic() > deadline or server.wait(0.05):
                raise Failure("our server did not get as far as listening")
        return server, attempt.start_theirs("client (rxe)", client_words.split())
    server = attempt.start_theirs("server (rxe)", server_words.split())
    if not _listens_in_guest(attempt.bench, server_words):
        raise Failure("the server in the guest did not get as far as listening")
    return server, attempt.start_ours("client (uroce)", client_words.split())


def _wait(meeting, attempt, server, client):
    if not meeting.endless:
        return wait_for_both(attempt, meeting.timeout_s)
    if not client.wait(meeting.timeout_s):
        raise Failure(f"the {client.name} still runs after {meeting.timeout_s} s")
    if server.wait(0):
        raise Failure(f"the {server.name} ended by itself with {server.exit_code}")


def _judge(meeting, server, client):
    ends = (client,) if meeting.endless else (server, client)
    problems = [f"{end.name}: exit code {end.exit_code}" for end in ends if end.exit_code != 0]
    problems += [f"{end.name}: {text}" for end in ends for text in trouble(end.output())]
    for end, says in ((client, meeting.says), (server, meeting.server_says)):
        text = end.output()
        problems += [f'the {end.name} did not say "{line}"' for line in says if line not in text]
    return problems


def _meet(meeting, we_are):
    def body(bench, name):
        with attempt_on(bench, name, logs=True) as attempt, contextlib.ExitStack() as stack:
            some = LOSS.format(lost=meeting.lost, permille=meeting.loss_permille) if meeting.loss_permille else ""
            ways = [some if meeting.lost_ways == "both" or way == we_are else "" for way in ("client", "server")]
            loss = stack.enter_context(Loss(bench.guest, *ways)) if some else None
            slow = stack.enter_context(SlowRequests(bench.guest)) if we_are == "server" and meeting.asks_at_once else None
            server, client = _start(meeting, we_are, attempt)
            _wait(meeting, attempt, server, client)
            problems = _judge(meeting, server, client) + lint(bench, attempt.capture, meeting.not_linted)
            if loss is not None and not all(loss.dropped().values()):
                problems.append("no packet was lost in one of the directions")
            if slow is not None and slow.delayed() < 2:
                problems.append("the client's two requests did not go the slow way")
            if problems:
                raise Failure("; ".join(problems))

    return body


SCENARIOS = tuple(Scenario(f"{meeting.name}.{we_are}", _meet(meeting, we_are), short=meeting.short)
                  for we_are in ("client", "server") for meeting in _MEETINGS)
