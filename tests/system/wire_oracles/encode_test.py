#!/usr/bin/env python3
"""encode_test.py WIRE_DUMP: packets that our encoders write, against Scapy (byte for byte) and tshark (field by field).

Every opcode of RC, UC and UD, and CNP, over IPv4 and IPv6, with and without a VLAN tag, with every padding.
"""

import pathlib
import sys
import tempfile

import oracle


def check_against_scapy(values, frames):
    wrong = 0
    for index, (value, frame) in enumerate(zip(values, frames)):
        expected = oracle.scapy_frame(value)
        if frame != expected:
            wrong += 1
            print(f"packet {index} ({value['opcode_name']}): ours\n  {frame.hex()}\nScapy's\n  {expected.hex()}")
        computed, stored = oracle.icrc(frame)
        if computed != stored:
            wrong += 1
            print(f"packet {index}: iCRC {stored.hex()} instead of {computed.hex()}")
    return oracle.report("byte for byte as Scapy's", len(frames), wrong)


def check_against_tshark(values, path):
    wrong = 0
    rows = oracle.tshark(path)
    for index, (value, row) in enumerate(zip(values, rows)):
        try:
            oracle.compare_with_tshark(value, row)
        except oracle.Mismatch as error:
            wrong += 1
            print(f"packet {index} ({value['opcode_name']}): {error}")
    return oracle.report("field by field as tshark's", len(rows), wrong + abs(len(rows) - len(values)))


def main():
    oracle.require("tshark")
    with tempfile.TemporaryDirectory() as directory:
        path = pathlib.Path(directory) / "encoded.pcap"
        values = oracle.wire_dump(sys.argv[1], "encode", path)
        frames = oracle.read_pcap(path)
        opcodes = {value["opcode"] for value in values}
        if opcodes != set(oracle.EXTENSIONS) | {oracle.CNP} or len(frames) != len(values):
            print(f"not every opcode, or not every packet: {sorted(opcodes)}, {len(frames)} of {len(values)}")
            return 1
        return check_against_scapy(values, frames) | check_against_tshark(values, path)


if __name__ == "__main__":
    sys.exit(main())
