#!/usr/bin/env python3
"""Each field of each layer wrong in turn (and some that may be anything), over a TAP port, IPv4 and IPv6.

    malformed.py PATH-OF-UROCE PATH-OF-TARGET

Every case has a queue pair of its own, right for it in everything else, and names the one counter or answer that its
frame has to give.
"""

import dataclasses
import random
import struct
import sys

sys.dont_write_bytecode = True

import harness
from expectations import FAILED, FLUSHED, INVALID_REQUEST, REMOTE_ACCESS, SUCCESS, WC_RECV, Outcome, dropped
from rig import ADDRESSES, ERROR, OUR_MAC, OUR_PSN, QKEY, RECEIVES, THEIR_PSN
from rocev2 import (MTU, RC, UD, aeth, address_bytes, atomic_eth, bth, by_name, deth, icrc, internet_checksum, ip_checksum,
                    mac_bytes, reth)
from trial import Shot, Trial

WRITE, SEND = by_name(RC, "RDMA_WRITE_ONLY").value, by_name(RC, "SEND_ONLY").value
WRITE_FIRST, READ = by_name(RC, "RDMA_WRITE_FIRST").value, by_name(RC, "RDMA_READ_REQUEST").value
COMPARE_SWAP, ACK = by_name(RC, "COMPARE_SWAP").value, by_name(RC, "ACKNOWLEDGE").value
READ_RESPONSE, UD_SEND = by_name(RC, "RDMA_READ_RESPONSE_ONLY").value, by_name(UD, "SEND_ONLY").value
BYTES = 64  # of the WRITE in most cases
PORT_MTU = 1024  # the largest that fits an interface MTU of 1500

WRITTEN = Outcome("ACK", {"rx_write_requests": 1, "sent_acks": 1}, ("ACK", THEIR_PSN, (0, 1)))
MARKED = Outcome("ACK, marked", {**WRITTEN.counters, "np_ecn_marked_roce_packets": 1}, WRITTEN.answer)
DELIVERED = Outcome("delivered", {"rx_sends": 1}, completions=((WC_RECV, SUCCESS, 48),))
BAD_ICRC = dropped("rx_icrc_encapsulated")
NOT_ROCE = dropped("rx_drop_not_roce")
TRUNCATED = dropped("rx_drop_truncated")
BAD_IP = dropped("rx_drop_bad_ip_header")
MISMATCH = dropped("rx_drop_length_mismatch")


def refused(code, **more):
    counters = {"sent_naks": 1, "resp_cqe_flush_error": RECEIVES, **more}
    return Outcome(f"NAK: {code}", counters, ("NAK", THEIR_PSN, (code, 0)), ERROR, ((None, FLUSHED, 0),) * RECEIVES)


NO_ACCESS = refused(REMOTE_ACCESS, resp_remote_access_errors=1)
INVALID = refused(INVALID_REQUEST)
# A SEND with a key that cannot be invalidated: the QP fails without a NAK.
NOT_INVALIDATED = Outcome("failed in silence", {"resp_remote_access_errors": 1, "resp_cqe_error": 1, "resp_cqe_flush_error": RECEIVES - 1},
                          (), ERROR, ((None, FAILED, 0),) + ((None, FLUSHED, 0),) * (RECEIVES - 1))


@dataclasses.dataclass
class Case:
    """`build(maker)` returns the frame; `maker.qp` is its queue pair."""

    name: str
    build: object
    outcome: Outcome
    kind: str = "rc"
    state: str = "rts"


class Maker:
    """Builds one frame around a queue pair."""

    def __init__(self, rig, qp, family):
        self.rig, self.qp, self.family = rig, qp, family

    def write(self, psn=THEIR_PSN, va=0, rkey=0, length=None, payload=BYTES, opcode=WRITE, **header):
        """A correct WRITE: `va` is an offset, `rkey` are bits to flip."""
        return (bth(opcode, self.qp.qpn, psn, **header) +
                reth(self.rig.va + va, self.rig.rkey ^ rkey, payload if length is None else length) + b"\x5a" * payload)

    def frame(self, transport=None, ip=None, udp=None, late=None, sealed=False, checksum=True, tag=b"", ethertype=None, **path):
        """`ip` and `udp` change header fields; `sealed`: after the iCRC was computed. `late` changes transport and
        iCRC."""
        route = dataclasses.replace(self.rig.path(self.family), **path)
        transport = self.write() if transport is None else transport
        ports = bytearray(struct.pack("!HHHH", route.udp_src, 4791, 12 + len(transport), 0))
        header = bytearray(route.ip(len(ports) + len(transport) + 4))
        seal = icrc(header, ports, transport)
        for change, what in ((ip, header), (udp, ports)):
            if change is not None:
                change(what)
        if not sealed:
            seal = icrc(header, ports, transport)
        if checksum and self.family == 4:
            header[10:12] = b"\0\0"
            header[10:12] = struct.pack("!H", ip_checksum(bytes(header)))
        rest = bytearray(transport + seal)
        if late is not None:
            late(rest)
        link = route.ethernet()
        kind = link[12:14] if ethertype is None else struct.pack("!H", ethertype)
        return link[:12] + tag + kind + bytes(header) + bytes(ports) + bytes(rest)


def store(at, form, value):
    def change(octets):
        octets[at:at + struct.calcsize(form)] = struct.pack(form, value)
    return change


def add(at, form, value):
    def change(octets):
        old = struct.unpack_from(form, octets, at)[0]
        struct.pack_into(form, octets, at, (old + value) % (1 << 8 * struct.calcsize(form)))
    return change


def flip(at, bit):
    def change(octets):
        octets[at] ^= 1 << bit
    return change


def of(**what):
    return lambda maker: maker.frame(**what)


def writing(frame=None, **what):
    return lambda maker: maker.frame(maker.write(**what), **(frame or {}))


def link_cases(family):
    other = 0x86DD if family == 4 else 0x0800
    yield Case("Ethertype of the other IP version", of(ethertype=other), BAD_IP)
    for ethertype in (0x0000, 0x0600, 0x88B5, 0x8915, 0xFFFF):
        yield Case(f"Ethertype {ethertype:#06x}", of(ethertype=ethertype), NOT_ROCE)
    yield Case("priority tag", of(tag=b"\x81\0\xe0\0"), WRITTEN)
    for vlan in (1, 100, 4095):
        yield Case(f"VLAN {vlan} that we are not in", of(tag=struct.pack("!HH", 0x8100, vlan)), dropped("rx_drop_not_for_us"))
    yield Case("two tags", of(tag=b"\x81\0\0\0\x81\0\0\0"), NOT_ROCE)
    yield Case("provider's tag", of(tag=b"\x88\xa8\0\1"), NOT_ROCE)
    for extra in range(1, 65):
        yield Case(f"{extra} bytes behind the datagram", of(late=lambda octets, n=extra: octets.extend(b"\xee" * n)), WRITTEN)
    length = 14 + (20 if family == 4 else 40) + 8 + 12 + 16 + BYTES + 4
    for keep in range(14, length):
        yield Case(f"cut after {keep} bytes", lambda maker, n=keep: maker.frame()[:n], TRUNCATED)
    for keep in range(14, 18):
        yield Case(f"tagged, cut after {keep} bytes", lambda maker, n=keep: maker.frame(tag=b"\x81\0\0\0")[:n], TRUNCATED)


def ipv4_cases():
    for version in range(16):
        if version != 4:
            yield Case(f"IP version {version}", of(ip=store(0, "!B", version << 4 | 5)), BAD_IP)
    for words in range(5):
        yield Case(f"IP header of {words} words", of(ip=store(0, "!B", 0x40 | words)), BAD_IP)
    for words in range(6, 16):
        def options(header, n=words):
            header[0] = 0x40 | n
            struct.pack_into("!H", header, 2, struct.unpack_from("!H", header, 2)[0] + 4 * (n - 5))
            header.extend(b"\1" * (4 * (n - 5)))
        yield Case(f"{4 * (words - 5)} bytes of IP options", of(ip=options, sealed=True), BAD_IP)
    for more in (1, 2, 100, 0x8000):
        yield Case(f"IP length {more} too much", of(ip=add(2, "!H", more)), TRUNCATED)
    for less in (1, 4, 16, 64):
        yield Case(f"IP length {less} too little", of(ip=add(2, "!H", -less)), MISMATCH)
    for length in (0, 1, 20, 27):
        yield Case(f"IP length {length}", of(ip=store(2, "!H", length)), TRUNCATED)
    for bits in (0x2000, 0x0001, 0x1FFF, 0x2001, 0x6000):
        yield Case(f"fragment bits {bits:#06x}", of(ip=store(6, "!H", bits)), dropped("rx_drop_fragmented"))
    for bits in (0x0000, 0x4000, 0x8000):
        yield Case(f"fragment bits {bits:#06x}", of(ip=store(6, "!H", bits)), WRITTEN)
    for bit in range(16):
        yield Case(f"IP checksum, bit {bit} flipped", of(ip=lambda header, n=bit: header.__setitem__(
            slice(10, 12), (ip_checksum(bytes(header[:10]) + b"\0\0" + bytes(header[12:])) ^ 1 << n).to_bytes(2, "big")),
            checksum=False), BAD_IP)
        yield Case(f"IP identification, bit {bit} flipped on the way", of(ip=flip(4 + bit // 8, bit % 8), sealed=True), BAD_ICRC)
    yield Case("another IP identification", of(ip=store(4, "!H", 0x1234)), WRITTEN)
    for protocol in range(256):
        if protocol != 17:
            yield Case(f"IP protocol {protocol}", of(ip=store(9, "!B", protocol)), NOT_ROCE)
    for source in ("10.77.0.201", "0.0.0.0", "255.255.255.255", "224.0.0.1", ADDRESSES[4][0], "127.0.0.1"):
        yield Case(f"from {source}", of(src=source), dropped("rx_drop_wrong_peer"))
    for target in ("10.77.0.10", "0.0.0.0", "255.255.255.255", "10.77.0.255", "224.0.0.1", ADDRESSES[4][1]):
        yield Case(f"to {target}", of(dst=target), dropped("rx_drop_not_for_us"))
    for tos in range(256):
        yield Case(f"TOS {tos:#04x} on the way", of(ip=store(1, "!B", tos), sealed=True), MARKED if tos & 3 == 3 else WRITTEN)


def ipv6_cases():
    for version in range(16):
        if version != 6:
            yield Case(f"IP version {version}", of(ip=store(0, "!B", version << 4)), BAD_IP)
    for more in (1, 2, 100, 0x8000):
        yield Case(f"payload length {more} too much", of(ip=add(4, "!H", more)), TRUNCATED)
    for less in (1, 4, 16, 64):
        yield Case(f"payload length {less} too little", of(ip=add(4, "!H", -less)), MISMATCH)
    for length in range(8):
        yield Case(f"payload length {length}", of(ip=store(4, "!H", length)), TRUNCATED)
    for protocol in range(256):
        if protocol != 17:
            yield Case(f"next header {protocol}", of(ip=store(6, "!B", protocol)), NOT_ROCE)
    for name, protocol in (("hop-by-hop options", 0), ("routing", 43), ("destination options", 60), ("fragment", 44)):
        def extended(header, number=protocol):
            header[6] = number
            struct.pack_into("!H", header, 4, struct.unpack_from("!H", header, 4)[0] + 8)
            header.extend(b"\x11" + (b"\0\0\1\0\0\0\7" if number == 44 else b"\0\1\4\0\0\0\0"))
        yield Case(f"{name} header", of(ip=extended, sealed=True), dropped("rx_drop_fragmented") if protocol == 44 else NOT_ROCE)
    for bit in range(20):
        yield Case(f"flow label, bit {bit}, on the way",
                   of(ip=lambda header, n=bit: flip(3 - n // 8, n % 8)(header), sealed=True), WRITTEN)
    for traffic_class in range(256):
        yield Case(f"traffic class {traffic_class:#04x} on the way",
                   of(ip=store(0, "!H", 0x6000 | traffic_class << 4), sealed=True), MARKED if traffic_class & 3 == 3 else WRITTEN)
    for source in ("fd77::201", "::", "::1", "ff02::1", "fe80::1", "::ffff:10.77.0.200", ADDRESSES[6][0]):
        yield Case(f"from {source}", of(src=source), dropped("rx_drop_wrong_peer"))
    for target in ("fd77::10", "::", "ff02::1", "::ffff:10.77.0.9", ADDRESSES[6][1]):
        # The last but one is a GID of ours, but not the address of this connection.
        name = "rx_drop_wrong_peer" if target.startswith("::ffff") else "rx_drop_not_for_us"
        yield Case(f"to {target}", of(dst=target), dropped(name))


def udp_cases(family):
    for ttl in (0, 1, 255):
        yield Case(f"TTL {ttl} on the way", of(ip=store(8 if family == 4 else 7, "!B", ttl), sealed=True), WRITTEN)
    for port in (0, 53, 4790, 4792, 0xB712, 65535):
        yield Case(f"to UDP port {port}", of(udp=store(2, "!H", port)), NOT_ROCE)
    for port in (0, 1, 4791, 65535):
        yield Case(f"from UDP port {port}", of(udp=store(0, "!H", port)), WRITTEN)
    for bit in range(16):
        yield Case(f"UDP source port, bit {bit} flipped on the way", of(udp=flip(bit // 8, bit % 8), sealed=True), BAD_ICRC)
    for length in (0, 7, 8, 23, 65535):
        yield Case(f"UDP length {length}", of(udp=store(4, "!H", length)), MISMATCH)
    for more in (-64, -1, 1, 64):
        yield Case(f"UDP length {more:+}", of(udp=add(4, "!H", more)), MISMATCH)
    for checksum in (1, 0x1234, 0xFFFF):  # the iCRC protects more, and does not cover it
        yield Case(f"UDP checksum {checksum:#06x}", of(udp=store(6, "!H", checksum), sealed=True), WRITTEN)


def bth_cases(live):
    for tver in range(1, 16):
        yield Case(f"TVer {tver}", writing(tver=tver), dropped("rx_drop_bad_tver"))
    for payload in range(3):
        for pad in range(payload + 1, 4):
            yield Case(f"pad {pad} of {payload} bytes", writing(payload=payload, pad=pad), dropped("rx_drop_bad_pad"))
    for pad in range(4):
        yield Case(f"pad {pad} of 8 bytes", writing(payload=8, pad=pad, length=8 - pad), WRITTEN)
    for pad in (0, 1, 2):
        yield Case(f"pad {pad} of 7 bytes", writing(payload=7, pad=pad, length=7 - pad), INVALID)
    yield Case("limited member", writing(pkey=0x7FFF), WRITTEN)
    for pkey in [0xFFFF ^ 1 << bit for bit in range(15)] + [0, 0x8000, 0x1234]:
        yield Case(f"P_Key {pkey:#06x}", writing(pkey=pkey), dropped("rx_drop_bad_pkey"))
    for bit in range(8):
        yield Case(f"resv8a, bit {bit}, on the way", of(late=flip(4, bit)), WRITTEN)
        yield Case(f"resv8a, bit {bit}", writing(resv8a=1 << bit), WRITTEN)
    for bit in range(7):
        yield Case(f"resv7, bit {bit}", writing(resv7=1 << bit), WRITTEN)
    yield Case("solicited", writing(solicited=True), WRITTEN)
    yield Case("MigReq 0", writing(mig_req=False), WRITTEN)
    yield Case("no ACK asked for", writing(ack=False), Outcome("written", {"rx_write_requests": 1}))
    past = Outcome("ACK again", {"duplicate_request": 1, "sent_acks": 1}, ("ACK", THEIR_PSN - 1, (0, 0)))
    future = Outcome("NAK: out of sequence", {"out_of_sequence": 1, "sent_naks": 1}, ("NAK", THEIR_PSN, (0, 0)))
    for psn in [THEIR_PSN ^ 1 << bit for bit in range(24)] + [THEIR_PSN - 1, THEIR_PSN - (1 << 23) + 1]:
        ahead = (psn - THEIR_PSN) % (1 << 24)
        yield Case(f"PSN {psn & 0xFFFFFF:#08x}", writing(psn=psn), future if ahead < 1 << 23 else past)
    for bit in range(24):
        def astray(maker, n=bit):
            frame = maker.write()
            number = struct.unpack_from("!I", frame, 4)[0] ^ 1 << n
            if number in live:  # by chance it exists
                number = 0xFFFFFF
            return maker.frame(frame[:4] + struct.pack("!I", number) + frame[8:])
        yield Case(f"QP number, bit {bit} flipped", astray, dropped("rx_drop_no_qp"))


def icrc_cases():
    length = 12 + 16 + BYTES + 4
    for at in range(12, length):
        for bit in range(8):
            where = "iCRC" if at >= length - 4 else f"byte {at} after UDP"
            yield Case(f"{where}, bit {bit} flipped on the way", of(late=flip(at, bit)), BAD_ICRC)
    for at, bits in ((1, 0xF0), (2, 0x80), (8, 0xFF), (9, 0xFF), (10, 0xFF), (11, 0xFF)):  # checked after the iCRC
        for bit in range(8):
            if bits >> bit & 1:
                yield Case(f"BTH byte {at}, bit {bit} flipped on the way", of(late=flip(at, bit)), BAD_ICRC)
    for value in (b"\0\0\0\0", b"\xff\xff\xff\xff"):
        yield Case(f"iCRC {value.hex()}", of(late=lambda octets, v=value: octets.__setitem__(slice(-4, None), v)), BAD_ICRC)
    yield Case("iCRC in the other byte order",
               of(late=lambda octets: octets.__setitem__(slice(-4, None), octets[:-5:-1])), BAD_ICRC)


def memory_cases(region):
    for bit in range(32):
        yield Case(f"rkey, bit {bit} flipped", writing(rkey=1 << bit), NO_ACCESS)
    for offset in (-1, -BYTES, region - BYTES + 1, region, 1 << 32, 1 << 63):
        yield Case(f"WRITE at region {offset:+}", writing(va=offset), NO_ACCESS)
    yield Case("WRITE at the region's end", writing(va=region - BYTES), WRITTEN)
    yield Case("WRITE around 2**64", lambda maker: maker.frame(
        bth(WRITE, maker.qp.qpn, THEIR_PSN) + reth(2**64 - BYTES + 1, maker.rig.rkey, BYTES) + bytes(BYTES)), NO_ACCESS)
    yield Case("WRITE of nothing, with any key", writing(payload=0, rkey=0xFF, va=1 << 40), WRITTEN)
    for length in (0, BYTES - 1, BYTES + 1, 1 << 31, (1 << 31) + 1, 0xFFFFFFFF):
        yield Case(f"WRITE that announces {length} bytes", writing(length=length), INVALID)
    for length in (0, 1, MTU - 1, MTU, (1 << 31) + 1, 0xFFFFFFFF):
        yield Case(f"WRITE FIRST that announces {length} bytes", writing(opcode=WRITE_FIRST, payload=MTU, length=length), INVALID)
    yield Case("WRITE FIRST that announces 2**31 bytes", writing(opcode=WRITE_FIRST, payload=MTU, length=1 << 31), NO_ACCESS)

    def read(length, rkey=0, va=0):
        return lambda maker: maker.frame(bth(READ, maker.qp.qpn, THEIR_PSN) +
                                         reth(maker.rig.va + va, maker.rig.rkey ^ rkey, length))

    def answered(length):
        return Outcome("READ response", {"rx_read_requests": 1}, ("RDMA_READ_RESPONSE_ONLY", THEIR_PSN, (length,)))

    for length in (1, 3, MTU):
        yield Case(f"READ of {length}", read(length), answered(length))
    yield Case("READ of nothing, with any key", read(0, rkey=0xFF, va=1 << 40), answered(0))
    for bit in range(32):
        yield Case(f"READ, rkey, bit {bit} flipped", read(8, rkey=1 << bit), NO_ACCESS)
    for offset, length in ((-1, 8), (region - 7, 8), (0, region + 1), (0, 1 << 31), (1 << 63, 1)):
        yield Case(f"READ of {length} at region {offset:+}", read(length, va=offset), NO_ACCESS)
    for length in ((1 << 31) + 1, 0xFFFFFFFF):
        yield Case(f"READ of {length}", read(length), INVALID)

    def atomic(va, rkey=0):
        return lambda maker: maker.frame(bth(COMPARE_SWAP, maker.qp.qpn, THEIR_PSN) +
                                         atomic_eth(maker.rig.va + va, maker.rig.rkey ^ rkey))

    # The region begins where the target's allocator put it, at a multiple of 16.
    yield Case("atomic", atomic(1024),
               Outcome("atomic response", {"rx_atomic_requests": 1}, ("ATOMIC_ACKNOWLEDGE", THEIR_PSN, ())))
    for odd in range(1, 8):
        yield Case(f"atomic, {odd} bytes off", atomic(1024 + odd), INVALID)
    for offset in (-8, region, 1 << 62):
        yield Case(f"atomic at region {offset:+}", atomic(offset), NO_ACCESS)
    for bit in range(32):
        yield Case(f"atomic, rkey, bit {bit} flipped", atomic(1024, rkey=1 << bit), NO_ACCESS)
    inval = by_name(RC, "SEND_ONLY_WITH_INVALIDATE").value
    for name, key in (("of a plain region", 0), ("of nobody", 0x5500)):
        yield Case(f"SEND with Invalidate {name}", lambda maker, k=key: maker.frame(
            bth(inval, maker.qp.qpn, THEIR_PSN) + struct.pack("!I", maker.rig.rkey ^ k) + bytes(8)), NOT_INVALIDATED)


def answer_cases():
    for syndrome in range(256):
        kind, value = syndrome >> 5 & 3, syndrome & 0x1F
        reserved = kind == 2 or kind == 3 and value > 3
        outcome = dropped("rx_drop_reserved_syndrome" if reserved else "rx_drop_ghost_ack")
        yield Case(f"ACK of nothing, syndrome {syndrome:#04x}", lambda maker, s=syndrome: maker.frame(
            bth(ACK, maker.qp.qpn, OUR_PSN + 9) + aeth(s, 1)), outcome)
        if kind != 0:
            yield Case(f"READ response, syndrome {syndrome:#04x}", lambda maker, s=syndrome: maker.frame(
                bth(READ_RESPONSE, maker.qp.qpn, OUR_PSN + 9) + aeth(s, 1) + bytes(8)), dropped("rx_drop_reserved_syndrome"))


def datagram_cases():
    def datagram(qkey=0, payload=8, source=0x300, **header):
        return lambda maker: maker.frame(bth(UD_SEND, maker.qp.qpn, THEIR_PSN, **header) + deth(QKEY ^ qkey, source) +
                                         bytes(payload))

    for bit in range(32):
        yield Case(f"Q_Key, bit {bit} flipped", datagram(1 << bit), dropped("rx_drop_bad_qkey"), "ud")
    for source in (0, 1, 0xFFFFFF, 0xFF000300):
        yield Case(f"from QP {source:#x}", datagram(source=source), DELIVERED, "ud")
    yield Case("longer than the MTU", datagram(payload=PORT_MTU + 4), dropped("rx_drop_ud_length"), "ud")
    yield Case("as long as the MTU", datagram(payload=PORT_MTU), Outcome("delivered", {"rx_sends": 1}, completions=(
        (WC_RECV, SUCCESS, PORT_MTU + 40),)), "ud")
    yield Case("UD, other P_Key", datagram(pkey=0x1234), dropped("rx_drop_bad_pkey"), "ud")
    yield Case("UD, iCRC", lambda maker: maker.frame(
        bth(UD_SEND, maker.qp.qpn, THEIR_PSN) + deth(QKEY, 1) + bytes(8), late=flip(-1, 0)), BAD_ICRC, "ud")
    yield Case("UD, from anybody", lambda maker: maker.frame(
        bth(UD_SEND, maker.qp.qpn, THEIR_PSN) + deth(QKEY, 1) + bytes(8),
        src="10.77.0.201" if maker.family == 4 else "fd77::201"), DELIVERED, "ud")


def state_cases():
    for state, number in (("reset", 0), ("init", 1), ("rtr", 2), ("error", ERROR)):
        here = dataclasses.replace(dropped("rx_drop_qp_state"), state=number)
        for kind in ("rc", "ud"):
            good = dataclasses.replace(WRITTEN if kind == "rc" else DELIVERED, state=number)
            request = of() if kind == "rc" else lambda maker: maker.frame(
                bth(UD_SEND, maker.qp.qpn, THEIR_PSN) + deth(QKEY, 1) + bytes(8))
            yield Case(f"{kind} request in {state}", request, good if state == "rtr" else here, kind, state)
        yield Case(f"response in {state}", lambda maker: maker.frame(bth(ACK, maker.qp.qpn, OUR_PSN) + aeth(0x1F, 1)), here,
                   "rc", state)


def neighbour_cases(family):
    """Frames that are not RoCE at all: `build` ignores the queue pair."""
    own, _ = ADDRESSES[family]
    somebody = "10.77.0.250" if family == 4 else "fd77::250"
    link = mac_bytes(OUR_MAC)

    def ethernet(maker, body, ethertype):
        return mac_bytes(maker.rig.mac) + link + struct.pack("!H", ethertype) + body

    def ping(maker, source, target, kind, change=None, hop_limit=64, data=bytes(32)):
        message = bytearray(bytes([kind, 0, 0, 0, 0, 7, 0, 9]) + data)
        addresses = address_bytes(source) + address_bytes(target)
        pseudo = b"" if family == 4 else addresses + struct.pack("!II", len(message), 58)
        struct.pack_into("!H", message, 2, internet_checksum(pseudo + bytes(message)))
        if change is not None:
            change(message)
        path = dataclasses.replace(maker.rig.path(family), src=source, dst=target, ttl=hop_limit)
        return path.ethernet() + path.ip(len(message), 1 if family == 4 else 58) + bytes(message)

    request, reply = (8, 0) if family == 4 else (128, 129)
    yield Case("ping", lambda maker: ping(maker, somebody, own, request), Outcome("answered", {"echo_replies": 1}))
    yield Case("ping to somebody else", lambda maker: ping(maker, somebody, somebody, request), NOT_ROCE)
    yield Case("ping reply that nobody asked for", lambda maker: ping(maker, somebody, own, reply), NOT_ROCE)
    for at in (2, 3, 4, 20):
        yield Case(f"ping, byte {at} damaged", lambda maker, n=at: ping(maker, somebody, own, request, flip(n, 3)), NOT_ROCE)
    for kind in range(256):
        if kind != request and not (family == 6 and kind in (135, 136)):
            yield Case(f"ICMP type {kind}", lambda maker, n=kind: ping(maker, somebody, own, n), NOT_ROCE)
    if family == 4:
        def arp(change=None, target=own, source=somebody):
            body = bytearray(bytes.fromhex("0001080006040001") + link + address_bytes(source) + bytes(6) + address_bytes(target))
            if change is not None:
                change(body)
            return lambda maker: ethernet(maker, bytes(body), 0x0806)
        yield Case("ARP request", arp(), Outcome("answered", {"arp_rx": 1}))
        yield Case("ARP for somebody else, by one that we know", arp(target="10.77.0.99"), Outcome("heard", {"arp_rx": 1}))
        yield Case("ARP for somebody else", arp(target="10.77.0.99", source="10.77.0.251"), NOT_ROCE)
        yield Case("ARP by somebody who has our address", arp(target="10.77.0.99", source=own),
                   Outcome("conflict", {"arp_rx": 1, "address_conflicts": 1}))
        for at, name in ((0, "hardware type"), (2, "protocol type"), (4, "hardware length"), (5, "protocol length")):
            yield Case(f"ARP, {name}", arp(flip(at, 6)), NOT_ROCE)
        for operation in (0, 3, 8, 0x100):
            yield Case(f"ARP operation {operation}", arp(store(6, "!H", operation)), NOT_ROCE)
        for keep in range(28):
            yield Case(f"ARP of {keep} bytes", lambda maker, n=keep: arp()(maker)[:14 + n], NOT_ROCE)
    else:
        def solicitation(change=None, hop_limit=255, target=own, option=b"\1\1" + link):
            def build(maker):
                data = address_bytes(target) + option
                return ping(maker, somebody, own, 135, change, hop_limit, data)
            return build

        def clear(message):
            """Zeroes identifier and sequence of a former ping: here they are reserved."""
            old = struct.unpack_from("!HHH", message, 2)
            message[4:8] = bytes(4)
            total = (~old[0] & 0xFFFF) + (~old[1] & 0xFFFF) + (~old[2] & 0xFFFF)
            while total >> 16:
                total = (total & 0xFFFF) + (total >> 16)
            struct.pack_into("!H", message, 2, ~total & 0xFFFF)
        yield Case("neighbour solicitation", solicitation(clear), Outcome("answered", {"nd_rx": 1}))
        yield Case("solicitation, hop limit 254", solicitation(clear, hop_limit=254), NOT_ROCE)
        yield Case("solicitation for somebody else", solicitation(clear, target="fd77::99"), NOT_ROCE)
        yield Case("solicitation of a group", solicitation(clear, target="ff02::1"), NOT_ROCE)
        yield Case("solicitation, option of length 0", solicitation(clear, option=b"\1\0" + link), NOT_ROCE)
        yield Case("solicitation, option beyond the end", solicitation(clear, option=b"\1\2" + link), NOT_ROCE)
        yield Case("solicitation, damaged", solicitation(flip(12, 1)), NOT_ROCE)
    generator = random.Random(family)
    for number in range(64):
        body = generator.randbytes(generator.randrange(0, 200))
        ethertype = (0x0806, 0x88CC, 0x8809)[number % 3]
        yield Case(f"rubbish {number}", lambda maker, b=body, e=ethertype: ethernet(maker, b, e), NOT_ROCE)


def run(uroce, target, log):
    with harness.running(uroce, target, log) as rig:
        trial = Trial(rig)
        for family in (4, 6):
            cases = [*link_cases(family), *(ipv4_cases() if family == 4 else ipv6_cases()), *udp_cases(family),
                     *bth_cases(trial.live), *icrc_cases(), *memory_cases(rig.region_bytes), *answer_cases(), *datagram_cases(),
                     *state_cases(), *neighbour_cases(family)]
            for kind, state in sorted({(case.kind, case.state) for case in cases}):
                def aim(some, kind=kind, state=state, family=family):
                    qps = trial.fresh(kind, len(some), family, state)
                    return [Shot(f"IPv{family}: {case.name}", case.build(Maker(rig, qp, family)), case.outcome, qp)
                            for qp, case in zip(qps, some)]
                trial.run(aim, [case for case in cases if (case.kind, case.state) == (kind, state)], 100)
    return trial


if __name__ == "__main__":
    sys.exit(harness.main(run))
