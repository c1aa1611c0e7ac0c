#!/usr/bin/env python3
"""What the way through uroce-switch costs beside the direct shared memory wire: a table.

    measure.py --uroce PATH --switch PATH [--rounds N]

Three busy programs want three processors: on fewer, what is measured is also how they take turns.
"""

import argparse
import re
import statistics
import sys

sys.dont_write_bytecode = True

from lab import Lab, Tools, bandwidth_mib  # noqa: E402

LATENCY = re.compile(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+) ", re.MULTILINE)


def gigabits(text):
    return bandwidth_mib(text) * 2**20 * 8 / 1e9


def mega_packets(bytes_of_message):
    return lambda text: bandwidth_mib(text) * 2**20 / min(bytes_of_message, 4096) / 1e6


def typical_us(text):
    return float(LATENCY.search(text)[1])


ROWS = (
    ("ib_write_bw, 64 KB, Gbit/s", ("ib_write_bw", "-n", "20000"), gigabits),
    ("the same, M packets/s", ("ib_write_bw", "-n", "20000"), mega_packets(65536)),
    ("ib_write_bw, 64 B, M packets/s", ("ib_write_bw", "-s", "64", "-n", "300000"), mega_packets(64)),
    ("ib_send_lat, 2 B, us", ("ib_send_lat", "-n", "20000"), typical_us),
)


class DirectWire(Lab):
    """The same programs without a switch between them."""

    def start_switch(self):
        pass

    def start(self, name, command, environment=None, run_options=()):
        line = [self.tools.uroce, "run", *run_options, "--", *command]
        return self.children.start(name, line, {**self.environment, **(environment or {})})


def measure(kind, tools, command, read, *options):
    with kind(tools, *options) as lab:
        return read(lab.finish(lab.start_pair(*command), 300))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uroce", default="uroce")
    parser.add_argument("--switch", default="uroce-switch")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    tools = Tools(arguments.uroce, arguments.switch)
    print("| | direct | through the switch |\n|---|---|---|")
    for what, command, read in ROWS:
        direct = [measure(DirectWire, tools, command, read) for _ in range(arguments.rounds)]
        switched = [measure(Lab, tools, command, read, "--ports", "2") for _ in range(arguments.rounds)]
        print(f"| {what} | {statistics.median(direct):.3g} | {statistics.median(switched):.3g} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
