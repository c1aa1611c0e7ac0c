#!/usr/bin/env python3
"""uroce-perf against itself over shared memory: every operation, and what it prints.

    perf.py UROCE_PERF               over net_memif
    perf.py UROCE_PERF PLUGIN        over a segment, as two stations: PLUGIN is net_shmlan
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "testpmd"))

from harness import SKIP, Skip, TrustedPlugin  # noqa: E402

CASES = [
    ["--op", "write", "--size", "65536", "--iters", "2000"],
    ["--op", "write", "--size", "1", "--iters", "20000", "--qps", "4"],
    ["--op", "read", "--size", "100000", "--iters", "1000", "--depth", "8"],
    ["--op", "send", "--size", "4097", "--iters", "5000"],
    ["--op", "fetch_add", "--iters", "5000"],
    ["--op", "cmp_swap", "--iters", "1000", "--latency"],
    ["--op", "write", "--size", "8", "--iters", "1000", "--latency"],
]
BANDWIDTH = r"^{op} +{size} +\d+ +{qps} +{iters} +[\d.]+ +[\d.]+$"
LATENCY = r"^{op} +{size} +{iters} +min ([\d.]+)  50% ([\d.]+)  90% ([\d.]+)  99% ([\d.]+)  99.9% ([\d.]+)  max ([\d.]+)$"


def arguments(program, plugin, directory, role, options):
    device = f"net_memif0,id=0,role={role},socket={directory}/perf.sock,socket-abstract=no,bsize=4352,rsize=8"
    driver = []
    if plugin is not None:
        device = f"net_shmlan0,dir={directory}"
        driver = ["-d", str(plugin.path)]
    eal = [*driver, "--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-m", "64", "--lcores=0@(0-%d)" % (os.cpu_count() - 1)]
    return [program, *eal, f"--file-prefix=perf{os.getpid()}{role}", f"--vdev={device}", "--", *options]


def check(output, options):
    value = dict(zip(options, options[1:] + [""]))
    op = value["--op"]
    size = "8" if op in ("fetch_add", "cmp_swap") else value["--size"]
    if "--latency" not in options:
        pattern = BANDWIDTH.format(op=op, size=size, qps=value.get("--qps", "1"), iters=value["--iters"])
        assert re.search(pattern, output, re.M), output
        return
    match = re.search(LATENCY.format(op=op, size=size, iters=value["--iters"]), output, re.M)
    assert match, output
    times = [float(t) for t in match.groups()]
    assert times == sorted(times) and times[0] > 0, times


def run_all(program, plugin):
    for options in CASES:
        with tempfile.TemporaryDirectory() as directory:
            listen = arguments(program, plugin, directory, "server", ["--listen"])
            connect = arguments(program, plugin, directory, "client", ["--connect", "198.18.0.1", *options])
            with subprocess.Popen(listen, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as server:
                try:
                    client = subprocess.run(connect, capture_output=True, text=True, timeout=60, check=False)
                    output, _ = server.communicate(timeout=20)
                finally:
                    server.kill()
            assert client.returncode == 0, client.stdout + client.stderr
            assert server.returncode == 0, f"{server.returncode}: {output}"
            check(client.stdout, options)
            print(client.stdout.splitlines()[-1])


def main():
    plugin = None
    try:
        plugin = TrustedPlugin(sys.argv[2]) if len(sys.argv) > 2 else None
        run_all(sys.argv[1], plugin)
    except Skip as skip:
        print(f"skipped: {skip}")
        return SKIP
    finally:
        if plugin is not None:
            plugin.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
