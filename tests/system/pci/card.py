"""The model of the card as PCI device 1234:1001, under Linux's PCI code and our driver.

        guest: uroce run --port 0000:00:05.0 --- QEMU --- Proxy --- mqnic-card --- wire=shm: --- uroce run (here)
"""

import contextlib
import re
import signal
import time

import machine
import traffic
from guest import GuestTrouble
from harness import TrustedPlugin
from outputs import check_pingpong
from prompt import Testpmd
from proxy import Proxy
from traffic import Failure, Pair

ADDRESS = "0000:00:05.0"
CABLE = "pci-test"
INTERRUPTS = 50
PROGRAM_TIMEOUT_S = 60
UIO, VFIO = "uio_pci_generic", "vfio-pci"
# QEMU's proxy device bypasses the IOMMU: addresses must be physical.
PHYSICAL = "--iova-mode=pa"


class CardMachine(machine.Machine):
    """Its memory is a file that the card maps. Its IOMMU is there for vfio-pci. It is AMD's: with Intel's, QEMU's proxy
    device has crashed now and then."""

    def __init__(self, children, kernel, archive, work, mqnic_card):
        super().__init__(children, kernel, archive, work, ["-M", "q35,memory-backend=ram", "-device", "amd-iommu,intremap=off"],
                         "amd_iommu=on iommu=pt")
        self._mqnic_card = mqnic_card
        self._socket = work / "card"
        self._card = None
        self.proxy = None

    def command(self):
        memory = f"memory-backend-memfd,id=ram,size={machine.MEMORY_MIB}M,share=on"
        return [*super().command(), "-object", memory,
                "-device", f"x-pci-proxy-dev,id=card,fd={self.proxy.argument_fd},addr=5",
                "-chardev", f"socket,id=qtest,fd={self.proxy.qtest_fd}", "-object", "qtest,id=vectors,chardev=qtest,log=/dev/null"]

    def inherited(self):
        return self.proxy.argument_fd, self.proxy.qtest_fd

    def report(self):
        """What the model has recorded so far."""
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


def bind(bench, driver):
    """This IOMMU does not remap interrupts, since the proxy's messages bypass it; vfio must be told that this is
    acceptable."""
    bench.machine.run(f"echo 1 >/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts; bind {driver} {ADDRESS}")


def pair(bench, *words, driver=UIO, **more):
    bind(bench, driver)
    return Pair(bench, f"net_mqnic0,wire=shm:{CABLE}", ADDRESS, *words, settings=f"UROCE_EAL={PHYSICAL}" if driver == VFIO else "",
                **more)


def pingpong(bench, size="8192", driver=UIO):
    with pair(bench, "ibv_rc_pingpong", ["-g", "1", "-c", "-n", "20", "-s", size], driver=driver) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_pingpong(text, 20 * 2 * int(size)))


def devbind(bench):
    """The kernel finds the card by its ids, sizes its BAR, and gives it to a driver."""
    machine.devbind(bench.machine, UIO, [ADDRESS])
    size = bench.machine.run(f"read first last flags </sys/bus/pci/devices/{ADDRESS}/resource; echo $((last - first + 1))")
    if int(size) != 16 << 20:
        raise Failure(f"BAR0 has {size} bytes")


def pci_express(bench):
    """The kernel and lspci read the same from the capability, and what the kernel sets is kept."""
    kernel = bench.machine.run(f"cd /sys/bus/pci/devices/{ADDRESS}; cat current_link_speed current_link_width max_link_speed max_link_width")
    if kernel.split("\n")[:4] != ["8.0 GT/s PCIe", "16", "8.0 GT/s PCIe", "16"]:
        raise Failure(f"the kernel's link: {kernel}")
    text = bench.machine.run(f"lspci -vv -s {ADDRESS}")
    for words in ("[40] MSI-X: Enable- Count=64", "[70] Express (v2) Endpoint", "MaxPayload 1024 bytes", "FLReset-",
                  "RlxdOrd+ ExtTag+", "MaxReadReq 512 bytes", "LnkCap:\tPort #0, Speed 8GT/s, Width x16, ASPM not supported",
                  "LnkSta:\tSpeed 8GT/s, Width x16", "EqualizationComplete+"):
        if words not in text:
            raise Failure(f"lspci does not say '{words}':\n{text}")


def vfio_bytes_both_ways(bench):
    pingpong(bench, driver=VFIO)


@contextlib.contextmanager
def echo(bench):
    """A program on this machine that sends back what arrives through the cable."""
    plugin = TrustedPlugin(bench.uroce.parent.parent / "pmd/ethdev/librte_net_mqnic.so")
    child = bench.children.start("echo (here)", [
        "dpdk-testpmd", "--no-huge", "-m", "128", "--no-pci", "--no-telemetry", "--no-shconf", "-d", plugin.path,
        f"--vdev=net_mqnic0,card=inline,wire=shm:{CABLE}", "--", "--forward-mode=macswap", "--auto-start", "--port-topology=loop",
        "--total-num-mbufs=4096", "--stats-period=3600", "--no-flush-rx"])
    try:
        if not child.wait_for_output("packets/burst", PROGRAM_TIMEOUT_S):
            raise Failure(f"testpmd does not start here:\n{child.output()}")
        yield child
    finally:
        child.stop()
        plugin.close()


def rx_interrupts(bench):
    """MSI-X through vfio-pci: each frame causes an interrupt, delivered over the bus."""
    bind(bench, VFIO)
    sent = bench.machine.proxy.vectors.sent
    with echo(bench) as child:
        program = bench.machine.start_program("rx_interrupts", (
            f"rx_interrupts --lcores=0@0 --in-memory {PHYSICAL} --no-telemetry -d /lib/librte_mempool_ring.so "
            f"-d /lib/librte_net_mqnic.so -a {ADDRESS} -- {INTERRUPTS} 2>&1"))
        ended = program.wait(PROGRAM_TIMEOUT_S)
        program.stop()
        text = program.output()
    if not ended or program.exit_code != 0 or f"{INTERRUPTS} of {INTERRUPTS} frames" not in text:
        raise Failure(f"exit {program.exit_code}:\n{text}\n--- echo\n{child.output()}\n--- kernel\n{bench.machine.messages()}")
    if not (sent := bench.machine.proxy.vectors.sent - sent) >= INTERRUPTS:
        raise Failure(f"the bus had only {sent} interrupts")



def bytes_both_ways(bench):
    pingpong(bench)


def connections(bench):
    with pair(bench, "rping", ["-V", "-S", "10000", "-C", "5"], over_cm=True, target=traffic.HOST) as ends:
        ends.judge(PROGRAM_TIMEOUT_S)


def killed_in_the_middle(bench):
    """A killed program leaves queues enabled, with addresses of memory that now belongs to others; the next program's
    probe disables them."""
    with pair(bench, "ib_write_bw", ["-x", "1", "-F", "-D", "60"]) as ends:
        ends.wait_for_traffic(bench.machine.frames_sent, 500, PROGRAM_TIMEOUT_S)
    pingpong(bench)


def pulled_out(bench):
    """All-ones means that the card is gone: a running program ends with an error and says so, and a later one is
    refused."""
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
    testpmd_over(bench, UIO)


def vfio_testpmd(bench):
    testpmd_over(bench, VFIO, PHYSICAL)


def testpmd_over(bench, driver, *options):
    """Debian's testpmd with the driver as a plugin: the second port has a plug that sends back what it gets."""
    bind(bench, driver)
    with Testpmd(bench.machine, ADDRESS, *options) as prompt:
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


def vfio_long_frames(bench):
    """Packets of 9000 bytes, sent and received in pieces."""
    bind(bench, VFIO)
    port = ["--enable-scatter", "--mbuf-size=2176", "--max-pkt-len=9018", "--tx-offloads=0x8000", "--rxd=128", "--txd=128"]
    with Testpmd(bench.machine, ADDRESS, PHYSICAL, port=port) as prompt:
        prompt("set portlist 1")
        prompt("set txpkts 2048,2048,2048,2048,822")
        prompt("start tx_first 1")
        prompt.until("show port stats 1", r"RX-packets: (\d{4,})")
        prompt("stop")
        counts = {name: int(value) for name, value in re.findall(r"([RT]X-\w+): +(\d+)", prompt("show port stats 1"))}
    if counts["RX-bytes"] != 9014 * counts["RX-packets"] or counts["RX-errors"] or counts["TX-errors"]:
        raise Failure(f"not frames of 9014 bytes: {counts}")


def healthy(bench):
    """Neither the proxy nor the model saw anything forbidden."""
    if bench.machine.proxy.trouble is not None:
        raise Failure(f"the proxy ended: {bench.machine.proxy.trouble!r}")
    report = bench.machine.report()
    wrong = [line for line in report.splitlines() for word in ("dma_faults", "bad_register_writes", "tx_wedged")
             if line.startswith(word) and not line.endswith(" 0")]
    if wrong or "tx_frames" not in report:
        raise Failure(f"the card counted {wrong}:\n{report}")


def steps():
    """(name, function of the bench)"""
    for step in (devbind, pci_express, bytes_both_ways, connections, testpmd, vfio_bytes_both_ways, vfio_testpmd,
                 vfio_long_frames, rx_interrupts, killed_in_the_middle, pulled_out, healthy):
        yield f"card: {step.__name__}", step
