"""Cards that QEMU has of its own, under DPDK's drivers for them, behind an IOMMU (vfio-pci) and without (uio)."""

import dataclasses
import pathlib
import re
import time

import lab
import machine
import offloads
import traffic
from outputs import check_pingpong, check_sizes, rows
from traffic import Failure, Pair

MACHINE = ["-M", "q35", "-device", "intel-iommu"]
# iommu=pt: cards driven by the kernel, or bound to uio_pci_generic, use physical addresses.
SETTINGS = "intel_iommu=on iommu=pt"
UIO, VFIO = "uio_pci_generic", "vfio-pci"
PROGRAM_TIMEOUT_S = 40


@dataclasses.dataclass(frozen=True)
class Card:
    name: str  # of the device in QEMU, of its TAP here, and of the step
    slot: int
    device: str
    options: str = ""
    in_pieces: bool = False  # long frames arrive in several buffers
    driver: str = "e1000"
    # What testpmd can request from it besides long frames; and whether that includes the IPv4 header checksum of sent
    # frames.
    offloads: tuple = ()
    ip_checksum: bool = True
    buffers: int = 2176  # of testpmd's

    @property
    def address(self):
        return f"0000:00:{self.slot:02x}.0"

    def received(self):
        """Bytes that the TAP received from the card."""
        table = pathlib.Path("/proc/net/dev").read_text()
        return int(re.search(rf"^ *{self.name}: *(\d+)", table, re.MULTILINE)[1])

    def arguments(self):
        """For QEMU."""
        return ["-netdev", f"tap,id={self.name},ifname={self.name},script=no,downscript=no", "-device",
                f"{self.device},netdev={self.name},mac=52:54:00:79:00:{self.slot:02x},addr={self.slot},romfile={self.options}"]


SENDING = (offloads.vlan_tags, offloads.sent_checksums)
CARDS = (
    # Its buffers' sizes are powers of two, so 4096 bytes of payload need two buffers.
    Card("e1000", 5, "e1000", in_pieces=True, offloads=SENDING),
    Card("e1000e", 6, "e1000e", in_pieces=True, offloads=(*SENDING, offloads.received_checksums)),
    # It loses a frame that spans several of its buffers.
    Card("vmxnet3", 7, "vmxnet3", driver="vmxnet3", offloads=SENDING, ip_checksum=False, buffers=9728),
    Card("virtio", 8, "virtio-net-pci", f",host_mtu={lab.MTU},disable-legacy=on,iommu_platform=on", driver="virtio",
         offloads=SENDING, ip_checksum=False),
)


def taps():
    return [card.name for card in CARDS]


def machine_for(children, kernel, archive, work):
    devices = [word for card in CARDS for word in card.arguments()]
    return machine.Machine(children, kernel, archive, work, [*MACHINE, *devices], SETTINGS)


def bind(bench, card, driver):
    bench.machine.run(f"bind {driver} {card.address}")


def devbind(bench):
    """As doc/platforms.md says: DPDK's own tool, from the kernel's driver to vfio-pci."""
    machine.devbind(bench.machine, VFIO, [card.address for card in CARDS])


def pair(bench, card, *words, **more):
    return Pair(bench, f"net_af_packet0,iface={card.name}", card.address, *words, **more)


def connections_on_a_vlan(bench, card):
    """Connection management, and READ and WRITE with bytes that rping compares, with a tag in each frame."""
    bind(bench, card, UIO)
    with pair(bench, card, "rping", ["-V", "-S", "10000", "-C", "20"], over_cm=True, target=traffic.HOST_ON_VLAN) as ends:
        counted = ends.judge(PROGRAM_TIMEOUT_S)
        if card.in_pieces and not counted.get("rx_linearized"):
            raise ends.failure("no frame came in several pieces")


def bytes_behind_an_iommu(bench, card):
    """pingpong fills its buffer and checks what comes back."""
    bind(bench, card, VFIO)
    with pair(bench, card, "ibv_rc_pingpong", ["-g", "1", "-c", "-n", "50", "-s", "30000", "-m", "4096"]) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_pingpong(text, 50 * 2 * 30000))


def perftest_with_an_mtu_of_1500(bench, card):
    """perftest gives up at once when it finds the port down, as ports are while two cards negotiate."""
    bind(bench, card, UIO)
    with pair(bench, card, "ib_send_lat", ["-x", "1", "-F", "-n", "200", "-s", "8192"],
              run=["--mtu", "1500"]) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_sizes([size for size, *_ in rows(text)], [8192]))


def link_goes_and_comes(bench, card):
    """A transfer survives it, and both changes are logged."""
    bind(bench, card, VFIO)
    with pair(bench, card, "ib_write_bw", ["-x", "1", "-F", "-D", "3"]) as ends:
        ends.wait_for_traffic(card.received, 2_000_000, PROGRAM_TIMEOUT_S)
        bench.machine.monitor("set_link", name=card.name, up=False)
        time.sleep(0.3)
        bench.machine.monitor("set_link", name=card.name, up=True)
        counted = ends.judge(PROGRAM_TIMEOUT_S, lambda text: [
            f"it did not say that the link is {how}" for how in ("down", "up")
            if f"port {card.address}: the link is {how}" not in text])
        if counted.get("link_ups") != 2:
            raise ends.failure(f"the link came {counted.get('link_ups')} times")


def one_program_at_a_time(bench, card):
    """uio would let two programs have a card. A killed program leaves the card to the next one."""
    bind(bench, card, UIO)
    with pair(bench, card, "ib_write_bw", ["-x", "1", "-F", "-D", "60"]) as ends:
        ends.wait_for_traffic(card.received, 2_000_000, PROGRAM_TIMEOUT_S)
        refuse(bench, card, "", f"PCI device {card.address} is in use already, here or by another program")
    with pair(bench, card, "ibv_rc_pingpong", ["-g", "1", "-c", "-n", "20"]) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_pingpong(text, 20 * 2 * 4096))


def without_hugepages(bench, card):
    """Memory of 4 KiB pages has no physical addresses that DPDK knows; behind an IOMMU it needs none."""
    bind(bench, card, UIO)
    refuse(bench, card, "--hugepages no", "without an IOMMU it needs hugepages: as root, echo 64 > ")
    bind(bench, card, VFIO)
    with pair(bench, card, "ibv_rc_pingpong", ["-g", "1", "-c", "-n", "20"], run=["--hugepages", "no"]) as ends:
        ends.judge(PROGRAM_TIMEOUT_S, lambda text: check_pingpong(text, 20 * 2 * 4096))


def offloads_of_testpmd(bench, card):
    """Packets of 9000 bytes in pieces, and the other offloads that DPDK's driver can request from this card."""
    offloads.run(bench, card, VFIO)


def refuse(bench, card, options, words):
    output = bench.machine.run(f"uroce run --port {card.address} --addr {traffic.GUEST}/24 {options} -- ibv_devinfo 2>&1; "
                               "true", PROGRAM_TIMEOUT_S)
    if words not in output or "PORT_ACTIVE" in output:
        raise Failure(f"it should have been refused with '{words}', but said:\n{output}")


def steps():
    """(name, function of the bench)"""
    yield "devbind", devbind
    by_name = {card.name: card for card in CARDS}
    chosen = [(step, name) for name in by_name for step in (connections_on_a_vlan, bytes_behind_an_iommu)]
    chosen += [(link_goes_and_comes, "e1000"), (link_goes_and_comes, "virtio"), (perftest_with_an_mtu_of_1500, "vmxnet3"),
               (one_program_at_a_time, "e1000e"), (without_hugepages, "virtio")]
    chosen += [(offloads_of_testpmd, name) for name in by_name]
    for step, name in chosen:
        yield f"{name}: {step.__name__}", lambda bench, step=step, name=name: step(bench, by_name[name])
