"""The peer: a virtual machine with the distribution's kernel and rxe, and programs that run in it."""

import base64
import re
import signal
import socket
import threading
import time

import lab

COMMAND_PORT = 7000
BOOT_TIMEOUT_S = 90
READY = "guest-ready"

QEMU = ("qemu-system-x86_64", "-accel", "tcg,thread=multi,tb-size=128", "-cpu", "max", "-smp", "1", "-nodefaults",
        "-no-user-config", "-display", "none", "-no-reboot")


class GuestTrouble(Exception):
    """The guest does not boot or does not answer."""


class GuestProgram:
    """A program in the guest, with the interface of children.Child."""

    def __init__(self, name, command):
        self.name = name
        self.command = ["(guest)", *command.split()]
        self.exit_code = None
        self.pid = None
        self._output = b""
        self._over = threading.Event()
        self._socket = socket.create_connection((lab.GUEST_CONTROL, COMMAND_PORT), timeout=10)
        self._socket.settimeout(None)
        self._socket.sendall(base64.b64encode(command.encode()) + b"\n")
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        try:
            while data := self._socket.recv(65536):
                self._output += data
        except OSError:
            pass
        if match := re.search(rb"\nexit (\d+)\n$", self._output):
            self.exit_code = int(match[1])
        self._over.set()

    def wait(self, timeout_s):
        """True when the program has ended, or its guest with it."""
        return self._over.wait(timeout_s)

    def output(self):
        text = self._output.decode(errors="replace")
        return re.sub(r"\n?exit \d+\n$", "", re.sub(r"^pid \d+\n", "", text))

    def crashed(self):
        return self.exit_code in (128 + signal.SIGSEGV, 128 + signal.SIGABRT, 128 + signal.SIGBUS)

    def stop(self):
        """Ends the whole process group, which is named after its first process. Always safe to call."""
        match = re.match(rb"pid (\d+)\n", self._output)
        if not self._over.is_set() and match is not None:
            try:
                GuestProgram("kill", f"kill -9 -{match[1].decode()}").wait(5)
            except OSError:
                pass  # the guest has ended, and the program with it
        self._over.wait(2)
        self._socket.close()


class Guest:
    """One virtual machine. `start` boots it, `power_off` cuts its power; then it can be started again."""

    def __init__(self, children, kernel, initramfs, console):
        self._children = children
        self._kernel = kernel
        self._initramfs = initramfs
        self._console = console
        self._machine = None

    def command(self):
        """QEMU and its arguments."""
        settings = (f"mitigations=off uroce.mtu={lab.MTU} uroce.ipv4={lab.GUEST_IPV4}/24 "
                    f"uroce.ipv6={lab.GUEST_IPV6}/64 uroce.control={lab.GUEST_CONTROL}/24")
        command = [*QEMU, "-M", "pc", "-m", "512", "-monitor", "none", *self.boot(settings)]
        # The wire's card comes first, so it becomes eth0.
        for slot, (tap, mac, more) in enumerate((("guest0", lab.GUEST_MAC, f",host_mtu={lab.MTU}"),
                                                 ("control0", lab.CONTROL_MAC, ""))):
            command += self.virtio_card(tap, mac, slot + 3, more)
        return command

    def inherited(self):
        """Open files that QEMU inherits, under the same numbers."""
        return ()

    def boot(self, settings):
        return ["-kernel", self._kernel, "-initrd", self._initramfs, "-serial", f"file:{self._console}",
                "-append", f"console=ttyS0 quiet panic=-1 {settings}"]

    def virtio_card(self, tap, mac, slot, more=""):
        return ["-netdev", f"tap,id={tap},ifname={tap},script=no,downscript=no", "-device",
                f"virtio-net-pci,netdev={tap},mac={mac},addr={slot},romfile={more}"]

    def start(self):
        self._console.write_text("")
        self._machine = self._children.start("machine", self.command(), keep_fds=self.inherited())

    def card_is_stuck(self):
        """Now and then, on a busy machine, QEMU stops sending what the guest passes to a virtual card: the guest's
        kernel reports a transmit timeout once the queue is full. Nothing listens at this port, so a working card
        answers."""
        try:
            socket.create_connection((lab.GUEST_IPV4, 9), timeout=3).close()
        except ConnectionRefusedError:
            pass
        except OSError:
            return True
        return False

    def wait_ready(self):
        """Seconds until the guest took a command."""
        begun = time.monotonic()
        while time.monotonic() - begun < BOOT_TIMEOUT_S:
            if self._machine.exit_code is not None:
                raise GuestTrouble(f"QEMU ended with {self._machine.exit_code}: {self._machine.output().strip()}")
            if READY in self.console():
                try:
                    self.run("true")
                    return time.monotonic() - begun
                except GuestTrouble:
                    pass  # its port is opened a moment later
            time.sleep(0.1)
        raise GuestTrouble(f"the guest did not boot within {BOOT_TIMEOUT_S} s; its console:\n{self.console()}")

    def power_off(self):
        if self._machine is not None:
            self._machine.signal(signal.SIGKILL)
            self._machine.wait(10)

    @property
    def running(self):
        return self._machine is not None and self._machine.exit_code is None

    def console(self):
        return self._console.read_text(errors="replace")

    def start_program(self, name, command):
        try:
            return GuestProgram(name, command)
        except OSError as error:
            raise GuestTrouble(f"the guest takes no command: {error}") from error

    def run(self, command, timeout_s=20):
        """What the command printed; GuestTrouble unless it ended with 0 within the time."""
        program = self.start_program("command", command)
        over = program.wait(timeout_s)
        output = program.output()
        program.stop()
        if not over or program.exit_code != 0:
            raise GuestTrouble(f"in the guest, '{command}' ended with {program.exit_code}: {output.strip()[-500:]}")
        return output

    def wait_for_listener(self, port, timeout_s):
        """True when a program in the guest listens on this TCP port."""
        wanted = f":{port:04X} [0:]* 0A "
        turns = int(timeout_s * 10)
        loop = (f"n=0; until cat /proc/net/tcp /proc/net/tcp6 | grep -q '{wanted}'; do "
                f"n=$((n+1)); [ $n -lt {turns} ] || exit 1; sleep 0.1; done")
        program = self.start_program("wait", loop)
        program.wait(timeout_s * 2)
        program.stop()
        return program.exit_code == 0

    def messages(self):
        """The end of the guest's kernel log."""
        try:
            return self.run("dmesg | tail -n 20")
        except GuestTrouble as trouble:
            return f"{trouble}\nconsole:\n{self.console()[-2000:]}"


class Loss:
    """RoCE packets that are lost on the wire, simulated by the guest's firewall. Inbound packets are dropped. The
    sender of a packet dropped on its way out would see an error, and rxe then does things that it does not do when the
    wire loses a packet (it answers READs with RNR NAKs): so outbound packets are sent to another UDP port instead,
    where nothing listens."""

    _FATE = {"input": "drop", "output": "udp dport set 9"}

    def __init__(self, guest, lost_in, lost_out):
        self._guest = guest
        self._lost = {"input": lost_in, "output": lost_out}

    def __enter__(self):
        rules = "table inet loss {\n"
        for hook, which in self._lost.items():
            if which:
                rules += (f"chain {hook} {{ type filter hook {hook} priority 0; "
                          f"udp dport 4791 {which} counter {self._FATE[hook]}; }}\n")
        self._guest.run(f"nft -f - <<'END'\n{rules}}}\nEND")
        return self

    def dropped(self):
        """{"input": packets, "output": packets} lost so far, for the directions with losses."""
        text = self._guest.run("nft list table inet loss")
        return {hook: int(count) for hook, count in re.findall(r"chain (\w+) {.*?packets (\d+)", text, re.DOTALL)}

    def __exit__(self, *exception):
        if self._guest.running:
            self._guest.run("nft delete table inet loss")


class Marks:
    """Marks what the guest sends, like a switch with a long queue. rxe has no ECN of its own."""

    def __init__(self, guest, percent):
        self._guest = guest
        self._percent = percent

    def __enter__(self):
        rules = "".join(f"udp dport 4791 numgen random mod 100 < {self._percent} {family} ecn set ce; "
                        for family in ("ip", "ip6"))
        self._guest.run("nft -f - <<'END'\ntable inet marks {\n"
                        f"chain output {{ type filter hook output priority 0; {rules}}}\n}}\nEND")

    def __exit__(self, *exception):
        if self._guest.running:
            self._guest.run("nft delete table inet marks")


class SlowRequests:
    """Delays connection requests more than anything else that the guest sends. perftest with -R listens for its second
    connection only after both ends have agreed on it, and its client asks at once: which of the two is first would be a
    matter of luck."""

    DELAY_MS = 300
    _REQUESTS = "@th,104,24 1 @th,352,16 { 0x0010, 0x0017 }"  # to queue pair 1; the MAD's attribute: ConnectRequest, ServiceIDResolutionRequest

    def __init__(self, guest):
        self._guest = guest

    def __enter__(self):
        self._guest.run("tc qdisc add dev eth0 root handle 1: prio && "
                        f"tc qdisc add dev eth0 parent 1:3 handle 3: netem delay {self.DELAY_MS}ms")
        self._guest.run("nft -f - <<'END'\ntable inet slow_requests {\n"
                        "chain output { type filter hook output priority 0; "
                        f"udp dport 4791 {self._REQUESTS} meta priority set 0x10003; }}\n}}\nEND")
        return self

    def delayed(self):
        """How many packets were delayed."""
        text = self._guest.run("tc -s qdisc show dev eth0 parent 1:3")
        found = re.search(r"netem.*?Sent \d+ bytes (\d+) pkt", text, re.DOTALL)
        return int(found.group(1)) if found else 0

    def __exit__(self, *exception):
        if self._guest.running:
            self._guest.run("nft delete table inet slow_requests; tc qdisc del dev eth0 root")
