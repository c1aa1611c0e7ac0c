"""What two endpoints of a test are joined by: shared memory, or a veth pair between two network namespaces."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import time

SKIP = 77  # exit code that Meson counts as "skipped"


class Skip(Exception):
    """The machine cannot run this test; the text says why."""


class NamedWire:
    """Has a unique name, so that it does not collide with other tests and users."""

    def __init__(self):
        self._name = f"test{os.getpid()}"

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        pass

    def prefix(self, _side):
        return []

    def tcp_address(self, _side):
        return "127.0.0.1"

    def attach(self, _side, _child):
        pass


class SegmentWire(NamedWire):
    """A segment of shared memory, on which all programs are one host."""

    def port(self, _side):
        return f"shmlan:{self._name}"


class SwitchWire:
    """A uroce-switch with a port for each of many programs."""

    PORTS = 8
    OPTIONS = ()

    def __init__(self):
        self._name = f"test{os.getpid()}"
        self._switch = None

    def __enter__(self):
        output = tempfile.TemporaryFile(mode="w+")
        self._switch = subprocess.Popen([find_built("apps/uroce-switch"), "--name", self._name, "--ports", str(self.PORTS), *self.OPTIONS],
                                        stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while True:
            # Not with seek and read: the switch writes at the same file position.
            text = os.pread(output.fileno(), os.fstat(output.fileno()).st_size, 0).decode(errors="replace")
            if "is ready" in text:
                return self
            if time.monotonic() > deadline or self._switch.poll() is not None:
                self.__exit__()
                raise RuntimeError(f"uroce-switch did not start: {text}")
            time.sleep(0.02)

    def __exit__(self, *exception):
        self._switch.terminate()
        self._switch.wait(10)

    def port(self, _side):
        return f"switch:{self._name}"

    def prefix(self, _side):
        return []

    def tcp_address(self, _side):
        return "127.0.0.1"

    def attach(self, _side, _child):
        pass


class LossySwitchWire(SwitchWire):
    """A switch that loses one frame in a hundred."""

    OPTIONS = ("--impair", "loss 1%")


def _ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


def _make_namespace(space):
    _ip("netns", "add", space)
    _ip("netns", "exec", space, "true")  # in some containers it is not usable right after its creation


class VethWire:
    """Two namespaces and a veth pair, removed afterwards. Side 0 is the server, side 1 the client."""

    MTU = 4200  # room for the RoCE MTU of 4096

    def __init__(self, driver="af_packet", mtu=MTU):
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        if shutil.which("ip") is None:
            raise Skip("iproute2 is not installed")
        self._driver = driver
        self._mtu = mtu
        self._spaces = [f"uroce-t{os.getpid()}-{side}" for side in (0, 1)]

    def __enter__(self):
        try:
            for space in self._spaces:
                _make_namespace(space)
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise Skip(f"no network namespaces here: {error.stderr.strip()}") from error
        try:
            first, second = self._spaces
            _ip("link", "add", "wire0", "netns", first, "type", "veth", "peer", "name", "wire0", "netns", second)
            for side, space in enumerate(self._spaces):
                _ip("-n", space, "link", "set", "lo", "up")
                _ip("-n", space, "link", "set", "wire0", "mtu", str(self._mtu), "up")
                _ip("-n", space, "addr", "add", f"10.77.0.{side + 1}/24", "dev", "wire0")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr}") from error
        return self

    def __exit__(self, *exception):
        for space in self._spaces:
            subprocess.run(["ip", "netns", "del", space], check=False, capture_output=True)

    def port(self, _side):
        return f"net_{self._driver}0,iface=wire0"

    def prefix(self, side):
        return ["ip", "netns", "exec", self._spaces[side]]

    def tcp_address(self, side):
        return f"10.77.0.{side + 1}"

    def attach(self, _side, _child):
        pass


class XdpWire(VethWire):
    """The same veth pair by AF_XDP sockets. They take everything that arrives, so TCP has a separate pair; a frame must
    fit into a page, so the RoCE MTU is 1024."""

    def __init__(self):
        super().__init__("af_xdp", 1500)

    def __enter__(self):
        super().__enter__()
        first, second = self._spaces
        _ip("link", "add", "talk0", "netns", first, "type", "veth", "peer", "name", "talk0", "netns", second)
        for side, space in enumerate(self._spaces):
            _ip("-n", space, "link", "set", "talk0", "up")
            _ip("-n", space, "addr", "add", f"{self.tcp_address(side)}/24", "dev", "talk0")
        return self

    def tcp_address(self, side):
        return f"10.76.0.{side + 1}"


class TapWire:
    """Two TAP interfaces of the endpoints, joined by a bridge in a namespace."""

    def __init__(self):
        if os.geteuid() != 0:
            raise Skip("network namespaces need root")
        if shutil.which("ip") is None:
            raise Skip("iproute2 is not installed")
        if not os.path.exists("/dev/net/tun"):
            raise Skip("there is no /dev/net/tun")
        self._space = f"uroce-t{os.getpid()}"

    def __enter__(self):
        try:
            _make_namespace(self._space)
            _ip("-n", self._space, "link", "add", "bridge0", "type", "bridge")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise Skip(f"no network namespaces or bridges here: {error.stderr.strip()}") from error
        try:
            _ip("-n", self._space, "link", "set", "lo", "up")
            _ip("-n", self._space, "link", "set", "bridge0", "up")
        except subprocess.CalledProcessError as error:
            self.__exit__()
            raise RuntimeError(f"{' '.join(error.cmd)}: {error.stderr}") from error
        return self

    def __exit__(self, *exception):
        subprocess.run(["ip", "netns", "del", self._space], check=False, capture_output=True)

    def port(self, side):
        return f"net_tap{side},iface=tap{side}"

    def prefix(self, _side):
        return ["ip", "netns", "exec", self._space]

    def tcp_address(self, _side):
        return "127.0.0.1"

    def attach(self, side, child):
        """Joins the interface to the bridge as soon as the endpoint has made it."""
        while child.exit_code is None:
            try:
                _ip("-n", self._space, "link", "set", f"tap{side}", "master", "bridge0", "up")
                return
            except subprocess.CalledProcessError:
                time.sleep(0.01)


class CardWire(NamedWire):
    """Two models of the FPGA card, each in the process that uses it, joined by a cable of shared memory."""

    def port(self, _side):
        return f"net_mqnic0,card=inline,wire=shm:{self._name}"


class CardServerWire(NamedWire):
    """Two models of the FPGA card, each served over vfio-user by a process of its own."""

    def __init__(self):
        super().__init__()
        self._folder = tempfile.TemporaryDirectory(prefix="uroce-cards-")
        self._servers = []

    def __enter__(self):
        for side in (0, 1):
            self._servers.append(subprocess.Popen(
                [find_built("apps/mqnic-card"), "--socket", self._socket(side), "--wire", f"shm:{self._name}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        deadline = time.monotonic() + 10
        while not all(os.path.exists(self._socket(side)) for side in (0, 1)):
            if time.monotonic() > deadline or any(server.poll() is not None for server in self._servers):
                self.__exit__()
                raise RuntimeError("mqnic-card did not start")
            time.sleep(0.01)
        return self

    def __exit__(self, *exception):
        for server in self._servers:
            server.terminate()
            server.wait(10)
        self._folder.cleanup()

    def _socket(self, side):
        return f"{self._folder.name}/{side}.sock"

    def port(self, side):
        return f"net_mqnic0,card=vfio-user,socket={self._socket(side)}"


class CardTapWire(TapWire):
    """Two models of the card whose cables are TAP interfaces, joined by a bridge."""

    def port(self, side):
        return f"net_mqnic{side},card=inline,wire=tap:tap{side}"


def find_built(path):
    """A file of the build directory that the launcher under test is in."""
    return str(build_directory / path)


build_directory = pathlib.Path()  # set by the test runner

WIRES = {"card": CardWire, "card_server": CardServerWire, "card_tap": CardTapWire, "segment": SegmentWire, "switch": SwitchWire, "switch_lossy": LossySwitchWire, "veth": VethWire, "xdp": XdpWire, "tap": TapWire}
