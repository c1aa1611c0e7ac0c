"""A world of its own for one run: network, processes, mounts and /run. It ends with the run, however that ends.

The run is the first process of a process namespace: when it is gone, the kernel ends everything it started, and the
network (with its bridge and interfaces) and the mounts go with the last process.
"""

import ctypes
import os
import signal
import sys
import traceback

CLONE_NEWNS = 0x00020000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
MS_PRIVATE = 1 << 18
MS_REC = 1 << 14
PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)


class CannotIsolate(Exception):
    """This machine or container does not allow it; the text says what."""


def _call(what, result):
    if result != 0:
        raise CannotIsolate(f"{what}: {os.strerror(ctypes.get_errno())}")


def _mount(source, target, kind, flags=0):
    encoded = [None if word is None else word.encode() for word in (source, target, kind)]
    _call(f"mount {target}", _libc.mount(*encoded, ctypes.c_ulong(flags), None))


def _enter():
    """In the new first process: a matching /proc, and a /run of its own (DPDK and uroce name files there by pid)."""
    _call("prctl", _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))
    _mount(None, "/", None, MS_REC | MS_PRIVATE)
    _mount("proc", "/proc", "proc")
    _mount("run", "/run", "tmpfs")
    os.chmod("/run", 0o755)  # a tmpfs is writable for everybody, and EAL loads no drivers from such a place


def _wait(child):
    """The child's exit code. A signal that asks this process to end kills the child at once, with its whole namespace:
    nothing in there is worth waiting for."""
    asked = None

    def end(number, _frame):
        nonlocal asked
        asked = number
        os.kill(child, signal.SIGKILL)

    for number in ENDINGS:
        signal.signal(number, end)
    _, status = os.waitpid(child, 0)
    for number in ENDINGS:
        signal.signal(number, signal.SIG_DFL)
    return os.waitstatus_to_exitcode(status) if asked is None else 128 + asked


def _finish(body):
    """Ends this process with what body() returns, without returning to its caller."""
    code = 1
    try:
        code = body()
    except SystemExit as ending:
        code = ending.code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_isolated(body):
    """Runs body() in namespaces of its own and returns its exit code; raises CannotIsolate in the caller."""
    _call("unshare", _libc.unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWPID))
    readable, writable = os.pipe()
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        os.close(readable)
        try:
            _enter()
        except CannotIsolate as error:
            os.write(writable, str(error).encode())
            os._exit(1)
        os.close(writable)
        for number in ENDINGS:  # a terminal's Ctrl-C arrives here as well; children must not ignore these signals
            signal.signal(number, lambda *_: None)
        _finish(body)
    os.close(writable)
    with os.fdopen(readable) as pipe:
        trouble = pipe.read()
    code = _wait(child)
    if trouble:
        raise CannotIsolate(trouble)
    return code
