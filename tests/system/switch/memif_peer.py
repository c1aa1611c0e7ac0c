"""A memif client that can do everything right, and anything wrong: the protocol by struct.pack, and shared memory.

    peer = Peer(path)
    peer.shake_hands()
    peer.send(frame)              # to the switch
    peer.receive(timeout)         # from it
    peer.slot(TO_SERVER, 0, region=7, length=100)   # a descriptor with lies in it
"""

import array
import fcntl
import mmap
import os
import socket
import struct
import time

MESSAGE_BYTES = 128
ACK, HELLO, INIT, ADD_REGION, ADD_RING, CONNECT, CONNECTED, DISCONNECT = range(1, 9)
VERSION, COOKIE = 0x0200, 0x03E31F20
TO_SERVER, TO_CLIENT = 0, 1  # rings
NEXT = 1
HEAD, TAIL, SLOTS = 6, 64, 128
BUFFER_BYTES = 4352

ADD_SEALS, SEAL_SHRINK = 1033, 2


class Refused(Exception):
    """The server said DISCONNECT, or closed."""


class Peer:
    def __init__(self, path, log2=8, timeout=5):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(path)  # waits, as long as others are waiting
        self.socket.settimeout(timeout)
        self.log2 = log2
        self.count = 1 << log2
        self.ring_bytes = SLOTS + 16 * self.count
        self.bytes = 2 * self.ring_bytes + 2 * self.count * BUFFER_BYTES
        self.memory_fd = -1
        self.memory = None
        self.words = None
        self.next = [0, 0]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()
        if self.memory is not None:
            self.words.release()
            self.memory.close()
            self.memory = None
        if self.memory_fd >= 0:
            os.close(self.memory_fd)
            self.memory_fd = -1

    # Messages.

    def say(self, kind, body=b"", fds=(), size=MESSAGE_BYTES):
        message = (struct.pack("<H", kind) + body).ljust(size, b"\0")[:size]
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([message], ancillary)

    def hear(self, *wanted):
        try:
            data = self.socket.recv(4096)
        except ConnectionError as error:
            raise Refused(str(error)) from error
        kind = struct.unpack_from("<H", data)[0] if data else None
        if kind in (None, DISCONNECT):
            raise Refused(data[6:102].split(b"\0")[0].decode() if data else "closed")
        if wanted and kind not in wanted:
            raise AssertionError(f"message {kind} instead of {wanted}")
        return data

    def init(self, version=VERSION, interface=0, mode=0):
        self.say(INIT, struct.pack("<HIB", version, interface, mode))

    def add_region(self, index=0, size=None, fds=None):
        self.say(ADD_REGION, struct.pack("<HQ", index, self.bytes if size is None else size),
                 [self.memory_fd] if fds is None else fds)

    def add_ring(self, ring, index=0, region=0, offset=None, log2=None, fds=None, private=0):
        event = os.eventfd(0, os.EFD_NONBLOCK)
        offset = ring * self.ring_bytes if offset is None else offset
        try:
            self.say(ADD_RING, struct.pack("<HHHIBH", 1 if ring == TO_SERVER else 0, index, region, offset,
                                           self.log2 if log2 is None else log2, private), [event] if fds is None else fds)
        finally:
            os.close(event)

    # Memory.

    def make_memory(self, seals=SEAL_SHRINK, size=None, cookie=COOKIE):
        self.memory_fd = os.memfd_create("attack", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.memory_fd, self.bytes if size is None else size)
        if seals:
            fcntl.fcntl(self.memory_fd, ADD_SEALS, seals)
        if size is not None and size < self.bytes:
            return
        self.memory = mmap.mmap(self.memory_fd, self.bytes)
        self.words = memoryview(self.memory).cast("H")
        for ring in (TO_SERVER, TO_CLIENT):
            struct.pack_into("<I", self.memory, ring * self.ring_bytes, cookie)
            for slot in range(self.count):
                self.slot(ring, slot)

    def buffer(self, ring, slot):
        return 2 * self.ring_bytes + (ring * self.count + slot % self.count) * BUFFER_BYTES

    def slot(self, ring, slot, length=BUFFER_BYTES, flags=0, region=0, offset=None):
        offset = self.buffer(ring, slot) if offset is None else offset
        struct.pack_into("<HHIII", self.memory, ring * self.ring_bytes + SLOTS + 16 * (slot % self.count), flags, region,
                         length, offset, 0)

    # Both bytes at once: struct.pack_into writes zeros before, and who looks in between sees a leap.

    def set_index(self, ring, at, value):
        self.words[(ring * self.ring_bytes + at) // 2] = value & 0xFFFF

    def get_index(self, ring, at):
        return self.words[(ring * self.ring_bytes + at) // 2]

    # All of it, as it should be.

    def set_up(self, **memory):
        self.hear(HELLO)
        self.init()
        self.hear(ACK)
        if self.memory is None:
            self.make_memory(**memory)
        self.add_region()
        self.hear(ACK)
        for ring in (TO_SERVER, TO_CLIENT):
            self.add_ring(ring)
            self.hear(ACK)

    def shake_hands(self, **memory):
        self.set_up(**memory)
        self.say(CONNECT)
        self.hear(CONNECTED)
        self.set_index(TO_CLIENT, HEAD, self.count)  # all slots are free

    def send(self, frame, slots=1):
        """One frame, in one slot or in more."""
        part = -(-len(frame) // slots)
        for i in range(slots):
            data = frame[i * part:(i + 1) * part]
            at = self.buffer(TO_SERVER, self.next[TO_SERVER])
            self.memory[at:at + len(data)] = data
            self.slot(TO_SERVER, self.next[TO_SERVER], len(data), NEXT if i + 1 < slots else 0)
            self.next[TO_SERVER] += 1
        self.set_index(TO_SERVER, HEAD, self.next[TO_SERVER])

    def receive(self, timeout=2.0):
        """The next frame, or None."""
        end = time.monotonic() + timeout
        while self.get_index(TO_CLIENT, TAIL) == self.next[TO_CLIENT] & 0xFFFF:
            if time.monotonic() > end:
                return None
            time.sleep(0.001)
        frame = b""
        while True:
            slot = self.next[TO_CLIENT]
            flags, _, length = struct.unpack_from("<HHI", self.memory, TO_CLIENT * self.ring_bytes + SLOTS + 16 * (slot % self.count))
            at = self.buffer(TO_CLIENT, slot)
            frame += self.memory[at:at + length]
            self.slot(TO_CLIENT, slot)
            self.next[TO_CLIENT] += 1
            self.set_index(TO_CLIENT, HEAD, self.next[TO_CLIENT] + self.count)
            if flags & NEXT == 0:
                return frame

    def closed(self, timeout=3.0):
        """Why the server ended it; None when it did not."""
        self.socket.settimeout(timeout)
        try:
            self.hear()
        except Refused as refused:
            return str(refused)
        except TimeoutError:
            pass
        return None
