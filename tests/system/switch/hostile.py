"""A peer of shared memory that means harm: every attack is a function, played against the socket of a switch's port.

Each says what it has to come to: a reason that the switch gives, or that the connection stays.
"""

import contextlib
import mmap
import os
import random
import select
import struct
import threading
import time

from lab import Lab
from memif_peer import (ACK, BUFFER_BYTES, CONNECT, CONNECTED, HEAD, HELLO, INIT, NEXT, SLOTS, TAIL, TO_CLIENT, TO_SERVER, Peer,
                        Refused)
from outputs import check_bandwidth, check_pingpong
from session import Failure

BROADCAST = b"\xff" * 6 + b"\x02\x75\x66\x66\x66\x01" + b"\x88\xb5"
OUTSIDE = "outside its memory"
ALL_TRIED = "all was tried"
RANGE = "than slots"


def frame(size=200, tag=0):
    return BROADCAST + struct.pack("<I", tag) + bytes(size - 18)


def refused(words, act):
    """`act` has to be refused with a reason that contains `words`."""
    def attack(path):
        with Peer(path) as peer:
            try:
                act(peer)
            except Refused as why:
                if words not in str(why):
                    raise Failure(f"refused because of '{why}', not '{words}'") from why
                return
            raise Failure(f"not refused ('{words}')")
    return attack


# Handshakes.

def greeted(act):
    def do(peer):
        peer.hear(HELLO)
        act(peer)
        peer.hear(ACK)
    return do


def introduced(act):
    def do(peer):
        peer.hear(HELLO)
        peer.init()
        peer.hear(ACK)
        if peer.memory_fd < 0:
            peer.make_memory()
        act(peer)
        peer.hear(ACK)
    return do


def set_up(act):
    def do(peer):
        peer.set_up()
        act(peer)
        peer.hear(CONNECTED)
    return do


def with_memory(**memory):
    def do(peer):
        peer.hear(HELLO)
        peer.init()
        peer.hear(ACK)
        peer.make_memory(**memory)
        peer.add_region()
        peer.hear(ACK)
    return do


def with_rings(*rings):
    """(ring, more arguments of add_ring) each."""
    def do(peer):
        peer.hear(HELLO)
        peer.init()
        peer.hear(ACK)
        peer.make_memory()
        peer.add_region()
        peer.hear(ACK)
        for ring, arguments in rings:
            peer.add_ring(ring, **arguments)
            peer.hear(ACK)
        peer.say(CONNECT)
        peer.hear(CONNECTED)
    return do


def foreign_file(peer):
    zero = os.open("/dev/zero", os.O_RDWR | os.O_CLOEXEC)
    try:
        peer.add_region(fds=[zero])
    finally:
        os.close(zero)


HANDSHAKES = {
    "short message": refused("wrong size", greeted(lambda p: p.say(INIT, size=64))),
    "long message": refused("wrong size", greeted(lambda p: p.say(INIT, size=512))),
    "unknown type": refused("unexpected", greeted(lambda p: p.say(77))),
    "CONNECT first": refused("unexpected", greeted(lambda p: p.say(CONNECT))),
    "INIT twice": refused("unexpected", introduced(lambda p: p.init())),
    "other version": refused("version", greeted(lambda p: p.init(version=0x0300))),
    "other interface": refused("interface", greeted(lambda p: p.init(interface=9))),
    "IP mode": refused("Ethernet", greeted(lambda p: p.init(mode=1))),
    "region without memory": refused("file descriptors", introduced(lambda p: p.add_region(fds=[]))),
    "region with three": refused("file descriptors", introduced(lambda p: p.add_region(fds=[p.memory_fd] * 3))),
    "message with 200 descriptors": refused("file descriptors", introduced(lambda p: p.add_region(fds=[p.memory_fd] * 200))),
    "region 9": refused("region index", introduced(lambda p: p.add_region(index=9))),
    "region of nothing": refused("region size", introduced(lambda p: p.add_region(size=0))),
    "region of 2^63": refused("region size", introduced(lambda p: p.add_region(size=1 << 63))),
    "region longer than its file": refused("shorter", introduced(lambda p: p.add_region(size=p.bytes + 4096))),
    "/dev/zero": refused("not sealed", introduced(foreign_file)),
    "memory that can shrink": refused("not sealed", with_memory(seals=0)),
    "memory that was cut": refused("shorter", with_memory(size=4096)),
    "wrong cookie": refused("no ring", lambda p: (p.set_up(cookie=1), p.say(CONNECT), p.hear(CONNECTED))),
    "no rings": refused("missing", with_rings()),
    "one ring": refused("missing", with_rings((TO_SERVER, {}))),
    "a ring twice": refused("ring index", with_rings((TO_SERVER, {}), (TO_SERVER, {}))),
    "ring 1": refused("ring index", with_rings((TO_SERVER, {"index": 1}))),
    "ring without event": refused("file descriptors", with_rings((TO_SERVER, {"fds": []}))),
    "ring of 2^200": refused("ring size", with_rings((TO_SERVER, {"log2": 200}))),
    "ring in no region": refused("no region", with_rings((TO_SERVER, {"region": 3}), (TO_CLIENT, {}))),
    "ring outside": refused("inside", with_rings((TO_SERVER, {"offset": 0xFFFFFFF0}), (TO_CLIENT, {}))),
    "ring at an odd place": refused("inside", with_rings((TO_SERVER, {"offset": 3}), (TO_CLIENT, {}))),
    "rings in one place": refused("overlap", with_rings((TO_SERVER, {"offset": 0}), (TO_CLIENT, {"offset": 0}))),
    "private header": refused("private", with_rings((TO_SERVER, {"private": 64}))),
    "CONNECT with a descriptor": refused("file descriptors", set_up(lambda p: p.say(CONNECT, fds=[p.memory_fd]))),
    "ADD_REGION after CONNECT": refused("unexpected", lambda p: (p.shake_hands(), p.add_region(index=1), p.hear(ACK))),
}


# Rings. `talk(n)`: n broadcast frames from another port.

def broken(words, act):
    def attack(path, talk):
        with Peer(path) as peer:
            peer.shake_hands()
            act(peer, talk)
            why = peer.closed()
            if why is None or words not in why:
                raise Failure(f"ended because of '{why}', not '{words}'")
    return attack


def tolerated(act):
    """Odd, but no lie: the connection stays."""
    def attack(path, talk):
        with Peer(path) as peer:
            peer.shake_hands()
            act(peer, talk)
            why = peer.closed(timeout=0.2)
            if why is not None:
                raise Failure(f"ended because of '{why}'")
    return attack


def one_slot(**lies):
    def do(peer, _):
        peer.slot(TO_SERVER, 0, **lies)
        peer.set_index(TO_SERVER, HEAD, 1)
    return do


def every_slot(heads, **lies):
    def do(peer, _):
        for slot in range(peer.count):
            peer.slot(TO_SERVER, slot, **lies)
        peer.set_index(TO_SERVER, HEAD, heads)
    return do


def head_of_server(value):
    return lambda peer, _: peer.set_index(TO_SERVER, HEAD, value)


def head_goes_back(peer, _):
    for _ in range(3):
        peer.send(frame())
    end = time.monotonic() + 2
    while peer.get_index(TO_SERVER, TAIL) != 3 and time.monotonic() < end:
        time.sleep(0.001)
    peer.set_index(TO_SERVER, HEAD, 1)


def head_of_client(value):
    def do(peer, talk):
        peer.set_index(TO_CLIENT, HEAD, value)
        talk(1)
    return do


def slots_of_client(said=None, **lies):
    """`said`: the frame that comes; what honest programs send to everybody may come as well."""
    def do(peer, talk):
        for slot in range(peer.count):
            peer.slot(TO_CLIENT, slot, **lies)
        talk(4, said or frame())
    return do


def indices_that_leap(peer, talk):
    """Any number in every index, some thousand times, while frames flow: sooner or later one is a lie."""
    numbers = random.Random(1)
    for _ in range(2000):
        for ring in (TO_SERVER, TO_CLIENT):
            peer.set_index(ring, numbers.choice((HEAD, TAIL)), numbers.randrange(1 << 16))
        talk(1)


def all_bytes_change(peer, talk):
    """Everything in the rings but the cookies, over and over, from two threads."""
    stop = threading.Event()

    def scribble(seed):
        numbers = random.Random(seed)
        while not stop.is_set():
            ring = numbers.choice((TO_SERVER, TO_CLIENT)) * peer.ring_bytes
            peer.memory[ring + numbers.randrange(4, peer.ring_bytes)] = numbers.randrange(256)

    threads = [threading.Thread(target=scribble, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        talk(1)
        time.sleep(0.001)
    stop.set()
    for thread in threads:
        thread.join()
    peer.set_index(TO_SERVER, HEAD, peer.get_index(TO_SERVER, TAIL) + 30000)


def cut_the_file(peer, talk):
    with contextlib.suppress(PermissionError):
        os.ftruncate(peer.memory_fd, 0)
        raise Failure("the file could be cut")
    peer.send(frame())
    talk(1)
    if peer.receive() is None:
        raise Failure("nothing arrived")


def holes_in_the_file(peer, talk):
    """Memory that is given back to the kernel under everybody's feet: reads as zeros."""
    peer.memory.madvise(mmap.MADV_REMOVE)
    for _ in range(20):
        peer.set_index(TO_SERVER, HEAD, peer.get_index(TO_SERVER, TAIL) + 8)
        peer.set_index(TO_CLIENT, HEAD, peer.get_index(TO_CLIENT, TAIL) + 8)
        peer.memory.madvise(mmap.MADV_REMOVE)
        talk(1)
    peer.set_index(TO_SERVER, HEAD, 30000)


def never_reads(peer, talk):
    peer.set_index(TO_CLIENT, HEAD, 2)
    talk(300)


RINGS = {
    "region 1": broken(OUTSIDE, one_slot(region=1)),
    "region 65535": broken(OUTSIDE, one_slot(region=65535)),
    "offset behind the end": broken(OUTSIDE, one_slot(offset=1 << 30)),
    "offset 2^32-1": broken(OUTSIDE, one_slot(offset=0xFFFFFFFF)),
    "length 2^32-1": broken(OUTSIDE, one_slot(length=0xFFFFFFFF)),
    "length and offset that wrap": broken(OUTSIDE, one_slot(length=0xFFFFFFFF, offset=0xFFFFFFFF)),
    "frame that goes on": broken("no next one", one_slot(length=100, flags=NEXT)),
    "frame that never ends": broken("no next one", every_slot(256, length=100, flags=NEXT)),
    "frames of 2 MB each": tolerated(every_slot(256, length=2_000_000, offset=0)),
    "frames of nothing": tolerated(every_slot(256, length=0)),
    "frames of a byte": tolerated(every_slot(256, length=1)),
    "one frame of 256 slots": tolerated(lambda p, _: p.send(bytes(256 * BUFFER_BYTES), 256)),
    "head leaps": broken(RANGE, head_of_server(300)),
    "head leaps far": broken(RANGE, head_of_server(0x8000)),
    "head goes back": broken(RANGE, head_goes_back),
    "offers too many slots": broken("than there are", head_of_client(300)),
    "offers less than none": broken("than there are", head_of_client(0xFFFF)),
    "slots outside": broken(OUTSIDE, slots_of_client(offset=0xFFFFFFF0)),
    "slots of region 5": broken(OUTSIDE, slots_of_client(region=5)),
    "slots of 2^32-1 bytes": broken(OUTSIDE, slots_of_client(length=0xFFFFFFFF)),
    "slots of nothing": tolerated(slots_of_client(length=0)),
    "slots of a byte": tolerated(slots_of_client(length=1)),
    "slots on other slots": tolerated(slots_of_client(offset=SLOTS, length=64)),
    "slots on an index": broken(RANGE, slots_of_client(offset=0, length=64, said=BROADCAST + b"\x55" * 186)),
    "indices that leap": broken("", indices_that_leap),
    "everything changes": broken("", all_bytes_change),
    "the file is cut": tolerated(cut_the_file),
    "the file gets holes": broken("", holes_in_the_file),
    "never reads": tolerated(never_reads),
}


BROKEN_RINGS = sum(attack.__qualname__.startswith("broken") for attack in RINGS.values())


# Many at once.

def half_done(path):
    """400 clients that begin and stay; each takes nobody's place for long."""
    with contextlib.ExitStack() as stack:
        for number in range(400):
            peer = stack.enter_context(Peer(path))
            if number % 4 == 0:
                with contextlib.suppress(Refused, ConnectionError):
                    peer.hear(HELLO)
                    peer.init()
        with Peer(path) as honest:
            honest.shake_hands()


def come_and_go(path):
    for _ in range(300):
        Peer(path).close()
    for number in range(60):
        with Peer(path) as peer:
            if number % 2:
                peer.shake_hands()
            else:
                peer.set_up()


def descriptors(lab):
    return len(os.listdir(f"/proc/{lab.switch.pid}/fd"))


class Talker:
    """An honest peer that says something to everybody."""

    def __init__(self, path):
        self.peer = Peer(path)
        self.peer.shake_hands()

    def __call__(self, count, said=frame()):
        for _ in range(count):
            end = time.monotonic() + 5
            while self.peer.next[TO_SERVER] - 200 & 0xFFFF == self.peer.get_index(TO_SERVER, TAIL):
                if time.monotonic() > end:
                    raise Failure(f"the switch does not read an honest peer's frames any more: {self.peer.closed(0.1)}")
            self.peer.send(said)


def attack_everything(lab):
    """Port 4 of `lab` is attacked; port 5 is who talks."""
    target, elsewhere = (str(lab.folder / f"switch-lab@port{number}.sock") for number in (4, 5))
    talk = Talker(elsewhere)
    for name, attack in [*HANDSHAKES.items(), ("half-done", half_done), ("come and go", come_and_go)]:
        run_attack(lab, name, lambda attack=attack: attack(target))
    for name, attack in RINGS.items():
        run_attack(lab, name, lambda attack=attack: attack(target, talk))
    # The same port serves an honest peer afterwards.
    with Peer(target) as peer:
        peer.shake_hands()
        peer.send(frame(1000, tag=7), 3)
        if talk.peer.receive() is None:
            raise Failure("the attacked port does not work any more")
    talk.peer.close()


def run_attack(lab, name, attack):
    try:
        attack()
    except (Failure, OSError, Refused, AssertionError) as failure:
        raise Failure(f"{name}: {failure!r}") from failure
    with open(f"/proc/{lab.switch.pid}/stat", encoding="ascii") as stat:
        if stat.read().rsplit(")", 1)[1].split()[0] == "Z":
            raise Failure(f"{name}: the switch ended")


@contextlib.contextmanager
def attacker(lab):
    """Attacks from a process of its own, and gives a function that says whether it goes on, and one for its last words.
    A thread would not do: what starts the honest programs holds its sockets until they run, and so who left has not."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        said = ALL_TRIED
        try:
            attack_everything(lab)
        except BaseException as failure:  # pylint: disable=broad-except
            said = f"{failure!r}"
        os.write(writer, said.encode()[:4000])
        os._exit(0)
    os.close(writer)
    try:
        yield (lambda: not select.select([reader], [], [], 0)[0], lambda: os.read(reader, 4096).decode())
    finally:
        os.close(reader)
        os.waitpid(process, 0)


def hostile_peers(tools):
    """Everything above against one port, while honest programs move verified data through four others."""
    with Lab(tools, "--ports", "6") as lab:
        before = descriptors(lab)
        failures = []
        rounds = 0
        with attacker(lab) as (goes_on, last_words):
            while goes_on() or rounds == 0:
                pairs = lab.start_pair("ibv_rc_pingpong", "-g", "1", "-c"), lab.start_pair("ib_write_bw", "-n", "500")
                failures = [*check_pingpong(lab.finish(pairs[0]), 2 * 4096 * 1000),
                            *check_bandwidth(lab.finish(pairs[1]), (65536,))]
                if failures:
                    break
                rounds += 1
            if (said := last_words()) != ALL_TRIED:
                failures.append(f"the attacker: {said}")
        if failures:
            raise Failure("; ".join(failures))
        end = time.monotonic() + 5
        while descriptors(lab) != before and time.monotonic() < end:
            time.sleep(0.05)
        if descriptors(lab) != before:
            raise Failure(f"{descriptors(lab)} file descriptors are open, {before} before")
        attacked = lab.port(4)
        # One of the handshakes is done when it breaks the protocol.
        if (attacked["peers_refused"] != len(HANDSHAKES) - 1 or attacked["peers_broken"] != 1 + BROKEN_RINGS
                or attacked["peers_given_up"] < 390):
            raise Failure(f"the switch has not counted what was done to it: {attacked}")
