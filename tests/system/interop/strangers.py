"""An endpoint with extras must send a stranger nothing that the specification does not have.

rxe knows no selective repeat, sends no CNPs and understands none, and hears of pauses as little as of the switches that
send them. The capture of our side, as tshark reads it, and what our endpoint says that it counted are judged.
"""

import collections
import dataclasses
import re
import subprocess

import lab

RC_OPCODES = range(0x00, 0x15)  # from SEND FIRST to FETCH ADD
CNP = 0x81
ECT_0, CE = 2, 3
PAUSE_QUANTUM_NS = 512e9 / 10e9  # veth reports 10 Gbit/s
SELECTIVE = ("tx_sack", "rx_sack", "selective_retransmits", "tail_loss_probes", "response_gaps_asked",
             "rx_out_of_order_held")
GO_BACK_N = ("retransmits", "out_of_sequence", "duplicate_request", "rx_drop_early_response")
_MASK = 2**64 - 1


@dataclasses.dataclass(frozen=True)
class Frame:
    """A field that the frame does not have is None."""
    received: bool
    time_ns: int
    destination: str
    kind: int            # EtherType
    identification: int  # IPv4
    label: int           # IPv6
    ecn: int
    opcode: int          # of the BTH
    qp: int
    psn: int
    payload: bool
    pause: int           # quanta for priority 3

    @property
    def rc(self):
        return self.opcode is not None and self.opcode < 0x20


def read_capture(path):
    fields = ("frame.packet_flags_direction", "frame.time_epoch", "eth.dst", "eth.type", "ip.id", "ipv6.flow",
              "ip.dsfield.ecn", "ipv6.tclass.ecn", "infiniband.bth.opcode", "infiniband.bth.destqp",
              "infiniband.bth.psn", "infiniband.payload", "macc.cbfc.pause_time.c3")
    result = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields",
                             *(word for field in fields for word in ("-e", field))],
                            capture_output=True, text=True, check=True, timeout=120)
    for line in result.stdout.splitlines():
        direction, when, destination, *words = line.split("\t")
        kind, identification, label, ecn4, ecn6, opcode, qp, psn, payload, pause = words
        yield Frame(int(direction, 0) == 1, int(when.replace(".", "")), destination,
                    *(int(word, 0) if word else None
                      for word in (kind, identification, label, ecn4 or ecn6, opcode, qp, psn)),
                    bool(payload), int(pause, 0) if pause else None)


def _mix(value):
    value = (value + 0x9E3779B97F4A7C15) & _MASK
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


def _signed(frame, source):
    """Does it have the signature of doc/adr/0015, for QP `source`?"""
    key = _mix(1 << 48 | source << 24 | frame.qp) | 1
    if frame.label is not None:
        return frame.label == (key >> 44 or 1)
    return frame.identification == _mix((key + frame.psn) & _MASK) >> 48


def _judge_signatures(row, sent, received):
    """We choose the identification and the flow label freely, so foreign peers may see the signatures. For one QP at
    each end."""
    ours = {frame.qp for frame in received}
    theirs = {frame.qp for frame in sent}
    if len(ours) != 1 or len(theirs) != 1:
        return [f"{len(ours)} queue pairs of ours and {len(theirs)} of theirs in the capture, not one each"]
    signed = sum(_signed(frame, *ours) for frame in sent)
    wanted = len(sent) if "--loss-recovery" in row.run else 0
    problems = []
    # Without signatures, one frame in 65536 matches by chance.
    if abs(signed - wanted) > (0 if wanted else 2):
        problems.append(f"{signed} of {len(sent)} packets that we sent are signed, not {wanted}")
    if any(_signed(a, *theirs) and _signed(b, *theirs) and _signed(c, *theirs)
           for a, b, c in zip(received, received[1:], received[2:])):
        problems.append("rxe signs its packets")
    return problems


def _judge_congestion(row, sent, received, counted):
    problems = []
    wanted = ECT_0 if "--cc" in row.run else 0
    if wrong := [frame for frame in sent if frame.payload and frame.ecn != wanted]:
        problems.append(f"{len(wrong)} packets of data left with another ECN than {wanted}: {wrong[0]}")
    marks = sum(frame.received and frame.ecn == CE for frame in received)
    if row.marked and not (marks > 0 and 0 < counted["np_cnp_sent"] <= marks):
        problems.append(f"{marks} packets came marked, {counted['np_cnp_sent']} CNPs were sent")
    return problems


def _judge_pauses(frames, counted):
    """Pauses reach us, nothing in their priority is sent meanwhile, and everything continues afterwards."""
    until, last, pauses, in_pause, afterwards = None, None, 0, 0, 0
    for frame in frames:
        if until is not None and frame.time_ns >= until:
            until = None
        if frame.received and frame.pause is not None:
            pauses += until is None
            until = frame.time_ns + int(frame.pause * PAUSE_QUANTUM_NS)
        elif not frame.received and frame.rc:
            in_pause += until is not None
            afterwards += until is None and last is not None
        last = until or last
    problems = [f"{in_pause} packets left in {pauses} pauses"] if in_pause else []
    if pauses < 2 or not afterwards or counted["rx_pause_frames"] < pauses or counted["pfc_watchdog_fired"]:
        problems.append(f"{pauses} pauses, {afterwards} packets left afterwards; {dict(counted)}")
    return problems


def counted_by(text):
    """What an endpoint reports at its end, with UROCE_LOG=info."""
    words = [pair.split() for line in re.findall(r"counted: (.*)", text) for pair in line.split(", ")]
    return collections.Counter({name: int(value) for name, value in words if name != "nothing"})


def judge(row, capture, output):
    """What is wrong, in words, with the frames of a row with `run` options."""
    frames = list(read_capture(capture))
    counted = counted_by(output)
    sent = [frame for frame in frames if not frame.received and frame.rc]
    received = [frame for frame in frames if frame.received and frame.rc]
    if len(sent) < 10 or len(received) < 10 or counted["tx_packets"] < len(sent):
        return [f"{len(sent)} RC packets sent and {len(received)} received in the capture; {dict(counted)}"]
    known = {*RC_OPCODES, *([CNP] if row.marked else [])}
    strange = sorted({frame.opcode for frame in frames
                      if not frame.received and frame.opcode is not None and frame.opcode not in known})
    problems = [f"it was sent opcodes {', '.join(map(hex, strange))}"] if strange else []
    if others := {frame.kind for frame in frames if frame.destination == lab.GUEST_MAC} - {0x0800, 0x0806, 0x86dd}:
        problems.append(f"it was sent frames of the types {others}")
    if selective := {name: counted[name] for name in SELECTIVE if counted[name]}:
        problems.append(f"selective repeat with a stranger: {selective}")
    if (row.loss_in or row.loss_out) and not any(counted[name] for name in GO_BACK_N):
        problems.append(f"nothing was repeated: {dict(counted)}")
    problems += _judge_signatures(row, sent, received)
    problems += _judge_congestion(row, sent, received, counted)
    return problems + (_judge_pauses(frames, counted) if row.paused else [])
