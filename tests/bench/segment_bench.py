#!/usr/bin/env python3
"""The segment beside what programs on one machine would use instead, in one run: figure, yardstick, ratio, aim, met or not.

    tests/bench/segment_bench.py [--build build] [--rounds 3] [--seconds 2] [--markdown FILE] [--only WORD]

Needs scripts/install-deps.sh bench, and two cores. Contestants take turns, so that a noisy machine is noisy for all of them; each
number is the median of the rounds, least and most in brackets, and each ratio the median of the rounds' ratios. Servers run on the
first core and clients on the last; pairs in numbers run where the kernel puts them. Exit code 1: something could not be measured.
"""

import argparse
import datetime
import pathlib
import shutil
import statistics
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system" / "programs"))

import peers
import segment_peers as contestants
from bench import PATIENCE_S, machine, wait_until_idle
from children import Children
from wires import Skip


class Figure:
    """One comparison. `aim` is a ratio to the yardstick or, without one, an absolute figure; `more`: larger is
    better."""

    def __init__(self, what, unit, ours, yardstick=None, against="", aim=None, more=False):
        self.what, self.unit, self.ours, self.yardstick = what, unit, ours, yardstick
        self.against, self.aim, self.more = against, aim, more
        self.our_numbers, self.yard_numbers, self.ratios = [], [], []
        self.note, self.disturbed = "", 0

    def _one(self, contestant, setting, patience_s):
        if not wait_until_idle(patience_s):
            self.disturbed += 1
        with Children() as children:
            return contestant(setting, children)

    def measure(self, setting, patience_s):
        try:
            self.our_numbers.append(self._one(self.ours, setting, patience_s))
            if self.yardstick:
                self.yard_numbers.append(self._one(self.yardstick, setting, patience_s))
                self.ratios.append(self.our_numbers[-1] / self.yard_numbers[-1])
        except (Skip, peers.NoResult) as error:
            self.note = str(error).replace("\n", " ")[:100]

    def judged(self):
        """What the aim is compared with; None when there is nothing to compare with."""
        found = self.ratios if self.yardstick else self.our_numbers
        return statistics.median(found) if found else None

    def met(self):
        if self.aim is None or self.judged() is None:
            return ""
        return "yes" if (self.judged() >= self.aim if self.more else self.judged() <= self.aim) else "**no**"

    def _show(self, numbers):
        spread = f" ({min(numbers):.3g}..{max(numbers):.3g})" if len(numbers) > 1 else ""
        return f"{statistics.median(numbers):.3g} {self.unit}{spread}"

    def line(self):
        if not self.our_numbers:
            return f"| {self.what} | – | {self.against or '–'} | – | – | – | {self.note} |"
        yard = f"{self.against} {self._show(self.yard_numbers)}" if self.yard_numbers else self.against or "–"
        ratio = f"{self.judged():.2f}" if self.ratios else "–"
        aim = "" if self.aim is None else f"{'>=' if self.more else '<='} {self.aim:.3g}{'' if self.yardstick else ' ' + self.unit}"
        note = self.note or (f"other work ran in {self.disturbed} measurements" if self.disturbed else "")
        return f"| {self.what} | {self._show(self.our_numbers)} | {yard} | {ratio} | {aim} | {self.met()} | {note} |"


def figures():
    write_bw, write_lat, send_lat = (contestants.write_bandwidth, contestants.latency("ib_write_lat"), contestants.latency("ib_send_lat"))
    segment, memif = contestants.on_segment, contestants.on_memif
    start_on_segment = contestants.start_time(lambda _path: "shmlan:bench-start")
    start_on_memif = contestants.start_time(lambda path: contestants.memif_port(0, path), "--addr", "198.18.0.1/24")
    rows = [
        Figure("`ib_write_bw` 64 KiB", "Gbit/s", segment(write_bw), memif(write_bw), "memif", 2, more=True),
        Figure("`ib_write_bw` 64 KiB", "Gbit/s", segment(write_bw), contestants.copy_ring, "copy ring", 0.8, more=True),
        Figure("`ib_write_bw` 64 KiB", "Gbit/s", segment(write_bw), contestants.ucx_bandwidth, "UCX `tag_bw` over posix", None, more=True),
        Figure("`ib_write_bw` 64 KiB over two inline cards", "Gbit/s", contestants.on_cards(write_bw), segment(write_bw), "segment", 0.5,
               more=True),
        Figure("`ib_write_lat` 8 B, half round trip", "us", segment(write_lat), memif(write_lat), "memif", 1 / 3),
        Figure("`ib_write_lat` 8 B, half round trip", "us", segment(write_lat), contestants.one_way, "core to core, one way", 2.5),
        Figure("`ib_send_lat` 8 B, half round trip", "us", segment(send_lat), memif(send_lat), "memif", 1 / 3),
        Figure("`ib_send_lat` 8 B, half round trip", "us", segment(send_lat), contestants.ucx_latency, "UCX `tag_lat` over posix"),
        Figure("`ib_send_lat -c UC` 8 B, nobody acknowledges", "us", segment(contestants.latency("ib_send_lat", "-c", "UC")),
               segment(send_lat), "the same with RC"),
        Figure("`ib_send_bw` 64 B", "M/s", segment(contestants.message_rate), memif(contestants.message_rate), "memif", None, more=True),
        Figure("wake-up: `ib_send_lat -e` 8 B, half round trip", "us", segment(contestants.wake), None, "", 15),
        Figure("the same", "us", segment(contestants.wake), contestants.eventfd_wake, "eventfd between two processes"),
        Figure("CPU of a program that waits for an event, with a connected queue pair", "%", contestants.idle, None, "", 0.5),
        Figure("`ibv_poll_cq` that finds nothing, median", "ns", contestants.verbs_call("empty ibv_poll_cq"), None, "", 20),
        Figure("`ibv_create_qp`, 1024 slots, fresh, median", "ns", contestants.verbs_call("ibv_create_qp, 1024 slots, 100 held"), None,
               "", 10_000),
        Figure("`uroce run -- ibv_devinfo` more than `ibv_devinfo`", "ms", start_on_segment, None, "", 60),
        Figure("the same", "ms", start_on_segment, start_on_memif, "memif"),
    ]
    uplink, direct = (lambda measure, wire=wire: contestants.on_made_wire(measure, wire)
                      for wire in (contestants.UplinkWire, contestants.VethWire))
    rows += [
        Figure("veth through two `uroced`: `ib_write_bw` 64 KiB", "Gbit/s", uplink(write_bw), direct(write_bw), "direct", None, more=True),
        Figure("veth through two `uroced`: `ib_send_lat` 8 B, half round trip", "us", uplink(send_lat), direct(send_lat), "direct"),
    ]
    for count in (2, 4, 8, 16, 32, 64):
        rows.append(Figure(f"{count} pairs of `ib_write_bw` 64 KiB at once, together", "Gbit/s", contestants.pairs(count),
                           contestants.pairs(1), "one pair", None, more=True))
    return rows


def report(setting, finished):
    command = "tests/bench/segment_bench.py " + " ".join(sys.argv[1:])
    return "\n".join([
        f"Measured {datetime.date.today()} on {machine()}, with `{command.strip()}`: median of {setting.rounds} rounds, least and most "
        "in brackets.", "",
        "| figure | segment | yardstick | ratio | aim | met | note |", "|---|---|---|---|---|---|---|",
        *(figure.line() for figure in finished), ""])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--patience", type=float, default=PATIENCE_S, help="seconds to wait for a quiet machine before each measurement")
    parser.add_argument("--markdown", type=pathlib.Path, help="write the table there as well")
    parser.add_argument("--only", default="", help="only the figures whose line contains this")
    arguments = parser.parse_args()
    for program in ("apps/uroce", "tests/bench/core_yardsticks", "tests/bench/verbs_bench"):
        if not (arguments.build / program).is_file():
            print(f"{arguments.build / program} is not there: build first (ninja -C {arguments.build})", file=sys.stderr)
            return 1
    if shutil.which("ib_write_bw") is None:
        print("perftest is missing: scripts/install-deps.sh bench", file=sys.stderr)
        return 1
    setting = peers.Setting((arguments.build / "apps" / "uroce").resolve(), arguments.rounds, arguments.seconds)
    chosen = [figure for figure in figures() if arguments.only in figure.what + figure.against]
    for number in range(arguments.rounds):
        for figure in chosen:
            print(f"round {number + 1} of {arguments.rounds}: {figure.what} {figure.against}", file=sys.stderr, flush=True)
            figure.measure(setting, arguments.patience)
    text = report(setting, chosen)
    print(text)
    if arguments.markdown:
        arguments.markdown.write_text(text)
    return 0 if all(figure.judged() is not None for figure in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
