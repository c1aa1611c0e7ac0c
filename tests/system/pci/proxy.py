"""The card as a device on the PCI bus of a QEMU that has no vfio-user of its own.

QEMU's `x-pci-proxy-dev` hands every access to config space and BARs to another process, over a socket and in a protocol
of its own (QEMU's include/hw/remote/mpqemu-link.h). This is that process's part: it passes them on to `mqnic-card`, as a
vfio-user client that is written from the specification.

        guest --- QEMU --- mpqemu --- Proxy --- vfio-user --- mqnic-card
                   | `---- the guest's memory, by its file ---------' |
                    `---- qtest ------- Proxy ------- eventfds --------'

That device has no MSI-X of its own (it hands on what is written to the table, and has no message for interrupts but those
of INTx): the proxy does the bus's part, and writes the message to its address itself, by QEMU's qtest.
"""

import array
import contextlib
import errno
import os
import selectors
import socket
import struct
import threading

SYNC_SYSMEM, RET, CFG_WRITE, CFG_READ, BAR_WRITE, BAR_READ, SET_IRQFD, RESET = range(8)
RANGES_MAX = 8
BAR0, CONFIG = 0, 7
COMMAND, BUS_MASTER = 0x04, 1 << 2
MSIX_CONTROL, MSIX_ENABLE, MSIX_MASK_ALL = 0x42, 1 << 15, 1 << 14
MSIX_TABLE, MSIX_PBA, MSIX_ENTRY = 0x10000, 0x18000, 16
VECTORS, FDS_PER_MESSAGE = 64, 16
ALL_ONES = (1 << 64) - 1


class ServerRefuses(Exception):
    """An error reply."""


class VfioUser:
    """The client. One call at a time."""

    VERSION, DMA_MAP, DMA_UNMAP, SET_IRQS, REGION_READ, REGION_WRITE, DEVICE_RESET = 1, 2, 3, 8, 9, 10, 13
    EVENTFD_TRIGGER, MSIX = 0x24, 2
    UNMAP_ALL = 2

    def __init__(self, path):
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.connect(str(path))
        self._id = 0
        self._call(self.VERSION, struct.pack("<HH", 0, 1) + b'{"capabilities":{"max_msg_fds":8}}\0')

    def _call(self, command, body, fds=()):
        self._id = (self._id + 1) & 0xffff
        message = struct.pack("<HHIII", self._id, command, 16 + len(body), 0, 0) + body
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        sent = self._socket.sendmsg([message], rights)
        self._socket.sendall(message[sent:])
        number, _, size, flags, error = struct.unpack("<HHIII", receive(self._socket, 16))
        reply = receive(self._socket, size - 16)
        if flags & 0x20:
            raise ServerRefuses(os.strerror(error))
        assert number == self._id and flags & 0xf == 1, "not the reply"
        return reply

    def map(self, address, size, fd, offset):
        self._call(self.DMA_MAP, struct.pack("<IIQQQ", 32, 3, offset, address, size), [fd])

    def unmap(self, address, size):
        self._call(self.DMA_UNMAP, struct.pack("<IIQQ", 24, 0, address, size))

    def unmap_all(self):
        self._call(self.DMA_UNMAP, struct.pack("<IIQQ", 24, self.UNMAP_ALL, 0, 0))

    def read(self, region, offset, size):
        reply = self._call(self.REGION_READ, struct.pack("<QII", offset, region, size))
        return int.from_bytes(reply[16:16 + size], "little")

    def write(self, region, offset, size, value):
        data = (value & ((1 << 8 * size) - 1)).to_bytes(size, "little")
        self._call(self.REGION_WRITE, struct.pack("<QII", offset, region, size) + data)

    def set_vectors(self, first, fds):
        self._call(self.SET_IRQS, struct.pack("<IIIII", 20, self.EVENTFD_TRIGGER, self.MSIX, first, len(fds)), fds)

    def reset(self):
        self._call(self.DEVICE_RESET, b"")


def receive(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise ConnectionResetError(errno.ECONNRESET, "the other side has closed")
        data += more
    return data


class Vectors:
    """The card's MSI-X, as a bus sees it: a vector that fires while masked is pending, and is sent once unmasked."""

    def __init__(self, card):
        self._card = card
        self._qtest, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self.eventfds = [os.eventfd(0, os.EFD_NONBLOCK) for _ in range(VECTORS)]
        for first in range(0, VECTORS, FDS_PER_MESSAGE):
            card.set_vectors(first, self.eventfds[first:first + FDS_PER_MESSAGE])
        self.pending = 0
        self.sent = 0

    def fired(self, vector):
        with contextlib.suppress(BlockingIOError):
            os.read(self.eventfds[vector], 8)
            self.pending |= 1 << vector
        self.flush()

    def flush(self):
        if not self.pending:
            return
        control = self._card.read(CONFIG, MSIX_CONTROL, 2)
        if not control & MSIX_ENABLE or control & MSIX_MASK_ALL:
            return
        for vector in range(VECTORS):
            entry = MSIX_TABLE + vector * MSIX_ENTRY
            if self.pending & 1 << vector and not self._card.read(BAR0, entry + 12, 4) & 1:
                self.pending &= ~(1 << vector)
                self.sent += 1
                message = f"writel {self._card.read(BAR0, entry, 8):#x} {self._card.read(BAR0, entry + 8, 4):#x}\n"
                self._qtest.sendall(message.encode())
        with contextlib.suppress(BlockingIOError):
            while self._qtest.recv(65536, socket.MSG_DONTWAIT):  # its answers, which are not used
                pass

    def close(self):
        self._qtest.close()
        for fd in self.eventfds:
            os.close(fd)


class Proxy:
    """Serves one QEMU in a thread, until that ends. `argument_fd` is what QEMU gets, and `qtest_fd` what its qtest gets."""

    def __init__(self, card_socket):
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        self._qemu, self._theirs = ours, theirs
        self._card = VfioUser(card_socket)
        self.vectors = Vectors(self._card)
        self._memory = []  # (address, size, file, offset) of the guest's memory
        self._mapped = False
        self.pulled_out = False  # set it, and the card is gone: reads give all-ones
        self.trouble = None
        self._thread = threading.Thread(target=self._serve, daemon=True)

    @property
    def argument_fd(self):
        return self._theirs.fileno()

    @property
    def qtest_fd(self):
        return self.vectors.theirs.fileno()

    def start(self):
        """To be called once QEMU has started and has its ends."""
        self._theirs.close()
        self.vectors.theirs.close()
        self._thread.start()

    def _serve(self):
        try:
            with selectors.DefaultSelector() as waiting:
                waiting.register(self._qemu, selectors.EVENT_READ)
                for vector, fd in enumerate(self.vectors.eventfds):
                    waiting.register(fd, selectors.EVENT_READ, vector)
                while True:
                    for key, _ in waiting.select():
                        if key.fileobj is not self._qemu:
                            self.vectors.fired(key.data)
                        elif not self._one_message():
                            return
        except (OSError, ServerRefuses, AssertionError) as trouble:
            self.trouble = trouble
        finally:
            self._qemu.close()
            self.vectors.close()

    def _one_message(self):
        """False when QEMU has ended."""
        header, rights, _, _ = self._qemu.recvmsg(16, socket.CMSG_SPACE(RANGES_MAX * 4))
        if not header:
            return False
        header += receive(self._qemu, 16 - len(header))
        command, size = struct.unpack("<i4xQ", header)
        fds = [fd for _, _, data in rights for fd in array.array("i", data)]
        answer = self._handle(command, receive(self._qemu, size), fds)
        if answer is not None:
            self._qemu.sendall(struct.pack("<i4xQQ", RET, 8, answer))
        return True

    def _handle(self, command, body, fds):
        """The value for QEMU; None where it expects none."""
        if command == SYNC_SYSMEM:
            self._take_memory(struct.unpack(f"<{2 * RANGES_MAX}Q{RANGES_MAX}q", body), fds)
            return None
        if command == SET_IRQFD:  # there is no INTx
            for fd in fds:
                os.close(fd)
            return None
        if command in (CFG_READ, CFG_WRITE):
            return self._config(command, *struct.unpack("<IIi", body[:12]))
        if command in (BAR_READ, BAR_WRITE):
            return self._bar(command, *struct.unpack("<QQI", body[:20]))
        assert command == RESET, f"QEMU's command {command}"
        self._card.reset()
        self._follow_bus_master()
        return 0

    def _config(self, command, offset, value, size):
        if self.pulled_out:
            return ALL_ONES
        if command == CFG_READ:
            return self._card.read(CONFIG, offset, size)
        self._card.write(CONFIG, offset, size, value)
        if offset <= COMMAND < offset + size:
            self._follow_bus_master()
        self.vectors.flush()
        return 0

    def _bar(self, command, address, value, size):
        if self.pulled_out:
            return ALL_ONES
        base = self._card.read(CONFIG, 0x10, 8) & ~0xf
        offset = address - base
        if command == BAR_READ:
            if MSIX_PBA <= offset < MSIX_PBA + VECTORS // 8:
                return self.vectors.pending >> 8 * (offset - MSIX_PBA) & ((1 << 8 * size) - 1)
            return self._card.read(BAR0, offset, size)
        with contextlib.suppress(ServerRefuses):  # half a register: ignored, as on the bus
            self._card.write(BAR0, offset, size, value)
        if MSIX_TABLE <= offset < MSIX_TABLE + VECTORS * MSIX_ENTRY:
            self.vectors.flush()
        return 0

    def _take_memory(self, numbers, fds):
        if self._mapped:
            self._card.unmap_all()
            self._mapped = False
        for _, _, fd, _ in self._memory:
            os.close(fd)
        addresses, sizes, offsets = (numbers[i:i + RANGES_MAX] for i in range(0, 3 * RANGES_MAX, RANGES_MAX))
        self._memory = list(zip(addresses, sizes, fds, offsets))
        self._follow_bus_master()

    def _follow_bus_master(self):
        """A card without bus mastering reaches no memory."""
        wanted = bool(self._card.read(CONFIG, COMMAND, 2) & BUS_MASTER)
        if wanted and not self._mapped:
            for address, size, fd, offset in self._memory:
                self._card.map(address, size, fd, offset)
        elif self._mapped and not wanted:
            self._card.unmap(0, 1 << 63)  # all of it
        self._mapped = wanted
