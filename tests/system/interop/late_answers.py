"""Delivers late an acknowledgement that was lost after its sender had gone: no program is left to send it again.

A pingpong's ends leave without a farewell. When the last acknowledgement of the one that leaves first gets lost, the
other asks for it. A program over a network card sees its retries exceeded then; rxe takes the retry_cnt of 7 that
every pingpong asks for as endless, so its program would never come to say what it received. The frames are those of
our own capture: what is not in it is not sent.
"""

import socket
import struct

import lab

ROCE_PORT = 4791
RC_ACKNOWLEDGE = 0x11
_ENHANCED_PACKET = 6
_GUEST_MAC = bytes.fromhex(lab.GUEST_MAC.replace(":", ""))
_UDP = 17


def _frames(capture):
    """The complete frames of a pcapng file."""
    data, at = capture.read_bytes(), 0
    while at + 12 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if size < 12 or at + size > len(data):
            return
        if kind == _ENHANCED_PACKET:
            (captured,) = struct.unpack_from("<I", data, at + 20)
            yield data[at + 28 : at + 28 + captured]
        at += size


def _acknowledged_qp(frame):
    """The guest's queue pair that this frame of ours is an ACK for; None if the frame is something else."""
    ether_type = frame[12:14]
    if ether_type == b"\x08\x00" and frame[23:24] == bytes([_UDP]):
        udp = 14 + 4 * (frame[14] & 15)
    elif ether_type == b"\x86\xdd" and frame[20:21] == bytes([_UDP]):
        udp = 14 + 40
    else:
        return None
    bth = frame[udp + 8 : udp + 20]
    if frame[:6] != _GUEST_MAC or frame[udp + 2 : udp + 4] != struct.pack(">H", ROCE_PORT) or len(bth) < 12:
        return None
    positive = frame[udp + 20 : udp + 21] < b"\x20"  # the syndrome's upper three bits
    return bth[5:8] if bth[0] == RC_ACKNOWLEDGE and positive else None


def last_answers(capture):
    """The newest ACK for each of the guest's queue pairs."""
    newest = {_acknowledged_qp(frame): frame for frame in _frames(capture)}
    newest.pop(None, None)
    return list(newest.values())


def deliver(frames):
    """Puts them on the wire as if they had been delayed."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
        wire.bind((lab.OUR_INTERFACE, 0))
        for frame in frames:
            wire.send(frame)
