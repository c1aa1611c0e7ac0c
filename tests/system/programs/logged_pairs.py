"""A pair of programs that ends well, and what their logs count."""

import re

from outputs import trouble
from session import Failure

LOGGED = {"UROCE_LOG": "info"}  # the last lines of the log contain the counters


def run_logged_pair(session, words, options=((), ()), timeout_s=40):
    """(server, client), both ended well."""
    server, client = session.start_pair(words, options, LOGGED)
    for child in (client, server):
        session.expect_exit(child, timeout_s)
        problems = trouble(child.output())
        if child.exit_code != 0 or problems:
            raise Failure(f"the {child.name}: exit {child.exit_code} {'; '.join(problems)}")
    return server, client


def counters_of(text):
    """The sum of each counter over the programs with logs in `text`."""
    sums = {}
    for line in re.findall(r"uroce: counted: (.*)", text):
        for name, value in re.findall(r"(\w+) (\d+)", line):
            sums[name] = sums.get(name, 0) + int(value)
    return sums


def printed_by(child):
    """The program's own output. Its last line and the log's may be joined."""
    return re.sub(r"uroce: .*\n", "\n", child.output())


def expect_counted(counters, *names):
    missing = [name for name in names if counters.get(name, 0) == 0]
    if missing:
        raise Failure(f"{', '.join(missing)} did not happen: {counters}")
