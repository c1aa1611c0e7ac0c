#!/usr/bin/env python3
"""replay_test.py UROCE_REPLAY CAPTURES DOC: every capture in every role, planted differences, and the program's options.

Each capture has to replay without an undeclared difference, and every packet of it has to have been compared. Each
planted difference has to be found: in answers when our engine is the responder, in requests when it is the requester.
"""

import pathlib
import re
import struct
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "support")]
import captures as cap  # noqa: E402
import checks  # noqa: E402
from checks import expect  # noqa: E402

TOOL, CAPTURES, DOC = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
SCRATCH = tempfile.TemporaryDirectory()
EDITED = pathlib.Path(SCRATCH.name) / "edited.pcap"

# What our requesters never send, and requests that are not answered: see doc/replay.md.
NOT_REPLAYED = {
    "host-peer-rc": [
        "0xb1 RC as requester: not replayed: frame 1 has a wrong iCRC",
        "0xabcde RC as responder: not replayed: nothing in the capture answers",
        "0xb1 RC as responder: not replayed: nothing in the capture answers",
    ]
}


def replay(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=False)


def sum_of(pattern, text):
    return sum(int(number) for number in re.findall(pattern, text))


def originals():
    paths = sorted(CAPTURES.glob("*.pcap"))
    expect(len(paths) == 64, f"64 captures, not {len(paths)}")
    for path in paths:
        name, result = path.stem, replay(path)
        expect("DIFFERENT" not in result.stdout, f"{name} replays without a difference", result)
        expect(result.returncode == 0, f"{name} gives 0", result)
        missing = [line for line in result.stdout.splitlines() if " not replayed: " in line]
        wanted = NOT_REPLAYED.get(name, [])
        known = all(any(want in line for line in missing) for want in wanted)
        expect(len(missing) == len(wanted) and known, f"{name}: only the known roles are left out", result)
        every_packet_was_compared(name, path, result)


def every_packet_was_compared(name, path, result):
    packets = cap.load(path)[1]
    mads = sum(p.dest_qp == 1 for p in packets)
    seen = sum_of(r"same, (\d+) messages compared", result.stdout)
    expect(seen == mads, f"{name}: {mads} messages of connection management, {seen} compared", result)
    answers = sum(p.is_rc and p.is_response for p in packets)
    lines = result.stdout.splitlines()
    responder = "\n".join(line for line in lines if " RC as responder: same" in line)
    extra = sum_of(r"nak-after-rnr (\d+)", responder)
    seen = sum_of(r"(\d+) packets compared", responder)
    expect(seen + extra == answers, f"{name}: {answers} answers, {seen} compared, {extra} by nak-after-rnr", result)
    if name in NOT_REPLAYED:
        return
    requests = sum(not (p.is_rc and p.is_response) and p.dest_qp != 1 for p in packets)
    seen = sum_of(r"as requester: same, (\d+) packets compared", result.stdout)
    expect(seen == requests, f"{name}: {requests} requests, {seen} compared", result)


def edits_of_answer(packet):
    bth = packet.bth

    def flip(offset, mask):
        def edit(p):
            p.data[bth + offset] ^= mask
            p.seal()
        return edit

    if packet.opcode in cap.WITH_AETH:
        yield "MSN", lambda p: p.add(13, 3, 3)
        yield "reserved bit of the syndrome", flip(12, 0x80)
        if packet.syndrome < 0x20:
            yield "NAK instead of ACK", flip(12, 0x7F)
    yield "P_Key", lambda p: p.add(2, 2, -1)
    yield "AckReq", flip(8, 0x80)
    yield "solicited", flip(1, 0x80)
    yield "reserved byte", flip(4, 0x01)


def edits_of_request(packet):
    bth = packet.bth

    def flip(offset, mask):
        def edit(p):
            p.data[bth + offset] ^= mask
            p.seal()
        return edit

    yield "reserved bits", flip(8, 0x01)
    yield "reserved byte", flip(4, 0x01)
    if packet.opcode in (0x00, 0x01, 0x06, 0x07, 0x0C):
        yield "solicited in the middle of a message", flip(1, 0x80)
    if packet.opcode in (0x06, 0x0A):
        yield "length of a WRITE", lambda p: p.add(24, 4, 4)


def sweep(names, role, wanted, edits):
    """Each edit of each packet, one at a time, must be found, at its place."""
    for name in names:
        header, packets = cap.load(CAPTURES / f"{name}.pcap")
        for index, packet in enumerate(packets):
            if not wanted(packet):
                continue
            for what, edit in edits(packet):
                edited = packet.copy()
                edit(edited)
                cap.save(EDITED, header, packets[:index] + [edited] + packets[index + 1:])
                result = replay("--as", role, EDITED)
                expect(result.returncode == 1 and "DIFFERENT" in result.stdout, f"{name} frame {index + 1}: {what} is found", result)
                expect(f"frame {index + 1}" in result.stdout, f"{name} frame {index + 1}: {what} is found there", result)


def changed(name, frames, edit=None):
    """The capture with these frames removed, or edited."""
    header, packets = cap.load(CAPTURES / f"{name}.pcap")
    if edit is None:
        packets = [p for i, p in enumerate(packets) if i + 1 not in frames]
    else:
        for frame in frames:
            edit(packets[frame - 1])
    cap.save(EDITED, header, packets)
    return EDITED


def flip_payload(packet):
    packet.data[packet.payload.start] ^= 1
    packet.seal()


def spoil_icrc(packet):
    packet.data[-1] ^= 1


# Of cm-rping: frame, sender, byte of the MAD, bits, name, and for a few the row that shows it.
PLANTED_IN_MADS = [
    (1, "requester", 5, 0x04, "status of the REQ", "header byte 5"),
    (1, "requester", 24 + 26, 0x01, "reserved bits of the REQ"),
    (1, "requester", 24 + 43, 0x08, "response timeout of the REQ"),
    (1, "requester", 24 + 47, 0x10, "own timeout of the REQ"),
    (1, "requester", 24 + 49, 0x01, "P_Key of the REQ"),
    (1, "requester", 24 + 51, 0x10, "retries of the REQ"),
    (1, "requester", 24 + 56 + 15, 0x01, "GID of the REQ", "local_gid"),
    (1, "requester", 24 + 100, 0x01, "alternate path of the REQ"),
    (1, "requester", 24 + 140, 0x10, "version of the address header"),
    (2, "responder", 15, 0x01, "transaction of the REP"),
    (2, "responder", 24 + 26, 0x08, "ack delay of the REP"),
    (2, "responder", 24 + 26, 0x02, "failover of the REP"),
    (2, "responder", 24 + 27, 0x01, "reserved bits of the REP"),
    (3, "requester", 15, 0x01, "transaction of the RTU"),
    (3, "requester", 24 + 7, 0x01, "ID of the peer in the RTU"),
    (1, "requester", 24 + 72, 0x01, "GID of the peer in the REQ", "remote_gid"),
    (3, "requester", 24 + 8, 0x01, "first byte of the private data of the RTU", "private_data"),
    (3, "requester", 24 + 20, 0x01, "private data of the RTU", "private_data"),
    (40, "requester", 24 + 10, 0x01, "QPN of the DREQ"),
    (40, "requester", 24 + 11, 0x01, "reserved bits of the DREQ"),
    (41, "responder", 15, 0x01, "transaction of the DREP"),
    (41, "responder", 24 + 9, 0x01, "private data of the DREP"),
]


def connection_management():
    for frame, role, at, bits, what, *row in PLANTED_IN_MADS:

        def edit(packet, at=at, bits=bits):
            packet.data[packet.bth + 12 + 8 + at] ^= bits
            packet.seal()

        result = replay("--as", role, changed("cm-rping", [frame], edit))
        expect(result.returncode == 1 and f"frame {frame}" in result.stdout, f"{what} is found", result)
        for name in row:
            expect(f"* {name} " in result.stdout, f"{what} is shown as {name}", result)
    result = replay("--as", "requester", changed("cm-rping", [3]))
    expect(result.returncode == 1 and "the recorded end sends a DREQ, ours does not" in result.stdout,
           "an RTU that is missing is found", result)
    header, packets = cap.load(CAPTURES / "cm-rping.pcap")
    cap.save(EDITED, header, packets[:1] + packets)
    result = replay(EDITED)
    expect(result.returncode == 0 and "cm-repetition 1" in result.stdout, "a REQ may come again", result)
    result = replay("--as", "requester", "--without", "cm-repetition", EDITED)
    expect(result.returncode == 1, "unless that tolerance is withheld", result)
    cap.save(EDITED, header, packets[1:])
    result = replay(EDITED)
    expect("MADs to QP 1 of no exchange" in result.stdout, "messages of which nothing tells the beginning are skipped", result)


def what_a_qp_keeps():
    """Edits of fields that a QP chooses freely, but only once; in IPv4 packets."""

    def ip(offset, mask):
        def edit(p):
            p.data[14 + offset] ^= mask
            p.seal_ip()
        return edit

    def tag(p):
        p.data[12:12] = b"\x81\x00\x00\x05"

    yield "MAC address", lambda p: p.data.__setitem__(11, p.data[11] ^ 1)
    yield "VLAN", tag
    yield "DSCP", ip(1, 0x20)
    yield "TTL", ip(8, 0x01)
    yield "UDP source port", ip(21, 0x01)
    yield "UDP checksum", ip(26, 0x12)
    yield "MigReq", lambda p: p.add(1, 1, -0x40 if p.data[p.bth + 1] & 0x40 else 0x40)


def narrow_tolerances():
    """Packets that are just outside the tolerances."""
    for role, frames in (("responder", (5, 6)), ("requester", (2, 3))):
        for frame in frames:
            for what, edit in what_a_qp_keeps():
                result = replay("--as", role, changed("rc-send", [frame], edit))
                expect(result.returncode == 1 and f"frame {frame}" in result.stdout, f"{what} changes in frame {frame}", result)

    result = replay("--as", "requester", changed("uc-send", [2], lambda p: p.add(8, 1, 0x80)))
    expect(result.returncode == 1 and "* ack_req" in result.stdout, "AckReq without anybody who acknowledges is found", result)
    result = replay("--as", "responder", changed("rc-send", [5], lambda p: p.add(12, 1, -0x1A)))
    expect(result.returncode == 1 and "* credits" in result.stdout, "credits once and then not are found", result)
    result = replay("--as", "responder", changed("rc-send", [4, 5, 6], lambda p: p.add(12, 1, -0x1A)))
    expect(result.returncode == 0 and "credits 3" in result.stdout, "credits always are a tolerance", result)

    header, packets = cap.load(CAPTURES / "rc-rnr.pcap")
    cap.save(EDITED, header, packets[:4] + [packets[3]] + packets[4:])
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 1 and "frame 5: the recorded responder answers, we do not" in result.stdout,
           "a second NAK behind one RNR NAK is found", result)
    packets[4].header = packets[2].header
    cap.save(EDITED, header, packets)
    result = replay("--as", "requester", EDITED)
    expect(result.returncode == 1 and "frame 5, after frame 3" in result.stdout and "rnr_wait" in result.stdout,
           "a requester that does not wait is found", result)

    again = max(i for i, p in enumerate(cap.load(CAPTURES / "rc-loss-read-last.pcap")[1]) if p.opcode == cap.READ_LAST) + 1
    result = replay("--as", "responder", changed("rc-loss-read-last", [again], lambda p: p.add(0, 1)))
    expect(result.returncode == 1 and f"frame {again}," in result.stdout and "* opcode" in result.stdout,
           "another shape than before when a READ is answered again is found", result)

    header, packets = cap.load(CAPTURES / "rc-send.pcap")
    cap.save(EDITED, header, packets[:4] + [packets[5], packets[4]])
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 1 and "frame 6: the recorded responder answers, we do not" in result.stdout,
           "an ACK that acknowledges less than the one before is found", result)

    # The NAK caused by one lost packet is missing in the capture: that does not make the packets after it count as
    # lost.
    result = replay("--as", "responder", changed("rc-loss-send-middle", [7]))
    expect(result.returncode == 0 and "lost-request 1" in result.stdout and "lost-answer 1" in result.stdout,
           "one lost packet is one lost packet", result)

    # Frame 39 is the last ACK, frame 40 the DREQ, 5 ms later.
    header, packets = cap.load(CAPTURES / "cm-rping.pcap")
    del packets[38]
    cap.save(EDITED, header, packets)
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 1 and "we answer, the recorded responder does not" in result.stdout,
           "a last ACK that is missing long before a DREQ is found", result)
    packets[38].header = packets[37].header[:8] + packets[38].header[8:]
    cap.save(EDITED, header, packets)
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 0 and "closed 1" in result.stdout, "the last ACK may be missing when a DREQ came at once", result)
    result = replay("--as", "responder", "--without", "closed", EDITED)
    expect(result.returncode == 1, "unless that tolerance is withheld", result)
    packets[38].data[packets[38].bth + 12 + 8 + 24 + 8 + 2] ^= 1
    packets[38].seal()
    cap.save(EDITED, header, packets)
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 1, "a DREQ for another QP ends nothing", result)

    # A refused connection: only REQ and REJ.
    header, packets = cap.load(CAPTURES / "cm-rping.pcap")
    mad = packets[1].bth + 12 + 8
    packets[1].data[mad + 17] = 0x12
    packets[1].data[mad + 24 + 8 : mad + 256] = bytes([0, 0, 0, 28]) + bytes(256 - 24 - 12)
    packets[1].seal()
    cap.save(EDITED, header, packets[:2])
    result = replay("--strict", EDITED)
    expect(result.returncode == 0 and "total: 2 same" in result.stdout, "a refused connection is no failure", result)
    cap.save(EDITED, header, packets[:2] + cap.load(CAPTURES / "rc-send.pcap")[1])
    expect(replay("--strict", EDITED).returncode == 0, "nor beside others")

    # The first copy of a request is known to have arrived only if something after it arrived.
    header, packets = cap.load(CAPTURES / "rc-send.pcap")
    packets[2].header = packets[4].header
    cap.save(EDITED, header, packets[:2] + [packets[0], packets[4], packets[2], packets[5]])
    result = replay("--as", "responder", EDITED)
    expect(result.returncode == 0 and "lost-request" not in result.stdout, "a request that has to have arrived was not lost", result)


def without():
    lossy = CAPTURES / "rc-loss-send-middle.pcap"
    result = replay("--as", "responder", "--without", "credits", lossy)
    expect(result.returncode == 0 and "lost-request 1" in result.stdout, "--without what is not used", result)
    result = replay("--as", "responder", "--without", "credits,lost-request", lossy)
    expect(result.returncode == 1 and "lost-request" not in result.stdout, "--without what is used", result)
    result = replay("--without", "read-again-shape", CAPTURES / "rc-loss-read-last.pcap")
    expect(result.returncode == 1 and "* opcode" in result.stdout, "--without the shape of a READ that is answered again", result)
    result = replay("--without", "nak-after-rnr", CAPTURES / "rc-rnr.pcap")
    expect(result.returncode == 1 and "the recorded responder answers, we do not" in result.stdout, "--without NAKs behind RNR NAKs", result)
    for name in ("time", "luck"):
        expect(replay("--without", name, lossy).returncode == 2, f"--without {name} gives 2")


def planted():
    is_answer = lambda p: p.is_rc and p.is_response  # noqa: E731
    is_request = lambda p: p.is_rc and not p.is_response  # noqa: E731
    sweep(["rc-send", "rc-write", "rc-read", "rc-mtu256", "rc-loss-send-middle", "rc-ipv6"], "responder", is_answer, edits_of_answer)
    sweep(["rc-send", "rc-write", "rc-mtu256", "rc-loss-send-middle", "rc-ipv6"], "requester", is_request, edits_of_request)

    result = replay("--as", "responder", changed("rc-send", [6]))
    expect(result.returncode == 1 and "we answer, the recorded responder does not" in result.stdout, "a missing last ACK is found", result)
    result = replay("--as", "responder", changed("rc-send", [5]))
    expect(result.returncode == 0 and "ack-coalescing 1" in result.stdout, "one ACK less in the middle is a tolerance", result)
    result = replay("--as", "responder", changed("rc-read", [6]))
    expect(result.returncode == 1, "a missing READ response is found", result)
    result = replay("--as", "responder", changed("rc-send", [6], spoil_icrc))
    expect(result.returncode == 1 and re.search(r"\* icrc +wrong +right", result.stdout), "a wrong iCRC in an answer is found", result)
    result = replay("--as", "responder", changed("rc-loss-read-last", [18], flip_payload))
    expect(result.returncode == 1 and "frame 18" in result.stdout and "* payload" in result.stdout,
           "another byte when a READ is answered again is found", result)
    for frame in (10, 12, 13, 49, 50, 51, 58, 59, 60):
        result = replay("--as", "responder", changed("rc-mix", [frame], flip_payload))
        expect(result.returncode == 1 and f"frame {frame}," in result.stdout and "* payload" in result.stdout,
               "another byte than was written is found", result)
    for frame in (5, 6):
        result = replay("--as", "responder", changed("rc-atomic-fadd", [frame], lambda p: p.add(16, 8)))
        expect(result.returncode == 1 and f"frame {frame}," in result.stdout and "* original" in result.stdout,
               "another value before an atomic is found", result)
    result = replay("--as", "requester", changed("rc-send", [1], spoil_icrc))
    expect("as requester: not replayed: frame 1 has a wrong iCRC" in result.stdout, "no requester of ours sends a wrong iCRC", result)
    result = replay("--as", "responder", changed("rc-send", [1], spoil_icrc))
    expect(result.returncode == 1, "an answer to a packet with a wrong iCRC is found", result)


def options():
    capture = CAPTURES / "rc-mix.pcap"
    expect(replay("/nonexistent").returncode == 2, "no file gives 2")
    expect(replay(__file__).returncode == 2, "not a capture gives 2")
    expect(replay().returncode == 2, "no argument gives 2")
    cut = pathlib.Path(SCRATCH.name) / "cut.pcap"
    cut.write_bytes(capture.read_bytes()[:-7])
    expect(replay(cut).returncode == 2, "a capture cut short gives 2")
    result = replay("--as", "responder", capture)
    expect("as requester" not in result.stdout and "as responder" in result.stdout, "--as", result)
    result = replay("--qp", "0x123", CAPTURES / "rc-send.pcap")
    expect(result.returncode == 2 and "nothing to replay" in result.stderr, "--qp of no QP gives 2", result)
    expect(replay("--qp", "x", capture).returncode == 2, "--qp of no number gives 2")
    result = replay("--qp", "0x123,0x16", CAPTURES / "rc-send.pcap")
    expect(result.returncode == 0 and "-> 0x16 RC" in result.stdout, "--qp of one of two", result)
    result = replay("--quiet", capture)
    expect(result.returncode == 0 and result.stdout == "", "--quiet prints nothing", result)
    strict()
    without()
    raw_ip()
    parameters()
    tolerances()


def strict():
    result = replay("--strict", CAPTURES / "rc-mix.pcap")
    expect(result.returncode == 0 and "0 not replayed" in result.stdout.splitlines()[-1], "--strict, all replayed", result)
    left_out = CAPTURES / "host-peer-rc.pcap"
    result = replay(left_out, CAPTURES / "rc-mix.pcap")
    expect(result.returncode == 0 and "3 not replayed" in result.stdout.splitlines()[-1], "the last line counts what is left out", result)
    expect(replay("--strict", left_out).returncode == 1, "--strict, something left out")
    expect(replay("--strict", "--quiet", left_out).returncode == 1, "--strict --quiet")
    header, packets = cap.load(CAPTURES / "rc-send.pcap")
    cap.save(EDITED, header, [p for p in packets if p.is_response] + packets)
    result = replay("--strict", "--as", "responder", EDITED)
    expect(result.returncode == 1, "--strict, answers to nothing", result)


def raw_ip():
    header, packets = cap.load(CAPTURES / "rc-mix.pcap")
    for packet in packets:
        del packet.data[:14]
    cap.save(EDITED, header[:20] + struct.pack("<I", 101), packets)
    result = replay(EDITED)
    expect(result.returncode == 0 and "same" in result.stdout, "a capture of raw IP", result)


def parameters():
    """A capture that begins in the middle of a connection: only a parameter file can give the MSN."""
    capture = changed("rc-atomic-fadd", [1, 4])
    text = pathlib.Path(SCRATCH.name) / "parameters"
    text.write_text("# before the capture\nmsn = 1\n")
    result = replay("--as", "responder", capture)
    expect(result.returncode == 1 and "* msn" in result.stdout, "without the MSN the answers differ", result)
    result = replay("--as", "responder", "--parameters", text, capture)
    expect(result.returncode == 0, "with it they do not", result)
    text.write_text("mtu = 1024\nmsm = 3\n")
    result = replay("--parameters", text, capture)
    expect(result.returncode == 2 and "line 2" in result.stderr, "a mistake in the file is named", result)
    text.write_text("access = write\n")
    result = replay("--as", "responder", "--parameters", text, CAPTURES / "rc-read.pcap")
    expect(result.returncode == 1 and "NAK invalid request" in result.stdout, "rights from a file", result)


def tolerances():
    listed = replay("--tolerances").stdout.splitlines()
    expect(len(listed) >= 10, "--tolerances lists them")
    page = " ".join(DOC.read_text().split())
    for line in listed:
        name, role = line.split()[:2]
        text = " ".join(line.split()[3:]) if line.split()[2] in ("counted", "always") else ""
        expect(f"| `{name}` | {role} | {text} |" in page, f"doc/replay.md has the tolerance {name} as --tolerances prints it")


originals()
planted()
narrow_tolerances()
connection_management()
options()
print(f"{checks.done} checks")
