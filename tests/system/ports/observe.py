#!/usr/bin/env python3
"""What can be seen of an endpoint from outside while it works, and that it costs nothing while it does not.

    observe.py UROCE TEST [PROGRAM]
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SKIP = 77


class Endpoints:
    """Programs on the default port, in a runtime directory of their own."""

    def __init__(self, uroce):
        self.uroce = uroce
        self.directory = tempfile.TemporaryDirectory()
        self.environment = dict(os.environ, UROCE_RUNTIME_DIR=self.directory.name)
        self.environment.pop("UROCE_PORT", None)
        self.running = []

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        for process in self.running:
            process.kill()
            process.wait()
        self.directory.cleanup()

    def start(self, options, *command, **how):
        process = subprocess.Popen(
            [self.uroce, "run", *options, "--", *command],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            **how,
        )
        self.running.append(process)
        return process

    def run(self, *words):
        return subprocess.run(
            [self.uroce, *words], env=self.environment, capture_output=True, text=True, timeout=20, check=False
        )

    def ask(self, *words):
        """What it prints; it has nothing to complain of."""
        result = self.run(*words)
        assert (result.returncode, result.stderr) == (0, ""), result
        return result.stdout

    def stats(self, *words):
        return self.run("stats", *words)

    def wait_for_device(self, process, seconds=20):
        """Until `process` has its device open."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and process.poll() is None:
            if self.stats(str(process.pid)).returncode == 0:
                return
            time.sleep(0.05)
        raise AssertionError(f"no endpoint of process {process.pid}: {process.poll()}")

    def bandwidth_pair(self, seconds, options=()):
        """ib_write_bw for some seconds; returns the client once data flows."""
        port = str(20000 + os.getpid() % 20000)
        server = self.start([], "ib_write_bw", "-p", port, "-D", str(seconds))
        self.wait_for_device(server)
        client = self.start(options, "ib_write_bw", "-p", port, "-D", str(seconds), "127.0.0.1")
        self.wait_for_device(client)
        return server, client


def need(*programs):
    for program in programs:
        if shutil.which(program) is None:
            print(f"skipped: {program} is not installed")
            sys.exit(SKIP)


def counters_move(endpoints):
    """`uroce stats` reads counters and queue pairs of programs that are busy."""
    need("ib_write_bw")
    server, client = endpoints.bandwidth_pair(6)
    sent = []
    deadline = time.monotonic() + 15
    while len(sent) < 2 and time.monotonic() < deadline:
        lines = endpoints.stats("--json", str(client.pid)).stdout.splitlines()
        answers = {}
        for line in lines:
            answers.update(json.loads(line))
        now = answers["/uroce/counters"]["tx_packets"]
        if now > 0 and (not sent or now > sent[-1]):
            sent.append(now)
        time.sleep(0.2)
    assert len(sent) == 2, f"tx_packets did not grow: {sent}"
    assert answers["/uroce/endpoint"]["program"] == "ib_write_bw", answers
    qp = next(value for key, value in answers.items() if key.startswith("/uroce/qp"))
    assert (qp["type"], qp["state"]) == ("RC", "RTS"), qp

    everybody = endpoints.stats()
    assert everybody.returncode == 0, everybody
    listed = re.findall(r"^process (\d+)$", everybody.stdout, re.M)
    assert set(listed) == {str(server.pid), str(client.pid)}, everybody.stdout
    for process in (client, server):
        process.wait(timeout=30)
    assert "no process" in endpoints.stats().stdout


def programs_are_listed(endpoints):
    """`uroce ls`, `qp` and `top` of two programs on a segment, of which one is stopped, and then killed."""
    need("ib_write_bw", "dpdk-telemetry.py")
    ask = lambda *words: json.loads(endpoints.ask(*words, "--json"))
    assert "no process" in endpoints.ask("ls")
    assert ask("ls") == [] and ask("qp") == [] and ask("top", "-n", "1", "-d", "0.1") == []
    server, client = endpoints.bandwidth_pair(30)
    pids = {server.pid, client.pid}
    deadline = time.monotonic() + 15
    busy = {}
    while not (busy.get(client.pid, {}).get("send_mbps", 0) > 1 and busy[server.pid]["receive_mbps"] > 1):
        assert time.monotonic() < deadline, busy
        busy = {each["pid"]: each for each in ask("top", "-n", "1", "-d", "0.3")}
    assert set(busy) == pids, busy
    listed = {each["pid"]: each for each in ask("ls")}
    assert set(listed) == pids, listed
    for each in listed.values():
        assert each["answers"] and each["endpoint"]["program"] == "ib_write_bw" and each["endpoint"]["qps"] == 1, each
    ends = {each["pid"]: each for each in ask("qp")}
    assert ends[server.pid]["dest_qpn"] == ends[client.pid]["qpn"], ends
    assert ends[client.pid]["dest_qpn"] == ends[server.pid]["qpn"], ends
    assert (ends[client.pid]["state"], ends[client.pid]["error"]) == ("RTS", ""), ends
    text = endpoints.ask("qp", str(client.pid))
    assert re.search(rf"^ *{client.pid}  ib_write_bw  0x{ends[client.pid]['qpn']:06x}  RC +RTS ", text, re.M), text
    assert str(server.pid) not in text, text
    assert re.search(rf"^ *{client.pid}  ib_write_bw  shmlan +1 ", endpoints.ask("top", "-n", "1", "-d", "0.1"), re.M)

    told = subprocess.run(["dpdk-telemetry.py", "-f", f"uroce-{client.pid}"], input="/uroce/endpoint\n", text=True, timeout=20,
                          capture_output=True, check=True, env=dict(os.environ, RUNTIME_DIRECTORY=endpoints.directory.name))
    assert f'"pid": {client.pid}' in told.stdout or f'"pid":{client.pid}' in told.stdout, told

    # The client: its server waits for it in patience.
    client.send_signal(signal.SIGSTOP)
    begun = time.monotonic()
    text = endpoints.ask("ls")
    assert time.monotonic() - begun < 4, "it waits a second, however many do not answer"
    assert re.search(rf"^ *{client.pid}  does not answer", text, re.M), text
    assert re.search(rf"^ *{server.pid}  ib_write_bw  shmlan ", text, re.M), text
    assert {each["pid"]: each["answers"] for each in ask("top", "-n", "1")} == {client.pid: False, server.pid: True}
    client.kill()
    client.wait()
    assert client.pid not in [each["pid"] for each in ask("ls")]
    refused = endpoints.run("qp", str(client.pid))
    assert (refused.returncode, refused.stderr) == (2, f"uroce: process {client.pid} has no open uroce device\n"), refused


def stuck_engine(endpoints, program):
    """`uroce stats` answers while a thread of the program does not come out of the engine."""
    process = endpoints.start([], program, stdin=subprocess.PIPE)
    line = process.stdout.readline()
    if "userfaultfd" in line:
        print("skipped: " + line.strip())
        sys.exit(SKIP)
    assert line == "posting\n", line
    deadline = time.monotonic() + 10
    text = ""
    while "stuck: a thread of the program has been inside" not in text:
        assert time.monotonic() < deadline, text
        result = endpoints.stats("--all", str(process.pid))
        assert result.returncode == 0, result
        text = result.stdout
    assert re.search(r"^ +program +stuck_engine$", text, re.M), text
    assert re.search(r"^ +tx_packets +\d+$", text, re.M), text
    output, _ = process.communicate(timeout=20)  # ends its input: the page comes
    assert (process.returncode, output) == (0, "done\n"), (process.returncode, output)


def capture_is_readable(endpoints):
    """A capture is readable by tshark, complete, and in order."""
    need("ibv_rc_pingpong", "tshark")
    files = [os.path.join(endpoints.directory.name, name) for name in ("server.pcapng", "client.pcapng")]
    port = str(20000 + os.getpid() % 20000)
    command = ["ibv_rc_pingpong", "-g", "1", "-p", port, "-n", "100", "-s", "8192"]
    server = endpoints.start(["--pcap", files[0]], *command)
    endpoints.wait_for_device(server)
    time.sleep(0.3)
    client = endpoints.start(["--pcap", files[1]], *command, "127.0.0.1")
    for process in (client, server):
        output, _ = process.communicate(timeout=30)
        assert process.returncode == 0, output
    for file in files:
        fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "infiniband.bth.opcode", "-e", "frame.packet_flags_direction"]
        run = subprocess.run(["tshark", "-r", file, *fields], capture_output=True, text=True, timeout=60, check=True)
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        times = [float(row[0]) for row in rows]
        assert times == sorted(times), "times go back"
        assert abs(times[-1] - time.time()) < 120, f"the time of day is {time.time()}, not {times[-1]}"
        # 8192 bytes are two packets of 4096: 100 messages each way are 200 SEND FIRST (0) and as many SEND LAST (2).
        opcodes = [row[1] for row in rows]
        assert opcodes.count("0") == 200 and opcodes.count("2") == 200, {o: opcodes.count(o) for o in set(opcodes)}
        assert len({row[2] for row in rows}) == 2, "both directions are marked"


def idle_costs_nothing(endpoints):
    """An open device that nobody uses needs next to no processor time: the default port, and one of DPDK's."""
    need("ibv_asyncwatch")
    processes = [endpoints.start(options, "ibv_asyncwatch") for options in ([], ["--port", "memif"])]
    for process in processes:
        endpoints.wait_for_device(process)
    time.sleep(0.5)

    def used_seconds(process):
        with open(f"/proc/{process.pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    before, start = [used_seconds(process) for process in processes], time.monotonic()
    time.sleep(4)
    elapsed = time.monotonic() - start
    shares = [(used_seconds(process) - used) / elapsed for process, used in zip(processes, before)]
    print("idle: " + ", ".join(f"{100 * share:.2f}" for share in shares) + " % of a processor")
    assert max(shares) < 0.02


TESTS = [counters_move, programs_are_listed, stuck_engine, capture_is_readable, idle_costs_nothing]


def main():
    uroce, name, *more = sys.argv[1:]
    test = next(t for t in TESTS if t.__name__ == name)
    with Endpoints(uroce) as endpoints:
        test(endpoints, *more)


if __name__ == "__main__":
    main()
