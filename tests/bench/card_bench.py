#!/usr/bin/env python3
"""The card's driver and model beside DPDK's own virtual ports, in the same run.

    card_bench.py BUILD-DIRECTORY [--seconds N] [--rounds N]

dpdk-testpmd forwards between two ports (io mode, one core); packets go round for ever. Two inline cards joined by a cable, two
net_memif ports joined by shared memory, two net_ring ports that give back what they got (no byte is moved). Packets/s, the
median of some rounds, and the ratio to each. Then `model_cycles`: the same of cards and net_memif in one process, in cycles and in
turns, for a machine that others use, too. And `pmd_cycles`: the driver alone, with a card that answers at no cost.
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system" / "testpmd"))

from harness import Bench, Testpmd

SIZES = (64, 4200)


def memif(bench, number):
    socket = f"{bench.path}/memif{number}.sock"
    common = f"id=0,socket={socket},socket-abstract=no,rsize=10,bsize=4608"
    return [f"net_memif0,role=server,{common}", f"net_memif1,role=client,{common}"]


def setups(bench, number):
    card = f"card=inline,wire=shm:{bench.wire}-{number}"
    return {"two cards": ([card, card], []), "net_memif": ([], memif(bench, number)), "net_ring": ([], ["net_ring0", "net_ring1"])}


def forwarding_rate(bench, cards, more, size, seconds):
    """Packets/s that testpmd forwards."""
    longest = ["--max-pkt-len=4218"] if cards else []  # net_memif has no MTU to set, and takes long frames anyway
    testpmd = Testpmd(bench, cards, "--mbuf-size=4736", "--total-num-mbufs=8192", "--nb-cores=1", "--burst=32", f"--txpkts={size}",
                      *longest, more=more)
    testpmd("set fwd io")
    time.sleep(0.5)  # until net_memif has connected
    testpmd("start tx_first 8")
    time.sleep(0.5)

    def forwarded():
        return sum(testpmd.stats(port)["RX-packets"] for port in (0, 1))

    begun, before = time.monotonic(), forwarded()
    time.sleep(seconds)
    rate = (forwarded() - before) / (time.monotonic() - begun)
    testpmd("stop")
    testpmd.quit()
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    bench = Bench(arguments.build / "pmd/ethdev/librte_net_mqnic.so", "")
    rates = {}
    try:
        for number in range(arguments.rounds):
            for size in SIZES:
                for name, (cards, more) in setups(bench, number).items():
                    rate = forwarding_rate(bench, cards, more, size, arguments.seconds)
                    rates.setdefault((name, size), []).append(rate)
    finally:
        bench.close()
    print(f"testpmd, io forwarding, one core of {os.cpu_count()}; median of {arguments.rounds} rounds of {arguments.seconds:g} s")
    print(f"{'':12} {'bytes':>6} {'Mpackets/s':>11} {'Gbit/s':>8} {'lowest..highest':>18} {'cards are':>10}")
    for size in SIZES:
        card = statistics.median(rates[("two cards", size)])
        for name in ("two cards", "net_memif", "net_ring"):
            values = rates[(name, size)]
            rate = statistics.median(values)
            spread = f"{min(values) / 1e6:.2f}..{max(values) / 1e6:.2f}"
            print(f"{name:12} {size:6} {rate / 1e6:11.2f} {rate * size * 8 / 1e9:8.1f} {spread:>18} {card / rate:9.2f}x")
    for program, what in (("model_cycles", "Driver and model in one process"), ("pmd_cycles", "The driver alone")):
        cycles = arguments.build / "tests/bench" / program
        if cycles.exists():
            print(f"\n{what}:", flush=True)
            subprocess.run([str(cycles)], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
