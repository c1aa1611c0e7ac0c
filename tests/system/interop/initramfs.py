"""Builds the guest's root file system from what is installed here, as the kernel reads it (cpio, "newc").

Nothing is downloaded and nothing is unpacked: programs with their libraries, kernel modules with those that they need,
and two small scripts.
"""

import dataclasses
import hashlib
import os
import pathlib
import re
import shutil
import stat
import subprocess

HERE = pathlib.Path(__file__).resolve().parent

PINGPONGS = tuple(f"ibv_{kind}_pingpong" for kind in ("rc", "uc", "ud", "srq"))
PERFTESTS = tuple(f"ib_{what}_{how}" for what in ("write", "read", "send", "atomic") for how in ("bw", "lat"))
CONNECTING = ("rping", "ucmatose", "udaddy", "mckey", "rdma_client", "rdma_server", "cmtime", "rstream", "riostream")
APPLETS = ("base64", "cat", "dmesg", "grep", "head", "insmod", "ls", "mkdir", "mount", "nc", "ps", "rm", "setsid",
           "sleep", "tail", "uname")
ETC = {
    "etc/passwd": "root:x:0:0:root:/:/bin/sh\n",
    "etc/group": "root:x:0:\n",
    "etc/hosts": "127.0.0.1 localhost\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\nservices: files\nprotocols: files\n",
}


@dataclasses.dataclass(frozen=True)
class Recipe:
    """The contents of one kind of guest, besides a shell and the agent. Files are path in the guest -> path here."""

    init: pathlib.Path
    programs: tuple
    modules: tuple
    kernel_has: str  # below /lib/modules/VERSION/kernel: a kernel that has it is suitable
    package: str  # that contains it
    applets: tuple = APPLETS
    files: dict = dataclasses.field(default_factory=dict)


def rxe_recipe(more_programs):
    """The peer with the kernel's rxe, and programs that are not installed here."""
    providers = sorted(pathlib.Path("/usr/lib").glob("*/libibverbs/librxe-rdmav*.so"))
    description = pathlib.Path("/etc/libibverbs.d/rxe.driver")
    if not providers or not description.exists():
        raise Missing("the verbs provider for rxe is not installed (ibverbs-providers)")
    return Recipe(
        init=HERE / "guest_init.sh",
        programs=("ip", "tc", "rdma", "nft", "ibv_devinfo", "ibv_xsrq_pingpong", *PINGPONGS, *PERFTESTS, *CONNECTING),
        modules=("virtio_pci", "virtio_net", "crc32_generic", "crc32-pclmul", "crc32c_generic", "ib_uverbs", "rdma_ucm",
                 "rdma_rxe", "nf_tables", "nft_numgen", "sch_prio", "sch_netem"),
        kernel_has="drivers/infiniband/sw/rxe/rdma_rxe.ko",
        package="linux-image-amd64",
        files={**{str(file)[1:]: file for file in (*providers, description)},
               **{f"bin/{program.name}": program for program in more_programs}})


class Missing(Exception):
    """Something that the guest needs is not installed; the text says what."""


def find_kernel(recipe):
    """(version, image) of the newest installed kernel that has what the recipe needs."""
    found = []
    for driver in pathlib.Path("/lib/modules").glob(f"*/kernel/{recipe.kernel_has}"):
        version = driver.parts[3]
        image = pathlib.Path("/boot", f"vmlinuz-{version}")
        if os.access(image, os.R_OK):
            found.append((version, image))
    if not found:
        raise Missing(f"no installed kernel with {recipe.kernel_has} ({recipe.package})")
    return max(found, key=lambda pair: [int(word) for word in re.findall(r"\d+", pair[0])])


def module_files(version, names):
    """The modules and their dependencies, in load order, as paths on this machine."""
    folder = pathlib.Path("/lib/modules", version)
    needs, paths = {}, {}
    for line in (folder / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
        paths[pathlib.PurePath(path).name.removesuffix(".ko").replace("-", "_")] = path
    builtin = (folder / "modules.builtin").read_text().replace("-", "_")
    order = []
    for name in (module.replace("-", "_") for module in names):
        if name in paths:
            # modules.dep names the nearest first, and each after the modules that need it.
            order += [path for path in (*reversed(needs[paths[name]]), paths[name]) if path not in order]
        elif f"/{name}.ko" not in builtin:
            raise Missing(f"kernel {version} has no module {name}")
    return [folder / path for path in order]


def find_program(name):
    path = shutil.which(name, path="/usr/bin:/usr/sbin:/bin:/sbin")
    if path is None:
        raise Missing(f"{name} is not installed")
    return pathlib.Path(path)


def libraries(files):
    """The dynamic loader and the libraries that it would load for these programs."""
    found = set()
    for file in files:
        text = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        found.update(re.findall(r"(?:=> |^\s*)(/\S+)", text, re.MULTILINE))
    return sorted(found)


def contents(version, recipe):
    """Path in the guest -> file of this machine, or text, or ("link", target)."""
    tree = {"init": recipe.init, "base": HERE / "guest_base.sh", "agent": HERE / "guest_agent.sh", **ETC}
    tree["bin/sh"] = find_program("dash")  # busybox's shell would run its own ip, regardless of PATH
    tree["bin/busybox"] = find_program("busybox")
    for applet in recipe.applets:
        tree[f"bin/{applet}"] = ("link", "busybox")
    for name in recipe.programs:
        tree[f"bin/{name}"] = find_program(name)
    tree.update(recipe.files)
    binaries = [file for file in tree.values() if isinstance(file, pathlib.Path) and file.suffix not in (".sh", ".py")]
    for library in libraries(binaries):
        tree[library[1:]] = pathlib.Path(library)
    modules = module_files(version, recipe.modules)
    for module in modules:
        tree[f"modules/{module.name}"] = module
    tree["modules/order"] = "".join(f"{module.name}\n" for module in modules)
    return tree


def _fingerprint(version, tree):
    text = hashlib.sha256(version.encode() + pathlib.Path(__file__).read_bytes())
    for path, what in sorted(tree.items()):
        text.update(path.encode())
        if isinstance(what, pathlib.Path):
            status = what.stat()
            text.update(f"{what} {status.st_size} {status.st_mtime_ns}".encode())
        else:
            text.update(repr(what).encode())
    return text.hexdigest()[:16]


class _Archive:
    """The "newc" format: a header of hexadecimal words, the name, the bytes, each padded to four."""

    def __init__(self, file):
        self._file = file
        self._entries = 0

    def add(self, path, mode, data=b""):
        self._entries += 1
        name = path.encode() + b"\0"
        words = (self._entries, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        self._write(b"070701" + b"".join(b"%08x" % word for word in words) + name)
        self._write(data)

    def finish(self):
        self.add("TRAILER!!!", 0)

    def _write(self, data):
        self._file.write(data + b"\0" * (-len(data) % 4))


def _write_archive(file, tree):
    archive = _Archive(file)
    folders = {str(parent) for path in tree for parent in pathlib.PurePath(path).parents} - {"."}
    for folder in sorted(folders | {"proc", "sys", "dev", "tmp", "run"}):
        archive.add(folder, stat.S_IFDIR | 0o755)
    for path, what in sorted(tree.items()):
        if isinstance(what, tuple):
            archive.add(path, stat.S_IFLNK | 0o777, what[1].encode())
        else:
            archive.add(path, stat.S_IFREG | 0o755, what.encode() if isinstance(what, str) else what.read_bytes())
    archive.finish()


def build(version, folder, recipe):
    """The archive for this kernel; taken from `folder` if nothing has changed since it was made."""
    tree = contents(version, recipe)
    result = folder / f"guest-{version}-{_fingerprint(version, tree)}.cpio"
    if result.exists():
        return result
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(f"guest-{version}-*.cpio"):
        old.unlink(missing_ok=True)
    unfinished = result.with_suffix(f".{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            _write_archive(file, tree)
        unfinished.replace(result)
    finally:
        unfinished.unlink(missing_ok=True)
    return result
