"""Programs that mean harm on a port of the switch, while honest ones move verified data through other ports: one scribbles over
everything that it may write (tests/system/segment), joins, is killed, and joins again; one joins many times at once, in a
directory that it has filled with files."""

import os
import pathlib
import threading
import time

from lab import Lab
from outputs import check_bandwidth, check_pingpong
from session import Failure

PINGPONG_BYTES = 2 * 4096 * 1000
SCRIBBLES = 400_000
ATTACKED = 2  # the port after those of the pair
CROWD = 200
LITTER = 10_000
# Of the members that the switch sees at that port, of the honest ones at the others, and what is open during a check.
DESCRIPTORS_MOST = 8 + 2 + 10


def scribbles(tools):
    return str(pathlib.Path(tools.switch).parents[1] / "tests/system/segment/segment_scribbles")


def descriptors(lab):
    return len(os.listdir(f"/proc/{lab.switch.pid}/fd"))


def honest_pairs(lab):
    """One pair after the other, on ports 0 and 1."""
    problems = check_pingpong(lab.finish(lab.start_pair("ibv_rc_pingpong", "-g", "1", "-c")), PINGPONG_BYTES)
    return problems + check_bandwidth(lab.finish(lab.start_pair("ib_write_bw", "-n", "500")), (65536,))


class Descriptors:
    """The maximum number of descriptors that the switch has open while the block runs."""

    def __init__(self, lab):
        self.lab = lab
        self.most = 0
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)

    def watch(self):
        while not self.over.wait(0.005):
            self.most = max(self.most, descriptors(self.lab))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


def expect_no_problems(problems):
    if problems:
        raise Failure("; ".join(problems))


def wait_for(condition, text, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise Failure(text())
        time.sleep(0.05)


def hostile_peers(tools):
    """Programs that do not use the attacked port are not disturbed, and afterwards that port works like any other."""
    with Lab(tools, "--ports", str(ATTACKED + 1)) as lab:
        before = descriptors(lab)
        place = lab.folder / f"switch-lab@port{ATTACKED}"
        attacker = lab.children.start("attacker", [scribbles(tools), "--at", str(place), str(SCRIBBLES)])
        rounds = 0
        while attacker.exit_code is None or rounds == 0:
            expect_no_problems(honest_pairs(lab))
            rounds += 1
        if attacker.exit_code != 0:
            raise Failure(f"the attacker ended with {attacker.exit_code}: {attacker.output()}")
        wait_for(lambda: descriptors(lab) == before, lambda: f"{descriptors(lab)} file descriptors are open, {before} before")
        wait_for(lambda: lab.port(ATTACKED)["link"] == 0, lambda: "the attacker is still there")
        attacked = lab.port(ATTACKED)
        if attacked["drop_rx_nonsense"] == 0 or attacked["peers_lost"] == 0:
            raise Failure(f"the switch saw nothing of what was done to it: {attacked}")
        for number in range(ATTACKED):
            if lab.port(number)["drop_rx_nonsense"] != 0:
                raise Failure(f"port {number} is not the one that was attacked: {lab.port(number)}")
        holder = lab.start("holder", ["ibv_asyncwatch"])  # at port 0, so the next ones get 1 and the attacked one
        if not holder.wait_for_output("async event FD", 20):
            raise Failure("the holder did not start")
        frames = lab.port(ATTACKED)["rx_frames"]
        expect_no_problems(honest_pairs(lab))
        if lab.port(ATTACKED)["rx_frames"] < frames + 1000:
            raise Failure("the attacked port was not used again")


def crowded_port(tools):
    """However often members join at one port, and however many files lie in its directory, the others work, and the
    switch has descriptors left: counted during the attack, not afterwards."""
    with Lab(tools, "--ports", str(ATTACKED + 1)) as lab:
        before = descriptors(lab)
        place = lab.folder / f"switch-lab@port{ATTACKED}"
        for number in range(LITTER):
            (place / f"m-{0xabc0000000000000 + number:016x}").write_text("x")
        with Descriptors(lab) as seen:
            attacker = lab.children.start("attacker", [scribbles(tools), "--crowd", str(place), str(CROWD)])
            if not attacker.wait_for_output(f"{CROWD} members", 30):
                raise Failure(f"the attacker did not come: {attacker.output()}")
            wait_for(lambda: lab.port(ATTACKED)["peers_met"] > 0, lambda: "the switch saw nothing of the crowd", 30)
            for _ in range(2):
                os.utime(place)
                expect_no_problems(honest_pairs(lab))
        if attacker.exit_code is not None:
            raise Failure(f"the attacker ended with {attacker.exit_code}: {attacker.output()}")
        if seen.most > before + DESCRIPTORS_MOST:
            raise Failure(f"{seen.most} file descriptors were open, {before} before")
