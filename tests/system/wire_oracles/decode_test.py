#!/usr/bin/env python3
"""decode_test.py WIRE_DUMP CAPTURES: packets that others wrote, read by our parser.

First packets of every opcode that Scapy builds from random values; then what real rxe hosts sent (CAPTURES/*.pcap), as
tshark dissects it, with every iCRC computed once more by zlib.
"""

import pathlib
import random
import sys
import tempfile

import oracle


def random_values(rng, opcode, ip_version, vlan_id):
    length = 0 if opcode in oracle.NO_PAYLOAD else rng.choice([0, 1, 2, 3, 4, 5, 63, 64, 255, 1024, 4096])
    values = {
        "result": "ok", "ip_version": ip_version, "src_mac": "02:00:00:00:00:0a", "dst_mac": "02:00:00:00:00:0b",
        "vlan_id": vlan_id, "pcp": rng.randrange(8) if vlan_id else 0,
        "src_ip": "192.0.2.1" if ip_version == 4 else "2001:db8::1",
        "dst_ip": "192.0.2.2" if ip_version == 4 else "2001:db8::2",
        "traffic_class": rng.randrange(256), "hop_limit": rng.randrange(256),
        "flow_label": rng.randrange(1 << 20) if ip_version == 6 else 0, "udp_src_port": rng.randrange(1 << 16),
        "opcode": opcode, "solicited": rng.random() < .5, "mig_req": rng.random() < .5, "pad_count": -length % 4,
        "tver": 0, "pkey": rng.randrange(1 << 16), "resv8a": rng.randrange(256), "dest_qp": rng.randrange(1 << 24),
        "ack_req": rng.random() < .5, "resv7": rng.randrange(128), "psn": rng.randrange(1 << 24),
    }
    fields = {
        oracle.RETH: {"va": 64, "rkey": 32, "dma_length": 32}, oracle.AETH: {"syndrome": 8, "msn": 24},
        oracle.ATOMIC: {"va": 64, "rkey": 32, "swap_add": 64, "compare": 64}, oracle.ATOMIC_ACK: {"original": 64},
        oracle.IMM: {"imm": 32}, oracle.IETH: {"ieth": 32}, oracle.DETH: {"qkey": 32, "src_qp": 24},
    }
    for header in oracle.EXTENSIONS.get(opcode, []):
        values.update({name: rng.randrange(1 << bits) for name, bits in fields[header].items()})
    values["payload"] = rng.randbytes(length).hex()
    values["icrc_right"] = True
    return values


def check_scapys(tool, directory):
    rng = random.Random(7)
    sent = [random_values(rng, opcode, version, vlan_id)
            for opcode in sorted(oracle.EXTENSIONS) + [oracle.CNP]
            for version in (4, 6) for vlan_id in (0, 5) for _ in range(4)]
    frames = [oracle.scapy_frame(values) for values in sent]
    for index, frame in enumerate(frames):
        if index % 3 == 0:  # the padding of an Ethernet with a minimum frame size
            frames[index] = frame + bytes(max(0, 60 - len(frame)))
    for index in range(0, len(frames), 10):  # and now and then a flipped bit that the iCRC must catch
        body = bytearray(frames[index])
        at = flipped_byte(rng, sent[index])
        body[at] ^= 1 << rng.randrange(8)
        frames[index] = bytes(body)
        sent[index]["spoilt"] = True
    path = pathlib.Path(directory) / "scapy.pcap"
    oracle.write_pcap(path, frames)
    wrong = 0
    for index, (expected, seen) in enumerate(zip(sent, oracle.wire_dump(tool, "decode", path), strict=True)):
        if expected.pop("spoilt", False):
            if seen["result"] != "ok" or seen["icrc_right"]:
                wrong += 1
                print(f"packet {index}: a flipped bit went unnoticed: {seen}")
            continue
        seen.pop("opcode_name", None)
        if seen != expected:
            wrong += 1
            print(f"packet {index}: Scapy sent\n  {expected}\nwe read\n  {seen}")
    return oracle.report("read as Scapy wrote them", len(frames), wrong)


def flipped_byte(rng, values):
    """A byte of the PSN or, where there is one, of the payload: the packet still parses, only the iCRC shows it."""
    bth = 14 + (4 if values["vlan_id"] else 0) + (20 if values["ip_version"] == 4 else 40) + 8
    extension = len(oracle.extension_bytes(values))
    payload = len(values["payload"]) // 2
    if payload and rng.random() < .7:
        return bth + 12 + extension + rng.randrange(payload)
    return bth + 9 + rng.randrange(3)


def check_captures(tool, paths, directory):
    """tshark takes longer to start than to read all files, so they are joined into one."""
    frames = {path: oracle.read_pcap(path) for path in paths}
    joined = pathlib.Path(directory) / "joined.pcap"
    oracle.write_pcap(joined, [frame for path in paths for frame in frames[path]])
    rows = oracle.tshark(joined)
    failed = 0 if paths and len(rows) == sum(map(len, frames.values())) else 1
    for path in paths:
        failed |= check_capture(tool, path, frames[path], rows[:len(frames[path])])
        del rows[:len(frames[path])]
    return failed


def check_capture(tool, path, frames, rows):
    wrong = 0
    seen = oracle.wire_dump(tool, "decode", path)
    for index, (frame, values, row) in enumerate(zip(frames, seen, rows, strict=True)):
        if values["result"] != "ok":
            # Sent on purpose in host-peer-rc, and in no other capture.
            if values["result"] != "bad transport version" or row["infiniband.bth.tver"] in ("0", "0x00"):
                wrong += 1
                print(f"{path.name} packet {index}: {values['result']}")
            continue
        computed, stored = oracle.icrc(frame)
        if values["icrc_right"] != (computed == stored):
            wrong += 1
            print(f"{path.name} packet {index}: iCRC right by us {values['icrc_right']}, by zlib {computed == stored}")
        try:
            oracle.compare_with_tshark(values, row)
        except oracle.Mismatch as error:
            wrong += 1
            print(f"{path.name} packet {index} ({values['opcode_name']}): {error}")
    return oracle.report(f"{path.name} as tshark reads it", len(frames), wrong)


def main():
    oracle.require("tshark")
    tool = sys.argv[1]
    captures = sorted(pathlib.Path(sys.argv[2]).glob("*.pcap"))
    with tempfile.TemporaryDirectory() as directory:
        failed = check_scapys(tool, directory)
        failed |= check_captures(tool, captures, directory)
    return failed


if __name__ == "__main__":
    sys.exit(main())
