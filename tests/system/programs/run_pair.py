#!/usr/bin/env python3
"""Runs unmodified RDMA programs over uroce, one test per call.

    run_pair.py --list                    name, suite, timeout and company of every test
    run_pair.py --uroce PATH NAME...      runs these tests; exit 0 passed, 1 failed, 77 skipped
    run_pair.py --uroce PATH --like TEXT  runs every test whose name contains TEXT, and says how each went
"""

import argparse
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.dont_write_bytecode = True

import bad_cables
import checkouts
import client_programs
import cm_programs
import demo
import device_suite
import direct_copies
import everyday
import faults
import hardships
import measures
import message_stacks
import network
import pings
import places
import raw_programs
import segments
import singles
import sockets
import stacks
import storage
import uplinks
import verbs_suite
import wires
import xrc_programs
from cases import all_cases, check_result
from children import free_tcp_port, wait_for_listener
from outputs import clock_was_lost, trouble
from session import Failure, session_on
from wires import SKIP, Skip

START_TIMEOUT_S = 20


def run_refused(case, session):
    """The program itself must refuse: no hang, no crash, and the reason in its last lines."""
    child = session.start("program", 0, [case.program, *case.options], dict(case.environment))
    session.expect_exit(child, case.timeout_s)
    if child.exit_code == 0:
        raise Failure("it exited 0 although it had to refuse")
    if case.refused not in child.output():
        raise Failure(f'it did not say "{case.refused}"')


def run_options(case, side):
    address = case.address or ("10.79.0.{host}/24" if case.wire.endswith("tap") else "")
    return ["--addr", address.format(host=side + 1)] if address else []


def start_pair(case, session):
    """(server, client), both ended."""
    port = str(free_tcp_port())
    options = [*case.options, "-p", port]
    environment = dict(case.environment)
    deadline = time.monotonic() + case.timeout_s
    server = session.start("server", 0, [case.program, *options], environment, run_options(case, 0))
    session.wire.attach(0, server)
    if not wait_for_listener(server, int(port), START_TIMEOUT_S):
        raise Failure("the server did not get as far as listening")
    client = session.start("client", 1, [case.program, *options, session.wire.tcp_address(0)], environment,
                           run_options(case, 1))
    session.wire.attach(1, client)
    for child in (client, server):
        session.expect_exit(child, max(1.0, deadline - time.monotonic()))
    return server, client


def run_pair(case, session):
    server, client = start_pair(case, session)
    if any(clock_was_lost(child.output()) for child in (server, client)):
        print("repeated: perftest could not measure the CPU's clock", flush=True)
        server, client = start_pair(case, session)
    problems = [f"{child.name}: exit code {child.exit_code}" for child in (server, client) if child.exit_code != 0]
    problems += [f"{child.name}: {text}" for child in (server, client) for text in trouble(child.output())]
    problems += check_result(case, client.output())
    if problems:
        raise Failure("; ".join(problems))


def drivers(uroce):
    """The DPDK drivers that are linked in, as `uroce doctor` lists them."""
    output = subprocess.run([uroce, "doctor"], capture_output=True, text=True, check=False).stdout
    return " ".join(line for line in output.splitlines() if " drivers " in line).split()


def run_case(case, uroce):
    if shutil.which(case.program) is None:
        raise Skip(f"{case.program} is not installed")
    if case.wire == "xdp" and "af_xdp" not in drivers(uroce):
        raise Skip("this build has no net_af_xdp")
    if case.wire.startswith("card") and "mqnic" not in drivers(uroce):
        raise Skip("this build has no net_mqnic")
    with session_on(uroce, case.wire, case.needs) as session:
        (run_refused if case.refused else run_pair)(case, session)


def all_tests():
    """name -> (suite, timeout in seconds, "beside" others or "alone", function of the launcher's path)."""
    tests = {}
    for case in (*all_cases(), *uplinks.cases(), *sockets.cases(), *network.cases(), *xrc_programs.cases()):
        # Two pairs at a time wait for different things; but a test that reserves hugepages takes them from others.
        suite = everyday.suite_of(case.name, case.suite, case.wire)
        company = "alone" if case.needs or case.hogs else "beside"
        tests[case.name] = (suite, case.timeout_s, company, lambda uroce, case=case: run_case(case, uroce))
    for scenario in (*singles.SCENARIOS, *measures.SCENARIOS, *stacks.SCENARIOS, *faults.SCENARIOS, *segments.SCENARIOS,
                     *bad_cables.SCENARIOS, *client_programs.SCENARIOS, *cm_programs.SCENARIOS, *hardships.SCENARIOS,
                     *uplinks.SCENARIOS, *xrc_programs.SCENARIOS, *message_stacks.SCENARIOS, *storage.SCENARIOS,
                     *checkouts.SCENARIOS, *device_suite.SCENARIOS, *verbs_suite.SCENARIOS, *raw_programs.SCENARIOS,
                     *places.SCENARIOS, *sockets.SCENARIOS, *network.SCENARIOS, *pings.SCENARIOS, *demo.SCENARIOS, *direct_copies.SCENARIOS):
        suite = everyday.suite_of(scenario.name, scenario.suite, scenario.wire)
        tests[scenario.name] = (suite, scenario.timeout_s, scenario.company,
                                lambda uroce, scenario=scenario: scenario.run(uroce))
    return tests


def run_one(name, test, uroce):
    started = time.monotonic()
    try:
        test[3](uroce)
        code, text = 0, "passed"
    except Skip as skip:
        print(f"skipped: {skip} ({name})", flush=True)  # in the form in which the totals of ./check show it
        return SKIP
    except Failure as failure:
        code, text = 1, f"FAILED: {failure}"
    print(f"{name}: {text} ({time.monotonic() - started:.1f} s)", flush=True)
    return code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--uroce", type=pathlib.Path, default=os.environ.get("UROCE_BIN", "uroce"))
    parser.add_argument("--like")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    tests = all_tests()
    wires.build_directory = pathlib.Path(arguments.uroce).resolve().parent.parent
    if arguments.list:
        for name, (suite, timeout_s, company, _) in tests.items():
            print(f"{name} {suite} {timeout_s} {company}")
        return 0
    names = arguments.names or [name for name in tests if arguments.like is not None and arguments.like in name]
    unknown = [name for name in names if name not in tests]
    if unknown or not names:
        print(f"no such test: {' '.join(unknown) or '(none named)'}; see --list", file=sys.stderr)
        return 2
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's "&" ignores it, and children inherit that
    codes = [run_one(name, tests[name], arguments.uroce) for name in names]
    if len(codes) > 1:
        print(f"{codes.count(0)} passed, {len(codes) - codes.count(0) - codes.count(SKIP)} failed, "
              f"{codes.count(SKIP)} skipped")
    failed = [code for code in codes if code not in (0, SKIP)]
    return 1 if failed else (SKIP if all(code == SKIP for code in codes) else 0)


if __name__ == "__main__":
    sys.exit(main())
