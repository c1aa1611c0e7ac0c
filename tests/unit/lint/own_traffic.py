#!/usr/bin/env python3
"""own_traffic.py UROCE UROCE_LINT UROCE_SWITCH: what unmodified programs send over uroce, captured at both ends, breaks
no rule: over a segment, where both have one address, over models of the card, and with selective repeat through a switch
that loses frames.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "system" / "programs"))

from children import Children, free_tcp_port, wait_for_listener  # noqa: E402

SKIP = 77
PROGRAMS = [
    ("ibv_rc_pingpong", "-n", "200"),
    ("ibv_uc_pingpong", "-n", "200"),
    ("ibv_ud_pingpong", "-n", "200", "-s", "1024"),
    ("ibv_srq_pingpong", "-n", "200"),
    ("ib_write_bw", "-n", "500", "-q", "2", "-b"),
    ("ib_read_bw", "-n", "300", "-q", "2", "-b"),
    ("ib_send_bw", "-n", "300", "-s", "5000"),
    ("ib_atomic_bw", "-n", "300"),
    ("ibv_xsrq_pingpong", "-g", "1", "-n", "100"),
    ("ib_send_bw", "-c", "XRC", "-n", "300", "-s", "5000"),
    ("ib_read_bw", "-c", "XRC", "-n", "300"),
    ("ib_atomic_bw", "-c", "XRC", "-n", "300"),
]


# Servers and clients that connect with rdma_cm: the captured connection management keeps its rules, too. With as few
# packets as possible: rdma_xclient sends one message, so there are only REQ, REP, RTU, SEND, Acknowledge, DREQ and
# DREP.
CONNECTING = [
    (("rping", "-s", "-a", "0.0.0.0", "-C", "5"), ("rping", "-c", "-a", "127.0.0.1", "-C", "5"), 40),
    (("ucmatose", "-c", "4", "-C", "4"), ("ucmatose", "-c", "4", "-C", "4", "-s", "127.0.0.1"), 50),
    (("udaddy",), ("udaddy", "-s", "127.0.0.1"), 12),
    (("rdma_xserver", "-c", "x"), ("rdma_xclient", "-c", "x", "-s", "127.0.0.1"), 7),
]
LISTENS = "of RDMA port space"  # what the shim logs about a listener, with UROCE_LOG=info


ON_CARDS = [PROGRAMS[0], PROGRAMS[4], PROGRAMS[7]]

LOSSY = [
    ("ib_write_bw", "-n", "300"),
    ("ib_read_bw", "-n", "300"),
    ("ib_send_bw", "-n", "300"),
]


def run_line(uroce, wire, capture, command):
    recovery = "auto" if wire.startswith("switch:") else "go-back-n"
    return [uroce, "run", "--port", wire, "--loss-recovery", recovery, "--pcap", capture, "--", *command]


def run_pair(uroce, directory, command, wire):
    """Returns the two captures, or what went wrong."""
    captures = [directory / f"{command[0]}-{side}.pcapng" for side in ("server", "client")]
    port = free_tcp_port()
    command = [*command, "-p", str(port)]
    with Children() as children:
        server = children.start("server", run_line(uroce, wire, captures[0], command))
        if not wait_for_listener(server, port, 30):
            return None, f"the server does not listen\n{children.report()}"
        client = children.start("client", run_line(uroce, wire, captures[1], [*command, "127.0.0.1"]))
        for child in (client, server):
            if not child.wait(60) or child.exit_code != 0:
                return None, f"the {child.name} has not ended, or not well\n{children.report()}"
    return captures, ""


def run_connecting(uroce, directory, programs, wire):
    """The same for a pair that needs no other connection."""
    captures = [directory / f"{programs[0][0]}-{side}.pcapng" for side in ("server", "client")]
    environment = dict(os.environ, UROCE_LOG="info")
    with Children() as children:
        server = children.start("server", run_line(uroce, wire, captures[0], programs[0]), environment)
        if not server.wait_for_output(LISTENS, 30):
            return None, f"the server does not listen\n{children.report()}"
        client = children.start("client", run_line(uroce, wire, captures[1], programs[1]))
        for child in (client, server):
            if not child.wait(60) or child.exit_code != 0:
                return None, f"the {child.name} has not ended, or not well\n{children.report()}"
    return captures, ""


def judge(lint, capture, least=100):
    result = subprocess.run([lint, "--json", capture], capture_output=True, text=True, check=False)
    report = json.loads(result.stdout)
    for finding in report["findings"][:20]:
        print(f"{capture.name}:{finding['frame']}: {finding['severity']}: {finding['text']} [{finding['rule']}]")
    if result.returncode != 0 or report["warnings"] != 0 or report["packets"] < least:
        print(f"{capture.name}: exit status {result.returncode}, {report['warnings']} warnings, {report['packets']} packets of at least {least}")
        return 0, False
    return report["packets"], True


def main():
    uroce, lint, switch_program = sys.argv[1:]
    programs = [command[0] for command in PROGRAMS] + [server[0] for server, _, _ in CONNECTING]
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        print(f"skipped: {', '.join(missing)} not installed")
        return SKIP
    packets, fine = 0, True
    switch_name = f"lint-{os.getpid()}"
    switch_line = [switch_program, "--name", switch_name, "--ports", "2", "--rate", "1G", "--impair", "loss 1%"]
    switch = subprocess.Popen(switch_line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        with tempfile.TemporaryDirectory() as name:
            runs = [(command, f"shmlan:lint-{os.getpid()}") for command in PROGRAMS]
            runs += [(command, f"net_mqnic0,card=inline,wire=shm:l{os.getpid()}-{command[0]}") for command in ON_CARDS]
            runs += [(command, f"switch:{switch_name}") for command in LOSSY]
            for server, client, least in CONNECTING:
                captures, why = run_connecting(uroce, pathlib.Path(name), (server, client), f"shmlan:lint-{os.getpid()}")
                if captures is None:
                    print(f"{' '.join(server)}: {why}")
                    return 1
                for capture in captures:
                    count, clean = judge(lint, capture, least)
                    packets += count
                    fine = fine and clean
                    capture.unlink()
            for command, wire in runs:
                captures, why = run_pair(uroce, pathlib.Path(name), list(command), wire)
                if captures is None:
                    print(f"{' '.join(command)}: {why}")
                    return 1
                for capture in captures:
                    count, clean = judge(lint, capture)
                    packets += count
                    fine = fine and clean
                    capture.unlink()
    finally:
        switch.terminate()
        switch.wait()
    print(f"{len(runs) + len(CONNECTING)} programs, {packets} packets")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
