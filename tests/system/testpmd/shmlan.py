#!/usr/bin/env python3
"""What dpdk-testpmd does with net_shmlan, as a station of a segment: each a test.

    shmlan.py --list                    the names of the tests
    shmlan.py PLUGIN - NAME...          runs these; exit 0 passed, 1 failed, 77 skipped
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True

from harness import Testpmd, expect, main

TESTS = {}


def test(function):
    TESTS["shmlan_" + function.__name__] = function
    return function


def mac(number):
    return f"02:75:00:00:00:{number:02x}"


def device(bench, number, *more):
    return ",".join([f"net_shmlan{number}", f"dir={bench.path}", f"mac={mac(number)}", *more])


def station(bench, number, peer, *options, **more):
    """A process with one port, whose frames are for station `peer`."""
    return Testpmd(bench, [], f"--eth-peer=0,{mac(peer)}", *options, more=[device(bench, number)], **more)


def expect_no_drops(testpmd, port=0):
    counts = testpmd.xstats(port)
    wrong = {name: value for name, value in counts.items()
             if value != 0 and (re.search("error|drop|nonsense|too_|lost", name))}
    expect("tx_dropped_no_way" in counts and not wrong, f"drops: {wrong or counts}")


@test
def macswap(bench):
    """Frames go back and forth between two processes."""
    far = station(bench, 1, 0)
    far("set fwd macswap")
    far("start")
    near = station(bench, 0, 1)
    near("set fwd macswap")
    near("start tx_first")
    for testpmd in (near, far):
        testpmd.wait_for("frames that go to and fro", lambda testpmd=testpmd: testpmd.stats(0)["RX-packets"] > 5000)
        expect_no_drops(testpmd)
    for testpmd in (near, far):
        testpmd.close_without_leak()
    left = [path.name for path in (bench.path / "shmlan").iterdir() if path.name.startswith("s-")]
    expect(not left, f"mailboxes of members that have left: {left}")


@test
def long_frames_in_pieces(bench):
    """Of four buffers each, into buffers that hold half of one."""
    receiver = station(bench, 1, 0, "--max-pkt-len=4018", "--enable-scatter", "--mbuf-size=2176")
    receiver("set fwd rxonly")
    receiver("start")
    sender = station(bench, 0, 1, "--max-pkt-len=4018", "--enable-scatter", "--txpkts=1000,1000,1000,1018")
    sender("set fwd txonly")
    sender("start")
    receiver.wait_for("received frames", lambda: receiver.stats(0)["RX-packets"] > 5000)
    sender.close_without_leak()
    receiver.wait_until_still(0)
    counts = receiver.stats(0)
    expect(counts["RX-bytes"] == 4018 * counts["RX-packets"] and counts["RX-errors"] == 0, f"not what was sent: {counts}")
    receiver.close_without_leak()


@test
def two_cores(bench):
    """Each port is read by one core and written by the other."""
    testpmd = Testpmd(bench, [], "--nb-cores=2", f"--eth-peer=0,{mac(1)}", f"--eth-peer=1,{mac(0)}",
                      more=[device(bench, 0), device(bench, 1)], lcores=3)
    testpmd("set fwd io")
    testpmd("start tx_first 4")
    for port in (0, 1):
        testpmd.wait_for("frames that go round", lambda port=port: testpmd.stats(port)["RX-packets"] > 5000)
        expect_no_drops(testpmd, port)
    testpmd.close_without_leak()


@test
def stop_and_start(bench):
    """A restarted port continues; a closed one can be attached again."""
    far = station(bench, 1, 0)
    far("set fwd macswap")
    far("start")
    near = station(bench, 0, 1)
    near("set fwd macswap")
    for _ in range(3):
        near("start tx_first")
        near("clear port stats 0")
        near.wait_for("frames that come back", lambda: near.stats(0)["RX-packets"] > 1000)
        near("stop")
        near("port stop 0")
        near("port start 0")
    near("port stop 0")
    near("port detach 0")
    text = near(f"port attach {device(bench, 0)}")
    expect("Port 0 is attached" in text, f"it was not attached again: {text}")
    near.quit()
    far.close_without_leak()


@test
def bad_arguments(bench):
    """One line that says what is wrong, and the program does not start."""
    for arguments, says in {"mac=1": "mac=1: not the address of a station", "segmnt=x": "segmnt=x: unknown argument; known are segment=",
                            "segment=a/b": "the name of a segment is 1 to 32", f"dir={bench.path}/nowhere": "cannot create"}.items():
        done = subprocess.run(["dpdk-testpmd", "--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--no-shconf",
                               f"--file-prefix=bad{os.getpid()}", "-d", str(bench.plugin), f"--vdev=net_shmlan0,{arguments}", "--"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("net_shmlan: ")]
        expect(done.returncode != 0 and len(lines) == 1 and says in lines[0], f"{arguments}: exit {done.returncode}, {lines}")


if __name__ == "__main__":
    sys.exit(main(TESTS, sys.argv[1:]))
