"""A running endpoint on a TAP port, and the wire in our hands: what we send, what comes back, what it counted.

Everything lives in namespaces of its own (see tests/system/interop/isolation.py), where the kernel itself keeps quiet.
"""

import collections
import json
import pathlib
import socket
import struct
import subprocess
import sys
import time

sys.dont_write_bytecode = True
TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "interop"))
sys.path.insert(0, str(TESTS / "programs"))

from rocev2 import Path, address_bytes, internet_checksum, is_ipv6, mac_bytes, read_answer

INTERFACE = "tap0"
OUR_MAC = "02:00:00:00:77:01"  # the stranger's
ADDRESSES = {4: ("10.77.0.9", "10.77.0.200"), 6: ("fd77::9", "fd77::200")}  # the endpoint's, the stranger's
GID_INDEX = {4: 1, 6: 2}
THEIR_PSN, OUR_PSN = 0x100, 0x200  # target.cc: of the first request to it, and of its own first request
QKEY = 0x11111111
RECEIVES = 2
RTS, ERROR = 3, 6  # ibv_qp_state

ETH_P_ALL = 3
SO_RCVBUFFORCE = 33
SOL_PACKET, PACKET_IGNORE_OUTGOING = 263, 23

# Counters that follow from others, or from what neighbours do on their own.
UNJUDGED = {"rx_packets", "rx_bytes", "tx_packets", "tx_bytes", "arp_tx", "nd_tx", "link_ups"}


class Trouble(Exception):
    """The endpoint, or this test, does not work at all."""


class Target:
    """tests/system/traffic/target.cc over uroce."""

    def __init__(self, uroce, program, log):
        command = [uroce, "run", "--port", f"net_tap0,iface={INTERFACE}"]
        for own, _ in ADDRESSES.values():
            command += ["--addr", own + ("/64" if is_ipv6(own) else "/24")]
        self._process = subprocess.Popen([*command, "--", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         stderr=log, text=True)
        self._read()

    @property
    def pid(self):
        return self._process.pid

    def ask(self, *words):
        try:
            self._process.stdin.write(" ".join(map(str, words)) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Trouble(f"the target ended with {self._process.wait()}") from None
        return self._read()

    def _read(self):
        line = self._process.stdout.readline()
        if not line:
            raise Trouble(f"the target ended with {self._process.wait()}")
        answer = json.loads(line)
        if "error" in answer:
            raise Trouble(f"the target: {answer['error']}")
        return answer

    def stop(self):
        self._process.stdin.close()
        try:
            return self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()


class Telemetry:
    def __init__(self, pid):
        note = pathlib.Path(f"/run/uroce/endpoint.{pid}")
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(10)
        self._socket.connect(note.read_text(encoding="utf-8").strip())
        self._socket.recv(1 << 16)

    def _ask(self, command):
        self._socket.send(command.encode())
        return json.loads(self._socket.recv(1 << 16))[command]

    def counters(self):
        return self._ask("/uroce/counters")

    def endpoint(self):
        return self._ask("/uroce/endpoint")


class Qp:
    """One queue pair of the target, with this test as its peer."""

    def __init__(self, group, qpn, peer_qpn, family):
        self.group, self.qpn, self.peer_qpn, self.family = group, qpn, peer_qpn, family


class Rig:
    def __init__(self, uroce, program, log):
        quiet = pathlib.Path("/proc/sys/net/ipv6/conf/default/disable_ipv6")
        if quiet.exists():
            quiet.write_text("1", encoding="utf-8")
        self.target = Target(uroce, program, log)
        subprocess.run(["ip", "link", "set", INTERFACE, "txqueuelen", "20000", "up"], check=True)
        self._out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self._out.bind((INTERFACE, 0))
        self._in = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
        self._in.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
        self._in.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 256 << 20)
        self._in.bind((INTERFACE, ETH_P_ALL))
        self._in.setblocking(False)
        self.telemetry = Telemetry(self.target.pid)
        self.mac = self.telemetry.endpoint()["mac"]
        memory = self.target.ask("memory")
        self.va, self.rkey, self.region_bytes = memory["va"], memory["rkey"], memory["bytes"]
        self.others = []  # frames of the endpoint other than RoCEv2
        self.answers = []
        self.before = None

    # The wire.

    def path(self, family=4):
        own, stranger = ADDRESSES[family]
        return Path(OUR_MAC, self.mac, stranger, own)

    def send(self, frames):
        for frame in frames:
            self._out.send(frame)

    def hear(self):
        while True:
            try:
                frame = self._in.recv(65536)
            except BlockingIOError:
                return
            answer = read_answer(frame)
            (self.others if answer is None else self.answers).append(frame if answer is None else answer)

    def introduce(self):
        """Asks for the endpoint's addresses: it then knows the address of the sender."""
        self.begin()
        own, stranger = ADDRESSES[4]
        ethernet = mac_bytes(self.mac) + mac_bytes(OUR_MAC)
        arp = (ethernet + bytes.fromhex("08060001080006040001") + mac_bytes(OUR_MAC) + address_bytes(stranger) + bytes(6) +
               address_bytes(own))
        own, stranger = ADDRESSES[6]
        message = b"\x87\0\0\0\0\0\0\0" + address_bytes(own) + b"\x01\x01" + mac_bytes(OUR_MAC)
        addresses = address_bytes(stranger) + address_bytes(own)
        checksum = internet_checksum(addresses + struct.pack("!II", len(message), 58) + message)
        solicitation = (ethernet + b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(message), 58, 255) + addresses + message[:2] +
                        struct.pack("!H", checksum) + message[4:])
        self.send([arp, solicitation])
        grown = self.growth(self.wait_received(2))
        if (grown.get("arp_rx"), grown.get("nd_rx")) != (1, 1):
            raise Trouble(f"ARP and neighbour discovery are not as expected: {grown}")

    # The target's queue pairs.

    def make(self, kind, count, family=4, state="rts"):
        stranger = ADDRESSES[family][1]
        gid = stranger if family == 6 else "::ffff:" + stranger
        made = self.target.ask("make", kind, count, state, GID_INDEX[family], gid)
        first = made["first_peer_qpn"]
        return [Qp(made["group"], qpn, first + i, family) for i, qpn in enumerate(made["qpns"])]

    def drop(self, qps):
        self.target.ask("drop", qps[0].group)

    def states(self, qps):
        return self.target.ask("states", qps[0].group)["states"]

    def completions(self):
        """QP number -> [(opcode, status, bytes)]"""
        found = collections.defaultdict(list)
        for qpn, opcode, status, length in self.target.ask("poll")["completions"]:
            found[qpn].append((opcode, status, length if status == 0 else 0))
        return found

    # Counting.

    def begin(self):
        self.hear()
        self.answers.clear()
        self.others.clear()
        self.before = self.telemetry.counters()

    def wait_received(self, frames, timeout_s=15):
        """Waits until the endpoint has taken `frames` frames since begin(), and we have everything that it sent;
        returns its counters."""
        deadline = time.monotonic() + timeout_s
        while True:
            now = self.telemetry.counters()
            taken = now["rx_packets"] - self.before["rx_packets"]
            self.hear()
            sent = now["tx_packets"] - self.before["tx_packets"]
            if taken >= frames and len(self.answers) + len(self.others) >= sent:
                return now
            if time.monotonic() > deadline:
                raise Trouble(f"{frames} frames were sent, {taken} arrived; {sent} came back, "
                              f"{len(self.answers) + len(self.others)} heard")

    def growth(self, now):
        return {name: value - self.before[name] for name, value in now.items()
                if value != self.before[name] and name not in UNJUDGED}
