"""Frames for the tests, made and read by Scapy."""

import random

from scapy.all import IP, TCP, UDP, Ether, IPv6, Raw, rdpcap, wrpcap

SOURCE, DESTINATION = "02:00:00:00:00:aa", "02:00:00:00:00:bb"


def ethernet():
    return Ether(src=SOURCE, dst=DESTINATION)


def write(path, frames):
    wrpcap(str(path), frames)


def read(path):
    return [bytes(frame) for frame in rdpcap(str(path))]


def sized(sizes, seed=1):
    """Frames of exactly these sizes, each with a number and bytes of its own."""
    rng = random.Random(seed)
    frames = []
    for number, size in enumerate(sizes):
        head = ethernet() / IP(src="10.1.0.1", dst="10.1.0.2", id=number & 0xffff, proto=253)
        filling = size - len(head)
        frames.append(Ether(bytes(head / Raw(rng.randbytes(filling)))))
    return frames


def flows(count, seed=1):
    """UDP packets over IPv4: (source, destination, source port, destination port) of each, and the frames."""
    rng = random.Random(seed)
    keys, frames = [], []
    for _ in range(count):
        key = (f"10.2.{rng.randrange(256)}.{rng.randrange(1, 255)}", f"10.3.{rng.randrange(256)}.{rng.randrange(1, 255)}",
               rng.randrange(1024, 65536), rng.randrange(1024, 65536))
        keys.append(key)
        frames.append(ethernet() / IP(src=key[0], dst=key[1]) / UDP(sport=key[2], dport=key[3]) / Raw(b"x" * 22))
    return keys, frames


def with_checksums(count, damaged, seed=1):
    """UDP and TCP over IPv4 and IPv6; `damaged`: with wrong layer 4 checksums. Returns the frames and the corrected
    ones."""
    rng = random.Random(seed)
    frames, right = [], []
    for number in range(count):
        network = IP(src="10.4.0.1", dst="10.4.0.2", id=number) if number % 2 == 0 else IPv6(src="fd00::1", dst="fd00::2")
        transport = UDP(sport=1000 + number, dport=7) if number % 4 < 2 else TCP(sport=1000 + number, dport=7, flags="A")
        good = ethernet() / network / transport / Raw(rng.randbytes(rng.randrange(20, 1200)))
        right.append(bytes(good))
        if damaged:
            good = Ether(bytes(good))
            layer = UDP if number % 4 < 2 else TCP
            good[layer].chksum ^= 0x5a5a
        frames.append(good)
    return frames, right
