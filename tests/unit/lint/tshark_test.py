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
    """Rows by number of the frame."""
    command = ["tshark", "-r", str(path), "-Y", "infiniband", "-T", "fields", "-E", "separator=|", "-E", "occurrence=f"]
    for field in FIELDS.values():
        command += ["-e", field]
    rows = {}
    for line in run(command).splitlines():
        row = {name: number(text) for name, text in zip(FIELDS, line.split("|"), strict=True) if text}
        rows[row.pop("frame")] = row
    return rows


def compare(tool, path, theirs, first, count):
    """tshark's frames of this file come after `first` other frames."""
    ours = [json.loads(line) for line in run([tool, "--packets", str(path)]).splitlines()]
    report = json.loads(run([tool, "--json", str(path)]))
    wrong = 0
    dissected = sum(first < frame <= first + count for frame in theirs)
    if len(ours) + report["faulty"] != dissected:
        print(f"{path.name}: {len(ours)} packets and {report['faulty']} faulty, tshark has {dissected}")
        wrong += 1
    for packet in ours:
        seen = {name: int(value) for name, value in packet.items() if name in FIELDS and name != "frame"}
        expected = theirs.get(first + packet["frame"])
        if seen != expected:
            wrong += 1
            print(f"{path.name} frame {packet['frame']}:\n  ours     {seen}\n  tshark's {expected}")
    return len(ours), wrong


def records(path):
    """A capture's frames with their headers; all of them are little-endian pcap."""
    data = path.read_bytes()
    if data[:4] != b"\xd4\xc3\xb2\xa1":
        sys.exit(f"{path} is not a little-endian pcap")
    return data[:24], data[24:]


def frames_in(body):
    count = at = 0
    while at < len(body):
        at += 16 + int.from_bytes(body[at + 8:at + 12], "little")
        count += 1
    return count


def main():
    if shutil.which("tshark") is None:
        print("skipped: tshark is not installed")
        return SKIP
    tool = sys.argv[1]
    packets = wrong = files = 0
    paths = sorted(pathlib.Path(sys.argv[2]).glob("*.pcap"))
    with tempfile.TemporaryDirectory() as directory:
        # tshark takes longer to start than to read all files, so they are joined into one.
        joined = pathlib.Path(directory) / "joined.pcap"
        joined.write_bytes(records(paths[0])[0] + b"".join(records(path)[1] for path in paths))
        theirs, first = tshark(joined), 0
        for path in paths:
            copies = [path]
            if shutil.which("editcap") and files % 16 == 0:
                copy = pathlib.Path(directory) / (path.stem + ".pcapng")
                subprocess.run(["editcap", "-F", "pcapng", str(path), str(copy)], check=True)
                copies.append(copy)
            frames = frames_in(records(path)[1])
            for copy in copies:
                count, bad = compare(tool, copy, theirs, first, frames)
                packets += count
                wrong += bad
                files += 1
            first += frames
    print(f"{files} files, {packets} packets, {wrong} wrong")
    return 1 if wrong or files < 64 else 0


if __name__ == "__main__":
    sys.exit(main())
