"""Plays a congested switch that is our port's neighbour: it tells the port to pause, again and again."""

import socket
import struct
import threading

import lab

PRIORITY = 3
LONG_S, BETWEEN_S, REPEAT_S = 0.02, 0.03, 0.002  # far from the 200 ms after which a pause counts as stuck
_PAUSE = (bytes.fromhex("0180c2000001") + bytes.fromhex(lab.CONTROL_MAC.replace(":", "")) +
          struct.pack(">HHH8H", 0x8808, 0x0101, 1 << PRIORITY, *(65535 if i == PRIORITY else 0 for i in range(8))))


class Pauses:
    """Pauses between entering and leaving. Each pause is prolonged and then runs out by itself."""

    def __enter__(self):
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception):
        self._stop.set()
        self._thread.join(3)

    def _run(self):
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as wire:
            wire.bind((lab.BRIDGE_PORT, 0))
            while not self._stop.wait(BETWEEN_S):
                for _ in range(round(LONG_S / REPEAT_S)):
                    wire.send(_PAUSE.ljust(60, b"\0"))
                    if self._stop.wait(REPEAT_S):
                        return
