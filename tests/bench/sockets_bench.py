#!/usr/bin/env python3
"""net_udp against what the kernel's own sockets do on the same veth pair, in one run, as a Markdown table.

    tests/bench/sockets_bench.py [--build build] [--rounds 3] [--seconds 2]

Needs root (network namespaces), iperf3, perftest and a C compiler; uroce itself runs without any privilege. The
contestants take turns; servers run on the first core and clients on the last. Median of the rounds, and least and most.
"""

import argparse
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "system" / "programs"))

import sockets
import wires
from bench import idle_share
from children import Children, free_tcp_port, wait_for_listener

PING = r"""
// pingpong server|client ADDRESS poll|block ROUNDS: 8 bytes by UDP; the client prints half a round trip in us.
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
int main(int argc, char** argv) {
  int server = !strcmp(argv[1], "server"), flags = !strcmp(argv[3], "poll") ? MSG_DONTWAIT : 0;
  long rounds = atol(argv[4]);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(9999)};
  inet_aton(argv[2], &at.sin_addr);
  int fd = socket(AF_INET, SOCK_DGRAM, 0);
  char bytes[8] = {0};
  struct timespec a, b;
  if (server) {
    if (bind(fd, (struct sockaddr*)&at, sizeof at)) return perror("bind"), 1;
    printf("bound\n"), fflush(stdout);
    struct sockaddr_in from;
    for (;;) {
      socklen_t n = sizeof from;
      if (recvfrom(fd, bytes, 8, flags, (struct sockaddr*)&from, &n) == 8) sendto(fd, bytes, 8, 0, (struct sockaddr*)&from, n);
    }
  }
  if (connect(fd, (struct sockaddr*)&at, sizeof at)) return perror("connect"), 1;
  for (long i = -1000; i < rounds; i++) {
    if (i == 0) clock_gettime(CLOCK_MONOTONIC, &a);
    send(fd, bytes, 8, 0);
    while (recv(fd, bytes, 8, flags) != 8) {}
  }
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("half %.3f\n", ((b.tv_sec - a.tv_sec) * 1e6 + (b.tv_nsec - a.tv_nsec) / 1e3) / rounds / 2);
}
"""


class Setting:
    def __init__(self, build, seconds, wire, folder):
        self.uroce, self.seconds, self.wire = str(pathlib.Path(build).resolve() / "apps/uroce"), seconds, wire
        self.cpus = sorted(os.sched_getaffinity(0))
        self.ping = f"{folder}/ping"
        source = pathlib.Path(folder) / "ping.c"
        source.write_text(PING)
        subprocess.run(["cc", "-O2", "-o", self.ping, source], check=True)

    def on(self, side, as_root=False):
        cpu = self.cpus[0] if side == 0 else self.cpus[-1]
        return ["taskset", "-c", str(cpu), *(self.wire.inside(side) if as_root else self.wire.prefix(side))]

    def rdma(self, children, port, *words):
        tcp = str(free_tcp_port())
        line = [self.uroce, "run", "--port", port, "--", *words, "-p", tcp]
        root = port != "net_udp0"
        server = children.start("server", [*self.on(0, root), *line])
        if not wait_for_listener(server, int(tcp), 20):
            raise RuntimeError(children.report())
        client = children.start("client", [*self.on(1, root), *line, self.wire.tcp_address(0)])
        if not client.wait(60) or not server.wait(10) or client.exit_code != 0:
            raise RuntimeError(children.report())
        return client.output()


def bandwidth(port):
    def run(setting, children):
        text = setting.rdma(children, port, "ib_write_bw", "-D", str(setting.seconds), "--report_gbits")
        return float(re.findall(r"^ *65536 +\d+ +[\d.]+ +([\d.]+)", text, re.M)[0])
    return run


def latency(port, *options):
    def run(setting, children):
        text = setting.rdma(children, port, "ib_send_lat", "-s", "8", "-n", "20000", *options)
        return float(re.findall(r"^ *8 +\d+ +[\d.]+ +[\d.]+ +([\d.]+)", text, re.M)[0])
    return run


def iperf(setting, children):
    server = children.start("iperf3", [*setting.on(0, True), "iperf3", "-s", "-1"])
    if not wait_for_listener(server, 5201, 20):
        raise RuntimeError(children.report())
    client = children.start("iperf3 client", [*setting.on(1, True), "iperf3", "-c", setting.wire.tcp_address(0), "-t", str(setting.seconds), "-f", "g"])
    client.wait(60)
    server.wait(10)
    return float(re.findall(r"([\d.]+) Gbits/sec.*receiver", client.output())[0])


def udp(how):
    def run(setting, children):
        server = children.start("server", [*setting.on(0), setting.ping, "server", setting.wire.tcp_address(0), how, "0"])
        if not server.wait_for_output("bound", 10):
            raise RuntimeError(children.report())
        client = children.start("client", [*setting.on(1), setting.ping, "client", setting.wire.tcp_address(0), how, "20000"])
        client.wait(60)
        return float(client.output().split()[-1])
    return run


def idle(setting, children):
    """CPU time of a program that waits for a connection, in percent of one core."""
    child = children.start("idle", [*setting.on(0), setting.uroce, "run", "--port", "net_udp0", "--", "rping", "-s"])
    time.sleep(2)

    def ticks():
        fields = pathlib.Path(f"/proc/{child.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])

    before = ticks()
    time.sleep(3)
    return (ticks() - before) / os.sysconf("SC_CLK_TCK") / 3 * 100


CONTESTANTS = [
    ("64 KiB WRITE, net_udp, Gbit/s", bandwidth("net_udp0")),
    ("iperf3, TCP, Gbit/s", iperf),
    ("64 KiB WRITE, net_af_packet as root, Gbit/s", bandwidth("net_af_packet0,iface=wire0")),
    ("8 B SEND, half round trip, both poll, us", latency("net_udp0")),
    ("UDP sockets that poll, us", udp("poll")),
    ("8 B SEND, half round trip, both wait for events, us", latency("net_udp0", "-e")),
    ("UDP sockets that block, us", udp("block")),
    ("an idle program, % of a core", idle),
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=2)
    arguments = parser.parse_args()
    for program in ("iperf3", "ib_write_bw", "cc", "setpriv"):
        if shutil.which(program) is None:
            sys.exit(f"{program} is not installed")
    wires.build_directory = pathlib.Path(arguments.build).resolve()
    numbers = {name: [] for name, _ in CONTESTANTS}
    with sockets.UdpWire() as wire, tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        setting = Setting(arguments.build, arguments.seconds, wire, folder)
        print(f"idle before: {100 * idle_share(0.5):.0f} %")
        for _ in range(arguments.rounds):
            for name, run in CONTESTANTS:
                with Children() as children:
                    numbers[name].append(run(setting, children))
    print("| what | median | least and most |\n|---|---|---|")
    for name, found in numbers.items():
        print(f"| {name} | {statistics.median(found):.3g} | {min(found):.3g}..{max(found):.3g} |")


if __name__ == "__main__":
    main()
