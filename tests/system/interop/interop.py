#!/usr/bin/env python3
"""Unmodified RDMA programs between uroce and the kernel's rxe, which runs in a virtual machine.

    interop.py --uroce build/apps/uroce --set short      the rows of ./check
    interop.py --uroce build/apps/uroce --set rest       the others; --part 1/2: every second one
    interop.py --uroce build/apps/uroce --set full       both
    interop.py --uroce build/apps/uroce --like ud_ping   those whose name contains one of these texts
    interop.py --uroce build/apps/uroce --in-guest 'ibv_devinfo -v'
    interop.py --list

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
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parent.parent / "programs"))

import connections
import groups
import host_sockets
import initramfs
import isolation
import lab
from children import Children
from guest import Guest, GuestTrouble
import pings
import reboots
import together
from rows import all_rows
from run_row import Bench, Failure, run_row

SKIP = 77
STUCK_CARDS_MAX = 8  # in one run; more is not bad luck


class Skip(Exception):
    """The machine cannot run this; the text says why."""


def tests():
    """(name, the set that it is in, function of the bench)"""
    for row in all_rows():
        yield row.name, "short" if row.short else "rest", lambda bench, row=row: run_row(row, bench)
    for scenario in (*reboots.SCENARIOS, *together.SCENARIOS, *host_sockets.SCENARIOS, *connections.SCENARIOS, *groups.SCENARIOS, *pings.SCENARIOS):
        yield scenario.name, "short" if scenario.short else "rest", scenario.run


def chosen(arguments):
    if arguments.like:
        return [test for test in tests() if any(text in test[0] for text in arguments.like)]
    part, parts = arguments.part
    return [test for test in tests() if arguments.set in ("full", test[1])][part - 1::parts]


def own_programs(uroce):
    """Programs that are not installed, from the build directory."""
    return {"verbs_data": uroce.parent.parent / "tests" / "system" / "interop" / "verbs_data", "uroce-ping": uroce.parent / "uroce-ping"}


def judges(uroce):
    """What every row needs to be judged."""
    return [*own_programs(uroce).values(), uroce.parent / "uroce-lint"]


def prepare(work, programs):
    """(kernel, initramfs), or Skip: only for what the machine cannot do, never for what this build lacks."""
    if os.geteuid() != 0:
        raise Skip("interfaces and namespaces need root")
    for program in ("qemu-system-x86_64", "ip", "tshark"):
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed (scripts/install-deps.sh interop)")
    if not os.path.exists("/dev/net/tun"):
        raise Skip("there is no /dev/net/tun")
    try:
        recipe = initramfs.rxe_recipe(programs.values())
        version, kernel = initramfs.find_kernel(recipe)
        return kernel, initramfs.build(version, work, recipe)
    except initramfs.Missing as missing:
        raise Skip(f"{missing} (scripts/install-deps.sh interop)") from missing


def run_one(test, bench):
    name, _, body = test
    begun = time.monotonic()
    try:
        if not bench.guest.running:
            bench.guest.start()
            bench.guest.wait_ready()
        remark = body(bench)
        verdict = f"passed ({remark})" if remark else "passed"
    except (Failure, GuestTrouble) as trouble:
        stuck = bench.stuck_cards < STUCK_CARDS_MAX and bench.guest.running and bench.guest.card_is_stuck()
        verdict = f"{'REPEATED, as the virtual card is stuck' if stuck else 'FAILED'}: {trouble}"
        bench.guest.power_off()  # whatever state it is in: the next row gets a fresh one
        if stuck:
            bench.stuck_cards += 1
            print(f"{name:44} {time.monotonic() - begun:5.1f} s  {verdict}\nrepeated: {name}: its virtual card was stuck", flush=True)
            return run_one(test, bench)
    print(f"{name:44} {time.monotonic() - begun:5.1f} s  {verdict}", flush=True)
    return verdict.startswith("passed")


def in_guest(guest, command):
    program = guest.start_program("command", command)
    while not program.wait(1):
        pass
    print(program.output(), end="")
    return 1 if program.exit_code is None else program.exit_code


def run_all(arguments, kernel, archive, captures):
    begun = time.monotonic()
    if missing := lab.missing_kinds():
        print(f"skipped: {missing}")
        return SKIP
    lab.make_wire()
    with Children() as children:
        guest = Guest(children, kernel, archive, captures / "console.txt")
        bench = Bench(arguments.uroce, arguments.uroce.parent / "uroce-lint", children, guest,
                      own_programs(arguments.uroce), captures, arguments.keep)
        guest.start()
        print(f"{kernel.name} with rxe: ready after {guest.wait_ready():.1f} s", flush=True)
        if arguments.in_guest:
            return in_guest(guest, arguments.in_guest)
        tests = list(chosen(arguments))
        failed = [test for test in tests if not run_one(test, bench)]
        late = second_try(failed, bench)
    print(f"{len(tests) - len(failed) + late} passed, {late} of them at the second try, {len(failed) - late} failed, "
          f"{bench.stuck_cards} repeated with a new virtual card, {time.monotonic() - begun:.0f} s")
    return 0 if tests and len(failed) == late else 1


def second_try(failed, bench):
    """An emulated peer on a busy machine may be late for its own timers. Up to two rows get a second try, with a fresh
    guest, and the output says so. Returns how many passed then."""
    if not 0 < len(failed) <= 2:
        return 0
    for name, _, _ in failed:
        print(f"repeated: {name}: it failed at the first try", flush=True)
    return sum(run_one(test, bench) for test in failed)


def guarded(arguments, kernel, archive, captures):
    try:
        return run_all(arguments, kernel, archive, captures)
    except GuestTrouble as trouble:
        print(f"FAILED: {trouble}")
        return 1


def fraction(text):
    part, _, parts = text.partition("/")
    if not (part.isdigit() and parts.isdigit() and 1 <= int(part) <= int(parts)):
        raise argparse.ArgumentTypeError(f"'{text}' is not like 1/2")
    return int(part), int(parts)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uroce", type=pathlib.Path, default=pathlib.Path("build/apps/uroce"))
    parser.add_argument("--work", type=pathlib.Path, help="for the guest's files and the captures of failures "
                        "(default: interop in the build directory)")
    parser.add_argument("--set", choices=("short", "rest", "full"), default="short",
                        help="rest: the others; full: both")
    parser.add_argument("--part", type=fraction, default=(1, 1), metavar="K/N", help="every N-th of them, from the K-th on")
    parser.add_argument("--like", nargs="+", metavar="TEXT")
    parser.add_argument("--keep", action="store_true", help="also the captures of what passed")
    parser.add_argument("--in-guest", metavar="COMMAND", help="only boots and runs this shell command in the guest")
    parser.add_argument("--list", action="store_true")
    arguments = parser.parse_args()
    arguments.uroce = arguments.uroce.resolve()
    arguments.work = (arguments.work or arguments.uroce.parent.parent / "interop").resolve()
    if not arguments.list and (lacking := [str(path) for path in judges(arguments.uroce) if not path.exists()]):
        parser.exit(1, f"FAILED: not built (ninja): {', '.join(lacking)}\n")
    return arguments


def main():
    arguments = parse_arguments()
    if arguments.list:
        for name, its_set, _ in tests():
            print(f"{name:44} {its_set}")
        return 0
    try:
        kernel, archive = prepare(arguments.work, own_programs(arguments.uroce))
        captures = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=arguments.work))
        try:
            return isolation.run_isolated(lambda: guarded(arguments, kernel, archive, captures))
        finally:
            if not any(captures.glob("*.pcapng")):
                shutil.rmtree(captures)
    except (Skip, isolation.CannotIsolate) as reason:
        print(f"skipped: {reason}")
        return SKIP


if __name__ == "__main__":
    sys.exit(main())
