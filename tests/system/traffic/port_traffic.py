#!/usr/bin/env python3
"""An endpoint on a kernel interface, and a stranger with Scapy at the other end of the wire.

    port_traffic.py PATH-OF-UROCE [SEED]

ARP, neighbour discovery and ping are answered, also in a VLAN. Any bytes at all on UDP 4791 are counted drops, each
frame exactly one.
"""

import json
import pathlib
import re
import subprocess
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "programs"))

from children import Children
from wires import SKIP, Skip, VethWire

IPV4, IPV6, VLAN_IPV4, VLAN = "10.77.0.9", "fd77::9", "10.78.0.9", 100


def counters(uroce, pid):
    done = subprocess.run([uroce, "stats", "--json", str(pid)], capture_output=True, text=True, check=True)
    for line in done.stdout.splitlines():
        found = json.loads(line).get("/uroce/counters")
        if found:
            return found
    raise RuntimeError(f"no counters: {done.stdout}{done.stderr}")


def growth(uroce, pid, before):
    """How much the counters grew, once they no longer change."""
    last = None
    for _ in range(50):
        now = counters(uroce, pid)
        if now == last:
            break
        last = now
        time.sleep(0.2)
    return {name: value - before[name] for name, value in last.items() if value != before[name]}


def check(grown, sent):
    """Every frame is counted, once, under a fitting name."""
    # Frames that are not RoCE come from the kernel at the other end, which announces itself now and then.
    drops = {name: value for name, value in grown.items()
             if name.startswith("rx_drop_") and name != "rx_drop_not_roce" or name == "rx_icrc_encapsulated"}
    problems = []
    if sum(drops.values()) != sum(sent.values()):
        problems.append(f"{sum(sent.values())} bad frames were sent, {sum(drops.values())} drops counted")
    if drops.get("rx_drop_no_qp", 0) < sent["no_qp"] + sent["damaged"]:
        problems.append(f"{sent['no_qp'] + sent['damaged']} frames were for QPs that do not exist")
    if drops.get("rx_drop_not_for_us", 0) < sent["elsewhere"]:
        problems.append(f"{sent['elsewhere']} frames were for another address")
    if grown.get("arp_rx", 0) < 4 or grown.get("nd_rx", 0) < 1 or grown.get("echo_replies", 0) < 2:
        problems.append("ARP, neighbour discovery or ping are not counted")
    return problems + ([f"counted: {drops}"] if problems else [])


def run(uroce, seed):
    with VethWire() as wire, Children() as children:
        holder = children.start("endpoint", [
            *wire.prefix(0), uroce, "run", "--port", wire.port(0), "--addr", f"{IPV4}/24", "--addr", f"{IPV6}/64", "--addr",
            f"{VLAN_IPV4}/24@{VLAN}", "--", "stdbuf", "-oL", "ibv_asyncwatch"])
        if not holder.wait_for_output("async event FD", 20):
            return ["the endpoint did not start: " + holder.output()]
        show = subprocess.run([*wire.prefix(0), "ip", "link", "show", "wire0"], capture_output=True, text=True, check=True)
        mac = re.search(r"link/ether (\S+)", show.stdout)[1]
        before = counters(uroce, holder.pid)
        stranger = children.start("stranger", [
            *wire.prefix(1), sys.executable, "-B", pathlib.Path(__file__).with_name("stranger.py"), "wire0", mac, IPV4, IPV6,
            VLAN_IPV4, VLAN, seed])
        if not stranger.wait(90) or stranger.exit_code != 0:
            return [f"the stranger (exit {stranger.exit_code}): {stranger.output().strip()}"]
        sent = json.loads(stranger.output().splitlines()[-1])
        if holder.exit_code is not None:
            return [f"the endpoint ended (exit {holder.exit_code}): {holder.output()}"]
        return check(growth(uroce, holder.pid, before), sent)


def main():
    seed = sys.argv[2] if len(sys.argv) > 2 else "4791"
    try:
        problems = run(sys.argv[1], seed)
    except Skip as skip:
        print(f"skipped: {skip}")
        return SKIP
    for line in problems:
        print(f"FAILED (seed {seed}): {line}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
