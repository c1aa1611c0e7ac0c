"""How each contestant of segment_bench.py is run and read: each is called with the setting and the children of one measurement."""

import pathlib
import re
import signal
import subprocess
import tempfile
import time

import wires
from children import free_tcp_port, wait_for_listener
from outputs import rows as result_rows
from peers import CLIENT_CORE, SERVER_CORE, MemifWire, NoResult, memif_port, perftest, ucx
from uplinks import UplinkWire
from wires import CardWire, SegmentWire, VethWire

UCX_SHARED_MEMORY = {"UCX_TLS": "posix,self"}


def on_segment(measure):
    return lambda setting, children: measure(setting, children, SegmentWire())


def on_memif(measure):
    return lambda setting, children: measure(setting, children, MemifWire())


def on_cards(measure):
    """Two models of the card, each in the program that uses it."""
    return lambda setting, children: measure(setting, children, CardWire())


def on_made_wire(measure, make):
    """Over a wire that is made first and removed afterwards."""

    def run(setting, children):
        wires.build_directory = setting.uroce.parent.parent
        with make() as wire:
            try:
                return measure(setting, children, wire)
            finally:
                children.stop()

    return run


def write_bandwidth(setting, children, wire):
    return perftest(setting, children, "ib_write_bw", "-D", str(setting.seconds + 2), "-f", "1", "--report_gbits", wire=wire)[1]


def message_rate(setting, children, wire):
    return perftest(setting, children, "ib_send_bw", "-s", "64", "-D", str(setting.seconds + 2), "-f", "1", wire=wire)[2]


def latency(program, *options):
    """Typical half round trip in microseconds, 8 bytes."""
    return lambda setting, children, wire: perftest(setting, children, program, *options, "-s", "8", "-n", "100000", wire=wire)[2]


def wake(setting, children, wire):
    """Latency where both sides sleep in ibv_get_cq_event."""
    return perftest(setting, children, "ib_send_lat", "-e", "-s", "8", "-n", "5000", wire=wire)[2]


def _built(setting, name):
    return setting.uroce.parent.parent / "tests" / "bench" / name


def _yardstick(name):
    def measure(setting, _children):
        done = subprocess.run([_built(setting, "core_yardsticks"), str(SERVER_CORE), str(CLIENT_CORE)], capture_output=True, text=True,
                              check=False, timeout=120)
        found = re.search(rf"^{re.escape(name)}: ([\d.]+)", done.stdout, re.MULTILINE)
        if not found:
            raise NoResult(f"core_yardsticks: {done.stdout} {done.stderr}")
        return float(found[1])

    return measure


copy_ring = _yardstick("copy ring, Gbit/s")
eventfd_wake = _yardstick("wake, us")


def one_way(setting, children):
    """In microseconds."""
    return _yardstick("one way, ns")(setting, children) / 1000


def ucx_bandwidth(setting, children):
    """UCX counts in units of 2^20 bytes."""
    return ucx(setting, children, UCX_SHARED_MEMORY, "-t", "tag_bw", "-s", "65536", "-n", "20000")[5] * 2**20 * 8 / 1e9


def ucx_latency(setting, children):
    return ucx(setting, children, UCX_SHARED_MEMORY, "-t", "tag_lat", "-s", "8", "-n", "200000")[1]


def _cpu_ns(pid):
    """The CPU time of all threads of a process."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def idle(setting, children):
    """Percent of a core: the server of a pair waits for an event while its client is stopped."""
    wire, port = SegmentWire(), str(free_tcp_port())
    words = [str(setting.uroce), "run", "--port", wire.port(0), "--", "stdbuf", "-oL", "ib_send_bw", "-e", "-n", "5000000", "-p", port]
    server = children.start("server", words)
    if not wait_for_listener(server, int(port), 20):
        raise NoResult("ib_send_bw: the server did not start")
    client = children.start("client", [*words, "127.0.0.1"])
    if not client.wait_for_output("remote address", 20):
        raise NoResult("ib_send_bw: the pair did not connect")
    time.sleep(1)
    client.signal(signal.SIGSTOP)
    time.sleep(1)
    before, begun = _cpu_ns(server.pid), time.monotonic()
    time.sleep(setting.seconds + 2)
    share = (_cpu_ns(server.pid) - before) / (time.monotonic() - begun) / 1e7
    client.signal(signal.SIGCONT)
    if server.exit_code is not None:
        raise NoResult("ib_send_bw: the server ended")
    return share


def verbs_call(name):
    """Nanoseconds, the median that verbs_bench prints."""

    def measure(setting, _children):
        done = subprocess.run([setting.uroce, "run", "--port", SegmentWire().port(0), "--", _built(setting, "verbs_bench")],
                              capture_output=True, text=True, check=False, timeout=120)
        found = re.search(rf"^{re.escape(name)}\s+(\d+)\s+(\d+)$", done.stdout, re.MULTILINE)
        if not found:
            raise NoResult(f"verbs_bench: {done.stdout[-200:]} {done.stderr[-200:]}")
        return float(found[2])

    return measure


def start_time(port, *options):
    """Milliseconds that the start of a program takes longer with the device than without; the minimum of several,
    measured in turns. `port` makes the port's name from a path where nothing exists."""

    def measure(setting, _children):
        took = {"with": [], "without": []}
        with tempfile.TemporaryDirectory() as folder:
            for number in range(7):
                device = [setting.uroce, "run", "--port", port(f"{folder}/{number}.sock"), *options, "--"]
                for name, prefix in (("with", device), ("without", [])):
                    begun = time.monotonic()
                    done = subprocess.run([*prefix, "ibv_devinfo"], capture_output=True, text=True, check=False, timeout=30,
                                          env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "UROCE_RUNTIME_DIR": folder})
                    took[name].append((time.monotonic() - begun) * 1000)
                    if prefix and done.returncode != 0:
                        raise NoResult(f"ibv_devinfo: exit {done.returncode}: {done.stderr.strip()[-200:]}")
        return min(took["with"]) - min(took["without"])

    return measure


def pairs(count):
    """Gbit/s of all pairs together. All run long enough that each is measured while the others run."""

    def measure(setting, children):
        wire, lines = SegmentWire(), []
        margin = 1 + count // 8
        for _ in range(count):
            port = str(free_tcp_port())
            lines.append([str(setting.uroce), "run", "--port", wire.port(0), "--", "ib_write_bw", "-D", str(setting.seconds + 2 * margin),
                          "-f", str(margin), "--report_gbits", "-p", port])
            server = children.start("server", lines[-1])
            if not wait_for_listener(server, int(port), 60):
                raise NoResult(f"ib_write_bw: a server did not start: {server.output().strip()[-200:]}")
        rates = []
        clients = [children.start("client", [*line, "127.0.0.1"]) for line in lines]
        for client in clients:
            client.wait(60 + setting.seconds + 4 * margin)
            found = result_rows(client.output())
            if not found:
                raise NoResult(f"ib_write_bw: no result: {client.output().strip()[-200:]}")
            rates.append(found[-1][2][1])
        return sum(rates)

    return measure
