"""google/rdma-unit-test from a checkout, with no list of deviations: every case of its unit tests but those that are named here, and
its random walk of verbs. build_checkouts.sh builds it, rdma_unit_test/ makes uroce known to it. Without it these tests are skipped."""

import fnmatch
import functools
import re

from checkouts import built
from cm_programs import LOUD, options_of
from session import Failure, Scenario

# Cases where we deviate from the suite's expectations, by patterns; a pattern that matches no failure is reported, too.
# Reasons: doc/programs.md.
DIFFERENT = {
    "LoopbackUdQpTest.SendLargerThanMtu": "a post that cannot be done succeeds",
    "LoopbackUdQpTest.Read": "a post that cannot be done succeeds",
    "LoopbackUdQpTest.Write": "the same",
    "LoopbackUdQpTest.FetchAdd": "the same",
    "LoopbackUdQpTest.CompareSwap": "the same",
    "CompChannelTest.RequestNotificationOnCqWithoutCompChannel": "arming is refused",
    "QpStateTest.PostSendReset": "a post that cannot be done succeeds",
    "QpStateTest.PostSendInit": "the same",
    "QpStateTest.PostSendRtr": "the same",
    "QpStateTest.PostRecvReset": "the same",
    "LoopbackRcQpTest.FetchAddInvalidSize": "a post that cannot be done succeeds",
    "LoopbackRcQpTest.CompareSwapInvalidSize": "the same",
}
# They would wait for ever: for more queue pairs than the device has, or for a peer in error without a timeout.
LEFT_OUT = "-*MultiThreadedMultiSrq:MwType2AdvancedTest.Rebind"
# A peer that never answers: six waits, of one second, two and then four each. The suite gives a completion two seconds, and more when it
# is told so. The cases run side by side.
SLOW = "*RcSendToUd:QpStateTest.PostRecvInit:*ResponderQpStateTest*:*RemoteRcQpStateTest*"
SLOW_PROGRAMS = ("qp", "rc", "ud")
SLOW_PASSED = 26
PATIENCE = "--completion_wait_multiplier=15"
SHARDS = 8
PASSED_MIN = 400
PROGRAMS = ("access", "ah", "async_event", "buffer", "comp_channel", "cq_ex", "cq", "device", "mr", "mw", "pd", "qp", "rc", "srq", "stress", "ud")


def run_program(session, program, family, options, deadline_s):
    """Numbers of cases that ran, failed and were skipped."""
    child = session.start(program.name, 0, [program, *family, f"--gtest_filter={LEFT_OUT}:{SLOW}"], LOUD, options)
    session.wait_for_end(child, deadline_s)
    text = child.output()
    total = re.search(r"^\[==========\] (\d+) tests? from .* ran\.", text, re.MULTILINE)
    if child.crashed() or not total:
        raise Failure(f"{program.name} did not get to its end (exit {child.exit_code})")
    failed = set(re.findall(r"^\[  FAILED  \] ([\w./]+)(?:, where .*)? \(\d+ ms\)$", text, re.MULTILINE))
    skipped = len(re.findall(r"^\[  SKIPPED \] [\w./]+(?:, where .*)? \(\d+ ms\)$", text, re.MULTILINE))
    return int(total[1]), failed, skipped


def unit_tests(wire, family, session):
    programs = [built("rdma-unit-test", f"out/unit/{name}_test") / f"out/unit/{name}_test" for name in PROGRAMS]
    ran, failed, skipped = 0, set(), 0
    for program in programs:
        more, bad, passed_over = run_program(session, program, family, () if wire.startswith("uplink") else options_of(wire, 0), 200)
        ran, failed, skipped = ran + more, failed | bad, skipped + passed_over
    unknown = sorted(name for name in failed if not any(fnmatch.fnmatch(name, pattern) for pattern in DIFFERENT))
    better = sorted(pattern for pattern in DIFFERENT if not fnmatch.filter(failed, pattern))
    if unknown or better:
        raise Failure(f"failed: {unknown}; passed unexpectedly: {better}")
    if ran - len(failed) - skipped < PASSED_MIN:
        raise Failure(f"only {ran - len(failed) - skipped} passed")


def slow_cases(session):
    programs = [built("rdma-unit-test", f"out/unit/{name}_test") / f"out/unit/{name}_test" for name in SLOW_PROGRAMS]
    children = []
    for program in programs:
        for shard in range(SHARDS):
            environment = {**LOUD, "GTEST_TOTAL_SHARDS": str(SHARDS), "GTEST_SHARD_INDEX": str(shard)}
            words = [program, "--ipv4_only", PATIENCE, f"--gtest_filter={SLOW}"]
            children.append(session.start(f"{program.name} {shard}", 0, words, environment))
    for child in children:
        session.expect_exit(child, 240)
        if child.exit_code != 0:
            raise Failure(f"{child.name} ended with {child.exit_code}")
    passed = sum(len(re.findall(r"^\[       OK \] ", child.output(), re.MULTILINE)) for child in children)
    if passed != SLOW_PASSED:
        raise Failure(f"{passed} passed, and not {SLOW_PASSED}")


def random_walk(session, nodes):
    """This many nodes, each with a device of its own, act at random for a while; the test ends by itself, or hangs."""
    program = built("rdma-unit-test", "out/random_walk/run_random_walk") / "out/random_walk/run_random_walk"
    child = session.start("random walk", 0, [program, "--ipv4_only", f"--clients={nodes}", "--duration=60"], LOUD)
    session.expect_exit(child, 120)
    if child.exit_code != 0:
        raise Failure(f"the random walk ended with {child.exit_code}")


# The suite's default is the device's first IPv6 address.
UNIT_TESTS = (("", "segment", ("--ipv4_only",)), ("_ipv6", "segment", ()), ("_uplink", "uplink_half", ("--ipv4_only",)),
              ("_card", "card", ("--ipv4_only",)))
SCENARIOS = [*(Scenario(f"rdma_unit_test{title}", functools.partial(unit_tests, wire, family), wire, "long", timeout_s=900)
               for title, wire, family in UNIT_TESTS),
             Scenario("rdma_unit_test_retries", slow_cases, suite="long", timeout_s=300),
             Scenario("rdma_unit_test_random_walk", functools.partial(random_walk, nodes=4), suite="long", timeout_s=150)]
