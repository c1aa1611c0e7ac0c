#!/usr/bin/env python3
"""Measures uroce against its peers on this machine, in one run, and prints ratios as a Markdown table.

    tests/bench/bench.py [--build build] [--rounds 3] [--seconds 2] [--markdown FILE] [--only WORD]

Needs root (network namespaces for the iperf3 peer) and scripts/install-deps.sh bench. The peers take turns with uroce,
so that a noisy machine is noisy for all of them; of every number the median of the rounds is shown. Servers run on
the first core and clients on the last.
"""

import argparse
import datetime
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system" / "programs"))

import peers
from children import Children
from wires import Skip

PATIENCE_S = 20  # for a quiet machine, before each measurement


def idle_share(seconds):
    """How much of the machine's time was idle during the next `seconds`."""
    def sample():
        numbers = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        return numbers[3], sum(numbers)

    before = sample()
    time.sleep(seconds)
    after = sample()
    return (after[0] - before[0]) / max(1, after[1] - before[1])


def wait_until_idle(patience_s):
    """Waits until other work has finished. False when it has not within PATIENCE_S."""
    deadline = time.monotonic() + patience_s
    while idle_share(0.5) < 0.9:
        if time.monotonic() > deadline:
            return False
    return True


class Row:
    """One comparison: ours, the peer's, and the goal."""

    def __init__(self, what, ours, peer, unit, goal, less_is_better=False):
        self.what, self.ours, self.peer = what, ours, peer
        self.unit, self.goal, self.less_is_better = unit, goal, less_is_better
        self.our_numbers, self.peer_numbers, self.note, self.disturbed = [], [], "", 0

    def measure(self, setting):
        try:
            for contestant, numbers in ((self.ours, self.our_numbers), (self.peer, self.peer_numbers)):
                if contestant is None:
                    continue
                if not wait_until_idle(PATIENCE_S):
                    self.disturbed += 1
                    self.note = f"other work ran in {self.disturbed} measurements"
                with Children() as children:
                    numbers.append(contestant(setting, children))
        except (Skip, peers.NoResult) as error:
            self.note = str(error)

    def line(self):
        if not self.our_numbers:
            return f"| {self.what} | – | – | – | {self.goal} | {self.note} |"
        ours = statistics.median(self.our_numbers)
        spread = f"{min(self.our_numbers):.3g}..{max(self.our_numbers):.3g}"
        if not self.peer_numbers:
            return f"| {self.what} | {ours:.3g} {self.unit} ({spread}) | – | – | {self.goal} | {self.note} |"
        peer = statistics.median(self.peer_numbers)
        ratio = peer / ours if self.less_is_better else ours / peer
        return (f"| {self.what} | {ours:.3g} {self.unit} ({spread}) | {peer:.3g} {self.unit} | "
                f"**{ratio:.2f} x** | {self.goal} | {self.note} |")


def rows():
    return [
        Row("`ib_write_bw` 64 KiB against iperf3 over veth, offloads on", peers.write_bandwidth,
            peers.iperf3(offloads=True), "Gbit/s", "1.5 x"),
        Row("`ib_write_bw` 64 KiB against iperf3 over veth, offloads off", peers.write_bandwidth,
            peers.iperf3(offloads=False), "Gbit/s", ""),
        Row("`ib_write_bw` 64 KiB against testpmd over memif, same frames", peers.write_bandwidth,
            peers.testpmd, "Gbit/s", ""),
        Row("`ib_write_lat` 8 B against UCX `tag_lat` over TCP", peers.latency("ib_write_lat"),
            peers.ucx_latency, "us", "4 x", less_is_better=True),
        Row("`ib_send_lat` 8 B against UCX `tag_lat` over TCP", peers.latency("ib_send_lat"),
            peers.ucx_latency, "us", "4 x", less_is_better=True),
        Row("`ib_send_bw` 64 B", peers.message_rate, None, "M messages/s", "2 M/s"),
    ]


def machine():
    model = next((line.split(":", 1)[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}"


def crc_table(build):
    program = build / "tests" / "bench" / "crc_bench"
    if not program.is_file():
        return "(crc_bench is not built)"
    return subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=300).stdout.rstrip()


def report(setting, finished, crc):
    command = "tests/bench/bench.py " + " ".join(sys.argv[1:])
    return "\n".join([
        f"Measured {datetime.date.today()} on {machine()}, with `{command.strip()}`: median of {setting.rounds} rounds "
        f"of {setting.seconds} s, least and most in brackets.", "",
        "| what | uroce over memif | peer | ratio | goal | note |", "|---|---|---|---|---|---|",
        *(row.line() for row in finished), "", "iCRC, `tests/bench/crc_bench`:", "", "```", crc, "```", ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there as well")
    parser.add_argument("--only", default="", help="only the comparisons whose name contains this")
    arguments = parser.parse_args()
    uroce = arguments.build / "apps" / "uroce"
    if not uroce.is_file():
        print(f"{uroce} is not there: build first (ninja -C {arguments.build})", file=sys.stderr)
        return 1
    if shutil.which("ib_write_bw") is None:
        print("perftest is missing: scripts/install-deps.sh bench", file=sys.stderr)
        return 1
    setting = peers.Setting(uroce.resolve(), arguments.rounds, arguments.seconds)
    chosen = [row for row in rows() if arguments.only in row.what]
    for round_number in range(arguments.rounds):
        for row in chosen:
            print(f"round {round_number + 1} of {arguments.rounds}: {row.what}", file=sys.stderr, flush=True)
            row.measure(setting)
    text = report(setting, chosen, "" if arguments.only else crc_table(arguments.build))
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    return 0 if all(row.our_numbers for row in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
