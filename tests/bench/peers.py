"""How each contestant of bench.py is run and read."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import tempfile
import time

from children import free_tcp_port, wait_for_listener
from outputs import rows as result_rows
from wires import NamedWire, Skip, VethWire

# A full WRITE packet of RoCE MTU 4096 on the wire: Ethernet 14, IPv4 20, UDP 8, BTH 12, payload, iCRC 4.
FRAME_BYTES = 14 + 20 + 8 + 12 + 4096 + 4
SERVER_CORE, CLIENT_CORE = 0, (os.cpu_count() or 1) - 1


class NoResult(Exception):
    """A contestant ran but printed nothing to compare."""


@dataclasses.dataclass(frozen=True)
class Setting:
    uroce: pathlib.Path
    rounds: int
    seconds: int


def _need(program):
    if shutil.which(program) is None:
        raise Skip(f"{program} is not installed (scripts/install-deps.sh bench)")


def _pinned(core, *command):
    return ["taskset", "-c", str(core), *command]


class MemifWire(NamedWire):
    """DPDK's own shared memory driver at both ends. The listener leaves its socket behind, and must not find one at its
    start."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-memif-")

    def port(self, side):
        return memif_port(side, f"{self._folder.name}/memif.sock")

    def options(self, side):
        return ["--addr", f"198.18.0.{side + 1}/24"]


def memif_port(side, socket):
    return f"net_memif0,role={('server', 'client')[side]},socket={socket},socket-abstract=no,bsize=4352,rsize=8"


def perftest(setting, children, program, *options, wire=None):
    """The numbers in the client's last result line, for a pair over this wire (memif)."""
    wire, port = wire or MemifWire(), str(free_tcp_port())
    words = [program, *options, "-p", port]
    run = lambda side: [*wire.prefix(side), str(setting.uroce), "run", "--port", wire.port(side), *(wire.options(side) if hasattr(wire, "options") else ()), "--"]
    server = children.start("server", _pinned(SERVER_CORE, *run(0), *words))
    if not wait_for_listener(server, int(port), 20):
        raise NoResult(f"{program}: the server did not start: {server.output().strip()[-200:]}")
    client = children.start("client", _pinned(CLIENT_CORE, *run(1), *words, wire.tcp_address(0)))
    client.wait(60 + setting.seconds * 3)
    found = result_rows(client.output())
    if not found:
        raise NoResult(f"{program}: no result: {client.output().strip()[-200:]}")
    return found[-1][2]


def write_bandwidth(setting, children):
    return perftest(setting, children, "ib_write_bw", "-D", str(setting.seconds + 2), "-f", "1", "--report_gbits")[1]


def message_rate(setting, children):
    return perftest(setting, children, "ib_send_bw", "-s", "64", "-D", str(setting.seconds + 2), "-f", "1")[2]


def latency(program):
    """Typical half round trip in microseconds, 8 bytes."""

    def measure(setting, children):
        return perftest(setting, children, program, "-s", "8", "-n", "100000")[2]

    return measure


def iperf3(offloads):
    def measure(setting, children):
        _need("iperf3")
        with VethWire(mtu=1500) as wire:
            if not offloads:
                _need("ethtool")
                for side in (0, 1):
                    subprocess.run([*wire.prefix(side), "ethtool", "-K", "wire0", "tso", "off", "gso", "off", "gro",
                                    "off"], check=True, capture_output=True)
            server = children.start("iperf3", [*wire.prefix(0), *_pinned(SERVER_CORE, "iperf3", "-s", "-1")])
            if not wait_for_listener(server, 5201, 10):
                raise NoResult("iperf3 does not listen")
            done = subprocess.run([*wire.prefix(1), *_pinned(CLIENT_CORE, "iperf3", "-J", "-c", wire.tcp_address(0), "-t",
                                                             str(setting.seconds))],
                                  capture_output=True, text=True, check=False, timeout=60)
            server.stop()
            try:
                return json.loads(done.stdout)["end"]["sum_received"]["bits_per_second"] / 1e9
            except (ValueError, KeyError) as error:
                raise NoResult(f"iperf3: {done.stdout[-200:]} {done.stderr[-200:]}") from error

    return measure


_RX_BITS = re.compile(r"Rx-bps:\s+(\d+)")


def testpmd(setting, children):
    """txonly to rxonly over memif in two processes, with frames as long as ours; Gbit/s of their RoCE payload."""
    _need("dpdk-testpmd")
    with tempfile.TemporaryDirectory() as folder:
        def start(name, core, role, mode):
            return children.start(name, [
                "dpdk-testpmd", f"--lcores=0@{core},1@{core}", "--no-huge", "-m", "256", "--no-pci", f"--file-prefix=bench{os.getpid()}{role}",
                f"--vdev=net_memif0,role={role},socket={folder}/memif.sock,socket-abstract=no,rsize=10,bsize=4352", "--",
                "--mbuf-size=4608", f"--txpkts={FRAME_BYTES}", f"--forward-mode={mode}", "--total-num-mbufs=8192",
                "--no-lsc-interrupt", "--stats-period=1", "--auto-start"])

        receiver = start("receiver", SERVER_CORE, "server", "rxonly")
        time.sleep(1.5)
        start("sender", CLIENT_CORE, "client", "txonly")
        time.sleep(setting.seconds + 3)
        rates = [int(word) for word in _RX_BITS.findall(receiver.output())]
        if not rates or max(rates) == 0:
            raise NoResult(f"testpmd received nothing: {receiver.output().strip()[-200:]}")
        return statistics.median(rate for rate in rates if rate) * 4096 / FRAME_BYTES / 1e9


def ucx(setting, children, environment, *words):
    """The result line of ucx_perftest: iterations, then typical and average latency and so on, as it prints them."""
    _need("ucx_perftest")
    port = str(free_tcp_port())
    environment = {"UCX_WARN_UNUSED_ENV_VARS": "n", **environment}
    server = children.start("ucx", _pinned(SERVER_CORE, "ucx_perftest", "-p", port), environment)
    if not wait_for_listener(server, int(port), 10):
        raise NoResult("ucx_perftest does not listen")
    client = children.start("ucx client", _pinned(CLIENT_CORE, "ucx_perftest", "127.0.0.1", "-p", port, *words), environment)
    client.wait(60 + setting.seconds)
    final = re.search(r"^Final:\s+(.*)$", client.output(), re.MULTILINE)
    if not final:
        raise NoResult(f"ucx_perftest: {client.output().strip()[-200:]}")
    return [float(word) for word in final[1].split()]


def ucx_latency(setting, children):
    return ucx(setting, children, {"UCX_TLS": "tcp", "UCX_NET_DEVICES": "lo"}, "-t", "tag_lat", "-s", "8", "-n", "200000")[3]
