#!/usr/bin/env python3
"""Every opcode with every length from 0 to 128 bytes, to queue pairs of each service and to none, over a TAP port.

    matrix.py PATH-OF-UROCE PATH-OF-TARGET

For each packet: which counter, which answer, which state, which completion; and nothing else (see `expectations.py`).
"""

import logging
import sys
import time

sys.dont_write_bytecode = True

import expectations
import harness
from rig import THEIR_PSN, Trouble
from rocev2 import CNP, OPCODES, RD, UD, by_name
from trial import Shot, Trial

LENGTHS = range(129)
NOBODY = (0, 1, 0x0ABCDE, 0xFFFFFF)  # queue pair numbers that do not exist


def describe(where, spec):
    opcode, length, pad = spec
    name = OPCODES[opcode].name if opcode in OPCODES else "reserved"
    return f"{where}: opcode {opcode:#04x} ({name}), {length} bytes after the BTH, pad {pad}"


def against_scapy(trial):
    """Checks our own frames and table against an independent program; returns what is wrong."""
    logging.getLogger("scapy").setLevel(logging.ERROR)  # it complains about a loopback interface without addresses
    from scapy.all import IP, UDP, Ether
    from scapy.contrib import roce
    problems = []
    ours = {op.value: op.name for op in OPCODES.values()}
    for value, name in roce._bth_opcodes.items():
        known = value >> 5 != RD
        if known != (value in ours) or known and value != CNP and not name.endswith("_" + ours[value]):
            problems.append(f"opcode {value:#x} is {name} to Scapy, {ours.get(value)} to us")
    path = trial.rig.path()
    for opcode, length, pad in [(op, n, p) for op in OPCODES for n, p in ((0, 0), (33, 1), (128, 3))]:
        frame = path.frame(expectations.transport(opcode, 0x123456, 77, length, pad, trial.rig))
        packet = Ether(frame)
        body = bytes(packet[roce.BTH].payload)
        del packet[IP].len, packet[IP].chksum, packet[UDP].len
        packet[roce.BTH].icrc = None
        if bytes(packet) != frame or len(body) != length:
            problems.append(f"opcode {opcode:#x} with {length} bytes: Scapy would build {bytes(packet).hex()}, not {frame.hex()}")
    return problems


def seen_by_transport(specs, service):
    return [spec for spec in specs if expectations.before_transport(*spec, service) is None]


def to_somebody(trial, situation, specs):
    """A queue pair for each packet, because many packets break theirs."""
    rig, path = trial.rig, trial.rig.path()

    def aim(some):
        qps = trial.fresh(situation.kind, len(some))
        if situation.post:
            rig.begin()
            rig.target.ask("post", qps[0].group, *situation.post)
            deadline = time.monotonic() + 10
            while len(rig.answers) < len(qps):
                rig.hear()
                if time.monotonic() > deadline:
                    raise Trouble(f"{len(qps)} requests were posted, {len(rig.answers)} came")
        if situation.prelude:
            rig.begin()
            rig.send([path.frame(expectations.prelude(situation, qp, rig)) for qp in qps])
            rig.wait_received(len(qps))
        return [Shot(describe(situation.name, spec),
                     path.frame(expectations.transport(spec[0], qp.qpn, situation.psn, *spec[1:], rig)),
                     expectations.expect(situation, *spec), qp) for qp, spec in zip(qps, some)]

    trial.run(aim, specs, 1000)


def to_one(trial, name, qpn, service, specs):
    """All to the same number: no packet gets as far as a queue pair."""
    path = trial.rig.path()
    trial.run(lambda some: [
        Shot(describe(name, spec), path.frame(expectations.transport(spec[0], qpn, THEIR_PSN, *spec[1:], trial.rig)),
             expectations.before_transport(*spec, service)) for spec in some], specs, 5000)


def prove_alive(trial, situation, qp):
    """After all these packets, a good one is still taken as the first."""
    spec = (by_name(situation.service, "SEND_ONLY").value, 16 if situation.service == UD else 8, 0)
    trial.run(lambda some: [
        Shot(describe(situation.name + ", in the end", spec),
             trial.rig.path().frame(expectations.transport(spec[0], qp.qpn, situation.psn, *spec[1:], trial.rig)),
             expectations.expect(situation, *spec), qp) for spec in some], [spec])


def run(uroce, target, log):
    with harness.running(uroce, target, log) as rig:
        trial = Trial(rig)
        trial.problems += against_scapy(trial)
        every = [(opcode, length, 0) for opcode in range(256) for length in LENGTHS]
        padded = [(opcode, length, pad) for opcode in OPCODES for length in LENGTHS for pad in (1, 2, 3)]
        for qpn in NOBODY:
            specs = every if qpn == NOBODY[-1] else [spec for spec in every if spec[0] in OPCODES]
            to_one(trial, f"to {qpn:#08x}", qpn, expectations.MANAGEMENT if qpn == 1 else None, specs)
        for situation in expectations.AT_REST.values():
            qp = trial.fresh(situation.kind, 1)[0]
            before = [spec for spec in every + padded if expectations.before_transport(*spec, situation.service) is not None]
            to_one(trial, situation.name, qp.qpn, situation.service, before)
            prove_alive(trial, situation, qp)
        for situation in expectations.SITUATIONS:
            specs = [spec for spec in seen_by_transport(every + padded, situation.service)
                     if situation in expectations.AT_REST.values() or OPCODES[spec[0]].response == situation.responses]
            to_somebody(trial, situation, specs)
    return trial


if __name__ == "__main__":
    sys.exit(harness.main(run))
