"""Classic pcap files in memory, and edits of the RoCEv2 packets in them that keep the iCRC right."""

import pathlib
import struct
import zlib

ACK, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ATOMIC_ACK = 0x11, 0x0D, 0x0E, 0x0F, 0x10, 0x12
RESPONSES = {ACK, READ_FIRST, READ_MIDDLE, READ_LAST, READ_ONLY, ATOMIC_ACK}
WITH_AETH = RESPONSES - {READ_MIDDLE}


class Packet:
    def __init__(self, header: bytes, data: bytes):
        self.header, self.data = header, bytearray(data)

    @property
    def ipv6(self) -> bool:
        return self.data[12:14] == b"\x86\xdd"

    @property
    def bth(self) -> int:
        return 14 + (40 if self.ipv6 else 20) + 8

    @property
    def opcode(self) -> int:
        return self.data[self.bth]

    @property
    def psn(self) -> int:
        return int.from_bytes(self.data[self.bth + 9 : self.bth + 12], "big")

    @property
    def dest_qp(self) -> int:
        return int.from_bytes(self.data[self.bth + 5 : self.bth + 8], "big")

    @property
    def is_rc(self) -> bool:
        return self.opcode >> 5 == 0

    @property
    def is_response(self) -> bool:
        return self.opcode in RESPONSES

    @property
    def syndrome(self) -> int:
        return self.data[self.bth + 12]

    @property
    def payload(self) -> slice:
        """Of READ responses, and of requests without extension headers."""
        extension = 4 if self.opcode in (READ_FIRST, READ_LAST, READ_ONLY) else 0
        return slice(self.bth + 12 + extension, len(self.data) - 4)

    def icrc(self) -> bytes:
        masked = bytearray(self.data[14:-4])
        udp = 40 if self.ipv6 else 20
        if self.ipv6:
            masked[0] |= 0x0F
            masked[1:4] = b"\xff\xff\xff"
            masked[7] = 0xFF
        else:
            masked[1] = masked[8] = 0xFF
            masked[10:12] = b"\xff\xff"
        masked[udp + 6 : udp + 8] = b"\xff\xff"
        masked[udp + 8 + 4] = 0xFF
        return struct.pack("<I", zlib.crc32(b"\xff" * 8 + masked))

    def seal(self):
        self.data[-4:] = self.icrc()

    def seal_ip(self):
        """Recomputes the IPv4 header's checksum."""
        self.data[24:26] = b"\0\0"
        total = sum(struct.unpack(">10H", self.data[14:34]))
        total = (total & 0xFFFF) + (total >> 16)
        self.data[24:26] = struct.pack(">H", ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF)
        self.seal()

    def set_psn(self, psn: int):
        self.data[self.bth + 9 : self.bth + 12] = (psn & 0xFFFFFF).to_bytes(3, "big")
        self.seal()

    def add(self, offset: int, width: int, step: int = 1):
        """Adds to a big-endian field `offset` bytes after the beginning of the BTH."""
        at = self.bth + offset
        value = int.from_bytes(self.data[at : at + width], "big") + step
        self.data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "big")
        self.seal()

    def copy(self) -> "Packet":
        return Packet(self.header, bytes(self.data))


def load(path: pathlib.Path):
    """The file's header and its packets; little-endian pcap only."""
    content = path.read_bytes()
    assert content[:4] in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1"), path
    packets, at = [], 24
    while at < len(content):
        length = struct.unpack_from("<I", content, at + 8)[0]
        packets.append(Packet(content[at : at + 8], content[at + 16 : at + 16 + length]))
        at += 16 + length
    return content[:24], packets


def save(path: pathlib.Path, header: bytes, packets):
    path.write_bytes(header + b"".join(
        p.header + struct.pack("<II", len(p.data), len(p.data)) + bytes(p.data) for p in packets))
