"""`uroce-ping` between uroce and rxe: it is a plain verbs program, so that it runs at either end."""

import time

import lab
from reboots import Scenario
from run_row import Failure, attempt_on, lint

LISTEN_TIMEOUT_S = 20
PING_TIMEOUT_S = 60
PING = ("-c", "3", "-W", "10")
WELL = ("3 sent, 3 answered; round trip ", "packets of all lengths get through, to MTU 4096", "DSCP 26 arrives as 26; ECT arrives")


def _wait_for_server(server):
    deadline = time.monotonic() + LISTEN_TIMEOUT_S
    while "serving pings" not in server.output():
        if time.monotonic() > deadline or server.wait(0.05):
            raise Failure(f"the {server.name} did not get as far as serving")


def _judge(bench, attempt, client, says):
    if not client.wait(PING_TIMEOUT_S):
        raise Failure(f"the {client.name} still runs after {PING_TIMEOUT_S} s")
    problems = [f"exit code {client.exit_code}"] if client.exit_code != 0 else []
    problems += [f'the {client.name} did not say "{text}"' for text in says if text not in client.output()]
    problems += lint(bench, attempt.capture)
    if problems:
        raise Failure("; ".join(problems))


def _asks(bench, name):
    """A host with nothing but rxe answers; and so does one where pings are served."""
    program = bench.programs["uroce-ping"]
    for address in (lab.GUEST_IPV4, lab.GUEST_IPV6):
        with attempt_on(bench, f"{name}.alone") as attempt:
            client = attempt.start_ours("client (uroce)", [program, *PING, address])
            _judge(bench, attempt, client, ("3 sent, 3 answered", "RoCE gets through, both ways"))
        with attempt_on(bench, f"{name}.served") as attempt:
            _wait_for_server(attempt.start_theirs("server (rxe)", ["uroce-ping", "--serve"]))
            client = attempt.start_ours("client (uroce)", [program, *PING, address])
            _judge(bench, attempt, client, WELL)


def _is_asked(bench, name):
    program = bench.programs["uroce-ping"]
    for address in (lab.OUR_IPV4, lab.OUR_IPV6):
        with attempt_on(bench, name) as attempt:
            _wait_for_server(attempt.start_ours("server (uroce)", [program, "--serve"]))
            client = attempt.start_theirs("client (rxe)", ["uroce-ping", *PING, address])
            _judge(bench, attempt, client, WELL)


SCENARIOS = (Scenario("ping_asks", _asks, short=True), Scenario("ping_is_asked", _is_asked, short=True))
