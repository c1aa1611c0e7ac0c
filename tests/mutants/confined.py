"""What a test of a mutant writes or removes is gone with it: it sees its tree through a layer of its own, has directories
of its own in place of /tmp and the like, and may write nowhere else.

A small mistake in code that removes files can take the whole machine with it: with || for && in what leaves out "." and
"..", removing one directory removes everything above it, too.
"""

import ctypes
import os
import pathlib
import struct

CLONE_NEWNS, CLONE_NEWUSER = 0x00020000, 0x10000000
MS_REC, MS_PRIVATE = 16384, 1 << 18
AT_FDCWD, AT_RECURSIVE = -100, 0x8000
MOUNT_ATTR_RDONLY = 1
SYS_MOUNT_SETATTR = 442
OWN = ("/tmp", "/var/tmp", "/run", "/dev/shm")

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str):
    if result != 0:
        raise OSError(ctypes.get_errno(), f"{what}: {os.strerror(ctypes.get_errno())}")


def mount(source: str, target: str, kind: str, flags: int, options: str = ""):
    checked(libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def set_attributes(path: str, flags: int, on: int, off: int):
    what = struct.pack("QQQQ", on, off, 0, 0)
    checked(libc.syscall(SYS_MOUNT_SETATTR, AT_FDCWD, path.encode(), flags, what, ctypes.c_size_t(len(what))), f"mount_setattr {path}")


def confine(tree: pathlib.Path):
    """This process, from now on. Throws OSError where the kernel does not allow it."""
    user, group = os.geteuid(), os.getegid()
    checked(libc.unshare(CLONE_NEWNS | (CLONE_NEWUSER if user != 0 else 0)), "unshare")
    if user != 0:
        for name, text in (("setgroups", "deny"), ("uid_map", f"{user} {user} 1"), ("gid_map", f"{group} {group} 1")):
            pathlib.Path(f"/proc/self/{name}").write_text(text, encoding="ascii")
    mount("none", "/", "", MS_REC | MS_PRIVATE)
    here, kept = os.getcwd(), os.open(tree, os.O_PATH | os.O_CLOEXEC)
    set_attributes("/", AT_RECURSIVE, MOUNT_ATTR_RDONLY, 0)
    for place in filter(os.path.isdir, OWN):
        mount("tmpfs", place, "tmpfs", 0, "mode=0755" if place == "/run" else "mode=1777")
    os.makedirs(tree, exist_ok=True)  # it may have been in one of these
    mount("tmpfs", str(tree), "tmpfs", 0)
    for part in ("written", "work"):
        (tree / part).mkdir()
    mount("overlay", str(tree), "overlay", 0, f"lowerdir=/proc/self/fd/{kept},upperdir={tree}/written,workdir={tree}/work")
    os.close(kept)
    set_attributes("/proc", 0, 0, MOUNT_ATTR_RDONLY)  # a process has files of its own there that it may write to
    os.chdir(here)


def why_not(tree: pathlib.Path) -> str:
    """The kernel's reason why confine() fails on this machine; "" when it works."""
    child = os.fork()
    if child == 0:
        error = 0
        try:
            confine(tree)
        except OSError as reason:
            error = reason.errno or 1
        os._exit(error)
    _, status = os.waitpid(child, 0)
    return os.strerror(os.waitstatus_to_exitcode(status)) if status != 0 else ""
