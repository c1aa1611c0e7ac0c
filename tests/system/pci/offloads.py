"""What cards of QEMU's do under DPDK's drivers besides moving frames: testpmd in the guest, frames from here and back.

        guest: dpdk-testpmd --- card --- QEMU --- TAP --- Wire (here)
"""

import contextlib
import re
import socket
import struct
import time

from prompt import Testpmd
from traffic import Failure

PACKET_AUXDATA, SOL_PACKET, PACKET_OUTGOING = 8, 263, 4
VLAN_VALID, CHECKSUM_NOT_READY = 1 << 4, 1 << 3
ETH_P_ALL = 3
PATIENCE_S = 10
VLAN = 100
LONGEST = 9014  # a packet of 9000 bytes
DESTINATION, SOURCE = bytes.fromhex("0200000000bb"), bytes.fromhex("0200000000aa")
PORT = ["--enable-scatter", f"--max-pkt-len={LONGEST + 4}", "--tx-offloads=0x8000", "--rxd=512", "--txd=512"]


def ones_complement(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


def udp(number, size, ip_flaw=0, udp_flaw=0, vlan=None):
    """A frame of `size` bytes, not counting its tag: UDP over IPv4, with checksums wrong by `ip_flaw` and
    `udp_flaw`."""
    source, destination = bytes([10, 7, 0, 1]), bytes([10, 7, 0, 2])
    payload = struct.pack(">I", number) + bytes((number + i) & 0xff for i in range(size - 46))
    length = 8 + len(payload)
    head = struct.pack(">HHHH", 1000 + number, 7000, length, 0)
    pseudo = source + destination + struct.pack(">BBH", 0, 17, length)
    checksum = ~ones_complement(pseudo + head + payload) & 0xffff
    ip = struct.pack(">BBHHHBBH", 0x45, 0, 20 + length, number, 0, 64, 17, 0) + source + destination
    ip = ip[:10] + struct.pack(">H", (~ones_complement(ip) & 0xffff) ^ ip_flaw) + ip[12:]
    tag = struct.pack(">HH", 0x8100, vlan) if vlan is not None else b""
    return DESTINATION + SOURCE + tag + b"\x08\x00" + ip + head[:6] + struct.pack(">H", checksum ^ udp_flaw) + payload


def pseudo_sum(frame):
    """What is where the checksum belongs, when somebody else is to compute it."""
    return ones_complement(frame[26:34] + struct.pack(">BB", 0, 17) + frame[38:40])


class Wire:
    """The TAP's end here."""

    def __init__(self, name):
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._socket.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        self._socket.bind((name, 0))

    def close(self):
        self._socket.close()

    def exchange(self, frames, explain=lambda: ""):
        """Sends them, and returns as many (frame, VLAN or None, whether its checksum is left to us)."""
        for frame in frames:
            self._socket.send(frame)
        got = []
        deadline = time.monotonic() + PATIENCE_S
        while len(got) < len(frames):
            self._socket.settimeout(max(0.01, deadline - time.monotonic()))
            try:
                frame, ancillary, _, address = self._socket.recvmsg(65536, 256)
            except TimeoutError as late:
                raise Failure(f"only {len(got)} of {len(frames)} frames came back: {explain()}") from late
            if address[2] != PACKET_OUTGOING and frame[6:12] in (SOURCE, DESTINATION) or frame[26:30] == bytes([10, 7, 0, 1]):
                got.append((frame, *self._extra(ancillary)))
        return got

    @staticmethod
    def _extra(ancillary):
        for level, kind, data in ancillary:
            if level == SOL_PACKET and kind == PACKET_AUXDATA:
                status, _, _, _, _, tci, _ = struct.unpack_from("<IIIHHHH", data)
                return (tci & 0xfff if status & VLAN_VALID else None), bool(status & CHECKSUM_NOT_READY)
        return None, False


def long_frames(prompt, wire, card):
    """Packets of 9000 bytes there and back, in pieces if the buffers are smaller."""
    sent = [udp(number, size) for number, size in enumerate((60, 1514, 2047, 2048, 2049, 4096, 4097, 8192, 9013, LONGEST))]
    prompt("set fwd macswap")
    prompt("start")
    got = [frame for frame, _, _ in wire.exchange(sent, lambda: prompt("show port stats 0"))]
    prompt("stop")
    if sorted(frame[12:] for frame in got) != sorted(frame[12:] for frame in sent):
        raise Failure(f"{card.name}: frames of {[len(frame) for frame in got]} bytes came back, not what was sent")


def vlan_tags(prompt, wire, card):
    """They are taken off."""
    prompt("vlan set strip on 0")
    prompt("start")
    sent = [udp(number, 300, vlan=VLAN) for number in range(8)]
    got = wire.exchange(sent)
    prompt("stop")
    wanted = sorted(udp(number, 300)[12:] for number in range(8))
    if sorted(frame[12:] for frame, _, _ in got) != wanted or any(vlan is not None for _, vlan, _ in got):
        raise Failure(f"{card.name}: tags were not taken off: {got[0]}")
    prompt("vlan set strip off 0")


def sent_checksums(prompt, wire, card):
    """Wrong ones go in, and right ones, of UDP and IPv4, come out; or the card says that they are left to the host."""
    prompt("port stop 0")
    for layer in ("udp", "ip"):
        prompt(f"csum set {layer} {'hw' if layer == 'udp' or card.ip_checksum else 'sw'} 0")
    prompt("port start 0")
    link(prompt)
    prompt("set fwd csum")
    prompt("start")
    got = wire.exchange([udp(number, 200 + number, ip_flaw=0x1234, udp_flaw=0x4321) for number in range(8)])
    prompt("stop")
    for frame, _, left in got:
        right = udp(struct.unpack_from(">I", frame, 42)[0], len(frame))
        udp_sum = struct.pack(">H", pseudo_sum(frame)) if left else right[40:42]
        if frame[12:40] != right[12:40] or frame[40:42] != udp_sum or frame[42:] != right[42:]:
            raise Failure(f"{card.name}: {frame.hex()} is not {right.hex()} (left to the host: {left})")


def received_checksums(prompt, wire, card):
    """Those that are wrong are known as such."""
    prompt("port stop 0")
    for offload in ("ipv4_cksum", "udp_cksum"):
        prompt(f"port config 0 rx_offload {offload} on")
    prompt("port start 0")
    link(prompt)
    prompt("set fwd csum")
    prompt("start")
    frames = [udp(number, 200) for number in range(5)] + [udp(number, 200, udp_flaw=0x4321) for number in range(7)]
    wire.exchange([*frames, *(udp(number, 200, ip_flaw=0x1234) for number in range(3))])
    text = prompt("show fwd stats all").partition("Accumulated")[0]
    prompt("stop")
    found = [int(re.search(rf"Bad-{layer}csum: (\d+)", text)[1]) for layer in ("ip", "l4")]
    if found != [3, 7]:
        raise Failure(f"{card.name}: {found[0]} bad IPv4 checksums instead of 3, {found[1]} of UDP instead of 7:\n{text}")


def link(prompt):
    prompt.until("show port info 0", "Link status: up")


def run(bench, card, driver):
    bench.machine.run(f"bind {driver} {card.address}")
    plugin = f"-d /lib/librte_net_{card.driver}.so"
    with contextlib.closing(Wire(card.name)) as wire, Testpmd(bench.machine, card.address, plugin,
                                                                          port=[*PORT, f"--mbuf-size={card.buffers}"]) as prompt:
        link(prompt)
        for step in (long_frames, *card.offloads):
            step(prompt, wire, card)

