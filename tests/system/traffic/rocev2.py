"""RoCEv2 frames as bytes, and the opcode table as the specification has it. Knows nothing of the code under test.

Fast enough for a hundred thousand frames; Scapy's own builder judges samples (see `matrix.py`).
"""

import dataclasses
import socket
import struct
import zlib

PORT = 4791
MTU = 256  # path MTU of all connections in these tests

RC, UC, RD, UD, XRC = 0, 1, 2, 3, 5
CNP = 0x81

# Lower five bits of the opcode: name, headers after the BTH, whether it may carry payload, place in the message.
_ONLY, _FIRST, _MIDDLE, _LAST = "only", "first", "middle", "last"
_OPERATIONS = {
    0x00: ("SEND_FIRST", (), True, _FIRST),
    0x01: ("SEND_MIDDLE", (), True, _MIDDLE),
    0x02: ("SEND_LAST", (), True, _LAST),
    0x03: ("SEND_LAST_WITH_IMMEDIATE", ("imm",), True, _LAST),
    0x04: ("SEND_ONLY", (), True, _ONLY),
    0x05: ("SEND_ONLY_WITH_IMMEDIATE", ("imm",), True, _ONLY),
    0x06: ("RDMA_WRITE_FIRST", ("reth",), True, _FIRST),
    0x07: ("RDMA_WRITE_MIDDLE", (), True, _MIDDLE),
    0x08: ("RDMA_WRITE_LAST", (), True, _LAST),
    0x09: ("RDMA_WRITE_LAST_WITH_IMMEDIATE", ("imm",), True, _LAST),
    0x0A: ("RDMA_WRITE_ONLY", ("reth",), True, _ONLY),
    0x0B: ("RDMA_WRITE_ONLY_WITH_IMMEDIATE", ("reth", "imm"), True, _ONLY),
    0x0C: ("RDMA_READ_REQUEST", ("reth",), False, _ONLY),
    0x0D: ("RDMA_READ_RESPONSE_FIRST", ("aeth",), True, _FIRST),
    0x0E: ("RDMA_READ_RESPONSE_MIDDLE", (), True, _MIDDLE),
    0x0F: ("RDMA_READ_RESPONSE_LAST", ("aeth",), True, _LAST),
    0x10: ("RDMA_READ_RESPONSE_ONLY", ("aeth",), True, _ONLY),
    0x11: ("ACKNOWLEDGE", ("aeth",), False, _ONLY),
    0x12: ("ATOMIC_ACKNOWLEDGE", ("aeth", "atomic_ack"), False, _ONLY),
    0x13: ("COMPARE_SWAP", ("atomic",), False, _ONLY),
    0x14: ("FETCH_ADD", ("atomic",), False, _ONLY),
    0x16: ("SEND_LAST_WITH_INVALIDATE", ("ieth",), True, _LAST),
    0x17: ("SEND_ONLY_WITH_INVALIDATE", ("ieth",), True, _ONLY),
    0x1C: ("FLUSH", ("feth", "reth"), False, _ONLY),
    0x1D: ("ATOMIC_WRITE", ("reth",), True, _ONLY),
}
HEADER_BYTES = {"imm": 4, "reth": 16, "aeth": 4, "atomic_ack": 8, "atomic": 28, "ieth": 4, "deth": 8, "xrceth": 4, "cnp": 16, "feth": 4}
_RESPONSES = range(0x0D, 0x13)


@dataclasses.dataclass(frozen=True)
class Opcode:
    """`service` None: CNP. Reliable datagram opcodes are reserved on RoCE, as are those that are in no table."""

    value: int
    name: str
    service: int | None
    headers: tuple
    payload: bool
    place: str

    @property
    def low(self):
        return self.value & 0x1F

    @property
    def header_bytes(self):
        return sum(HEADER_BYTES[header] for header in self.headers)

    @property
    def response(self):
        return self.service is not None and self.low in _RESPONSES

    @property
    def begins(self):
        return self.place in (_ONLY, _FIRST)

    @property
    def ends(self):
        return self.place in (_ONLY, _LAST)

    @property
    def kind(self):
        """send, write, read, atomic, flush, atomic write; ack, response, atomic response; cnp"""
        if self.service is None:
            return "cnp"
        if self.name.startswith("SEND"):
            return "send"
        if self.name.startswith("RDMA_WRITE"):
            return "write"
        return {0x0C: "read", 0x11: "ack", 0x12: "atomic response", 0x13: "atomic", 0x14: "atomic",
                0x1C: "flush", 0x1D: "atomic write"}.get(self.low, "response")


def _table():
    table = {CNP: Opcode(CNP, "CNP", None, ("cnp",), False, _ONLY)}
    for low, (name, headers, payload, place) in _OPERATIONS.items():
        table[low] = Opcode(low, name, RC, headers, payload, place)
        if low in (0x1C, 0x1D):
            continue  # XRC has them, too, but without assigned numbers
        extended = headers if low in _RESPONSES else ("xrceth", *headers)
        table[XRC << 5 | low] = Opcode(XRC << 5 | low, name, XRC, extended, payload, place)
        if low <= 0x0B:
            table[UC << 5 | low] = Opcode(UC << 5 | low, name, UC, headers, payload, place)
        if low in (0x04, 0x05):
            table[UD << 5 | low] = Opcode(UD << 5 | low, name, UD, ("deth", *headers), payload, place)
    return table


OPCODES = _table()


def by_name(service, name):
    return next(op for op in OPCODES.values() if op.service == service and op.name == name)


def _sum16(data):
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def internet_checksum(data):
    return ~_sum16(data + b"\0" * (len(data) % 2)) & 0xFFFF


def ip_checksum(header):
    return ~_sum16(header) & 0xFFFF


def mac_bytes(text):
    return bytes.fromhex(text.replace(":", ""))


def is_ipv6(address):
    return ":" in address


def address_bytes(address):
    return socket.inet_pton(socket.AF_INET6 if is_ipv6(address) else socket.AF_INET, address)


@dataclasses.dataclass
class Path:
    """Source and destination, and the wire."""

    src_mac: str
    dst_mac: str
    src: str
    dst: str
    udp_src: int = 49152
    vlan: int | None = None
    tos: int = 0
    ttl: int = 64
    flow_label: int = 0

    def ethernet(self):
        ethertype = 0x86DD if is_ipv6(self.src) else 0x0800
        tag = b"" if self.vlan is None else struct.pack("!HH", 0x8100, self.vlan)
        return mac_bytes(self.dst_mac) + mac_bytes(self.src_mac) + tag + struct.pack("!H", ethertype)

    def ip(self, payload_bytes, protocol=17):
        addresses = address_bytes(self.src) + address_bytes(self.dst)
        if is_ipv6(self.src):
            return struct.pack("!IHBB", 6 << 28 | self.tos << 20 | self.flow_label, payload_bytes, protocol, self.ttl) + addresses
        head = struct.pack("!BBHHHBB", 0x45, self.tos, 20 + payload_bytes, 0, 0x4000, self.ttl, protocol)
        return head + struct.pack("!H", ip_checksum(head + addresses)) + addresses

    def frame(self, transport):
        """`transport`: BTH and what follows, without the iCRC."""
        udp = struct.pack("!HHHH", self.udp_src, PORT, 8 + len(transport) + 4, 0)
        ip = self.ip(len(udp) + len(transport) + 4)
        return self.ethernet() + ip + udp + transport + icrc(ip, udp, transport)


def icrc(ip, udp, transport):
    """The invariant CRC, by zlib, with ones in the fields that routers may write."""
    masked = bytearray(ip)
    if ip[0] >> 4 == 6:
        masked[0:4] = bytes([ip[0] | 0x0F, 0xFF, 0xFF, 0xFF])
        masked[7] = 0xFF
    else:
        masked[1] = masked[8] = masked[10] = masked[11] = 0xFF
    crc = zlib.crc32(b"\xff" * 8 + masked + udp[:6] + b"\xff\xff" + transport[:4] + b"\xff" + transport[5:])
    return struct.pack("<I", crc)


def bth(opcode, qpn, psn, pad=0, ack=True, pkey=0xFFFF, tver=0, solicited=False, mig_req=True, resv8a=0, resv7=0):
    flags = solicited << 7 | mig_req << 6 | pad << 4 | tver
    return struct.pack("!BBHII", opcode, flags, pkey, resv8a << 24 | qpn, ack << 31 | resv7 << 24 | (psn & 0xFFFFFF))


def reth(va, rkey, length):
    return struct.pack("!QII", va & (1 << 64) - 1, rkey, length)


def aeth(syndrome, msn):
    return struct.pack("!I", syndrome << 24 | msn)


def atomic_eth(va, rkey, swap_add=1, compare=0):
    return struct.pack("!QIQQ", va, rkey, swap_add, compare)


def deth(qkey, src_qp):
    return struct.pack("!II", qkey, src_qp)


@dataclasses.dataclass(frozen=True)
class Answer:
    """The contents of a frame of the endpoint, as far as these tests need them."""

    qpn: int
    psn: int
    name: str
    detail: tuple = ()  # ACK, NAK: syndrome class, value and MSN; READ response: payload bytes
    intact: bool = True  # addresses, lengths and iCRC are right


def read_answer(frame):
    """None: not RoCEv2."""
    at = 18 if frame[12:14] == b"\x81\x00" else 14
    six = frame[at - 2:at] == b"\x86\xdd"
    if not six and frame[at - 2:at] != b"\x08\x00":
        return None
    ip_bytes = 40 if six else 20
    ip, udp = frame[at:at + ip_bytes], frame[at + ip_bytes:at + ip_bytes + 8]
    if (ip[6] if six else ip[9]) != 17 or struct.unpack("!H", udp[2:4])[0] != PORT:
        return None
    datagram = struct.unpack("!H", udp[4:6])[0]
    transport = frame[at + ip_bytes + 8:at + ip_bytes + datagram - 4]
    stored = frame[at + ip_bytes + datagram - 4:at + ip_bytes + datagram]
    intact = icrc(ip, udp, transport) == stored and (six or ip_checksum(ip) == 0)
    opcode = OPCODES[transport[0]]
    pad = transport[1] >> 4 & 3
    qpn, psn = (struct.unpack("!I", transport[at4:at4 + 4])[0] & 0xFFFFFF for at4 in (4, 8))
    detail = ()
    if opcode.kind == "ack":
        word = struct.unpack("!I", transport[12:16])[0]
        kind = ("ACK", "RNR NAK", "reserved", "NAK")[word >> 29 & 3]
        return Answer(qpn, psn, kind, ((word >> 24 & 0x1F) if kind != "ACK" else 0, word & 0xFFFFFF), intact)
    if opcode.kind == "response":
        detail = (len(transport) - 12 - opcode.header_bytes - pad,)
    return Answer(qpn, psn, opcode.name, detail, intact)
