#!/usr/bin/env python3
"""mqnic-card as a process, driven by a client that shares no code with ours: struct.pack and the facts of the protocol.

    mqnic_card_test.py MQNIC-CARD [unittest arguments]
"""

import array
import contextlib
import errno
import json
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

MQNIC_CARD = ""

VERSION, DMA_MAP, DMA_UNMAP, GET_INFO, REGION_INFO = 1, 2, 3, 4, 5
IRQ_INFO, SET_IRQS, REGION_READ, REGION_WRITE, DMA_READ, DMA_WRITE, RESET = 7, 8, 9, 10, 11, 12, 13
BAR0, CONFIG, DOORBELLS = 0, 7, 9
PATIENCE_S = 30  # for what comes at once on an idle machine


class Refused(Exception):
    pass


class Client:
    """vfio-user, by the public specification."""

    def __init__(self, path, patience=PATIENCE_S):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(patience)
        self.socket.connect(path)
        self.number = 100
        self.private, self.given = None, 0
        body = struct.pack("<HH", 0, 1) + json.dumps({"capabilities": {"max_msg_fds": 8}}).encode() + b"\0"
        answer, _ = self.call(VERSION, body)
        major, self.minor = struct.unpack_from("<HH", answer)
        assert major == 0 and answer.endswith(b"\0")
        self.capabilities = json.loads(answer[4:-1])["capabilities"]

    def close(self):
        self.socket.close()

    def read_exactly(self, count, fds):
        data = b""
        while len(data) < count:
            part, ancillary, _, _ = self.socket.recvmsg(count - len(data), socket.CMSG_SPACE(64))
            if not part:
                raise ConnectionError("the server has closed")
            for _, _, raw in ancillary:
                fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
            data += part
        return data

    def call(self, command, body=b"", fds=()):
        self.number += 1
        header = struct.pack("<HHIII", self.number, command, 16 + len(body), 0, 0)
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([header, body], ancillary)
        received = array.array("i")
        while True:
            number, command_back, size, flags, error = struct.unpack("<HHIII", self.read_exactly(16, received))
            data = self.read_exactly(size - 16, received)
            if flags & 0xF == 1:
                break
            self.give(number, command_back, data)
        assert (number, command_back, flags & 0xF) == (self.number, command, 1), (number, command_back, flags)
        if flags & 0x20:
            assert size == 16
            raise Refused(errno.errorcode.get(error, error))
        return data, list(received)

    def give(self, number, command, data):
        """Answers the card's accesses to memory that is not shared."""
        address, count = struct.unpack_from("<QQ", data)
        memory, at = self.private, address - Host.ADDRESS
        assert 0 <= at <= at + count <= len(memory) and command in (DMA_READ, DMA_WRITE)
        answer = data[:16]
        if command == DMA_READ:
            answer += memory[at : at + count]
        else:
            memory[at : at + count] = data[16:]
        self.socket.sendall(struct.pack("<HHIII", number, command, 16 + len(answer), 1, 0) + answer)
        self.given += 1

    def read(self, region, offset, count):
        data, _ = self.call(REGION_READ, struct.pack("<QII", offset, region, count))
        assert data[:16] == struct.pack("<QII", offset, region, count)
        return data[16:]

    def write(self, region, offset, data):
        answer, _ = self.call(REGION_WRITE, struct.pack("<QII", offset, region, len(data)) + data)
        assert answer == struct.pack("<QII", offset, region, len(data))

    def read32(self, offset):
        return struct.unpack("<I", self.read(BAR0, offset, 4))[0]

    def write32(self, offset, value):
        self.write(BAR0, offset, struct.pack("<I", value))

    def map(self, address, fd, offset, size, flags=3):
        return self.call(DMA_MAP, struct.pack("<IIQQQ", 32, flags, offset, address, size), [fd] if fd >= 0 else [])

    def unmap(self, address, size):
        return self.call(DMA_UNMAP, struct.pack("<IIQQ", 24, 0, address, size))

    def region(self, index, argsz=4096):
        data, fds = self.call(REGION_INFO, struct.pack("<IIIIQQ", argsz, 0, index, 0, 0, 0))
        return struct.unpack_from("<IIIIQQ", data), data[32:], fds


class Host:
    """Queue 0 of the card, by the register map: TXQ and RXQ 0, CQ 0 and 1, EQ 0."""

    ADDRESS = 0x100000000  # a DMA address of our own choice, as in a virtual machine
    SIZE = 1 << 20
    TXQ, RXQ, TXCQ, RXCQ, EQ, TXBUF, RXBUF = 0x0, 0x1000, 0x2000, 0x3000, 0x4000, 0x10000, 0x80000

    def __init__(self, client, shared=True):
        self.client = client
        self.fd = os.memfd_create("host")
        os.ftruncate(self.fd, self.SIZE)
        self.memory = mmap.mmap(self.fd, self.SIZE)
        client.private = self.memory
        client.map(self.ADDRESS, self.fd if shared else -1, 0, self.SIZE)
        self.blocks = self.walk()
        self.tx = self.rx = 0
        self.reads = 0

    def walk(self):
        """Walks block lists: type -> offset, of the device and of interface 0."""
        found = {}

        def follow(base, start):
            at = start
            while True:
                kind, version, following = struct.unpack("<III", self.client.read(BAR0, base + at, 12))
                found.setdefault(kind, []).append((base + at, version))
                if kind in (0xC002, 0xC004):  # a port, a scheduler block, which have lists of their own
                    follow(base, self.client.read32(base + at + 0x0C))
                if following == 0:
                    return
                at = following

        follow(0, 0)
        interfaces = found[0xC000][0][0]
        base = self.client.read32(interfaces + 0x0C)
        follow(base, self.client.read32(interfaces + 0x18))
        self.base = base
        return found

    def queues(self, kind):
        block, version = self.blocks[kind][0]
        assert version == 0x400, hex(version)
        return self.base + self.client.read32(block + 0x0C)

    def set_up(self, queue, command, ring, words):
        address = self.ADDRESS + ring
        self.client.write32(queue + command, 0x40000100)  # a reset of the card leaves queues enabled
        self.client.write32(queue, address & 0xFFFFFFFF)
        self.client.write32(queue + 4, address >> 32)
        for word in words:
            self.client.write32(queue + command, word)

    def start(self):
        write = self.client.write32
        self.eq = self.queues(0xC010)
        self.cq = self.queues(0xC020)
        self.txq = self.queues(0xC030)
        self.rxq = self.queues(0xC031)
        self.set_up(self.eq, 0x0C, self.EQ, [0x80020004, 0xC0000003, 0x80800000, 0x80900000, 0x40000101])
        self.set_up(self.cq, 0x0C, self.TXCQ, [0x80020004, 0xC0000000, 0x80800000, 0x80900000, 0x40000101])
        self.set_up(self.cq + 0x10, 0x0C, self.RXCQ, [0x80020004, 0xC0000000, 0x80800000, 0x80900000, 0x40000101])
        self.set_up(self.txq, 0x10, self.TXQ, [0x80020004, 0xC0000000, 0x80800000, 0x80900000, 0x40000101])
        self.set_up(self.rxq, 0x10, self.RXQ, [0x80020004, 0xC0000001, 0x80800000, 0x80900000, 0x40000101])
        control = self.blocks[0xC001][0][0]
        write(control + 0x28, 9214)
        write(control + 0x2C, 9214)
        queue_map = self.blocks[0xC090][0][0]
        write(queue_map + 0x14, 0)
        write(queue_map + 0x18, 0)
        write(self.base + self.client.read32(queue_map + 0x10), 0)
        for slot in range(8):
            struct.pack_into("<HHIQ", self.memory, self.RXQ + 16 * slot, 0, 0, 0x2800, self.ADDRESS + self.RXBUF + 0x2800 * slot)
        self.rx = 8
        self.ring_doorbell(1, 0, 0x80800000 | self.rx)
        port = self.blocks[0xC003][0][0]
        scheduler = self.blocks[0xC040][0][0]
        write(port + 0x10, 1)
        write(scheduler + 0x18, 1)
        write(self.base + self.client.read32(scheduler + 0x0C), 3)
        write(port + 0x14, 1)

    def ring_doorbell(self, kind, queue, command):
        """Without the shared memory: through the command registers."""
        base = {0: self.txq, 1: self.rxq}[kind]
        self.client.write32(base + 0x20 * queue + 0x10, command)

    def send(self, frame):
        slot = self.tx % 16
        at = self.TXBUF + 0x2800 * slot
        self.memory[at : at + len(frame)] = frame
        struct.pack_into("<HHIQ", self.memory, self.TXQ + 16 * slot, 0, 0, len(frame), self.ADDRESS + at)
        self.tx += 1
        self.ring_doorbell(0, 0, 0x80800000 | self.tx)

    def receive(self, patience=PATIENCE_S):
        at = self.RXCQ + 32 * (self.reads % 16)
        end = time.monotonic() + patience
        lap = 0x80 if self.reads // 16 % 2 == 0 else 0
        while self.memory[at + 31] & 0x80 != lap:
            if time.monotonic() > end:
                return None
            time.sleep(0.0005)
        _, index, size = struct.unpack_from("<HHH", self.memory, at)
        self.reads += 1
        buffer = self.RXBUF + 0x2800 * (index % 8)
        return bytes(self.memory[buffer : buffer + size])

    def close(self):
        self.memory.close()
        os.close(self.fd)


def frame_of(number, size):
    return bytes((number * 37 + i * 11) & 0xFF for i in range(size))


class MqnicCard(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory(prefix="mqnic_card", dir="/dev/shm")
        self.addCleanup(self.directory.cleanup)
        self.processes = []
        self.addCleanup(self.stop_all)

    def stop_all(self):
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.communicate()

    def start(self, name, *arguments):
        path = os.path.join(self.directory.name, name)
        environment = dict(os.environ, UROCE_RUNTIME_DIR=os.path.join(self.directory.name, "run"))
        process = subprocess.Popen([MQNIC_CARD, "--socket", path, *arguments], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=environment)
        self.processes.append(process)
        self.assertEqual(process.stdout.readline().split(" on ")[0], "mqnic-card: ready", "its first line")
        return process, path

    def finish(self, process):
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 0, err)
        return dict(line.split() for line in out.splitlines()), err

    def client(self, path, patience=PATIENCE_S):
        client = Client(path, patience)
        self.addCleanup(client.close)
        return client

    def host(self, client, shared=True):
        host = Host(client, shared)
        self.addCleanup(host.close)
        host.start()
        return host

    def test_what_the_device_says_of_itself(self):
        _, path = self.start("a", "--interfaces", "2", "--queues", "16")
        client = self.client(path)
        self.assertLessEqual(client.minor, 1)
        self.assertEqual(client.capabilities["max_data_xfer_size"], 4096)
        info, _ = client.call(GET_INFO, struct.pack("<IIII", 16, 0, 0, 0))
        self.assertEqual(struct.unpack("<IIII", info), (16, 3, 10, 5))
        self.assertEqual(client.region(BAR0)[0], (32, 3, 0, 0, 16 << 20, 0))
        (argsz, flags, index, cap, size, offset), capabilities, fds = client.region(DOORBELLS)
        self.assertEqual((argsz, flags, index, cap, size, offset, len(fds)), (80, 15, 9, 32, 2 * 131072, 0, 1))
        self.assertEqual(struct.unpack_from("<HHIIIQQ", capabilities), (1, 1, 64, 1, 0, 0, size))
        self.assertEqual(struct.unpack_from("<HHIII", capabilities, 32), (2, 1, 0, 0x80001234, 1))
        os.close(fds[0])
        irqs, _ = client.call(IRQ_INFO, struct.pack("<IIII", 16, 0, 2, 0))
        self.assertEqual(struct.unpack("<IIII", irqs), (16, 1, 2, 64))
        config = client.read(CONFIG, 0, 256)
        self.assertEqual(struct.unpack_from("<HH", config), (0x1234, 0x1001))
        self.assertEqual(config[9:12], bytes([0, 0, 2]), "class")
        self.assertEqual(config[config[0x34]], 0x11, "MSI-X")

    def test_frames_and_interrupts_by_messages_alone(self):
        process, path = self.start("a", "--wire", "loop")
        client = self.client(path)
        interrupt = os.eventfd(0, os.EFD_NONBLOCK)
        self.addCleanup(os.close, interrupt)
        client.call(SET_IRQS, struct.pack("<IIIII", 20, 0x24, 2, 3, 1), [interrupt])
        host = self.host(client)
        client.write32(host.eq + 0x0C, 0x40000201)
        client.write32(host.cq + 0x10 + 0x0C, 0x40000201)
        for number, size in enumerate([60, 64, 1514, 4096, 9214]):
            host.send(frame_of(number, size))
            self.assertEqual(host.receive(), frame_of(number, size))
        self.assertEqual(struct.unpack("<Q", os.read(interrupt, 8)), (1,))
        client.close()
        report, _ = self.finish(process)
        self.assertEqual((report["tx_frames"], report["rx_frames"]), ("5", "5"))
        self.assertFalse(os.path.exists(path), "the socket is removed")

    def test_frames_in_memory_that_is_not_shared(self):
        process, path = self.start("a", "--wire", "loop")
        client = self.client(path)
        host = self.host(client, shared=False)
        for number, size in enumerate([60, 4096, 9214]):
            host.send(frame_of(number, size))
            end = time.monotonic() + PATIENCE_S
            while client.read32(host.cq + 0x10 + 0x0C) & 0xFFFF != number + 1:  # this serves the card's accesses
                self.assertLess(time.monotonic(), end)
            self.assertEqual(host.receive(), frame_of(number, size))
        self.assertEqual(client.given, 6 + 6 + 10)  # two descriptors, two completions, each piece of the frame twice
        client.close()
        self.assertEqual(self.finish(process)[0]["dma_faults"], "0")

    def test_frames_through_doorbell_memory(self):
        _, path = self.start("a", "--wire", "loop")
        client = self.client(path)
        host = self.host(client)
        _, _, fds = client.region(DOORBELLS)
        words = mmap.mmap(fds[0], 131072)
        self.addCleanup(words.close)
        os.close(fds[0])
        host.ring_doorbell = lambda kind, queue, command: struct.pack_into("<I", words, (kind * 8192 + queue) * 4, command)
        host.send(frame_of(1, 100))
        self.assertEqual(host.receive(), frame_of(1, 100))
        time.sleep(0.3)  # the card's thread sleeps by now
        host.send(frame_of(2, 100))
        self.assertEqual(host.receive(), frame_of(2, 100))

    def test_two_cards_on_a_cable_and_a_client_that_is_killed(self):
        first, path_a = self.start("a", "--wire", "shm:cable")
        second, path_b = self.start("b", "--wire", "shm:cable")
        a = self.host(self.client(path_a))
        # The second client is a separate process, and is killed.
        pid = os.fork()
        if pid == 0:
            try:
                host = Host(Client(path_b))
                host.start()
                host.send(frame_of(1, 500))
                if host.receive() == frame_of(2, 600):
                    signal.pause()
            finally:
                os._exit(1)
        self.assertEqual(a.receive(), frame_of(1, 500))
        a.send(frame_of(2, 600))
        time.sleep(0.2)
        os.kill(pid, signal.SIGKILL)
        self.assertEqual(os.waitpid(pid, 0)[1], signal.SIGKILL, "it had received its frame")
        b = self.host(self.client(path_b))
        b.send(frame_of(3, 700))
        self.assertEqual(a.receive(), frame_of(3, 700))
        # A card that dies takes down the other one's link.
        port = a.blocks[0xC003][0][0]
        self.assertTrue(a.client.read32(port + 0x10) & 1 << 16)
        second.kill()
        second.wait()
        end = time.monotonic() + PATIENCE_S
        while a.client.read32(port + 0x10) & 1 << 16 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertFalse(a.client.read32(port + 0x10) & 1 << 16)
        a.client.close()
        self.finish(first)
        self.assertEqual(os.listdir(os.path.join(self.directory.name, "run")), [])

    def test_third_card_on_a_cable(self):
        first, _ = self.start("a", "--wire", "shm:cable")
        second, _ = self.start("b", "--wire", "shm:cable")
        path = os.path.join(self.directory.name, "c")
        environment = dict(os.environ, UROCE_RUNTIME_DIR=os.path.join(self.directory.name, "run"))
        third = subprocess.run([MQNIC_CARD, "--socket", path, "--wire", "shm:cable"], capture_output=True, text=True,
                               env=environment, timeout=PATIENCE_S, check=False)
        self.assertEqual(third.returncode, 2)
        self.assertEqual(len(third.stderr.splitlines()), 1)
        self.assertIn(str(first.pid), third.stderr)
        self.assertIn(str(second.pid), third.stderr)

    def test_zero_length_packet_is_said_loudly(self):
        process, path = self.start("a", "--wire", "loop")
        client = self.client(path)
        host = self.host(client)
        host.send(b"")
        host.send(frame_of(1, 60))
        self.assertIsNone(host.receive(0.3), "the TX engine is stuck")
        client.call(RESET)
        client.close()
        report, messages = self.finish(process)
        self.assertEqual(report["tx_wedged"], "1")
        self.assertIn("length zero", messages)

    def test_client_that_cuts_off_its_memory_harms_nobody_else(self):
        _, path = self.start("a", "--wire", "loop")
        client = self.client(path)
        host = self.host(client)
        os.ftruncate(host.fd, 0)
        host.ring_doorbell(0, 0, 0x80800001)
        end = time.monotonic() + PATIENCE_S
        while client.read32(host.txq + 0x10) >> 16 != 1:  # it has taken the descriptor, whose memory is gone
            self.assertLess(time.monotonic(), end)
        client.close()
        again = self.host(self.client(path))
        again.send(frame_of(2, 100))
        self.assertEqual(again.receive(), frame_of(2, 100))

    def test_clients_that_stall_do_not_block_the_others(self):
        """Each holds a card of its own, in a different way, for three seconds; the next client waits no longer than
        that, plus what a busy machine adds."""
        version = struct.pack("<HHIII", 1, VERSION, 16 + 40, 0, 0)
        stalls = [b"", version[:7], version + b"\0\0"]
        cards, stalled = [], []
        for number, said in enumerate(stalls):
            process, path = self.start(f"stall{number}", "--wire", "loop")
            cards.append((process, path))
            stalled.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            self.addCleanup(stalled[-1].close)
            stalled[-1].connect(path)
            stalled[-1].send(said)
        process, path = self.start("greedy", "--wire", "loop")
        cards.append((process, path))
        greedy = Client(path)  # sends requests, and does not read the answers
        self.addCleanup(greedy.close)
        question = struct.pack("<HHIII", 7, REGION_READ, 32, 0, 0) + struct.pack("<QII", 0, BAR0, 4096)
        greedy.socket.settimeout(0.5)
        with self.assertRaises(TimeoutError):
            while True:
                greedy.socket.sendall(question)
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.stdout.readline().split(), ["tx_frames", "0"])
        self.assertEqual(select.select([process.stderr], [], [], 0)[0], [], "the card goes on while the client has its three seconds")
        for number, (process, path) in enumerate(cards):
            host = self.host(self.client(path, patience=10))
            host.send(frame_of(number, 100))
            self.assertEqual(host.receive(), frame_of(number, 100))
            host.client.close()
            _, messages = self.finish(process)
            self.assertEqual(messages, "mqnic-card: a client stalled for 3 s and was disconnected\n")
        for connection in stalled:
            connection.settimeout(PATIENCE_S)
            with contextlib.suppress(ConnectionResetError):
                self.assertEqual(connection.recv(1), b"")

    def test_report_on_request(self):
        process, path = self.start("a", "--wire", "loop", "--loss", "1")
        host = self.host(self.client(path))
        host.send(frame_of(1, 60))
        self.assertIsNone(host.receive(0.2), "the wire loses everything")
        process.send_signal(signal.SIGUSR1)
        lines = [process.stdout.readline().split() for _ in range(3)]
        self.assertEqual(lines, [["tx_frames", "1"], ["tx_bytes", "60"], ["rx_frames", "0"]])

    def test_idle_card_does_not_burn_a_core(self):
        process, path = self.start("a", "--wire", "loop")
        self.host(self.client(path))
        time.sleep(0.2)

        def ticks():
            with open(f"/proc/{process.pid}/stat", encoding="ascii") as stat:
                fields = stat.read().rsplit(")", 1)[1].split()
            return int(fields[11]) + int(fields[12])

        before, begun = ticks(), time.monotonic()
        time.sleep(1.0)
        share = (ticks() - before) / os.sysconf("SC_CLK_TCK") / (time.monotonic() - begun)
        self.assertLess(share, 0.2)

    def test_wrong_arguments_are_one_line_and_exit_2(self):
        for arguments, says in [
            ([], "--socket"),
            (["--socket", "/nowhere/x"], "cannot listen"),
            (["--socket", os.path.join(self.directory.name, "x"), "--wire", "rope"], "shm:NAME"),
            (["--socket", os.path.join(self.directory.name, "x"), "--delay", "20"], "20us"),
            (["--socket", os.path.join(self.directory.name, "x"), "--wire", "loop", "--wire", "loop"], "2 wires for 1 port"),
            (["--socket", os.path.join(self.directory.name, "x"), "--interfaces", "0"], "--interfaces"),
        ]:
            done = subprocess.run([MQNIC_CARD, *arguments], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(says, done.stderr)
        self.assertEqual(os.listdir(self.directory.name), [])
        self.assertEqual(subprocess.run([MQNIC_CARD, "--help"], capture_output=True, timeout=PATIENCE_S, check=False).returncode, 0)


if __name__ == "__main__":
    MQNIC_CARD = sys.argv.pop(1)
    unittest.main()
