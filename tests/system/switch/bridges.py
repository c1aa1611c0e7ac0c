"""uroce-switch as a bridge between segments, and between a segment and an interface of the kernel."""

import os
import re
import subprocess
import sys
import tempfile
import time

from lab import Lab, bandwidth_mib
from outputs import check_bandwidth, check_latency, check_pingpong
from session import Failure

PINGPONG_BYTES = 2 * 4096 * 1000
LEFT = ("--port", "shmlan:left", "--addr", "10.77.0.1/24", "--addr", "fd77::1/64")
RIGHT = ("--port", "shmlan:right", "--addr", "10.77.0.2/24", "--addr", "fd77::2/64")
# Five echo requests of the kernel, each waiting for its answer for at most a second.
PING = """
import select, socket, struct, sys
icmp = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
answers = 0
for number in range(5):
    request = struct.pack("!BBHHH", 8, 0, 0xffff - (0x0800 + 0x1234 + number), 0x1234, number)
    icmp.sendto(request, (sys.argv[1], 0))
    while select.select([icmp], [], [], 1)[0]:
        answer = icmp.recv(2048)
        if answer[20] == 0 and answer[24:28] == request[4:]:
            answers += 1
            break
print(answers, "answers")
"""
# Eight seconds and more of retries, during which a switch is restarted on a busy machine.
PATIENT = ("-u", "18")


def expect(condition, text):
    if not condition:
        raise Failure(text)


def expect_none(problems):
    if problems:
        raise Failure("; ".join(problems))


class Segments(Lab):
    """A switch between two segments, `left` at port 0 and `right` at port 1."""

    def __init__(self, tools, *options):
        super().__init__(tools, "--port", "shmlan:left", "--port", "shmlan:right", *options)

    def start_across(self, program, *options, server_run=RIGHT, client_run=LEFT, **more):
        return self.start_pair(program, *options, server_run=server_run, client_run=client_run, **more)

    def expect_no_drops(self):
        for number in range(2):
            drops = {name: value for name, value in self.port(number).items() if name.startswith("drop_") and value != 0}
            expect(not drops, f"port {number} has dropped frames: {drops}")


def pingpong(lab, gid_index, **more):
    """Every received byte is compared. GID 0 is the link-local one, followed by those of --addr."""
    return lab.start_across("ibv_rc_pingpong", "-g", str(gid_index), "-c", **more)


def two_segments(tools):
    """Programs of two segments reach each other, over IPv4 and IPv6; those of one segment do not need the switch."""
    with Segments(tools) as lab:
        for gid_index in (0, 1, 2):
            expect_none(check_pingpong(lab.finish(pingpong(lab, gid_index)), PINGPONG_BYTES))
        pairs = [pingpong(lab, 1, server_run=LEFT, client_run=RIGHT), lab.start_across("ib_write_bw", "-n", "500"),
                 lab.start_across("ib_send_lat", "-n", "300")]
        outputs = [lab.finish(pair) for pair in pairs]
        expect_none(check_pingpong(outputs[0], PINGPONG_BYTES) + check_bandwidth(outputs[1], (65536,)) + check_latency(outputs[2], (2,)))
        lab.expect_no_drops()
        crossed = lab.sum("rx_bytes", (0, 1))
        expect(crossed > 4 * PINGPONG_BYTES + 500 * 65536, f"only {crossed} bytes have crossed the switch")
        expect_none(check_pingpong(lab.finish(pingpong(lab, 1, server_run=LEFT)), PINGPONG_BYTES))
        local = lab.sum("rx_bytes", (0, 1)) - crossed
        expect(local < 10_000, f"{local} bytes of a pair on one segment went through the switch")
        rows = [line.split()[:3] for line in lab.stop_switch().splitlines()]
        for row in (["0", "shmlan:left", "up"], ["1", "shmlan:right", "up"]):
            expect(row in rows, f"the last table has no line {row}")


def faults_between_segments(tools):
    """Rate and faults work as at any port: a pair is slow, loses frames, and ends well."""
    with Segments(tools, "--rate", "1:100M", "--impair", "1:loss 1%") as lab:
        output = lab.finish(lab.start_across("ib_write_bw", "-n", "100"))
        expect_none(check_bandwidth(output, (65536,)))
        megabits = bandwidth_mib(output) * 8 * 1.048576
        expect(megabits < 105, f"{megabits} Mbit/s through a cap of 100")
        expect(lab.port(1)["out_lost"] > 0, "nothing was lost")
        expect_none(check_pingpong(lab.finish(pingpong(lab, 1)), PINGPONG_BYTES))


def killed_between_segments(tools):
    """The switch is killed during a connection and restarted: the connection continues within its retry budget."""
    with Segments(tools) as lab:
        expect_none(check_pingpong(lab.finish(pingpong(lab, 1)), PINGPONG_BYTES))
        pair = lab.start_across("ib_write_bw", "-D", "8", *PATIENT)
        deadline = time.monotonic() + 20
        while lab.port(0)["rx_frames"] < 5000:
            expect(time.monotonic() < deadline, "the pair does not begin")
            time.sleep(0.05)
        lab.switch.signal(9)
        lab.switch.wait(5)
        lab.start_switch()
        deadline = time.monotonic() + 10
        while lab.port(0)["rx_frames"] < 1000:
            expect(pair.client.exit_code is None, "the pair ended before the new switch saw any of it")
            expect(time.monotonic() < deadline, "the pair does not go on")
            time.sleep(0.05)
        lab.finish(pair)
        expect_none(check_pingpong(lab.finish(pingpong(lab, 1)), PINGPONG_BYTES))


def segment_and_interface(tools):
    """A program of a segment, one on an interface, and the kernel's ping."""
    lab = Lab(tools, "--ports", "0", "--port", "shmlan")
    interface = lab.add_host(0)
    lab.options = (*lab.options, "--port", f"net_af_packet0,iface={interface}")
    segment = ("--port", "shmlan", "--addr", "10.78.0.9/24")
    with lab:
        pair = lab.start_pair("ibv_rc_pingpong", "-g", "1", "-c", "-m", "1024", server_run=("--port", "net_af_packet0,iface=eth0"),
                              client_run=segment, hosts=(0, 0))
        expect_none(check_pingpong(lab.finish(pair), PINGPONG_BYTES))
        deadline = time.monotonic() + 10
        while lab.port(0)["peers_lost"] == 0:
            expect(time.monotonic() < deadline, "the switch does not notice that the client has gone")
            time.sleep(0.05)
        # In the same namespace, so that it is the same host as the client was: the kernel remembers its MAC.
        holder = lab.start("holder", ["ibv_asyncwatch"], run_options=segment, host=0)
        expect(holder.wait_for_output("async event FD", 20), "the holder did not start")
        ping = subprocess.run(lab.in_host(0, sys.executable, "-c", PING, "10.78.0.9"), capture_output=True, text=True, check=False)
        expect(ping.returncode == 0 and ping.stdout == "5 answers\n", f"the kernel's pings: {ping.stdout}{ping.stderr}")


def one_segment_twice(tools):
    """That is a loop, and is refused in one line."""
    with tempfile.TemporaryDirectory() as folder:
        result = subprocess.run([tools.switch, "--port", "shmlan:a", "--port", "shmlan:a"], capture_output=True, text=True,
                                check=False, timeout=60, env={**os.environ, "UROCE_RUNTIME_DIR": folder})
    expect(result.returncode > 0 and result.stdout == "" and re.fullmatch(r"uroce-switch: port 'shmlan:a': twice on [^\n]+\n", result.stderr),
           f"exit {result.returncode}, {result.stdout!r} {result.stderr!r}")


def second_way(tools):
    """A second switch between two segments is a loop, and is refused in one line; it may join others beside the
    first."""
    with Segments(tools) as lab:
        again = lambda *ports: subprocess.run([tools.switch, *(word for port in ports for word in ("--port", port))],
                                              capture_output=True, text=True, check=False, timeout=60,
                                              env={**os.environ, **lab.environment})
        result = again("shmlan:right", "shmlan:third", "shmlan:left")
        expect(result.returncode > 0 and result.stdout == "" and re.fullmatch(
            r"uroce-switch: process \d+ \(uroce-switch\) joins shmlan:right and shmlan:left already: [^\n]+\n", result.stderr),
            f"exit {result.returncode}, {result.stdout!r} {result.stderr!r}")
        with Lab(tools, "--port", "shmlan:right", "--port", "shmlan:third", name="other", beside=lab):
            pass
