"""Multicast with rxe (mckey): an end that joined a group gets what the other end sends to it. The kernel's manager joins at one end, ours
at the other. And what rxe refuses, so that nothing of it can be run between us."""

import time

import lab
from outputs import trouble
from reboots import Scenario
from run_row import Failure, attempt_on, lint, wait_for_both

JOIN_TIMEOUT_S = 20
GROUP = "239.1.2.3"
GROUP_MAC = "01005e010203"  # what the receiver's interface must listen to, as /proc/net/dev_mcast shows it
SAYS = ("joined dgid: ::ffff:239.1.2.3", "data transfers complete", "return status 0")


def _wait_until(is_so, what):
    deadline = time.monotonic() + JOIN_TIMEOUT_S
    while not is_so():
        if time.monotonic() > deadline:
            raise Failure(what)
        time.sleep(0.05)


def _words(own, *role):
    return ["mckey", "-m", GROUP, "-b", own, "-C", "10", *role]


def _receive(attempt):
    """The guest sends, we receive."""
    ours = attempt.start_ours("receiver (uroce)", ["stdbuf", "-oL", *_words(lab.OUR_IPV4)])
    _wait_until(lambda: "receiving data transfers" in ours.output(), "our receiver did not join")
    return ours, attempt.start_theirs("sender (rxe)", _words(lab.GUEST_IPV4, "-s"))


def _send(attempt):
    """We send, the guest receives. Output of a program in the guest arrives only after its end, so its interface shows
    that it has joined."""
    theirs = attempt.start_theirs("receiver (rxe)", _words(lab.GUEST_IPV4))
    _wait_until(lambda: GROUP_MAC in attempt.bench.guest.run("cat /proc/net/dev_mcast"), "the receiver in the guest did not join")
    return attempt.start_ours("sender (uroce)", _words(lab.OUR_IPV4, "-s")), theirs


def _meet(start):
    def body(bench, name):
        with attempt_on(bench, name, logs=True) as attempt:
            ends = start(attempt)
            wait_for_both(attempt, 40)
            problems = [f"{end.name}: exit code {end.exit_code}" for end in ends if end.exit_code != 0]
            problems += [f"{end.name}: {text}" for end in ends for text in trouble(end.output())]
            problems += [f'the {end.name} did not say "{line}"' for end in ends for line in SAYS if line not in end.output()]
            if problems := problems + lint(bench, attempt.capture):
                raise Failure("; ".join(problems))

    return body


def _refused(command, *says):
    """Alone in the guest: doc/interop.md says that rxe cannot do this."""
    def body(bench, name):
        program = bench.guest.start_program(name, command)
        ended = program.wait(20)
        program.stop()
        if not ended:
            raise Failure(f"'{command}' did not end")
        if program.exit_code == 0:
            raise Failure(f"rxe can do this: '{command}' ended with {program.exit_code}")
        if missing := [text for text in says if text not in program.output()]:
            raise Failure(f"'{command}' did not say {missing[0]!r}, but {program.output()!r}")

    return body


SCENARIOS = (
    Scenario("mckey.receiver", _meet(_receive)),
    Scenario("mckey.sender", _meet(_send)),
    Scenario("rxe_has_no_xrc", _refused("ibv_xsrq_pingpong -g 1", "Couldn't Open the XRC Domain 95")),
    Scenario("rxe_joins_no_ipv6_group", _refused(f"mckey -m ff0e::77:5 -b {lab.GUEST_IPV6}", "mckey: failure joining: Unknown error 524")),
)
