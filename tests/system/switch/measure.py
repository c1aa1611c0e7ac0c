#!/usr/bin/env python3
"""What uroce-switch costs, what is left of a link that loses frames, and what selective repeat costs: tables.

    measure.py [cost] [loss] [recovery] [--uroce PATH --switch PATH] [--rounds N] [--seconds N]

cost      the way through the switch beside the direct shared memory wire
loss      goodput of ib_write_bw and of the kernel's TCP by share of lost frames; as root, for the namespaces
recovery  `--loss-recovery auto` beside go-back-N on a clean wire, run by run in turns

Three busy programs want three processors: on fewer, what is measured is also how they take turns.
"""

import argparse
import re
import statistics
import sys

sys.dont_write_bytecode = True

from lab import KernelHosts, Lab, Tools, bandwidth_mib  # noqa: E402

LATENCY = re.compile(r"^ *\d+ +\d+ +[\d.]+ +[\d.]+ +([\d.]+) ", re.MULTILINE)


def gigabits(text):
    return bandwidth_mib(text) * 2**20 * 8 / 1e9


def mega_packets(bytes_of_message):
    return lambda text: bandwidth_mib(text) * 2**20 / min(bytes_of_message, 4096) / 1e6


def typical_us(text):
    return float(LATENCY.search(text)[1])


class DirectWire(Lab):
    """The same programs without a switch in between."""

    def start_switch(self):
        pass

    def start(self, name, command, environment=None, run_options=(), host=None):
        line = [self.tools.uroce, "run", *run_options, "--", *command]
        return self.children.start(name, line, {**self.environment, **(environment or {})})


def measure(kind, tools, command, read, *options, run=()):
    with kind(tools, *options) as lab:
        return read(lab.finish(lab.start_pair(*command, server_run=run, client_run=run), 300))


def cost(tools, rounds, _seconds):
    rows = (
        ("ib_write_bw, 64 KB, Gbit/s", ("ib_write_bw", "-n", "20000"), gigabits),
        ("the same, M packets/s", ("ib_write_bw", "-n", "20000"), mega_packets(65536)),
        ("ib_write_bw, 64 B, M packets/s", ("ib_write_bw", "-s", "64", "-n", "300000"), mega_packets(64)),
        ("ib_send_lat, 2 B, us", ("ib_send_lat", "-n", "20000"), typical_us),
    )
    print("| | direct | through the switch |\n|---|---|---|")
    for what, command, read in rows:
        direct = [measure(DirectWire, tools, command, read) for _ in range(rounds)]
        switched = [measure(Lab, tools, command, read, "--ports", "2") for _ in range(rounds)]
        print(f"| {what} | {statistics.median(direct):.3g} | {statistics.median(switched):.3g} |", flush=True)


# The same for all three: each frame passes the fault once in each direction, and is delayed that long.
RATE, DELAY_MS, PACKET = "100M", 1, 1024


def faults(percent):
    lose = f"loss {percent}%; " if percent else ""
    return ("--rate", RATE, "--impair", f"{lose}delay all any by {DELAY_MS}ms")


def write_goodput(tools, percent, seconds, *run):
    with Lab(tools, "--ports", "2", *faults(percent)) as lab:
        pair = lab.start_pair("ib_write_bw", "-D", str(seconds), "-m", str(PACKET), server_run=run, client_run=run)
        return bandwidth_mib(lab.finish(pair, 300)) * 2**20 * 8 / 1e6


def tcp_goodput(tools, percent, seconds, algorithm):
    with KernelHosts(tools, *faults(percent)) as lab:
        return lab.tcp(seconds, "-C", algorithm, "-M", str(PACKET))["sum_received"]["bits_per_second"] / 1e6


def loss(tools, rounds, seconds):
    columns = (
        ("ib_write_bw, go-back-N", lambda percent: write_goodput(tools, percent, seconds)),
        ("ib_write_bw, `--loss-recovery auto`",
         lambda percent: write_goodput(tools, percent, seconds, "--loss-recovery", "auto")),
        ("kernel TCP, cubic", lambda percent: tcp_goodput(tools, percent, seconds, "cubic")),
        ("kernel TCP, BBR", lambda percent: tcp_goodput(tools, percent, seconds, "bbr")),
    )
    print(f"Mbit/s through {RATE}bit/s, {DELAY_MS} ms each way, {PACKET} bytes a packet\n")
    print("| loss, each way | " + " | ".join(name for name, _ in columns) + " |\n|" + "---|" * (len(columns) + 1))
    for percent in (0, 0.1, 1, 5):
        shares = [statistics.median(one(percent) for _ in range(rounds)) for _, one in columns]
        print(f"| {percent} % | " + " | ".join(f"{share:.1f}" for share in shares) + " |", flush=True)


def recovery(tools, rounds, _seconds):
    rows = (
        ("ib_write_bw, 64 B, M messages/s", ("ib_write_bw", "-s", "64", "-n", "300000"), mega_packets(64)),
        ("ib_write_bw, 4 KB, Gbit/s", ("ib_write_bw", "-s", "4096", "-n", "100000"), gigabits),
        ("ib_write_bw, 64 KB, Gbit/s", ("ib_write_bw", "-n", "10000"), gigabits),
        ("ib_send_lat, 2 B, us", ("ib_send_lat", "-n", "20000"), typical_us),
    )
    print("| | go-back-N | auto | auto / go-back-N: median of pairs (quartiles) |\n|---|---|---|---|")
    for what, command, read in rows:
        pairs = []
        for turn in range(rounds):
            one = {mode: measure(DirectWire, tools, command, read, run=("--loss-recovery", mode))
                   for mode in (("go-back-n", "auto") if turn % 2 == 0 else ("auto", "go-back-n"))}
            pairs.append((one["go-back-n"], one["auto"]))
        ratios = [auto / plain for plain, auto in pairs]
        low, middle, high = statistics.quantiles(ratios, n=4) if rounds > 1 else ratios * 3
        plain, auto = (statistics.median(values) for values in zip(*pairs))
        print(f"| {what} | {plain:.4g} | {auto:.4g} | {middle:.3f} ({low:.3f}..{high:.3f}) |", flush=True)


TABLES = {"cost": cost, "loss": loss, "recovery": recovery}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help="cost, loss, recovery; all when nothing is said")
    parser.add_argument("--uroce", default="uroce")
    parser.add_argument("--switch", default="uroce-switch")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5, help="of each run of `loss`")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.tables if name not in TABLES]
    if unknown:
        parser.error(f"no such table: {' '.join(unknown)}")
    for name in arguments.tables or TABLES:
        TABLES[name](Tools(arguments.uroce, arguments.switch), arguments.rounds, arguments.seconds)
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
