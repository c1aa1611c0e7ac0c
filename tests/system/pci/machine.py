"""The guest: a virtual machine with cards on its PCI bus, DPDK's way to them, and uroce.

        guest                                        host
        eth0 (the kernel's) --------- control0 ----- commands, and TCP of programs
        0000:00:05.0 .. (no driver) - a TAP each --- uroce run --port net_af_packet0,iface=THE TAP
"""

import json
import pathlib
import socket
import subprocess

import guest
import initramfs
import lab

HERE = pathlib.Path(__file__).resolve().parent
PROGRAMS = ("ip", "ibv_devinfo", "ibv_rc_pingpong", "ib_write_bw", "ib_send_lat", "rping", "lspci", "dpdk-devbind.py",
            "dpdk-testpmd")
MODULES = ("virtio_pci", "virtio_net", "uio_pci_generic", "vfio-pci", "vfio_iommu_type1")
PYTHON = "/usr/bin/python3"
PYTHON_PACKAGES = ("collections", "encodings", "importlib", "re")
HUGEPAGES = 80  # of 2 MiB: one program's 64 MiB, and what another one has not yet released
MEMORY_MIB = 768


def recipe(build):
    """`build`: the build directory. All steps use the same guest."""
    files = {"bin/uroce": build / "apps" / "uroce", "lib/liburoce_verbs.so": build / "verbs_shim" / "liburoce_verbs.so",
             "lib/librte_net_mqnic.so": build / "pmd" / "ethdev" / "librte_net_mqnic.so", "bin/bind": HERE / "bind.sh",
             "bin/rx_interrupts": build / "tests/system/pci/rx_interrupts"}
    return initramfs.Recipe(
        init=HERE / "guest_init.sh", programs=PROGRAMS, modules=MODULES,
        kernel_has="drivers/uio/uio_pci_generic.ko", package="linux-image-amd64",
        applets=(*initramfs.APPLETS, "chmod", "kill", "mkfifo", "readlink", "sed", "which"), files={**files, **python(), **testpmd()})


def python():
    """The distribution's Python, for dpdk-devbind.py: as byte-compiled at its installation, which saves seconds."""
    library = pathlib.Path(subprocess.run([PYTHON, "-c", "import os; print(os.path.dirname(os.__file__))"], text=True,
                                          capture_output=True, check=True).stdout.strip())
    files = {PYTHON[1:]: pathlib.Path(PYTHON).resolve()}
    for module in (*library.glob("*.py"), *(file for folder in PYTHON_PACKAGES for file in (library / folder).rglob("*.py"))):
        compiled = next((module.parent / "__pycache__").glob(f"{module.stem}.cpython-???.pyc"), None)
        files[str(module.with_suffix(".pyc") if compiled else module)[1:]] = compiled or module
    return files


def dpdk_plugin(name):
    """A driver of the distribution's DPDK."""
    found = [*pathlib.Path("/usr/lib").glob(f"*/dpdk/pmds-*/librte_{name}.so.*.*")]
    if len(found) != 1:
        raise initramfs.Missing(f"DPDK's {name} is not installed")
    return found[0]


def testpmd():
    """What Debian's testpmd loads without being linked with it, and what makes it print line by line."""
    found = [*pathlib.Path("/usr/libexec/coreutils").glob("libstdbuf.so")]
    if len(found) != 1:
        raise initramfs.Missing("coreutils' libstdbuf.so is not installed")
    drivers = ("mempool_ring", "net_e1000", "net_virtio", "net_vmxnet3")
    return {"lib/libstdbuf.so": found[0], **{f"lib/librte_{name}.so": dpdk_plugin(name) for name in drivers}}


def make_wires(taps):
    """In the caller's network namespace, which removes the wires when it ends."""
    commands = "link set lo up\n"
    for tap in ("control0", *taps):
        commands += (f"tuntap add {tap} mode tap\nlink set {tap} mtu {lab.MTU} txqueuelen 10000 addrgenmode none\n"
                     f"link set {tap} up\n")
    commands += (f"addr add {lab.HOST_CONTROL}/24 dev control0\n"
                 f"neigh add {lab.GUEST_CONTROL} lladdr {lab.CONTROL_MAC} nud permanent dev control0\n")
    result = subprocess.run(["ip", "-batch", "-"], input=commands, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"the wires cannot be made: {result.stderr.strip()}")


def devbind(machine, driver, addresses):
    """By DPDK's own tool; returns the kernel's messages."""
    machine.run(f"dpdk-devbind.py -b {driver} {' '.join(addresses)}", timeout_s=90)
    for address in addresses:
        machine.run(f"[ -e /sys/bus/pci/drivers/{driver}/{address} ]")


class Machine(guest.Guest):
    """`arguments` are QEMU's, `settings` are for the guest's kernel."""

    def __init__(self, children, kernel, archive, work, arguments, settings=""):
        super().__init__(children, kernel, archive, work / "console.txt")
        self.children = children
        self.kernel = kernel
        self._arguments = arguments
        self._settings = settings
        self._monitor_path = work / "monitor"
        self._monitor = None

    def command(self):
        settings = f"uroce.control={lab.GUEST_CONTROL}/24 uroce.hugepages={HUGEPAGES} {self._settings}"
        return [*guest.QEMU, "-m", str(MEMORY_MIB), "-qmp", f"unix:{self._monitor_path},server=on,wait=off",
                *self.boot(settings), *self._arguments, *self.virtio_card("control0", lab.CONTROL_MAC, 3)]

    def start(self):
        self._monitor = None
        super().start()

    def monitor(self, command, **arguments):
        """What QEMU's monitor answers."""
        if self._monitor is None:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(20)
            connection.connect(str(self._monitor_path))
            self._monitor = connection.makefile("rw")
            self._monitor.readline()  # its greeting
            self._say("qmp_capabilities", {})
        return self._say(command, arguments)

    def _say(self, command, arguments):
        self._monitor.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self._monitor.flush()
        while True:
            answer = json.loads(self._monitor.readline())
            if "error" in answer:
                raise guest.GuestTrouble(f"QEMU's monitor refuses {command}: {answer['error']}")
            if "return" in answer:
                return answer["return"]
