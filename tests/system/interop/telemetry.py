"""Our side's counters while it runs, by DPDK's telemetry socket: the last ones are kept when it has ended."""

import json
import pathlib
import socket
import threading

NOTES = pathlib.Path("/run/uroce")  # a file endpoint.PID of each endpoint names its socket
PERIOD_S = 0.2


class Counters:
    """Reads them every now and then until it is stopped."""

    def __init__(self):
        self.last = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def stop(self):
        self._stop.set()
        self._thread.join(3)

    def _watch(self):
        while not self._stop.wait(PERIOD_S):
            for note in NOTES.glob("endpoint.*"):
                try:
                    self._listen(note.read_text().strip())
                except (OSError, ValueError):
                    continue  # not there yet, or already gone

    def _listen(self, path):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(2)
            connection.connect(path)
            connection.recv(1 << 16)
            while True:
                connection.send(b"/uroce/counters")
                answer = json.loads(connection.recv(1 << 16))["/uroce/counters"]
                if answer:
                    self.last = {name: value for name, value in answer.items() if value}
                if self._stop.wait(PERIOD_S):
                    return
