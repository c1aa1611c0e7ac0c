"""A running uroce-switch and what is plugged into it: programs by shared memory, network namespaces by veth pairs.

    with Lab(tools, "--ports", "4", "--impair", "loss 1%") as lab:
        pair = lab.start_pair("ib_write_bw", "-n", "1000")
        lab.finish(pair)
        lab.port(1)["out_lost"]            # counters by name, from telemetry

Everything lives in a runtime directory of its own and goes away with it.
"""

import collections
import ctypes
import dataclasses
import fcntl
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "programs"))

from children import Child, Children, free_tcp_port, wait_for_listener  # noqa: E402
from outputs import trouble  # noqa: E402
from session import Failure  # noqa: E402
from wires import Skip  # noqa: E402

START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 10
SERIAL = itertools.count()


@dataclasses.dataclass(frozen=True)
class Tools:
    uroce: str
    switch: str


@dataclasses.dataclass
class Pair:
    program: str
    server: Child
    client: Child


class Lab:
    """One switch. Leaving ends everything; after a Failure the children's output is shown. `beside`: another Lab,
    entered before, with the runtime directory and wires that this switch shares."""

    def __init__(self, tools, *options, eal=(), name="lab", beside=None):
        self.tools = tools
        self.name = name
        self.options = options
        self.eal = eal
        self.children = Children()
        self.switch = None
        self._spaces = []
        self._folder = None if beside else tempfile.TemporaryDirectory(prefix="uroce-lab-")
        self.folder = beside.folder if beside else pathlib.Path(self._folder.name)
        self.environment = {"UROCE_RUNTIME_DIR": str(self.folder)}

    def __enter__(self):
        try:
            self.start_switch()
        except BaseException:
            self.__exit__(*sys.exc_info())
            raise
        return self

    def __exit__(self, kind, *_):
        if kind is not None and issubclass(kind, Failure):
            print(self.children.report())
        self.children.stop()
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)
        if self._folder is not None:
            self._folder.cleanup()

    # The switch.

    def start_switch(self):
        before = [*self.eal, "--"] if self.eal else []
        self.switch = self.children.start(
            "switch", [self.tools.switch, *before, "--name", self.name, *self.options], self.environment)
        if not self.switch.wait_for_output("is ready", START_TIMEOUT_S):
            raise Failure("the switch did not start")

    def stop_switch(self):
        """Ends it as a user does; returns its last table."""
        self.switch.signal(signal.SIGINT)
        if not self.switch.wait(STOP_TIMEOUT_S):
            raise Failure("the switch does not end on SIGINT")
        if self.switch.exit_code != 0:
            raise Failure(f"the switch ended with {self.switch.exit_code}")
        return self.switch.output()

    def ask(self, command):
        """An answer from the switch's telemetry."""
        path = (self.folder / f"switch-{self.name}").read_text().splitlines()[2]
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(path)
            connection.recv(1 << 16)
            connection.send(command.encode())
            return json.loads(connection.recv(1 << 16))[command.split(",")[0]]

    def port(self, number):
        return self.ask(f"/uroce_switch/port,{number}")

    def sum(self, counter, ports):
        return sum(self.port(number).get(counter, 0) for number in ports)

    # Programs.

    def start(self, name, command, environment=None, run_options=(), host=None):
        """On the port that `run_options` name, or on the switch's own; in network namespace `host`, if given."""
        place = ["--port", f"switch:{self.name}"] if host is None and "--port" not in run_options else []
        line = [self.tools.uroce, "run", *place, *run_options, "--", *command]
        if host is not None:
            line = self.in_host(host, *line)
        if "UROCE_LAB_LOG" in (environment or {}):
            line = ["sh", "-c", 'exec 2>"$UROCE_LAB_LOG"; exec "$@"', "sh", *line]
        return self.children.start(name, line, {**self.environment, **(environment or {})})

    def start_pair(self, program, *options, server_environment=None, client_environment=None, server_run=(), client_run=(),
                   server_at=None, hosts=(None, None)):
        """`server_at`: the Lab that the server is connected to, if another one. `hosts`: where server and client run,
        as `add_host` numbers them."""
        if shutil.which(program) is None:
            raise Skip(f"{program} is not installed")
        port = str(free_tcp_port())
        words = [program, *options, "-p", port]
        server = (server_at or self).start(f"{program} server", words, server_environment, server_run, hosts[0])
        if not wait_for_listener(server, int(port), START_TIMEOUT_S):
            raise Failure(f"the server of {program} did not get as far as listening")
        to = "127.0.0.1" if hosts[0] is None else f"10.78.0.{hosts[0] + 1}"
        client = self.start(f"{program} client", [*words, to], client_environment, client_run, hosts[1])
        return Pair(program, server, client)

    def logged_pair(self, name, program, *options, capture=False, **more):
        """A pair whose sides write logs, and on request captures, to `folder`: `counted` and `frames_of` read them."""
        environments = {}
        for side in ("server", "client"):
            where = self.folder / f"{name}-{side}"
            environments[f"{side}_environment"] = {"UROCE_LOG": "info", "UROCE_LAB_LOG": f"{where}.log",
                                                   **({"UROCE_PCAP": f"{where}.pcapng"} if capture else {})}
        return self.start_pair(program, *options, **environments, **more)

    def counted(self, name, side):
        """The final counters of a logged pair's endpoint: by name, 0 for those that the log does not mention."""
        log = (self.folder / f"{name}-{side}.log").read_text()
        pairs = [text.split() for line in re.findall(r"counted: (.*)", log) for text in line.split(", ")]
        if not pairs:
            raise Failure(f"the {side} of {name} does not say what it has counted: {log!r}")
        return collections.Counter({name: int(value) for name, value in pairs if name != "nothing"})

    def frames_of(self, name, side):
        return read_capture(self.folder / f"{name}-{side}.pcapng")

    def finish(self, pair, timeout_s=60):
        """Both must end by themselves, without errors; returns the client's output."""
        deadline = time.monotonic() + timeout_s
        for child in (pair.client, pair.server):
            if not child.wait(max(0.5, deadline - time.monotonic())):
                raise Failure(f"the {child.name} still runs after {timeout_s} s")
        problems = [f"{child.name}: exit code {child.exit_code}"
                    for child in (pair.server, pair.client) if child.exit_code != 0]
        problems += [f"{child.name}: {text}" for child in (pair.server, pair.client) for text in trouble(child.output())]
        if problems:
            raise Failure("; ".join(problems))
        return pair.client.output()

    # The kernel.

    def add_host(self, number, mtu=1500):
        """A network namespace with one interface, 10.78.0.N, whose other end (here) is for `--port`. Returns its name.
        To be called before the switch starts: make the Lab, add hosts, then enter it."""
        if os.geteuid() != 0 or shutil.which("ip") is None:
            raise Skip("network namespaces need root and iproute2")
        # Never the same name twice: the kernel takes its time to remove them.
        serial = next(SERIAL)
        space, here = f"uroce-lab{os.getpid()}-{serial}", f"ul{os.getpid() % 100000}-{serial}"
        try:
            for words in (["netns", "add", space],
                          ["link", "add", here, "mtu", str(mtu), "type", "veth", "peer", "name", "eth0", "netns", space],
                          ["-n", space, "link", "set", "lo", "up"],
                          ["-n", space, "link", "set", "eth0", "mtu", str(mtu), "up"],
                          ["-n", space, "addr", "add", f"10.78.0.{number + 1}/24", "dev", "eth0"],
                          ["link", "set", here, "addrgenmode", "none"],
                          ["link", "set", here, "up"]):
                subprocess.run(["ip", *words], check=True, capture_output=True, text=True)
                if words[:2] == ["netns", "add"]:
                    self._spaces.append(space)
            # Frames as on a cable: of at most the MTU's size, with their checksums.
            subprocess.run(["ip", "netns", "exec", space, sys.executable, "-B", __file__, "eth0"], check=True,
                           capture_output=True, text=True)
        except subprocess.CalledProcessError as error:
            self.__exit__(None)
            if error.cmd[1:3] == ["netns", "add"]:
                raise Skip(f"no network namespaces here: {error.stderr.strip()}") from error
            raise Failure(f"{' '.join(map(str, error.cmd))}: {error.stderr.strip()}") from error
        return here

    def in_host(self, number, *command):
        return ["ip", "netns", "exec", self._spaces[number], *command]


class KernelHosts(Lab):
    """A switch between two kernel hosts, 10.78.0.1 and .2 at ports 0 and 1."""

    def __init__(self, tools, *options, drivers=("net_af_packet", "net_af_packet"), arguments="", **more):
        super().__init__(tools, "--ports", "0", **more)
        ports = [f"{driver}{number},iface={self.add_host(number)}{arguments}" for number, driver in enumerate(drivers)]
        self.options = (*self.options, "--port", ports[0], "--port", ports[1], *options)

    def __exit__(self, kind, *more):
        super().__exit__(kind, *more)

    def tcp(self, seconds, *options):
        """iperf3's final report on a connection from 10.78.0.1 to .2."""
        if shutil.which("iperf3") is None:
            raise Skip("iperf3 is not installed")
        port = free_tcp_port()
        server = self.children.start("iperf3 server", self.in_host(1, "iperf3", "-s", "-1", "-p", str(port)))
        if not wait_for_listener(server, port, 20):
            raise Failure("iperf3 does not listen")
        client = self.children.start("iperf3 client", self.in_host(
            0, "iperf3", "-c", "10.78.0.2", "-p", str(port), "-t", str(seconds), "-J", *options))
        if not client.wait(seconds + 40) or client.exit_code != 0:
            raise Failure("iperf3 failed")
        return json.loads(client.output())["end"]


@dataclasses.dataclass(frozen=True)
class Frame:
    """As tshark reads it. A field that the frame does not have is None."""
    interface: int
    received: bool
    time_ns: int
    ecn: int
    opcode: int  # of RoCE
    pause: int   # quanta for priority 3

    @property
    def rc(self):
        """A packet of a reliable connection: a request, a response or an ACK."""
        return self.opcode is not None and self.opcode < 0x20

    @property
    def marked(self):
        return self.opcode is not None and self.ecn == 3

    @property
    def cnp(self):
        return self.opcode == 0x81


def read_capture(path):
    """Every frame of a capture."""
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    fields = ("frame.interface_id", "frame.packet_flags_direction", "frame.time_epoch", "ip.dsfield.ecn",
              "infiniband.bth.opcode", "macc.cbfc.pause_time.c3")
    result = subprocess.run(["tshark", "-n", "-r", str(path), "-T", "fields",
                             *(word for field in fields for word in ("-e", field))],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failure(f"tshark cannot read {path}: {result.stderr.strip()}")
    rows = [line.split("\t") for line in result.stdout.splitlines()]
    number = [[int(word, 0) if word else None for word in (row[0], row[1], *row[3:])] for row in rows]
    return [Frame(interface, direction == 1, int(row[2].replace(".", "")), ecn, opcode, pause)
            for row, (interface, direction, ecn, opcode, pause) in zip(rows, number)]


def packets_in(path, display_filter):
    """The number of packets in a capture that match, according to tshark."""
    if shutil.which("tshark") is None:
        raise Skip("tshark is not installed")
    result = subprocess.run(["tshark", "-n", "-r", str(path), "-Y", display_filter, "-T", "fields", "-e", "frame.number"],
                            capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise Failure(f"tshark cannot read {path}: {result.stderr.strip()}")
    return len(result.stdout.split())


def one_line(text):
    """The single line of an error message, after the table if there is one."""
    lines = [line for line in text.splitlines() if line.strip()]
    if len(lines) != 1:
        raise Failure(f"{len(lines)} lines instead of one: {text!r}")
    return lines[0]


def bandwidth_mib(text):
    """The average in perftest's result line, MiB/s."""
    match = re.search(r"^ *\d+ +\d+ +[\d.]+ +([\d.]+)\s+[\d.]+\s*$", text, re.MULTILINE)
    if not match:
        raise Failure("no result line")
    return float(match[1])


def switch_off_offloads(interface):
    """What `ethtool -K INTERFACE tx off tso off gso off` does."""
    siocethtool = 0x8946
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (0x17, 0x1f, 0x24):  # ETHTOOL_STXCSUM, ETHTOOL_STSO, ETHTOOL_SGSO
            value = ctypes.create_string_buffer(struct.pack("II", command, 0), 8)
            fcntl.ioctl(control, siocethtool, struct.pack("16sP", interface.encode(), ctypes.addressof(value)))


if __name__ == "__main__":
    switch_off_offloads(sys.argv[1])
