#!/usr/bin/env python3
"""net_pcap_test.py UROCE_REPLAY CAPTURES: the same verdicts through a DPDK port as without one.

All captures in all roles, in one DPDK application; a planted difference; the port that EAL's arguments bring.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path[:0] = [str(pathlib.Path(__file__).resolve().parent), str(pathlib.Path(__file__).resolve().parents[2] / "support")]
import captures as cap  # noqa: E402
import checks  # noqa: E402
from checks import expect  # noqa: E402

TOOL, CAPTURES = sys.argv[1], pathlib.Path(sys.argv[2])
SCRATCH = tempfile.TemporaryDirectory()
DIRECTORY = pathlib.Path(SCRATCH.name)
TEMPORARY = DIRECTORY / "tmp"
TEMPORARY.mkdir()
CPU = min(os.sched_getaffinity(0))
EAL = ["-l", str(CPU), "--no-huge", "-m", "64", "--no-pci", "--no-shconf", "--no-telemetry", f"--file-prefix=replay-{os.getpid()}"]


def run(*arguments):
    environment = dict(os.environ, TMPDIR=str(TEMPORARY))
    return subprocess.run([TOOL, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment)


def through_port(*arguments, eal=()):
    return run(*EAL, *eal, "--", *arguments)


def same_verdicts():
    paths = sorted(CAPTURES.glob("*.pcap"))
    expect(len(paths) == 64, f"64 captures, not {len(paths)}")
    plain, port = run("--verbose", *paths), through_port("--verbose", *paths)
    expect("Detected" in port.stderr, "EAL has started", port)
    expect("DIFFERENT" not in plain.stdout and plain.stdout.count(" as responder: same") > 64, "the captures replay", plain)
    for mine, theirs in zip(port.stdout.splitlines(), plain.stdout.splitlines()):
        expect(mine == theirs, f"the port says: {mine}\nwithout it: {theirs}")
    expect(port.stdout == plain.stdout and port.returncode == plain.returncode, "all the same through the port", port)


def planted():
    """Another MSN in the first ACK of rc-send, and a reserved bit in its second request."""
    for role, frame, edit in (("responder", 4, lambda p: p.add(13, 3)), ("requester", 2, lambda p: p.add(4, 1))):
        header, packets = cap.load(CAPTURES / "rc-send.pcap")
        edit(packets[frame - 1])
        edited = DIRECTORY / "edited.pcap"
        cap.save(edited, header, packets)
        plain, port = run("--as", role, edited), through_port("--as", role, edited)
        expect(port.returncode == 1 and f"frame {frame}" in port.stdout and "DIFFERENT" in port.stdout, f"found as {role}", port)
        expect(port.stdout == plain.stdout, f"found as without the port, as {role}", port)



def port_of_eal():
    capture, sent = CAPTURES / "rc-mix.pcap", DIRECTORY / "sent.pcap"
    before = capture.read_bytes()
    device = f"--vdev=net_pcap0,rx_pcap={capture},tx_pcap={sent}"
    result = through_port("--as", "responder", eal=[device])
    expect(result.returncode == 0 and "27 packets compared" in result.stdout, "the port's capture is the one to replay", result)
    expect(capture.read_bytes() == before, "the capture is left alone")
    answers = [p for p in cap.load(sent)[1] if p.data[12:14] == b"\x08\x00" and p.is_response]
    recorded = [p for p in cap.load(capture)[1] if p.is_response]
    expect([(p.opcode, p.psn) for p in answers] == [(p.opcode, p.psn) for p in recorded], "tx_pcap has our answers")
    expect(all(p.icrc() == p.data[-4:] for p in answers), "with their own iCRC")
    other = through_port(CAPTURES / "rc-read.pcap", eal=[device])
    expect(other.returncode == 0 and "total: 2 same" in other.stdout and " 6 packets compared" in other.stdout, "or the one that is named", other)
    result = through_port(capture, eal=["--vdev=net_null0"])
    expect(result.returncode == 2 and "net_pcap" in result.stderr, "another driver is refused", result)
    result = through_port(capture, eal=[f"--vdev=net_pcap0,rx_pcap={capture}"])
    expect(result.returncode == 2 and "tx_pcap" in result.stderr, "a port that keeps nothing is refused", result)
    result = through_port()
    expect(result.returncode == 2 and "which capture" in result.stderr, "no capture at all gives 2", result)
    result = run("--no-such-argument", "--", capture)
    expect(result.returncode == 2 and "EAL did not start" in result.stderr, "a wrong argument of EAL's gives 2", result)
    expect(not list(TEMPORARY.iterdir()), "nothing is left behind")


def ended_by_a_signal():
    """Its files are already unlinked when it begins to print."""
    paths = sorted(CAPTURES.glob("*.pcap")) * 4
    environment = dict(os.environ, TMPDIR=str(TEMPORARY))
    for number in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([TOOL, *EAL, "--", "--verbose", *map(str, paths)], stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, env=environment) as tool:
            expect(tool.stdout.read(1), "it has begun")
            tool.send_signal(number)
            expect(tool.wait() == -number, "the signal has ended it")
        expect(not list(TEMPORARY.iterdir()), f"nothing is left behind by signal {number}")


same_verdicts()
planted()
ended_by_a_signal()
port_of_eal()
print(f"{checks.done} checks")
