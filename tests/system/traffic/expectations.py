"""What the specification wants to happen to one packet: the oracle of `matrix.py`.

Packets here are right in everything (addresses, lengths, partition, iCRC) but their opcode, their length and their
place. An `Outcome` says everything that may happen because of one: counters, the answer, the queue pair's state, its
completions. What it does not name must not happen.
"""

import dataclasses

from rig import ERROR, OUR_PSN, QKEY, RECEIVES, RTS, THEIR_PSN
from rocev2 import CNP, MTU, OPCODES, RC, UC, UD, aeth, atomic_eth, bth, by_name, deth, reth

SUCCESS, FLUSHED, FAILED = 0, 5, "failed"  # FAILED: any error but "flushed"
WC_RECV, WC_RECV_WRITE = 128, 129
INVALID_REQUEST, REMOTE_ACCESS = 1, 2  # NAK codes
READ_BYTES = 32  # that READ requests here ask for
REMAINING = 32  # bytes that remain of the WRITE that some queue pairs are in the middle of
OWN_READ_BYTES = 64  # that the endpoint's own READs ask for
WRITE_FIRST_BYTES = MTU + REMAINING
BAD_KEY = 0x00000100
SELECTIVE_ACK = 0xC0
MANAGEMENT = "management"  # queue pair 1, used in place of a service: it takes datagrams with a Q_Key of its own


@dataclasses.dataclass
class Outcome:
    label: str
    counters: dict = dataclasses.field(default_factory=dict)
    answer: tuple = ()  # as Answer: name, PSN, detail
    state: int = RTS
    completions: tuple = ()  # (opcode, status, bytes)


def dropped(name, **more):
    return Outcome("dropped: " + name, {name: 1, **more})


@dataclasses.dataclass(frozen=True)
class Situation:
    """A queue pair, and the state in which a packet reaches it."""

    name: str
    service: int
    psn: int = THEIR_PSN
    prelude: str = ""  # the opcode of a packet that arrived before
    post: tuple = ()  # a request of the endpoint's own that is unanswered
    responses: bool = False  # responses are tried instead of requests

    @property
    def kind(self):
        return {RC: "rc", UC: "uc", UD: "ud"}[self.service]


AT_REST = {service: Situation(f"{name}, at rest", service) for service, name in ((RC, "RC"), (UC, "UC"), (UD, "UD"))}
SITUATIONS = (
    *AT_REST.values(),
    Situation("RC, PSN of the past", RC, psn=THEIR_PSN - 1),
    Situation("RC, PSN of the future", RC, psn=THEIR_PSN + 5),
    Situation("RC, inside a SEND", RC, psn=THEIR_PSN + 1, prelude="SEND_FIRST"),
    Situation("RC, inside a WRITE", RC, psn=THEIR_PSN + 1, prelude="RDMA_WRITE_FIRST"),
    Situation("RC, nothing to answer", RC, psn=OUR_PSN + 16, responses=True),
    Situation("RC, SEND unanswered", RC, psn=OUR_PSN, post=("send", 8), responses=True),
    Situation("RC, READ unanswered", RC, psn=OUR_PSN, post=("read", OWN_READ_BYTES), responses=True),
    Situation("RC, atomic unanswered", RC, psn=OUR_PSN, post=("atomic", 8), responses=True),
    Situation("UC, inside a SEND", UC, psn=THEIR_PSN + 1, prelude="SEND_FIRST"),
    Situation("UC, inside a WRITE", UC, psn=THEIR_PSN + 1, prelude="RDMA_WRITE_FIRST"),
)


def transport(opcode, qpn, psn, length, pad, memory):
    """BTH and `length` bytes: as many of the opcode's headers as fit, then payload and padding. `memory`: a rig."""
    op = OPCODES.get(opcode)
    body = b""
    if op is not None:
        payload = max(0, length - op.header_bytes - pad)
        total = READ_BYTES if op.kind == "read" else payload if op.place == "only" else WRITE_FIRST_BYTES
        parts = {"imm": b"\x11\x22\x33\x44", "reth": reth(memory.va, memory.rkey, total), "aeth": aeth(0x1F, 1),
                 "atomic_ack": bytes(8), "atomic": atomic_eth(memory.va + 1024, memory.rkey), "xrceth": bytes(4),
                 "ieth": BAD_KEY.to_bytes(4, "big"), "deth": deth(QKEY, 0x300), "cnp": bytes(16),
                 "feth": b"\0\0\0\1"}
        body = b"".join(parts[header] for header in op.headers)
    return bth(opcode, qpn, psn, pad) + body[:length].ljust(length, b"\x5a")


def prelude(situation, qp, memory):
    op = by_name(situation.service, situation.prelude)
    head = reth(memory.va, memory.rkey, WRITE_FIRST_BYTES) if "reth" in op.headers else b""
    return bth(op.value, qp.qpn, THEIR_PSN, ack=False) + head + bytes(MTU)


def _selective_ack(length, pad, service):
    """Our own opcode: parsed like an ACK with payload, and unknown to the connection while the peer does not support
    it."""
    rest = length - 4
    if rest < 0:
        return dropped("rx_drop_truncated")
    if pad > rest:
        return dropped("rx_drop_bad_pad")
    if service is None:
        return dropped("rx_drop_no_qp")
    return dropped("rx_drop_unknown_opcode" if service == RC else "rx_drop_qp_service")


def before_transport(opcode, length, pad, service):
    """The outcome for a packet that is dropped before a queue pair of `service` (None: there is none) gets it; None if
    it is not dropped."""
    if opcode == SELECTIVE_ACK:
        return _selective_ack(length, pad, service)
    op = OPCODES.get(opcode)
    if op is None:
        return dropped("rx_drop_unknown_opcode")
    rest = length - op.header_bytes
    if rest < 0:
        return dropped("rx_drop_truncated")
    if pad > rest:
        return dropped("rx_drop_bad_pad")
    if rest and not op.payload:
        return dropped("rx_drop_unexpected_payload")
    if service is None:
        return dropped("rx_drop_no_qp")
    if service == MANAGEMENT:
        return dropped("rx_drop_bad_qkey" if op == by_name(UD, "SEND_ONLY") else "rx_drop_qp_service")
    if opcode == CNP and service != UD:
        return Outcome("CNP", {"rp_cnp_ignored": 1})
    if op.service != service:
        return dropped("rx_drop_qp_service")
    return None


def expect(situation, opcode, length, pad):
    early = before_transport(opcode, length, pad, situation.service)
    if early is not None:
        return early
    op = OPCODES[opcode]
    rest = length - op.header_bytes
    packet = Packet(op, rest - pad, rest % 4 == 0)
    if situation.service == UD:
        return _ud(packet)
    if situation.service == UC:
        return _uc(situation, packet)
    if op.response:
        return _response(situation, packet)
    if situation.psn < THEIR_PSN:
        return _past(packet)
    if situation.psn > THEIR_PSN and not situation.prelude:
        return Outcome("NAK: out of sequence", {"out_of_sequence": 1, "sent_naks": 1}, ("NAK", THEIR_PSN, (0, 0)))
    return _in_order(situation, packet)


@dataclasses.dataclass(frozen=True)
class Packet:
    op: object
    payload: int
    padded: bool  # headers, payload and padding end at a multiple of four bytes


# The other side's requester, with or without a fault: RC.


def _refused(situation, code):
    """A fatal NAK: the queue pair enters the error state, and its receives are flushed."""
    active = situation.prelude == "SEND_FIRST"
    counters = {"sent_naks": 1, "resp_cqe_flush_error": RECEIVES - active}
    completions = ((None, FAILED, 0),) * active + ((None, FLUSHED, 0),) * (RECEIVES - active)
    if active:
        counters["resp_cqe_error"] = 1
    if code == REMOTE_ACCESS:
        counters["resp_remote_access_errors"] = 1
    return Outcome(f"NAK: {code}", counters, ("NAK", situation.psn, (code, 0)), ERROR, completions)


def _acknowledged(situation, counter, completions=()):
    return Outcome("ACK", {counter: 1, "sent_acks": 1}, ("ACK", situation.psn, (0, 1)), completions=completions)


def _in_order(situation, packet):
    op, payload = packet.op, packet.payload
    inside = {"": None, "SEND_FIRST": "send", "RDMA_WRITE_FIRST": "write"}[situation.prelude]
    if op.begins != (inside is None) or inside not in (None, op.kind):
        return _refused(situation, INVALID_REQUEST)
    if op.payload:
        fits = payload <= MTU if op.ends else payload == MTU
        if not packet.padded or not fits or op.place == "last" and payload == 0:
            return _refused(situation, INVALID_REQUEST)
    if op.kind == "read":
        return Outcome("READ response", {"rx_read_requests": 1}, ("RDMA_READ_RESPONSE_ONLY", situation.psn, (READ_BYTES,)))
    if op.kind == "atomic":
        return Outcome("atomic response", {"rx_atomic_requests": 1}, ("ATOMIC_ACKNOWLEDGE", situation.psn, ()))
    if op.kind == "flush":
        return Outcome("READ response", {"rx_flush_requests": 1}, ("RDMA_READ_RESPONSE_ONLY", situation.psn, (0,)))
    if op.kind == "atomic write":
        if payload != 8:
            return _refused(situation, INVALID_REQUEST)
        return Outcome("READ response", {"rx_atomic_write_requests": 1}, ("RDMA_READ_RESPONSE_ONLY", situation.psn, (0,)))
    if op.kind == "write":
        if op.place == "last" and payload != REMAINING:
            return _refused(situation, INVALID_REQUEST)
        received = payload if op.place == "only" else WRITE_FIRST_BYTES
        completions = ((WC_RECV_WRITE, SUCCESS, received),) if "imm" in op.headers else ()
        return _acknowledged(situation, "rx_write_requests", completions)
    if "ieth" in op.headers:  # an unknown key: the QP fails without a NAK
        failed = _refused(dataclasses.replace(situation, prelude="SEND_FIRST"), REMOTE_ACCESS)
        counters = {name: count for name, count in failed.counters.items() if name != "sent_naks"}
        return dataclasses.replace(failed, label="failed in silence", counters=counters, answer=())
    received = payload + (MTU if situation.prelude else 0)
    return _acknowledged(situation, "rx_sends", ((WC_RECV, SUCCESS, received),))


def _past(packet):
    """Its PSN says that it was executed before, so it is acknowledged again. No READ or atomic was executed with it, so
    those are not answered."""
    counters = {"duplicate_request": 1}
    psn = THEIR_PSN - 1
    if packet.op.kind in ("read", "atomic", "flush", "atomic write"):
        return dropped("rx_drop_bad_duplicate", **counters)
    return Outcome("ACK again", {**counters, "sent_acks": 1}, ("ACK", psn, (0, 0)))


# Responses to the endpoint's own requests.


def _response(situation, packet):
    op = packet.op
    posted = situation.post[0] if situation.post else None
    if posted is None:
        return dropped("rx_drop_ghost_ack")
    if op.kind == "ack":
        if posted == "send":
            return Outcome("accepted", completions=((0, SUCCESS, 0),))
        again = "RDMA_READ_REQUEST" if posted == "read" else "FETCH_ADD"
        return Outcome("implied NAK", {"implied_nak_seq_err": 1, "retransmits": 1}, (again, OUR_PSN, ()))
    if {"response": "read", "atomic response": "atomic"}[op.kind] != posted:
        return dropped("rx_drop_unexpected_response")
    if posted == "atomic":
        return Outcome("accepted", completions=((4, SUCCESS, 8),))
    # The last packet of a response may have the opcode of an only one: a repeated READ may start anywhere.
    if op.ends and packet.padded and packet.payload == OWN_READ_BYTES:
        return Outcome("accepted", completions=((2, SUCCESS, OWN_READ_BYTES),))
    return Outcome("bad READ response", {"req_cqe_error": 1, "resp_cqe_flush_error": RECEIVES}, (), ERROR,
                   ((None, FAILED, 0),) + ((None, FLUSHED, 0),) * RECEIVES)


# Transports without responses.


def _uc(situation, packet):
    op, payload = packet.op, packet.payload
    inside = {"": None, "SEND_FIRST": "send", "RDMA_WRITE_FIRST": "write"}[situation.prelude]
    if not op.begins and op.kind != inside:
        return dropped("rx_drop_uc_sequence")
    if not packet.padded:
        return dropped("rx_drop_bad_pad")
    good = payload <= MTU and (payload or op.place != "last") if op.ends else payload == MTU
    if op.kind == "write" and op.place == "last":
        good = payload == REMAINING
    if not good:
        return dropped("rx_drop_uc_length")
    received = payload if op.begins else WRITE_FIRST_BYTES if op.kind == "write" else payload + MTU
    if op.kind == "send":
        return Outcome("delivered", {"rx_sends": 1}, completions=((WC_RECV, SUCCESS, received),))
    completions = ((WC_RECV_WRITE, SUCCESS, received),) if "imm" in op.headers else ()
    return Outcome("written", {"rx_write_requests": 1}, completions=completions)


def _ud(packet):
    if not packet.padded:
        return dropped("rx_drop_bad_pad")
    return Outcome("delivered", {"rx_sends": 1}, completions=((WC_RECV, SUCCESS, packet.payload + 40),))
