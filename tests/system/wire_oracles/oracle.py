"""What the wire oracles share: our tool, pcap files, tshark, and packets built by somebody else's code.

A packet in values is a dict as wire_dump prints it. Numbers are numbers, addresses are text, the payload is hex.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import zlib

sys.dont_write_bytecode = True

SKIP = 77  # meson's exit status for "could not run here"

CNP = 0x81
# From the specification: which extension headers follow the BTH, in order. Not taken from the code under test.
RETH, AETH, ATOMIC, ATOMIC_ACK, IMM, IETH, DETH = "reth", "aeth", "atomic", "atomic_ack", "imm", "ieth", "deth"
RELIABLE = {
    0x00: [], 0x01: [], 0x02: [], 0x03: [IMM], 0x04: [], 0x05: [IMM],
    0x06: [RETH], 0x07: [], 0x08: [], 0x09: [IMM], 0x0a: [RETH], 0x0b: [RETH, IMM],
    0x0c: [RETH], 0x0d: [AETH], 0x0e: [], 0x0f: [AETH], 0x10: [AETH], 0x11: [AETH], 0x12: [AETH, ATOMIC_ACK],
    0x13: [ATOMIC], 0x14: [ATOMIC], 0x16: [IETH], 0x17: [IETH],
}
EXTENSIONS = {
    **RELIABLE,
    **{0x20 + low: headers for low, headers in RELIABLE.items() if low <= 0x0b},
    0x64: [DETH], 0x65: [DETH, IMM],
}
NO_PAYLOAD = {0x0c, 0x11, 0x12, 0x13, 0x14, CNP}


class Mismatch(Exception):
    pass


def require(*programs):
    for program in programs:
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(SKIP)


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def wire_dump(tool, direction, path):
    return [json.loads(line) for line in run([str(tool), direction, str(path)]).splitlines()]


def read_pcap(path):
    data = pathlib.Path(path).read_bytes()
    if data[:4] != b"\xd4\xc3\xb2\xa1":
        raise Mismatch(f"{path} is not a little-endian pcap")
    frames, at = [], 24
    while at < len(data):
        length = struct.unpack_from("<I", data, at + 8)[0]
        frames.append(data[at + 16:at + 16 + length])
        at += 16 + length
    return frames


def write_pcap(path, frames):
    with open(path, "wb") as file:
        file.write(struct.pack("<IHHIIII", 0xa1b2c3d4, 2, 4, 0, 0, 65535, 1))
        for index, frame in enumerate(frames):
            file.write(struct.pack("<IIII", 0, index, len(frame), len(frame)) + frame)


def extension_bytes(values):
    """The extension headers of a packet, packed here from the specification's layouts."""
    if values["opcode"] == CNP:
        return bytes(16)
    layouts = {
        RETH: lambda v: struct.pack("!QII", v["va"], v["rkey"], v["dma_length"]),
        AETH: lambda v: struct.pack("!I", v["syndrome"] << 24 | v["msn"]),
        ATOMIC: lambda v: struct.pack("!QIQQ", v["va"], v["rkey"], v["swap_add"], v["compare"]),
        ATOMIC_ACK: lambda v: struct.pack("!Q", v["original"]),
        IMM: lambda v: struct.pack("!I", v["imm"]),
        IETH: lambda v: struct.pack("!I", v["ieth"]),
        DETH: lambda v: struct.pack("!II", v["qkey"], v["src_qp"]),
    }
    return b"".join(layouts[header](values) for header in EXTENSIONS[values["opcode"]])


def icrc(frame):
    """The iCRC of a frame, byte by byte from the specification, with zlib's CRC."""
    ip_at = 18 if frame[12:14] == b"\x81\x00" else 14
    if frame[ip_at] >> 4 == 4:
        ip_bytes, end = 20, ip_at + struct.unpack_from("!H", frame, ip_at + 2)[0]
    else:
        ip_bytes, end = 40, ip_at + 40 + struct.unpack_from("!H", frame, ip_at + 4)[0]
    covered = bytearray(frame[ip_at:end - 4])
    if ip_bytes == 20:
        masked = [1, 8, 10, 11]
    else:
        masked = [1, 2, 3, 7]
        covered[0] |= 0x0f
    for at in masked + [ip_bytes + 6, ip_bytes + 7, ip_bytes + 8 + 4]:
        covered[at] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + covered)), frame[end - 4:end]


def scapy_frame(values):
    """The whole frame, built by Scapy: Ethernet, VLAN, IP, UDP and BTH are its own. The iCRC too over IPv4; Scapy 2.5
    computes none over IPv6, so there it is zlib's."""
    from scapy.contrib.roce import BTH
    from scapy.layers.inet import IP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.packet import Raw

    link = Ether(src=values["src_mac"], dst=values["dst_mac"])
    if values["vlan_id"]:
        link = link / Dot1Q(vlan=values["vlan_id"], prio=values["pcp"])
    if values["ip_version"] == 4:
        ip = IP(src=values["src_ip"], dst=values["dst_ip"], tos=values["traffic_class"], ttl=values["hop_limit"],
                flags="DF", id=0)
    else:
        ip = IPv6(src=values["src_ip"], dst=values["dst_ip"], tc=values["traffic_class"], fl=values["flow_label"],
                  hlim=values["hop_limit"])
    resv8a = values["resv8a"]
    bth = BTH(opcode=values["opcode"], solicited=int(values["solicited"]), migreq=int(values["mig_req"]),
              padcount=values["pad_count"], version=values["tver"], pkey=values["pkey"], fecn=resv8a >> 7,
              becn=resv8a >> 6 & 1, resv6=resv8a & 0x3f, dqpn=values["dest_qp"], ackreq=int(values["ack_req"]),
              resv7=values["resv7"], psn=values["psn"])
    if values["ip_version"] == 6:
        bth.icrc = 0
    body = extension_bytes(values) + bytes.fromhex(values["payload"]) + bytes(values["pad_count"])
    frame = bytes(link / ip / UDP(sport=values["udp_src_port"], dport=4791, chksum=0) / bth / Raw(body))
    if values["ip_version"] == 6:
        frame = frame[:-4] + icrc(frame)[0]
    return frame


# tshark's names for the fields, and how to compare: our value from tshark's text.
def _number(text):
    return int(text, 0)


def _bytes(text):
    return int(text, 16)


def _flag(text):
    return text in ("1", "True")


TSHARK_FIELDS = {
    "src_mac": ("eth.src", str), "dst_mac": ("eth.dst", str),
    "udp_src_port": ("udp.srcport", _number),
    "opcode": ("infiniband.bth.opcode", _number), "solicited": ("infiniband.bth.se", _flag),
    "mig_req": ("infiniband.bth.m", _flag), "pad_count": ("infiniband.bth.padcnt", _number),
    "tver": ("infiniband.bth.tver", _number), "pkey": ("infiniband.bth.p_key", _number),
    "dest_qp": ("infiniband.bth.destqp", _number), "ack_req": ("infiniband.bth.a", _flag),
    "psn": ("infiniband.bth.psn", _number),
    "qkey": ("infiniband.deth.q_key", _number), "src_qp": ("infiniband.deth.srcqp", _number),
    "va": ("infiniband.reth.va", _number), "rkey": ("infiniband.reth.r_key", _number),
    "dma_length": ("infiniband.reth.dmalen", _number),
    "swap_add": ("infiniband.atomiceth.swapdt", _number), "compare": ("infiniband.atomiceth.cmpdt", _number),
    "syndrome": ("infiniband.aeth.syndrome", _number), "msn": ("infiniband.aeth.msn", _number),
    "original": ("infiniband.atomicacketh.origremdt", _number),
    "imm": ("infiniband.immdt", _bytes), "ieth": ("infiniband.ieth", _bytes),
}
TSHARK_ADDRESSES = ["ip.src", "ip.dst", "ipv6.src", "ipv6.dst", "vlan.id", "vlan.priority"]


def tshark(path):
    """A dict of texts for each frame, by tshark's field names; empty fields are left out."""
    names = [name for name, _ in TSHARK_FIELDS.values()] + TSHARK_ADDRESSES
    command = ["tshark", "-r", str(path), "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for name in names:
        command += ["-e", name]
    rows = []
    for line in run(command).splitlines():
        rows.append({name: text for name, text in zip(names, line.split("|")) if text})
    return rows


def compare_with_tshark(values, row):
    """Every value that one side has, the other must have too."""
    for ours, (theirs, read) in TSHARK_FIELDS.items():
        text = row.get(theirs)
        seen = None if text is None else read(text)
        if values.get(ours) != seen:
            raise Mismatch(f"{ours}: ours {values.get(ours)!r}, tshark's {theirs} {text!r}")
    family = "ip" if values["ip_version"] == 4 else "ipv6"
    for ours, theirs in (("src_ip", f"{family}.src"), ("dst_ip", f"{family}.dst")):
        if values[ours] != row.get(theirs):
            raise Mismatch(f"{ours}: ours {values[ours]}, tshark's {row.get(theirs)}")
    if values["vlan_id"] != int(row.get("vlan.id", "0")) or values["pcp"] != int(row.get("vlan.priority", "0")):
        raise Mismatch(f"VLAN: ours {values['vlan_id']}, tshark's {row.get('vlan.id')}")


def report(name, count, wrong):
    print(f"{name}: {count} packets, {wrong} wrong")
    return 1 if wrong or not count else 0
