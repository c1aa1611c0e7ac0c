#!/usr/bin/env python3
"""uroce over PCI devices: those of a virtual machine, under DPDK's drivers.

    pci.py --uroce build/apps/uroce                      all steps
    pci.py --uroce build/apps/uroce --like virtio        those whose name contains one of these texts
    pci.py --uroce build/apps/uroce --in-guest 'ls /sys/bus/pci/devices'
    pci.py --list

Exit status: 0 passed, 1 failed, 77 skipped because the machine cannot run it.
"""

import argparse
import os
import pathlib
import shutil
import sys
import tempfile
import time

sys.dont_write_bytecode = True
_SYSTEM = pathlib.Path(__file__).resolve().parent.parent
sys.path[1:1] = [str(_SYSTEM / folder) for folder in ("programs", "interop", "testpmd")]

import card
import initramfs
import isolation
import lab
import machine
import nics
from children import Children
from guest import GuestTrouble
from traffic import Bench, Failure

SKIP = 77


class Skip(Exception):
    """The machine cannot run this; the text says why."""


def prepare(arguments):
    """(kernel, initramfs), or Skip: only for what the machine cannot do, never for what this build lacks."""
    if os.geteuid() != 0:
        raise Skip("interfaces and namespaces need root")
    for program in ("qemu-system-x86_64", "ip"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed (scripts/install-deps.sh interop)")
    if not os.path.exists("/dev/net/tun"):
        raise Skip("there is no /dev/net/tun")
    try:
        recipe = machine.recipe(arguments.uroce.parent.parent)
        version, kernel = initramfs.find_kernel(recipe)
        return kernel, initramfs.build(version, arguments.work, recipe)
    except initramfs.Missing as missing:
        raise Skip(f"{missing} (scripts/install-deps.sh interop and full)") from missing


def run_step(name, body, bench):
    begun = time.monotonic()
    verdict = "passed"
    try:
        if not bench.machine.running:
            bench.machine.start()
            bench.machine.wait_ready()
        body(bench)
    except (Failure, GuestTrouble) as trouble:
        verdict = f"FAILED: {trouble}"
        bench.machine.power_off()  # whatever state it is in: the next step gets a fresh one
    print(f"{name:44} {time.monotonic() - begun:5.1f} s  {verdict}", flush=True)
    return verdict == "passed"


def beds(arguments, kernel, archive, work, children):
    """(name, machine, its steps): each machine is booted for its steps, one after the other."""
    yield "nics", nics.machine_for(children, kernel, archive, work), nics.steps
    yield "card", card.CardMachine(children, kernel, archive, work, arguments.uroce.parent / "mqnic-card"), card.steps


def run_bed(arguments, guest, steps):
    bench = Bench(arguments.uroce, guest.children, guest)
    begun = time.monotonic()
    guest.start()
    print(f"{guest.kernel.name}: ready after {guest.wait_ready():.1f} s", flush=True)
    verdicts = [run_step(name, body, bench) for name, body in steps]
    guest.power_off()
    print(f"{time.monotonic() - begun:.0f} s", flush=True)
    return verdicts


def run_all(arguments, kernel, archive, work):
    if missing := lab.missing_kinds():
        print(f"skipped: {missing}")
        return SKIP
    begun = time.monotonic()
    machine.make_wires(nics.taps())
    verdicts = []
    with Children() as children:
        for name, guest, steps in beds(arguments, kernel, archive, work, children):
            if arguments.in_guest:
                if name == arguments.bed:
                    guest.start()
                    guest.wait_ready()
                    print(guest.run(arguments.in_guest, 600))
                    return 0
                continue
            if chosen := list(wanted(arguments, steps())):
                verdicts += run_bed(arguments, guest, chosen)
    print(f"{sum(verdicts)} passed, {len(verdicts) - sum(verdicts)} failed, {time.monotonic() - begun:.0f} s")
    return 0 if verdicts and all(verdicts) else 1


def wanted(arguments, steps):
    return ((name, body) for name, body in steps if not arguments.like or any(text in name for text in arguments.like))


def guarded(arguments, kernel, archive, work):
    try:
        return run_all(arguments, kernel, archive, work)
    except GuestTrouble as trouble:
        print(f"FAILED: {trouble}")
        return 1


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uroce", type=pathlib.Path, default=pathlib.Path("build/apps/uroce"))
    parser.add_argument("--work", type=pathlib.Path, help="for the guest's files (default: pci in the build directory)")
    parser.add_argument("--like", nargs="+", metavar="TEXT")
    parser.add_argument("--in-guest", metavar="COMMAND", help="only boots and runs this shell command in the guest")
    parser.add_argument("--bed", choices=("nics", "card"), default="nics", help="in which guest")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.uroce = arguments.uroce.resolve()
    arguments.work = (arguments.work or arguments.uroce.parent.parent / "pci").resolve()
    if not arguments.list and not arguments.uroce.exists():
        parser.exit(1, f"FAILED: not built (ninja): {arguments.uroce}\n")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        print("\n".join(name for name, _ in (*nics.steps(), *card.steps())))
        return 0
    try:
        kernel, archive = prepare(arguments)
        with tempfile.TemporaryDirectory(prefix="run-", dir=arguments.work) as work:
            return isolation.run_isolated(lambda: guarded(arguments, kernel, archive, pathlib.Path(work)))
    except (Skip, isolation.CannotIsolate) as reason:
        print(f"skipped: {reason}")
        return SKIP


if __name__ == "__main__":
    sys.exit(main())
