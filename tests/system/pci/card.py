"""The model of the card as PCI device 1234:1001, under Linux's PCI code and our driver.

        guest: uroce run --port 0000:00:05.0 --- QEMU --- Proxy --- mqnic-card --- wire=shm: --- uroce run (here)
"""

import signal
import time

import machine
import traffic
from guest import GuestTrouble
from outputs import check_pingpong
from prompt import Testpmd
from proxy import Proxy
from traffic import Failure, Pair

ADDRESS = "0000:00:05.0"
CABLE = "pci-test"
PROGRAM_TIMEOUT_S = 60


class CardMachine(machine.Machine):
    """Without an IOMMU: with one, QEMU's proxy device crashes now and then. Its memory is a file that the card maps."""

    def __init__(self, children, kernel, archive, work, mqnic_card):
        super().__init__(children, kernel, archive, work, ["-M", "pc,memory-backend=ram"])
        self._mqnic_card = mqnic_card
        self._socket = work / "card"
        self._card = None
        self.proxy = None

    def command(self):
        memory = f"memory-backend-memfd,id=ram,size={machine.MEMORY_MIB}M,share=on"
        return [*super().command(), "-object", memory,
                "-device", f"x-pci-proxy-dev,id=card,fd={self.proxy.argument_fd},addr=5"]

    def inherited(self):
        return (self.proxy.argument_fd,)

    def report(self):
        """What the model has seen so far."""
        before = self._card.output().count("bad_register_writes")
        self._card.signal(signal.SIGUSR1)
        deadline = time.monotonic() + 5
        while self._card.output().count("bad_register_writes") == before and time.monotonic() < deadline:
            time.sleep(0.05)
        return "tx_frames" + self._card.output().rpartition("tx_frames")[2]

    def frames_sent(self):
        return int(self.report().split()[1])

    def start(self):
        if self._card is not None:
            self._card.stop()
        self._card = self.children.start("mqnic-card", [
            self._mqnic_card, "--socket", self._socket, "--ports", "2", "--wire", f"shm:{CABLE}", "--wire", "loop"])
        if not self._card.wait_for_output("ready on", 10):
            raise GuestTrouble(f"mqnic-card does not start: {self._card.output()}")
        self.proxy = Proxy(self._socket)
        super().start()
        self.proxy.start()


def pair(bench, *words, **more):
    bench.machine.run(f"bind uio_pci_generic {ADDRESS}")
    return Pair(bench, f"net_mqnic0,wire=shm:{CABLE}", ADDRESS, *words, **more)


def pingpong(bench, size="8192"):
    with pair(bench, "ibv_rc_pingpong", ["-g", "1", "-c", "-n", "20", "-s", size]) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_pingpong(text, 20 * 2 * int(size)))


def devbind(bench):
    """The kernel finds it by its ids, sizes its BAR, and gives it to a driver."""
    machine.devbind(bench.machine, "uio_pci_generic", [ADDRESS])
    size = bench.machine.run(f"read first last flags </sys/bus/pci/devices/{ADDRESS}/resource; echo $((last - first + 1))")
    if int(size) != 16 << 20:
        raise Failure(f"BAR0 has {size} bytes")


def bytes_both_ways(bench):
    pingpong(bench)


def connections(bench):
    with pair(bench, "rping", ["-V", "-S", "10000", "-C", "5"], over_cm=True, target=traffic.HOST) as ends:
        ends.judge(PROGRAM_TIMEOUT_S)


def killed_in_the_middle(bench):
    """Queues are left enabled, with addresses of memory that others have by then; the next program's probe ends that."""
    with pair(bench, "ib_write_bw", ["-x", "1", "-F", "-D", "60"]) as ends:
        ends.wait_for_traffic(bench.machine.frames_sent, 500, PROGRAM_TIMEOUT_S)
    pingpong(bench)


def pulled_out(bench):
    """All-ones is a card that is gone: what runs ends with an error and says so, and what comes later is refused."""
    with pair(bench, "ib_write_bw", ["-x", "1", "-F", "-D", "60"]) as ends:
        ends.wait_for_traffic(bench.machine.frames_sent, 500, PROGRAM_TIMEOUT_S)
        bench.machine.proxy.pulled_out = True
        try:
            if not ends.client.wait(PROGRAM_TIMEOUT_S):
                raise ends.failure("the client runs on without a card")
            refused = bench.machine.run(f"uroce run --port {ADDRESS} --addr {traffic.GUEST}/24 -- ibv_devinfo 2>&1; true",
                                        PROGRAM_TIMEOUT_S)
        finally:
            bench.machine.proxy.pulled_out = False
        said = ends.client.output()
        if ends.client.exit_code == 0 or f"port {ADDRESS}: the link is down" not in said:
            raise ends.failure("the client did not end with an error, or did not say that the link is down")
    if "all-ones at 0x4: the card is gone, or needs a reset" not in refused:
        raise Failure(f"without a card uroce said:\n{refused}")
    pingpong(bench)


def testpmd(bench):
    """Debian's own program with the driver as a plugin: the second port has a plug that sends back what it is sent."""
    bench.machine.run(f"bind uio_pci_generic {ADDRESS}")
    with Testpmd(bench.machine, ADDRESS) as prompt:
        prompt("set portlist 1")
        for _ in range(2):
            prompt("start tx_first 4")
            prompt.until("show port stats 1", r"RX-packets: (\d{4,})")
            prompt("stop")
            prompt("port stop 1")
            prompt("port start 1")
        text = prompt("show port stats 1")
        if "RX-errors: 0" not in text or "TX-errors: 0" not in text:
            raise Failure(f"testpmd counts errors:\n{text}")


def healthy(bench):
    """Neither the proxy nor the model saw what must not be."""
    if bench.machine.proxy.trouble is not None:
        raise Failure(f"the proxy ended: {bench.machine.proxy.trouble!r}")
    report = bench.machine.report()
    wrong = [line for line in report.splitlines() for word in ("dma_faults", "bad_register_writes", "tx_wedged")
             if line.startswith(word) and not line.endswith(" 0")]
    if wrong or "tx_frames" not in report:
        raise Failure(f"the card counted {wrong}:\n{report}")


def steps():
    """(name, function of the bench)"""
    for step in (devbind, bytes_both_ways, connections, testpmd, killed_in_the_middle, pulled_out, healthy):
        yield f"card: {step.__name__}", step
