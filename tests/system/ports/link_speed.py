#!/usr/bin/env python3
"""The speed of a kernel's interface is asked for each time: a program sees another one at once.

    link_speed.py UROCE SHOWS_PORT
"""

import ctypes
import fcntl
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile

SKIP = 77
TUNSETIFF, IFF_TAP_NO_PI = 0x400454CA, 0x1002
SIOCETHTOOL, ETHTOOL_SSET = 0x8946, 2
NAME = "t0"


def set_speed(mbps):
    """Does what `ethtool -s t0 speed MBPS duplex full` does."""
    settings = struct.pack("=IIIHBBBBBBIIHBBIII", ETHTOOL_SSET, 0, 0, mbps & 0xFFFF, 1, 0, 0, 0, 0, 0, 0, 0, mbps >> 16, 0, 0, 0, 0, 0)
    held = ctypes.create_string_buffer(settings, len(settings))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, SIOCETHTOOL, struct.pack("16sP", NAME.encode(), ctypes.addressof(held)) + bytes(16))


def main():
    uroce, shows_port = sys.argv[1:3]
    if os.geteuid() != 0 or not pathlib.Path("/dev/net/tun").exists():
        print("skipped: an interface of one's own needs root and /dev/net/tun")
        sys.exit(SKIP)
    if "INSIDE" not in os.environ:
        os.execvpe("unshare", ["unshare", "--net", sys.executable, "-B", *sys.argv], dict(os.environ, INSIDE="1"))
    with open("/dev/net/tun", "r+b", buffering=0) as tun, tempfile.TemporaryDirectory(prefix="uroce-speed-") as folder:
        fcntl.ioctl(tun, TUNSETIFF, struct.pack("16sH22x", NAME.encode(), IFF_TAP_NO_PI))
        set_speed(10000)
        subprocess.run(["ip", "link", "set", NAME, "up"], check=True)
        subprocess.run(["ip", "addr", "add", "10.66.0.1/24", "dev", NAME], check=True)
        command = [uroce, "run", "--port", f"net_af_packet0,iface={NAME}", "--", sys.executable, "-u", shows_port]
        shows = subprocess.Popen(command, env=dict(os.environ, UROCE_RUNTIME_DIR=folder), stdout=subprocess.PIPE, text=True)
        try:
            for mbps, rate in ((10000, "width 1 speed 4"), (25000, "width 1 speed 32"), (40000, "width 2 speed 4")):
                set_speed(mbps)
                line = shows.stdout.readline()
                assert line.endswith(f"{rate}\n"), (mbps, line)
        finally:
            shows.kill()
            shows.wait()


if __name__ == "__main__":
    main()
