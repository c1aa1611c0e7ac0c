"""Runs a program with the shim preloaded and a runtime directory of its own.

    with_shim.py SHIM [--port PORT] [--progress MODE] PROGRAM ARGS...
    with_shim.py SHIM --veth [--driver NAME] [--addr ADDRESS] PROGRAM ARGS...   in a network namespace, over `near`, whose
                                                                               peer is `far`
"""

import os
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
RUNTIMES = ("libasan.so", "libtsan.so", "libhwasan.so", "liblsan.so", "libclang_rt.")


def sanitizer_runtime(program):
    """The runtime that a program built with a sanitizer loads, as a list: it must come before the shim. Clang's is
    usually part of the program, and then there is nothing to load."""
    libraries = subprocess.run(["ldd", program], check=False, capture_output=True, text=True).stdout.split()
    return [library for library in libraries if library.startswith("/") and os.path.basename(library).startswith(RUNTIMES)]


def namespace_command():
    """The command that makes the pair of interfaces and continues inside. None: only root may."""
    if os.geteuid() != 0 or subprocess.run(["unshare", "--net", "true"], check=False).returncode != 0:
        return None
    script = "ip link add near type veth peer name far && ip addr add 10.77.0.1/24 dev near && " \
             "ip link set near up && ip link set far up && exec \"$0\" \"$@\""
    return ["unshare", "--net", "sh", "-c", script]


def main():
    shim, command = os.path.abspath(sys.argv[1]), sys.argv[2:]
    # A short path: it contains sockets, whose names may have only 107 characters.
    directory = tempfile.mkdtemp(prefix="uroce-verbs-", dir="/tmp")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("UROCE_")}
    environment.update(UROCE_RUNTIME_DIR=directory, UROCE_LOG=os.environ.get("UROCE_LOG", "info"))
    prefix = []
    if command[0] == "--port":
        environment.update(UROCE_PORT=command[1])
        command = command[2:]
    if command[0] == "--progress":
        environment.update(UROCE_PROGRESS=command[1])
        command = command[2:]
    if command[0] == "--veth":
        prefix = namespace_command()
        if not prefix:
            print("skipped: network namespaces need root")
            return SKIPPED
        command = command[1:]
        driver = "net_af_packet"
        if command[0] == "--driver":
            driver, command = command[1], command[2:]
        environment.update(UROCE_PORT=f"{driver}0,iface=near")
        if command[0] == "--addr":
            environment.update(UROCE_ADDR=command[1])
            command = command[2:]
    preload = ":".join([*sanitizer_runtime(command[0]), shim])
    if prefix:
        command = [*prefix, "env", f"LD_PRELOAD={preload}", *command]
    else:
        environment.update(LD_PRELOAD=preload)
    try:
        return subprocess.run(command, env=environment, check=False).returncode
    finally:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
