#!/usr/bin/env python3
"""tshark_test.py UROCE_LINT CAPTURES: what uroce-lint decodes is what tshark decodes.

Every capture as it is, some of them once more as pcapng.
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
SKIP = 77
FIELDS = {
    "frame": "frame.number", "opcode": "infiniband.bth.opcode", "dest_qp": "infiniband.bth.destqp",
    "psn": "infiniband.bth.psn", "ack_req": "infiniband.bth.a", "pkey": "infiniband.bth.p_key",
    "syndrome": "infiniband.aeth.syndrome", "msn": "infiniband.aeth.msn", "va": "infiniband.reth.va",
    "rkey": "infiniband.reth.r_key", "dma_length": "infiniband.reth.dmalen", "qkey": "infiniband.deth.q_key",
    "src_qp": "infiniband.deth.srcqp", "swap_add": "infiniband.atomiceth.swapdt",
    "compare": "infiniband.atomiceth.cmpdt", "original": "infiniband.atomicacketh.origremdt",
}


def run(command):
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def number(text):
    if text in ("True", "False"):
        return int(text == "True")
    return int(text, 0)


def tshark(path):
    command = ["tshark", "-r", str(path), "-Y", "infiniband", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for field in FIELDS.values():
        command += ["-e", field]
    rows = {}
    for line in run(command).splitlines():
        row = {name: number(text) for name, text in zip(FIELDS, line.split("|"), strict=True) if text}
        rows[row["frame"]] = row
    return rows


def compare(tool, path):
    ours = [json.loads(line) for line in run([tool, "--packets", str(path)]).splitlines()]
    theirs = tshark(path)
    report = json.loads(run([tool, "--json", str(path)]))
    wrong = 0
    if len(ours) + report["faulty"] != len(theirs):
        print(f"{path.name}: {len(ours)} packets and {report['faulty']} faulty, tshark has {len(theirs)}")
        wrong += 1
    for packet in ours:
        seen = {name: int(value) for name, value in packet.items() if name in FIELDS}
        if seen != theirs.get(packet["frame"]):
            wrong += 1
            print(f"{path.name} frame {packet['frame']}:\n  ours     {seen}\n  tshark's {theirs.get(packet['frame'])}")
    return len(ours), wrong


def main():
    if shutil.which("tshark") is None:
        print("skipped: tshark is not installed")
        return SKIP
    tool = sys.argv[1]
    packets = wrong = files = 0
    with tempfile.TemporaryDirectory() as directory:
        for path in sorted(pathlib.Path(sys.argv[2]).glob("*.pcap")):
            copies = [path]
            if shutil.which("editcap") and files % 16 == 0:
                copy = pathlib.Path(directory) / (path.stem + ".pcapng")
                subprocess.run(["editcap", "-F", "pcapng", str(path), str(copy)], check=True)
                copies.append(copy)
            for copy in copies:
                count, bad = compare(tool, copy)
                packets += count
                wrong += bad
                files += 1
    print(f"{files} files, {packets} packets, {wrong} wrong")
    return 1 if wrong or files < 64 else 0


if __name__ == "__main__":
    sys.exit(main())
